//! What a sandbox does for an agent, a set-up script, a service and a scorer.

use std::time::Duration;

use ct_environment::{
    Assignment, ChangeKind, ExecRequest, SandboxError, SandboxKind, ScoreInput, ScoreOutcome, StartOptions,
    TaskRef,
};

use crate::support::{Written, for_each_kind, host, out, shell, start};

for_each_kind!(
    commands,
    what_runs_on_is_there_for_the_next_command,
    files,
    setup_and_services,
    a_failing_setup_is_an_error,
    scores,
    scorers_that_break,
    changes,
);

async fn commands(kind: SandboxKind) {
    let written = Written::new(&[]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    let result = shell(&sandbox, "echo out; echo err >&2; exit 7").await;
    assert_eq!(
        (result.exit_code, result.stdout.text(), result.stderr.text()),
        (Some(7), "out\n".into(), "err\n".into())
    );
    assert_eq!(
        out(&sandbox, "pwd; echo $HOME; id -u | grep -vx 0 >/dev/null; env | cut -d= -f1 | sort")
            .await
            .lines()
            .take(2)
            .collect::<Vec<_>>(),
        ["/workspace", "/home/agent"]
    );
    let request = ExecRequest {
        stdin: b"fed".to_vec(),
        cwd: Some("sub".into()),
        env: vec![("A".into(), "b c".into())],
        ..ExecRequest::shell("pwd; echo \"$A\"; cat")
    };
    out(&sandbox, "mkdir sub").await;
    assert_eq!(sandbox.exec(request).await.expect("a result").stdout.text(), "/workspace/sub\nb c\nfed");
    let request =
        ExecRequest { timeout: Some(Duration::from_secs(4)), ..ExecRequest::shell("echo a; sleep 600") };
    let result = sandbox.exec(request).await.expect("a result");
    assert!(result.timed_out && !result.success(), "{result:?}");
    assert_eq!(result.stdout.text(), "a\n");
    let request = ExecRequest { output_limit_bytes: Some(20), ..ExecRequest::shell("seq 1000") };
    let capture = sandbox.exec(request).await.expect("a result").stdout;
    assert_eq!(capture.total_bytes, 3893);
    assert_eq!(capture.text(), "1\n2\n3\n4\n5\n\n[… 3873 bytes left out …]\n\n999\n1000\n");
    let result = sandbox.exec(ExecRequest::program(["no-such-program"])).await.expect("a result");
    assert!(!result.success());
    // A command whose end nobody waits for is killed. In a container that is so when the sandbox ends.
    tokio::select! {
        result = sandbox.exec(ExecRequest::shell("echo $$ >pid; exec sleep 600")) => panic!("{result:?}"),
        _ = out(&sandbox, "until test -s pid; do sleep 0.05; done") => {}
    }
    if kind == SandboxKind::Local {
        out(&sandbox, "while kill -0 $(cat pid); do sleep 0.05; done").await;
    }
}

async fn what_runs_on_is_there_for_the_next_command(kind: SandboxKind) {
    let written = Written::new(&[]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    out(&sandbox, "(while :; do date +%N >>beat; sleep 0.05; done) >/dev/null 2>&1 & echo $! >pid").await;
    let beats =
        "lines() { wc -l <beat; }; before=$(lines); while [ $(lines) -eq $before ]; do sleep 0.05; done";
    let alive = format!("until test -s beat; do sleep 0.05; done; {beats}; kill -0 $(cat pid) && echo alive");
    assert_eq!(out(&sandbox, &alive).await, "alive\n");
    // What it holds open keeps nobody waiting.
    let result = shell(&sandbox, "sleep 600 & echo started").await;
    assert!(result.duration < Duration::from_secs(300) && result.stdout.text() == "started\n", "{result:?}");
}

async fn files(kind: SandboxKind) {
    let written =
        Written::new(&[("files/given.txt", "given"), ("tasks/main/work/files/deep/own.txt", "own")]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    assert_eq!(sandbox.read_file("given.txt", 100).await.expect("bytes"), b"given");
    assert_eq!(sandbox.read_file("/workspace/deep/own.txt", 3).await.expect("bytes"), b"own");
    assert!(matches!(sandbox.read_file("given.txt", 4).await, Err(SandboxError::TooLarge { .. })));
    assert!(matches!(sandbox.read_file("nothing", 4).await, Err(SandboxError::File { .. })));
    out(&sandbox, "mkfifo pipe").await;
    assert!(matches!(sandbox.read_file("pipe", 4).await, Err(SandboxError::File { .. })));
    let bytes: Vec<u8> = (0..=255u8).cycle().take(200_000).collect();
    sandbox.write_file("new/- odd 'name'/x", &bytes).await.expect("written");
    assert_eq!(sandbox.read_file("new/- odd 'name'/x", 1 << 20).await.expect("bytes"), bytes);
    assert!(matches!(sandbox.write_file("/usr/x", b"x").await, Err(SandboxError::File { .. })));
    sandbox.copy_in(written.folder.path(), "/tmp/copy").await.expect("copied");
    assert_eq!(sandbox.read_file("/tmp/copy/world/files/given.txt", 100).await.expect("bytes"), b"given");
}

async fn setup_and_services(kind: SandboxKind) {
    let manifest = "[[services]]\nname = \"echo\"\nport = 8123\nhosts = [\"echo.test\"]\n\
        command = \"exec python3 -u -c \\\"$(cat serve.py)\\\"\"\n";
    let serve = "import socket,os\ns=socket.create_server(('127.0.0.1',int(os.environ['PORT'])))\n\
        while True:\n c,_=s.accept(); d=c.recv(99); print('got',d.decode()); c.sendall(d[::-1]); c.close()\n";
    let written = Written::new(&[
        ("environment.toml", manifest),
        ("services/echo/serve.py", serve),
        ("setup.sh", "echo one >order; cat /environment/secret >/dev/null"),
        ("secret", "s"),
        ("tasks/main/work/setup.sh", "echo two >>order; cat $CT_TASK_DIR/instruction.md >>order"),
        ("tasks/main/work/tests/test.sh", "grep -qx 'got hello' /services/echo.log"),
    ]);
    let environment = written.environment();
    let Some(host) = host(&environment, kind).await else { return };
    let sandbox = start(&host).await;
    assert_eq!(out(&sandbox, "cat order").await, "one\ntwo\nDo the work.");
    let call = "python3 -c \"import socket;s=socket.create_connection(('echo.test',8123));s.sendall(b'hello');print(s.recv(99))\"";
    assert_eq!(out(&sandbox, call).await, "b'olleh'\n");
    // The service's process and files are nowhere in reach.
    out(&sandbox, "! ls /service /services /environment /tests /state 2>/dev/null; ! grep -al 'serve[.]py' /proc/[0-9]*/cmdline").await;
    let ended = sandbox.end().await;
    let score =
        ended.score(TaskRef::Main(&environment.mains[0]), &ScoreInput::default()).await.expect("a score");
    assert_eq!(score.outcome.value(), Some(1.0), "{score:?}");
}

async fn a_failing_setup_is_an_error(kind: SandboxKind) {
    let written = Written::new(&[("setup.sh", "echo why; exit 3")]);
    let environment = written.environment();
    let Some(host) = host(&environment, kind).await else { return };
    let assignment = Assignment { mains: vec![&environment.mains[0]], sides: Vec::new() };
    let error = host.start(&assignment, &StartOptions::default()).await.expect_err("the set-up fails");
    assert_eq!(error.to_string(), "the set-up of world failed (exit code 3): why");
}

async fn score(kind: SandboxKind, test: &str, timeout_seconds: u64) -> Option<ScoreOutcome> {
    let manifest = format!("scorer_timeout_seconds = {timeout_seconds}");
    let written = Written::new(&[
        ("tasks/main/work/tests/test.sh", test),
        ("tasks/main/work/tests/part.json", r#"{"score": 0.25, "explanation": "a quarter"}"#),
        ("tasks/main/work/task.toml", &manifest),
    ]);
    let environment = written.environment();
    let host = host(&environment, kind).await?;
    let ended = start(&host).await.end().await;
    let input = ScoreInput { submission: Some("42".into()) };
    Some(ended.score(TaskRef::Main(&environment.mains[0]), &input).await.expect("a score").outcome)
}

async fn scores(kind: SandboxKind) {
    for (test, value, explanation) in [
        ("echo fine", 1.0, Some("fine")),
        ("echo bad; exit 1", 0.0, Some("bad")),
        ("echo noise; cat /tests/part.json", 0.25, Some("a quarter")),
        ("cp /tests/part.json /logs/verifier/result.json; exit 1", 0.25, Some("a quarter")),
        ("echo note; echo 0.5 >/logs/verifier/reward.txt", 0.5, Some("note")),
        ("grep -qx 42 /agent/submission.txt", 1.0, None),
        ("! touch /tests/x /agent/x /services/x 2>/dev/null", 1.0, None),
    ] {
        let Some(outcome) = score(kind, test, 120).await else { return };
        let explanation = explanation.map(str::to_owned);
        let expected = ScoreOutcome::Scored { value, explanation, happened_at: None };
        assert_eq!(outcome, expected, "{test}");
    }
}

async fn scorers_that_break(kind: SandboxKind) {
    for test in [
        "exit 2",
        "kill -9 $$",
        "echo 1.5 >/logs/verifier/reward.txt",
        "echo '{\"score\": NaN}' >/logs/verifier/result.json",
        "ln -s /tests/part.json /logs/verifier/result.json; exit 9",
        "no-such-program",
    ] {
        let Some(outcome) = score(kind, test, 120).await else { return };
        assert_eq!(outcome.reason(), Some("scorer_error"), "{test}: {outcome:?}");
    }
    // It is stopped, however long it takes to get it going; and what was not stopped is no time-out, however long it took.
    let outcome = score(kind, "sleep 600", 2).await.expect("a score");
    assert_eq!(outcome, ScoreOutcome::TimedOut { after_seconds: 2 });
}

async fn changes(kind: SandboxKind) {
    let written = Written::new(&[("files/a.txt", "1\n2\n3\n"), ("files/gone", "x"), ("files/same", "y")]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    out(
        &sandbox,
        "echo 4 >>a.txt; rm gone; mkdir d; head -c 3000000 /dev/zero >d/big; ln -s /root/x link; mkfifo p",
    )
    .await;
    let ended = sandbox.end().await;
    let diff = ended.diff();
    assert_eq!(ended.removed(), ["link", "p"]);
    let told: Vec<(&str, ChangeKind)> =
        diff.changes.iter().map(|change| (change.path.as_str(), change.kind)).collect();
    let expected = [
        ("a.txt", ChangeKind::Modified),
        ("d/big", ChangeKind::Added),
        ("gone", ChangeKind::Removed),
        ("link", ChangeKind::Added),
        ("p", ChangeKind::Added),
    ];
    assert_eq!(told, expected);
    assert_eq!(
        diff.changes[0].diff.as_deref(),
        Some("--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,4 @@\n 1\n 2\n 3\n+4\n")
    );
    assert_eq!((diff.changes[1].size_bytes_after, &diff.changes[1].diff), (Some(3_000_000), &None));
    let target = tempfile::tempdir().expect("a folder");
    let copy = target.path().join("copy");
    assert_eq!(ended.copy_out(&copy, 10 << 20).await.expect("copied"), 0);
    assert_eq!(std::fs::read(copy.join("a.txt")).expect("bytes"), b"1\n2\n3\n4\n");
    assert!(!copy.join("link").exists());
    assert!(matches!(
        ended.copy_out(&target.path().join("b"), 1000).await,
        Err(SandboxError::TooLarge { .. })
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_killed_processes_left_goes() {
    let parent = tempfile::tempdir().expect("a folder");
    let left = parent.path().join("ct-sandbox-left");
    let unlocked = parent.path().join("ct-sandbox-other");
    crate::support::write(&left.join("lock"), "");
    crate::support::write(&unlocked.join("file"), "");
    let written = Written::new(&[]);
    let options =
        ct_environment::HostOptions { temp_dir: Some(parent.path().to_owned()), ..Default::default() };
    let opened = ct_environment::SandboxHost::open(&written.environment(), &options).await;
    assert!(!left.exists() && unlocked.exists());
    let again = ct_environment::SandboxHost::open(&written.environment(), &options).await;
    if let (Ok(first), Ok(second)) = (&opened, &again) {
        // One in use stays.
        drop((start(first).await, start(second).await));
    }
    drop((opened, again));
    assert_eq!(std::fs::read_dir(parent.path()).expect("a folder").count(), 1);
}
