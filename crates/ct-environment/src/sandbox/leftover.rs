//! Containers whose process is gone.
//!
//! A shell outside waits until this process ends, however it ends, and removes its containers. Should that shell be killed as
//! well, the next process that uses containers does it: each container tells the process that it belongs to.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::process::{Child, Command};

/// The label with the process that a container belongs to.
const OWNER: &str = "control-tower.owner";
/// The label with the host that a container belongs to.
const HOST: &str = "control-tower.host";
/// How long a program of containers may take to list or remove some.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A script of a shell that runs a program of containers while its own input is open. When that is closed, it ends all that
/// came of it: to kill the client that builds an image ends no container that a step of the build runs in, nor removes it.
pub(crate) const WATCHED: &str = r#"
exec 3<&0
end() {
    kill -STOP $1
    layers="$layers $(sed -n 's|^[^ ]* [^ ]* [^ ]* [^ ]* / .*upperdir=[^,]*/\([0-9a-f]*\)/diff.*|\1|p' /proc/$1/mountinfo)"
    for c in $(cat /proc/$1/task/*/children); do end $c; done
    kill -9 $1
}
program=$1
"$@" </dev/null 3<&- & p=$!
(
    cat <&3
    trap '' TERM
    end $p
    for l in $layers; do
        for c in $($program mount | sed -n "s|^\([0-9a-f]*\) .*/$l/.*|\1|p"); do $program rm -f $c; done
    done
) >/dev/null 2>&1 & w=$!
exec 3<&-
wait $p; r=$?
kill $w 2>/dev/null
exit $r
"#;

/// What follows the name of the program to remove containers, words apart by spaces. Podman does not remove one whose
/// network another shares, unless it takes both.
pub(crate) fn removing(program: &str) -> &'static str {
    if program == "podman" { "rm -f -t 0 --ignore --depend" } else { "rm -f" }
}

/// The shell that outlives this process to remove what it leaves.
#[derive(Debug)]
pub(crate) struct Guard {
    host: String,
    owner: String,
    /// It ends when its input is closed.
    _child: Child,
}

impl Guard {
    /// Starts it, in a folder that it may run in.
    pub(crate) fn start(program: &str, folder: &Path) -> io::Result<Self> {
        let host = super::stage::token();
        // What is being made while it looks may come later: more than once, then.
        let script = format!(
            "cat >/dev/null; for i in 1 2 3; do c=$({program} ps -aq --filter label={HOST}={host}); \
             [ -z \"$c\" ] || {program} {} $c; done >/dev/null 2>&1",
            removing(program)
        );
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).current_dir(folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { host, owner: own_name().to_owned(), _child: command.spawn()? })
    }

    /// What each container is to be labelled with.
    pub(crate) fn labels(&self) -> [String; 4] {
        [
            "--label".into(),
            format!("{OWNER}={}", self.owner),
            "--label".into(),
            format!("{HOST}={}", self.host),
        ]
    }
}

/// Removes the containers of processes that are gone.
pub(crate) async fn remove(program: &'static str, folder: &Path) {
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        let result = super::exec::run(command, Vec::new(), TIMEOUT, 1 << 20).await.ok()?;
        result.success().then(|| result.stdout.text())
    };
    let filter = format!("label={OWNER}");
    let listing = ["ps", "-a", "--filter", &filter, "--format", "{{.ID}} {{.Labels}}"];
    let Some(listed) = run(&listing).await else { return };
    let dead =
        listed.lines().filter_map(|line| line.split_once(' ')).filter(|(_, labels)| is_dead(owner(labels)));
    let dead: Vec<&str> = dead.map(|(id, _)| id).collect();
    if !dead.is_empty() {
        let mut arguments: Vec<&str> = removing(program).split(' ').collect();
        arguments.extend(dead);
        run(&arguments).await;
    }
}

/// The owner among labels, which the programs list in ways of their own: `a=b,c=d` or `map[a:b c:d]`.
fn owner(labels: &str) -> &str {
    let value = labels.split_once(OWNER).map_or("", |(_, rest)| rest.get(1..).unwrap_or_default());
    let end = value.find([',', ' ', ']']).unwrap_or(value.len());
    &value[..end]
}

/// This process, unlike any other: the boot, the namespace of process numbers, the number, and when it started.
pub(crate) fn own_name() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        let pid = std::process::id();
        format!("{}.{pid}.{}", place(), started(pid).unwrap_or_default())
    });
    &NAME
}

/// Where a process number means something.
fn place() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{}.{digits}", boot.trim())
}

/// When a process started, in the kernel's ticks.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether a process is gone for sure. Of those of other namespaces nobody knows.
pub(crate) fn is_dead(owner: &str) -> bool {
    let Some([boot, space, pid, start]) = owner.trim().split('.').collect::<Vec<_>>().first_chunk().copied()
    else {
        return false;
    };
    let here = place();
    let Some((boot_here, space_here)) = here.split_once('.') else { return false };
    if boot != boot_here {
        return true;
    }
    space == space_here && pid.parse().is_ok_and(|pid| started(pid) != start.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_both_programs() {
        for labels in [
            "a=b,control-tower.owner=x-1.2.3,z=1",
            "map[a:b control-tower.owner:x-1.2.3 z:1]",
            "control-tower.owner=x-1.2.3",
        ] {
            assert_eq!(owner(labels), "x-1.2.3");
        }
        assert_eq!(owner("a=b"), "");
    }

    #[test]
    fn who_is_gone() {
        let own = own_name();
        assert!(!is_dead(own));
        let (rest, start) = own.rsplit_once('.').expect("parts");
        assert!(is_dead(&format!("{rest}.{}9", start)));
        let (place, _) = rest.rsplit_once('.').expect("parts");
        // Process numbers end below this one.
        assert!(is_dead(&format!("{place}.4294967295.1")));
        assert!(is_dead("another-boot.1.1.1"));
        let (boot, _) = place.rsplit_once('.').expect("parts");
        for unknown in [format!("{boot}.1.4294967295.1"), String::new(), "x".to_owned(), "a.b.c".to_owned()] {
            assert!(!is_dead(&unknown), "{unknown}");
        }
    }
}
