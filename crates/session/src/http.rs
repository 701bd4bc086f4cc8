//! What all requests by HTTP have in common.

use std::io;
use std::path::Path;
use std::sync::Arc;

use measure::Problem;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::Error;

/// Why nothing was answered, without the URI, which may hold a password.
pub(crate) fn told(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) => "it is no URI".to_owned(),
        ureq::Error::Timeout(_) => NOT_IN_TIME.to_owned(),
        ureq::Error::Io(error) => told_io(error),
        error => crate::redact::text(&error.to_string()),
    }
}

/// Why an answer was not read to its end.
pub(crate) fn told_io(error: &io::Error) -> String {
    match error.get_ref().and_then(|it| it.downcast_ref()) {
        Some(ureq::Error::Timeout(_)) => NOT_IN_TIME.to_owned(),
        _ if error.kind() == io::ErrorKind::UnexpectedEof => CLOSED.to_owned(),
        _ => crate::redact::text(&error.to_string()),
    }
}

const NOT_IN_TIME: &str = "there was no whole answer within the time-out";
/// The HTTP client tells both alike.
const CLOSED: &str = "the server closed the connection before its answer was whole, or the answer's head is too large";

/// The same authorities as for the broker.
pub(crate) fn tls(ca: Option<&Path>) -> Result<TlsConfig, Error> {
    trust(ca, false)
}

/// The same authorities as for the broker, or none at all: any certificate is taken then.
pub(crate) fn trust(ca: Option<&Path>, insecure: bool) -> Result<TlsConfig, Error> {
    let certificates: Vec<CertificateDer<'static>> = match ca {
        Some(file) => CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .map_err(|error| {
                Problem::new(
                    format!("cannot read a certificate from {}", file.display()),
                    format!("{error:?}"),
                    "give a PEM file",
                )
            })?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let roots = certificates
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned());
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .disable_verification(insecure)
        .root_certs(RootCerts::Specific(Arc::new(roots.collect())))
        .build())
}
