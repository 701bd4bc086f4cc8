//! The client's part of the handshake: log in, agree on limits, open the virtual host.

use measure::Time;

use super::super::codec::SecretStr;
use super::super::common::capabilities;
use super::super::config::{ClientConfig, Mechanism};
use super::super::error::{EncodeError, Error};
use super::super::spec::*;
use super::super::table::FieldTable;
use super::super::{DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX};
use super::{Client, Event, State, Step};

impl Client {
    pub(super) fn handle_handshake<'a>(
        &mut self,
        now: Time,
        method: Method<'a>,
    ) -> Result<Step<Event<'a>>, Error> {
        match (self.state, method) {
            (State::Greeting, Method::ConnectionStart(start)) => self.log_in(&start)?,
            (State::LoggingIn, Method::ConnectionTune(tune)) => self.tune(now, tune)?,
            (State::Opening, Method::ConnectionOpenOk(_)) => {
                self.state = State::Open;
                self.common.arrived();
                return Ok(Step::Opened);
            }
            (_, method) => return Err(self.out_of_turn(&method)),
        }
        Ok(Step::Nothing)
    }

    fn log_in(&mut self, start: &ConnectionStart<'_>) -> Result<(), Error> {
        let version = (start.version_major, start.version_minor);
        if version != (0, 9) {
            let what = format!(
                "the server speaks AMQP {}-{}, not 0-9-1",
                version.0, version.1
            );
            return Err(self.fail_with((reply::NOT_ALLOWED, what), &[]));
        }
        let wanted = self.side.config.mechanism.name();
        if !start
            .mechanisms
            .split(|b| *b == b' ')
            .any(|name| name == wanted.as_bytes())
        {
            self.state = State::Closed;
            let offered = String::from_utf8_lossy(start.mechanisms).into_owned();
            return Err(Error::NoMechanism { offered, wanted });
        }
        self.side.server_properties = start.server_properties.to_owned();
        let response = match self.side.config.mechanism {
            Mechanism::Plain => {
                format!(
                    "\0{}\0{}",
                    self.side.config.user,
                    self.side.config.password.expose()
                )
            }
            Mechanism::External => String::new(),
        };
        let properties = client_properties(&self.side.config)?;
        self.common.send(
            0,
            &ConnectionStartOk {
                client_properties: properties.view(),
                mechanism: wanted,
                response: SecretStr(response.as_bytes()),
                locale: "en_US",
            },
        )?;
        self.state = State::LoggingIn;
        Ok(())
    }

    fn tune(&mut self, now: Time, tune: ConnectionTune) -> Result<(), Error> {
        if tune.frame_max != 0 && tune.frame_max < FRAME_MIN_SIZE {
            let what = format!(
                "frame-max {}, the minimum is {FRAME_MIN_SIZE}",
                tune.frame_max
            );
            return Err(self.fail_with((reply::SYNTAX_ERROR, what), &[]));
        }
        let smaller = |ours: u32, theirs: u32| match (ours, theirs) {
            (0, limit) | (limit, 0) => limit,
            (a, b) => a.min(b),
        };
        let wanted = match self.side.config.frame_max {
            0 => 0,
            limit => limit.max(FRAME_MIN_SIZE),
        };
        let frame_max = match smaller(wanted, tune.frame_max) {
            0 => DEFAULT_FRAME_MAX,
            limit => limit,
        };
        let smaller = |a: u16, b: u16| smaller(a.into(), b.into()) as u16;
        self.channel_max = smaller(self.side.config.channel_max, tune.channel_max);
        if self.channel_max == 0 {
            self.channel_max = DEFAULT_CHANNEL_MAX;
        }
        let heartbeat = smaller(self.side.config.heartbeat_s, tune.heartbeat);
        self.common.tune(frame_max, heartbeat, now);
        let channel_max = self.channel_max;
        self.common.send(
            0,
            &ConnectionTuneOk {
                channel_max,
                frame_max,
                heartbeat,
            },
        )?;
        let virtual_host = self.side.config.virtual_host.as_str();
        self.common.send(
            0,
            &ConnectionOpen {
                virtual_host,
                ..ConnectionOpen::default()
            },
        )?;
        self.state = State::Opening;
        Ok(())
    }
}

/// Client properties; RabbitMQ keys its behaviour on the capabilities.
fn client_properties(config: &ClientConfig) -> Result<FieldTable, EncodeError> {
    let mut properties = FieldTable::new();
    properties.insert("product", "bellows")?;
    properties.insert("version", env!("CARGO_PKG_VERSION"))?;
    properties.insert("platform", "Rust")?;
    properties.insert("capabilities", &capabilities()?)?;
    if !config.connection_name.is_empty() {
        properties.insert("connection_name", config.connection_name.as_str())?;
    }
    Ok(properties)
}
