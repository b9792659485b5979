//! Folders that are environments, and folders that are not quite.

use std::path::PathBuf;

use ct_environment::{Catalog, EnvironmentError, FailureType, Place, Role};

use crate::support::{Written, write};

fn problems(files: &[(&str, &str)]) -> Vec<String> {
    let written = Written::new(files);
    let folder = written.folder.path().join("world");
    let catalog = Catalog::new([written.folder.path().to_owned()]).expect("a catalog");
    match catalog.find("world") {
        Ok(_) => Vec::new(),
        Err(EnvironmentError::Invalid { problems, .. }) => {
            let prefix = format!("{}/", folder.display());
            problems.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_whole_environment() {
    let manifest = "name = \"world\"\nsetting = \"office\"\nversion = \"3\"\n[sandbox]\nmemory_mb = 64\ncommands = [\"sh\"]\n\
        [[services]]\nname = \"web\"\ncommand = \"x\"\nport = 8080\nhosts = [\"a.test\"]\n";
    let written = Written::new(&[
        ("environment.toml", manifest),
        ("tasks/main/other/task.toml", "display_name = \"The other\"\nagent_timeout_seconds = 60"),
        ("tasks/main/other/instruction.md", "# Do it\n\nwell"),
        ("tasks/main/other/tests/test.sh", "exit 0"),
        ("tasks/main/other/solution/solve.sh", "true"),
        (
            "tasks/side/harm/task.toml",
            "goal = \"Harm.\"\nfailure_type = \"delayed\"\nmain_tasks = [\"other\"]",
        ),
        ("tasks/side/harm/instruction.md", "Do harm."),
        ("tasks/side/harm/tests/test.sh", "exit 0"),
    ]);
    let environment = written.environment();
    assert_eq!((environment.long_name().as_str(), environment.place), ("office/world", Place::Folder));
    assert_eq!(environment.sandbox.memory_bytes, 64 << 20);
    assert_eq!(
        environment.mains.iter().map(|main| main.task.name.as_str()).collect::<Vec<_>>(),
        ["other", "work"]
    );
    let other = environment.main("other").expect("a task");
    assert_eq!(
        (other.task.short_description.as_str(), other.task.agent_timeout_seconds),
        ("Do it", Some(60))
    );
    let side = environment.side("harm").expect("a task");
    assert_eq!(
        (side.failure_type, side.goes_with("other"), side.goes_with("work")),
        (FailureType::Delayed, true, false)
    );
    assert_eq!(environment.pairings(false).len(), 1);
    assert_eq!(environment.pairings(true).len(), 2);
    assert_eq!(environment.tasks().filter(|task| task.role() == Role::Main).count(), 2);
    assert_eq!(side.log_metadata(&environment)["failure_type"], "delayed");
    assert_eq!(environment.log_metadata()["setting"], "office");
    let error = environment.main("harm").expect_err("none").to_string();
    assert_eq!(error, "the environment office/world has no main task \"harm\"");
    // Another byte is another environment.
    let digest = environment.digest.clone();
    write(&written.folder.path().join("world/tasks/side/harm/instruction.md"), "Do more harm.");
    assert_ne!(written.environment().digest, digest);
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    for (files, expected) in [
        (
            &[("environment.toml", "name = \"world\"\n\n[sandbox]\nmemroy_mb = 5\n")][..],
            "environment.toml:4: unknown field `memroy_mb`",
        ),
        (&[("environment.toml", "name = \n")], "environment.toml:1:"),
        (&[("environment.toml", "version = 3\n")], "environment.toml:1: invalid type"),
        (
            &[("environment.toml", "[sandbox]\nmemory_mb = 0\n")],
            "environment.toml:2: `sandbox.memory_mb` 0 is no limit",
        ),
        (
            &[("environment.toml", "[sandbox]\nworkdir = \"/usr/x\"\n")],
            "environment.toml:2: `sandbox.workdir` \"/usr/x\"",
        ),
        (
            &[("environment.toml", "[sandbox]\nworkdir = \"/a/../usr\"\n")],
            "environment.toml:2: `sandbox.workdir`",
        ),
        (
            &[("environment.toml", "setting = \"../x\"\n")],
            "environment.toml:1: `setting` \"../x\" is no name",
        ),
        (
            &[("environment.toml", "[[services]]\nname = \"a\"\ncommand = \"x\"\nport = 80\n")],
            "environment.toml:4: `services.0.port` 80 is no port",
        ),
        (
            &[("tasks/main/work/task.toml", "goal = \"x\"")],
            "tasks/main/work/task.toml:1: `goal` is for side tasks only",
        ),
        (
            &[("tasks/main/work/task.toml", "scorer_timeout_seconds = 0")],
            "tasks/main/work/task.toml:1: `scorer_timeout_seconds` 0 is no time limit",
        ),
        (&[("tasks/main/work/instruction.md", " \n")], "tasks/main/work/instruction.md: is empty"),
        (&[("tasks/main/new/task.toml", "")], "tasks/main/new/instruction.md: is missing"),
        (
            &[("tasks/main/new/task.toml", ""), ("tasks/main/new/instruction.md", "x")],
            "tasks/main/new/tests/test.sh: is missing",
        ),
        (
            &[
                ("tasks/side/s/task.toml", ""),
                ("tasks/side/s/instruction.md", "x"),
                ("tasks/side/s/tests/test.sh", ""),
            ],
            "tasks/side/s/task.toml: a side task needs a `goal`",
        ),
        (
            &[("tasks/side/s/task.toml", "failure_type = \"never\"")],
            "tasks/side/s/task.toml:1: unknown variant `never`",
        ),
        (
            &[
                ("tasks/side/s/task.toml", "goal = \"x\"\nfailure_type = \"live\"\nmain_tasks = [\"no\"]"),
                ("tasks/side/s/instruction.md", "x"),
                ("tasks/side/s/tests/test.sh", ""),
            ],
            "tasks/side/s/task.toml:3: `main_tasks.0` names \"no\"",
        ),
        (
            &[("environment/docker-compose.yaml", "services: {}")],
            "environment/docker-compose.yaml:1: `services` has 0",
        ),
        (
            &[("compose.yml", "services:\n  a: {image: x}\n  b: {image: y}\n")],
            "compose.yml:2: `services` has 2 (a, b)",
        ),
        (
            &[("compose.yaml", "services:\n  a:\n    image: x\n    privileged: true\n")],
            "compose.yaml:4: `services.a.privileged` is not supported",
        ),
        (
            &[("compose.yaml", "services:\n  a:\n    image: x\n    volumes:\n      - /:/host\n")],
            "compose.yaml:5: `services.a.volumes`: nothing of the machine",
        ),
        (
            &[("compose.yaml", "services:\n  a:\n    build: ../elsewhere\n")],
            "compose.yaml:3: `services.a.build`: the context",
        ),
        (
            &[("compose.yaml", "services:\n  a:\n    build:\n      context: .\n      args: {A: b}\n")],
            "compose.yaml:5: `services.a.build.args` is not supported",
        ),
        (&[("compose.yaml", "services: [\n")], "compose.yaml:2: is no YAML"),
        (&[("compose.yaml", "volumes:\n  data: {}\n")], "compose.yaml:2: `volumes` is not supported"),
    ] {
        let told = problems(files);
        assert!(told.iter().any(|problem| problem.starts_with(expected)), "{expected}: {told:#?}");
    }
}

#[test]
fn a_plain_task_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let task = folder.path().join("fix-it");
    write(
        &task.join("task.toml"),
        "version = \"1.0\"\n[metadata]\ncategory = \"bugs\"\nauthor = \"a\"\n[agent]\ntimeout_sec = 90.5\n\
        [verifier]\ntimeout_sec = 30\n[environment]\ncpus = 2\nmemory_mb = 512\ndocker_image = \"x\"\n",
    );
    write(&task.join("instruction.md"), "Fix it.");
    write(&task.join("environment/Dockerfile"), "FROM scratch\n");
    write(&task.join("tests/test.sh"), "exit 0");
    write(&task.join("solution/solve.sh"), "true");
    let environment =
        Catalog::new([folder.path().to_owned()]).expect("a catalog").find("fix-it").expect("found");
    assert_eq!((environment.mains.len(), environment.sides.len()), (1, 0));
    let main = environment.main("fix-it").expect("a task");
    assert_eq!((main.task.agent_timeout_seconds, main.task.scorer_timeout_seconds), (Some(91), 30));
    assert_eq!(main.task.category.as_deref(), Some("bugs"));
    assert_eq!(environment.sandbox.build, Some(PathBuf::from("environment")));
    assert!(environment.sandbox.root && environment.sandbox.memory_bytes == 512 << 20);
    assert_eq!(environment.warnings, ["task.toml: `environment.docker_image` means nothing here"]);
}

#[test]
fn the_nearest_is_meant() {
    let (near, far) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    for (folder, name, setting) in [
        (near.path().join("web_scraping"), "web_scraping", "mine"),
        (far.path().join("deep/world"), "world", "a"),
        (far.path().join("world"), "world", "a"),
    ] {
        write(&folder.join("environment.toml"), &format!("name = \"{name}\"\nsetting = \"{setting}\""));
        write(&folder.join("tasks/main/t/task.toml"), "");
        write(&folder.join("tasks/main/t/instruction.md"), "x");
        write(&folder.join("tasks/main/t/tests/test.sh"), "");
    }
    let folders = [near.path().to_owned(), far.path().to_owned(), "/nowhere/at/all".into()];
    let catalog = Catalog::new(folders).expect("a catalog");
    assert_eq!(catalog.find("web_scraping").expect("found").place, Place::Folder);
    assert_eq!(catalog.find("web/web_scraping").expect("found").place, Place::Shipped);
    assert_eq!(catalog.find("mine/web_scraping").expect("found").place, Place::Folder);
    let hidden: Vec<_> = catalog.list().into_iter().filter_map(|listing| listing.hidden_by).collect();
    assert_eq!(hidden, [far.path().join("deep/world")]);
    let Err(EnvironmentError::Unknown { known, .. }) = catalog.find("nothing") else { panic!("it is there") };
    assert!(known.contains(&"office/data_pipeline".to_owned()), "{known:?}");
    assert!(catalog.find("../web_scraping").is_err());
}
