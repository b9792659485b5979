//! `ct serve`.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use ct_model::Scope;
use ct_server::{Mode, Network, ServeError, ServerConfig};
use ct_store::{Actor, Store};
use serde_json::json;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use super::{Context, users};
use crate::error::{CliError, Kind};
use crate::output::{self, Format, Printer};
use crate::pipeline::prices;

const EXAMPLES: &str = "\
Examples:
  ct serve                                        For this machine alone: private, on 127.0.0.1:3000
  ct serve --bind 0.0.0.0:3000 --private          For a team: everyone signs in
  ct serve --bind 0.0.0.0:3000 --public           Everyone may read; writing needs a token
  ct serve --private --public-url https://runs.example.org
  ct serve --private --trusted-proxy 127.0.0.1    Behind a proxy on this machine
  ct users add ana --scope admin                  The first account; also while a server runs

Ctrl-C lets transfers end; a second one stops at once.";

/// Serve the data folder to a team: the HTTP API with accounts and tokens.
///
/// What may be read without a token is told by --private or --public. On an address that other machines do not reach,
/// private is the default; elsewhere there is none.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:3000", value_parser = parse_bind)]
    bind: SocketAddr,
    /// Reading needs a token, as writing does
    #[arg(long, conflicts_with = "public")]
    private: bool,
    /// Everyone who reaches the address may read everything; writing needs a token
    #[arg(long)]
    public: bool,
    /// The address clients reach the server by, when it is another: https://runs.example.org
    #[arg(long, value_name = "URL", value_parser = parse_public_url)]
    public_url: Option<String>,
    /// A proxy before the server, by address or network (10.0.0.0/8); repeatable. Whom it asks for is taken from its
    /// X-Forwarded-For or Forwarded header, to slow down who guesses passwords and for the audit log
    #[arg(long, value_name = "ADDRESS")]
    trusted_proxy: Vec<Network>,
    /// The bucket in the addresses of logs, s3://<bucket>/<key>
    #[arg(long, value_name = "NAME", default_value = "control-tower", value_parser = parse_bucket)]
    bucket: String,
    /// Keep the logs in a bucket: s3://bucket/prefix; told once, the data folder remembers it
    #[arg(long, value_name = "ADDRESS")]
    logs: Option<String>,
    /// Where clients reach the bucket, when it is another address than AWS_ENDPOINT_URL
    #[arg(long, value_name = "URL")]
    logs_public_url: Option<String>,
    /// Send logs through this server, for clients that do not reach the bucket
    #[arg(long)]
    proxy_logs: bool,
    /// The rate file that /api/pricing answers from; without one it has no rows
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// How to say where it listens, and to log: table is text, json is lines of JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t, hide_possible_values = true)]
    format: Format,
}

fn parse_bind(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // A name of this machine; IPv4 first, which is what clients try first.
    let mut found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|_| "expected an address and a port: 127.0.0.1:3000".to_owned())?
        .collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found.first().copied().ok_or_else(|| "this name has no address".to_owned())
}

fn parse_public_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
    if host.is_none_or(str::is_empty) || text.contains(['?', '#', ' ']) {
        return Err("expected an address such as https://runs.example.org".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

fn parse_bucket(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > 63 || !text.chars().all(good) || text.starts_with('.') {
        return Err("a bucket's name is 1 to 63 of the characters a-z A-Z 0-9 - _ .".to_owned());
    }
    Ok(text.to_owned())
}

/// Serves until it is told to stop.
pub(crate) fn serve(arguments: ServeArgs, context: &Context) -> Result<(), CliError> {
    let mode = mode(&arguments)?;
    let printer = &context.printer;
    let place = context.log_place(arguments.logs.as_deref(), arguments.logs_public_url.as_deref())?;
    let store = context.store_at(place)?;
    store.check_logs_open()?;
    offer_first_account(&store, mode, printer)?;
    let config = ServerConfig {
        bind: arguments.bind,
        mode,
        public_url: arguments.public_url,
        trusted_proxies: arguments.trusted_proxy,
        bucket: arguments.bucket,
        proxy_logs: arguments.proxy_logs,
        version: env!("CT_VERSION"),
        prices: prices(arguments.prices.as_deref())?.unwrap_or_default(),
    };
    start_log(printer, arguments.format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::new(Kind::Io, "failed to start threads").because(&error))?;
    let result = runtime.block_on(run(Arc::new(store), config, arguments.format, printer));
    // Threads that still copy bytes for nobody are not waited for.
    runtime.shutdown_background();
    result
}

/// Private or public: told, or clear from the address.
fn mode(arguments: &ServeArgs) -> Result<Mode, CliError> {
    match (arguments.private, arguments.public) {
        (true, _) => Ok(Mode::Private),
        (_, true) => Ok(Mode::Public),
        _ if arguments.bind.ip().to_canonical().is_loopback() => Ok(Mode::Private),
        _ => Err(CliError::usage(format!(
            "{} can be reached from other machines: who may read must be told",
            arguments.bind
        ))
        .hint("everyone signs in: --private")
        .hint("everyone may read, writing needs a token: --public")),
    }
}

async fn run(
    store: Arc<Store>,
    config: ServerConfig,
    format: Format,
    printer: &Printer,
) -> Result<(), CliError> {
    let (mode, public_url) = (config.mode, config.public_url.clone());
    let mut signals = Signals::new()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut announced = Ok(());
    let ready = |address: SocketAddr| {
        let url = format!("http://{address}");
        let mode = if mode == Mode::Private { "private" } else { "public" };
        announced = match format {
            Format::Table => {
                printer.note(&format!("listening on {url} ({mode}); stop with Ctrl-C"));
                Ok(())
            }
            Format::Json => output::compact(
                &json!({"schema_version": 1, "listening": url, "mode": mode, "public_url": public_url}),
            )
            .and_then(|line| printer.data(&line)),
        };
    };
    let serving = ct_server::serve(store, config, ready, async {
        // An end without a word is a word, too.
        let _ = stopped.await;
    });
    let stopping = async {
        signals.next().await;
        printer.note("stopping: transfers may end; once more to stop at once");
        let _ = stop.send(());
        signals.next().await;
    };
    let result = tokio::select! {
        served = serving => served.map_err(served_badly),
        () = stopping => Err(CliError::new(Kind::Io, "stopped at once; transfers were cut off")),
    };
    result.and(announced)
}

fn served_badly(error: ServeError) -> CliError {
    match error {
        ServeError::Bind { bind, source } => {
            let taken = source.kind() == std::io::ErrorKind::AddrInUse;
            let error = CliError::new(Kind::Io, format!("failed to listen on {bind}")).because(&source);
            if taken { error.hint("take another port with --bind, or 0 for a free one") } else { error }
        }
        ServeError::Store(error) => error.into(),
    }
}

/// Ctrl-C, and what a service manager sends.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> Result<Self, CliError> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed =
            |error: std::io::Error| CliError::new(Kind::Io, "failed to listen to signals").because(&error);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
        })
    }

    #[cfg(not(unix))]
    fn new() -> Result<Self, CliError> {
        Ok(Self {})
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        // Without signals it ends with the process.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Without an account nobody can sign in: asks for one on a terminal, else says how to make one.
fn offer_first_account(store: &Store, mode: Mode, printer: &Printer) -> Result<(), CliError> {
    if !store.users()?.is_empty() {
        return Ok(());
    }
    if printer.can_ask() {
        let answer = printer.ask("There is no account yet. Make one now, which may do everything? [Y/n]")?;
        if answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "" | "y" | "yes")) {
            let Some(name) = printer.ask("User name:")?.filter(|name| !name.is_empty()) else {
                return Err(CliError::usage("no user name was given"));
            };
            store.check_new_user(&name)?;
            let password = users::ask_new_password()?;
            store.add_user(&name, &password, Scope::Admin, &Actor::local())?;
            printer.note(&format!("added user {name} (admin)"));
            return Ok(());
        }
    }
    let nobody = match mode {
        Mode::Private => "there is no account yet, so nobody can read or write",
        Mode::Public => "there is no account yet, so nobody can write",
    };
    printer
        .warning(&format!("{nobody}: add one, also while this runs, with: ct users add NAME --scope admin"));
    Ok(())
}

/// The log goes to standard error: what is asked and answered, and what goes wrong.
fn start_log(printer: &Printer, format: Format) {
    let level = match printer.level() {
        output::Level::Quiet => "warn",
        output::Level::Normal => "warn,ct_server=info",
        output::Level::Verbose => "info,ct_server=debug,ct_store=debug",
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(level))
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false);
    // A log that was started before stays as it is.
    let _ = match format {
        Format::Table => log.try_init(),
        Format::Json => log.json().try_init(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood() {
        assert_eq!(parse_bind("[::1]:80").unwrap().to_string(), "[::1]:80");
        assert!(parse_bind("localhost:80").unwrap().ip().is_loopback());
        assert!(parse_bind("80").is_err());
        assert_eq!(parse_public_url("https://a.example/b/").unwrap(), "https://a.example/b");
        for bad in ["a.example", "https://", "https:///b", "ftp://a", "https://a?b"] {
            assert!(parse_public_url(bad).is_err(), "{bad}");
        }
        assert!(parse_bucket("runs-1").is_ok());
        assert!(parse_bucket("a/b").is_err() && parse_bucket("").is_err() && parse_bucket("..").is_err());
    }
}
