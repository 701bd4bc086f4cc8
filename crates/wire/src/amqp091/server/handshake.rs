//! The server's part of the handshake: greet, take the login, agree on limits.

use measure::Time;

use super::super::codec::SecretStr;
use super::super::common::capabilities;
use super::super::config::ServerConfig;
use super::super::error::{EncodeError, Error};
use super::super::event::ServerEvent;
use super::super::sniff::{self, Greeting};
use super::super::spec::*;
use super::super::table::FieldTable;
use super::{Server, State, Step};
use crate::Secret;

impl Server {
    /// Whether the protocol header is complete; then `connection.start` is queued.
    pub(super) fn greet(&mut self, input: &mut &[u8]) -> Result<bool, Error> {
        if let Greeting::Wrong(error) = sniff::greeting(input, &PROTOCOL_HEADER) {
            self.common.out().extend_from_slice(&PROTOCOL_HEADER);
            self.end();
            return Err(error);
        }
        if input.len() < PROTOCOL_HEADER.len() {
            return Ok(false);
        }
        self.common.rx.skip(input, PROTOCOL_HEADER.len());
        let properties = server_properties(&self.side.config.properties)?;
        let start = ConnectionStart {
            version_major: 0,
            version_minor: 9,
            server_properties: properties.view(),
            mechanisms: self.side.config.mechanisms.as_bytes(),
            locales: b"en_US",
        };
        self.common.send(0, &start)?;
        self.state = State::LoggingIn;
        Ok(true)
    }

    pub(super) fn handle_handshake<'a>(
        &mut self,
        now: Time,
        method: Method<'a>,
    ) -> Result<Step<ServerEvent<'a>>, Error> {
        match (self.state, method) {
            (State::LoggingIn, Method::ConnectionStartOk(start)) => {
                self.log_in(&start).map(Step::Event)
            }
            (State::Tuning, Method::ConnectionTuneOk(tune)) => {
                self.tune(now, tune)?;
                Ok(Step::Nothing)
            }
            (State::Opening, Method::ConnectionOpen(open)) => {
                self.state = State::OpenPending;
                Ok(Step::Event(ServerEvent::Open {
                    virtual_host: open.virtual_host,
                }))
            }
            (_, method) => Err(self.out_of_turn(&method)),
        }
    }

    fn log_in<'a>(&mut self, start: &ConnectionStartOk<'a>) -> Result<ServerEvent<'a>, Error> {
        let offered = self
            .side
            .config
            .mechanisms
            .split(' ')
            .any(|name| name == start.mechanism);
        let credentials = match start.mechanism {
            "PLAIN" if offered => plain_credentials(start.response),
            "EXTERNAL" if offered => std::str::from_utf8(start.response.0).ok().map(|u| (u, "")),
            other => {
                let what = format!("the login mechanism {other:?} is not offered");
                return Err(self.fail_with((reply::ACCESS_REFUSED, what), &[]));
            }
        };
        let Some((user, password)) = credentials else {
            let what = format!("the login response is not as {} has it", start.mechanism);
            return Err(self.fail_with((reply::SYNTAX_ERROR, what), &[]));
        };
        self.state = State::LoginPending;
        Ok(ServerEvent::Login {
            mechanism: start.mechanism,
            user,
            password: Secret::from(password),
            client_properties: start.client_properties,
        })
    }

    /// Negotiated limits must not exceed the offer; RabbitMQ takes "no limit" as exceeding it, too.
    fn tune(&mut self, now: Time, tune: ConnectionTuneOk) -> Result<(), Error> {
        let ConnectionTuneOk {
            channel_max,
            frame_max,
            heartbeat,
        } = tune;
        if frame_max > self.side.config.frame_max || frame_max < FRAME_MIN_SIZE {
            let ours = self.side.config.frame_max;
            let what = format!("frame-max {frame_max} is not in {FRAME_MIN_SIZE} to {ours}");
            return Err(self.fail_with((reply::NOT_ALLOWED, what), &[]));
        }
        if channel_max > self.side.config.channel_max || channel_max == 0 {
            let ours = self.side.config.channel_max;
            let what = format!("channel-max {channel_max} is not in 1 to {ours}");
            return Err(self.fail_with((reply::NOT_ALLOWED, what), &[]));
        }
        self.channel_max = channel_max;
        self.common.tune(frame_max, heartbeat, now);
        self.state = State::Opening;
        Ok(())
    }

    /// Answers [`ServerEvent::Login`]: goes on with tuning. Does nothing at another time.
    pub fn accept_login(&mut self) {
        if self.state == State::LoginPending {
            let ServerConfig {
                channel_max,
                frame_max,
                heartbeat_s,
                ..
            } = self.side.config;
            self.common.send_small(
                0,
                &ConnectionTune {
                    channel_max,
                    frame_max,
                    heartbeat: heartbeat_s,
                },
            );
            self.state = State::Tuning;
        }
    }

    /// Answers [`ServerEvent::Open`]: the connection is open. Does nothing at another time.
    pub fn accept_open(&mut self) {
        if self.state == State::OpenPending {
            self.common.send_small(0, &ConnectionOpenOk::default());
            self.common.arrived();
            self.state = State::Open;
        }
    }

    /// Answers [`ServerEvent::Login`] or [`ServerEvent::Open`]: closes with code and text (403
    /// for a login, 530 for a virtual host). Does nothing at another time.
    pub fn refuse(&mut self, now: Time, code: u16, text: &str) {
        let cause = match self.state {
            State::LoginPending => MethodId::default(),
            State::OpenPending => ConnectionOpen::INFO.id,
            _ => return,
        };
        self.begin_close(now, code, text, cause);
    }
}

/// User and password of a PLAIN response (RFC 4616): an identity that nobody uses, user, password.
fn plain_credentials(response: SecretStr<'_>) -> Option<(&str, &str)> {
    let mut parts = std::str::from_utf8(response.0).ok()?.split('\0');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(user), Some(password), None) => Some((user, password)),
        _ => None,
    }
}

/// The embedder's properties and what this side can do.
fn server_properties(given: &FieldTable) -> Result<FieldTable, EncodeError> {
    let mut properties = given.clone();
    if given.get("capabilities").is_none() {
        properties.insert("capabilities", &capabilities()?)?;
    }
    Ok(properties)
}
