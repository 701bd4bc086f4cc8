//! HTTP/1.1, the client's side: a request's head goes out, a response comes in as events.
//!
//! [`RequestHead::encode`] writes a request; [`ResponseDecoder`] takes what the server sends, in any pieces, and
//! hands out status, body bytes in place, and the end. Nothing of a body is kept; heads, chunk lines and
//! trailers are bounded.

mod error;
pub mod fuzzing;
mod request;
mod response;
mod url;

pub use error::{HttpError, UrlError};
pub use request::RequestHead;
pub use response::{HttpEvent, ResponseDecoder, ResponseHead};
pub use url::HttpUrl;
