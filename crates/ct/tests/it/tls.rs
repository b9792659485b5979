//! A server behind real TLS: a certificate that is not trusted is told, and one that is told of works.

use std::io::{ErrorKind, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::{Served, user_with_token};
use crate::support::Home;

/// `ca.pem` signed `server.pem`, which is for `localhost` alone.
fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/tls")).join(name)
}

/// What stands before servers that do not speak TLS.
fn listen(listener: TcpListener, upstream: String) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(file("server.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(file("server.key")).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, upstream) = (Arc::clone(&config), upstream.clone());
            // One that breaks off is a client that does not like the certificate.
            std::thread::spawn(move || stream.and_then(|stream| tunnel(stream, config, &upstream)));
        }
    });
}

fn tunnel(stream: TcpStream, config: Arc<ServerConfig>, upstream: &str) -> std::io::Result<()> {
    const TURN: Duration = Duration::from_millis(2);
    let mut client = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    client.conn.complete_io(&mut client.sock)?;
    let mut server = TcpStream::connect(upstream)?;
    client.sock.set_read_timeout(Some(TURN))?;
    server.set_read_timeout(Some(TURN))?;
    let mut buffer = vec![0; 64 << 10];
    // None: nothing came in this turn.
    let read = |from: &mut dyn Read, buffer: &mut [u8]| match from.read(buffer) {
        Ok(n) => Ok(Some(n)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error),
    };
    loop {
        match read(&mut client, &mut buffer)? {
            Some(0) => return Ok(()),
            Some(n) => server.write_all(&buffer[..n])?,
            None => {}
        }
        match read(&mut server, &mut buffer)? {
            Some(0) => {
                client.conn.send_close_notify();
                return client.flush();
            }
            Some(n) => client.write_all(&buffer[..n])?,
            None => {}
        }
    }
}

#[test]
fn a_certificate_is_trusted_when_it_is_told_of_and_for_its_name_alone() {
    let there = Home::new();
    let token = user_with_token(&there, "ana", "admin");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("https://localhost:{port}");
    let served = Served::start(&there, &["--private", "--public-url", &url]);
    listen(listener, served.url.strip_prefix("http://").unwrap().to_owned());

    let home = Home::new();
    let log = home.log("control-tower/ct-11.eval", "ct-11.eval");
    let ask = |url: &str, trusts: bool, arguments: &[&str]| {
        let mut command = home.command(arguments);
        command.env("CONTROL_TOWER_API_BASE_URL", url).env("CONTROL_TOWER_API_TOKEN", &token);
        if trusts {
            command.env("SSL_CERT_FILE", file("ca.pem"));
        }
        command.output().unwrap()
    };
    let refused = |url: &str, trusts: bool| {
        let output = ask(url, trusts, &["runs", "list", "--format", "json"]);
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
        let hints = error["error"]["hints"].to_string();
        assert!(hints.contains("SSL_CERT_FILE"), "{error}");
        error["error"]["message"].as_str().unwrap().to_owned()
    };
    let message = refused(&url, false);
    assert!(message.contains("certificate") && message.contains(&url), "{message}");
    let message = refused(&format!("https://127.0.0.1:{port}"), true);
    assert!(message.contains("certificate") && message.contains("name"), "{message}");

    let run = |arguments: &[&str]| {
        let output = ask(&url, true, arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["runs", "make", "ct-11.eval"]);
    run(&["runs", "download-eval", "6dc57307", "-o", "back.eval"]);
    assert!(std::fs::read(home.path("back.eval")).unwrap() == std::fs::read(log).unwrap());
    run(&["runs", "download-trajs", "6dc57307", "-o", "all"]);
}
