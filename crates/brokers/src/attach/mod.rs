//! A broker that runs already: where it is, and how to log in there.

mod management;
mod node;

use std::collections::BTreeSet;

use archive::Topology;
use erlang::ConnectOptions;
use linux::{processes, sockets};
use load::Endpoint;
use measure::Problem;
use stacks::ErlangProcess;

use self::management::ManagementLogin;
use super::{
    Broker, BrokerError, Fault, Identity, Listener, Processes,
    managed::Progress,
    oauth2,
    rabbitmq::control,
    registration::{Registration, Request},
};
use experiment::BrokerKind;
use web::management::ManagementOptions;

pub(super) const REGISTRATION: Registration = Registration {
    start: Some((BrokerKind::Attach, start)),
    ..Registration::NONE
};

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
        node: node::options(spec)?,
        management,
        identity: Identity::default(),
        _renewal: renewal,
    };
    if let Some(options) = &attached.node {
        let step = format!("connecting to the Erlang node {}", options.node);
        progress(Progress::Step(&step));
        node::check(options, request.control)?;
    }
    if let Some(options) = attached.management() {
        progress(Progress::Step("logging in to the management API"));
        management::check(&options, request.control)?;
    }
    Ok(Box::new(attached))
}

/// Looks who listens on the port, where that is on this machine.
fn find_processes(endpoint: &Endpoint, given: Option<u32>) -> Result<Processes, BrokerError> {
    if let Some(pid) = given.filter(|pid| processes::stat(*pid).is_none()) {
        return Err(Problem::new(
            "broker.pid names no process",
            pid,
            "leave it out to find the process by its port",
        )
        .into());
    }
    let addresses = sockets::addresses_here(&endpoint.host, endpoint.port);
    let found = match sockets::listening_on(&addresses).as_slice() {
        [one] => Some(*one),
        // Who of them serves us is seen once we are connected.
        _ => None,
    };
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
    let find = |(host, port): (String, u16)| {
        let addresses = sockets::addresses_here(&host, port);
        match sockets::listening_on(&addresses).as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    };
    others.into_iter().map(find).collect()
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

    fn erlang(&self) -> Result<Option<ConnectOptions>, BrokerError> {
        Ok(self.node.clone())
    }

    fn inject(&mut self, fault: Fault) -> Result<(), BrokerError> {
        match fault {
            Fault::Begin(_) => Ok(()),
            _ => Err(BrokerError::Fault(
                "a broker that bellows did not start cannot be harmed".into(),
            )),
        }
    }

    fn management(&self) -> Option<ManagementOptions> {
        let login = self.management.as_ref()?;
        Some(login.options(&self.endpoint))
    }

    fn has_topology(&self) -> bool {
        self.node.is_some() || self.management.is_some()
    }

    fn topology(&self, cancelled: &dyn Fn() -> bool) -> Result<Topology, BrokerError> {
        match (&self.node, self.management()) {
            (Some(node), _) => control::topology(node.clone(), cancelled),
            (None, Some(options)) => management::topology(&options, cancelled),
            (None, None) => Ok(Topology::default()),
        }
    }

    fn erlang_processes(
        &self,
        _node: usize,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<ErlangProcess>, BrokerError> {
        match &self.node {
            Some(node) => control::ask(node.clone(), control::PROCESSES, cancelled),
            None => Ok(Vec::new()),
        }
    }

    fn logs(&self, _lines: usize) -> String {
        String::new()
    }

    fn stop(self: Box<Self>) -> Result<(), BrokerError> {
        Ok(())
    }
}
