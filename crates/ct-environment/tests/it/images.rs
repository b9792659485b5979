//! Containers with an image of the environment's own.

use ct_environment::{Catalog, HostOptions, SandboxError, SandboxHost, SandboxKind, validate};

use crate::support::{Written, image, not_tested, write};

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_task_with_a_dockerfile() {
    let Some(base) = image() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let task = folder.path().join("plain-task");
    write(&task.join("task.toml"), "version = \"1.0\"\n[verifier]\ntimeout_sec = 60\n");
    write(&task.join("instruction.md"), "Write `done` into answer, where the image left a note.");
    let dockerfile =
        format!("FROM {base}\nWORKDIR /app\nRUN echo 'made by the build' >note && touch /usr/bin/mark\n");
    write(&task.join("environment/Dockerfile"), &dockerfile);
    write(
        &task.join("tests/test.sh"),
        "grep -q 'made by' note && [ \"$(cat answer)\" = done ] && r=1 || r=0\necho $r >/logs/verifier/reward.txt\n",
    );
    write(
        &task.join("solution/solve.sh"),
        "cat note && test -e from-image && test -e /usr/bin/mark && echo done >answer && touch /usr/bin/root-may\n",
    );
    let environment =
        Catalog::new([folder.path().to_owned()]).expect("a catalog").find("plain-task").expect("found");
    // It has an image, so it does not run without one.
    let local = HostOptions { kind: Some(SandboxKind::Local), ..HostOptions::default() };
    assert!(matches!(SandboxHost::open(&environment, &local).await, Err(SandboxError::Unavailable { .. })));
    let host = match SandboxHost::open(&environment, &HostOptions::default()).await {
        Ok(host) => host,
        Err(error) => return not_tested(&format!("building images: {error}")),
    };
    assert_eq!(host.kind(), SandboxKind::Container);
    let results = validate(&host, |_| ()).await;
    assert!(results.iter().all(|result| result.passed) && results.len() == 2, "{results:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_here_is_told() {
    let written = Written::new(&[(
        "environment.toml",
        "[sandbox]\nnetwork = true\ncommands = [\"no-such-program\"]\n",
    )]);
    let options = |kind| HostOptions { kind: Some(kind), ..HostOptions::default() };
    let error = SandboxHost::open(&written.environment(), &options(SandboxKind::Local))
        .await
        .expect_err("no network");
    assert!(error.to_string().contains("asks for the network, which only a container gives"), "{error}");
    let written = Written::new(&[("environment.toml", "[sandbox]\ncommands = [\"no-such-program\"]\n")]);
    let error = SandboxHost::open(&written.environment(), &options(SandboxKind::Local))
        .await
        .expect_err("no program");
    assert!(error.to_string().contains("needs programs that are not in /usr: no-such-program"), "{error}");
}
