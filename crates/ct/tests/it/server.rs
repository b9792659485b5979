//! The program serving a home, and the least of an HTTP client to ask it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::support::{CT, Home};

/// A running `ct serve`. It is killed when it is dropped.
pub(crate) struct Served {
    child: Child,
    /// `http://127.0.0.1:<port>`
    pub(crate) url: String,
    /// What it announced.
    pub(crate) announced: Value,
    log: PathBuf,
}

/// A private server with a home of its own and one user, `ana`.
pub(crate) struct Server {
    pub(crate) served: Served,
    pub(crate) home: Home,
    /// May do everything.
    pub(crate) token: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        let home = Home::new();
        let token = user_with_token(&home, "ana", "admin");
        Self { served: Served::start(&home, &["--private"]), home, token }
    }

    pub(crate) fn url(&self) -> &str {
        &self.served.url
    }
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The body of an answer that is no error.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }
}

impl Served {
    /// Serves the home's data folder on a free port and waits until it listens.
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        Self::start_through(&[], home, arguments)
    }

    /// As [`Served::start`], by a command that runs the one it gets as its last arguments.
    pub(crate) fn start_through(before: &[&str], home: &Home, arguments: &[&str]) -> Self {
        let mut all = before.to_vec();
        all.extend([CT, "serve", "--format", "json", "--bind", "127.0.0.1:0"]);
        all.extend(arguments);
        let log = home.path("server.log");
        let mut command = home.program(all[0], &all[1..]);
        let mut child = command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let announced: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{line:?}\n{}", std::fs::read_to_string(&log).unwrap()));
        let url = announced["listening"].as_str().unwrap().to_owned();
        Self { child, url, announced, log }
    }

    /// What it wrote to standard error so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Sends it a signal: `TERM`, `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("/bin/kill").args(["-s", name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// A connection to it.
    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap()
    }

    /// One request on a connection of its own; without a token when it is empty.
    pub(crate) fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let authorization =
            if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        self.ask_with(&authorization, method, path, body)
    }

    /// As [`Served::ask`], with lines of headers.
    pub(crate) fn ask_with(&self, headers: &str, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let mut stream = self.connect();
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> Answer {
        self.ask(token, "GET", path, None)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Adds a user and gives a token of it.
pub(crate) fn user_with_token(home: &Home, username: &str, scope: &str) -> String {
    let added = home.ct_with_input(
        &["users", "add", username, "--scope", scope, "--password-stdin"],
        "correct horse battery\n",
    );
    assert!(added.starts_with("exit code: 0"), "{added}");
    home.stdout(&["tokens", "create", username]).trim_end().to_owned()
}
