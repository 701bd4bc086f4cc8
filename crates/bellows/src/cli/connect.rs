//! Options on which broker is used and who logs in, for commands that use a running one.

use std::net::IpAddr;

use clap::Args;
use session::experiment::{BrokerKind, BrokerSpec, Hidden};

use super::command_line::Url;
use super::security::SecurityArgs;
use crate::failure::Failure;

/// Where the broker is, and who logs in.
#[derive(Debug, Args)]
pub(super) struct ConnectArgs {
    /// The broker: amqp://USER@HOST:PORT/VHOST, or amqps:// for TLS
    #[arg(
        long,
        env = "BELLOWS_URL",
        hide_env_values = true,
        default_value = "amqp://localhost:5672"
    )]
    url: Url,
    /// User, in place of the URL's
    #[arg(long, env = "BELLOWS_USER")]
    user: Option<String>,
    /// Password, in place of the URL's; better given as BELLOWS_PASSWORD than on a command line
    #[arg(
        long,
        env = "BELLOWS_PASSWORD",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    password: Option<Hidden>,
    /// The broker's process, where its port does not lead to it
    #[arg(long)]
    pid: Option<u32>,
    /// Addresses of this machine that connections come from, in turn: each has some 28,000 ports
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
    pub(super) source_addresses: Vec<IpAddr>,
    #[command(flatten)]
    security: SecurityArgs,
}

impl ConnectArgs {
    /// The running broker that is meant.
    pub(super) fn spec(self) -> Result<BrokerSpec, Failure> {
        self.security.fill(BrokerSpec {
            kind: BrokerKind::Attach,
            url: Some(self.url.0),
            user: self.user,
            password: self.password.map(|password| password.expose().to_owned()),
            pid: self.pid,
            ..BrokerSpec::default()
        })
    }
}
