//! Turns what a conversation ran into into errors that people understand.

use super::packet::{Malformed, reason};
use crate::failure::{Stage, one_line};
use crate::{Endpoint, Error};

/// For connections that never served.
pub(super) const HELP: &str = "see the broker's log, and whether the port is its MQTT one (1883 is usual, 8883 with \
     mqtts://); a broker without MQTT 5 takes --mqtt-version 3.1.1 (mqtt-version of a [[load]])";

/// Codes of refusals, those of MQTT 3.1.1 before those of 5.
const MEANINGS: [(u8, &str); 24] = [
    (0x01, "it does not speak this version of MQTT"),
    (0x02, "it refuses the client identifier"),
    (0x03, "it is not available"),
    (0x04, "wrong user or password"),
    (0x05, "the user is not permitted to connect"),
    (0x80, "it gives no reason"),
    (0x81, "malformed packet"),
    (0x82, "protocol error"),
    (0x83, "a reason of its own"),
    (0x84, "it does not speak this version of MQTT"),
    (0x85, "it refuses the client identifier"),
    (0x86, "wrong user or password"),
    (0x87, "not authorized"),
    (0x88, "it is not available"),
    (0x89, "it is busy"),
    (0x8A, "the client is banned"),
    (0x8B, "it shuts down"),
    (0x8D, "the keep-alive ran out"),
    (0x8E, "another client took over the session"),
    (0x8F, "the topic filter is not valid"),
    (0x93, "more messages than its receive maximum"),
    (0x95, "a packet is too large"),
    (0x97, "a quota is exceeded"),
    (0x9E, "shared subscriptions are not supported"),
];

/// A code in words.
pub(super) fn meaning(code: u8) -> String {
    let known = MEANINGS.iter().find(|(known, _)| *known == code);
    known.map_or_else(|| format!("reason code 0x{code:02X}"), |(_, text)| format!("{text} (0x{code:02X})"))
}

fn detail(code: u8, properties: &[u8]) -> String {
    match reason(properties) {
        Some(text) => one_line(&format!("{}: {text}", meaning(code))),
        None => meaning(code),
    }
}

/// The broker does not accept the connection.
#[cold]
pub(super) fn of_refusal(endpoint: &Endpoint, code: u8, properties: &[u8]) -> Error {
    let help = match code {
        0x01 | 0x84 => "use the other version: --mqtt-version 3.1.1 or 5 (mqtt-version of a [[load]])",
        0x04 | 0x05 | 0x86 | 0x87 => "check user and password (--user, --password, or in the URL)",
        _ => "see the broker's log",
    };
    Error::LogIn { endpoint: endpoint.to_string(), detail: detail(code, properties), help: help.into() }
}

/// The broker has ended the connection, and says why.
#[cold]
pub(super) fn of_disconnect(endpoint: &Endpoint, stage: &Stage, code: u8, properties: &[u8]) -> Error {
    stage.lost(endpoint.to_string(), format!("the broker disconnected: {}", detail(code, properties)), HELP)
}

#[cold]
pub(super) fn of_action(endpoint: &Endpoint, action: String, detail: String, help: &str) -> Error {
    Error::Refused { endpoint: endpoint.to_string(), action, detail, help: help.into() }
}

#[cold]
pub(super) fn of_packet(endpoint: &Endpoint, malformed: Malformed) -> Error {
    Error::Protocol { endpoint: endpoint.to_string(), detail: format!("the broker sent {}", malformed.0) }
}
