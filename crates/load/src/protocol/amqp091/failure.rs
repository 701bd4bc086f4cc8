//! Turns what a conversation ran into into errors that people understand.

use measure::Problem;
use wire::amqp091::{self, Closing, reply};

use super::ASK_FOR_REPLIES;
use crate::failure::{Stage, one_line};
use crate::{Destination, Endpoint, Error, Plan, RunEvent};

/// For connections that never served.
pub(super) const HELP: &str = "see the broker's log, and whether the port is its AMQP 0.9.1 one; a port with TLS \
     (5671 is usual) needs amqps://";

/// The broker closed the channel or the connection.
pub(crate) fn of_closing(endpoint: &Endpoint, stage: &Stage, closing: &Closing<'_>) -> Error {
    let (endpoint, detail) = (endpoint.to_string(), one_line(&closing.to_string()));
    match stage {
        Stage::LogIn => Error::LogIn { endpoint, detail, help: log_in_help(closing.code).into() },
        Stage::SetUp(action) => {
            Error::Refused { endpoint, action: action.clone(), detail, help: set_up_help(closing.code, action).into() }
        }
        Stage::Running | Stage::Closing => Error::Lost { endpoint, detail },
    }
}

fn log_in_help(code: u16) -> &'static str {
    match code {
        reply::ACCESS_REFUSED => {
            "check user and password, or the user that a certificate (SASL EXTERNAL) belongs to; \
             RabbitMQ lets guest in from its own machine only"
        }
        reply::NOT_ALLOWED | reply::INVALID_PATH => {
            "check the virtual host in the URL (amqp://HOST/VHOST, %2F for /) and the user's permission for it"
        }
        _ => "see the broker's log",
    }
}

fn set_up_help(code: u16, action: &str) -> &'static str {
    match code {
        reply::PRECONDITION_FAILED => {
            "it exists with other properties: delete it, choose another name, or request the properties that it has"
        }
        reply::NOT_FOUND if action.contains("exchange \"amq.") => {
            "names that begin with amq. are the broker's own exchanges, and cannot be declared: use amq.direct, \
             amq.fanout, amq.topic or amq.headers, or another name"
        }
        reply::NOT_FOUND if action == ASK_FOR_REPLIES => {
            "this broker has no direct reply-to, an extension of RabbitMQ: leave replies out"
        }
        reply::NOT_FOUND if action.contains("exchange") => "declare the exchange first, or let the load declare it",
        reply::NOT_FOUND => "declare the queue first, or let the load declare it",
        reply::ACCESS_REFUSED => "give the user configure, write and read permission, or use another",
        reply::RESOURCE_LOCKED => "another connection holds the queue exclusively: choose another name",
        _ => "see the broker's log",
    }
}

pub(crate) fn of_cancel(endpoint: &Endpoint, queue: &str) -> Error {
    Error::Lost {
        endpoint: endpoint.to_string(),
        detail: format!("the broker cancelled the consumer of queue {queue:?}: was it deleted?"),
    }
}

pub(crate) fn of_wire(endpoint: &Endpoint, stage: &Stage, error: &amqp091::Error) -> Error {
    let (endpoint, detail) = (endpoint.to_string(), one_line(&error.to_string()));
    match error {
        amqp091::Error::NoMechanism { .. } => Error::LogIn {
            endpoint,
            detail,
            help: "enable it in the broker's configuration (auth_mechanisms; EXTERNAL needs the \
                   plugin rabbitmq_auth_mechanism_ssl), or log in with a password"
                .into(),
        },
        amqp091::Error::TimedOut { .. } => Error::TimedOut { endpoint, detail },
        amqp091::Error::HeartbeatMissed { .. } | amqp091::Error::Disconnected { .. } => {
            stage.lost(endpoint, detail, HELP)
        }
        amqp091::Error::Protocol { code: reply::RESOURCE_ERROR, .. } => Error::Limit(Problem::new(
            format!("cannot receive from {endpoint}"),
            detail,
            "receive with fewer connections or channels at the same time, or smaller messages",
        )),
        amqp091::Error::Encode(_) => Error::Invalid(Problem::new(
            format!("cannot {} at {endpoint}", stage.action()),
            detail,
            "shorten the name or argument",
        )),
        _ => Error::Protocol { endpoint, detail },
    }
}

#[cold]
pub(super) fn unasked(endpoint: &Endpoint, channel: u16, what: &str) -> Error {
    Error::Protocol { endpoint: endpoint.to_string(), detail: format!("unexpected {what} on channel {channel}") }
}

/// Queues that neither a restart outlives nor one connection owns.
const TRANSIENT: &str = "transient_nonexcl_queues";

/// The plan without the feature for which the broker refused it, and what to tell of that; `None` where it was refused
/// for another reason, or has no such feature. RabbitMQ removes features in steps: before the last one it refuses them
/// by name, unless its configuration permits them (`deprecated_features.permit.NAME = true`).
pub(crate) fn permitted(plan: &Plan, refusal: &Error) -> Option<(Plan, RunEvent)> {
    let Error::Refused { endpoint, detail, .. } = refusal else { return None };
    if !detail.contains(&format!("`{TRANSIENT}`")) {
        return None;
    }
    let mut plan = plan.clone();
    let groups = plan.groups.iter_mut();
    // Other groups may name the broker by another protocol.
    let place = |url: &str| url.split_once("://").map(|(_, rest)| rest.to_owned());
    // Any node of a cluster may be the one that no longer permits it.
    let there = groups.filter(|group| {
        let mut nodes = group.further.iter().chain([&group.endpoint]);
        nodes.any(|node| place(&node.to_string()) == place(endpoint))
    });
    let made = there.flat_map(|group| group.destinations.iter_mut().map(make_durable));
    let event = RunEvent::NotPermitted {
        feature: TRANSIENT.to_owned(),
        instead: "transient queues are declared durable".to_owned(),
    };
    (made.filter(|it| *it).count() > 0).then_some((plan, event))
}

/// Makes a queue durable that others may use, too; whether it was not.
fn make_durable(destination: &mut Destination) -> bool {
    let options = &mut destination.amqp091;
    let changes = !destination.exclusive && !options.durable;
    options.durable |= changes;
    changes
}

#[cfg(test)]
mod tests {
    use wire::amqp091::MethodId;

    use super::*;
    use crate::Group;

    #[test]
    fn a_brokers_closing_is_named_by_its_stage_with_a_help() {
        let endpoint: Endpoint = "amqp://guest:secret@localhost".parse().unwrap();
        let failed = |stage: &Stage, code: u16, text: &str| {
            of_closing(&endpoint, stage, &Closing { code, text, method: MethodId::default() })
        };
        let error = failed(&Stage::LogIn, 403, "PLAIN login refused");
        let refused = "cannot log in to amqp://guest@localhost:5672/: ACCESS_REFUSED (403), PLAIN login refused";
        assert_eq!(error.to_string(), refused);
        assert!(error.problem().help.contains("password"));
        for (action, code, name, help) in [
            ("declare queue \"q\"", 406, "PRECONDITION_FAILED", "other properties"),
            ("declare queue \"q\"", 404, "NOT_FOUND", "declare the queue"),
            ("bind queue \"q\" to exchange \"x\"", 404, "NOT_FOUND", "declare the exchange"),
            ("bind queue \"q\" to exchange \"amq.x\"", 404, "NOT_FOUND", "amq.direct"),
        ] {
            let error = failed(&Stage::SetUp(action.into()), code, "so it is");
            let text = format!("cannot {action} at amqp://guest@localhost:5672/: {name} ({code}), so it is");
            assert_eq!(error.to_string(), text);
            assert!(error.problem().help.contains(help), "{error:?}");
        }
        let error = failed(&Stage::Running, 320, "shutdown");
        assert!(matches!(error, Error::Lost { .. }), "{error}");
        let error = failed(&Stage::Running, 541, "bad\r\nthing\u{1b}[2J");
        assert!(!error.to_string().contains(char::is_control), "{error}");
    }

    const HERE: &str = "amqp://here";

    fn refusal(detail: &str) -> Error {
        let endpoint: Endpoint = HERE.parse().unwrap();
        Error::Refused {
            endpoint: endpoint.to_string(),
            action: "declare classic queue \"q\"".to_owned(),
            detail: detail.to_owned(),
            help: String::new(),
        }
    }

    #[test]
    fn transient_queues_become_durable_once_where_they_were_refused() {
        let mut own = Destination::queue("own");
        own.exclusive = true;
        let destinations = vec![Destination::queue("q"), own];
        let at = |url: &str| Group::new(url.parse().unwrap(), destinations.clone());
        let plan = Plan { groups: vec![at(HERE), at("amqp://elsewhere")], ..Plan::default() };
        let refused = refusal("INTERNAL_ERROR (541), Feature `transient_nonexcl_queues` is deprecated.");
        let (changed, _) = permitted(&plan, &refused).expect("another plan");
        let durable = |plan: &Plan| -> Vec<bool> {
            plan.groups.iter().flat_map(|group| &group.destinations).map(|it| it.amqp091.durable).collect()
        };
        assert_eq!(durable(&changed), [true, false, false, false]);
        assert!(permitted(&changed, &refused).is_none());
        // A cluster whose second node alone is new, and is used over AMQP 1.0.
        let mut mixed = plan.clone();
        mixed.groups[1].further = vec!["amqp10://here".parse().unwrap()];
        let (changed, _) = permitted(&mixed, &refused).expect("another plan");
        assert_eq!(durable(&changed), [true, false, true, false]);
        assert!(permitted(&plan, &refusal("INTERNAL_ERROR (541), no disk")).is_none());
    }
}
