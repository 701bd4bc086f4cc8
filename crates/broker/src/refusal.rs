//! Refusals with RabbitMQ's texts, because people search for them and programs match them.

use std::fmt::Display;

use wire::amqp091::{reply, reply_name};

/// Codes of refusals for which AMQP 1.0 has names and AMQP 0.9.1 has no numbers.
pub(crate) const UNKNOWN_TRANSACTION: u16 = 1_000;
pub(crate) const ROLLED_BACK: u16 = 1_001;

/// Why a request was refused. It closes the channel it came on, or the whole connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The reply code.
    pub(crate) code: u16,
    /// The reply text, its code's name in front.
    pub(crate) text: String,
    /// Whether the connection is closed, not only the channel.
    pub(crate) closes_connection: bool,
}

impl Refusal {
    fn new(code: u16, text: impl Display) -> Self {
        // A reply text is a short string; names of 255 bytes would not fit in it twice.
        let mut text = format!("{} - {text}", reply_name(code));
        text.truncate(text.floor_char_boundary(255));
        Self { code, text, closes_connection: false }
    }

    /// A refusal that AMQP 1.0 alone knows.
    pub(crate) fn of_transaction(code: u16, text: &str) -> Self {
        Self { code, text: text.to_owned(), closes_connection: false }
    }

    /// The error condition that AMQP 1.0 has for a reply code.
    pub(crate) const fn condition(code: u16) -> &'static str {
        match code {
            reply::NOT_FOUND => "amqp:not-found",
            reply::ACCESS_REFUSED => "amqp:unauthorized-access",
            reply::RESOURCE_LOCKED => "amqp:resource-locked",
            reply::PRECONDITION_FAILED => "amqp:precondition-failed",
            reply::NOT_IMPLEMENTED => "amqp:not-implemented",
            reply::CONNECTION_FORCED => "amqp:connection:forced",
            reply::RESOURCE_ERROR => "amqp:resource-limit-exceeded",
            UNKNOWN_TRANSACTION => "amqp:transaction:unknown-id",
            ROLLED_BACK => "amqp:transaction:rollback",
            _ => "amqp:not-allowed",
        }
    }

    fn closing(code: u16, text: impl Display) -> Self {
        Self { closes_connection: true, ..Self::new(code, text) }
    }

    pub(crate) fn not_found(kind: &str, name: &str) -> Self {
        Self::new(reply::NOT_FOUND, format_args!("no {kind} '{name}' in vhost '/'"))
    }

    /// A request that names no queue, on a channel that has not declared one.
    pub(crate) fn missing_queue(text: impl Display) -> Self {
        Self::new(reply::NOT_FOUND, text)
    }

    pub(crate) fn no_virtual_host(name: &str) -> Self {
        Self::not_allowed(format_args!("vhost {name} not found"))
    }

    pub(crate) fn precondition(text: impl Display) -> Self {
        Self::new(reply::PRECONDITION_FAILED, text)
    }

    /// A declaration that differs from what exists.
    pub(crate) fn inequivalent(argument: &str, kind: &str, name: &str, received: &str, current: &str) -> Self {
        Self::precondition(format_args!(
            "inequivalent arg '{argument}' for {kind} '{name}' in vhost '/': \
             received {received} but current is {current}"
        ))
    }

    pub(crate) fn access(text: impl Display) -> Self {
        Self::new(reply::ACCESS_REFUSED, text)
    }

    pub(crate) fn reserved(kind: &str, name: &str) -> Self {
        Self::access(format_args!("{kind} name '{name}' contains reserved prefix 'amq.*'"))
    }

    pub(crate) fn default_exchange() -> Self {
        Self::access("operation not permitted on the default exchange")
    }

    pub(crate) fn locked(queue: &str) -> Self {
        let text = format!(
            "cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. It could be originally declared \
             on another connection or the exclusive property value does not match that of the original declaration."
        );
        Self::new(reply::RESOURCE_LOCKED, text)
    }

    pub(crate) fn not_implemented(text: impl Display) -> Self {
        Self::closing(reply::NOT_IMPLEMENTED, text)
    }

    pub(crate) fn command_invalid(text: impl Display) -> Self {
        Self::closing(reply::COMMAND_INVALID, text)
    }

    pub(crate) fn not_allowed(text: impl Display) -> Self {
        Self::closing(reply::NOT_ALLOWED, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit_a_short_string_whatever_the_names() {
        let name = "é".repeat(127);
        let refusal = Refusal::locked(&name);
        assert!(refusal.text.len() <= 255);
        assert!(refusal.text.starts_with("RESOURCE_LOCKED - cannot obtain"));
    }
}
