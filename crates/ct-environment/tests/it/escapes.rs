//! Agents that try to get out, to take everything, or to fool the scorer.

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use ct_environment::{
    ExecRequest, LimitHit, Sandbox, SandboxHost, SandboxKind, ScoreInput, ScoreOutcome, TaskRef,
};

use crate::support::{Written, for_each_kind, host, out, shell, start};

for_each_kind!(
    no_network,
    no_other_processes,
    no_files_of_the_machine,
    no_way_through_the_system,
    a_fork_bomb,
    all_memory,
    all_disk,
    all_output,
    killing_everything,
    what_survives_the_agent,
    fooling_the_scorer,
);

const LIMITS: &str =
    "[sandbox]\nmemory_mb = 160\nprocesses = 40\ndisk_mb = 24\ncommand_timeout_seconds = 20\n";

async fn limited(kind: SandboxKind) -> Option<(Written, SandboxHost)> {
    let written = Written::new(&[("environment.toml", LIMITS)]);
    let host = host(&written.environment(), kind).await?;
    Some((written, host))
}

async fn still_works(sandbox: &Sandbox) {
    assert_eq!(out(sandbox, "echo still here").await, "still here\n");
}

async fn no_network(kind: SandboxKind) {
    let Some((_written, host)) = limited(kind).await else { return };
    let sandbox = start(&host).await;
    assert_eq!(out(&sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await, "lo\n");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    for address in
        [format!("'127.0.0.1',{port}"), "'1.1.1.1',53".to_owned(), "'169.254.169.254',80".to_owned()]
    {
        let script = format!("import socket; socket.create_connection(({address}), 3)");
        let result = sandbox.exec(ExecRequest::program(["python3", "-c", &script])).await.expect("a result");
        assert_eq!(result.exit_code, Some(1), "{address}: {result:?}");
        assert!(
            result.stderr.text().contains("OSError") || result.stderr.text().contains("Error"),
            "{result:?}"
        );
    }
}

async fn no_other_processes(kind: SandboxKind) {
    let Some((_written, host)) = limited(kind).await else { return };
    let (sandbox, other) = (start(&host).await, start(&host).await);
    out(&other, "sh -c 'exec sleep 3333' >/dev/null 2>&1 & sleep 0.2").await;
    let mut outside = std::process::Command::new("sleep").arg("3334").spawn().expect("a process");
    let listing = out(&sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await;
    assert!(!listing.contains("333"), "{listing}");
    assert!(out(&sandbox, "ls -d /proc/[0-9]* | wc -l").await.trim().parse::<u32>().expect("a number") < 10);
    shell(&sandbox, &format!("kill -9 {} -1; kill -9 -1", outside.id())).await;
    assert!(outside.try_wait().expect("a state").is_none(), "it was killed from inside");
    assert!(out(&other, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await.contains("sleep 3333"));
    outside.kill().expect("killed");
    outside.wait().expect("gone");
}

async fn no_files_of_the_machine(kind: SandboxKind) {
    let Some((written, host)) = limited(kind).await else { return };
    let marker = written.folder.path().join("marker");
    std::fs::write(&marker, "secret of the machine").expect("a file");
    let sandbox = start(&host).await;
    for path in [
        &marker.display().to_string(),
        "/root/.bashrc",
        "/etc/shadow",
        concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
    ] {
        for root in ["", "/proc/1/root", "/proc/self/root", "/proc/1/cwd/../../../../../.."] {
            let result = shell(&sandbox, &format!("cat '{root}{path}'")).await;
            assert!(!result.success(), "{root}{path}: {result:?}");
        }
    }
    let environment = out(&sandbox, "env; cat /proc/1/environ | tr '\\0' '\\n'").await;
    assert!(!environment.contains("CARGO") && !environment.contains("/target"), "{environment}");
    // What is mounted tells no more than it must.
    assert_eq!(
        out(&sandbox, "ls -A /home /tmp /home/agent").await,
        "/home:\nagent\n\n/home/agent:\n\n/tmp:\n"
    );
}

async fn no_way_through_the_system(kind: SandboxKind) {
    let Some((_written, host)) = limited(kind).await else { return };
    let sandbox = start(&host).await;
    for command in [
        "touch /usr/x",
        "touch /x",
        "touch /etc/x",
        "echo x >/etc/passwd",
        "echo h >/proc/sysrq-trigger",
        "echo x >/proc/sys/kernel/core_pattern",
        "echo x >/proc/sys/kernel/hostname",
        "python3 -c \"import os; os.mknod('/workspace/disk', 0o60666, os.makedev(254, 0)); open('/workspace/disk').read(1)\"",
        "python3 -c \"import os; os.setuid(0)\"",
        "python3 -c \"import os; os.chroot('/workspace')\"",
        "python3 -c \"import ctypes; c = ctypes.CDLL(None, use_errno=True); raise SystemExit(1 if c.mount(b'none', b'/tmp', b'tmpfs', 0, None) else 0)\"",
        "python3 -c \"import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\"",
        "cat /proc/kcore",
        "cat /dev/mem",
        "ls /run/docker.sock /run/podman/podman.sock /var/run/docker.sock",
    ] {
        let result = shell(&sandbox, command).await;
        assert!(!result.success(), "{command}: {result:?}");
    }
    // A name space of its own gives an agent no more: what is read-only stays so.
    let unshare = "import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\n\
        ok = c.unshare(0x10000000 | 0x20000) == 0\n\
        c.mount(b'none', b'/usr', None, 0x20 | 0x1000, None)\n\
        try:\n open('/usr/x', 'w'); print('wrote')\nexcept OSError as e:\n print('refused')\n";
    assert_eq!(out(&sandbox, &format!("python3 -c \"{unshare}\"")).await, "refused\n");
    assert_eq!(
        out(&sandbox, "grep -E '^(CapEff|CapPrm|NoNewPrivs)' /proc/self/status | tr -d '\\t'").await,
        "CapPrm:0000000000000000\nCapEff:0000000000000000\nNoNewPrivs:1\n"
    );
    still_works(&sandbox).await;
}

async fn a_fork_bomb(kind: SandboxKind) {
    let Some((_written, host)) = limited(kind).await else { return };
    let sandbox = start(&host).await;
    let request = ExecRequest {
        timeout: Some(Duration::from_secs(3)),
        ..ExecRequest::shell("f() { f | f & }; f; sleep 30")
    };
    let result = sandbox.exec(request).await.expect("a result");
    assert!(!result.success(), "{result:?}");
    // A second sandbox does not notice.
    still_works(&start(&host).await).await;
    assert!(sandbox.end().await.diff().changes.is_empty());
}

async fn all_memory(kind: SandboxKind) {
    let Some((_written, host)) = limited(kind).await else { return };
    let sandbox = start(&host).await;
    let result = shell(&sandbox, "python3 -c \"x = bytearray(1 << 30); print(len(x))\"").await;
    assert!(!result.success(), "{result:?}");
    // Many processes, each within the limit of one.
    let many = "for i in 1 2 3 4 5 6 7 8; do python3 -c \"x = b'1' * (100 << 20); import time; time.sleep(9)\" & done; wait";
    let result = shell(&sandbox, &format!("{many}; echo survived")).await;
    match kind {
        SandboxKind::Local => assert_eq!(result.limit_hit, Some(LimitHit::Memory), "{result:?}"),
        // The kernel kills one after the other until the rest fits.
        SandboxKind::Container => {
            assert!(result.stderr.text().contains("Killed") || !result.success(), "{result:?}");
        }
    }
    still_works(&sandbox).await;
}

async fn all_disk(kind: SandboxKind) {
    let Some((_written, host)) = limited(kind).await else { return };
    let sandbox = start(&host).await;
    let result = shell(&sandbox, "head -c 100000000 /dev/zero >one").await;
    assert!(!result.success(), "{result:?}");
    let result =
        shell(&sandbox, "rm one; for i in $(seq 400); do head -c 1000000 /dev/zero >f$i; sleep 0.01; done")
            .await;
    assert_eq!(result.limit_hit, Some(LimitHit::Disk), "{result:?}");
    let written: u64 = out(&sandbox, "du -sm . | cut -f1").await.trim().parse().expect("a number");
    assert!(written < 200, "{written} MB");
    let result = shell(&sandbox, "head -c 100000000 /dev/zero >/tmp/one").await;
    assert!(!result.success(), "{result:?}");
    out(&sandbox, "rm -f f* /tmp/one").await;
    still_works(&sandbox).await;
}

async fn all_output(kind: SandboxKind) {
    let Some((_written, host)) = limited(kind).await else { return };
    let sandbox = start(&host).await;
    let result = shell(&sandbox, "yes").await;
    assert!(result.limit_hit == Some(LimitHit::Output) || result.timed_out, "{:?}", result.limit_hit);
    let kept = result.stdout.head.len() + result.stdout.tail.len();
    assert!(kept <= 1 << 20 && result.stdout.total_bytes > kept as u64);
    still_works(&sandbox).await;
    // It is gone, or about to be.
    out(
        &sandbox,
        "for i in $(seq 100); do grep -qs yes /proc/[0-9]*/comm || exit 0; sleep 0.1; done; exit 1",
    )
    .await;
}

async fn killing_everything(kind: SandboxKind) {
    let Some((_written, host)) = limited(kind).await else { return };
    let sandbox = start(&host).await;
    shell(&sandbox, "kill -9 1; kill -TERM 1; kill -9 -1").await;
    still_works(&sandbox).await;
    // Orphans are cleared away: they do not fill the sandbox.
    out(&sandbox, "for i in $(seq 15); do (sleep 0.01 &) ; done").await;
    let few =
        "for i in $(seq 100); do [ $(ls -d /proc/[0-9]* | wc -l) -lt 10 ] && exit; sleep 0.1; done; exit 1";
    out(&sandbox, few).await;
}

async fn what_survives_the_agent(kind: SandboxKind) {
    let Some((_written, host)) = limited(kind).await else { return };
    let sandbox = start(&host).await;
    out(&sandbox, "setsid nohup sh -c 'trap \"\" TERM HUP INT; while :; do date +%N >beat; sleep 0.02; done' >/dev/null 2>&1 & until test -f beat; do sleep 0.05; done").await;
    let ended = sandbox.end().await;
    let beat = |folder: &str| {
        let copy = tempfile::tempdir().expect("a folder");
        let to = copy.path().join(folder);
        (copy, to)
    };
    let mut seen = Vec::new();
    for round in ["one", "two"] {
        let (_copy, to) = beat(round);
        ended.copy_out(&to, 1 << 20).await.expect("copied");
        let mut text = String::new();
        std::fs::File::open(to.join("beat")).expect("a file").read_to_string(&mut text).expect("text");
        seen.push(text);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(seen[0], seen[1]);
}

async fn fooling_the_scorer(kind: SandboxKind) {
    let test = "test \"$(cat answer 2>/dev/null)\" = \"$(cat /tests/truth)\" && [ ! -L answer ] && echo right && exit 0\n\
        [ -e /tmp/planted ] && echo planted && exit 0\n[ -p pipe ] && cat pipe\n\
        python3 -c 'import sys; sys.exit(1)' && echo fooled && exit 0\necho wrong\nexit 1\n";
    let written = Written::new(&[
        ("environment.toml", LIMITS),
        ("tasks/main/work/tests/test.sh", test),
        ("tasks/main/work/tests/truth", "the truth"),
    ]);
    let environment = written.environment();
    let Some(host) = host(&environment, kind).await else { return };
    let sandbox = start(&host).await;
    let planted = "ln -s /tests/truth answer; ln -s /tests deep; ln -s deep/truth other; mkfifo pipe; echo 1 >/tmp/planted\n\
        printf '#!/bin/sh\\nexit 0\\n' >python3; chmod +x python3; cp python3 /tmp/python3; cp python3 /home/agent/\n\
        echo 'PATH=/workspace:$PATH' >/home/agent/.bashrc; cp /home/agent/.bashrc /home/agent/.profile\n\
        export PATH=/workspace:$PATH LD_PRELOAD=/workspace/evil.so BASH_ENV=/workspace/env; echo 'exit 0' >env\n\
        mkdir -p /tests /logs/verifier 2>/dev/null; echo 1 >/logs/verifier/reward.txt; ls / >listing\n\
        nohup sh -c 'while :; do cp /tests/truth /workspace/answer; echo 1 >/logs/verifier/reward.txt; done' >/dev/null 2>&1 &\n\
        true";
    shell(&sandbox, planted).await;
    let ended = sandbox.end().await;
    assert_eq!(ended.removed(), ["answer", "deep", "pipe"]);
    let score =
        ended.score(TaskRef::Main(&environment.mains[0]), &ScoreInput::default()).await.expect("a score");
    let expected = ScoreOutcome::Scored { value: 0.0, explanation: Some("wrong".into()), happened_at: None };
    assert_eq!(score.outcome, expected);
}
