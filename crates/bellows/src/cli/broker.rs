//! `broker`: the embedded broker in the foreground.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::thread;

use broker::{Broker, Config, Stop};
use clap::Args;

use crate::failure::{Done, Failure};
use crate::{output, signals};

const EXAMPLES: &str = "\
Examples:
  bellows broker
  bellows broker --listen 127.0.0.1:0 --memory-limit 2GB
  bellows client queue://TEST --url amqp://127.0.0.1:5672 --duration 10";

/// What `bellows broker` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BrokerArgs {
    /// Address to listen on; port 0 takes a free one. Others than loopback let the network in
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "BELLOWS_LISTEN",
        default_value = "127.0.0.1:5672"
    )]
    listen: SocketAddr,
    /// Memory for messages, above which publishers are blocked: 512MiB, 2GB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<u64>,
    /// End when standard input is closed
    #[arg(long)]
    exit_with_stdin: bool,
}

impl BrokerArgs {
    /// Serves until it is stopped. Standard output gets one line, `ready amqp://ADDRESS:PORT`.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let mut config = Config {
            listen: self.listen,
            ..Config::default()
        };
        if let Some(bytes) = self.memory_limit {
            config.memory_limit_bytes = bytes;
        }
        let limit = config.memory_limit_bytes;
        let stop = Stop::new();
        signals::stop_broker(&stop, self.exit_with_stdin)?;
        let mut broker = Broker::bind(config)?;
        let address = broker.local_addr();
        if self.exit_with_stdin {
            stop_with_stdin(stop.clone())?;
        } else {
            banner(address, limit);
        }
        output::print(&format!("ready amqp://{address}\n"))?;
        broker.run(&stop)?;
        Ok(Done::Fine)
    }
}

fn banner(address: SocketAddr, limit: u64) {
    let mut text = format!(
        "bellows {}, embedded AMQP 0.9.1 broker: user guest, in memory up to {} MB, nothing survives\n",
        env!("CARGO_PKG_VERSION"),
        limit / 1_000_000
    );
    if !address.ip().is_loopback() {
        text.push_str(
            "warning: the network can reach this broker, and anybody knows its password\n",
        );
    }
    // A closed standard error is nobody's loss.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Stops the broker at the end of standard input, which is its parent's end too.
fn stop_with_stdin(stop: Stop) -> Result<(), Failure> {
    let wait = move || {
        let mut sink = [0; 256];
        // Whatever is said there is ignored; an error is an end as well.
        while matches!(io::stdin().lock().read(&mut sink), Ok(1..)) {}
        stop.stop();
    };
    thread::Builder::new()
        .name("stdin".into())
        .spawn(wait)
        .map(|_| ())
        .map_err(|e| Failure::failed(format!("cannot start a thread: {e}"), "see ulimit -u"))
}

/// A number of bytes with an optional unit.
fn size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" | "k" => 1_000,
        "mb" | "m" => 1_000_000,
        "gb" | "g" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => 0,
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a size such as 512MiB or 2GB".into())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("2GB"), Ok(2_000_000_000));
        assert_eq!(size("1000"), Ok(1_000));
        for bad in ["", "0", "x", "5 parsecs", "-1", "99999999999GB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
