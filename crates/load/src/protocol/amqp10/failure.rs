//! Turns what a conversation ran into into errors that people understand.

use measure::Problem;
use wire::amqp10::{Amqp10Error, Condition};

use super::link::{BEGIN, BY_SELECTOR};
use crate::failure::{Stage, one_line};
use crate::{Endpoint, Error};

/// For connections that never served.
pub(super) const HELP: &str = "see the broker's log, and whether the port is its AMQP one";

/// The condition of a link to a coordinator where a broker has none.
const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
const NO_TRANSACTIONS: &str = "this broker has no transactions over AMQP 1.0 (amqp:not-implemented)";

pub(super) const CHECK_SELECTOR: &str = "check the syntax of the selector (--selector, or selector of a [[load]])";

/// Whether a broker closes a connection because its virtual host is not there or not the user's: it opens it first.
pub(super) fn is_of_virtual_host(error: Option<&Condition<'_>>) -> bool {
    let conditions = ["amqp:not-found", "amqp:not-allowed", "amqp:unauthorized-access"];
    error.is_some_and(|error| conditions.contains(&error.condition.0) && error.to_string().contains("vhost"))
}

pub(super) fn is_not_implemented(error: Option<&Condition<'_>>) -> bool {
    error.is_some_and(|error| error.condition.0 == NOT_IMPLEMENTED)
}

/// The broker closed the connection, a session or a link.
pub(super) fn of_closing(endpoint: &Endpoint, stage: &Stage, error: Option<&Condition<'_>>) -> Error {
    let detail = match stage {
        Stage::SetUp(action) if action == BEGIN && is_not_implemented(error) => NO_TRANSACTIONS.to_owned(),
        _ => reason(error),
    };
    let endpoint = endpoint.to_string();
    match stage {
        Stage::LogIn => Error::LogIn {
            endpoint,
            detail,
            help: "check the virtual host in the URL (amqp://HOST/VHOST with --protocol amqp10, %2F for /) and the \
                   user's permission for it"
                .into(),
        },
        Stage::SetUp(action) => Error::Refused {
            endpoint,
            action: action.clone(),
            detail,
            help: match error.map_or("", |error| error.condition.0) {
                NOT_IMPLEMENTED if action == BEGIN => "leave transactions out, or use AMQP 0.9.1: amqp:// in the URL",
                "amqp:invalid-field" if action.contains(BY_SELECTOR) => CHECK_SELECTOR,
                "amqp:not-found" => "declare the queue or exchange first, or let the load declare it",
                "amqp:unauthorized-access" => "give the user read and write permission, or use another",
                "amqp:resource-locked" => "another connection holds the queue exclusively: choose another name",
                "amqp:transaction:rollback" => "the broker's log says why it rolled the transaction back",
                "amqp:transaction:timeout" => "commit more often, or let the broker keep transactions for longer",
                _ if action == BEGIN => "leave transactions out: this broker may have none over AMQP 1.0",
                _ => "see the broker's log (--verbose shows that of a disposable one)",
            }
            .into(),
        },
        Stage::Running | Stage::Closing => Error::Lost { endpoint, detail },
    }
}

/// The broker ended a link, or its session, over which messages went; the connection may be as it was.
pub(super) fn of_detaching(endpoint: &Endpoint, action: String, error: Option<&Condition<'_>>) -> Error {
    let help = match error.map_or("", |error| error.condition.0) {
        "amqp:resource-deleted" => "the queue or exchange was deleted: check who else uses it",
        "amqp:link:message-size-exceeded" => "send smaller messages, or raise the maximum size of the broker",
        "amqp:unauthorized-access" => "give the user read and write permission, or use another",
        "amqp:transaction:timeout" => "commit more often, or let the broker keep transactions for longer",
        _ => "the broker's log says why it ended the link",
    };
    Error::Detached { endpoint: endpoint.to_string(), action, detail: reason(error), help: help.into() }
}

fn reason(error: Option<&Condition<'_>>) -> String {
    error.map_or_else(|| "the broker gave no reason".to_owned(), |error| one_line(&error.to_string()))
}

pub(super) fn of_wire(endpoint: &Endpoint, stage: &Stage, error: &Amqp10Error) -> Error {
    let (at, detail) = (endpoint.to_string(), one_line(&error.to_string()));
    match error {
        Amqp10Error::NoMechanism { .. } | Amqp10Error::Refused { .. } | Amqp10Error::Scram { .. } => {
            Error::LogIn { endpoint: at, detail, help: log_in_help(error, endpoint).into() }
        }
        Amqp10Error::TimedOut { .. } => Error::TimedOut { endpoint: at, detail },
        Amqp10Error::Silent { .. } | Amqp10Error::Disconnected { .. } => stage.lost(at, detail, HELP),
        Amqp10Error::Encode(_) => Error::Invalid(Problem::new(
            format!("cannot {} at {at}", stage.action()),
            detail,
            "shorten the messages' properties",
        )),
        Amqp10Error::WrongProtocol { .. } | Amqp10Error::Protocol { .. } => Error::Protocol { endpoint: at, detail },
    }
}

fn log_in_help(error: &Amqp10Error, endpoint: &Endpoint) -> &'static str {
    let is_nobodys = endpoint.user == "guest" && endpoint.password() == "guest";
    match (error, is_nobodys) {
        (Amqp10Error::NoMechanism { .. }, _) => {
            "choose one that it offers (--auth, or broker.auth), or enable it in the broker's configuration"
        }
        (Amqp10Error::Scram { .. }, _) => "check the password, and whether it is your broker that answers there",
        (_, true) => {
            "give user and password (--user, --password, or in the URL): guest is RabbitMQ's, which lets it in \
             from its own machine only"
        }
        _ => "check user and password (--user, --password, or in the URL)",
    }
}

/// A broker whose queues go by AMQP 0.9.1 does not speak that.
pub(super) fn without_amqp091(endpoint: String, detail: String) -> Error {
    Error::Refused {
        endpoint,
        action: "manage queues over AMQP 0.9.1".to_owned(),
        detail,
        help: "queues of RabbitMQ and the embedded broker are declared over AMQP 0.9.1, for loads over AMQP 1.0, too: \
               let it answer on that port"
            .into(),
    }
}

/// The broker has settled what was never sent, by these numbers of its own.
#[cold]
pub(super) fn never_sent(endpoint: &Endpoint, first: u32, last: u32) -> Error {
    let detail = match first == last {
        true => format!("the broker settled delivery {first}, which was never sent"),
        false => format!("the broker settled deliveries {first} to {last}, not all of which were sent"),
    };
    Error::Protocol { endpoint: endpoint.to_string(), detail }
}

#[cold]
pub(super) fn unasked(endpoint: &Endpoint, what: &str) -> Error {
    Error::Protocol { endpoint: endpoint.to_string(), detail: format!("unexpected {what}") }
}
