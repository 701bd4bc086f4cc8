//! All tests of `load` that use it from outside, as one program.
//!
//! `drain`, `engine`, `injected`, `peers`, `phases`, `proof`, `recovery`, `schedules`, `scripted`, `shares`, `silence`,
//! `slow`, `stalls` and `streams` run in virtual time, but for tests that stop or kill something from another thread:
//! in a [`world`] in memory, without a socket and without a sleep. In real time, on sockets, stay those about the
//! system, and those that nobody has moved yet:
//!
//! | module | why |
//! | --- | --- |
//! | `omission` | the proof that no latency is left out, with the real clock, timer and sockets |
//! | `tls`, `tls_records` | TLS handshakes and records |
//! | `waits` | buffers of the kernel that are full, threads that have nothing to do |
//! | `amqp10` | the broker is a script between sockets |
//! | `mqtt` | the broker is mosquitto |
//! | `allocations` | the memory of event loops at full speed on sockets |
//! | `names`, `sources` | name servers, addresses of this machine |
//! | `churn`, `idle`, `probe`, `beside` | other scenarios than messages, which have event loops of their own |
//! | `workloads`, `ledger`, `subscriptions`, `tokens` | each kind of load once, on sockets |
//! | `stops` | stops from other threads |

mod allocations;
mod amqp10;
mod beside;
mod churn;
mod common;
mod drain;
mod engine;
mod idle;
mod injected;
mod ledger;
mod mqtt;
mod names;
mod omission;
mod peers;
mod phases;
mod probe;
mod proof;
mod recovery;
mod schedules;
mod scripted;
mod shares;
mod silence;
mod slow;
mod sources;
mod stalls;
mod stops;
mod streams;
mod subscriptions;
mod tls;
mod tls_records;
mod tokens;
mod waits;
mod workloads;
mod world;
