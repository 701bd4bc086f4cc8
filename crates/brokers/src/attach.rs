//! A broker that runs already: where it is, and how to log in there.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use archive::Topology;
use erlang::{ConnectOptions, Cookie, Error as NodeError, Node, NodeName};
use experiment::{BrokerKind, BrokerSpec};
use linux::{processes, sockets};
use load::Endpoint;
use measure::{Problem, Refused};
use stacks::ErlangProcess;
use web::Secret;
use web::management::{LoginRemedy, Management, ManagementOptions, TIMEOUT};

use super::answer::{NoAnswer, wait_for};
use super::broker::{Registration, Request};
use super::managed::Progress;
use super::rabbitmq::control;
use super::{Broker, BrokerError, Fault, Identity, Listener, Processes, RabbitMqNodes, oauth2};

pub(super) const REGISTRATION: Registration =
    Registration { start: Some((BrokerKind::Attach, start)), ..Registration::NONE };

fn start(request: Request<'_>) -> Result<Box<dyn Broker>, BrokerError> {
    let spec = &request.experiment.broker;
    let progress = request.progress;
    if spec.oauth2.is_some() {
        progress(Progress::Step("requesting an access token"));
    }
    let mut endpoint = request.experiment.endpoint()?;
    let renewal = oauth2::log_in(spec, &mut endpoint, request.control)?;
    let management = ManagementLogin::new(spec, &endpoint)?;
    let attached = Attached {
        processes: Processes {
            further: find_further(&request.experiment.loaded_endpoints()?, &endpoint),
            ..find_processes(&endpoint, spec.pid)?
        },
        endpoint,
        node: node_options(spec)?,
        management,
        identity: Identity::default(),
        _renewal: renewal,
    };
    if let Some(options) = &attached.node {
        progress(Progress::Step(&format!("connecting to the Erlang node {}", options.node)));
        check_node(options, request.control)?;
    }
    if let Some(options) = attached.management() {
        progress(Progress::Step("logging in to the management API"));
        check_management(&options, request.control)?;
    }
    Ok(Box::new(attached))
}

/// Looks who listens on the port, where that is on this machine.
fn find_processes(endpoint: &Endpoint, given: Option<u32>) -> Result<Processes, BrokerError> {
    if let Some(pid) = given.filter(|pid| processes::stat(*pid).is_none()) {
        return Err(
            Problem::new("broker.pid is not a process", pid, "leave it out to find the process by its port").into()
        );
    }
    let (found, addresses) = listener(&endpoint.host, endpoint.port);
    let main = given.or(found);
    Ok(Processes {
        main,
        further: Vec::new(),
        on_this_machine: !addresses.is_empty() || main.is_some(),
        listener: Listener { found, given },
    })
}

/// The processes of all other endpoints, one entry for each of them.
fn find_further(loaded: &[Endpoint], first: &Endpoint) -> Vec<Option<u32>> {
    let address = |endpoint: &Endpoint| (endpoint.host.clone(), endpoint.port);
    let others = loaded.iter().map(address);
    let others: BTreeSet<(String, u16)> = others.filter(|it| *it != address(first)).collect();
    others.into_iter().map(|(host, port)| listener(&host, port).0).collect()
}

/// The only process that listens there, and the machine's addresses. Which of several serves us, a connection shows.
fn listener(host: &str, port: u16) -> (Option<u32>, Vec<SocketAddr>) {
    let addresses = sockets::addresses_here(host, port);
    let found = match sockets::listening_on(&addresses).as_slice() {
        [one] => Some(*one),
        _ => None,
    };
    (found, addresses)
}

/// A running broker. Dropping it ends the renewal of its access token.
#[derive(Debug)]
struct Attached {
    endpoint: Endpoint,
    identity: Identity,
    processes: Processes,
    /// How its Erlang node is reached, where one is named.
    node: Option<ConnectOptions>,
    /// Its management API, where that is named.
    management: Option<ManagementLogin>,
    _renewal: Option<oauth2::Renewal>,
}

impl Broker for Attached {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn processes(&self) -> Processes {
        self.processes.clone()
    }

    fn inject(&mut self, _node: usize, fault: Fault) -> Result<(), BrokerError> {
        match fault {
            Fault::Begin(_) => Ok(()),
            _ => Err(BrokerError::Fault("only a broker that bellows started can have faults".into())),
        }
    }
}

impl RabbitMqNodes for Attached {
    fn management(&self) -> Option<ManagementOptions> {
        Some(self.management.as_ref()?.options(&self.endpoint))
    }

    fn erlang(&self) -> Result<Option<ConnectOptions>, BrokerError> {
        Ok(self.node.clone())
    }

    fn has_topology(&self) -> bool {
        self.node.is_some() || self.management.is_some()
    }

    fn topology(&self, cancelled: &dyn Fn() -> bool) -> Result<Topology, BrokerError> {
        match (&self.node, self.management()) {
            (Some(node), _) => control::topology(node.clone(), cancelled),
            (None, Some(options)) => management_topology(&options, cancelled),
            (None, None) => Ok(Topology::default()),
        }
    }

    fn erlang_processes(&self, _node: usize, cancelled: &dyn Fn() -> bool) -> Result<Vec<ErlangProcess>, BrokerError> {
        match &self.node {
            Some(node) => control::ask(node.clone(), control::PROCESSES, cancelled),
            None => Ok(Vec::new()),
        }
    }
}

/// Holds the password of the user of the management API alone.
const OWN_PASSWORD: &str = "BELLOWS_MANAGEMENT_PASSWORD";
/// Holds it where the first is not set; on a command line this may be that of the broker's user.
const PASSWORD: &str = "BELLOWS_PASSWORD";
const REMEDY: LoginRemedy = LoginRemedy {
    login: "set broker.management-user (--management-user), and its password in BELLOWS_MANAGEMENT_PASSWORD",
    tag: "monitoring",
};
/// The longest that the management API or the node may take to let us in.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the management API is, and who logs in there.
#[derive(Debug)]
struct ManagementLogin {
    /// All but the login.
    options: ManagementOptions,
    /// User and password where they are its own; `None`: the broker's, whose password may be a renewed token.
    own: Option<(String, Secret)>,
}

impl ManagementLogin {
    /// As the experiment says it; `None` where it names no API. Errors: there is no password for its user.
    fn new(spec: &BrokerSpec, endpoint: &Endpoint) -> Result<Option<Self>, Problem> {
        let Some(url) = &spec.management else { return Ok(None) };
        let user = spec.management_user.as_ref().unwrap_or(&endpoint.user);
        let is_brokers = *user == endpoint.user;
        let own = match set_variable(OWN_PASSWORD) {
            // A token is of the broker's user, and no password takes its place.
            Some(_) if is_brokers && spec.oauth2.is_some() => None,
            Some(password) => Some((user.clone(), password)),
            None if is_brokers => None,
            None => Some((user.clone(), password(user)?)),
        };
        Ok(Some(Self {
            options: ManagementOptions {
                url: url.clone(),
                user: String::new(),
                password: Secret::new(""),
                ca: spec.ca.clone(),
                insecure: spec.insecure,
                remedy: REMEDY,
                timeout: TIMEOUT,
                busy: "the node is busy: try again later",
            },
            own,
        }))
    }

    /// The API with the login as it is now.
    fn options(&self, endpoint: &Endpoint) -> ManagementOptions {
        let of_broker = || (endpoint.user.clone(), Secret::new(endpoint.password()));
        let (user, password) = self.own.clone().unwrap_or_else(of_broker);
        ManagementOptions { user, password, ..self.options.clone() }
    }
}

fn set_variable(variable: &str) -> Option<Secret> {
    std::env::var(variable).ok().filter(|it| !it.is_empty()).map(Secret::new)
}

/// The password of a user who is not the broker's, where there is none for the API alone.
fn password(user: &str) -> Result<Secret, Problem> {
    match set_variable(PASSWORD) {
        Some(password) => Ok(password),
        None if user == "guest" => Ok(Secret::new("guest")),
        None => {
            let cause = "there is no password for the user of the management API";
            Err(Problem::new(cause, user, format!("set {OWN_PASSWORD} or {PASSWORD}")))
        }
    }
}

/// Logs in once, so that a wrong password is known before the load and not after it.
fn check_management(options: &ManagementOptions, control: &load::Control) -> Result<(), BrokerError> {
    let api = Management::new(options)?;
    let deadline = Instant::now() + CHECK_TIMEOUT;
    let cancelled = || control.is_stopping();
    let why = match wait_for(CHECK_TIMEOUT, &cancelled, move || api.check(deadline)) {
        Ok(Err(error)) if error.timed_out => NoAnswer::TimedOut,
        Ok(checked) => return Ok(checked.map_err(|it| it.problem)?),
        Err(why) => why,
    };
    let why = match why {
        NoAnswer::Cancelled => return Err(BrokerError::Cancelled),
        NoAnswer::TimedOut => format!("no answer within {} s", CHECK_TIMEOUT.as_secs()),
        NoAnswer::Failed(why) => why,
    };
    let url = web::redact::url(&options.url);
    let cause = format!("cannot log in to the management API at {url}");
    let help = "check host and port, and whether the broker is too busy; or leave out broker.management";
    Err(Problem::new(cause, why, help).into())
}

/// Queues, exchanges and bindings.
/// Errors: [`BrokerError::Control`], also where the API does not answer within 20 s, or before `cancelled`.
fn management_topology(options: &ManagementOptions, cancelled: &dyn Fn() -> bool) -> Result<Topology, BrokerError> {
    let deadline = Instant::now() + control::TIMEOUT;
    let why = match Management::new(options) {
        Err(error) => NoAnswer::Failed(error.to_string()),
        Ok(api) => match wait_for(control::TIMEOUT, cancelled, move || api.topology(deadline)) {
            Ok(Ok(topology)) => return Ok(topology),
            Ok(Err(error)) if error.timed_out => NoAnswer::TimedOut,
            Ok(Err(error)) => NoAnswer::Failed(error.problem.sentence()),
            Err(why) => why,
        },
    };
    Err(BrokerError::unanswered(control::OBJECTS, control::TIMEOUT, &why))
}

/// Holds the cookie of the broker's Erlang node.
const COOKIE_VARIABLE: &str = "BELLOWS_ERLANG_COOKIE";

/// How the broker's Erlang node is reached, where one is named. Errors: there is no cookie, or none that can be read.
fn node_options(spec: &BrokerSpec) -> Result<Option<ConnectOptions>, BrokerError> {
    let Some(name) = &spec.node else { return Ok(None) };
    let refused = |refused: Refused| Problem::new(refused.what, "", refused.help);
    let name: NodeName = name.parse().map_err(refused)?;
    let set = std::env::var(COOKIE_VARIABLE).ok();
    let (cookie, others) = match (&spec.cookie_file, set.filter(|it| !it.is_empty())) {
        (Some(path), _) => (Cookie::read(path)?, Vec::new()),
        (None, Some(text)) => {
            let cookie = Cookie::new(&text).map_err(refused)?;
            (cookie.found_in(COOKIE_VARIABLE), Vec::new())
        }
        (None, None) => Cookie::find().map_err(|missing| Problem { help: COOKIE_HELP.to_owned(), ..missing })?,
    };
    let host = name.host().to_owned();
    let mut options = ConnectOptions::new(name, cookie);
    options.other_cookies = others;
    options.address = spec.node_port.map(|port| (host, port));
    options.timeout = control::TIMEOUT;
    Ok(Some(options))
}

const COOKIE_HELP: &str = "name the file with the node's cookie by broker.cookie-file (--cookie-file), or set \
                           BELLOWS_ERLANG_COOKIE";

/// Connects once, so that a wrong cookie or name is known before the load and not after it.
fn check_node(options: &ConnectOptions, control: &load::Control) -> Result<(), BrokerError> {
    let name = options.node.clone();
    let mut options = options.clone();
    options.timeout = CHECK_TIMEOUT;
    let cancelled = || control.is_stopping();
    // Finding it, connecting and the first call have a time-out each.
    let longest = CHECK_TIMEOUT * 3;
    let why = match wait_for(longest, &cancelled, move || Node::connect(&options).map(drop)) {
        Ok(connected) => return connected.map_err(|error| problem(&error).into()),
        Err(NoAnswer::Cancelled) => return Err(BrokerError::Cancelled),
        Err(NoAnswer::TimedOut) => format!("no answer within {} s", longest.as_secs()),
        Err(NoAnswer::Failed(why)) => why,
    };
    Err(Problem::new(format!("cannot connect to {name}"), why, SILENT_HELP).into())
}

const SILENT_HELP: &str = "check whether the node is overloaded or hangs; or leave out broker.node (--node)";

/// The problem with the remedy by keys and options of a run.
fn problem(error: &NodeError) -> Problem {
    let help = match error {
        NodeError::Cookie { .. } => COOKIE_HELP,
        NodeError::Unreachable(_) => {
            "check that the node runs, and its name (broker.node, --node); give its distribution port by \
             broker.node-port (--node-port) where EPMD does not know it"
        }
        NodeError::Resolve(_) => {
            "check the part after the @ of broker.node (--node), or give it an address in /etc/hosts"
        }
        NodeError::Handshake(_) => {
            "check that broker.node-port (--node-port) is the node's distribution port; nodes that ask for TLS there \
             are not asked in runs: leave out broker.node (--node), and name broker.management"
        }
        NodeError::Timeout { .. } | NodeError::Silent(_) => SILENT_HELP,
        _ => return error.problem(),
    };
    Problem { help: help.to_owned(), ..error.problem() }
}
