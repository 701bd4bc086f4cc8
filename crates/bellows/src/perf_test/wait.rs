//! `-sst` and `-sul`: waits until brokers are up.

use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use super::resolved::ResolvedRun;
use crate::failure::Failure;

/// Between two rounds, and the longest that one broker is waited for in a round.
const PAUSE: Duration = Duration::from_millis(250);
const ONE: Duration = Duration::from_secs(1);

/// Waits until enough ports answer, where that was requested. The test then has the brokers that are up.
pub(super) fn for_brokers(resolved: &mut ResolvedRun) -> Result<(), Failure> {
    if resolved.wait.is_zero() {
        return Ok(());
    }
    let broker = &mut resolved.experiment.broker;
    let urls: Vec<String> = broker
        .url
        .iter()
        .chain(&broker.further_urls)
        .cloned()
        .collect();
    let begun = Instant::now();
    let mut up: Vec<String> = Vec::new();
    loop {
        for url in &urls {
            if up.len() < resolved.enough && !up.contains(url) && is_up(url) {
                up.push(url.clone());
            }
        }
        if up.len() >= resolved.enough {
            let mut up = up.into_iter();
            broker.url = up.next();
            broker.further_urls = up.collect();
            return Ok(());
        }
        if begun.elapsed() >= resolved.wait {
            return Err(late(resolved, urls.iter().find(|url| !up.contains(url))));
        }
        thread::sleep(PAUSE);
    }
}

/// Whether a server listens. Unreadable addresses are refused elsewhere.
fn is_up(url: &str) -> bool {
    let Ok(endpoint) = url.parse::<load::Endpoint>() else {
        return true;
    };
    let addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
    addresses.is_ok_and(|mut all| all.any(|a| TcpStream::connect_timeout(&a, ONE).is_ok()))
}

fn late(resolved: &ResolvedRun, missing: Option<&String>) -> Failure {
    let endpoint = missing.and_then(|url| url.parse::<load::Endpoint>().ok());
    Failure::failed(
        format!(
            "the broker at {} was not up within {} s",
            endpoint.map_or_else(String::new, |endpoint| endpoint.to_string()),
            resolved.wait.as_secs()
        ),
        "start it, or wait longer with -sst/--servers-startup-timeout",
    )
    .observed(format_args!("{} s", resolved.wait.as_secs()))
}
