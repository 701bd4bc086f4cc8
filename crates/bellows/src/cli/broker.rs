//! `broker`: the embedded broker in the foreground, its TLS listener, and the report of its faults.

use std::fmt::Write;
use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;

use broker::{
    Broker, ClientCertificates, Config, FaultLog, Identity, Injected, Injections, Origin, ServerTls, Stop, TlsListener,
};
use brokers::{Certificates, PlayedFault, PlayedFaults};
use clap::Args;
use measure::{Bytes, Nanos, Problem, Time};
use report::console::prose;

use crate::{Done, Failure, output, signals};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows broker
  bellows broker --listen 127.0.0.1:0 --memory-limit 2GB
  bellows broker --faults faults.toml
  bellows broker --tls-listen 127.0.0.1:5671 --tls-make .
  bellows client queue://TEST --url amqp://127.0.0.1:5672 --duration 10")]
pub(crate) struct BrokerArgs {
    /// Address to listen on; port 0 takes a free one. Others than loopback let the network in
    #[arg(long, value_name = "ADDRESS:PORT", env = "BELLOWS_LISTEN", default_value = "127.0.0.1:5672")]
    listen: SocketAddr,
    /// Memory for messages, above which publishers are blocked: 512MiB, 2GB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory_limit: Option<Bytes>,
    #[command(flatten)]
    tls: BrokerTlsArgs,
    /// Harm clients by a script: stalls, slow confirms, lost deliveries, … (`bellows help faults`)
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// The script itself, from a run that says when its times begin
    #[arg(long, hide = true, conflicts_with = "faults", requires = "exit_with_stdin")]
    fault_script: Option<String>,
    /// End when standard input is closed
    #[arg(long)]
    exit_with_stdin: bool,
}

impl BrokerArgs {
    /// Serves until it is stopped. Standard output gets the line `ready amqp://ADDRESS:PORT`, with
    /// TLS also `ready amqps://ADDRESS:PORT`, and at the end what the faults did.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let mut config = Config { listen: self.listen, ..Config::default() };
        if let Some(bytes) = self.memory_limit {
            config.memory_limit_bytes = bytes.0;
        }
        config.faults = self.script()?;
        config.tls = self.tls.listener()?;
        if self.fault_script.is_some() {
            config.fault_origin = Origin::Declared;
        }
        let harms = !config.faults.is_empty();
        let limit = config.memory_limit_bytes;
        let stop = Stop::new();
        signals::stop_broker(&stop, self.exit_with_stdin)?;
        let mut broker = Broker::bind(config)?;
        let (address, secured) = (broker.local_addr(), broker.tls_addr());
        if self.exit_with_stdin {
            follow_stdin(stop.clone(), broker.fault_log())?;
        } else {
            banner([Some(address), secured], limit);
        }
        let log = broker.fault_log();
        output::print(&format!("ready amqp://{address}\n"))?;
        if let Some(secured) = secured {
            output::print(&format!("ready amqps://{secured}\n"))?;
        }
        broker.run(&stop)?;
        if harms && !self.exit_with_stdin {
            output::print(&faults_text(&log.injections()))?;
        }
        Ok(Done::Fine)
    }

    fn script(&self) -> Result<Vec<broker::Fault>, Failure> {
        let (text, origin) = match (&self.fault_script, &self.faults) {
            (Some(text), _) => (text.clone(), "the experiment".to_owned()),
            (None, Some(path)) => {
                let origin = path.display().to_string();
                let text = std::fs::read_to_string(path).map_err(|e| {
                    let help = "give a file of [[fault]] entries; see `bellows help faults`";
                    Failure::Usage(Problem::new(format!("cannot read {origin}"), e, help))
                })?;
                (text, origin)
            }
            (None, None) => return Ok(Vec::new()),
        };
        Ok(experiment::read_faults(&text, &origin).map_err(session::Error::from)?)
    }
}

fn banner(addresses: [Option<SocketAddr>; 2], limit: u64) {
    let mut text = format!(
        "bellows {}, embedded broker for AMQP 0.9.1 and 1.0: user guest, in memory up to {} MB, nothing survives\n",
        env!("CARGO_PKG_VERSION"),
        limit / 1_000_000
    );
    let is_open = |address: &SocketAddr| !address.ip().is_loopback();
    if addresses.iter().flatten().any(is_open) {
        text.push_str("warning: the network can reach this broker, and anybody knows its password\n");
    }
    output::aside(&prose(&text, output::style_aside()));
}

/// Stops the broker at the end of standard input, which is its parent's end too. Until then a
/// parent may say when the faults' times begin, and ask what they have done.
fn follow_stdin(stop: Stop, log: FaultLog) -> Result<(), Failure> {
    let wait = move || {
        // What is not understood is ignored; an error is an end as well.
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Some(at) = line.strip_prefix("begin ").and_then(|at| at.parse().ok()) {
                log.begin(Time(at));
            } else if line == "report" {
                // A parent that does not read any more has ended, and so will this.
                let _ = output::print(&faults_line(&log.injections()));
            }
        }
        stop.stop();
    };
    thread::Builder::new()
        .name("stdin".into())
        .spawn(wait)
        .map(|_| ())
        .map_err(|e| Failure::Failed(Problem::new("cannot start a thread", e, "see ulimit -u")))
}

fn memory(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse()?;
    (bytes.0 > 0).then_some(bytes).ok_or_else(|| "no message fits into 0 bytes; give a size such as 512MiB".to_owned())
}

/// For the run that started this broker.
fn faults_line(injections: &Injections) -> String {
    let played = |done: &Injected| PlayedFault {
        kind: done.kind.to_owned(),
        count: done.count,
        start_ns: done.span.map(|span| span.start.0),
        end_ns: done.span.and_then(|span| span.end).map(|end| end.0),
    };
    let played = PlayedFaults {
        faults: injections.faults.iter().map(played).collect(),
        published: injections.published,
        redelivered: injections.redelivered,
    };
    serde_json::to_string(&played).unwrap_or_default() + "\n"
}

/// For people: one line for each fault, and the two counts that a ledger is compared with.
fn faults_text(injections: &Injections) -> String {
    let mut text = String::new();
    for done in &injections.faults {
        let _ = write!(text, "{}: {} hit", done.kind, done.count);
        match (done.span, injections.origin) {
            (Some(span), Some(origin)) => {
                let after = span.start.since(origin).as_secs_f64();
                let _ = write!(text, ", at {after:.3} s");
                let length = span.end.map(|end| end.since(span.start));
                if let Some(length) = length.filter(|it| *it > Nanos::ZERO) {
                    let _ = write!(text, " for {:.3} s", length.as_secs_f64());
                }
            }
            (Some(_), None) => text.push_str(", nobody came"),
            (None, _) => text.push_str(", its time did not come"),
        }
        text.push('\n');
    }
    let taken = measure::counted(injections.published, "message");
    let _ = writeln!(text, "{taken} taken, {} redelivered", injections.redelivered);
    text
}

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
struct BrokerTlsArgs {
    /// Address to listen on for TLS, beside --listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    tls_listen: Option<SocketAddr>,
    /// PEM file with the broker's certificate, followed by those of its issuers
    #[arg(long, value_name = "FILE", requires_all = ["tls_listen", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// PEM file with the key of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Folder for an authority of its own (ca.pem) with certificates for localhost (server.pem) and
    /// for clients (client.pem, user guest) and their keys; made where it has none of them, and
    /// nothing is overwritten. It must exist
    #[arg(long, value_name = "DIR", requires = "tls_listen", conflicts_with_all = ["tls_cert", "tls_key", "tls_ca"])]
    tls_make: Option<PathBuf>,
    /// PEM file with the authorities of clients' certificates; who shows one may log in by it
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Refuse clients without a certificate
    #[arg(long, requires = "tls_listen")]
    tls_require_cert: bool,
}

impl BrokerTlsArgs {
    fn listener(self) -> Result<Option<TlsListener>, Failure> {
        let Some(listen) = self.tls_listen else { return Ok(None) };
        let (certificate, key, authorities) = match (self.tls_make, self.tls_cert, self.tls_key) {
            (Some(folder), ..) => {
                let made = Certificates::find_or_make(&folder).map_err(session::Error::from)?;
                let (certificate, key) = made.server();
                (certificate, key, Some(made.authority()))
            }
            (None, Some(certificate), Some(key)) => (certificate, key, self.tls_ca),
            _ => {
                let cause = "--tls-listen needs a certificate";
                let help = "give --tls-cert FILE and --tls-key FILE, or --tls-make DIR to have one made";
                return Err(Failure::usage(cause, help));
            }
        };
        if self.tls_require_cert && authorities.is_none() {
            let cause = "--tls-require-cert: nobody is said to issue clients' certificates";
            return Err(Failure::usage(cause, "name their authority with --tls-ca FILE"));
        }
        let clients =
            authorities.map(|authorities| ClientCertificates { authorities, required: self.tls_require_cert });
        let tls = ServerTls { identity: Identity { certificate, key }, clients };
        Ok(Some(TlsListener { listen, tls }))
    }
}
