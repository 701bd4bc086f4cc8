//! Access to Erlang nodes by the distribution protocol: a hidden node calls functions of another one ([`Node::call`])
//! and receives what its processes send ([`Mailbox`]). What comes from there is checked before it is decoded: frames,
//! terms and mailboxes are bounded.
//!
//! ```text
//! Node, Mailbox --outgoing--> I/O thread --Socket (TCP | TLS)--> node
//!       ^------ mailboxes <-- check, decode <-- frames <----------'
//! ```

pub mod alloc;
mod budget;
pub mod calls;
mod error;
pub mod helper;
mod link;
mod node;
mod options;
mod pattern;
pub mod queues;
pub mod sides;
pub mod term;
pub mod timing;
pub mod top;
pub mod trace;

pub use budget::{Budget, Ended, is_no_call, lacks_role};
pub use error::Error;
pub use helper::Helper;
pub use link::{Frame, registered_nodes};
pub use node::{Mailbox, Node};
pub use options::{ConnectOptions, Cookie, NodeName};
pub use pattern::{FunctionPattern, ProcessFilter};
pub use queues::RabbitState;
pub use transport::tls::{ClientTls as TlsOptions, Identity};
