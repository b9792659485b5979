//! Who needs keys to a bucket and who does not, where they come from, and what a first start leaves that went wrong.

use std::process::Output;

use ct_test::Fault;

use crate::s3::Bucket;
use crate::support::Home;

const KEYS: [&str; 4] = ["AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"];

fn without_keys(home: &Home, arguments: &[&str]) -> Output {
    let mut command = home.command(arguments);
    for name in KEYS {
        command.env_remove(name);
    }
    command.output().unwrap()
}

#[test]
fn what_needs_no_log_needs_neither_keys_nor_the_bucket() {
    let Some(bucket) = Bucket::new() else { return };
    let home = bucket.store_home();
    home.log("control-tower/ct-11.eval", "ct-11.eval");
    home.stdout(&["runs", "make", "ct-11.eval"]);
    let run = home.run_id("");
    let commands: &[&[&str]] = &[
        &["runs", "list"],
        &["runs", "info", &run],
        &["runs", "sample", &run, "2", "_", "--seed", "7"],
        &["runs", "edit", &run, "--tag", "seen"],
        &["runs", "delete", &run],
        &["runs", "restore", &run],
        &["users", "list"],
        &["tokens", "list"],
        &["runs", "list", "--format", "json"],
    ];
    bucket.proxy.take();
    bucket.proxy.fail(|_, _| Fault::Away);
    for arguments in commands {
        let away = home.command(arguments).output().unwrap();
        assert!(away.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&away.stderr));
        let without = without_keys(&home, arguments);
        assert!(without.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&without.stderr));
    }
    assert_eq!(bucket.proxy.take(), [], "it was asked all the same");
    bucket.proxy.heal();
    // What needs a log says what is missing, before it does anything.
    home.log("control-tower/ct-12.eval", "ct-12.eval");
    for arguments in [
        &["runs", "make", "ct-12.eval"][..],
        &["runs", "download-eval", &run],
        &["runs", "download-trajs", &run],
        &["store", "check"],
        &["store", "gc"],
        &["store", "backup", "backup"],
        &["serve", "--bind", "127.0.0.1:0"],
    ] {
        let without = without_keys(&home, arguments);
        let said = String::from_utf8_lossy(&without.stderr);
        assert!(said.contains("AWS_ACCESS_KEY_ID"), "{arguments:?}: {said}");
        assert_eq!(without.status.code(), Some(2), "{arguments:?}: {said}");
    }
    assert_eq!(bucket.objects().len(), 1);
}

#[test]
fn a_first_start_that_goes_wrong_leaves_no_store() {
    let Some(bucket) = Bucket::new() else { return };
    let home = bucket.home();
    let data = home.path("../share/control-tower");
    let serve = |place: &str| ["serve", "--bind", "127.0.0.1:0", "--logs", place].map(str::to_owned);
    let start = |home: &Home, place: &str| {
        let arguments = serve(place);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        home.ct(&arguments)
    };
    let wrong = start(&home, "s3://no-such-bucket-here/ct");
    assert!(wrong.starts_with("exit code: 4") && wrong.contains("no-such-bucket-here"), "{wrong}");
    bucket.proxy.fail(|_, _| Fault::Refused(403, "AccessDenied"));
    let refused = start(&home, &bucket.place);
    assert!(refused.contains("AccessDenied"), "{refused}");
    bucket.proxy.heal();
    let without = without_keys(&home, &["serve", "--bind", "127.0.0.1:0", "--logs", &bucket.place]);
    let said = String::from_utf8_lossy(&without.stderr);
    assert!(!without.status.success() && said.contains("AWS_ACCESS_KEY_ID"), "{said}");
    for name in ["ct.sqlite", "logs.place", "logs"] {
        assert!(!data.join(name).exists(), "{name} was left behind");
    }
    // Nothing has to be put right before the next attempt, with the bucket or without any.
    home.log("control-tower/ct-11.eval", "ct-11.eval");
    home.stdout(&["runs", "make", "ct-11.eval"]);
    assert!(home.stdout(&["store", "check", "--format", "json"]).contains("\"sound\": true"));
    assert_eq!(bucket.objects(), Vec::<String>::new());
}

#[test]
fn keys_region_and_address_come_from_a_profile() {
    let Some(bucket) = Bucket::new() else { return };
    let home = bucket.store_home();
    home.log("control-tower/ct-11.eval", "ct-11.eval");
    let variables = bucket.service.variables(Some(bucket.proxy.address()));
    let value = |name: &str| variables.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    let secrets = format!(
        "[default]\naws_access_key_id = nobody\naws_secret_access_key = wrong\n\n[team]\n\
         aws_access_key_id = {}\naws_secret_access_key = {}\n",
        value("AWS_ACCESS_KEY_ID"),
        value("AWS_SECRET_ACCESS_KEY")
    );
    let settings = format!("[profile team]\nregion = us-east-1\nendpoint_url = {}\n", bucket.proxy.address());
    home.file("../.aws/credentials", &secrets);
    home.file("../.aws/config", &settings);
    home.file("elsewhere/secrets", &secrets);
    home.file("elsewhere/settings", &settings);
    let ct = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = home.command(arguments);
        for name in KEYS {
            command.env_remove(name);
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let team = ("AWS_PROFILE", "team");
    let made = ct(&[team], &["runs", "make", "ct-11.eval"]);
    assert_eq!((made.0, bucket.objects().len()), (Some(0), 1), "{}", made.1);
    let elsewhere = [
        team,
        ("HOME", "/nonexistent"),
        ("AWS_SHARED_CREDENTIALS_FILE", "elsewhere/secrets"),
        ("AWS_CONFIG_FILE", "elsewhere/settings"),
    ];
    let checked = ct(&elsewhere, &["store", "check"]);
    assert_eq!(checked.0, Some(0), "{}", checked.1);
    // The default profile has keys that nobody knows.
    let wrong = ct(&[("AWS_ENDPOINT_URL", bucket.proxy.address())], &["store", "check"]);
    assert!(wrong.0 != Some(0) && wrong.1.contains("does not accept the keys"), "{}", wrong.1);
    assert!(
        !wrong.1.contains("wrong\n") && !wrong.1.contains(&value("AWS_SECRET_ACCESS_KEY")),
        "{}",
        wrong.1
    );
    let missing = ct(&[("AWS_PROFILE", "nobody")], &["store", "check"]);
    assert!(missing.0 == Some(2) && missing.1.contains("no profile nobody"), "{}", missing.1);
}
