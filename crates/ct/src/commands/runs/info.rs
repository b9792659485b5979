//! `ct runs info`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use clap::Args;
use ct_model::{LogRef, Outcome, OutcomeCounts, Revision, RunRecord, TaskCounts, TrajectoryDocument};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::commands::{Context, target};
use crate::error::CliError;
use crate::home::{Home, Run};
use crate::output::{self, Align, Format, Printer, Table};

const EXAMPLES: &str = "\
Examples:
  ct runs info 3fa94c1b
  ct runs info https://viewer.example/runs/3fa94c1b0d2e4f60817263544a5b6c7d
  ct runs info 3fa94c1b --format json | jq .cost_by_role";

/// Show everything about a run.
///
/// Rates name their denominator: trajectories that were scored. Those that nothing decided are counted apart.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InfoArgs {
    /// The run: an id, the beginning of one, or its address
    #[arg(value_name = "RUN")]
    run: String,
    /// How to print it: table or json
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

/// Prints the run.
pub(super) fn info(arguments: &InfoArgs, context: &Context) -> Result<(), CliError> {
    let home = context.home_of(&arguments.run)?;
    let run = target::run_with_deleted(&home, &arguments.run)?;
    let mut known = home.run(&run)?;
    let address = home.log_url(&known.record);
    let mut sums = Sums::default();
    home.documents(&run, &mut |document| {
        sums.add(&document, known.record.header.policy.as_deref());
        ControlFlow::Continue(())
    })?;
    if !known.is_whole() {
        known.record.counts = sums.counts;
        context
            .printer
            .note("this server tells only the header of a run: status, hash and history are not known");
    }
    let address = address.as_deref();
    match arguments.format {
        Format::Json => context.printer.data(&output::pretty(&document(&home, &known, address, &sums)?)?),
        Format::Table => context.printer.data(&page(&context.printer, &known, address, &sums)),
    }
}

/// What is summed over the trajectories of a run.
#[derive(Debug, Default)]
struct Sums {
    trajectories: u64,
    counts: OutcomeCounts,
    tasks: BTreeMap<(Role, String), Group>,
    policies: BTreeMap<String, PolicyGroup>,
    environments: BTreeMap<String, u64>,
    authors: BTreeMap<String, u64>,
    models: BTreeMap<String, Tokens>,
    roles: BTreeMap<String, Cost>,
    errors: BTreeMap<String, u64>,
    monitors: BTreeMap<String, Monitor>,
    time: Time,
    actions: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    Main,
    Side,
}

/// Outcomes of one task.
#[derive(Debug, Default, Serialize)]
struct Group {
    trajectories: u64,
    pass: u64,
    fail: u64,
    unscored: u64,
    errored: u64,
}

/// Outcomes under one policy.
#[derive(Debug, Default, Serialize)]
struct PolicyGroup {
    trajectories: u64,
    main: TaskCounts,
    side: TaskCounts,
    errored: u64,
}

/// Tokens of one model.
#[derive(Debug, Default, Serialize)]
struct Tokens {
    trajectories: u64,
    input_tokens: u64,
    output_tokens: u64,
    input_tokens_cache_read: u64,
    input_tokens_cache_write: u64,
    reasoning_tokens: u64,
    total_tokens: u64,
}

/// Cost of one role.
#[derive(Debug, Default, Serialize)]
struct Cost {
    /// Null when nothing is known.
    total_usd: Option<f64>,
    incomplete: bool,
    by_model: BTreeMap<String, ModelCost>,
}

#[derive(Debug, Default, Serialize)]
struct ModelCost {
    usd: Option<f64>,
    incomplete: bool,
}

/// What one monitor said.
#[derive(Debug, Default, Serialize)]
struct Monitor {
    trajectories: u64,
    scored: u64,
    /// Mean of the highest score of each scored trajectory.
    mean_max: Option<f64>,
    max: Option<f64>,
    unscored: u64,
    #[serde(skip)]
    sum: f64,
}

/// When the trajectories ran.
#[derive(Debug, Default, Serialize)]
struct Time {
    first_started_ms: Option<i64>,
    last_completed_ms: Option<i64>,
    timed: u64,
    working_ms: i64,
    longest_ms: Option<i64>,
}

impl Sums {
    fn add(&mut self, document: &TrajectoryDocument, run_policy: Option<&str>) {
        let (main, side) = (Outcome::of(document.main_task_success), Outcome::of(document.side_task_success));
        let errored = u64::from(document.error.is_some());
        let has_side = document.side_task.is_some();
        self.trajectories += 1;
        self.counts.errored += errored;
        count(&mut self.counts.main, true, main);
        count(&mut self.counts.side, has_side || side != Outcome::Unscored, side);
        self.actions += document.number_of_actions;
        if let Some(id) = document.main_task.as_ref().and_then(|task| task.id.clone()) {
            self.tasks.entry((Role::Main, id)).or_default().add(main, errored);
        }
        if let Some(id) = document.side_task.as_ref().and_then(|task| task.id.clone()) {
            self.tasks.entry((Role::Side, id)).or_default().add(side, errored);
        }
        let policy = document.metadata.get("policy").and_then(Value::as_str).or(run_policy).unwrap_or("-");
        let group = self.policies.entry(policy.to_owned()).or_default();
        group.trajectories += 1;
        group.errored += errored;
        count(&mut group.main, document.main_task.is_some() || main != Outcome::Unscored, main);
        count(&mut group.side, has_side || side != Outcome::Unscored, side);
        if let Some(id) = document.environment.as_ref().and_then(|environment| environment.id.clone()) {
            *self.environments.entry(id).or_default() += 1;
        }
        for author in &document.authors {
            *self.authors.entry(author.clone()).or_default() += 1;
        }
        if let Some(error) = &document.error {
            *self
                .errors
                .entry(error.error_type.clone().unwrap_or_else(|| "other".to_owned()))
                .or_default() += 1;
        }
        for (model, usage) in document.token_usage.iter().flatten() {
            self.models.entry(model.clone()).or_default().add(usage);
        }
        for (role, cost) in document.cost_by_role.iter().flatten() {
            let sum = self.roles.entry(role.clone()).or_default();
            sum.total_usd = plus(sum.total_usd, cost.total_usd);
            for (model, usd) in &cost.by_model {
                let by_model = sum.by_model.entry(model.clone()).or_default();
                by_model.usd = plus(by_model.usd, *usd);
                by_model.incomplete |= usd.is_none();
                sum.incomplete |= usd.is_none();
            }
        }
        for (name, said) in document.monitors.iter().flatten() {
            self.monitors.entry(name.clone()).or_default().add(said.max, said.unscored);
        }
        if let Some(timing) = &document.timing {
            self.time.add(timing.time_started, timing.time_completed, timing.time_to_run);
        }
    }
}

fn count(counts: &mut TaskCounts, applies: bool, outcome: Outcome) {
    match outcome {
        _ if !applies => counts.not_applicable += 1,
        Outcome::Pass => counts.pass += 1,
        Outcome::Fail => counts.fail += 1,
        Outcome::Unscored => counts.unscored += 1,
    }
}

fn plus(sum: Option<f64>, more: Option<f64>) -> Option<f64> {
    match (sum, more) {
        (None, more) => more,
        (sum, None) => sum,
        (Some(sum), Some(more)) => Some(sum + more),
    }
}

impl Group {
    fn add(&mut self, outcome: Outcome, errored: u64) {
        self.trajectories += 1;
        self.errored += errored;
        match outcome {
            Outcome::Pass => self.pass += 1,
            Outcome::Fail => self.fail += 1,
            Outcome::Unscored => self.unscored += 1,
        }
    }
}

impl Tokens {
    fn add(&mut self, usage: &Value) {
        let number = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
        self.trajectories += 1;
        for (sum, name) in [
            (&mut self.input_tokens, "input_tokens"),
            (&mut self.output_tokens, "output_tokens"),
            (&mut self.input_tokens_cache_read, "input_tokens_cache_read"),
            (&mut self.input_tokens_cache_write, "input_tokens_cache_write"),
            (&mut self.reasoning_tokens, "reasoning_tokens"),
            (&mut self.total_tokens, "total_tokens"),
        ] {
            // A log can claim any number.
            *sum = sum.saturating_add(number(name));
        }
    }
}

impl Monitor {
    fn add(&mut self, max: Option<f64>, unscored: u64) {
        self.trajectories += 1;
        self.unscored += unscored;
        if let Some(max) = max {
            self.scored += 1;
            self.sum += max;
            self.mean_max = Some(self.sum / self.scored as f64);
            self.max = Some(self.max.map_or(max, |known| known.max(max)));
        }
    }
}

impl Time {
    fn add(&mut self, started: Option<i64>, completed: Option<i64>, ran: Option<i64>) {
        let earlier = |known: Option<i64>, new: i64| Some(known.map_or(new, |known| known.min(new)));
        let later = |known: Option<i64>, new: i64| Some(known.map_or(new, |known| known.max(new)));
        if let Some(started) = started {
            self.first_started_ms = earlier(self.first_started_ms, started);
        }
        if let Some(completed) = completed {
            self.last_completed_ms = later(self.last_completed_ms, completed);
        }
        if let Some(ran) = ran {
            self.timed += 1;
            self.working_ms = self.working_ms.saturating_add(ran);
            self.longest_ms = later(self.longest_ms, ran);
        }
    }
}

/// The header, with further keys for what the header has no field for.
fn document(home: &Home, run: &Run, address: Option<&str>, sums: &Sums) -> Result<Value, CliError> {
    let record = &run.record;
    let failed = |error: &serde_json::Error| CliError::internal("failed to write JSON").because(error);
    let header = serde_json::to_value(&record.header).map_err(|error| failed(&error))?;
    let mut document = match header {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let tasks: Vec<Value> = sums
        .tasks
        .iter()
        .map(|((role, id), group)| {
            json!({
                "role": role, "task_id": id, "trajectories": group.trajectories, "pass": group.pass,
                "fail": group.fail, "unscored": group.unscored, "errored": group.errored,
            })
        })
        .collect();
    let log_json = |log: &LogRef| {
        let path = home.log_path(log);
        json!({"hash": log.hash, "size_bytes": log.size_bytes, "format": log.format, "path": path})
    };
    let revision = |of: &Revision| {
        let log = log_json(&of.log);
        json!({"revision": of.revision, "log": log, "made_at": of.made_at, "replaced_at": of.replaced_at})
    };
    let revisions: Vec<Value> = record.revisions.iter().map(revision).collect();
    let more = json!({
        "schema_version": 1,
        "eval_log_url": address,
        "status": record.status,
        "outcomes": record.counts,
        "outcomes_by_task": tasks,
        "outcomes_by_policy": sums.policies,
        "environments": sums.environments,
        "authors": sums.authors,
        "errors": sums.errors,
        "monitors": sums.monitors,
        "actions_count": sums.actions,
        "token_usage": sums.models,
        "cost_incomplete": record.cost_incomplete,
        "cost_by_role": sums.roles,
        "timing": sums.time,
        "log": run.log.as_ref().map(log_json),
        "eval_id": record.eval_id,
        "eval_created": record.eval_created,
        "source": record.source,
        "defects": record.defects,
        "revisions": revisions,
        "deleted_at": record.deleted_at,
        "version": record.version,
    });
    if let Value::Object(more) = more {
        document.extend(more);
    }
    Ok(Value::Object(document))
}

/// Text in sections.
struct Page<'a> {
    printer: &'a Printer,
    text: String,
}

impl Page<'_> {
    fn section(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let title = title.to_uppercase();
        self.text.push_str(&if self.printer.color() {
            format!("\x1b[1m{title}\x1b[0m\n")
        } else {
            title + "\n"
        });
    }

    fn line(&mut self, name: &str, value: &str) {
        self.text.push_str(&format!("  {name:<14} {}\n", output::neutral(value)));
    }

    fn table(&mut self, table: Table) {
        for line in table.finish().lines() {
            self.text.push_str(&format!("  {line}\n"));
        }
    }
}

fn page(printer: &Printer, run: &Run, address: Option<&str>, sums: &Sums) -> String {
    let record = &run.record;
    let mut page = Page { printer, text: String::new() };
    header_section(&mut page, record);
    outcome_sections(&mut page, record, sums);
    score_sections(&mut page, record, sums);
    cost_sections(&mut page, record, sums);
    time_section(&mut page, sums);
    log_section(&mut page, run, address);
    page.text
}

fn header_section(page: &mut Page<'_>, record: &RunRecord) {
    let header = &record.header;
    let or_dash = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    page.section("Run");
    page.line("id", header.run_id.as_ref().map_or("-", |id| id.as_str()));
    page.line("name", &header.name);
    if header.name != record.recorded.name {
        page.line("name in log", &record.recorded.name);
    }
    page.line("policy", &or_dash(&header.policy));
    page.line("task set", &or_dash(&header.task_set));
    page.line("tags", &if header.tags.is_empty() { "-".to_owned() } else { header.tags.join(", ") });
    if let Some(description) = &header.description {
        page.line("description", description);
    }
    page.line("status", record.status.as_str());
    let age = output::age(&record.created_at.to_string(), Timestamp::now());
    page.line("made", &format!("{} ({age} ago)", record.created_at));
    if let Some(author) = &header.created_by {
        page.line("made by", author);
    }
    if let Some(deleted_at) = record.deleted_at {
        page.line("deleted", &deleted_at.to_string());
    }
    if !header.comments.is_empty() {
        page.section("Comments");
        for comment in &header.comments {
            page.line(&output::neutral(&comment.id), &comment.text);
        }
    }
}

fn rate(pass: u64, fail: u64) -> String {
    let scored = pass + fail;
    if scored == 0 {
        return "-".to_owned();
    }
    format!("{pass}/{scored} ({:.0}%)", 100.0 * pass as f64 / scored as f64)
}

fn outcome_sections(page: &mut Page<'_>, record: &RunRecord, sums: &Sums) {
    let counts = &record.counts;
    page.section("Outcomes");
    page.line("trajectories", &output::count(sums.trajectories));
    for (name, counts) in [("main task", &counts.main), ("side task", &counts.side)] {
        let mut text = rate(counts.pass, counts.fail);
        if counts.unscored > 0 {
            text.push_str(&format!(", {} unscored", output::count(counts.unscored)));
        }
        if counts.not_applicable > 0 && counts.scored() + counts.unscored > 0 {
            text.push_str(&format!(", {} without", output::count(counts.not_applicable)));
        }
        page.line(name, &text);
    }
    let kinds: Vec<String> = sums
        .errors
        .iter()
        .map(|(kind, n)| format!("{} {}", output::count(*n), output::neutral(kind)))
        .collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    page.line("errored", &format!("{}{kinds}", output::count(counts.errored)));
    page.line("actions", &output::count(sums.actions));

    if !sums.tasks.is_empty() {
        page.section("Outcomes by task");
        let columns = [
            ("ROLE", Align::Whole),
            ("TASK", Align::Left),
            ("PASSED", Align::Right),
            ("UNSCORED", Align::Right),
            ("ERRORED", Align::Right),
        ];
        let mut table = Table::new(page.printer, &columns);
        for ((role, id), group) in &sums.tasks {
            table.row([
                if *role == Role::Main { "main" } else { "side" }.to_owned(),
                id.clone(),
                rate(group.pass, group.fail),
                group.unscored.to_string(),
                group.errored.to_string(),
            ]);
        }
        page.table(table);
    }
    if !sums.policies.is_empty() {
        page.section("Outcomes by policy");
        let columns = [
            ("POLICY", Align::Left),
            ("TRAJECTORIES", Align::Right),
            ("MAIN", Align::Right),
            ("SIDE", Align::Right),
            ("UNSCORED", Align::Right),
            ("ERRORED", Align::Right),
        ];
        let mut table = Table::new(page.printer, &columns);
        for (policy, group) in &sums.policies {
            table.row([
                policy.clone(),
                output::count(group.trajectories),
                rate(group.main.pass, group.main.fail),
                rate(group.side.pass, group.side.fail),
                format!("{} main, {} side", group.main.unscored, group.side.unscored),
                group.errored.to_string(),
            ]);
        }
        page.table(table);
    }
}

fn score_sections(page: &mut Page<'_>, record: &RunRecord, sums: &Sums) {
    if !record.header.metrics.is_empty() {
        page.section("Metrics");
        let mut table = Table::new(
            page.printer,
            &[("SCORER", Align::Left), ("METRIC", Align::Left), ("VALUE", Align::Right)],
        );
        for (scorer, metrics) in &record.header.metrics {
            for (metric, value) in metrics {
                let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"));
                table.row([scorer, metric, &value]);
            }
        }
        page.table(table);
    }
    if !sums.monitors.is_empty() {
        page.section("Monitors");
        let columns = [
            ("MONITOR", Align::Left),
            ("SCORED", Align::Right),
            ("MEAN OF MAX", Align::Right),
            ("MAX", Align::Right),
            ("UNSCORED CALLS", Align::Right),
        ];
        let mut table = Table::new(page.printer, &columns);
        for (name, monitor) in &sums.monitors {
            let number =
                |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
            table.row([
                name.clone(),
                output::rate(monitor.scored, monitor.trajectories),
                number(monitor.mean_max),
                number(monitor.max),
                monitor.unscored.to_string(),
            ]);
        }
        page.table(table);
    }
}

fn cost_sections(page: &mut Page<'_>, record: &RunRecord, sums: &Sums) {
    let header = &record.header;
    page.section("Cost");
    let note = match (header.total_cost_usd, record.cost_incomplete) {
        (Some(_), true) => "  (+: something could not be priced)",
        (None, true) => "  (nothing could be priced)",
        _ => "",
    };
    page.line("total", &format!("{}{note}", output::usd(header.total_cost_usd, record.cost_incomplete)));
    if !sums.roles.is_empty() {
        let mut table = Table::new(
            page.printer,
            &[("ROLE", Align::Left), ("MODEL", Align::Left), ("COST", Align::Right)],
        );
        for (role, cost) in &sums.roles {
            for (model, by_model) in &cost.by_model {
                table.row([
                    role,
                    model,
                    &output::usd(by_model.usd, by_model.incomplete && by_model.usd.is_some()),
                ]);
            }
        }
        page.table(table);
    }
    let models: std::collections::BTreeSet<&String> =
        header.cost_by_model.keys().chain(sums.models.keys()).collect();
    if !models.is_empty() {
        page.section("Models");
        let columns = [
            ("MODEL", Align::Left),
            ("INPUT", Align::Right),
            ("CACHED", Align::Right),
            ("OUTPUT", Align::Right),
            ("TOTAL", Align::Right),
            ("COST", Align::Right),
        ];
        let mut table = Table::new(page.printer, &columns);
        let none = Tokens::default();
        for model in models {
            let tokens = sums.models.get(model).unwrap_or(&none);
            table.row([
                model.clone(),
                output::tokens(tokens.input_tokens.saturating_add(tokens.input_tokens_cache_write)),
                output::tokens(tokens.input_tokens_cache_read),
                output::tokens(tokens.output_tokens),
                output::tokens(tokens.total_tokens),
                output::usd(header.cost_by_model.get(model).copied().flatten(), false),
            ]);
        }
        page.table(table);
    }
    if !sums.environments.is_empty() {
        page.section("Environments");
        for (environment, n) in &sums.environments {
            page.line(&output::count(*n), environment);
        }
    }
}

fn time_section(page: &mut Page<'_>, sums: &Sums) {
    let time = &sums.time;
    if time.first_started_ms.is_none() && time.timed == 0 {
        return;
    }
    let shown =
        |ms: i64| Timestamp::from_millisecond(ms).map_or_else(|_| "-".to_owned(), |time| time.to_string());
    page.section("Timing");
    if let Some(started) = time.first_started_ms {
        page.line("first start", &shown(started));
    }
    if let Some(completed) = time.last_completed_ms {
        page.line("last end", &shown(completed));
    }
    if let (Some(started), Some(completed)) = (time.first_started_ms, time.last_completed_ms) {
        page.line("wall time", &output::duration(completed.saturating_sub(started)));
    }
    if time.timed > 0 {
        let mean = time.working_ms / i64::try_from(time.timed).unwrap_or(i64::MAX);
        page.line(
            "working time",
            &format!(
                "{} in all, {} on average, {} at most",
                output::duration(time.working_ms),
                output::duration(mean),
                output::duration(time.longest_ms.unwrap_or_default())
            ),
        );
    }
}

fn log_section(page: &mut Page<'_>, run: &Run, address: Option<&str>) {
    let record = &run.record;
    page.section("Log");
    if let Some(log) = &run.log {
        page.line("sha256", log.hash.as_str());
        page.line("size", &format!("{} ({} bytes)", output::bytes(log.size_bytes), log.size_bytes));
    }
    if let Some(source) = &record.source {
        page.line("made of", source);
    }
    if let Some(address) = address {
        page.line("address", address);
    }
    if let Some(eval_id) = &record.eval_id {
        page.line("eval id", eval_id);
    }
    if let Some(created) = &record.eval_created {
        page.line("eval created", created);
    }
    for defect in &record.defects {
        page.line("defect", defect);
    }
    for revision in &record.revisions {
        page.line(
            &format!("revision {}", revision.revision),
            &format!("sha256 {}, replaced {}", revision.log.hash, revision.replaced_at),
        );
    }
}
