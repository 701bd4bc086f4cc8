//! TLS: what is asked for, and the configuration that follows from it. Certificates are verified
//! unless somebody says otherwise.

mod fault;
mod unchecked;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

pub(crate) use wire::tls::{ClientSession, Fault};

pub(crate) use self::fault::{explain, unfinished};
use self::unchecked::Unchecked;
use crate::{Endpoint, Error};

/// How a connection is secured. The default verifies the broker's certificate against the
/// machine's own authorities and the host in the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file with the authorities to trust, in place of the machine's own.
    pub ca: Option<PathBuf>,
    /// Who we are, where the broker asks.
    pub identity: Option<Identity>,
    /// The name that the broker is asked for (SNI) and that its certificate must be for; the host
    /// of the URL where absent.
    pub server_name: Option<String>,
    /// Take any certificate: encrypted, but nobody knows to whom.
    pub insecure: bool,
}

/// A client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM file with the certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// PEM file with its private key, unencrypted.
    pub key: PathBuf,
}

/// All that connections to one endpoint share.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Connector {
    /// `None` where the endpoint is not to be secured.
    pub(crate) fn for_endpoint(endpoint: &Endpoint) -> Result<Option<Arc<Self>>, Error> {
        let Some(tls) = &endpoint.tls else {
            return Ok(None);
        };
        let name = tls.server_name.as_deref().unwrap_or(&endpoint.host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            Error::invalid(
                format!("{name:?} is neither a host name nor an address, as TLS needs one"),
                "give the name that the broker's certificate is for with --sni NAME (broker.sni)",
            )
        })?;
        let config = Arc::new(tls.config()?);
        Ok(Some(Arc::new(Self { config, name })))
    }

    /// A new connection's session.
    pub(crate) fn session(&self) -> Result<ClientSession, Fault> {
        ClientSession::client(Arc::clone(&self.config), self.name.clone()).map_err(Fault::Tls)
    }
}

impl Tls {
    fn config(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::machine("set up TLS", error))?;
        let builder = if self.insecure {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unchecked::new(provider)))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.read()?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| identity.refused(&error))?
            }
        };
        // Each connection stands for a client of its own, which has nothing to resume.
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        let Some(file) = &self.ca else {
            let native = rustls_native_certs::load_native_certs();
            let (taken, _) = roots.add_parsable_certificates(native.certs);
            if taken > 0 {
                return Ok(roots);
            }
            return Err(Error::invalid(
                "this machine has no certificate authorities that could be trusted",
                "install them (apt-get install ca-certificates), or name one with --ca FILE \
                 (broker.ca)",
            ));
        };
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| {
                Error::invalid(
                    format!(
                        "{} is not an authority's certificate: {error}",
                        file.display()
                    ),
                    "give the PEM file of the authority that issued the broker's certificate",
                )
            })?;
        }
        Ok(roots)
    }
}

impl Identity {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| {
            unreadable(
                &self.key,
                "a private key",
                &error,
                "-----BEGIN PRIVATE KEY----- (openssl pkey -in KEY writes an encrypted one in the \
                 clear)",
            )
        })?;
        Ok((chain, key))
    }

    fn refused(&self, error: &rustls::Error) -> Error {
        Error::invalid(
            format!(
                "the certificate {} and the key {} cannot be used: {error}",
                self.certificate.display(),
                self.key.display()
            ),
            "give a certificate and the key that it was made for",
        )
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let begin = "-----BEGIN CERTIFICATE-----";
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable(file, "a certificate", &error, begin))?;
    if found.is_empty() {
        return Err(Error::invalid(
            format!("{} holds no certificate", file.display()),
            format!("give a PEM file with {begin}"),
        ));
    }
    Ok(found)
}

fn unreadable(
    file: &Path,
    what: &str,
    error: &rustls::pki_types::pem::Error,
    begin: &str,
) -> Error {
    use rustls::pki_types::pem::Error as Pem;
    let detail = match error {
        Pem::Io(error) => error.to_string(),
        Pem::NoItemsFound => format!("it holds no {}", what.trim_start_matches("a ")),
        error => format!("it is not PEM ({error:?})"),
    };
    Error::invalid(
        format!("cannot read {what} from {}: {detail}", file.display()),
        format!("give a PEM file with {begin}"),
    )
}

/// The algorithms that signatures are checked with.
fn algorithms(provider: &CryptoProvider) -> &rustls::crypto::WebPkiSupportedAlgorithms {
    &provider.signature_verification_algorithms
}
