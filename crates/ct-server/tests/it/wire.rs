//! Servers in this process, and the least of an HTTP client: what goes over the socket is written here byte by byte.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ct_log::Log;
use ct_model::Scope;
use ct_model::convert::{HeaderFacts, RunOptions, TrajectoryIds, convert_sample, run_header};
use ct_server::{Mode, ServerConfig};
use ct_store::{Actor, Clock, Store};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A server over a store of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<Store>,
    pub(crate) folder: TempDir,
    /// May write.
    pub(crate) token: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What tests ask a server to be.
pub(crate) fn config(mode: Mode) -> ServerConfig {
    ServerConfig {
        bind: "127.0.0.1:0".parse().unwrap(),
        mode,
        public_url: None,
        trusted_proxies: Vec::new(),
        proxy_logs: false,
        bucket: "logs".to_owned(),
        version: "test",
        prices: ct_model::PriceTable::default(),
    }
}

/// A user and a token of that scope.
pub(crate) fn token(store: &Store, username: &str, scope: Scope) -> String {
    store.add_user(username, "correct horse battery", scope, &Actor::local()).unwrap();
    store.create_token(username, "test", None, None, &Actor::local()).unwrap().token
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_at(Arc::new(jiff::Timestamp::now))
    }

    /// With a clock of its own.
    pub(crate) fn start_at(clock: Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open_with_clock(folder.path(), clock).unwrap());
        let token = token(&store, "ann", Scope::Write);
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, listens) = mpsc::channel();
        let served = Arc::clone(&store);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let stopped = async {
                let _ = stopped.await;
            };
            let ready = |address| ready.send(address).unwrap();
            runtime.block_on(ct_server::serve(served, config(Mode::Private), ready, stopped)).unwrap();
        });
        let address = listens.recv_timeout(Duration::from_secs(60)).unwrap();
        Self { address, store, folder, token, stop: Some(stop), thread: Some(thread) }
    }

    /// A request with the token and a JSON body.
    pub(crate) fn json(&self, method: &str, target: &str, body: Option<&Value>) -> Answer {
        json_as(self.address, &self.token, method, target, body)
    }

    /// Plans an upload; the address is good for one PUT.
    pub(crate) fn plan(&self, filename: &str, size_bytes: u64) -> String {
        let body = json!({"filename": filename, "size_bytes": size_bytes});
        let answer = self.json("POST", "/api/eval-logs/upload", Some(&body));
        assert_eq!(answer.status, 200, "{answer:?}");
        let url = answer.json()["url"].as_str().unwrap().to_owned();
        url.strip_prefix(&format!("http://{}", self.address)).unwrap().to_owned()
    }

    pub(crate) fn put(&self, target: &str, bytes: &[u8]) -> Answer {
        send(self.address, "PUT", target, &[("If-None-Match", "*")], Some(bytes))
    }

    /// Uploads a log as the contract says.
    pub(crate) fn upload(&self, filename: &str, bytes: &[u8]) {
        let target = self.plan(filename, bytes.len() as u64);
        let answer = self.put(&target, bytes);
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    pub(crate) fn register(&self, documents: &[Value], run: Option<&Value>) -> Answer {
        self.json("POST", "/api/trajectories/register", Some(&batch(documents, run)))
    }

    /// Files that arrived, or were arriving.
    pub(crate) fn files(&self, folder: &str) -> usize {
        count_files(&self.folder.path().join(folder))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

pub(crate) fn count_files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { count_files(&path) } else { 1 })
        .sum()
}

pub(crate) fn batch(documents: &[Value], run: Option<&Value>) -> Value {
    let mut batch = json!({"client": "control-tower", "schema_version": 3, "trajectories": documents});
    if let Some(run) = run {
        batch["run"] = run.clone();
    }
    batch
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The sentence of an error.
    #[track_caller]
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }

    /// Reads one from a connection.
    pub(crate) fn read(stream: TcpStream, has_body: bool) -> std::io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| std::io::Error::other(format!("no status line: {line:?}")))?;
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut answer = Self { status, headers, body: Vec::new() };
        if has_body {
            match answer.header("content-length").map(|length| length.parse().unwrap()) {
                Some(length) => {
                    reader.by_ref().take(length).read_to_end(&mut answer.body)?;
                    assert_eq!(answer.body.len() as u64, length, "the body is short");
                }
                None => drop(reader.read_to_end(&mut answer.body)?),
            }
        }
        Ok(answer)
    }
}

pub(crate) fn json_as(
    address: SocketAddr,
    token: &str,
    method: &str,
    target: &str,
    body: Option<&Value>,
) -> Answer {
    let authorization = format!("Bearer {token}");
    let body = body.map(|body| serde_json::to_vec(body).unwrap());
    send(address, method, target, &[("Authorization", &authorization)], body.as_deref())
}

/// The head of a request.
pub(crate) fn head(address: SocketAddr, method: &str, target: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}

/// One request on a connection of its own.
#[track_caller]
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut bytes = head(address, method, target, headers).into_bytes();
    if let Some(body) = body {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body.unwrap_or_default());
    stream.write_all(&bytes).unwrap();
    Answer::read(stream, method != "HEAD").unwrap()
}

/// A body in chunks, without a length.
pub(crate) fn chunked(body: &[u8], piece_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in body.chunks(piece_bytes) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ct-model/tests/data/control-tower")
}

/// A run as a client makes it of a log.
pub(crate) struct Made {
    pub(crate) key: String,
    pub(crate) log: Vec<u8>,
    pub(crate) header: Value,
    pub(crate) documents: Vec<Value>,
}

/// What a client sends of `<name>.eval`, under an id that the client chose.
pub(crate) fn made(name: &str, run_id: &str) -> Made {
    let path = data().join(format!("{name}.eval"));
    let log = Log::open(&path).unwrap();
    let facts = HeaderFacts::from_value(&log.header().unwrap().value);
    let mut ids = TrajectoryIds::new(&facts, &"0".repeat(64));
    let key = format!("{run_id}.eval");
    let url = format!("s3://logs/{key}");
    let mut documents = Vec::new();
    for sample in log.samples().unwrap() {
        let converted = convert_sample(&log, sample, &facts, None).unwrap();
        let mut document = converted.document;
        document.trajectory_id = Some(ids.assign(&converted.facts));
        document.run_id = Some(run_id.parse().unwrap());
        document.eval_log_url = Some(format!("{url}/samples/sample/{}", document.eval_sample_id));
        let mut document = serde_json::to_value(&document).unwrap();
        document["eval_sample_range"]["key"] = json!(key);
        document["converted_at"] = json!("2026-11-01T00:00:00Z");
        documents.push(document);
    }
    let mut header = serde_json::to_value(run_header(&facts, &RunOptions::default())).unwrap();
    header["run_id"] = json!(run_id);
    header["eval_log_url"] = json!(url);
    Made { key, log: std::fs::read(path).unwrap(), header, documents }
}
