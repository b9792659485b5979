//! Tricks with the kernel: the first process, calls that reach past a sandbox, sockets of the machine, files that are not
//! what they seem.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use ct_environment::{ExecRequest, LimitHit, SandboxError, SandboxKind};

use crate::support::{Written, for_each_kind, host, out, shell, start};

for_each_kind!(
    the_first_process_is_out_of_reach,
    calls_that_reach_far_are_refused,
    nothing_is_typed_into_terminals,
    no_sockets_of_the_machine,
    memory_that_is_shared,
    memory_in_temporary_files,
    files_with_holes,
    files_without_names,
);

const LIMITS: &str =
    "[sandbox]\nmemory_mb = 160\nprocesses = 40\ndisk_mb = 24\ncommand_timeout_seconds = 60\n";

async fn python(sandbox: &ct_environment::Sandbox, script: &str) -> ct_environment::ExecResult {
    sandbox.exec(ExecRequest::program(["python3", "-c", script])).await.expect("a result")
}

/// Whoever holds its input open, or traces it, keeps it from ending with this process.
async fn the_first_process_is_out_of_reach(kind: SandboxKind) {
    let written = Written::new(&[("environment.toml", LIMITS)]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    // Of a container it can be held: the test of killed programs shows that nothing comes of it.
    if kind == SandboxKind::Local {
        assert!(!shell(&sandbox, "exec 9<>/proc/1/fd/0").await.success());
        assert!(!shell(&sandbox, "echo x >/proc/1/fd/0").await.success());
        for file in ["fd/0", "cwd", "root", "exe"] {
            assert!(!shell(&sandbox, &format!("readlink /proc/1/{file}")).await.success(), "{file}");
        }
        for file in ["environ", "mem", "maps"] {
            assert!(!shell(&sandbox, &format!("head -c 1 /proc/1/{file}")).await.success(), "{file}");
        }
        let attach = "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nprint(c.ptrace(16, 1, 0, 0), ctypes.get_errno())";
        assert_eq!(python(&sandbox, attach).await.stdout.text(), "-1 1\n");
    }
    // Nor does it hear a signal.
    out(&sandbox, "kill -STOP 1; kill -TERM 1; true").await;
    assert_eq!(out(&sandbox, "grep ^State /proc/1/status | cut -c8").await, "S\n");
}

async fn calls_that_reach_far_are_refused(kind: SandboxKind) {
    let written = Written::new(&[("environment.toml", LIMITS)]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    let calls = [
        ("keyctl", libc::SYS_keyctl, "0, -4, 1"),
        ("add_key", libc::SYS_add_key, "b'user', b'a', b'b', 1, -4"),
        ("request_key", libc::SYS_request_key, "b'user', b'a', None, -4"),
        ("bpf", libc::SYS_bpf, "0, None, 0"),
        ("perf_event_open", libc::SYS_perf_event_open, "None, 0, -1, -1, 0"),
        ("userfaultfd", libc::SYS_userfaultfd, "0"),
        ("mount", libc::SYS_mount, "b'none', b'/tmp', b'tmpfs', 0, None"),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, "-100, None, 0"),
        ("unshare", libc::SYS_unshare, "0x10000000"),
        ("clone", libc::SYS_clone, "0x10000011, None, None, None, None"),
        ("kexec_load", libc::SYS_kexec_load, "0, 0, None, 0"),
        ("io_uring_setup", libc::SYS_io_uring_setup, "1, None"),
        // Of a machine that is virtual, to the machine around it.
        ("vsock", libc::SYS_socket, "40, 1, 0"),
        ("alg", libc::SYS_socket, "38, 5, 0"),
    ];
    let mut script = String::from("import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n");
    for (name, number, arguments) in calls {
        script += &format!("print('{name}', c.syscall({number}, {arguments}), ctypes.get_errno())\n");
    }
    let result = python(&sandbox, &script).await;
    let told = result.stdout.text();
    assert_eq!(told.lines().count(), calls.len(), "{result:?}");
    for line in told.lines() {
        // Some of them an engine's own filter lets through, which depends on its version.
        let engines = ["keyctl", "unshare", "vsock"].iter().any(|name| line.starts_with(name));
        let refused = match kind {
            SandboxKind::Local => line.ends_with(" -1 1"),
            SandboxKind::Container => engines || line.contains(" -1 "),
        };
        assert!(refused, "{told}");
    }
    // What programs do all the time works: threads, processes, sockets of all usual sorts.
    let usual = "import threading, socket, subprocess, multiprocessing\n\
        t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
        for f in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK): socket.socket(f, socket.SOCK_DGRAM)\n\
        p = multiprocessing.Process(target=int); p.start(); p.join(); print(p.exitcode, subprocess.call(['true']))";
    let result = python(&sandbox, usual).await;
    assert_eq!(result.stdout.text(), "0 0\n", "{result:?}");
}

async fn nothing_is_typed_into_terminals(kind: SandboxKind) {
    let written = Written::new(&[("environment.toml", LIMITS)]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    let script = "import fcntl, os\nfor fd in list(range(10)):\n for path in (None, '/dev/tty', '/dev/console', '/dev/tty0', '/dev/pts/0'):\n  \
        try:\n   fcntl.ioctl(fd if path is None else os.open(path, os.O_RDWR), 0x5412, b'x'); print('typed', fd, path)\n  \
        except OSError: pass\n";
    let result = python(&sandbox, script).await;
    assert!(result.success() && result.stdout.total_bytes == 0, "{result:?}");
}

async fn no_sockets_of_the_machine(kind: SandboxKind) {
    let written = Written::new(&[("environment.toml", LIMITS)]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let path = written.folder.path().join("socket");
    let _by_path = UnixListener::bind(&path).expect("a socket");
    let name = format!("ct-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("an address");
    let _by_name = UnixListener::bind_addr(&address).expect("a socket");
    let sandbox = start(&host).await;
    for address in
        [format!("'\\0{name}'"), format!("'{}'", path.display()), "'/run/dbus/system_bus_socket'".to_owned()]
    {
        let script = format!("import socket; socket.socket(socket.AF_UNIX).connect({address})");
        let result = python(&sandbox, &script).await;
        let said = result.stderr.text();
        assert!(
            said.contains("ConnectionRefusedError") || said.contains("FileNotFoundError"),
            "{address}: {result:?}"
        );
    }
    // There are such sockets to be found: with a name known to this process, from here.
    std::os::unix::net::UnixStream::connect_addr(&address).expect("it listens");
}

/// Memory that several processes share is theirs, too.
async fn memory_that_is_shared(kind: SandboxKind) {
    let written = Written::new(&[("environment.toml", LIMITS)]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    let script = "import mmap, time\nm = mmap.mmap(-1, 600 << 20)\nfor i in range(0, len(m), 4096): m[i] = 1\ntime.sleep(30); print('had it')";
    let result = python(&sandbox, script).await;
    assert!(!result.success() && !result.stdout.text().contains("had it"), "{result:?}");
    if kind == SandboxKind::Local {
        assert_eq!(result.limit_hit, Some(LimitHit::Memory), "{result:?}");
    }
    assert_eq!(out(&sandbox, "echo still here").await, "still here\n");
}

async fn memory_in_temporary_files(kind: SandboxKind) {
    let limits = "[sandbox]\nmemory_mb = 100\ndisk_mb = 90\n";
    let written = Written::new(&[("environment.toml", limits)]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    let fill = "for d in /tmp /var/tmp /dev/shm /home/agent; do head -c 60000000 /dev/zero >$d/x || exit 1; done; sleep 1; echo had it";
    let result = shell(&sandbox, fill).await;
    assert!(!result.success() && !result.stdout.text().contains("had it"), "{result:?}");
}

/// A file's size says nothing of what it takes: holes are neither a breach nor copied without end.
async fn files_with_holes(kind: SandboxKind) {
    let written = Written::new(&[("environment.toml", LIMITS)]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let sandbox = start(&host).await;
    let one = "python3 -c \"import os; os.truncate(os.open('huge', os.O_CREAT | os.O_WRONLY), 1 << 40)\"";
    assert!(!shell(&sandbox, one).await.success());
    out(&sandbox, "python3 -c \"for i in range(50): open(f'h{i}', 'w').truncate(20 << 20)\"").await;
    let ended = sandbox.end().await;
    let target = tempfile::tempdir().expect("a folder");
    let copied = ended.copy_out(&target.path().join("copy"), 100 << 20).await;
    assert!(matches!(copied, Err(SandboxError::TooLarge { .. })), "{copied:?}");
}

/// What is open takes room, with a name or without.
async fn files_without_names(kind: SandboxKind) {
    let written = Written::new(&[("environment.toml", LIMITS)]);
    let Some(host) = host(&written.environment(), kind).await else { return };
    let fill = "import mmap, os, time\nkept = []\nfor n in range(40):\n f = open('f', 'w+b'); os.unlink('f')\n f.write(bytes(4 << 20)); f.flush()\n";
    let open = format!("{fill} kept.append(f)\ntime.sleep(600)");
    let mapped = format!("{fill} kept.append(mmap.mmap(f.fileno(), 4 << 20)); f.close()\ntime.sleep(600)");
    for script in [open, mapped] {
        // Docker does not tell where a container's processes are.
        if kind == SandboxKind::Container && !host.describe().contains("podman") {
            return;
        }
        let sandbox = start(&host).await;
        let result = python(&sandbox, &script).await;
        assert_eq!(result.limit_hit, Some(LimitHit::Disk), "{result:?}");
        assert_eq!(out(&sandbox, "echo still here").await, "still here\n");
        // A few are nobody's concern.
        let few = script
            .replace("range(40)", "range(2)")
            .replace("time.sleep(600)", "time.sleep(0.5); print('fine')");
        let result = python(&sandbox, &few).await;
        assert_eq!((result.limit_hit, result.stdout.text().as_str()), (None, "fine\n"), "{result:?}");
    }
}
