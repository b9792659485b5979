//! A run as it goes on: the runtime it goes on in, what is shown of it, and Ctrl-C.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ct_eval::{Destination, EvalError, EvalSpec, Progress, SampleKey, SampleOutcome, Summary};
use tokio::sync::watch;

use super::live::Watcher;
use crate::output::{self, Live, Printer};

/// How long threads may take to end.
const SHUTDOWN: Duration = Duration::from_secs(3);

/// Shows a run.
pub(super) struct Watch {
    screen: Arc<Mutex<Screen>>,
}

impl Watch {
    pub(super) fn new(printer: &Printer, spec: &EvalSpec) -> Self {
        let screen = Screen {
            printer: printer.clone(),
            live: printer.live(),
            epochs: spec.epochs,
            samples_max: spec.samples_max.max(1),
            running: BTreeMap::new(),
            samples: 0,
            done: 0,
            failed: 0,
            tokens: 0,
            cost_usd: None,
            began: Instant::now(),
        };
        Self { screen: Arc::new(Mutex::new(screen)) }
    }

    /// Runs it to its end. The first Ctrl-C ends it cleanly, the second at once.
    pub(super) fn run(
        &mut self,
        spec: EvalSpec,
        destination: &Destination,
        watcher: Option<Watcher>,
    ) -> Result<Summary, EvalError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|_| EvalError::Internal("the threads of the run cannot be started"))?;
        let (cancel, cancelled) = watch::channel(false);
        let screen = Arc::clone(&self.screen);
        let progress = move |progress: Progress| {
            if let (Progress::LogWhole { log }, Some(watcher)) = (&progress, &watcher) {
                watcher.look(log);
            }
            screen.lock().unwrap_or_else(PoisonError::into_inner).show(progress);
        };
        let shown = Arc::clone(&self.screen);
        let result = runtime.block_on(async {
            let run = ct_eval::run(spec, destination, cancelled, Arc::new(progress));
            tokio::pin!(run);
            let mut stops = 0;
            loop {
                tokio::select! {
                    result = &mut run => break result,
                    () = interrupted() => {
                        stops += 1;
                        if stops > 1 {
                            break Err(EvalError::Cancelled);
                        }
                        cancel.send_replace(true);
                        let text = "stopping: what is finished is kept; once more stops at once";
                        shown.lock().unwrap_or_else(PoisonError::into_inner).say(text);
                    }
                }
            }
        });
        // Sandboxes that are still there after a second Ctrl-C go now.
        runtime.shutdown_timeout(SHUTDOWN);
        result
    }

    /// Takes everything off the screen.
    pub(super) fn clear(&self) {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).live.clear();
    }
}

/// Ctrl-C, or a request of the system to end.
async fn interrupted() {
    #[cfg(unix)]
    {
        let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
        if let Ok(mut terminate) = terminate {
            tokio::select! {
                _ = terminate.recv() => return,
                result = tokio::signal::ctrl_c() => if result.is_ok() { return },
            }
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

struct Screen {
    printer: Printer,
    live: Live,
    epochs: u64,
    samples_max: usize,
    running: BTreeMap<SampleKey, (Instant, u64, Option<f64>)>,
    samples: usize,
    done: usize,
    failed: usize,
    /// Of finished samples.
    tokens: u64,
    cost_usd: Option<f64>,
    began: Instant,
}

impl Screen {
    fn say(&self, text: &str) {
        if self.live.is_visible() {
            self.live.above(text);
        } else {
            self.printer.note(text);
        }
    }

    fn show(&mut self, progress: Progress) {
        match progress {
            Progress::Started { log, samples, kept } => {
                self.samples = samples;
                self.began = Instant::now();
                let kept = if kept > 0 { format!(", {kept} are there already") } else { String::new() };
                let samples = output::plural(samples as u64, "sample", "samples");
                self.say(&format!("{samples} to run{kept}; log: {}", log.display()));
            }
            Progress::Sandbox { environment, about } => {
                self.printer.detail(&format!("{environment}: {about}"))
            }
            Progress::SampleStarted { sample } => {
                let name = self.name(&sample);
                self.live.line(&name, &format!("{name}  starting"));
                self.running.insert(sample, (Instant::now(), 0, None));
            }
            Progress::Step { sample, actions, tokens, cost_usd } => {
                let name = self.name(&sample);
                let Some(running) = self.running.get_mut(&sample) else { return };
                (running.1, running.2) = (tokens, cost_usd);
                let took = output::duration(milliseconds(running.0));
                let actions = output::plural(actions, "action", "actions");
                let line =
                    format!("{name}  {actions}, {} tokens{}, {took}", output::count(tokens), cost(cost_usd));
                self.live.line(&name, &line);
            }
            Progress::LogWhole { .. } => return,
            Progress::SampleEnded { sample, outcome } => self.ended(&sample, &outcome),
        }
        self.total();
    }

    fn ended(&mut self, sample: &SampleKey, outcome: &SampleOutcome) {
        let name = self.name(sample);
        self.live.done(&name);
        let began = self.running.remove(sample).map_or_else(Instant::now, |running| running.0);
        self.done += 1;
        self.failed += usize::from(outcome.error.is_some());
        self.tokens += outcome.tokens;
        if let Some(cost) = outcome.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
        let actions = output::plural(outcome.actions, "action", "actions");
        let took = output::duration(milliseconds(began));
        let line = format!(
            "[{}/{}] {name}: {}, {actions}, {} tokens{}, {took}",
            self.done,
            self.samples,
            verdict(outcome),
            output::count(outcome.tokens),
            cost(outcome.cost_usd),
        );
        self.say(&line);
    }

    fn name(&self, sample: &SampleKey) -> String {
        if self.epochs > 1 { format!("{} ({})", sample.id, sample.epoch) } else { sample.id.clone() }
    }

    fn total(&self) {
        if !self.live.is_visible() {
            return;
        }
        let running = self.running.values();
        let tokens = self.tokens + running.clone().map(|(_, tokens, _)| tokens).sum::<u64>();
        let known = running.filter_map(|(_, _, cost)| *cost).chain(self.cost_usd).reduce(|a, b| a + b);
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let left = match self.done {
            0 => String::new(),
            done => {
                let whole = milliseconds(self.began);
                let parallel = self.samples_max.min(self.samples) as i64;
                let left = self.samples.saturating_sub(done) as i64;
                // Samples of like length: what is left takes as long as what is done did.
                let estimate = whole * left / done.max(1) as i64;
                let least = whole / (done as i64).max(parallel).max(1);
                format!(", {} left", output::duration(if left > 0 { estimate.max(least) } else { 0 }))
            }
        };
        self.live.total(&format!(
            "{}/{} samples{failed}, {} tokens{}{left}",
            self.done,
            self.samples,
            output::count(tokens),
            cost(known)
        ));
    }
}

fn milliseconds(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}

fn cost(usd: Option<f64>) -> String {
    usd.map(|usd| format!(", {}", output::usd(Some(usd), false))).unwrap_or_default()
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
