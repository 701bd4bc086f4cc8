//! Runs a plan: prepares the broker, assigns the clients to event loops, and cleans up.
//!
//! It goes from `assignment` (`spec`, `routes`, `recipients`, `ledger_layout`) to `coordinator` (`drain`, `restorer`),
//! which has `worker`s (one event loop each) of `client`s of `producer`s and `consumer`s with their `ledger`. Event
//! loops and coordinator know of each other in `shared` while a load runs; everything else travels as a `Report`.

mod assignment;
mod client;
mod consumer;
mod context;
mod coordinator;
pub(crate) mod idle;
mod ledger;
mod ledger_layout;
mod producer;
mod recipients;
mod routes;
pub(crate) mod series;
mod service;
mod shared;
pub(crate) mod silence;
mod spec;
mod unique_properties;
mod worker;

use std::borrow::Cow;

use measure::{Nanos, counted};

use self::assignment::{Assignment, assign};
use self::coordinator::Coordinator;
use self::spec::Cluster;
use crate::control::{FINISHING, Interruption};
use crate::protocol::amqp091::permitted;
use crate::protocol::{Admin, Connection, Made, connect_options, too_many_clients};
use crate::resolve::{Node, Nodes};
use crate::{
    Control, Destination, DestinationKind, Environment, Error, Group, Outcome, Plan, RunEvent, SliceSink, StartBarrier,
};

/// Message where the load cannot begin after its queues were emptied.
const EMPTIED: &str = "the queues were emptied before the clients connected: in AMQP a subscription immediately \
                       delivers what its queue holds, so the queue must be empty before";

pub(crate) fn validate<C: Connection>(plan: &Plan) -> Result<(), Error> {
    plan.validate()?;
    plan.groups.iter().enumerate().try_for_each(|(i, group)| C::validate(group).map_err(|error| error.in_group(i)))
}

pub(crate) fn run<C: Connection, E: Environment>(
    environment: &E,
    plan: &Plan,
    together: &StartBarrier,
    control: &Control,
    sink: &mut dyn SliceSink,
) -> Result<Outcome, Error> {
    validate::<C>(plan)?;
    if let Some(share) = plan.share.filter(|_| plan.is_idle()) {
        sink.event(RunEvent::Note(format!(
            "worker {} of {} has nothing to do: the load divides into {}",
            share.worker + 1,
            share.workers,
            counted(plan.parts() as u64, "part")
        )));
    }
    let mut prepared = vec![Prepared::default(); plan.groups.len()];
    let mut plan = Cow::Borrowed(plan);
    let assigned = loop {
        let assigned = set_up::<C, E>(environment, &plan, control, sink, &mut prepared);
        match refused(&assigned).and_then(|error| permitted(&plan, error)) {
            Some((other, event)) => {
                sink.event(event);
                plan = Cow::Owned(other);
            }
            None => break assigned,
        }
    };
    let plan = &*plan;
    let outcome = match assigned {
        Ok(assignment) => {
            let started = Coordinator::<C, E>::start(environment, plan, together, control, sink, assignment);
            let outcome = started.and_then(|mut coordinator| coordinator.supervise());
            if outcome.is_err() && plan.groups.iter().any(|group| group.queues.purge) {
                sink.event(RunEvent::Note(EMPTIED.to_owned()));
            }
            outcome
        }
        Err(Interruption::Failed(error)) => Err(error),
        Err(Interruption::Stopped) => Ok(Outcome::never_started_at(environment.now())),
    };
    // A broker that could not be reached, or says nothing, has nothing to clean up but what was made there.
    let reached = !matches!(outcome, Err(Error::Connect { .. } | Error::TimedOut { .. }));
    let took_place = outcome.as_ref().is_ok_and(|it| !it.phases.is_empty());
    for (group, prepared) in plan.groups.iter().zip(prepared) {
        let (mut left, timeout) = match reached {
            true => (left_over(group, prepared, took_place), plan.timeout),
            false => (prepared.made, plan.timeout.min(FINISHING)),
        };
        // An exchange is deleted when nothing is bound to it.
        left.sort_by_key(|it| matches!(it, Made::Exchange(_)));
        if !left.is_empty() {
            clean_up::<C, E>(environment, group, &left, timeout, control, sink);
        }
    }
    outcome
}

fn refused<T>(result: &Result<T, Interruption>) -> Option<&Error> {
    match result {
        Err(Interruption::Failed(error)) => Some(error),
        _ => None,
    }
}

/// How far the preparation of a group came.
#[derive(Clone, Debug, Default)]
struct Prepared {
    /// It has begun: the broker may have the group's subscriptions.
    is_begun: bool,
    /// Resources that were made for it.
    made: Vec<Made>,
}

/// Resources of a group to delete: subscriptions once they may be there, whose queues would gather messages for ever;
/// its own queues where the load took place, else those that were made for it; exchanges that were made for it.
fn left_over(group: &Group, prepared: Prepared, took_place: bool) -> Vec<Made> {
    let is_own = |it: &&Destination| it.kind == DestinationKind::Queue && !it.exclusive;
    let mut left = prepared.made;
    if group.queues.delete && took_place {
        left.retain(|it| matches!(it, Made::Exchange(_)));
        let own = group.consumed_destinations().map(|(_, it)| it).filter(is_own);
        left.extend(own.map(|it| Made::Queue(it.name.clone())));
    }
    if prepared.is_begun {
        left.extend(group.subscription_queues().map(|(queue, _)| Made::Queue(queue)));
    }
    left
}

/// Prepares the broker and assigns the clients. Queues are emptied last, when nothing else can be refused.
fn set_up<C: Connection, E: Environment>(
    environment: &E,
    plan: &Plan,
    control: &Control,
    sink: &mut dyn SliceSink,
    prepared: &mut [Prepared],
) -> Result<Assignment<C::ClientSpec>, Interruption> {
    let (nodes, clusters) = prepare::<C, E>(environment, plan, control, sink, prepared)?;
    let assignment = assign::<C>(plan, &nodes, &clusters, environment.wall_offset())?;
    for client in assignment.threads.iter().flatten() {
        let count = client.connection.clients.len();
        if let Some(node) = client.nodes.iter().find(|it| count > it.most_clients) {
            return Err(too_many_clients(&node.endpoint, count, node.most_clients).into());
        }
    }
    for group in plan.groups.iter().filter(|group| group.queues.purge) {
        let options = connect_options(&group.endpoint, &group.source_addresses)?;
        let mut admin = <C::Admin<'_, E>>::connect(environment, &group.endpoint, options, plan.timeout, control)?;
        admin.purge(group)?;
        admin.close()?;
    }
    Ok(assignment)
}

/// Connects to every endpoint once and prepares what the groups need there; `prepared` says how far each group came.
fn prepare<C: Connection, E: Environment>(
    environment: &E,
    plan: &Plan,
    control: &Control,
    sink: &mut dyn SliceSink,
    prepared: &mut [Prepared],
) -> Result<(Vec<Nodes>, Vec<Cluster>), Interruption> {
    let mut all = Vec::with_capacity(plan.groups.len());
    let mut clusters = Vec::with_capacity(plan.groups.len());
    for (at, (group, prepared)) in plan.groups.iter().zip(prepared).enumerate() {
        let mut nodes = Vec::with_capacity(1 + group.further.len());
        for endpoint in std::iter::once(&group.endpoint).chain(&group.further) {
            let options = connect_options(endpoint, &group.source_addresses)?;
            let tls = options.tls.clone();
            let mut admin = <C::Admin<'_, E>>::connect(environment, endpoint, options, plan.timeout, control)?;
            let server = admin.server().clone();
            sink.event(server.connected(endpoint));
            if nodes.is_empty() {
                prepared.is_begun = true;
                admin.prepare(group, &mut prepared.made).map_err(|it| it.in_group(at))?;
                if let Some(doubt) = admin.doubt() {
                    sink.event(RunEvent::Note(doubt.to_owned()));
                }
                clusters.push(Cluster::new(endpoint, server.address, server.cluster));
            }
            admin.close()?;
            nodes.push(Node {
                endpoint: endpoint.clone(),
                addresses: server.addresses,
                tls,
                most_clients: server.most_clients,
            });
        }
        all.push(nodes.into());
    }
    Ok((all, clusters))
}

/// Deletes what a group leaves, for a second at most where the load was stopped. What fails here is only told.
fn clean_up<C: Connection, E: Environment>(
    environment: &E,
    group: &Group,
    left: &[Made],
    timeout: Nanos,
    control: &Control,
    sink: &mut dyn SliceSink,
) {
    if control.is_stopping() {
        sink.event(RunEvent::Waiting {
            for_what: "the broker to delete what was declared".to_owned(),
            at_most: FINISHING,
        });
    }
    let control = control.finishing(environment.now());
    let mut left = left;
    let mut delete = || -> Result<(), Interruption> {
        let options = connect_options(&group.endpoint, &group.source_addresses)?;
        let mut admin = <C::Admin<'_, E>>::connect(environment, &group.endpoint, options, timeout, &control)?;
        while let Some((first, rest)) = left.split_first() {
            admin.delete(first)?;
            left = rest;
        }
        admin.close()
    };
    let why = match delete() {
        Ok(()) => return,
        Err(Interruption::Failed(error)) => error.to_string(),
        Err(Interruption::Stopped) => "the run ended before the broker answered".to_owned(),
    };
    if let Some((first, rest)) = left.split_first() {
        let others = match rest.len() {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            others => format!(" and {others} others"),
        };
        sink.event(RunEvent::Note(format!("{first}{others} may be left behind: {why}")));
    }
}
