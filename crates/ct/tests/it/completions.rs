use crate::support::Home;

#[test]
fn every_shell_gets_a_script() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = home.stdout(&["completions", shell]);
        for word in ["download-trajs", "drop-score", "stratified"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
}

#[test]
fn bash_accepts_its_script() {
    let home = Home::new();
    let script = home.file("ct.bash", home.stdout(&["completions", "bash"]));
    let Ok(output) = std::process::Command::new("bash").arg("-n").arg(&script).output() else {
        eprintln!("not tested: there is no bash here");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
