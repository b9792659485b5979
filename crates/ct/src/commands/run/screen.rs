//! What is shown of a run that goes on: on a terminal a table that is kept up to date, elsewhere a line for each sample.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ct_eval::{EvalSpec, Progress, SampleKey, SampleOutcome};

use crate::error::{CliError, Kind};
use crate::output::{self, Live, Printer};

/// Names of samples take no more of a line.
const NAME_CHARS_MAX: usize = 56;

pub(super) struct Screen {
    printer: Printer,
    live: Live,
    /// The log, once it is there.
    log: Option<PathBuf>,
    epochs: u64,
    samples_max: usize,
    running: BTreeMap<SampleKey, Running>,
    samples: usize,
    done: usize,
    failed: usize,
    /// Of finished samples.
    tokens: u64,
    cost_usd: Option<f64>,
    /// The time that finished samples took, one after another.
    took: Duration,
}

/// A sample at work.
struct Running {
    began: Instant,
    step: u64,
    tokens: u64,
    cost_usd: Option<f64>,
}

impl Screen {
    pub(super) fn new(printer: &Printer, spec: &EvalSpec) -> Self {
        Self {
            printer: printer.clone(),
            live: printer.live(),
            log: None,
            epochs: spec.epochs,
            samples_max: spec.samples_max.max(1),
            running: BTreeMap::new(),
            samples: 0,
            done: 0,
            failed: 0,
            tokens: 0,
            cost_usd: None,
            took: Duration::ZERO,
        }
    }

    /// Puts a line where it stays.
    pub(super) fn say(&self, text: &str) {
        if self.live.is_visible() {
            self.live.above(text);
        } else {
            self.printer.note(text);
        }
    }

    /// What is told of an end in a hurry.
    pub(super) fn at_once(&self, how: &str) -> CliError {
        let error = CliError::new(Kind::Partial, how);
        let Some(log) = &self.log else { return error };
        let log = log.display();
        error
            .hint(format!("what was finished is in the log; make a run of it with: ct runs make {log}"))
            .hint(format!("or run what is missing with: ct run eval --resume {log}"))
    }

    /// Says why the process ends now.
    pub(super) fn fail(&self, error: &CliError) {
        self.printer.error(error);
    }

    /// Takes everything off.
    pub(super) fn clear(&mut self) {
        self.live.clear();
    }

    /// Brings times up to date.
    pub(super) fn tick(&mut self) {
        if self.live.is_visible() {
            let keys: Vec<SampleKey> = self.running.keys().cloned().collect();
            keys.iter().for_each(|key| self.line(key));
            self.total();
        }
    }

    pub(super) fn show(&mut self, progress: Progress) {
        match progress {
            Progress::Started { log, samples, kept } => {
                self.samples = samples;
                let kept = if kept > 0 { format!(", {kept} are there already") } else { String::new() };
                let samples = output::plural(samples as u64, "sample", "samples");
                self.say(&format!("{samples} to run{kept}; log: {}", log.display()));
                self.log = Some(log);
            }
            Progress::Sandbox { environment, about } => {
                self.printer.detail(&format!("{environment}: {about}"))
            }
            Progress::SampleStarted { sample } => {
                let running = Running { began: Instant::now(), step: 0, tokens: 0, cost_usd: None };
                self.running.insert(sample.clone(), running);
                self.line(&sample);
            }
            Progress::Step { sample, actions, tokens, cost_usd } => {
                let Some(running) = self.running.get_mut(&sample) else { return };
                (running.step, running.tokens, running.cost_usd) = (actions, tokens, cost_usd);
                self.line(&sample);
            }
            Progress::LogWhole { .. } => return,
            Progress::SampleEnded { sample, outcome } => self.ended(&sample, &outcome),
        }
        self.total();
    }

    /// A sample's line of the table.
    fn line(&mut self, sample: &SampleKey) {
        let Some(running) = self.running.get(sample).filter(|_| self.live.is_visible()) else { return };
        let name = self.name(sample);
        let width = self.running.keys().map(|key| self.name(key).chars().count()).max().unwrap_or(0);
        let width = width.min(NAME_CHARS_MAX);
        let mut shown: String = name.chars().take(NAME_CHARS_MAX).collect();
        if shown.len() < name.len() {
            shown.pop();
            shown.push('…');
        }
        let step = if running.step == 0 { "starting".to_owned() } else { format!("step {}", running.step) };
        let spent = spent(running.tokens, running.cost_usd);
        let took = output::duration(milliseconds(running.began.elapsed()));
        self.live.line(&name, &format!("{shown:<width$}  {step:<9} {took:>7}{spent}"));
    }

    fn ended(&mut self, sample: &SampleKey, outcome: &SampleOutcome) {
        let name = self.name(sample);
        self.live.done(&name);
        let took = self.running.remove(sample).map_or(Duration::ZERO, |running| running.began.elapsed());
        self.took += took;
        self.done += 1;
        self.failed += usize::from(outcome.error.is_some());
        self.tokens += outcome.tokens;
        if let Some(cost) = outcome.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
        let actions = output::plural(outcome.actions, "action", "actions");
        let took = output::duration(milliseconds(took));
        let spent = spent(outcome.tokens, outcome.cost_usd);
        let (done, samples) = (self.done, self.samples);
        self.say(&format!("[{done}/{samples}] {name}: {}, {actions}, {took}{spent}", verdict(outcome)));
    }

    fn name(&self, sample: &SampleKey) -> String {
        if self.epochs > 1 { format!("{} ({})", sample.id, sample.epoch) } else { sample.id.clone() }
    }

    fn total(&self) {
        if !self.live.is_visible() {
            return;
        }
        let running = self.running.values();
        let tokens = self.tokens + running.clone().map(|running| running.tokens).sum::<u64>();
        let known = running.filter_map(|running| running.cost_usd).chain(self.cost_usd).reduce(|a, b| a + b);
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let left = self.left().map_or_else(String::new, |left| {
            format!(", about {} left", output::duration(milliseconds(left)))
        });
        let (done, samples) = (self.done, self.samples);
        self.live.total(&format!("{done}/{samples} samples{failed}{}{left}", spent(tokens, known)));
    }

    /// The time that is left when those to come take as long as those that are done took.
    fn left(&self) -> Option<Duration> {
        let mean = self.took.checked_div(u32::try_from(self.done).ok()?)?;
        let running = self.running.values().map(|running| mean.saturating_sub(running.began.elapsed()));
        let waiting = self.samples.saturating_sub(self.done + self.running.len());
        let work = running.clone().sum::<Duration>() + mean.saturating_mul(u32::try_from(waiting).ok()?);
        let side_by_side = u32::try_from(self.samples_max.min(self.samples).max(1)).ok()?;
        // It ends with the last of them.
        Some((work / side_by_side).max(running.max().unwrap_or_default()))
            .filter(|_| self.done < self.samples)
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Tokens and what they cost; nothing where no model was asked.
fn spent(tokens: u64, usd: Option<f64>) -> String {
    let cost = usd.map(|usd| format!(", {}", output::usd(Some(usd), false))).unwrap_or_default();
    if tokens == 0 { cost } else { format!(", {} tokens{cost}", output::count(tokens)) }
}

/// What came of a sample, in a few words.
fn verdict(outcome: &SampleOutcome) -> String {
    if let Some(error) = &outcome.error {
        return format!("failed: {error}");
    }
    let score = |score: Option<f64>| score.map_or_else(|| "unscored".to_owned(), |score| format!("{score}"));
    let mut text = format!("main {}", score(outcome.main));
    if outcome.attacked {
        text = format!("{text}, side {}", score(outcome.side));
    }
    if let Some(limit) = outcome.limit {
        text = format!("{text}, ended by the {limit} limit");
    }
    text
}
