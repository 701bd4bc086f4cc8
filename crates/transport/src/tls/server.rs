//! The server's side: its certificate, which clients' certificates it accepts, and whom they name.

use std::path::PathBuf;
use std::sync::Arc;

use measure::Problem;
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};

use super::client::Identity;
use super::error::TlsError;
use super::pem;
use super::session::ServerSession;

/// How a server's connections are secured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The server's certificate and its key.
    pub identity: Identity,
    /// Which clients' certificates are accepted; no client is asked for one where absent.
    pub clients: Option<ClientCertificates>,
}

/// Clients' certificates. A client may log in by one (SASL EXTERNAL) as the user of its common name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// PEM file with the authorities that issue them.
    pub authorities: PathBuf,
    /// Refuse clients that have none.
    pub required: bool,
}

/// The TLS configuration that all connections of one listener share.
#[derive(Clone, Debug)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// Reads the certificates. Errors: files that cannot be read or used.
    pub fn new(tls: &ServerTls) -> Result<Self, Problem> {
        let config = Arc::new(tls.config()?);
        Ok(Self { config })
    }

    /// Begins a connection's session. Errors: a configuration that allows nothing.
    pub fn session(&self) -> Result<ServerSession, TlsError> {
        ServerSession::server(Arc::clone(&self.config)).map_err(TlsError::Protocol)
    }
}

impl ServerTls {
    fn config(&self) -> Result<ServerConfig, Problem> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(pem::unsupported)?;
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let roots = Arc::new(pem::authorities(&clients.authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = if clients.required { verifier } else { verifier.allow_unauthenticated() };
                let verifier = verifier.build().map_err(|error| {
                    let help = "give the PEM file of the authority that issues the clients' certificates";
                    Problem::new(format!("{} cannot be used", clients.authorities.display()), error, help)
                })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let Identity { certificate, key } = &self.identity;
        let (chain, private) = pem::identity(certificate, key)?;
        let mut config =
            builder.with_single_cert(chain, private).map_err(|error| pem::mismatch(certificate, key, &error))?;
        // Each connection stands for a client of its own: nothing is resumed.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}
