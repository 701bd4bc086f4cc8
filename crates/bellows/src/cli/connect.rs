//! Options on which broker is used and who logs in, for commands that use a running one.

use std::net::IpAddr;

use clap::Args;
use experiment::{BrokerKind, BrokerSpec};
use web::Secret;

use super::command_line::Url;
use super::security::SecurityArgs;
use crate::Failure;

/// The broker where nobody says which.
pub(super) const DEFAULT_URL: &str = "amqp://localhost:5672";

#[derive(Clone, Debug, Args)]
pub(super) struct LoginArgs {
    /// The broker: amqp://USER@HOST:PORT/VHOST, or amqps:// for TLS; amqp10:// and amqps10:// mean AMQP 1.0
    #[arg(long, env = "BELLOWS_URL", hide_env_values = true, default_value = DEFAULT_URL)]
    pub(super) url: Url,
    /// User, instead of the URL's
    #[arg(long, env = "BELLOWS_USER")]
    pub(super) user: Option<String>,
    /// Password, instead of the URL's; better set as BELLOWS_PASSWORD than on a command line
    #[arg(long, env = "BELLOWS_PASSWORD", hide_env_values = true, allow_hyphen_values = true)]
    password: Option<Secret>,
}

#[derive(Clone, Debug, Args)]
pub(super) struct ConnectArgs {
    #[command(flatten)]
    pub(super) login: LoginArgs,
    /// The broker's process, if its port does not lead to it
    #[arg(long)]
    pid: Option<u32>,
    /// RabbitMQ's Erlang node, NAME@HOST, to ask for its queues, bindings and processes
    #[arg(long, value_name = "NODE")]
    node: Option<erlang::NodeName>,
    /// That node's distribution port, without asking EPMD
    #[arg(long, value_name = "PORT", requires = "node", value_parser = clap::value_parser!(u16).range(1..))]
    node_port: Option<u16>,
    /// File with that node's cookie [default: the variable BELLOWS_ERLANG_COOKIE, ~/.erlang.cookie, or RabbitMQ's]
    #[arg(long, value_name = "FILE", requires = "node")]
    cookie_file: Option<std::path::PathBuf>,
    /// RabbitMQ's management API, http://HOST:15672, to ask for its queues and bindings
    #[arg(long, value_name = "URL")]
    management: Option<Url>,
    /// User of that API, with the tag monitoring [default: the broker's user and password]; the password is in
    /// BELLOWS_MANAGEMENT_PASSWORD, else in BELLOWS_PASSWORD
    #[arg(long, value_name = "USER", requires = "management")]
    management_user: Option<String>,
    /// Local addresses to connect from, in turn; each has about 28,000 ports
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
    pub(super) source_addresses: Vec<IpAddr>,
    #[command(flatten)]
    security: SecurityArgs,
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
