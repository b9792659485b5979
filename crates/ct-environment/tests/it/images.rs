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

/// Task folders as people write them for terminal agents, with a compose file around their container.
#[tokio::test(flavor = "multi_thread")]
async fn compose_files_of_one_service() {
    let Some(base) = image() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| write(&folder.path().join(name), text);
    for (task, instruction, check, solution) in [
        (
            "sort-log",
            "Sort log.txt by its times into sorted.txt.",
            "[ \"$(head -1 sorted.txt)\" = '01 first' ]",
            "sort log.txt >sorted.txt",
        ),
        (
            "count-words",
            "Write the number of words in text into count.",
            "[ \"$(cat count)\" = 3 ]",
            "wc -w <text >count",
        ),
        (
            "say-greeting",
            "Write the greeting of $GREETING into out.",
            "[ \"$(cat out)\" = 'hello there' ]",
            "echo $GREETING >out",
        ),
    ] {
        file(
            &format!("{task}/task.toml"),
            "version = \"1.0\"\n\n[metadata]\nauthor_name = \"x\"\n\n[agent]\ntimeout_sec = 900.0\n",
        );
        file(&format!("{task}/instruction.md"), instruction);
        let test = format!("if {check}; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n");
        file(&format!("{task}/tests/test.sh"), &test);
        file(&format!("{task}/solution/solve.sh"), solution);
    }
    // Made by variables that whoever runs it sets, beside its Dockerfile.
    let compose = "services:\n  client:\n    build:\n      dockerfile: Dockerfile\n    image: ${IMAGE_NAME}\n\
        \u{20}   container_name: ${CONTAINER_NAME}\n    command: [ \"sh\", \"-c\", \"sleep infinity\" ]\n\
        \u{20}   environment:\n      - TEST_DIR=${TEST_DIR}\n    volumes:\n      - ${LOGS_PATH}:${CONTAINER_LOGS_PATH}\n";
    file("sort-log/docker-compose.yaml", compose);
    file("sort-log/Dockerfile", &format!("FROM {base}\nWORKDIR /app\nCOPY log.txt .\n"));
    file("sort-log/log.txt", "02 second\n01 first\n");
    // In the environment's folder, the context a folder deeper, the Dockerfile called otherwise.
    let compose = "services:\n  main:\n    build:\n      context: ./image\n      dockerfile: agent.Dockerfile\n    working_dir: /data\n\
        \u{20}   deploy:\n      resources:\n        limits:\n          cpus: ${CPUS}\n          memory: ${MEMORY}\n";
    file("count-words/environment/docker-compose.yaml", compose);
    file(
        "count-words/environment/image/agent.Dockerfile",
        &format!("FROM {base}\nRUN mkdir /data && echo one two three >/data/text\n"),
    );
    // An image that is there, with variables.
    let compose = format!(
        "version: \"3\"\nservices:\n  app:\n    image: {base}\n    tty: true\n    working_dir: /work\n    environment:\n\
        \u{20}     GREETING: ${{GREETING:-hello there}}\n      HOME_OF_MINE: $HOME\n      LEVEL: 3\n"
    );
    file("say-greeting/environment/compose.yaml", &compose);
    let catalog = Catalog::new([folder.path().to_owned()]).expect("a catalog");
    let mut warnings = Vec::new();
    for task in ["sort-log", "count-words", "say-greeting"] {
        let environment = catalog.find(task).unwrap_or_else(|error| panic!("{error}"));
        warnings.extend(environment.warnings.clone());
        let host = match SandboxHost::open(&environment, &HostOptions::default()).await {
            Ok(host) => host,
            Err(error) => return not_tested(&format!("compose files: {error}")),
        };
        let results = validate(&host, |_| ()).await;
        assert!(results.iter().all(|result| result.passed) && results.len() == 2, "{task}: {results:#?}");
        if task == "say-greeting" {
            let sandbox = start(&host).await;
            assert_eq!(out(&sandbox, "pwd; echo \"$LEVEL-$HOME_OF_MINE\"").await, "/work\n3-\n");
        }
    }
    let told = "docker-compose.yaml: not used here: `services.client.image`, `services.client.container_name`, \
        `services.client.command`, `services.client.environment.TEST_DIR` (its value is taken from outside), \
        `services.client.volumes` \"${LOGS_PATH}:${CONTAINER_LOGS_PATH}\"";
    assert!(warnings.iter().any(|warning| warning == told), "{warnings:#?}");
}
