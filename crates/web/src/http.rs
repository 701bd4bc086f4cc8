//! HTTP agents, TLS, time-outs and errors.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use measure::Problem;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::typestate::AgentScope;

use crate::Secret;

/// An agent for an address, whose requests take at most `timeout`. An answer is one whatever its status, and no
/// redirection is followed: it would send a secret to somebody else.
pub fn agent(url: &str, timeout: Duration, tls: TlsConfig) -> ConfigBuilder<AgentScope> {
    let agent = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .tls_config(tls)
        .user_agent(concat!("bellows/", env!("CARGO_PKG_VERSION")));
    // What is meant for this machine leaves it through no proxy that the environment names.
    if is_here(url) { agent.proxy(None) } else { agent }
}

/// Whether an address is one of the loopback interface.
fn is_here(url: &str) -> bool {
    let uri = url.trim().parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|it| it.to_canonical().is_loopback())
}

/// How a server knows who asks.
#[derive(Clone, Debug)]
pub struct Login {
    /// Its user, where it asks for one; the secret is then a password.
    pub user: Option<String>,
    /// A password, or else a token.
    pub secret: Option<Secret>,
    /// Stands before a token: `Bearer`.
    pub scheme: &'static str,
}

impl Login {
    /// The value of the header `Authorization`.
    pub fn authorization(&self) -> Option<String> {
        let secret = self.secret.as_ref().map(|it| it.expose());
        match (&self.user, secret) {
            (Some(user), secret) => Some(basic(user, secret.unwrap_or_default())),
            (None, Some(token)) => Some(format!("{} {token}", self.scheme)),
            (None, None) => None,
        }
    }

    /// A server's words, which may repeat what it was sent: the secret, the login, the query of the URL.
    pub fn without_secrets(&self, words: &str, url: &str) -> String {
        let secret = self.secret.as_ref().map(|it| it.expose().to_owned());
        let login = crate::redact::credentials(self.authorization().as_deref());
        let query = url.split_once('?').map(|(_, query)| query.to_owned());
        crate::redact::repeated(words, [secret, login, query].into_iter().flatten())
    }
}

/// A user and a password, as the header `Authorization` has them.
pub fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

/// Why nothing was answered, without the URI, which may hold a password.
pub fn told(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) => "it is not a URI".to_owned(),
        ureq::Error::Timeout(_) => NOT_IN_TIME.to_owned(),
        ureq::Error::Io(error) => told_io(error),
        error => crate::redact::text(&error.to_string()),
    }
}

/// Why an answer was not read to its end.
pub fn told_io(error: &io::Error) -> String {
    match error.get_ref().and_then(|it| it.downcast_ref()) {
        Some(ureq::Error::Timeout(_)) => NOT_IN_TIME.to_owned(),
        _ if error.kind() == io::ErrorKind::UnexpectedEof => CLOSED.to_owned(),
        _ => crate::redact::text(&error.to_string()),
    }
}

const NOT_IN_TIME: &str = "the answer was not complete within the time-out";
/// The HTTP client tells both alike.
const CLOSED: &str = "the server closed the connection before the end of its answer, or the answer's head is too large";

/// Trusts the authorities that the broker's clients trust, or any certificate.
pub fn trust(ca: Option<&Path>, insecure: bool) -> Result<TlsConfig, Problem> {
    let certificates: Vec<CertificateDer<'static>> = match ca {
        Some(file) => CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(|error| {
            let help = "give a PEM file";
            Problem::new(format!("cannot read a certificate from {}", file.display()), format!("{error:?}"), help)
        })?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let roots = certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .disable_verification(insecure)
        .root_certs(RootCerts::Specific(Arc::new(roots.collect())))
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known() {
        for [url, here] in testkit::table(include_str!("../tests/data/here.txt")) {
            assert_eq!(is_here(url), here == "true", "{url}");
        }
    }
}
