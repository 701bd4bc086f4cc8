//! Runs a plan: prepares the broker, assigns the clients to event loops, and cleans up.
//!
//! ```text
//! run -> assignment (spec, routes, recipients, ledger_layout)
//!     -> coordinator (drain, stop, ledger_collector)
//!          -> worker (one event loop) -> client -> producer, consumer -> ledger
//! ```
//! What event loops and coordinator know of each other while a load runs is in `shared`; everything else
//! travels as a `report`.

mod assignment;
mod client;
mod consumer;
mod context;
mod coordinator;
pub(crate) mod idle;
mod ledger;
mod ledger_collector;
mod ledger_layout;
mod producer;
mod recipients;
mod report;
mod routes;
mod routing_keys;
pub(crate) mod series;
mod service;
mod shared;
pub(crate) mod silence;
mod spec;
pub(crate) mod thread_time;
mod unique_properties;
mod worker;

use self::assignment::{Assignment, assign};
use self::coordinator::Coordinator;
use self::spec::Cluster;
use crate::control::Interruption;
use crate::control::StopRequest;
use crate::node::{Node, Nodes};
use crate::protocol::{Admin, Connection, connect_options, too_many_clients};
use crate::{Control, Error, Outcome, Plan, RunEvent, Sink, Together};

/// See [`crate::validate`].
pub(crate) fn validate<C: Connection>(plan: &Plan) -> Result<(), Error> {
    plan.validate()?;
    let mut groups = plan.groups.iter().enumerate();
    groups.try_for_each(|(i, group)| C::validate(group).map_err(|error| error.in_group(i)))
}

/// See [`crate::run`].
pub(crate) fn run<C: Connection>(
    plan: &Plan,
    together: &Together,
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Outcome, Error> {
    validate::<C>(plan)?;
    let outcome = match set_up::<C>(plan, control, sink) {
        Ok(assignment) => Coordinator::<C>::start(plan, together, control, sink, assignment)
            .and_then(|mut coordinator| coordinator.supervise()),
        Err(Interruption::Failed(error)) => Err(error),
        Err(Interruption::Stopped) => Ok(Outcome::never_started()),
    };
    // A broker that could not be reached, or says nothing, has nothing to clean up either.
    let reached = !matches!(outcome, Err(Error::Connect { .. } | Error::TimedOut { .. }));
    if reached && control.request() != StopRequest::Abort {
        let took_place = outcome.as_ref().is_ok_and(|it| !it.phases.is_empty());
        clean_up::<C>(plan, sink, took_place);
    }
    outcome
}

/// Prepares the broker and assigns the clients. Queues are emptied last, when nothing is left to be refused that can
/// be known before the clients connect.
fn set_up<C: Connection>(
    plan: &Plan,
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<Assignment<C::ClientSpec>, Interruption> {
    let (nodes, clusters) = prepare::<C>(plan, control, sink)?;
    let assignment = assign::<C>(plan, &nodes, &clusters)?;
    for client in assignment.threads.iter().flatten() {
        let count = client.connection.clients.len();
        if let Some(node) = client.nodes.iter().find(|it| count > it.most_clients) {
            return Err(too_many_clients(&node.endpoint, count, node.most_clients).into());
        }
    }
    for group in plan.groups.iter().filter(|group| group.queues.purge) {
        let options = connect_options(&group.endpoint, &group.source_addresses)?;
        let mut admin = <C::Admin<'_>>::connect(&group.endpoint, options, plan.timeout, control)?;
        admin.purge(group)?;
        admin.close()?;
    }
    Ok(assignment)
}

/// Connects to every endpoint once and prepares the queues there.
fn prepare<C: Connection>(
    plan: &Plan,
    control: &Control,
    sink: &mut dyn Sink,
) -> Result<(Vec<Nodes>, Vec<Cluster>), Interruption> {
    let mut all = Vec::with_capacity(plan.groups.len());
    let mut clusters = Vec::with_capacity(plan.groups.len());
    for group in &plan.groups {
        let mut nodes = Vec::with_capacity(1 + group.further.len());
        for endpoint in std::iter::once(&group.endpoint).chain(&group.further) {
            let options = connect_options(endpoint, &group.source_addresses)?;
            let tls = options.tls.clone();
            let mut admin = <C::Admin<'_>>::connect(endpoint, options, plan.timeout, control)?;
            let server = admin.server().clone();
            sink.event(RunEvent::Connected {
                endpoint: endpoint.to_string(),
                product: server.product,
                version: server.version,
                round_trip: server.round_trip,
                answer: server.answer,
            });
            if nodes.is_empty() {
                admin.prepare(group)?;
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

/// Deletes the queues that were to be deleted, where the load took place, and subscriptions in any
/// case: their queues would gather messages for ever. What fails here is only told.
fn clean_up<C: Connection>(plan: &Plan, sink: &mut dyn Sink, took_place: bool) {
    for group in &plan.groups {
        let queues_too = group.queues.delete && took_place;
        if !queues_too && group.subscription_queues().next().is_none() {
            continue;
        }
        let delete = || -> Result<(), Interruption> {
            // Not the load's own control: it may say stop, and cleaning up belongs to stopping.
            let control = Control::new();
            let options = connect_options(&group.endpoint, &group.source_addresses)?;
            let mut admin =
                <C::Admin<'_>>::connect(&group.endpoint, options, plan.timeout, &control)?;
            admin.clean_up(group, took_place)?;
            admin.close()
        };
        if let Err(Interruption::Failed(error)) = delete() {
            sink.event(RunEvent::Note(format!(
                "queues may be left behind: {error}"
            )));
        }
    }
}

#[cfg(test)]
#[path = "second_protocol_tests.rs"]
mod second_protocol_tests;
