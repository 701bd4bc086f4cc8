//! All tests of `load` that use it from outside, as one program.
//!
//! `drain`, `injected`, `proof`, `recovery`, `scripted`, `silence`, `slow`, `stalls` and `streams` run in virtual time: in a
//! [`world`] in memory, without a socket and without a sleep. In real time, on sockets, stay those about the
//! system, and those that nobody has moved yet:
//!
//! | module | why |
//! | --- | --- |
//! | `omission` | the proof that no latency is left out, with the real clock, timer and sockets |
//! | `tls`, `tls_records` | TLS handshakes and records |
//! | `waits` | buffers of the kernel that are full, threads that have nothing to do |
//! | `allocations` | the memory of event loops at full speed on sockets |
//! | `names`, `sources` | name servers, addresses of this machine |
//! | `churn`, `idle`, `probe`, `beside` | other scenarios than messages, which have event loops of their own |
//! | `peers` | the embedded broker as a program has it: frames cut, logins refused, resets |
//! | `engine`, `workloads`, `ledger`, `subscriptions`, `tokens` | each kind of load once, on sockets |
//! | `phases`, `schedules`, `stops` | the schedule and the phases by the real clock, stops from other threads |

mod allocations;
mod beside;
mod churn;
mod common;
mod drain;
mod engine;
mod idle;
mod injected;
mod ledger;
mod names;
mod omission;
mod peers;
mod phases;
mod probe;
mod proof;
mod recovery;
mod schedules;
mod scripted;
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
