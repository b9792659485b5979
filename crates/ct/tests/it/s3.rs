//! Logs in a bucket of a real service: the program, and its server and clients.

use std::process::Stdio;
use std::time::{Duration, Instant};

use ct_test::{Proxy, S3Service, Seen};
use serde_json::Value;

use crate::logs::{Numbers, big_log, files_below, header, sample, sound_runs};
use crate::server::{Served, user_with_token};
use crate::support::Home;

/// A home whose store has its logs in a place of its own, with a connection to it that counts.
pub(crate) struct Bucket {
    pub(crate) proxy: Proxy,
    pub(crate) place: String,
    pub(crate) service: &'static S3Service,
}

impl Bucket {
    pub(crate) fn new() -> Option<Self> {
        let service = S3Service::get()?;
        Some(Self {
            proxy: Proxy::start(service.endpoint()),
            place: service.new_place().to_string(),
            service,
        })
    }

    pub(crate) fn home(&self) -> Home {
        Home::new().with_variables(self.service.variables(Some(self.proxy.address())))
    }

    /// A home that has told once where its logs are.
    pub(crate) fn store_home(&self) -> Home {
        let home = self.home();
        let mut first = home.command(&["serve", "--logs", &self.place, "--bind", "127.0.0.1:0"]);
        let mut process = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while !home.path("../share/control-tower/logs.place").exists() {
            assert!(Instant::now() < until, "the server did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        process.kill().unwrap();
        process.wait().unwrap();
        self.proxy.take();
        home
    }

    pub(crate) fn objects(&self) -> Vec<String> {
        let place: ct_s3::S3Address = self.place.parse().unwrap();
        let folder = place.folder();
        let keys = self.service.logs().list(&folder).map(|listed| listed.unwrap().key);
        keys.map(|key| key[folder.len()..].to_owned()).filter(|name| name != "ct-store").collect()
    }
}

/// A server over a bucket, and a client of it without any keys.
pub(crate) struct Server {
    pub(crate) bucket: Bucket,
    pub(crate) served: Served,
    pub(crate) home: Home,
    pub(crate) client: Home,
    pub(crate) token: String,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Option<Self> {
        let bucket = Bucket::new()?;
        let home = bucket.store_home();
        let token = user_with_token(&home, "ana", "admin");
        let served = Served::start(&home, &[&["--private"], arguments].concat());
        let client = Home::new();
        let client = client.with_variables(client_variables(&served, &token));
        bucket.proxy.take();
        Some(Self { bucket, served, home, client, token })
    }

    fn seen(&self) -> Vec<Seen> {
        self.bucket.proxy.take()
    }
}

fn client_variables(served: &Served, token: &str) -> Vec<(&'static str, String)> {
    vec![("CONTROL_TOWER_API_BASE_URL", served.url.clone()), ("CONTROL_TOWER_API_TOKEN", token.to_owned())]
}

fn gets(seen: &[Seen]) -> Vec<&Seen> {
    seen.iter().filter(|seen| seen.method == "GET").collect()
}

#[test]
fn commands_do_the_same_over_a_bucket() {
    let Some(bucket) = Bucket::new() else { return };
    let (there, here) = (bucket.store_home(), Home::new());
    let attack = "6dc57307392ef13ff7295bf3fee9d3d3";
    let script: &[&[&str]] = &[
        &["runs", "make", "ct-11.eval", "ct-12.eval"],
        &["runs", "make", "ct-11.eval", "--tag", "again"],
        &["runs", "show", "92203bdd"],
        &["runs", "download-trajs", attack, "-o", "all"],
        &["runs", "download-eval", attack],
        &["runs", "sample", attack, "2", "_", "--seed", "7", "--save-dir", "parts"],
        &["store", "check"],
        &["runs", "delete", attack],
        &["store", "gc", "--purge-deleted", "0d"],
        &["store", "check"],
    ];
    for home in [&there, &here] {
        home.log("control-tower/ct-11.eval", "ct-11.eval");
        home.log("control-tower/ct-12.eval", "ct-12.eval");
    }
    for arguments in script {
        assert_eq!(tidy(&there.ct(arguments)), tidy(&here.ct(arguments)), "{arguments:?}");
    }
    let names = |home: &Home| {
        let mut names = files_below(&home.path("."));
        names.sort();
        names
    };
    assert_eq!(names(&there), names(&here));
    assert_eq!(bucket.objects().len(), 1);
}

/// Less where logs lie.
fn tidy(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains("/logs/"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn one_sample_is_one_range_and_an_export_is_one_for_each() {
    let Some(server) = Server::start(&[]) else { return };
    big_log(&server.client.path("a.eval"), 5, 12, 300_000);
    server.client.stdout(&["runs", "make", "a.eval"]);
    let run = server.client.run_id("");
    let documents =
        server.served.get(&server.token, &format!("/api/trajectories?documents=true&run_id={run}"));
    let documents = documents.ok()["items"].as_array().unwrap().clone();
    server.seen();
    for document in &documents {
        let id = document["trajectory_id"].as_str().unwrap();
        let range = &document["eval_sample_range"];
        let path = format!("/api/trajectories/{id}");
        assert_eq!(server.served.get(&server.token, &path).status, 200);
        let seen = server.seen();
        let [one] = &seen[..] else { panic!("{seen:?}") };
        let start = range["compressedStart"].as_u64().unwrap();
        let size = range["compressedSize"].as_u64().unwrap();
        assert_eq!((one.method.as_str(), one.bytes_down), ("GET", size), "{one:?}");
        assert_eq!(one.range, Some(format!("bytes={start}-{}", start + size - 1)));
    }
    let zip = server.served.get(&server.token, &format!("/api/trajectories/zip?run_id={run}"));
    assert_eq!(zip.status, 200);
    let seen = server.seen();
    let bytes: u64 = seen.iter().map(|seen| seen.bytes_down).sum();
    let sizes = documents.iter().map(|document| document["eval_sample_range"]["compressedSize"].as_u64());
    assert_eq!((seen.len(), bytes), (documents.len(), sizes.map(Option::unwrap).sum::<u64>()));
}

#[test]
fn a_sample_that_is_copied_as_it_lies_is_two_ranges() {
    let Some(server) = Server::start(&[]) else { return };
    // Its samples are deflated, as those of a ZIP file are.
    server.client.log("generated/v0.3.120.eval", "a.eval");
    server.client.stdout(&["runs", "make", "a.eval"]);
    let run = server.client.run_id("");
    let documents =
        server.served.get(&server.token, &format!("/api/trajectories?documents=true&run_id={run}")).ok();
    server.seen();
    let zip = server.served.get(&server.token, &format!("/api/trajectories/zip?run_id={run}"));
    assert_eq!(zip.status, 200);
    let mut expected = Vec::new();
    for document in documents["items"].as_array().unwrap() {
        let range = &document["eval_sample_range"];
        assert_eq!(range["compressionMethod"], 8);
        let (start, size) =
            (range["compressedStart"].as_u64().unwrap(), range["compressedSize"].as_u64().unwrap());
        // Once to see that it is right, once to send it.
        expected.extend(vec![(format!("bytes={start}-{}", start + size - 1), size); 2]);
    }
    let seen = server.seen();
    let asked: Vec<_> =
        seen.iter().map(|seen| (seen.range.clone().unwrap_or_default(), seen.bytes_down)).collect();
    assert!(!expected.is_empty());
    assert_eq!(asked, expected);
}

/// A log as one JSON document.
fn json_log(path: &std::path::Path, samples: usize) {
    let mut numbers = Numbers::new(samples as u64);
    let samples: Vec<Value> = (0..samples).map(|n| sample(&format!("s{n:03}"), &mut numbers, 2000)).collect();
    let mut log = header(&format!("json-{}", samples.len()), samples.len());
    log["samples"] = samples.into();
    std::fs::write(path, log.to_string()).unwrap();
}

#[test]
fn registering_many_trajectories_asks_the_bucket_no_more_than_registering_few() {
    let Some(server) = Server::start(&[]) else { return };
    let logs = [("few.eval", 3, 3), ("many.eval", 300, 3), ("few.json", 3, 4), ("many.json", 300, 4)];
    for (name, samples, requests) in logs {
        let path = server.client.path(name);
        if name.ends_with(".json") {
            json_log(&path, samples);
        } else {
            big_log(&path, samples as u64, samples, 2000);
        }
        server.client.stdout(&["runs", "make", name]);
        // Its server collects meanwhile what is left over, and lists the bucket for that.
        let seen = server.seen();
        let seen: Vec<&Seen> = seen.iter().filter(|seen| !seen.path.starts_with("/ct-logs?")).collect();
        let size = path.metadata().unwrap().len();
        // The upload ends with the removal of what came in.
        let end = seen.iter().rposition(|seen| seen.method == "DELETE").unwrap();
        let registering = &seen[end + 1..];
        assert_eq!(registering.len(), requests, "{name}: {registering:#?}");
        let bytes: u64 = registering.iter().map(|seen| seen.bytes_down).sum();
        // The directory and the header; a document is read for its samples, its header and their checksums.
        assert!(bytes < if name.ends_with(".json") { 3 * size + 4096 } else { 300_000 }, "{name}: {bytes}");
        // All of an upload: to begin it and to see what is there, to put it, and to make a log of it.
        assert_eq!(end + 1, 14, "{name}: {seen:#?}");
    }
}

#[test]
fn clients_need_no_keys_and_tell_the_bucket_no_token() {
    let Some(server) = Server::start(&[]) else { return };
    big_log(&server.client.path("a.eval"), 6, 30, 700_000);
    let size = server.client.path("a.eval").metadata().unwrap().len();
    server.client.stdout(&["runs", "make", "a.eval"]);
    let seen = server.seen();
    let direct = |seen: &&Seen| seen.path.contains("X-Amz-Signature");
    let puts: Vec<&Seen> = seen.iter().filter(|seen| seen.method == "PUT").filter(direct).collect();
    assert_eq!(puts.iter().map(|seen| seen.bytes_up).sum::<u64>(), size, "{seen:#?}");
    assert!(puts.iter().all(|seen| !seen.authorized));
    // The server reads it once to hash it, and sends nothing of it.
    let own: Vec<&Seen> = seen.iter().filter(|seen| !direct(seen)).collect();
    assert!(own.iter().map(|seen| seen.bytes_up).sum::<u64>() < 100_000);
    let run = server.client.run_id("");
    server.client.stdout(&["runs", "download-eval", &run, "-o", "b.eval"]);
    let seen = server.seen();
    assert!(!gets(&seen).is_empty() && gets(&seen).iter().all(|seen| direct(seen) && !seen.authorized));
    let read = |name: &str| std::fs::read(server.client.path(name)).unwrap();
    assert!(read("a.eval") == read("b.eval"));
    assert_eq!(server.bucket.objects().len(), 1);
    server.client.stdout(&["runs", "download-trajs", &run, "-o", "out"]);
    assert_eq!(sound_runs(&server.home).len(), 1);
}

#[test]
fn tags_that_are_no_md5_are_not_taken_for_one() {
    let Some(server) = Server::start(&[]) else { return };
    // As a bucket with keys of its own answers; what comes back to it is turned round again.
    server.bucket.proxy.fail(|seen, _| {
        let signed = seen.path.contains("X-Amz-Signature");
        if signed { ct_test::Fault::OtherTag } else { ct_test::Fault::None }
    });
    for (name, samples) in [("small.eval", 2), ("parts.eval", 16)] {
        big_log(&server.client.path(name), samples as u64, samples, 700_000);
        server.client.stdout(&["runs", "make", name]);
        let run = server.client.json(&["runs", "list", "--format", "json"])["items"][0]["run_id"].clone();
        let back = format!("back-{name}");
        server.client.stdout(&["runs", "download-eval", run.as_str().unwrap(), "-o", &back]);
        let read = |name: &str| std::fs::read(server.client.path(name)).unwrap();
        assert!(read(name) == read(&back));
    }
    let tagged = server.seen().iter().filter(|seen| seen.path.contains("X-Amz-Signature")).count();
    assert!(tagged >= 4, "{tagged}");
    assert_eq!(sound_runs(&server.home).len(), 2);
}

#[test]
fn a_server_killed_in_the_middle_of_an_upload_loses_nothing() {
    let Some(mut server) = Server::start(&[]) else { return };
    big_log(&server.client.path("a.eval"), 7, 60, 700_000);
    let size = server.client.path("a.eval").metadata().unwrap().len();
    let make = ["runs", "make", "a.eval"];
    // Parts get through one after the other.
    server.bucket.proxy.fail(|seen, _| {
        if seen.method == "PUT" {
            ct_test::Fault::Slow(Duration::from_millis(150))
        } else {
            ct_test::Fault::None
        }
    });
    let mut process =
        server.client.command(&make).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let arrived = |seen: &Seen| seen.method == "PUT" && seen.bytes_up > 1 << 20;
    while server.bucket.proxy.seen().iter().filter(|seen| arrived(seen)).count() < 2 {
        assert!(Instant::now() < until, "{:?}", server.seen());
        std::thread::sleep(Duration::from_millis(5));
    }
    server.served.signal("KILL");
    server.served.wait();
    process.kill().unwrap();
    process.wait().unwrap();
    server.bucket.proxy.heal();
    assert_eq!(sound_runs(&server.home), []);
    server.served = Served::start(&server.home, &["--private"]);
    server.client = std::mem::replace(&mut server.client, Home::new())
        .with_variables(client_variables(&server.served, &server.token));
    server.seen();
    server.client.stdout(&make);
    let again: u64 = server.seen().iter().filter(|seen| seen.method == "PUT").map(|seen| seen.bytes_up).sum();
    assert!(again < size, "{again} of {size} bytes were sent again: the parts that were there were not used");
    assert_eq!(sound_runs(&server.home).len(), 1);
    assert_eq!(server.bucket.objects().len(), 1, "{:?}", server.bucket.objects());
}

#[test]
fn a_server_can_stand_between_clients_and_the_bucket() {
    let Some(server) = Server::start(&["--proxy-logs"]) else { return };
    let log = server.client.log("control-tower/ct-11.eval", "ct-11.eval");
    server.client.stdout(&["runs", "make", "ct-11.eval"]);
    let run = server.client.run_id("");
    server.client.stdout(&["runs", "download-eval", &run, "-o", "b.eval"]);
    assert!(std::fs::read(log).unwrap() == std::fs::read(server.client.path("b.eval")).unwrap());
    let seen = server.seen();
    assert!(seen.iter().all(|seen| seen.authorized && !seen.path.contains("X-Amz-Signature")), "{seen:#?}");
}

#[test]
fn logs_of_any_bucket_are_read_by_who_has_keys() {
    let Some(bucket) = Bucket::new() else { return };
    let home = bucket.home();
    let logs = bucket.service.logs();
    let place: ct_s3::S3Address = bucket.place.parse().unwrap();
    let put = |name: &str, bytes: Vec<u8>| {
        logs.add(&format!("{}{name}", place.folder()), bytes.into()).unwrap();
    };
    let (first, second) =
        (home.log("control-tower/ct-11.eval", "x"), home.log("control-tower/ct-12.eval", "y"));
    put("team/first.eval", std::fs::read(&first).unwrap());
    put("team/deep er/second.eval", std::fs::read(&second).unwrap());
    put("team/settings.json", b"{\"mine\": 1}".to_vec());
    put("team/notes.txt", b"mine".to_vec());
    put("team/torn.eval", b"PK\x03\x04 and no more".to_vec());
    let address = format!("{}/team/first.eval", bucket.place);
    home.stdout(&["runs", "download-eval", &address]);
    assert!(std::fs::read(home.path("first.eval")).unwrap() == std::fs::read(&first).unwrap());
    let said = home.ct(&["runs", "make", &format!("{}/team/", bucket.place), "--format", "ndjson"]);
    assert!(said.starts_with("exit code: 3"), "{said}");
    let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let states: Vec<_> = lines.iter().filter_map(|line| line["status"].as_str()).collect();
    assert_eq!(states, ["created", "created", "failed"], "{said}");
    let missing = home.ct(&["runs", "download-eval", &format!("{}/none.eval", bucket.place)]);
    assert!(missing.starts_with("exit code: 4") && missing.contains("none.eval"), "{missing}");
    let nobody = Home::new().ct(&["runs", "make", &address]);
    assert!(nobody.contains("AWS_ACCESS_KEY_ID"), "{nobody}");
}

#[test]
fn a_store_is_copied_backed_up_and_restored() {
    let Some(bucket) = Bucket::new() else { return };
    let home = bucket.home();
    home.log("control-tower/ct-11.eval", "ct-11.eval");
    home.stdout(&["runs", "make", "ct-11.eval"]);
    let data = home.path("../share/control-tower").display().to_string();
    home.stdout(&["store", "copy", &data, "moved", "--logs", &bucket.place]);
    let list = home.stdout(&["runs", "list", "--format", "ndjson"]);
    assert_eq!(home.stdout(&["--data-dir", "moved", "runs", "list", "--format", "ndjson"]), list);
    assert_eq!(bucket.objects().len(), 1);
    home.stdout(&["--data-dir", "moved", "store", "backup", "backup"]);
    home.log("control-tower/ct-12.eval", "ct-12.eval");
    home.stdout(&["--data-dir", "moved", "runs", "make", "ct-12.eval"]);
    let report = home.json(&["--data-dir", "moved", "store", "backup", "backup", "--format", "json"]);
    assert_eq!((&report["copied"]["copied"], &report["copied"]["there_already"]), (&1.into(), &1.into()));
    home.stdout(&["--data-dir", "restored", "store", "restore", "backup"]);
    let both = home.stdout(&["--data-dir", "moved", "runs", "list", "--format", "ndjson"]);
    assert_eq!(home.stdout(&["--data-dir", "restored", "runs", "list", "--format", "ndjson"]), both);
    let said = home.ct(&["--data-dir", "restored", "store", "check"]);
    assert!(said.contains("sound"), "{said}");
    // What holds something else is left alone.
    home.stdout(&["--data-dir", "restored", "runs", "delete", &home.run_id("")]);
    let said = home.ct(&["--data-dir", "restored", "store", "restore", "backup"]);
    assert!(said.starts_with("exit code: 5"), "{said}");
}

#[test]
fn a_bucket_that_is_away_is_an_error_that_passes() {
    let Some(server) = Server::start(&[]) else { return };
    server.client.log("control-tower/ct-11.eval", "ct-11.eval");
    server.client.stdout(&["runs", "make", "ct-11.eval"]);
    let run = server.client.run_id("");
    let id = server.client.trajectory_ids(&run).remove(0);
    server.bucket.proxy.fail(|_, _| ct_test::Fault::Refused(507, "Full"));
    let answer = server.served.get(&server.token, &format!("/api/trajectories/{id}"));
    assert_eq!(answer.status, 507, "{answer:?}");
    assert!(!answer.body.contains(server.bucket.proxy.address()), "{answer:?}");
    server.bucket.proxy.heal();
    assert_eq!(server.served.get(&server.token, &format!("/api/trajectories/{id}")).status, 200);
}
