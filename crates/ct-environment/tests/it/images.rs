//! What only containers give: an image of the environment's own, and the network.

use std::net::TcpListener;

use ct_environment::{Catalog, HostOptions, SandboxError, SandboxHost, SandboxKind, validate};

use crate::support::{Written, host, image, not_tested, out, shell, start, write};

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

/// A server of this machine, where containers with a network reach it. Those without have no way to it, nor has the
/// `local` sandbox, which gives no network at all.
#[tokio::test(flavor = "multi_thread")]
async fn the_network_is_there_when_the_environment_asks_for_it() {
    let open = Written::new(&[("environment.toml", "[sandbox]\nnetwork = true\n")]);
    let Some(open) = host(&open.environment(), SandboxKind::Container).await else { return };
    let open = start(&open).await;
    // The machine's own address in that network is where everything else is sent to.
    let gateway = out(&open, "awk '$2 == \"00000000\" { print $3 }' /proc/net/route").await;
    let address = u32::from_str_radix(gateway.trim(), 16).expect("an address").swap_bytes();
    let address = std::net::Ipv4Addr::from(address);
    let listener = TcpListener::bind((address, 0)).expect("a port of the network between");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = std::io::Write::write_all(&mut stream, b"hello from outside");
        }
    });
    let call = format!(
        "python3 -c \"import socket; print(socket.create_connection(('{address}', {port}), 20).recv(99).decode())\""
    );
    assert_eq!(out(&open, &call).await, "hello from outside\n");
    // The same names as without a network, and the machine's own loopback is not there.
    assert!(out(&open, "cat /etc/hosts").await.starts_with("127.0.0.1 localhost sandbox"));
    let closed = Written::new(&[]);
    for kind in [SandboxKind::Container, SandboxKind::Local] {
        let Some(closed) = host(&closed.environment(), kind).await else { return };
        let result = shell(&start(&closed).await, &call).await;
        assert!(result.stderr.text().contains("Network is unreachable"), "{kind:?}: {result:?}");
    }
}
