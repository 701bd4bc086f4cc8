//! The only HTTP client and the only page server: management APIs, pages of metrics that are read, series that are
//! sent, pages that are served. And what nobody may see of addresses, headers and commands ([`redact`]).

pub mod broker_objects;
pub mod definitions;
pub mod http;
pub mod management;
pub mod page_server;
pub mod push;
pub mod redact;
pub mod scrape;

pub use measure::Secret;
