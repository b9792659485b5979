//! Limits that the kernel keeps for all processes of a `local` cell together, where control groups may be made: as root, or in
//! a tree of version 2 that was handed to the user. Elsewhere `watch.rs` does what it can.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::environment::SandboxSettings;

/// Where control groups are.
const ROOT: &str = "/sys/fs/cgroup";
/// How groups are called; the process that they belong to follows.
const PREFIX: &str = "ct-";
/// Processes of ours that enter a cell and count, beside its own.
const ENTERING_MAX: u32 = 8;
/// The time in which processors are shared out, in microseconds.
const PERIOD_US: u64 = 100_000;

/// A control group of one cell: a folder, or of version 1 one for each controller. It goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
}

/// Where groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Version 2: below this folder.
    Unified(PathBuf),
    /// Version 1: below these, of memory, processes and processors, as far as they are there.
    Split(Vec<PathBuf>),
}

impl Group {
    /// Makes one with the limits of an environment, where that is possible.
    pub(crate) fn make(settings: &SandboxSettings) -> Option<Self> {
        static PLACE: OnceLock<Option<Place>> = OnceLock::new();
        let place = PLACE.get_or_init(|| {
            let own = fs::read_to_string("/proc/self/cgroup").ok()?;
            let place = Place::find(Path::new(ROOT), &own)?;
            place.folders().iter().for_each(|folder| remove_left(folder));
            Some(place)
        });
        Self::make_at(place.as_ref()?, settings)
    }

    fn make_at(place: &Place, settings: &SandboxSettings) -> Option<Self> {
        let name = format!("{PREFIX}{}.{}", super::leftover::own_name(), super::stage::token());
        let group = Self { folders: place.folders().iter().map(|folder| folder.join(&name)).collect() };
        let made =
            group.folders.iter().try_for_each(fs::create_dir).and_then(|()| group.set(place, settings));
        // What cannot be limited is not used: dropped, it goes.
        made.ok().map(|()| group)
    }

    fn set(&self, place: &Place, settings: &SandboxSettings) -> std::io::Result<()> {
        let memory = settings.memory_bytes.to_string();
        let processes = (settings.processes + ENTERING_MAX).to_string();
        let quota = ((settings.cpus * PERIOD_US as f64) as u64).max(1000).to_string();
        let period = PERIOD_US.to_string();
        let processors = format!("{quota} {period}");
        let (needed, wanted): (&[_], &[_]) = match place {
            Place::Unified(_) => (
                &[("memory.max", &memory), ("pids.max", &processes)],
                &[("memory.swap.max", &"0".to_owned()), ("cpu.max", &processors)],
            ),
            Place::Split(_) => (
                &[("memory.limit_in_bytes", &memory)],
                &[
                    ("memory.memsw.limit_in_bytes", &memory),
                    ("pids.max", &processes),
                    ("cpu.cfs_period_us", &period),
                    ("cpu.cfs_quota_us", &quota),
                ],
            ),
        };
        for (file, value) in needed {
            fs::write(self.file(file), value)?;
        }
        for (file, value) in wanted {
            let path = self.file(file);
            if path.exists() {
                fs::write(path, value)?;
            }
        }
        Ok(())
    }

    /// A file of the controller that has it.
    fn file(&self, name: &str) -> PathBuf {
        let mut paths = self.folders.iter().map(|folder| folder.join(name));
        let first = self.folders.first().map(|folder| folder.join(name)).unwrap_or_default();
        paths.find(|path| path.exists()).unwrap_or(first)
    }

    /// The files that a process writes `0` into to get in.
    pub(crate) fn doors(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs"))
    }

    /// How many processes were killed for want of memory so far.
    pub(crate) fn killed(&self) -> u64 {
        let text = ["memory.events", "memory.oom_control"]
            .iter()
            .find_map(|name| fs::read_to_string(self.file(name)).ok());
        let text = text.unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes may still be about to go: their groups are removed with one of the next.
        static WAITING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.append(&mut self.folders);
        waiting.retain(|folder| fs::remove_dir(folder).is_err() && folder.exists());
    }
}

impl Place {
    /// Where a process that is in the groups `own` (as in `/proc/self/cgroup`) may make more.
    fn find(root: &Path, own: &str) -> Option<Self> {
        let path = |controller: &str| {
            own.lines().find_map(|line| {
                let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                controllers
                    .split(',')
                    .any(|name| name == controller)
                    .then(|| path.trim_start_matches('/').to_owned())
            })
        };
        if let Some(own) = path("memory") {
            let folder = |controller: &str| {
                let base = root.join(controller);
                [base.join(path(controller).unwrap_or_default()), base]
                    .into_iter()
                    .find(|folder| may_make(folder))
            };
            // Memory is what it is about.
            let memory = folder("memory").filter(|_| own.len() < 4096)?;
            return Some(Self::Split(
                [memory].into_iter().chain(["pids", "cpu"].into_iter().filter_map(folder)).collect(),
            ));
        }
        let own = root.join(path("")?);
        let mut above = own.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
        let hands_on = |folder: &&Path| {
            let controllers = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
            ["memory", "pids"].iter().all(|name| controllers.split_whitespace().any(|word| word == *name))
                && may_make(folder)
        };
        above.find(hands_on).map(|folder| Self::Unified(folder.to_owned()))
    }

    fn folders(&self) -> &[PathBuf] {
        match self {
            Self::Unified(folder) => std::slice::from_ref(folder),
            Self::Split(folders) => folders,
        }
    }
}

/// Whether groups can be made in a folder, and processes of the folder be moved into them.
fn may_make(folder: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(folder, Access::WRITE_OK).is_ok() && access(folder.join("cgroup.procs"), Access::WRITE_OK).is_ok()
}

/// Removes the groups that killed processes left. One with processes cannot be removed.
fn remove_left(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if owner.is_some_and(super::leftover::is_dead) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(root: &Path, name: &str, files: &[(&str, &str)]) {
        let folder = root.join(name);
        fs::create_dir_all(&folder).expect("a folder");
        for (name, text) in files {
            fs::write(folder.join(name), text).expect("a file");
        }
    }

    #[test]
    fn where_groups_are_made() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let procs = ("cgroup.procs", "");
        folder(root, "", &[procs, ("cgroup.subtree_control", "cpu memory pids")]);
        folder(root, "user.slice", &[procs, ("cgroup.subtree_control", "memory pids\n")]);
        folder(root, "user.slice/session.scope", &[procs, ("cgroup.subtree_control", "")]);
        let found = Place::find(root, "0::/user.slice/session.scope\n");
        assert_eq!(found, Some(Place::Unified(root.join("user.slice"))));
        // In a container that sees its own group as the root there is nothing above.
        assert_eq!(Place::find(root, "0::/\n"), None);
        assert_eq!(Place::find(root, ""), None);

        folder(root, "memory/mine", &[procs]);
        folder(root, "cpu", &[procs]);
        let found = Place::find(root, "9:cpu,cpuacct:/elsewhere\n4:memory:/mine\n0::/\n");
        assert_eq!(found, Some(Place::Split(vec![root.join("memory/mine"), root.join("cpu")])));
    }

    #[test]
    fn limits_as_version_2_writes_them() {
        let root = tempfile::tempdir().expect("a folder");
        let group = Group { folders: vec![root.path().join("group")] };
        folder(
            root.path(),
            "group",
            &[("cpu.max", ""), ("memory.swap.max", "max"), ("memory.events", "oom 4\noom_kill 3\n")],
        );
        let settings = SandboxSettings {
            cpus: 1.5,
            memory_bytes: 64 << 20,
            processes: 20,
            ..SandboxSettings::default()
        };
        group.set(&Place::Unified(root.path().to_owned()), &settings).expect("set");
        let read = |name: &str| fs::read_to_string(root.path().join("group").join(name)).expect("a file");
        assert_eq!((read("memory.max"), read("pids.max")), ("67108864".into(), "28".into()));
        assert_eq!((read("cpu.max"), read("memory.swap.max")), ("150000 100000".into(), "0".into()));
        assert_eq!(group.killed(), 3);
    }
}
