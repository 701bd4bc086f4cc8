//! Turns what a conversation ran into into errors that people understand.

use measure::{Nanos, Problem};
use wire::amqp10::{Amqp10Error, Condition};

use crate::failure::one_line;
use crate::{Endpoint, Error};

/// How far a conversation has got; decides what a failure means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinkStage {
    /// Until the broker has opened the connection.
    LogIn,
    /// The step in progress, as in "cannot ...".
    SetUp(String),
    Running,
    Closing,
}

impl LinkStage {
    fn action(&self) -> &str {
        match self {
            Self::LogIn => "log in",
            Self::SetUp(action) => action,
            Self::Running => "send and receive",
            Self::Closing => "close the connection",
        }
    }
}

/// The broker closed the connection, a session or a link.
pub(super) fn of_closing(endpoint: &Endpoint, stage: &LinkStage, error: Option<&Condition<'_>>) -> Error {
    let endpoint = endpoint.to_string();
    let condition = error.map_or("", |error| error.condition.0);
    let detail = reason(error);
    match stage {
        LinkStage::LogIn => Error::LogIn {
            endpoint,
            detail,
            help: "check the virtual host in the URL and the user's permission for it".into(),
        },
        LinkStage::SetUp(action) => Error::Refused {
            endpoint,
            action: action.clone(),
            detail,
            help: match condition {
                "amqp:not-found" => "declare the queue or exchange first, or let the load declare it",
                "amqp:unauthorized-access" => "give the user read and write permission, or use another",
                "amqp:resource-locked" => "another connection holds the queue exclusively: choose another name",
                _ => "see the broker's log",
            }
            .into(),
        },
        LinkStage::Running | LinkStage::Closing => Error::Lost { endpoint, detail },
    }
}

/// The broker ended a link, or its session, over which messages went; the connection may be as it was.
pub(super) fn of_detaching(endpoint: &Endpoint, action: String, error: Option<&Condition<'_>>) -> Error {
    let help = match error.map_or("", |error| error.condition.0) {
        "amqp:resource-deleted" => "the queue or exchange was deleted: check who else uses it",
        "amqp:link:message-size-exceeded" => "send smaller messages, or raise the maximum size of the broker",
        "amqp:unauthorized-access" => "give the user read and write permission, or use another",
        _ => "the broker's log says why it ended the link",
    };
    Error::Detached { endpoint: endpoint.to_string(), action, detail: reason(error), help: help.into() }
}

/// The broker's condition and description.
fn reason(error: Option<&Condition<'_>>) -> String {
    error.map_or_else(|| "the broker gave no reason".to_owned(), |error| one_line(&error.to_string()))
}

/// The protocol's state machine gave up.
pub(super) fn of_wire(endpoint: &Endpoint, stage: &LinkStage, error: &Amqp10Error) -> Error {
    let (at, detail) = (endpoint.to_string(), one_line(&error.to_string()));
    match error {
        Amqp10Error::NoMechanism { .. } | Amqp10Error::Refused { .. } => Error::LogIn {
            endpoint: at,
            detail,
            help: "check user and password; RabbitMQ lets guest in from its own machine only".into(),
        },
        Amqp10Error::TimedOut { .. } => Error::TimedOut { endpoint: at, detail },
        Amqp10Error::Silent { .. } | Amqp10Error::Disconnected { .. } => lost(at, stage, detail),
        Amqp10Error::Encode(_) => Error::Invalid(Problem::new(
            format!("cannot {} at {endpoint}", stage.action()),
            detail,
            "shorten the messages' properties",
        )),
        Amqp10Error::WrongProtocol { .. } | Amqp10Error::Protocol { .. } => Error::Protocol { endpoint: at, detail },
    }
}

/// The socket failed.
pub(super) fn of_transport(endpoint: &Endpoint, stage: &LinkStage, error: &std::io::Error) -> Error {
    lost(endpoint.to_string(), stage, one_line(&error.to_string()))
}

/// A step took longer than anybody waits.
pub(super) fn of_timeout(endpoint: &Endpoint, stage: &LinkStage, timeout: Nanos) -> Error {
    Error::TimedOut { endpoint: endpoint.to_string(), detail: format!("could not {} within {timeout}", stage.action()) }
}

fn lost(endpoint: String, stage: &LinkStage, detail: String) -> Error {
    match stage {
        LinkStage::Running | LinkStage::Closing => Error::Lost { endpoint, detail },
        LinkStage::LogIn | LinkStage::SetUp(_) => Error::Connect {
            detail: format!("could not {}: {detail}", stage.action()),
            endpoint,
            help: "see the broker's log, and whether the port is its AMQP one".into(),
        },
    }
}

/// Something came that nobody asked for.
#[cold]
pub(super) fn unasked(endpoint: &Endpoint, what: &str) -> Error {
    Error::Protocol { endpoint: endpoint.to_string(), detail: format!("unexpected {what}") }
}
