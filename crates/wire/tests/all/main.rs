//! All tests of `wire` that use it from outside, as one program.

mod allocations;
mod amqp091;
mod amqp10;
mod corpus;
mod openmetrics;
