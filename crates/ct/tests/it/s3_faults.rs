//! A server whose bucket does not work: what it says meanwhile, and that it goes on afterwards without anybody's hands.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use ct_test::{Fault, Seen};

use crate::logs::{big_log, sound_runs};
use crate::s3::Server;

const PAUSE: Duration = Duration::from_millis(20);

/// What becomes of each request, and whether everything gets through all the same.
type Plan = fn(&Seen, usize) -> Fault;

const PLANS: [(&str, bool, Plan); 6] = [
    ("slow", true, |_, _| Fault::Slow(PAUSE)),
    ("answers that trickle", true, |_, _| Fault::Trickle(200_000, PAUSE)),
    ("at random", true, |seen, number| match number % 4 {
        0 if seen.method == "GET" => Fault::CutDown(100_000),
        1 if seen.method == "PUT" => Fault::CutUp(100_000),
        2 => Fault::Refused(503, "SlowDown"),
        _ => Fault::None,
    }),
    ("SlowDown", false, |_, _| Fault::Refused(503, "SlowDown")),
    ("full", false, |_, _| Fault::Refused(507, "Full")),
    (
        "half answers",
        false,
        |seen, _| if seen.method == "GET" { Fault::CutDown(0) } else { Fault::AnswerLost },
    ),
];

#[test]
fn uploads_samples_and_exports_get_through_or_are_refused_and_get_through_later() {
    let Some(server) = Server::start(&[]) else { return };
    big_log(&server.client.path("first.eval"), 20, 3, 600_000);
    server.client.stdout(&["runs", "make", "first.eval"]);
    let run = server.client.run_id("");
    let id = server.client.trajectory_ids(&run).remove(0);
    let sample = format!("/api/trajectories/{id}");
    let whole = server.served.get(&server.token, &sample);
    assert_eq!(whole.status, 200);
    for (seed, (name, passes, plan)) in (21..).zip(PLANS) {
        let log = format!("{seed}.eval");
        big_log(&server.client.path(&log), seed, 16, 700_000);
        let runs = sound_runs(&server.home).len();
        server.bucket.proxy.fail(plan);
        let (answer, export, made) = std::thread::scope(|scope| {
            let answer = scope.spawn(|| server.served.get(&server.token, &sample));
            let export = scope.spawn(|| export(&server, &run));
            let made = server.client.command(&["runs", "make", &log]).output().unwrap();
            (answer.join().unwrap(), export.join().unwrap(), made)
        });
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        server.bucket.proxy.heal();

        if passes {
            assert!(made.status.success(), "{name}: {said}");
            assert!(answer.status == 200 && answer.body == whole.body, "{name}: {}", answer.status);
            assert_eq!(export, (true, 3), "{name}");
        } else {
            assert!(!made.status.success() && said.starts_with("error: "), "{name}: {said}");
            assert!([503, 507].contains(&answer.status), "{name}: {answer:?}");
            // Nobody takes a file for whole from which samples are missing without a word.
            assert_eq!(export, (true, 0), "{name}");
            assert_eq!(sound_runs(&server.home).len(), runs, "{name}");
        }
        assert_eq!(server.served.get(&server.token, &sample).body, whole.body, "{name}");
        server.client.stdout(&["runs", "make", &log]);
        assert_eq!(sound_runs(&server.home).len(), runs + 1, "{name}");
        assert_eq!(server.bucket.objects().len(), runs + 1, "{name}: {:?}", server.bucket.objects());
    }
    assert!(!server.served.log().contains("panicked"), "{}", server.served.log());
}

/// Whether a ZIP file of a run came to its end, and of how many samples it is.
fn export(server: &Server, run: &str) -> (bool, usize) {
    let mut stream = server.served.connect();
    let token = &server.token;
    let head = format!(
        "GET /api/trajectories/zip?run_id={run} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    // Each name stands before its member and in the directory.
    let names = answer.windows(12).filter(|bytes| *bytes == b"/sample.json").count();
    (answer.ends_with(b"\r\n0\r\n\r\n"), names / 2)
}
