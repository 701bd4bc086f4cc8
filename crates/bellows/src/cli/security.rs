//! Options on how connections are secured and how clients log in.

use std::path::PathBuf;

use clap::Args;
use experiment::{BrokerSpec, OAuth2Spec};
use load::Auth;
use web::Secret;

use super::args::choice;
use super::command_line::Url;
use crate::{Failure, prompt};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "TLS (amqps:// URLs)")]
pub(super) struct SecurityArgs {
    /// PEM file with the authorities to trust, instead of the machine's
    #[arg(long, value_name = "FILE", env = "BELLOWS_CA")]
    ca: Option<PathBuf>,
    /// PEM file with the client's certificate
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the key of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Name to ask the broker for and to verify, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Name of a protocol to offer (ALPN), such as amqp; may be repeated, the preferred one first
    #[arg(long, value_name = "NAME")]
    alpn: Vec<String>,
    /// Accept any certificate; every output says so
    #[arg(long)]
    insecure: bool,
    /// How to log in
    #[arg(long, value_name = "HOW", default_value = "plain", value_parser = choice([
        ("plain", Auth::Plain, "User and password"),
        ("external", Auth::External, "The client's certificate (SASL EXTERNAL)"),
    ]))]
    auth: Auth,
    /// Log in with an access token from this endpoint (OAuth 2 client credentials). The client's
    /// secret comes from BELLOWS_OAUTH2_CLIENT_SECRET, or is asked for
    #[arg(long, value_name = "URI", env = "BELLOWS_OAUTH2_URI", hide_env_values = true, requires = "oauth2_client_id")]
    oauth2_uri: Option<Url>,
    /// Client that asks for the token
    #[arg(long, value_name = "ID", env = "BELLOWS_OAUTH2_CLIENT_ID")]
    oauth2_client_id: Option<String>,
    /// Scope of the token; may be repeated
    #[arg(long, value_name = "SCOPE", requires = "oauth2_uri")]
    oauth2_scopes: Vec<String>,
}

impl SecurityArgs {
    pub(super) fn fill(self, spec: BrokerSpec) -> Result<BrokerSpec, Failure> {
        let oauth2 = self.oauth2_uri.map(|uri| oauth2(uri.0, self.oauth2_client_id, self.oauth2_scopes)).transpose()?;
        Ok(BrokerSpec {
            ca: self.ca,
            cert: self.cert,
            key: self.key,
            sni: self.sni,
            alpn: self.alpn,
            insecure: self.insecure,
            auth: self.auth,
            oauth2,
            ..spec
        })
    }
}

fn oauth2(uri: String, client: Option<String>, scopes: Vec<String>) -> Result<OAuth2Spec, Failure> {
    let client_id = client.unwrap_or_default();
    let client_secret = match std::env::var_os(OAuth2Spec::SECRET_VARIABLE) {
        Some(_) => None,
        None => prompt::secret(&format!("secret of OAuth 2 client {client_id}: "))?,
    };
    Ok(OAuth2Spec { uri, client_id, scopes, client_secret: client_secret.map(Secret::new), ..OAuth2Spec::default() })
}
