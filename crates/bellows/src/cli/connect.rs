//! Options on which broker is used, who logs in and how connections are secured, for commands that use a running one.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use experiment::{BrokerKind, BrokerSpec, OAuth2Spec};
use load::Auth;
use web::Secret;

use super::args::named;
use super::command_line::{Url, described};
use crate::{Failure, prompt};

/// The broker where nobody says which.
pub(super) const DEFAULT_URL: &str = "amqp://localhost:5672";

#[derive(Clone, Debug, Args)]
#[command(mut_args(described([BrokerSpec::MEANINGS])))]
pub(super) struct LoginArgs {
    /// The broker: amqp://USER@HOST:PORT/VHOST, or amqps:// for TLS; amqp10:// and amqps10:// mean AMQP 1.0, of which
    /// amqp:// with --protocol amqp10 names a virtual host; mqtt:// and mqtts:// mean MQTT
    #[arg(long, env = "BELLOWS_URL", hide_env_values = true, default_value = DEFAULT_URL)]
    pub(super) url: Url,
    #[arg(long, env = "BELLOWS_USER")]
    pub(super) user: Option<String>,
    /// Password, instead of the URL's; better set as BELLOWS_PASSWORD than on a command line
    #[arg(long, env = "BELLOWS_PASSWORD", hide_env_values = true, allow_hyphen_values = true)]
    password: Option<Secret>,
}

#[derive(Clone, Debug, Args)]
#[command(mut_args(described([BrokerSpec::MEANINGS])))]
pub(super) struct ConnectArgs {
    #[command(flatten)]
    pub(super) login: LoginArgs,
    #[arg(long)]
    pid: Option<u32>,
    #[arg(long, value_name = "NODE")]
    node: Option<erlang::NodeName>,
    #[arg(long, value_name = "PORT", requires = "node", value_parser = clap::value_parser!(u16).range(1..))]
    node_port: Option<u16>,
    #[arg(long, value_name = "FILE", requires = "node")]
    cookie_file: Option<PathBuf>,
    #[arg(long, value_name = "URL")]
    management: Option<Url>,
    #[arg(long, value_name = "USER", requires = "management")]
    management_user: Option<String>,
    /// Local addresses to connect from, in turn; each has about 28,000 ports
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
    pub(super) source_addresses: Vec<IpAddr>,
    #[command(flatten)]
    security: SecurityArgs,
}

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Login and TLS (amqps:// and mqtts:// URLs)")]
pub(super) struct SecurityArgs {
    #[arg(long, value_name = "FILE", env = "BELLOWS_CA")]
    ca: Option<PathBuf>,
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Name of a protocol to offer (ALPN), such as amqp; may be repeated, the preferred one first
    #[arg(long, value_name = "NAME")]
    alpn: Vec<String>,
    #[arg(long)]
    insecure: bool,
    /// How to log in
    #[arg(long, value_name = "HOW", default_value = "plain", value_parser = named::<Auth>())]
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

impl LoginArgs {
    pub(super) fn spec(self) -> BrokerSpec {
        BrokerSpec {
            kind: BrokerKind::Attach,
            url: Some(self.url.0),
            user: self.user,
            password: self.password,
            ..BrokerSpec::default()
        }
    }
}

impl ConnectArgs {
    pub(super) fn spec(self) -> Result<BrokerSpec, Failure> {
        self.security.fill(BrokerSpec {
            pid: self.pid,
            node: self.node.map(|node| node.to_string()),
            node_port: self.node_port,
            cookie_file: self.cookie_file,
            management: self.management.map(|url| url.0),
            management_user: self.management_user,
            ..self.login.spec()
        })
    }
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
        None => {
            let question =
                format!("{} is not set; secret of OAuth 2 client {client_id}: ", OAuth2Spec::SECRET_VARIABLE);
            prompt::secret(&question, None)?
        }
    };
    Ok(OAuth2Spec { uri, client_id, scopes, client_secret: client_secret.map(Secret::new), ..OAuth2Spec::default() })
}
