//! What an agent leaves to reach its scorer, though it is gone by then.

use ct_environment::{EndedSandbox, SandboxKind, ScoreInput, ScoreOutcome, TaskRef};

use crate::support::{Written, for_each_kind, host, out, shell, start};

for_each_kind!(
    links_deep_down,
    a_place_too_deep_to_count,
    a_full_workspace,
    settings_at_home,
    output_without_end,
    work_that_is_tried,
);

/// Lets an agent work, and gives what is left of it and the environment it worked in.
async fn after(kind: SandboxKind, files: &[(&str, &str)], work: &str) -> Option<(Written, EndedSandbox)> {
    let written = Written::new(files);
    let host = host(&written.environment(), kind).await?;
    let sandbox = start(&host).await;
    shell(&sandbox, work).await;
    Some((written, sandbox.end().await))
}

async fn score(written: &Written, ended: &EndedSandbox) -> ScoreOutcome {
    let environment = written.environment();
    let task = TaskRef::Main(&environment.mains[0]);
    ended.score(task, &ScoreInput::default()).await.expect("a score").outcome
}

/// A link that stays in the workspace leads to one that does not, deeper than anybody looks.
async fn links_deep_down(kind: SandboxKind) {
    let test = "[ \"$(cat answer 2>/dev/null)\" = \"$(cat /tests/truth)\" ] && exit 0\nexit 1\n";
    let files = [("tasks/main/work/tests/test.sh", test), ("tasks/main/work/tests/truth", "the truth")];
    let work = "p=$(printf 'd/%.0s' $(seq 70)); mkdir -p $p; ln -s /tests/truth ${p}out; ln -s ${p}out answer\n\
        mkdir closed; ln -s /tests/truth closed/out; chmod 555 closed\n";
    let Some((written, ended)) = after(kind, &files, work).await else { return };
    assert!(ended.removed().iter().any(|path| path.starts_with("d/d/d/")), "{:?}", ended.removed());
    assert!(ended.removed().contains(&"closed/out".to_owned()), "{:?}", ended.removed());
    assert_eq!(score(&written, &ended).await.value(), Some(0.0));
    assert!(!ended.removed().iter().any(|path| path.contains("cannot")), "{:?}", ended.removed());
}

async fn a_place_too_deep_to_count(kind: SandboxKind) {
    let written = Written::new(&[("environment.toml", "[sandbox]\ndisk_mb = 24\n")]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    let deep = "import os\nfor i in range(60):\n os.mkdir('x' * 100); os.chdir('x' * 100)\nimport time; time.sleep(20); print('not seen')\n";
    let request = ct_environment::ExecRequest::program(["python3", "-c", deep]);
    let result = sandbox.exec(request).await.expect("a result");
    assert_eq!(result.limit_hit, Some(ct_environment::LimitHit::Disk), "{result:?}");
}

/// The scorer has room of its own, whatever the agent took.
async fn a_full_workspace(kind: SandboxKind) {
    let test = "[ -e f1 ] || exit 3\nsleep 1; head -c 3000000 /dev/zero >mine && rm mine && echo 0.5 >/logs/verifier/reward.txt\n";
    let files = [("environment.toml", "[sandbox]\ndisk_mb = 12\n"), ("tasks/main/work/tests/test.sh", test)];
    let work = "for i in $(seq 40); do head -c 1000000 /dev/zero >f$i; sleep 0.02; done";
    let Some((written, ended)) = after(kind, &files, work).await else { return };
    assert_eq!(score(&written, &ended).await.value(), Some(0.5));
}

/// Where the workspace is the home, programs would find the agent's settings.
async fn settings_at_home(kind: SandboxKind) {
    let test = "echo ${HOME#/home/agent} $(python3 -c 'print(\"honest\")')\n";
    let files = [
        ("environment.toml", "[sandbox]\nworkdir = \"/home/agent\"\n"),
        ("tasks/main/work/tests/test.sh", test),
    ];
    let plant = "d=$(python3 -c 'import site; print(site.getusersitepackages())'); mkdir -p \"$d\"\n\
        echo 'print(\"fooled\", flush=True); import os; os._exit(0)' >\"$d/usercustomize.py\"\n\
        echo 'import os; print(\"fooled\", flush=True); os._exit(0)' >\"$d/evil.pth\"; python3 -c 'print(\"honest\")' >seen";
    let Some((written, ended)) = after(kind, &files, plant).await else { return };
    let expected =
        ScoreOutcome::Scored { value: 1.0, explanation: Some("/tmp honest".into()), happened_at: None };
    assert_eq!(score(&written, &ended).await, expected);
}

/// A scorer that shows what it found is stopped where it is too much, and that is a crash of its own.
async fn output_without_end(kind: SandboxKind) {
    let files = [("tasks/main/work/tests/test.sh", "while cat big; do :; done\n")];
    let work = "head -c 50000000 /dev/zero >big";
    let Some((written, ended)) = after(kind, &files, work).await else { return };
    assert_eq!(score(&written, &ended).await.reason(), Some("scorer_error"));
    // Nothing of it stays, and the next is scored as if nothing had been.
    let other = after(kind, &[], "true").await.expect("as before").1;
    assert!(other.removed().is_empty());
    let Some(host) = host(&written.environment(), kind).await else { return };
    assert_eq!(out(&start(&host).await, "ls").await, "");
}

/// What the agent made is run where the scorer's folder and verdict are not.
async fn work_that_is_tried(kind: SandboxKind) {
    let files = [
        ("tasks/main/work/trial/run.sh", "sh -c '. /shared/try'; sh /workspace/made; echo seen; exit 7\n"),
        (
            "tasks/main/work/tests/test.sh",
            "[ \"$(cat /results/value)\" = 42 ] && [ ! -e /results/link ] && echo $CT_TRIAL\n",
        ),
        ("tasks/main/work/tests/truth", "the truth"),
        ("shared/try", "sh /workspace/made >/results/value\n"),
    ];
    let made = "cat >made <<'END'\n\
        mkdir -p /logs/verifier; echo 0.9 >/logs/verifier/reward.txt; echo 1 >/results/../reward\n\
        ln -sf /tests/truth /results/link; ls -d /tests /environment /services /agent /solution* 2>/dev/null\n\
        (setsid sleep 99 &) ; echo 42\nEND\n";
    let Some((written, ended)) = after(kind, &files, made).await else { return };
    let expected =
        ScoreOutcome::Scored { value: 1.0, explanation: Some("exit code 7".into()), happened_at: None };
    assert_eq!(score(&written, &ended).await, expected);
}
