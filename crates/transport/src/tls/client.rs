//! The client's side: whom to trust, and who we are.

use std::path::PathBuf;
use std::sync::Arc;

use measure::Problem;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::error::TlsError;
use super::pem;
use super::session::ClientSession;

/// How a client's connection is secured. The default verifies the server's certificate against the
/// machine's own authorities and the host in the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// PEM file with the authorities to trust, in place of the machine's own.
    pub ca: Option<PathBuf>,
    /// The client's certificate, where the server asks for one.
    pub identity: Option<Identity>,
    /// The name that the server is asked for (SNI) and that its certificate must have; by default the URL's host.
    pub server_name: Option<String>,
    /// Accept any certificate: encrypted, but nobody knows to whom.
    pub insecure: bool,
    /// Protocols that are offered (ALPN), the preferred one first; none where empty.
    pub alpn: Vec<String>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM file with the certificate, followed by those of its issuers.
    pub certificate: PathBuf,
    /// PEM file with its private key, unencrypted.
    pub key: PathBuf,
}

/// The TLS configuration that all connections to one host share.
#[derive(Clone, Debug)]
pub struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Connector {
    /// Reads the certificates. Errors: files that cannot be read or used, and a name that TLS cannot ask for.
    pub fn new(tls: &ClientTls, host: &str) -> Result<Self, Problem> {
        let name = tls.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            let help = "give the name that the broker's certificate is for with --sni NAME (broker.sni)";
            Problem::new(format!("{name:?} is neither a host name nor an address, as TLS needs one"), "", help)
        })?;
        let config = Arc::new(tls.config()?);
        Ok(Self { config, name })
    }

    /// Begins a connection's session. Errors: a configuration that allows nothing.
    pub fn session(&self) -> Result<ClientSession, TlsError> {
        ClientSession::client(Arc::clone(&self.config), self.name.clone()).map_err(TlsError::Protocol)
    }
}

impl ClientTls {
    fn config(&self) -> Result<ClientConfig, Problem> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(pem::unsupported)?;
        let builder = if self.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider)))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let (chain, private) = pem::identity(certificate, key)?;
                builder
                    .with_client_auth_cert(chain, private)
                    .map_err(|error| pem::mismatch(certificate, key, &error))?
            }
        };
        // Each connection stands for a client of its own, which has nothing to resume.
        config.resumption = Resumption::disabled();
        config.alpn_protocols = self.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, Problem> {
        if let Some(file) = &self.ca {
            return pem::authorities(file);
        }
        let mut roots = RootCertStore::empty();
        let native = rustls_native_certs::load_native_certs();
        let (accepted, _) = roots.add_parsable_certificates(native.certs);
        if accepted > 0 {
            return Ok(roots);
        }
        let help = "install them (apt-get install ca-certificates), or name one with --ca FILE (broker.ca)";
        Err(Problem::new("this machine has no certificate authorities that could be trusted", "", help))
    }
}

/// The verifier that accepts any certificate.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl Unverified {
    fn algorithms(&self) -> &WebPkiSupportedAlgorithms {
        &self.0.signature_verification_algorithms
    }
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, self.algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, self.algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms().supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_offered_in_their_order() {
        let alpn = vec!["amqp".to_owned(), "x".to_owned()];
        let config = ClientTls { insecure: true, alpn, ..ClientTls::default() }.config().expect("a configuration");
        assert_eq!(config.alpn_protocols, [b"amqp".to_vec(), b"x".to_vec()]);
    }
}
