//! Certificates and keys from PEM files.

use std::path::Path;

use measure::Problem;
use rustls::RootCertStore;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const CERTIFICATE: &str = "give a PEM file with -----BEGIN CERTIFICATE-----";
const KEY: &str = "give a PEM file with -----BEGIN PRIVATE KEY----- (openssl pkey -in KEY writes an \
                   encrypted one in the clear)";

/// The TLS library offers no version.
pub(super) fn unsupported(error: rustls::Error) -> Problem {
    Problem::new("no TLS version can be used", error, "this is a defect of bellows, please report it")
}

/// Reads all certificates of a file; at least one.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable(file, "a certificate", &error, CERTIFICATE))?;
    if found.is_empty() {
        return Err(Problem::new(format!("{} holds no certificate", file.display()), "", CERTIFICATE));
    }
    Ok(found)
}

pub(super) fn authorities(file: &Path) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| {
            let help = "give the PEM file of the authority that issued the other side's certificate";
            Problem::new(format!("{} is not an authority's certificate", file.display()), error, help)
        })?;
    }
    Ok(roots)
}

/// Reads a certificate, followed by those of its issuers, and its private key.
pub(super) fn identity(
    certificate: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Problem> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, "a private key", &error, KEY))?;
    Ok((chain, key))
}

/// A certificate and a key that do not fit together.
pub(super) fn mismatch(certificate: &Path, key: &Path, error: &rustls::Error) -> Problem {
    let cause = format!("the certificate {} and the key {} cannot be used", certificate.display(), key.display());
    Problem::new(cause, error, "give a certificate and the key that it was made for")
}

fn unreadable(file: &Path, what: &str, error: &PemError, help: &str) -> Problem {
    let detail = match error {
        PemError::Io(error) => error.to_string(),
        PemError::NoItemsFound => format!("it holds no {}", what.trim_start_matches("a ")),
        error => format!("it is not PEM ({error:?})"),
    };
    Problem::new(format!("cannot read {what} from {}", file.display()), detail, help)
}
