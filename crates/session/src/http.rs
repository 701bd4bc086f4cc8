//! What all requests by HTTP have in common.

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
        error => {
            let text = error.to_string();
            // That it came from the system says nothing beside its own words.
            crate::redact::text(text.strip_prefix("io: ").unwrap_or(&text))
        }
    }
}

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
