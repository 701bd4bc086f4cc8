//! The node that is looked into, and how it is reached.

use std::ops::Deref;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::{Args, value_parser};
use erlang::{ConnectOptions, Cookie, Error, Helper, Identity, Node, NodeName, RabbitState, TlsOptions};
use measure::{Length, Nanos, Problem, Refused};
use session::Inspection;

use crate::cli::args::given;
use crate::{Failure, output, prompt};

const COOKIE_VARIABLE: &str = "BELLOWS_ERLANG_COOKIE";
/// EPMD's port holds for all Erlang programs, and trusted authorities for all commands: neither was given for one node.
const EPMD_VARIABLE: &str = "ERL_EPMD_PORT";
const CA_VARIABLE: &str = "BELLOWS_CA";
/// Shortest time-out.
const SHORTEST: Length = Length(Nanos::from_millis(10));

#[derive(Clone, Debug, Args)]
pub(super) struct NodeArgs {
    /// The node, as NAME@HOST; or the beginning of the name of one that runs here, such as rabbit
    #[arg(value_name = "NODE")]
    node: WantedNode,
    /// File that holds the node's cookie [default: the variable BELLOWS_ERLANG_COOKIE, ~/.erlang.cookie, or RabbitMQ's]
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    cookie_file: Option<PathBuf>,
    /// Host to connect to, instead of the one in the node's name
    #[arg(long, value_name = "HOST", requires = "port", help_heading = "Connection")]
    host: Option<String>,
    /// The node's distribution port, without asking EPMD
    #[arg(long, value_name = "PORT", value_parser = value_parser!(u16).range(1..), help_heading = "Connection")]
    port: Option<u16>,
    /// Port of EPMD, which knows the node's [default: 4369]
    #[arg(long, value_name = "PORT", env = EPMD_VARIABLE, value_parser = value_parser!(u16).range(1..),
          help_heading = "Connection")]
    epmd_port: Option<u16>,
    /// Longest wait for the connection, and for an answer, in seconds (or 500ms)
    #[arg(long, value_name = "DURATION", default_value = "10", help_heading = "Connection")]
    timeout: Length,
    /// The node's distribution uses TLS (-proto_dist inet_tls)
    #[arg(long, help_heading = "Connection")]
    tls: bool,
    /// PEM file with the authorities to trust, instead of the machine's
    #[arg(long, value_name = "FILE", env = CA_VARIABLE, help_heading = "Connection")]
    ca: Option<PathBuf>,
    /// PEM file with the client's certificate
    #[arg(long, value_name = "FILE", requires_all = ["key", "tls"], help_heading = "Connection")]
    cert: Option<PathBuf>,
    /// PEM file with the key of --cert
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Connection")]
    key: Option<PathBuf>,
    /// Name that the node's certificate is for, instead of the host in its name
    #[arg(long, value_name = "NAME", requires = "tls", help_heading = "Connection")]
    sni: Option<String>,
    /// Accept any certificate
    #[arg(long, requires = "tls", help_heading = "Connection")]
    insecure: bool,
}

impl NodeArgs {
    /// Connects to the node for a command, such as `erlang top`.
    pub(super) fn connect(&self, command: &str) -> Result<NodeLookedInto, Failure> {
        let options = self.options()?;
        Ok(NodeLookedInto { node: Node::connect(&options)?, _look: look(&options, command) })
    }

    /// Connects to the node for a command, and waits where RabbitMQ is still starting there.
    pub(super) fn connect_started(&self, command: &str) -> Result<NodeLookedInto, Failure> {
        let options = self.options()?;
        Ok(NodeLookedInto { node: started(&options)?, _look: look(&options, command) })
    }

    /// The options of the connection; asks for the cookie where none is found.
    pub(super) fn options(&self) -> Result<ConnectOptions, Failure> {
        if self.timeout < SHORTEST {
            let cause = format!("--timeout {} is too short", self.timeout);
            return Err(Failure::usage(cause, format!("give at least {SHORTEST}")));
        }
        match &self.node {
            // A run says its node's whole name; no EPMD knows it.
            WantedNode::Named(name) if self.is_started(name) => self.started(name.as_str()),
            WantedNode::Named(name) => self.named(name),
            WantedNode::Begins(text) => match self.found_here(text)? {
                None => self.started(text),
                Some(name) => self.named(&name),
            },
        }
    }

    /// A node that bellows did not start.
    fn named(&self, name: &NodeName) -> Result<ConnectOptions, Failure> {
        let identity = self.cert.clone().zip(self.key.clone());
        let tls = TlsOptions {
            ca: self.ca.clone(),
            identity: identity.map(|(certificate, key)| Identity { certificate, key }),
            server_name: self.sni.clone(),
            insecure: self.insecure,
            ..TlsOptions::default()
        };
        let (cookie, other_cookies) = self.cookies(name)?;
        let host = self.host.as_deref().unwrap_or_else(|| name.host());
        Ok(ConnectOptions {
            node: name.clone(),
            cookie,
            other_cookies,
            address: self.port.map(|port| (host.to_owned(), port)),
            epmd_port: self.epmd_port.unwrap_or(ConnectOptions::EPMD_PORT),
            tls: self.tls.then_some(tls),
            timeout: self.timeout.0.into(),
        })
    }

    /// Whether a bellows of this user has started the node here, and no option gives another way to reach it.
    fn is_started(&self, name: &NodeName) -> bool {
        let started = brokers::rabbitmq::started_nodes();
        started.iter().any(|it| it.node == *name) && self.refuse_what_is_known("").is_ok()
    }

    /// The only node of this machine with such a name, where no bellows of this user has started one.
    fn found_here(&self, beginning: &str) -> Result<Option<NodeName>, Failure> {
        let mut started = brokers::rabbitmq::started_nodes().into_iter();
        if started.any(|it| it.node.as_str().starts_with(beginning)) {
            return Ok(None);
        }
        match session::nodes_called(beginning).as_slice() {
            [] => Ok(None),
            // A name that was typed by hand may be none.
            [name] => Ok(name.parse().ok()),
            several => {
                let cause = format!("several nodes' names begin with {beginning}");
                let all = format!("there are {}", several.join(", "));
                Err(Failure::usage(cause, "write more of the name").observed(all))
            }
        }
    }

    /// The only node with such a name that a bellows of this user has started here.
    fn started(&self, beginning: &str) -> Result<ConnectOptions, Failure> {
        self.refuse_what_is_known(beginning)?;
        let started = brokers::rabbitmq::started_nodes();
        let names: Vec<&str> = started.iter().map(|it| it.node.as_str()).collect();
        let all = match names.as_slice() {
            [] => String::new(),
            [name] => format!("there is {name}"),
            names => format!("there are {}", names.join(", ")),
        };
        let mut fitting = started.iter().filter(|it| it.node.as_str().starts_with(beginning));
        match (fitting.next(), fitting.next()) {
            (Some(node), None) => Ok(ConnectOptions { timeout: self.timeout.0.into(), ..node.clone() }),
            (None, _) => {
                let cause = format!("this user sees no node here whose name begins with {beginning}");
                let help = format!(
                    "write its whole name, such as {beginning}@localhost: nodes of other users and on other machines \
                     are not seen"
                );
                Err(Failure::usage(cause, help).observed(all))
            }
            (Some(_), Some(_)) => {
                let cause = format!("several nodes' names begin with {beginning}");
                Err(Failure::usage(cause, "write more of the name").observed(all))
            }
        }
    }

    /// Refuses options for reaching a node that bellows started: it knows the way, and they have no effect.
    fn refuse_what_is_known(&self, beginning: &str) -> Result<(), Failure> {
        let epmd_port = self.epmd_port.map(|it| it.to_string());
        let mut given = given([
            ("--port", self.port.is_some()),
            ("--cookie-file", self.cookie_file.is_some()),
            ("--tls", self.tls),
            ("--ca", self.ca.is_some() && !is_of_variable(self.ca.as_deref(), CA_VARIABLE)),
            ("--epmd-port", epmd_port.is_some() && !is_of_variable(epmd_port, EPMD_VARIABLE)),
        ]);
        given.next().map_or(Ok(()), |option| {
            let cause = format!("{option} has no effect on a node that bellows started");
            let help = format!(
                "leave it out: bellows knows how its own nodes are reached; another node is written NAME@HOST, such \
                 as {beginning}@localhost"
            );
            Err(Failure::usage(cause, help).observed(beginning))
        })
    }

    /// The cookie to try first, and other candidates.
    fn cookies(&self, node: &NodeName) -> Result<(Cookie, Vec<Cookie>), Failure> {
        if let Some(path) = &self.cookie_file {
            return Ok((Cookie::read(path)?, Vec::new()));
        }
        let refused = |refused: Refused| Problem::new(refused.what, "", refused.help);
        if let Some(text) = std::env::var(COOKIE_VARIABLE).ok().filter(|it| !it.is_empty()) {
            let cookie = Cookie::new(&text).map_err(refused)?;
            return Ok((cookie.found_in(COOKIE_VARIABLE), Vec::new()));
        }
        Cookie::find().or_else(|missing| match prompt::secret(&format!("cookie of {node}: "), Some(&missing))? {
            Some(typed) => Ok((Cookie::new(&typed).map_err(refused)?, Vec::new())),
            None => Err(missing.into()),
        })
    }
}

/// Whether an option's value comes from a variable of the environment, and not from the command line.
fn is_of_variable(value: Option<impl AsRef<std::ffi::OsStr>>, variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|it| value.is_some_and(|value| value.as_ref() == it))
}

/// Leaves word for the run that loads the node, where a bellows of this user has started it: the look costs it CPU.
pub(super) fn look(options: &ConnectOptions, command: &str) -> Inspection {
    Inspection::at_node(options.node.as_str(), &format!("bellows {command}"))
}

/// A node that a command looks into until this is dropped.
#[derive(Debug)]
pub(super) struct NodeLookedInto {
    node: Node,
    _look: Inspection,
}

impl Deref for NodeLookedInto {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

/// Connects to a node, and waits where RabbitMQ is still starting there, no longer than for an answer.
pub(super) fn started(options: &ConnectOptions) -> Result<Node, Failure> {
    let node = Node::connect(options)?;
    let (name, longest) = (node.name(), options.timeout);
    RabbitState::settled(&node, longest, || {
        output::line_aside(&format!("RabbitMQ on {name} is still starting: waiting for it, {longest:?} at most"));
    })?;
    Ok(node)
}

#[derive(Clone, Debug)]
enum WantedNode {
    Named(NodeName),
    /// The beginning of the name of one that bellows has started.
    Begins(String),
}

impl FromStr for WantedNode {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        match !text.is_empty() && text.chars().all(is_part) {
            true => Ok(Self::Begins(text.to_owned())),
            false => text.parse().map(Self::Named),
        }
    }
}

/// A measurement; where its node went away, what was measured before, if anything was, and the failure that follows it.
pub(super) fn measured<T>(result: Result<T, Error>, so_far: Option<T>) -> Result<(T, Option<Failure>), Failure> {
    match (result, so_far) {
        (Ok(whole), _) => Ok((whole, None)),
        (Err(error), Some(part)) => Ok((part, Some(Failure::from(error).already_printed()))),
        (Err(error), None) => Err(error.into()),
    }
}

/// As [`leave`], after `done`, whose failure is told before the clean-up takes long, and rather than that of it.
pub(super) fn left<T>(helper: Helper, done: Result<T, Failure>) -> Result<T, Failure> {
    let closed = leave_after(helper, done.as_ref().err().and_then(Failure::sentence));
    let done = done?;
    closed?;
    Ok(done)
}

/// Longest clean-up without a message.
const SILENT: Duration = Duration::from_secs(2);

/// Removes the loaded modules; reports where the node takes long, since it asks each of its processes.
pub(super) fn leave(helper: Helper) -> Result<(), Error> {
    leave_after(helper, None)
}

fn leave_after(helper: Helper, failure: Option<String>) -> Result<(), Error> {
    let (left, leaving) = mpsc::channel::<()>();
    let tell = move || {
        if leaving.recv_timeout(SILENT) == Err(RecvTimeoutError::Timeout) {
            if let Some(failure) = &failure {
                output::line_aside(failure);
            }
            output::line_aside("takes bellows' modules away again; a busy node needs its time for that");
        }
    };
    // Without a thread nothing is said, and all else works.
    let teller = thread::Builder::new().name("leave".into()).spawn(tell);
    let closed = helper.close();
    drop(left);
    if let Ok(teller) = teller {
        let _ = teller.join();
    }
    closed
}
