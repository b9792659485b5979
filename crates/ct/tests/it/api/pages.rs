//! Who asks for page after page sees each run that was there throughout exactly once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::http::Server;
use crate::support::Home;

/// Makes a run that differs from the others.
fn make(home: &Home, number: usize) -> String {
    let log = format!(
        r#"{{"version": 2, "status": "success", "eval": {{"eval_id": "e{number}", "run_id": "r{number}",
            "created": "2026-01-01T00:00:00+00:00", "task": "walk", "task_id": "t{number}", "task_version": 0,
            "dataset": {{}}, "model": "m", "config": {{}}}},
            "samples": [{{"id": "s{number}", "epoch": 1, "input": "", "target": "", "messages": [], "scores": {{}}}}]}}"#
    );
    let name = format!("run-{number}.json");
    home.file(&name, log);
    let output = home.command(&["runs", "make", &name, "--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let made: Value = serde_json::from_str(&text).unwrap();
    let text = made.to_string();
    let at = text.find(r#""run_id":""#).unwrap() + 10;
    text[at..at + 32].to_owned()
}

/// A client that knows nothing but page numbers.
struct Client {
    page: u64,
    size: u64,
    seen: BTreeMap<String, u64>,
    there: BTreeSet<String>,
    done: bool,
    total: Option<u64>,
}

impl Client {
    fn step(&mut self, server: &Server) {
        let page = server.json(&format!("/api/runs?page={}&page_size={}", self.page, self.size));
        let items = page["items"].as_array().unwrap();
        for item in items {
            *self.seen.entry(item["run_id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        let total = page["total_count"].as_u64().unwrap();
        assert!(self.total.is_none_or(|first| total >= first), "the total of a walk does not go down");
        self.total.get_or_insert(total);
        self.done = self.page * self.size >= total;
        self.page += 1;
    }
}

/// Numbers that look random and are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[test]
fn walkers_by_page_number_see_each_lasting_run_once() {
    let home = Home::new();
    let mut runs: Vec<String> = (0..30).map(|number| make(&home, number)).collect();
    let mut made = runs.len();
    let token = crate::server::user_with_token(&home, super::http::ADMIN, "admin");
    let server = Server::start(&home, &["--public"]);
    let bearer = format!("Bearer {token}");
    let mut numbers = Numbers(7);
    for _ in 0..4 {
        // Sizes differ, so that walkers are not taken for one another though they all come from here.
        let mut clients: Vec<Client> = [3, 4, 5]
            .map(|size| Client {
                page: 1,
                size,
                seen: BTreeMap::new(),
                there: runs.iter().cloned().collect(),
                done: false,
                total: None,
            })
            .into();
        while clients.iter().any(|client| !client.done) {
            let walking: Vec<usize> = (0..clients.len()).filter(|index| !clients[*index].done).collect();
            let index = walking[numbers.below(walking.len() as u64) as usize];
            clients[index].step(&server);
            match numbers.below(4) {
                0 => {
                    runs.push(make(&home, made));
                    made += 1;
                }
                1 if runs.len() > 10 => {
                    let gone = runs.remove(numbers.below(runs.len() as u64) as usize);
                    let path = format!("/api/runs/{gone}");
                    let answer = server.send("DELETE", &path, &[("authorization", &bearer)], b"");
                    assert_eq!(answer.status, 200);
                    for client in &mut clients {
                        client.there.remove(&gone);
                    }
                }
                _ => {}
            }
        }
        for client in &clients {
            for run in &client.there {
                assert_eq!(client.seen.get(run), Some(&1), "pages of {}: {run}", client.size);
            }
            assert!(client.seen.values().all(|times| *times == 1));
        }
    }
}

#[test]
fn a_page_can_be_asked_for_again_and_cursors_go_beside() {
    let home = Home::new();
    let runs: Vec<String> = (0..7).map(|number| make(&home, number)).collect();
    let server = Server::start(&home, &["--public"]);
    let ids = |page: &Value| -> Vec<String> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["run_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let newest: Vec<String> = runs.iter().rev().cloned().collect();
    let first = server.json("/api/runs?page=1&page_size=3");
    assert_eq!(ids(&first), newest[..3]);
    make(&home, 7);
    let second = server.json("/api/runs?page=2&page_size=3");
    assert_eq!((ids(&second), &second["total_count"]), (newest[3..6].to_vec(), &Value::from(7)));
    assert_eq!(server.json("/api/runs?page=2&page_size=3")["items"], second["items"]);
    let third = server.json("/api/runs?page=3&page_size=3");
    assert_eq!((ids(&third), &third["next_cursor"]), (newest[6..].to_vec(), &Value::Null));
    assert_eq!(ids(&server.json("/api/runs?page=4&page_size=3")), Vec::<String>::new());
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&server.json(&format!("/api/runs?page_size=3&cursor={cursor}"))), newest[3..6]);
    // A number out of the blue counts from what is there now.
    assert_eq!(ids(&server.json("/api/runs?page=2&page_size=4")), newest[3..7]);
    assert_eq!(ids(&server.json("/api/runs?limit=2"))[1], newest[0]);
}
