//! The program where parts of the file system are other than outside: small disks, folders that are read-only. They are
//! made by bubblewrap, which needs no rights, and go with the process.

use std::process::{Command, Output};

use crate::support::{Home, not_tested};

/// A part of the file system, by its name in the working directory.
#[derive(Clone, Copy)]
pub(crate) enum Mount<'a> {
    /// An empty disk of so many bytes.
    Disk(&'a str, u64),
    /// What is there, not to be written.
    ReadOnly(&'a str),
}

/// What a script says there; `$1` is the program. None, which is said: nothing can be mounted here.
pub(crate) fn in_namespace(
    home: &Home,
    mount: Mount<'_>,
    setting: &[(&str, &str)],
    script: &str,
) -> Option<String> {
    let shell = |script: &str| -> std::io::Result<Output> {
        let program = home.command(&[]);
        let mut command = Command::new("bwrap");
        command.args(["--die-with-parent", "--dev-bind", "/", "/"]);
        match mount {
            Mount::Disk(name, bytes) => {
                command.arg("--size").arg(bytes.to_string()).arg("--tmpfs").arg(home.path(name))
            }
            Mount::ReadOnly(name) => {
                let path = home.path(name).canonicalize()?;
                command.arg("--ro-bind").arg(&path).arg(&path)
            }
        };
        command.args(["--", "/bin/bash", "-c", script, "bash"]).arg(program.get_program());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").envs(setting.iter().copied());
        command.current_dir(program.get_current_dir().unwrap()).output()
    };
    match shell("true") {
        Ok(output) if output.status.success() => {}
        other => {
            not_tested(&format!("bubblewrap can mount nothing: {other:?}"));
            return None;
        }
    }
    let output = shell(&format!("set -u; {script}")).unwrap();
    assert!(output.status.success(), "{script}\n{output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}
