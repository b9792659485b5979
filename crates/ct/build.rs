//! Puts the git commit into the version, when the program is built from a checkout that has git.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Asked when it runs: checkouts that share a target folder share this program too.
    let manifest = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let workspace = Path::new(&manifest).join("../..");
    let version = env!("CARGO_PKG_VERSION");
    match commit(&workspace) {
        Some(commit) => println!("cargo::rustc-env=CT_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=CT_VERSION={version}"),
    }
}

/// The commit of the checkout at `workspace`; none when git is absent, or when the sources merely lie inside another
/// project's repository.
fn commit(workspace: &Path) -> Option<String> {
    let top = git(workspace, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != workspace.canonicalize().ok()? {
        return None;
    }
    // The log of HEAD grows with every commit, checkout and merge; HEAD itself changes only with the branch.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(workspace, &["rev-parse", "--git-path", name]) {
            println!("cargo::rerun-if-changed={}", workspace.join(path).display());
        }
    }
    git(workspace, &["rev-parse", "--short=12", "HEAD"])
}

fn git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(directory).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
