//! Samples without the engine around them: what `bench/eval.py` holds the engine against.
//!
//! usage: bare ENVIRONMENT TASK COMMANDS SAMPLES PARALLEL
//!
//! For each sample a sandbox is started, the commands of a file (one a line) are run in it, it is ended and scored. Prints
//! one object: `wall_seconds`, `exec_seconds` (of all commands together), `actions`.

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ct_environment::{
    Assignment, Catalog, ExecRequest, HostOptions, SandboxHost, ScoreInput, StartOptions, TaskRef,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [environment, task, commands, samples, parallel] = arguments.as_slice() else {
        return Err("usage: bare ENVIRONMENT TASK COMMANDS SAMPLES PARALLEL".into());
    };
    let (samples, parallel): (usize, usize) = (samples.parse()?, parallel.parse()?);
    let commands: Arc<Vec<String>> =
        Arc::new(std::fs::read_to_string(commands)?.lines().map(str::to_owned).collect());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let started = Instant::now();
    let actions = samples * commands.len();
    let exec = runtime.block_on(async {
        let environment = Catalog::new([])?.find(environment)?;
        let host = SandboxHost::open(&environment, &HostOptions::default()).await?;
        let places = Arc::new(tokio::sync::Semaphore::new(parallel.max(1)));
        let mut running = Vec::new();
        for _ in 0..samples {
            let place = Arc::clone(&places).acquire_owned().await?;
            let (host, task, commands) = (host.clone(), task.clone(), Arc::clone(&commands));
            running.push(tokio::spawn(async move {
                let _place = place;
                sample(&host, &task, &commands).await
            }));
        }
        let mut sum = Duration::ZERO;
        for sample in running {
            sum += sample.await??;
        }
        Ok::<_, Failure>(sum)
    })?;
    let wall = started.elapsed().as_secs_f64();
    println!(r#"{{"wall_seconds": {wall}, "exec_seconds": {}, "actions": {actions}}}"#, exec.as_secs_f64());
    Ok(())
}

/// One sample; how long its commands took.
async fn sample(host: &SandboxHost, task: &str, commands: &[String]) -> Result<Duration, Failure> {
    let main = host.environment().main(task)?;
    let assignment = Assignment { mains: vec![main], sides: Vec::new() };
    let sandbox = host.start(&assignment, &StartOptions::default()).await?;
    let mut sum = Duration::ZERO;
    for command in commands {
        let started = Instant::now();
        sandbox.exec(ExecRequest::shell(command.clone())).await?;
        sum += started.elapsed();
    }
    sandbox.end().await.score(TaskRef::Main(main), &ScoreInput::default()).await?;
    Ok(sum)
}
