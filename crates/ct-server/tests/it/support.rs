//! A server on a free port of the loopback, with a store of its own, and someone who asks it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use ct_model::{LogFormat, RunEdit, RunHeader, RunId, RunStatus, Scope, TrajectoryDocument};
use ct_server::{Mode, ServerConfig, serve};
use ct_store::{Actor, CommitMode, Committed, NewRun, Store};
use reqwest::Method;
use reqwest::blocking::Client;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A running server; it stops when it is dropped.
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) store: Arc<Store>,
    pub(crate) base: String,
    client: Client,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The body of an answer that is no error.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body
    }

    /// The status and the sentence of an error.
    #[track_caller]
    pub(crate) fn error(self) -> (u16, String) {
        assert!(self.status >= 400, "{self:?}");
        (self.status, self.body["error"].as_str().unwrap().to_owned())
    }
}

impl Server {
    pub(crate) fn start(mode: Mode) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(folder.path()).unwrap());
        store.add_user("ada", "correct horse battery", Scope::Admin, &Actor::local()).unwrap();
        let config = ServerConfig {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            mode,
            public_url: None,
            trusted_proxies: Vec::new(),
            proxy_logs: false,
            bucket: "ct".to_owned(),
            version: "0 (test)",
            prices: ct_model::PriceTable::default(),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, ready) = mpsc::channel();
        let served = Arc::clone(&store);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let ready = move |address| tell.send(address).unwrap();
            let stop = async { drop(stopped.await) };
            runtime.unwrap().block_on(serve(served, config, ready, stop)).unwrap();
        });
        let address: SocketAddr = ready.recv().unwrap();
        // Another test may have done it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build().unwrap();
        let (stop, thread) = (Some(stop), Some(thread));
        Self { folder, store, base: format!("http://{address}"), client, stop, thread }
    }

    /// A token of `ada`.
    pub(crate) fn token(&self, scope: Scope) -> String {
        self.store.create_token("ada", "test", Some(scope), None, &Actor::local()).unwrap().token
    }

    /// Asks with a token, or without when it is empty.
    pub(crate) fn ask(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let answer = request.send().unwrap();
        let status = answer.status().as_u16();
        let headers = answer.headers().clone();
        Answer { status, headers, body: answer.json().unwrap() }
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> Answer {
        self.ask(token, Method::GET, path, None)
    }

    pub(crate) fn post(&self, token: &str, path: &str, body: &Value) -> Answer {
        self.ask(token, Method::POST, path, Some(body))
    }

    /// Makes a run with trajectories `<name>-0`, `<name>-1` and so on.
    pub(crate) fn make_run(&self, name: &str, trajectories: usize) -> RunId {
        let mut ingest = self.store.begin_ingest().unwrap();
        let bytes = format!("log of {name}");
        let log = ingest.stage_log(&mut bytes.as_bytes(), LogFormat::Eval, &mut |_| ()).unwrap();
        for number in 0..trajectories {
            let id = format!("{name}-{number}");
            let document: TrajectoryDocument = serde_json::from_value(json!({
                "trajectory_id": id, "eval_sample_id": format!("sample {number}"), "epoch": 1, "name": id,
                "main_task_success": null, "side_task_success": null, "error": null, "number_of_actions": 2,
            }))
            .unwrap();
            ingest.push(&document).unwrap();
        }
        let run = NewRun {
            run_id: RunId::new(&log.hash.as_str()[..32]).unwrap(),
            header: serde_json::from_value::<RunHeader>(json!({"name": name})).unwrap(),
            actor: Actor::local(),
            edit: RunEdit::default(),
            status: RunStatus::Success,
            eval_id: None,
            eval_created: None,
            source: None,
            defects: Vec::new(),
            log,
        };
        match ingest.commit(run, CommitMode::New).unwrap() {
            Committed::Created(id) => id,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The server waits for connections that are kept alive.
        self.client = Client::builder().no_proxy().build().unwrap();
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}
