//! Disposable ActiveMQ Artemis brokers: a JVM with an instance of its own in a temporary directory, a free port on the
//! loopback interface for all its protocols, and nothing of the machine's configuration. It ends as RabbitMQ's nodes do
//! ([`super::rabbitmq`]).

mod broker;
mod install;
mod setup;

pub(super) use broker::REGISTRATION;
