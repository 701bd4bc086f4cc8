//! Fleets in virtual time: coordinator, workers and a bad network in one thread. Nothing here needs sockets or a clock;
//! the ignored test measures the coordinator's CPU.

mod clocks;
mod messages;
mod scenes;
mod world;
