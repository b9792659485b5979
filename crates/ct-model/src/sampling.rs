//! Draws trajectories without replacement into parts that do not overlap. The same trajectories, sizes and seed give
//! the same parts on every machine, from every store, in whatever order the trajectories come.
//!
//! # The draw
//!
//! Everything is ordered by SHA-256 over the seed and the trajectory's id; the first part takes the first so many,
//! the next part the next. In Python:
//!
//! ```python
//! import hashlib
//! def draw(ids, counts, seed):
//!     order = sorted(ids, key=lambda id: hashlib.sha256(f"ct-sample-1\0{seed}\0item\0{id}".encode()).digest())
//!     parts, at = [], 0
//!     for count in counts:
//!         parts.append(order[at : at + count])
//!         at += count
//!     return parts, order[at:]  # the second is the rest
//! ```
//!
//! Percentages are counts first: the k-th percentage ends at ⌊total × (sum of the first k) + ½⌋.
//!
//! With groups, groups are what is drawn and counted: `item` is `group` and the id is the group's name above, and a
//! part has whole groups. A trajectory for which no group is recorded stands alone and is drawn by its id.
//!
//! With strata, the counts of each part (and of the rest, kept or not) in each stratum are the exact shares, rounded
//! up or down by controlled rounding, so that the sizes of parts and strata are exact and no trajectory is likelier
//! than another to be in a part. Cells of the table are taken stratum by stratum (by their values, nothing recorded
//! first), in each the parts in order. A cell whose remainder closes a cycle with earlier open ones is shifted with
//! them, itself up and the next down or the other way round, until one of the cycle is whole. The k-th such decision,
//! from 0, is for up when the first 16 bytes of SHA-256 over `ct-sample-1\0<seed>\0round\0<k>`, as a big-endian
//! number modulo (up + down), are below down; up and down are how far either shift would go, in units of 1 / total.
//! Then each stratum is ordered and cut as above, and each part is put in that order as a whole.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Field, TrajectoryDocument, TrajectoryId};

mod manifest;
mod round;
mod size;

pub use manifest::{DrawnFrom, Manifest, ManifestPart, ManifestShare, ManifestStratum, Source};
pub use size::{PARTS_MAX, Size, SizeError, Sizes};

/// Names the algorithm above. Another way of drawing gets another name.
pub const ALGORITHM: &str = "ct-sample-1";

/// What strata are made of unless told otherwise.
pub const STRATA_DEFAULT: [Field; 3] = [Field::Environment, Field::MainTask, Field::SideTask];

/// What shall be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// How much.
    pub sizes: Sizes,
    /// What strata are made of; empty for a draw without strata.
    pub stratify_by: Vec<Field>,
    /// What is never split over parts.
    pub group_by: Option<Field>,
    /// Decides the draw.
    pub seed: u64,
}

/// The values of the stratifying fields; `None` where nothing is recorded.
pub type Key = Vec<Option<String>>;

/// A trajectory that can be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its id.
    pub id: TrajectoryId,
    /// Its stratum. All the same for a draw without strata.
    pub stratum: Key,
    /// Its group, if any.
    pub group: Option<String>,
    /// Whether the sample ended by an error.
    pub errored: bool,
}

impl Item {
    /// Takes from a document what the request needs.
    pub fn new(document: &TrajectoryDocument, request: &Request) -> Result<Self, SamplingError> {
        let Some(id) = document.trajectory_id.clone() else {
            return Err(SamplingError::NoId {
                sample: document.eval_sample_id.clone(),
                epoch: document.epoch,
            });
        };
        Ok(Self {
            id,
            stratum: request.stratify_by.iter().map(|field| field.text(document)).collect(),
            group: request.group_by.as_ref().and_then(|field| field.text(document)),
            errored: document.error.is_some(),
        })
    }
}

/// What is counted: trajectories, or groups of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Each trajectory for itself.
    Trajectories,
    /// Groups, and trajectories without a group.
    Groups,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Trajectories => "trajectories",
            Unit::Groups => "groups",
        })
    }
}

/// Why nothing was drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SamplingError {
    /// Nothing to draw from.
    #[error("no trajectories to draw from")]
    NoTrajectories,
    /// More than there is.
    #[error("asked for {} {unit} ({}), and there are {available}", .counts.iter().sum::<u128>(), sum(.sizes, .counts))]
    TooMany {
        /// The sizes asked for.
        sizes: Vec<Size>,
        /// What each comes to.
        counts: Vec<u128>,
        /// How many there are.
        available: usize,
        /// Of what.
        unit: Unit,
    },
    /// More than 100 %.
    #[error("asked for {} of all, which is more than 100%", Percent(*.share))]
    SharesOverWhole {
        /// The sum, in billionths of a percent.
        share: u128,
    },
    /// One id twice.
    #[error("trajectory {id} is listed twice")]
    Duplicate {
        /// The id.
        id: TrajectoryId,
    },
    /// A document that has no id yet.
    #[error("sample {sample:?} epoch {epoch} has no trajectory id")]
    NoId {
        /// The sample's id.
        sample: String,
        /// Its epoch.
        epoch: u64,
    },
    /// A group cannot be whole and its strata kept apart.
    #[error(
        "group {group:?} has trajectories in more than one stratum ({} and {}); group by something that does not \
         cross strata, or stratify by less",
        label(.first), label(.second)
    )]
    GroupAcrossStrata {
        /// The group.
        group: String,
        /// A stratum it is in.
        first: Key,
        /// Another.
        second: Key,
    },
}

/// What the user should hear about a draw that went well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Strata of which some part's exact share is below 1, so that the part may have nothing of them.
    ThinStrata {
        /// How many.
        thin: usize,
        /// Of how many.
        strata: usize,
    },
    /// A part came out empty.
    EmptyPart {
        /// Its name.
        name: String,
    },
    /// Trajectories for which nothing is recorded to group by; each stands alone.
    Ungrouped {
        /// How many.
        trajectories: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::ThinStrata { thin, strata } => write!(
                f,
                "{thin} of {strata} strata are too thin: a part's exact share of them is below 1, so it may have none"
            ),
            Warning::EmptyPart { name } => write!(f, "{name} is empty"),
            Warning::Ungrouped { trajectories: 1 } => {
                f.write_str("1 trajectory has nothing recorded to group by and stands alone")
            }
            Warning::Ungrouped { trajectories } => {
                write!(f, "{trajectories} trajectories have nothing recorded to group by; each stands alone")
            }
        }
    }
}

/// An exact number, in lowest terms. Shown as `7/3` or `2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    /// `numerator / denominator`; 0 / 0 is 0.
    fn new(numerator: u128, denominator: u128) -> Self {
        let (mut a, mut b) = (numerator, denominator);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        if denominator == 0 {
            return Self { numerator: 0, denominator: 1 };
        }
        Self { numerator: numerator / a, denominator: denominator / a }
    }

    /// The nearest floating-point number.
    pub fn value(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    fn is_below_one(self) -> bool {
        self.numerator < self.denominator
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => self.numerator.fmt(f),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

/// The outcome of a draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw {
    /// In the order asked for; the rest, if kept, is last.
    pub parts: Vec<Part>,
    /// In order of their keys; empty for a draw without strata.
    pub strata: Vec<Stratum>,
    /// What sizes and shares count.
    pub unit: Unit,
    /// What was drawn from.
    pub population: Population,
    /// What the user should hear.
    pub warnings: Vec<Warning>,
}

/// What was drawn from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Population {
    /// How many units.
    pub units: usize,
    /// How many trajectories.
    pub trajectories: usize,
    /// How many of them errored.
    pub errored: usize,
    /// SHA-256 of the ids: sorted, each followed by a line feed.
    pub ids_sha256: String,
}

/// One part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// `part-1`, `part-2`, …, `rest`.
    pub name: String,
    /// Whether it is what the others left.
    pub is_rest: bool,
    /// What was asked for; `None` for the rest.
    pub size: Option<Size>,
    /// How many units it has: what the size comes to.
    pub units: usize,
    /// Its trajectories in the order drawn.
    pub ids: Vec<TrajectoryId>,
    /// How many of them errored.
    pub errored: usize,
}

/// One stratum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stratum {
    /// Its values of the stratifying fields.
    pub key: Key,
    /// How many units it has.
    pub units: usize,
    /// What each part got of it, in the order of the parts.
    pub shares: Vec<Share>,
    /// Whether some part's exact share is below 1 (the rest does not count).
    pub is_thin: bool,
}

/// What one part got of one stratum, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// What it should have.
    pub exact: Ratio,
    /// What it has: `exact`, rounded down or up.
    pub got: usize,
}

/// Draws the parts.
pub fn draw(items: &[Item], request: &Request) -> Result<Draw, SamplingError> {
    let unit = if request.group_by.is_some() { Unit::Groups } else { Unit::Trajectories };
    let is_stratified = !request.stratify_by.is_empty();
    let sorted = sorted(items)?;
    let strata = strata(units(&sorted, request)?);
    let columns: Vec<u64> = strata.iter().map(|(_, units)| units.len() as u64).collect();
    let available: usize = strata.iter().map(|(_, units)| units.len()).sum();

    // The last row is what is left, whether it is kept or not.
    let mut rows = rows(request.sizes.parts(), available, unit)?;
    let kept = if request.sizes.keep_rest() { rows.len() + 1 } else { rows.len() };
    rows.push(available as u64 - rows.iter().sum::<u64>());

    let mut decisions = 0_u64;
    let cells = round::round(&rows, &columns, |up, down| {
        let hash = hash(request.seed, "round", &decisions.to_string());
        decisions += 1;
        let number = hash[..16].iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
        number % (u128::from(up) + u128::from(down)) < u128::from(down)
    });

    let mut members: Vec<Vec<&Drawable<'_>>> = vec![Vec::new(); rows.len()];
    for (column, (_, units)) in strata.iter().enumerate() {
        let mut at = 0;
        for (row, members) in members.iter_mut().enumerate() {
            let until = at + cells[row][column] as usize;
            members.extend(&units[at..until]);
            at = until;
        }
    }
    members.truncate(kept);
    let mut parts = Vec::with_capacity(kept);
    for (row, mut members) in members.into_iter().enumerate() {
        members.sort_unstable_by_key(|unit| (unit.hash, unit.name));
        let size = request.sizes.parts().get(row).copied();
        let drawn = || members.iter().flat_map(|unit| &unit.items);
        parts.push(Part {
            name: if size.is_some() { format!("part-{}", row + 1) } else { "rest".to_owned() },
            is_rest: size.is_none(),
            size,
            units: members.len(),
            ids: drawn().map(|item| item.id.clone()).collect(),
            errored: drawn().filter(|item| item.errored).count(),
        });
    }

    let mut report = Vec::new();
    for (column, (key, units)) in strata.iter().enumerate().filter(|_| is_stratified) {
        let share = |row: usize| Share {
            exact: Ratio::new(u128::from(rows[row]) * u128::from(columns[column]), available as u128),
            got: cells[row][column] as usize,
        };
        let shares: Vec<Share> = (0..kept).map(share).collect();
        let asked = shares.iter().zip(&parts).filter(|(_, part)| !part.is_rest && part.units > 0);
        let is_thin = asked.clone().any(|(share, _)| share.exact.is_below_one());
        report.push(Stratum { key: key.to_vec(), units: units.len(), shares, is_thin });
    }

    let warnings = warnings(items, request, &parts, &report);
    let population = Population {
        units: available,
        trajectories: items.len(),
        errored: items.iter().filter(|item| item.errored).count(),
        ids_sha256: ids_sha256(items.iter().map(|item| &item.id)),
    };
    Ok(Draw { parts, strata: report, unit, population, warnings })
}

/// What is drawn as one.
struct Drawable<'i> {
    hash: [u8; 32],
    /// The group's name or the trajectory's id.
    name: &'i str,
    stratum: &'i [Option<String>],
    /// Sorted by id.
    items: Vec<&'i Item>,
}

/// The items by id, each once.
fn sorted(items: &[Item]) -> Result<Vec<&Item>, SamplingError> {
    if items.is_empty() {
        return Err(SamplingError::NoTrajectories);
    }
    let mut sorted: Vec<&Item> = items.iter().collect();
    sorted.sort_unstable_by_key(|item| &item.id);
    match sorted.windows(2).find(|pair| pair[0].id == pair[1].id) {
        Some(pair) => Err(SamplingError::Duplicate { id: pair[0].id.clone() }),
        None => Ok(sorted),
    }
}

fn units<'i>(sorted: &[&'i Item], request: &Request) -> Result<Vec<Drawable<'i>>, SamplingError> {
    let is_stratified = !request.stratify_by.is_empty();
    let unit = |kind, name, first: &'i Item| Drawable {
        hash: hash(request.seed, kind, name),
        name,
        stratum: if is_stratified { &first.stratum } else { &[] },
        items: vec![first],
    };
    let mut units = Vec::new();
    let mut groups: BTreeMap<&str, Drawable<'i>> = BTreeMap::new();
    for item in sorted {
        let Some(name) = item.group.as_deref().filter(|_| request.group_by.is_some()) else {
            units.push(unit("item", item.id.as_str(), item));
            continue;
        };
        match groups.get_mut(name) {
            None => {
                groups.insert(name, unit("group", name, item));
            }
            Some(group) if is_stratified && group.stratum != item.stratum => {
                return Err(SamplingError::GroupAcrossStrata {
                    group: name.to_owned(),
                    first: group.stratum.to_vec(),
                    second: item.stratum.clone(),
                });
            }
            Some(group) => group.items.push(item),
        }
    }
    units.extend(groups.into_values());
    Ok(units)
}

/// The units of each stratum in the order they are drawn in.
fn strata<'i>(units: Vec<Drawable<'i>>) -> Vec<(&'i [Option<String>], Vec<Drawable<'i>>)> {
    let mut strata: BTreeMap<&[Option<String>], Vec<Drawable<'_>>> = BTreeMap::new();
    for unit in units {
        strata.entry(unit.stratum).or_default().push(unit);
    }
    for units in strata.values_mut() {
        units.sort_unstable_by_key(|unit| (unit.hash, unit.name));
    }
    strata.into_iter().collect()
}

fn rows(sizes: &[Size], available: usize, unit: Unit) -> Result<Vec<u64>, SamplingError> {
    let shares =
        sizes.iter().filter_map(|size| if let Size::Share(share) = size { Some(*share) } else { None });
    let share = shares.map(u128::from).sum();
    if share > u128::from(size::WHOLE) {
        return Err(SamplingError::SharesOverWhole { share });
    }
    let counts = size::counts(sizes, available);
    if counts.iter().sum::<u128>() > available as u128 {
        return Err(SamplingError::TooMany { sizes: sizes.to_vec(), counts, available, unit });
    }
    Ok(counts.into_iter().map(|count| count as u64).collect())
}

fn warnings(items: &[Item], request: &Request, parts: &[Part], strata: &[Stratum]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let thin = strata.iter().filter(|stratum| stratum.is_thin).count();
    if thin > 0 {
        warnings.push(Warning::ThinStrata { thin, strata: strata.len() });
    }
    let trajectories = items.iter().filter(|item| item.group.is_none()).count();
    if request.group_by.is_some() && trajectories > 0 {
        warnings.push(Warning::Ungrouped { trajectories });
    }
    let empty = parts.iter().filter(|part| part.units == 0);
    warnings.extend(empty.map(|part| Warning::EmptyPart { name: part.name.clone() }));
    warnings
}

fn hash(seed: u64, kind: &str, name: &str) -> [u8; 32] {
    Sha256::digest(format!("{ALGORITHM}\0{seed}\0{kind}\0{name}")).into()
}

/// SHA-256 of the ids: sorted, each followed by a line feed.
fn ids_sha256<'i>(ids: impl Iterator<Item = &'i TrajectoryId>) -> String {
    let mut ids: Vec<&TrajectoryId> = ids.collect();
    ids.sort_unstable();
    let mut hasher = Sha256::new();
    for id in ids {
        hasher.update(id.as_str());
        hasher.update("\n");
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A stratum's key as text: `web / crawl / -`.
pub fn label(key: &[Option<String>]) -> String {
    let values: Vec<&str> = key.iter().map(|value| value.as_deref().unwrap_or("-")).collect();
    values.join(" / ")
}

struct Percent(u128);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        size::write_percent(f, self.0)
    }
}

/// `10 + 6 for 25%`, for the error message.
fn sum(sizes: &[Size], counts: &[u128]) -> String {
    let terms: Vec<String> = sizes
        .iter()
        .zip(counts)
        .map(|(size, count)| match size {
            Size::Count(_) => count.to_string(),
            Size::Share(_) => format!("{count} for {size}"),
        })
        .collect();
    terms.join(" + ")
}

#[cfg(test)]
mod tests;
