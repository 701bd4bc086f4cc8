//! Options of `bellows broker` on its TLS listener.

use std::net::SocketAddr;
use std::path::PathBuf;

use broker::{ClientCertificates, Identity, ServerTls, TlsListener};
use brokers::Certificates;
use clap::Args;

use crate::failure::Failure;

/// Options of a TLS listener.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct BrokerTlsArgs {
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
    #[arg(
        long,
        value_name = "DIR",
        requires = "tls_listen",
        conflicts_with_all = ["tls_cert", "tls_key", "tls_ca"]
    )]
    tls_make: Option<PathBuf>,
    /// PEM file with the authorities of clients' certificates; who shows one may log in by it
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// Refuse clients without a certificate
    #[arg(long, requires = "tls_listen")]
    tls_require_cert: bool,
}

impl BrokerTlsArgs {
    /// The listener that is requested.
    pub(super) fn listener(self) -> Result<Option<TlsListener>, Failure> {
        let Some(listen) = self.tls_listen else {
            return Ok(None);
        };
        let (certificate, key, authorities) = match (self.tls_make, self.tls_cert, self.tls_key) {
            (Some(folder), ..) => {
                let made = Certificates::find_or_make(&folder).map_err(session::Error::from)?;
                let (certificate, key) = made.server();
                (certificate, key, Some(made.authority()))
            }
            (None, Some(certificate), Some(key)) => (certificate, key, self.tls_ca),
            _ => {
                return Err(Failure::usage(
                    "--tls-listen needs a certificate",
                    "give --tls-cert FILE and --tls-key FILE, or --tls-make DIR to have one made",
                ));
            }
        };
        if self.tls_require_cert && authorities.is_none() {
            return Err(Failure::usage(
                "--tls-require-cert: nobody is said to issue clients' certificates",
                "name their authority with --tls-ca FILE",
            ));
        }
        let clients = authorities.map(|authorities| ClientCertificates {
            authorities,
            required: self.tls_require_cert,
        });
        let identity = Identity { certificate, key };
        let tls = ServerTls { identity, clients };
        Ok(Some(TlsListener { listen, tls }))
    }
}
