//! SeaweedFS, as its package installs it beside the Python of the tests.

use std::fs::{self, File};
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ct_s3::{Bucket, Config, Credentials, Patience, Place, S3Address};
use tempfile::TempDir;

const ACCESS_KEY: &str = "ct-test";
const SECRET_KEY: &str = "ct-test-secret";
/// May read only.
const READER_KEY: &str = "ct-reader";
const READER_SECRET: &str = "ct-reader-secret";
const BUCKET: &str = "ct-logs";
/// A machine at its limits takes so long at most.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Ports are free when they are looked for, and may be taken a moment later.
const STARTS_MAX: u32 = 3;

/// A running service with one bucket. It ends with the test program, however that ends.
#[derive(Debug)]
pub struct S3Service {
    endpoint: String,
    places: AtomicU64,
    _process: Child,
    _folder: TempDir,
}

impl S3Service {
    /// The service of this test program; absent where the machine has no SeaweedFS, which is said.
    pub fn get() -> Option<&'static Self> {
        static SERVICE: OnceLock<Option<S3Service>> = OnceLock::new();
        SERVICE
            .get_or_init(|| {
                let Some(program) = program() else {
                    let missing = "no `weed` beside CT_TEST_PYTHON, in CT_TEST_WEED or on the path";
                    assert!(std::env::var_os("CI").is_none(), "{missing}");
                    #[expect(clippy::print_stderr, reason = "a test says what it did not test")]
                    {
                        eprintln!("NOT TESTED: object storage ({missing})");
                    }
                    return None;
                };
                let started = (0..STARTS_MAX).find_map(|_| Self::start(&program));
                Some(started.expect("weed did not start; its log was printed above"))
            })
            .as_ref()
    }

    fn start(program: &Path) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let keys = format!(
            r#"{{"identities": [
                {{"name": "ct", "credentials": [{{"accessKey": "{ACCESS_KEY}", "secretKey": "{SECRET_KEY}"}}],
                 "actions": ["Admin", "Read", "Write", "List", "Tagging"]}},
                {{"name": "reader", "credentials": [{{"accessKey": "{READER_KEY}", "secretKey": "{READER_SECRET}"}}],
                 "actions": ["Read", "List"]}}]}}"#
        );
        let config = folder.path().join("keys.json");
        fs::write(&config, keys).expect("a file in a temporary folder");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder in a temporary folder");
        let log = folder.path().join("log");
        let listeners: Vec<TcpListener> =
            (0..8).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
        let ports: Vec<u16> =
            listeners.iter().map(|l| l.local_addr().expect("a bound port").port()).collect();
        drop(listeners);
        let [master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc] = ports[..] else {
            unreachable!("eight were taken")
        };
        // The shell ends with its input, which ends with this process; then it ends the service.
        let script = r#""$@" </dev/null & p=$!; cat >/dev/null; kill -9 $p"#;
        let output = File::create(&log).expect("a file in a temporary folder");
        let process = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(program)
            .args(["server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"])
            .arg(format!("-dir={}", data.display()))
            .args([format!("-master.port={master}"), format!("-master.port.grpc={master_grpc}")])
            .args([format!("-volume.port={volume}"), format!("-volume.port.grpc={volume_grpc}")])
            .args(["-volume.max=200", "-master.volumeSizeLimitMB=64", "-volume.preStopSeconds=0"])
            .args([format!("-filer.port={filer}"), format!("-filer.port.grpc={filer_grpc}"), "-filer".into()])
            .args([format!("-s3.port={s3}"), format!("-s3.port.grpc={s3_grpc}"), "-s3".into()])
            .args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false", "-s3.autoCreateBucket=false"])
            .arg(format!("-s3.config={}", config.display()))
            .stdin(Stdio::piped())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .expect("a shell");
        let endpoint = format!("http://127.0.0.1:{s3}");
        let service = Self { endpoint, places: AtomicU64::new(0), _process: process, _folder: folder };
        let until = Instant::now() + START_TIMEOUT;
        while Instant::now() < until {
            let there = TcpStream::connect(("127.0.0.1", s3)).is_ok();
            if there && service.bucket(BUCKET).make().is_ok() {
                // Only now every part of it is there.
                let probe = service.bucket(BUCKET);
                if probe.replace("ready", "ready".into()).is_ok() && probe.check().is_ok() {
                    return Some(service);
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut said = String::new();
        let _ = File::open(&log).and_then(|mut file| file.read_to_string(&mut said));
        #[expect(clippy::print_stderr, reason = "what a test needs did not start")]
        {
            eprintln!("{said}");
        }
        None
    }

    /// Its address.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// How to reach it, at its own address.
    pub fn config(&self) -> Config {
        self.config_at(&self.endpoint)
    }

    /// How to reach it at another address, such as that of a [`crate::Proxy`].
    pub fn config_at(&self, endpoint: &str) -> Config {
        s3_config(endpoint)
    }

    /// As [`S3Service::config_at`], of someone who may only read.
    pub fn reader_config(&self) -> Config {
        let mut config = self.config();
        config.credentials.access_key_id = READER_KEY.to_owned();
        config.credentials.secret_access_key = READER_SECRET.to_owned();
        config
    }

    /// A bucket of it, there or not.
    pub fn bucket(&self, name: &str) -> Bucket {
        Bucket::new(self.config(), name).expect("a bucket's name")
    }

    /// The bucket that is there.
    pub fn logs(&self) -> Bucket {
        self.bucket(BUCKET)
    }

    /// A place in it that nobody has used.
    pub fn new_place(&self) -> S3Address {
        let number = self.places.fetch_add(1, Ordering::Relaxed);
        format!("s3://{BUCKET}/place-{}-{number}", std::process::id()).parse().expect("an address")
    }

    /// The variables by which programs find it, at its own address or another.
    pub fn variables(&self, endpoint: Option<&str>) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", endpoint.unwrap_or(&self.endpoint).to_owned()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ]
    }
}

/// How to reach the service of another test program.
pub fn s3_config(endpoint: &str) -> Config {
    Config {
        place: Place::Endpoint(endpoint.parse().expect("an address of this machine")),
        public_place: None,
        region: "us-east-1".to_owned(),
        credentials: Credentials {
            access_key_id: ACCESS_KEY.to_owned(),
            secret_access_key: SECRET_KEY.to_owned(),
            session_token: None,
        },
        patience: Patience {
            attempts_max: 5,
            pause_first: Duration::from_millis(10),
            pause_max: Duration::from_millis(100),
            answer_timeout: Duration::from_secs(30),
        },
    }
}

/// Where the program is.
fn program() -> Option<PathBuf> {
    if let Some(told) = std::env::var_os("CT_TEST_WEED") {
        return Some(told.into());
    }
    let beside = std::env::var_os("CT_TEST_PYTHON").map(|python| Path::new(&python).with_file_name("weed"));
    let on_path = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).map(|folder| folder.join("weed")).collect::<Vec<_>>());
    beside.into_iter().chain(on_path.into_iter().flatten()).find(|path| path.is_file())
}
