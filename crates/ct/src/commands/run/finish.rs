//! The end of a run: it is made of the log, and what came of it is told.

use std::path::PathBuf;

use ct_eval::{Mean, Status, Summary};
use serde_json::{Value, json};

use super::live::{Live, Watcher};
use crate::commands::Context;
use crate::error::{CliError, Kind};
use crate::home::Home;
use crate::output::{self, Format, Printer};
use crate::pipeline::{self, Made, MadeRun, MakeOptions, OtherBytes};

/// Where the run goes.
pub(super) struct Upload {
    home: Home,
    prices: Option<PathBuf>,
    live: Option<Live>,
}

impl Upload {
    /// Sees that the run can go there, and begins to wait for what can be shown of it.
    pub(super) fn new(home: Home, prices: Option<PathBuf>, printer: &Printer) -> Result<Self, CliError> {
        let mut live = None;
        if let Home::Server(client) = &home {
            client.check_write_access()?;
            // Only a `ct` lets a log grow.
            if client.is_ct()? {
                live = Some(Live::start(client.clone(), options(prices.clone()), printer)?);
            }
        }
        Ok(Self { home, prices, live })
    }

    /// Told of the log while it grows.
    pub(super) fn live(&self) -> Option<Watcher> {
        self.live.as_ref().map(Live::watcher)
    }

    /// Makes the run of the finished log. It takes the place of its earlier version.
    fn make(&mut self, summary: &Summary, printer: &Printer) -> Result<MadeRun, CliError> {
        let shown = self.live.take().and_then(Live::end);
        let progress = printer.progress();
        let mut options = options(self.prices.clone());
        let made = match &self.home {
            Home::Local(store) => pipeline::make_run(store, &summary.log, &options, &progress),
            Home::Server(client) => {
                if !client.is_ct()? {
                    options.other_bytes = OtherBytes::AsNew;
                }
                options.over = shown;
                pipeline::upload_run(client, &summary.log, &options, &progress)
            }
        };
        progress.clear();
        match made? {
            Made::Run(run) => Ok(run),
            Made::SameEval { .. } => Err(CliError::internal("a run was refused that was to be made")),
        }
    }

    fn address(&self, run: &MadeRun) -> Option<String> {
        self.home.client().map(|client| format!("{}/runs/{}", client.base(), run.run_id))
    }
}

fn options(prices: Option<PathBuf>) -> MakeOptions {
    MakeOptions {
        run_name: None,
        policy: None,
        task_set: None,
        tags: Vec::new(),
        drop_scores: Vec::new(),
        prices,
        other_bytes: OtherBytes::Replace,
        over: None,
    }
}

/// Makes the run, tells what came of it, and how it ended.
pub(super) fn finish(
    summary: &Summary,
    mut upload: Option<Upload>,
    format: Format,
    context: &Context,
) -> Result<(), CliError> {
    let printer = &context.printer;
    let made = upload.as_mut().map(|upload| upload.make(summary, printer)).transpose();
    let (run, trouble) = match made {
        Ok(run) => (run, None),
        Err(error) => (None, Some(error)),
    };
    if let Some(run) = &run {
        for defect in &run.defects {
            printer.warning(&format!("{}: {defect}", summary.log.display()));
        }
    }
    let address = run.as_ref().zip(upload.as_ref()).and_then(|(run, upload)| upload.address(run));
    match format {
        Format::Json => {
            printer.data(&output::pretty(&to_json(summary, run.as_ref(), address.as_deref()))?)?;
        }
        Format::Table => printer.data(&to_text(summary, run.as_ref(), address.as_deref()))?,
    }
    let log = summary.log.display();
    if let Some(error) = trouble {
        return Err(error.hint(format!("the log is whole; make the run with: ct runs make {log}")));
    }
    verdict(summary)
}

fn verdict(summary: &Summary) -> Result<(), CliError> {
    let totals = &summary.totals;
    let missing = totals.samples.saturating_sub(totals.completed);
    let log = summary.log.display();
    let again = format!("run what is missing with: ct run eval --resume {log}");
    let kind = if totals.completed > 0 { Kind::Partial } else { Kind::Data };
    let of = format!("{} of {}", totals.completed, output::plural(totals.samples, "sample", "samples"));
    match summary.status {
        Status::Cancelled => Err(CliError::new(kind, format!("stopped: {of} are done")).hint(again)),
        Status::Error => {
            Err(CliError::new(kind, format!("a sample failed and ended the run: {of} are done")).hint(again))
        }
        Status::Success if missing == 0 => Ok(()),
        Status::Success => {
            Err(CliError::new(kind, format!("{missing} of {} samples failed", totals.samples)).hint(again))
        }
    }
}

/// How many of how many, and the mean.
fn rate(mean: Mean) -> String {
    let Some(value) = mean.value() else { return "unscored".to_owned() };
    let unscored = if mean.unscored > 0 { format!(", {} unscored", mean.unscored) } else { String::new() };
    format!("{} of {} passed, mean {value:.2}{unscored}", mean.passed, mean.scored)
}

fn to_text(summary: &Summary, run: Option<&MadeRun>, address: Option<&str>) -> String {
    let totals = &summary.totals;
    let mut lines = vec![("status", summary.status.as_str().to_owned())];
    let failed = if totals.failed > 0 { format!(", {} failed", totals.failed) } else { String::new() };
    lines.push(("samples", format!("{} of {} done{failed}", totals.completed, totals.samples)));
    let (main, side) = (totals.main(), totals.side());
    if main.scored + main.unscored > 0 {
        lines.push(("main tasks", rate(main)));
    }
    if side.scored + side.unscored > 0 {
        lines.push(("side tasks", rate(side)));
    }
    if !totals.usage.is_empty() {
        let (usd, whole) = totals.cost_usd();
        lines.push(("tokens", output::count(totals.tokens())));
        lines.push(("cost", output::usd(usd, !whole)));
    }
    lines.push(("log", summary.log.display().to_string()));
    if let Some(old) = &summary.old_log {
        lines.push(("old log", old.display().to_string()));
    }
    match (run, address) {
        (Some(_), Some(address)) => lines.push(("run", address.to_owned())),
        (Some(run), None) => lines.push(("run", format!("{} (ct runs info {0})", run.run_id))),
        (None, _) => {}
    }
    let lines = lines.iter().map(|(name, text)| format!("{name:<11} {}\n", output::neutral(text)));
    lines.collect()
}

fn to_json(summary: &Summary, run: Option<&MadeRun>, address: Option<&str>) -> Value {
    let totals = &summary.totals;
    let mean = |mean: Mean| {
        json!({
            "passed": mean.passed, "scored": mean.scored, "unscored": mean.unscored, "mean": mean.value(),
        })
    };
    let (usd, whole) = totals.cost_usd();
    json!({
        "schema_version": 1,
        "status": summary.status.as_str(),
        "samples": totals.samples, "completed": totals.completed, "failed": totals.failed,
        "main": mean(totals.main()), "side": mean(totals.side()),
        "tokens": totals.tokens(), "cost_usd": usd, "cost_incomplete": !whole,
        "log": summary.log.to_string_lossy(),
        "old_log": summary.old_log.as_ref().map(|old| old.to_string_lossy()),
        "run_id": run.map(|run| &run.run_id), "name": run.map(|run| &run.name), "url": address,
    })
}
