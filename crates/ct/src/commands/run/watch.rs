//! A run as it goes on: the runtime it goes on in, and Ctrl-C.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ct_eval::{Destination, EvalSpec, Progress, Summary};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::eval::failed;
use super::live::Watcher;
use super::screen::Screen;
use crate::error::CliError;
use crate::output::Printer;

/// How often what is shown is brought up to date.
const TICK: Duration = Duration::from_millis(500);
/// How long threads may take to end.
const SHUTDOWN: Duration = Duration::from_secs(3);

/// Shows a run.
pub(super) struct Watch {
    screen: Arc<Mutex<Screen>>,
}

impl Watch {
    pub(super) fn new(printer: &Printer, spec: &EvalSpec) -> Self {
        let screen = Screen::new(printer, spec);
        Self { screen: Arc::new(Mutex::new(screen)) }
    }

    /// Runs it to its end. The first Ctrl-C ends it cleanly, the second at once; so does one that comes when it is over
    /// and the run is being made.
    pub(super) fn run(
        &mut self,
        spec: EvalSpec,
        destination: &Destination,
        watcher: Option<Watcher>,
    ) -> Result<Summary, CliError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|_| CliError::internal("the threads of the run cannot be started"))?;
        let (stop, mut stopped) = unbounded_channel();
        let (screen, growing) = (Arc::clone(&self.screen), watcher.clone());
        listen(stop, move || {
            if let Some(growing) = &growing {
                growing.discard();
            }
            let screen = lock(&screen);
            let error = screen.at_once("stopped before the run was made");
            screen.fail(&error);
            std::process::exit(error.kind().exit_code().into());
        });
        let (cancel, cancelled) = watch::channel(false);
        let screen = Arc::clone(&self.screen);
        let progress = move |progress: Progress| {
            if let (Progress::LogWhole { log }, Some(watcher)) = (&progress, &watcher) {
                watcher.look(log);
            }
            lock(&screen).show(progress);
        };
        let result = runtime.block_on(async {
            let run = ct_eval::run(spec, destination, cancelled, Arc::new(progress));
            tokio::pin!(run);
            let mut ticks = tokio::time::interval(TICK);
            loop {
                tokio::select! {
                    _ = ticks.tick() => lock(&self.screen).tick(),
                    result = &mut run => break result.map_err(|error| failed(error, destination)),
                    Some(()) = stopped.recv() => {
                        if cancel.send_replace(true) {
                            break Err(lock(&self.screen).at_once("stopped at once"));
                        }
                        let text = "stopping: what is finished is kept; once more stops at once";
                        lock(&self.screen).say(text);
                    }
                }
            }
        });
        stopped.close();
        let result = match stopped.try_recv() {
            // It came when the run was over already.
            Ok(()) => Err(lock(&self.screen).at_once("stopped before the run was made")),
            Err(_) => result,
        };
        // Sandboxes that are still there after a second Ctrl-C go now.
        runtime.shutdown_timeout(SHUTDOWN);
        result
    }

    /// Takes everything off the screen.
    pub(super) fn clear(&self) {
        lock(&self.screen).clear();
    }
}

fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells of each Ctrl-C and each request of the system to end, for as long as the process lives: once they are listened
/// for, they do nothing by themselves. When nobody is told any more, `after` is what they do.
fn listen(stop: UnboundedSender<()>, after: impl Fn() + Send + 'static) {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        // Without it, a Ctrl-C ends the process as it always does.
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            #[cfg(unix)]
            {
                use tokio::signal::unix::{SignalKind, signal};
                let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
                let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if stop.send(()).is_err() {
                        after();
                    }
                }
            }
            #[cfg(not(unix))]
            while tokio::signal::ctrl_c().await.is_ok() {
                if stop.send(()).is_err() {
                    after();
                }
            }
        });
    });
}
