//! The entry function of the fuzz target `http_response`. It panics when something that must hold does not.

use super::{HttpEvent, ResponseDecoder};

/// Decodes what follows the first two bytes, whole and in pieces: equal events, and no more out than in.
pub fn response(data: &[u8]) {
    let Some(([method, piece], input)) = data.split_first_chunk::<2>() else { return };
    let method = if method % 4 == 0 { "HEAD" } else { "GET" };
    let whole = outcome(method, input.chunks(input.len().max(1)));
    let piece = usize::from(*piece).max(1);
    assert_eq!(whole, outcome(method, input.chunks(piece)));
    assert_eq!(whole, outcome(method, input.chunks(1)));
    assert!(whole.body.len() <= input.len(), "a body from nowhere");
}

/// Outcome of decoding an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Heads and ends, and why it broke off.
    pub events: Vec<String>,
    /// The bodies of all responses.
    pub body: Vec<u8>,
}

/// Decodes pieces as responses to requests with this method, then the end of the connection.
pub fn outcome<'a>(method: &str, pieces: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = ResponseDecoder::default();
    let mut decoded = Decoded::default();
    decoder.expect(method);
    for mut input in pieces {
        loop {
            match decoder.handle_input(&mut input) {
                Ok(None) => break,
                Ok(Some(HttpEvent::Body(bytes))) => decoded.body.extend_from_slice(bytes),
                Ok(Some(HttpEvent::End)) => {
                    let reuse = decoder.is_reusable();
                    decoded.events.push(format!("End, reusable: {reuse}"));
                    if !reuse {
                        return decoded;
                    }
                    decoder.expect(method);
                }
                Ok(Some(event)) => decoded.events.push(format!("{event:?}")),
                Err(error) => {
                    decoded.events.push(kind_of(&error));
                    return decoded;
                }
            }
        }
        assert!(input.is_empty(), "input is left though more is awaited");
    }
    decoded.events.push(match decoder.handle_end() {
        Ok(event) => format!("{event:?}"),
        Err(error) => kind_of(&error),
    });
    decoded
}

/// An error without the place, which depends on how much of a bad head had come when it was seen.
fn kind_of(error: &super::HttpError) -> String {
    match error {
        super::HttpError::NotHttp(_) => "NotHttp".to_owned(),
        super::HttpError::TooLarge { part, .. } => format!("TooLarge {part}"),
        error => error.to_string(),
    }
}
