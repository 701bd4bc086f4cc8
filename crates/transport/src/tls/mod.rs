//! TLS: who is trusted, the session between encrypted and plain bytes, and what went wrong with it.
//! Certificates are verified unless the caller says otherwise.

mod client;
mod error;
mod pem;
mod server;
mod session;

pub use client::{ClientTls, Connector, Identity};
pub use error::TlsError;
pub use server::{Acceptor, ClientCertificates, ServerTls};
pub use session::{CIPHER_BYTES, ClientSession, ServerSession, Session, Side};
