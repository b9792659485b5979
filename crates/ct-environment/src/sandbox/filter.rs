//! The system calls that commands in a `local` sandbox may not make.
//!
//! A filter is put on a thread and goes from there to all that it starts, so one thread of this process starts these
//! commands. Of the many calls those are refused that reach far into the kernel, or past the sandbox's namespaces, and that
//! work on files, programs and networks does not need.

use std::collections::BTreeMap;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

/// Calls refused whatever is asked: keys of the kernel, programs in it, other ways to ask it for things, mounts, modules, time.
const REFUSED: [i64; 38] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_writev,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
];
/// The sorts of socket that may be made: others, as those of a virtual machine to its host, know no namespaces.
const SOCKETS: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// A command to start, and who waits for it.
struct Job {
    command: Command,
    runtime: tokio::runtime::Handle,
    answer: oneshot::Sender<io::Result<Child>>,
}

/// Starts a command, and with it all that it starts, under the filter.
pub(crate) async fn spawn(command: Command) -> io::Result<Child> {
    let thread = thread().as_ref().map_err(|problem| io::Error::other(problem.clone()))?;
    let (answer, child) = oneshot::channel();
    let job = Job { command, runtime: tokio::runtime::Handle::current(), answer };
    let gone = || io::Error::other("the thread that starts commands is gone");
    thread.send(job).map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

/// Why there can be no filter here, if so.
pub(crate) fn problem() -> Option<&'static str> {
    thread().as_ref().err().map(String::as_str)
}

fn thread() -> &'static Result<Sender<Job>, String> {
    static THREAD: OnceLock<Result<Sender<Job>, String>> = OnceLock::new();
    THREAD.get_or_init(|| {
        let (jobs, waiting) = channel::<Job>();
        let (ready, applied) = channel();
        let run = move || {
            let filtered = programs().and_then(|programs| {
                programs.iter().try_for_each(|program| {
                    seccompiler::apply_filter(program).map_err(|error| error.to_string())
                })
            });
            let works = filtered.is_ok();
            let _ = ready.send(filtered);
            if !works {
                return;
            }
            for mut job in waiting {
                let _runtime = job.runtime.enter();
                let _ = job.answer.send(job.command.spawn());
            }
        };
        let started = std::thread::Builder::new().name("ct-filtered".to_owned()).spawn(run);
        started.map_err(|error| error.to_string())?;
        applied.recv().map_err(|error| error.to_string())??;
        Ok(jobs)
    })
}

/// The filters, all of which a call has to pass.
fn programs() -> Result<Vec<BpfProgram>, String> {
    let told = |error: seccompiler::BackendError| error.to_string();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(told)?;
    let refuse = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    let filter = |rules: BTreeMap<i64, Vec<SeccompRule>>, action: SeccompAction| {
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, architecture).map_err(told)?;
        BpfProgram::try_from(filter).map_err(told)
    };
    let argument = |index: u8, operator: SeccompCmpOp, value: u64| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value).map_err(told)
    };
    let rule = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions).map_err(told);

    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    let users = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    for call in [libc::SYS_unshare, libc::SYS_clone] {
        rules.insert(call, vec![rule(vec![argument(0, SeccompCmpOp::MaskedEq(users), users)?])?]);
    }
    let other = |family: i32| argument(0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()));
    rules.insert(libc::SYS_socket, vec![rule(SOCKETS.into_iter().map(other).collect::<Result<_, _>>()?)?]);
    let typed = [libc::TIOCSTI, libc::TIOCLINUX].into_iter();
    let typed =
        typed.map(|request| rule(vec![argument(1, SeccompCmpOp::Eq, request)?])).collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_ioctl, typed);

    // What this one is asked for lies in memory, out of a filter's sight. Told that there is none, programs use the older.
    let newer = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok(vec![filter(rules, refuse(libc::EPERM))?, filter(newer, refuse(libc::ENOSYS))?])
}
