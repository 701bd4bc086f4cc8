//! The protocols that the engine speaks, each in a folder of its own.

pub(crate) mod amqp091;
