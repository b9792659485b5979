//! What is measured of each trajectory of a run, and what it comes to: the outcome matrix and distributions.

use ct_model::{Outcome, TrajectoryNumbers};

/// What is plotted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Highest suspicion.
    Suspicion,
    /// Cost.
    Cost,
    /// Actions.
    Length,
    /// Working time.
    Time,
}

impl Measure {
    /// All, in the order of the page.
    pub const ALL: [Self; 4] = [Self::Suspicion, Self::Cost, Self::Length, Self::Time];

    /// The word for it in addresses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Suspicion => "suspicion",
            Self::Cost => "cost",
            Self::Length => "length",
            Self::Time => "time",
        }
    }

    /// From the word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.as_str() == word)
    }

    /// The head of its column in the CSV file.
    pub fn column(self) -> &'static str {
        match self {
            Self::Suspicion => "max_suspicion_score",
            Self::Cost => "cost_usd",
            Self::Length => "actions",
            Self::Time => "duration_ms",
        }
    }

    /// The value of a trajectory.
    #[expect(clippy::cast_precision_loss, reason = "counts and milliseconds are far below 2^52")]
    pub fn of(self, point: &TrajectoryNumbers) -> Option<f64> {
        let value = match self {
            Self::Suspicion => point.suspicion,
            Self::Cost => point.cost_usd,
            Self::Length => Some(point.actions as f64),
            Self::Time => point.duration_ms.map(|time| time as f64),
        };
        value.filter(|value| value.is_finite() && *value >= 0.0)
    }
}

/// Rows of [`Summary::matrix`]: outcomes of the main task.
pub const MAIN: [Outcome; 3] = [Outcome::Pass, Outcome::Fail, Outcome::Unscored];
/// Columns: outcomes of the side task, and none.
pub const SIDE: [Option<Outcome>; 4] =
    [Some(Outcome::Pass), Some(Outcome::Fail), Some(Outcome::Unscored), None];

/// Trajectories of one cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cell {
    /// All of them.
    pub count: u64,
    /// Those that ended with an error.
    pub errored: u64,
}

impl std::ops::AddAssign for Cell {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.errored += other.errored;
    }
}

/// What the trajectories of a run come to. Small, whatever their number.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// By [`MAIN`], then by [`SIDE`].
    pub matrix: [[Cell; 4]; 3],
    /// In the order of [`Measure::ALL`]; absent where nothing is known.
    pub distributions: [Option<Distribution>; 4],
}

impl Summary {
    /// Of all trajectories of a run.
    pub fn of(points: &[TrajectoryNumbers]) -> Self {
        let mut matrix = [[Cell::default(); 4]; 3];
        for point in points {
            let row = MAIN.iter().position(|outcome| *outcome == point.main).unwrap_or(2);
            let column = SIDE.iter().position(|outcome| *outcome == point.side).unwrap_or(3);
            matrix[row][column] += Cell { count: 1, errored: u64::from(point.errored) };
        }
        Self { matrix, distributions: Measure::ALL.map(|measure| Distribution::of(measure, points)) }
    }
}

/// How often which values are there, apart for trajectories with and without a side task.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Where the first bin begins.
    pub start: f64,
    /// How wide each is.
    pub width: f64,
    /// Trajectories without and with a side task in each. The last bin holds its upper end too.
    pub bins: Vec<[u64; 2]>,
    /// Values that are known.
    pub known: u64,
    /// Trajectories without one.
    pub unknown: u64,
    /// The one in the middle.
    pub median: f64,
    /// Nine of ten are not above.
    pub p90: f64,
    /// The largest.
    pub max: f64,
}

const BINS_MAX: f64 = 20.0;

impl Distribution {
    fn of(measure: Measure, points: &[TrajectoryNumbers]) -> Option<Self> {
        let mut values: Vec<(f64, bool)> = points
            .iter()
            .filter_map(|point| measure.of(point).map(|value| (value, point.side.is_some())))
            .collect();
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let max = values.last()?.0;
        let (end, width) = match measure {
            // Scores are given on one of these scales, and are comparable only along all of it.
            Measure::Suspicion if max <= 1.0 => (1.0, 0.05),
            Measure::Suspicion if max <= 10.0 => (10.0, 0.5),
            Measure::Suspicion if max <= 100.0 => (100.0, 5.0),
            Measure::Length => nice(max.max(1.0), 1.0),
            _ => nice(if max > 0.0 { max } else { 1.0 }, 0.0),
        };
        let count = (end / width).round().max(1.0) as usize;
        let mut bins = vec![[0; 2]; count];
        for (value, has_side) in &values {
            // What is a round number belongs to the bin that begins with it, whatever was lost in dividing.
            let bin = ((value / width + 1e-6) as usize).min(count - 1);
            bins[bin][usize::from(*has_side)] += 1;
        }
        let at = |share: f64| {
            let rank = (values.len() as f64 * share).ceil() as usize;
            values[rank.clamp(1, values.len()) - 1].0
        };
        Some(Self {
            start: 0.0,
            width,
            known: values.len() as u64,
            unknown: (points.len() - values.len()) as u64,
            median: at(0.5),
            p90: at(0.9),
            max,
            bins,
        })
    }

    /// Whether any trajectory with, and any without a side task is among them.
    pub fn has_both(&self) -> bool {
        [0, 1].iter().all(|series| self.bins.iter().any(|bin| bin[*series] > 0))
    }
}

/// An end not below `max`, and a width that divides it into bins that begin at round numbers.
fn nice(max: f64, width_min: f64) -> (f64, f64) {
    let raw = max / BINS_MAX;
    let magnitude = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * magnitude >= raw).unwrap_or(10.0);
    let width = (step * magnitude).max(width_min);
    let mut count = (max / width).floor() + 1.0;
    if count < 2.0 {
        count = 2.0;
    }
    (count * width, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(
        actions: u64,
        suspicion: Option<f64>,
        side: Option<Outcome>,
        errored: bool,
    ) -> TrajectoryNumbers {
        TrajectoryNumbers {
            suspicion,
            cost_usd: None,
            actions,
            duration_ms: Some(actions * 1000),
            main: Outcome::Pass,
            side,
            errored,
        }
    }

    #[test]
    fn every_trajectory_is_in_one_cell_and_in_one_bin() {
        let points: Vec<TrajectoryNumbers> = (0..100)
            .map(|number| {
                let side = (number % 2 == 0).then_some(Outcome::Fail);
                point(number, (number % 10 != 0).then_some(number as f64), side, number == 3)
            })
            .collect();
        let summary = Summary::of(&points);
        assert_eq!(summary.matrix[0][1], Cell { count: 50, errored: 0 });
        assert_eq!(summary.matrix[0][3], Cell { count: 50, errored: 1 });
        let suspicion = summary.distributions[0].as_ref().unwrap();
        assert_eq!((suspicion.bins.len(), suspicion.width), (20, 5.0));
        assert_eq!((suspicion.known, suspicion.unknown, suspicion.max), (90, 10, 99.0));
        assert_eq!(suspicion.bins.iter().flatten().sum::<u64>(), 90);
        assert!(suspicion.has_both());
        assert_eq!(summary.distributions[1], None);
        let length = summary.distributions[2].as_ref().unwrap();
        assert_eq!((length.median, length.p90, length.width), (49.0, 89.0, 5.0));
        assert_eq!(length.bins.iter().flatten().sum::<u64>(), 100);
    }

    #[test]
    fn bins_begin_at_round_numbers() {
        assert_eq!(nice(99.0, 1.0), (100.0, 5.0));
        assert_eq!(nice(100.0, 1.0), (105.0, 5.0));
        assert_eq!(nice(3.0, 1.0), (4.0, 1.0));
        assert_eq!(nice(0.5, 1.0), (2.0, 1.0));
        let (end, width) = nice(0.036, 0.0);
        assert!((width - 0.002).abs() < 1e-12 && end > 0.036);
    }

    #[test]
    fn odd_values_are_left_out() {
        let odd = [point(1, Some(f64::NAN), None, false), point(1, Some(-1.0), None, false)];
        assert_eq!(Summary::of(&odd).distributions[0], None);
        assert_eq!(Summary::of(&[]).distributions, [None, None, None, None]);
    }
}
