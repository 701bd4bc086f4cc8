//! A short conversation beside the load. Nothing is declared over MQTT; sessions that outlast their connections are
//! deleted before the load, and after it.

use measure::Nanos;
use transport::ConnectOptions;

use super::client::session_of;
use super::{MqttConnection, MqttSpec};
use crate::control::Interruption;
use crate::protocol::{Admin, Blocking, ConnectionSpec, Made, Server};
use crate::{Control, Endpoint, Environment, Error, Group};

pub(crate) struct MqttAdmin<'a, E: Environment> {
    blocking: Blocking<'a, MqttConnection, E>,
    server: Server,
    environment: E,
    endpoint: Endpoint,
    options: ConnectOptions,
    timeout: Nanos,
    control: &'a Control,
}

impl<'a, E: Environment> Admin<'a, E> for MqttAdmin<'a, E> {
    fn connect(
        environment: &E,
        endpoint: &Endpoint,
        options: ConnectOptions,
        timeout: Nanos,
        control: &'a Control,
    ) -> Result<Self, Interruption> {
        let spec = spec(endpoint, timeout, MqttSpec::Asking);
        let mut blocking: Blocking<'a, MqttConnection, E> =
            Blocking::connect(environment, spec, options.clone(), control)?;
        let [product, version] = product_of(blocking.connection().told());
        let server = blocking.server([product, version, String::new()], 1);
        let (environment, endpoint) = (environment.clone(), endpoint.clone());
        Ok(Self { blocking, server, environment, endpoint, options, timeout, control })
    }

    fn server(&self) -> &Server {
        &self.server
    }

    /// A session is the queue of its subscriptions.
    fn prepare(&mut self, group: &Group, made: &mut Vec<Made>) -> Result<(), Interruption> {
        let sessions: Vec<String> = group.own_consumers().filter_map(|n| session_of(group, n)).collect();
        for session in sessions {
            self.forget(&session)?;
            made.push(Made::Queue(session));
        }
        Ok(())
    }

    /// The plan refuses this: nothing of a broker's can be emptied over MQTT.
    fn purge(&mut self, _group: &Group) -> Result<(), Interruption> {
        Ok(())
    }

    fn delete(&mut self, made: &Made) -> Result<(), Interruption> {
        match made {
            Made::Queue(session) => self.forget(session),
            Made::Exchange(_) => Ok(()),
        }
    }

    fn depth(&mut self, _queue: &str) -> Result<Option<(u32, u32)>, Interruption> {
        Ok(None)
    }

    fn close(self) -> Result<(), Interruption> {
        close(self.blocking)
    }
}

impl<E: Environment> MqttAdmin<'_, E> {
    /// Connects once as the owner of a session, and keeps none.
    fn forget(&self, session: &str) -> Result<(), Interruption> {
        let spec = spec(&self.endpoint, self.timeout, MqttSpec::Forgetting(session.to_owned()));
        close(Blocking::<MqttConnection, E>::connect(&self.environment, spec, self.options.clone(), self.control)?)
    }
}

fn spec(endpoint: &Endpoint, timeout: Nanos, client: MqttSpec) -> ConnectionSpec<MqttSpec> {
    let name = "bellows set-up".to_owned();
    ConnectionSpec { endpoint: endpoint.clone(), name, timeout, resumes: false, clients: vec![client] }
}

/// Closes a connection. A broker may do so before its last answer is read.
fn close<E: Environment>(blocking: Blocking<'_, MqttConnection, E>) -> Result<(), Interruption> {
    match blocking.close() {
        Err(Interruption::Failed(Error::Lost { .. })) => Ok(()),
        closed => closed,
    }
}

/// Product and version of `mosquitto version 2.0.11`; both empty where the broker has not said.
fn product_of(told: &str) -> [String; 2] {
    let (product, version) = told.split_once(" version ").unwrap_or((told, ""));
    let product = if product == "mosquitto" { "Mosquitto" } else { product };
    [product, version].map(|text| crate::failure::one_line(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_tell_their_name_and_version() {
        assert_eq!(product_of("mosquitto version 2.0.11"), ["Mosquitto", "2.0.11"]);
        assert_eq!(product_of("other"), ["other", ""]);
        assert_eq!(product_of(""), ["", ""]);
    }
}
