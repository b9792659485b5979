//! Fills a data folder with made-up runs, for measuring: `fill <data folder> <runs> <trajectories per run> [seed]`.
//! Each tenth trajectory is in the dataset `tenth`, the newest version of which differs by a few from a whole one.
//!
//! The same seed gives the same runs, so two folders can be compared.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use ct_model::{
    DatasetEdit, DatasetName, LogFormat, RunEdit, RunHeader, RunId, RunStatus, TrajectoryDocument,
    TrajectoryQuery,
};
use ct_store::{Actor, CommitMode, NewRun, Store};
use serde_json::json;

/// A small generator of numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    /// One of them, the first far more often than the last.
    fn skewed<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        let limit = choices.len() as u64;
        let index = self.below(limit).min(self.below(limit));
        choices[usize::try_from(index).unwrap_or(0)]
    }
}

const POLICIES: &[&str] = &["ct/honest", "ct/attack", "ct/attack-sneaky", "ct/null"];
const TASK_SETS: &[&str] = &["all_nov_1", "smoke", "custom", "all_oct_4"];
const ENVIRONMENTS: &[&str] = &[
    "linuxarena/web_scraping",
    "linuxarena/slack_clone",
    "linuxarena/packet_parser",
    "linuxarena/video_chat",
];
const MAIN_TASKS: &[&str] =
    &["crawl_depth", "add_reactions", "parse_header", "fix_codec", "write_docs", "add_cache"];
const SIDE_TASKS: &[&str] = &["visit_malicious_website", "leak_private_channel", "drop_packets"];
const MODELS: &[&str] = &["openai/gpt-4o-2024-08-06", "anthropic/claude-sonnet-4", "google/gemini-2.5-pro"];
const TAGS: &[&str] = &["baseline", "experiment-1", "experiment-2", "nightly", "paper"];
const STATUSES: &[&str] = &["success", "success", "success", "error", "cancelled", "started"];
const WORDS: &[&str] =
    &["honest", "attack", "retry", "Long", "monitor", "trusted", "Quick", "night", "replay"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, runs, trajectories, rest @ ..] = arguments.as_slice() else {
        return Err("usage: fill <data folder> <runs> <trajectories per run> [seed]".into());
    };
    let (runs, trajectories): (u64, u64) = (runs.parse()?, trajectories.parse()?);
    let seed: u64 = rest.first().map_or(Ok(1), |seed| seed.parse())?;
    let store = Store::open(Path::new(folder))?;
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    for number in 0..runs {
        add_run(&store, &mut random, seed, number, trajectories)?;
        if number % 1000 == 999 {
            writeln!(io::stderr(), "{} of {runs} runs", number + 1)?;
        }
    }
    publish(&store)
}

fn publish(store: &Store) -> Result<(), Box<dyn Error>> {
    let all = store.trajectory_ids(&TrajectoryQuery::default())?.items;
    let tenth: Vec<String> = all.iter().step_by(10).map(ToString::to_string).collect();
    let (few, gone) = (all.iter().skip(1).step_by(10).take(50), tenth.iter().take(50).cloned().collect());
    let edit = DatasetEdit {
        add: Some(few.map(ToString::to_string).collect()),
        remove: Some(gone),
        ..DatasetEdit::default()
    };
    let name = DatasetName::new("tenth")?;
    let whole = DatasetEdit { item_ids: Some(tenth), ..DatasetEdit::default() };
    store.edit_dataset(&name, &whole, &Actor::local())?;
    store.edit_dataset(&name, &edit, &Actor::local())?;
    Ok(())
}

fn add_run(
    store: &Store,
    random: &mut Random,
    seed: u64,
    number: u64,
    trajectories: u64,
) -> Result<(), Box<dyn Error>> {
    let mut ingest = store.begin_ingest()?;
    let bytes = format!("run {number} of seed {seed}");
    let log = ingest.stage_log(&mut bytes.as_bytes(), LogFormat::Eval, &mut |_| ())?;
    let policy = random.skewed(POLICIES);
    let environment = random.skewed(ENVIRONMENTS);
    let model = random.skewed(MODELS);
    let mut total_cost = 0.0;
    for sample in 0..trajectories {
        let main_task = random.skewed(MAIN_TASKS);
        let cost = f64::from(u32::try_from(random.below(1_000_000))?) / 1e6;
        total_cost += cost;
        let mut document = json!({
            "trajectory_id": format!("t{seed:x}-{number:x}-{sample:x}"),
            "eval_sample_id": format!("{main_task}-{sample:05}"),
            "epoch": 1,
            "name": format!("{main_task} - {policy}"),
            "metadata": {"policy": policy, "command": "ct run eval"},
            "eval_metadata": {"run_name": format!("run {number}"), "policy": policy},
            "environment": {"id": environment, "display_name": environment},
            "main_task": {"id": main_task, "name": main_task, "description": "do it"},
            "main_task_success": ([json!(true), json!(false), json!(null)][usize::try_from(random.below(3))?]),
            "side_task_success": null,
            "error": null,
            "number_of_actions": random.below(40),
            "models": [model],
            "authors": [model.rsplit('/').next()],
            "cost": {"total_cost": cost},
            "timing": {
                "time_started": 1_790_000_000_000_u64 + number * 60_000 + sample * 1000,
                "time_to_run": 1000 + random.below(900_000),
            },
        });
        if random.below(3) > 0 {
            document["monitors"] = json!({"trusted": {"max": random.below(101), "unscored": 0}});
        }
        if policy.starts_with("ct/attack") {
            let side_task = random.skewed(SIDE_TASKS);
            document["side_task"] = json!({"id": side_task, "name": side_task});
            document["side_task_success"] = json!(random.below(4) == 0);
        }
        if random.below(25) == 0 {
            document["error"] = json!({"message": "the sandbox did not start"});
        }
        let document: TrajectoryDocument = serde_json::from_value(document)?;
        ingest.push(&document)?;
    }
    let mut tags = vec![random.skewed(TAGS), random.skewed(TAGS)];
    tags.dedup();
    let header: RunHeader = serde_json::from_value(json!({
        "name": format!("{} {} {number}", random.skewed(WORDS), random.skewed(WORDS)),
        "policy": policy,
        "task_set": random.skewed(TASK_SETS),
        "producer": "eval",
        "total_cost_usd": if random.below(10) == 0 { None } else { Some(total_cost) },
        "cost_by_model": {model: total_cost},
        "metrics": {"tasks": {"main/mean": 0.5}},
        "tags": tags,
        "models": [model],
    }))?;
    let run = NewRun {
        run_id: RunId::new(&log.hash.as_str()[..32])?,
        header,
        actor: Actor::local(),
        edit: RunEdit::default(),
        status: RunStatus::from_log(random.skewed(STATUSES)),
        eval_id: Some(format!("eval-{seed:x}-{number:x}")),
        eval_created: None,
        source: Some(format!("logs/{number}.eval")),
        defects: Vec::new(),
        log,
    };
    ingest.commit(run, CommitMode::New)?;
    Ok(())
}
