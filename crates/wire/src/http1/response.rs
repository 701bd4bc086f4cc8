//! Responses, decoded as they come.

use super::HttpError;

const MOST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;
const MOST_CHUNK_LINE: usize = 4 << 10;
const MOST_TRAILERS: usize = 16 << 10;
/// Informational responses before the final one at most.
const MOST_INFORMATIONAL: usize = 16;

/// Event of a piece of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpEvent<'a> {
    /// The final response's head; [`ResponseDecoder::header`] has its headers.
    Head(ResponseHead),
    /// Bytes of the body, without their framing.
    Body(&'a [u8]),
    /// The response has ended.
    End,
}

/// The first line of a response, and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status, 200 to 999.
    pub status: u16,
    /// The body's length, where the head says it.
    pub content_length: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaiting {
    Head,
    /// This many bytes of the body.
    Body(u64),
    /// All up to the end of the connection.
    BodyUntilClose,
    /// The line with a chunk's size.
    ChunkLine,
    /// This many bytes of a chunk.
    Chunk(u64),
    /// The line end behind a chunk's bytes.
    ChunkEnd,
    Trailers,
    /// The next request.
    Nothing,
}

/// Decodes the responses of one connection, one after the other: [`ResponseDecoder::expect`] for each
/// request, then [`ResponseDecoder::handle_input`] until [`HttpEvent::End`].
#[derive(Debug)]
pub struct ResponseDecoder {
    awaiting: Awaiting,
    /// The request was `HEAD`: its response has no body, whatever its head says.
    is_head: bool,
    /// The head, the line or the trailers that have come so far.
    kept: Vec<u8>,
    /// Bytes of the present line of a head or of trailers.
    line: usize,
    /// Bytes of the response so far.
    received: u64,
    informational: usize,
    /// The connection can carry another request after this response.
    is_reusable: bool,
    /// The head of the final response.
    head: Vec<u8>,
}

impl Default for ResponseDecoder {
    fn default() -> Self {
        Self {
            awaiting: Awaiting::Nothing,
            is_head: false,
            kept: Vec::new(),
            line: 0,
            received: 0,
            informational: 0,
            is_reusable: true,
            head: Vec::new(),
        }
    }
}

impl ResponseDecoder {
    /// The response to a request with this method comes next.
    pub fn expect(&mut self, method: &str) {
        self.awaiting = Awaiting::Head;
        self.is_head = method == "HEAD";
        self.kept.clear();
        self.head.clear();
        (self.line, self.received, self.informational) = (0, 0, 0);
        self.is_reusable = true;
    }

    /// Whether the connection can carry another request, once the response has ended.
    pub const fn is_reusable(&self) -> bool {
        self.is_reusable
    }

    /// Bytes of the response that have come so far, with their framing.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// The value of a header of the final response, the first where there are several.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Response::new(&mut headers);
        parsed.parse(&self.head).ok()?;
        parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    }

    /// Takes from `input` up to the next event; `None`: all of it was taken, and more is needed. After
    /// [`HttpEvent::End`] nothing is taken until [`ResponseDecoder::expect`]: what is left nobody asked for. Errors: a
    /// response that breaks the protocol, or has parts beyond any decent size. The connection is of no more use.
    pub fn handle_input<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<HttpEvent<'a>>, HttpError> {
        loop {
            // An empty body ends without further input.
            match self.awaiting {
                Awaiting::Nothing => return Ok(None),
                Awaiting::Body(0) => return Ok(Some(self.end())),
                Awaiting::Chunk(0) => self.awaiting = Awaiting::ChunkEnd,
                _ if input.is_empty() => return Ok(None),
                Awaiting::Head => {
                    if let Some(head) = self.take_head(input)? {
                        return Ok(Some(HttpEvent::Head(head)));
                    }
                }
                Awaiting::Body(most) | Awaiting::Chunk(most) => {
                    let bytes = self.take(input, most);
                    if let Awaiting::Body(left) | Awaiting::Chunk(left) = &mut self.awaiting {
                        *left -= bytes.len() as u64;
                    }
                    return Ok(Some(HttpEvent::Body(bytes)));
                }
                Awaiting::BodyUntilClose => return Ok(Some(HttpEvent::Body(self.take(input, u64::MAX)))),
                Awaiting::ChunkLine => self.take_chunk_line(input)?,
                Awaiting::ChunkEnd => self.take_chunk_end(input)?,
                Awaiting::Trailers => {
                    if self.take_block(input, "trailers", MOST_TRAILERS)? {
                        self.kept.clear();
                        return Ok(Some(self.end()));
                    }
                }
            }
        }
    }

    /// The connection has ended: the end of a response that goes on until then. Errors: the response was not complete.
    pub fn handle_end(&mut self) -> Result<HttpEvent<'static>, HttpError> {
        let within = match self.awaiting {
            Awaiting::BodyUntilClose => return Ok(self.end()),
            Awaiting::Head if self.received == 0 => "before the response",
            Awaiting::Head => "within the response's head",
            Awaiting::Nothing => "between responses",
            _ => "within the response's body",
        };
        Err(HttpError::Truncated { within, received: self.received })
    }

    fn end(&mut self) -> HttpEvent<'static> {
        self.awaiting = Awaiting::Nothing;
        HttpEvent::End
    }

    /// Takes up to `most` bytes of the input.
    fn take<'a>(&mut self, input: &mut &'a [u8], most: u64) -> &'a [u8] {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (taken, rest) = input.split_at(most.min(input.len()));
        *input = rest;
        self.received += taken.len() as u64;
        taken
    }

    const fn broken(&self, what: &'static str) -> HttpError {
        HttpError::Broken { what, at: self.received }
    }

    /// Keeps lines up to the empty one that ends a head and trailers; whether it has come. Each byte is seen once.
    fn take_block(&mut self, input: &mut &[u8], part: &'static str, limit: usize) -> Result<bool, HttpError> {
        let mut ended = false;
        let mut taken = 0;
        for byte in input.iter() {
            taken += 1;
            match byte {
                b'\n' if self.line == 0 => {
                    ended = true;
                    break;
                }
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
            if self.kept.len() + taken > limit {
                let unit = "bytes";
                return Err(HttpError::TooLarge { part, limit, unit });
            }
        }
        let bytes = self.take(input, taken as u64);
        self.kept.extend_from_slice(bytes);
        Ok(ended)
    }

    fn take_head(&mut self, input: &mut &[u8]) -> Result<Option<ResponseHead>, HttpError> {
        const PREFIX: &[u8] = b"HTTP/1.";
        let ended = self.take_block(input, "head", MOST_HEAD)?;
        let begun = self.kept.len().min(PREFIX.len());
        if self.kept.get(..begun) != PREFIX.get(..begun) {
            let first = self.kept.get(..self.kept.len().min(16)).unwrap_or_default();
            return Err(HttpError::NotHttp(first.escape_ascii().to_string()));
        }
        if !ended {
            return Ok(None);
        }
        let framing = Framing::of(&self.kept, self.received)?;
        match framing.status {
            101 => return Err(self.broken("it changes the protocol without a request")),
            ..200 => {
                self.informational += 1;
                if self.informational > MOST_INFORMATIONAL {
                    return Err(HttpError::TooLarge {
                        part: "announcement",
                        limit: MOST_INFORMATIONAL,
                        unit: "informational responses",
                    });
                }
                self.kept.clear();
                return Ok(None);
            }
            _ => {}
        }
        std::mem::swap(&mut self.head, &mut self.kept);
        self.kept.clear();
        self.is_reusable = framing.keeps_alive;
        let has_none = self.is_head || matches!(framing.status, 204 | 304);
        self.awaiting = match (has_none, framing.is_chunked, framing.content_length) {
            (true, ..) => Awaiting::Body(0),
            (_, Some(true), _) => Awaiting::ChunkLine,
            (_, None, Some(length)) => Awaiting::Body(length),
            (_, Some(false), _) | (_, None, None) => {
                self.is_reusable = false;
                Awaiting::BodyUntilClose
            }
        };
        Ok(Some(ResponseHead { status: framing.status, content_length: framing.content_length }))
    }

    fn take_chunk_line(&mut self, input: &mut &[u8]) -> Result<(), HttpError> {
        let end = input.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(input.len(), |at| at + 1);
        if self.kept.len() + length > MOST_CHUNK_LINE {
            return Err(HttpError::TooLarge { part: "chunk line", limit: MOST_CHUNK_LINE, unit: "bytes" });
        }
        let bytes = self.take(input, length as u64);
        self.kept.extend_from_slice(bytes);
        if end.is_none() {
            return Ok(());
        }
        let size = chunk_size(&self.kept).ok_or_else(|| self.broken("a chunk without a size"))?;
        self.kept.clear();
        self.awaiting = match size {
            0 => {
                self.line = 0;
                Awaiting::Trailers
            }
            size => Awaiting::Chunk(size),
        };
        Ok(())
    }

    fn take_chunk_end(&mut self, input: &mut &[u8]) -> Result<(), HttpError> {
        let wanted = if self.kept.is_empty() { b'\r' } else { b'\n' };
        let byte = self.take(input, 1);
        if byte != [wanted] {
            return Err(self.broken("a chunk is longer than its size"));
        }
        if wanted == b'\n' {
            self.kept.clear();
            self.awaiting = Awaiting::ChunkLine;
        } else {
            self.kept.extend_from_slice(byte);
        }
        Ok(())
    }
}

/// Where a message ends, as its head says.
struct Framing {
    status: u16,
    content_length: Option<u64>,
    /// Whether the last transfer coding is `chunked`; `None` without any.
    is_chunked: Option<bool>,
    keeps_alive: bool,
}

impl Framing {
    /// Reads a head that ends `at` bytes into its response.
    fn of(head: &[u8], at: u64) -> Result<Self, HttpError> {
        let broken = |what| HttpError::Broken { what, at };
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut parsed = httparse::Response::new(&mut headers);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            Err(httparse::Error::TooManyHeaders) => {
                return Err(HttpError::TooLarge { part: "head", limit: MOST_HEADERS, unit: "headers" });
            }
            _ => return Err(broken("its head cannot be read")),
        }
        let status = parsed.code.unwrap_or_default();
        if status < 100 {
            return Err(broken("its status is below 100"));
        }
        let mut framing =
            Self { status, content_length: None, is_chunked: None, keeps_alive: parsed.version == Some(1) };
        for header in parsed.headers.iter() {
            framing.take(header).map_err(broken)?;
        }
        // Who frames a message twice may mean either.
        if framing.is_chunked.is_some() && framing.content_length.is_some() {
            framing.content_length = None;
            framing.keeps_alive = false;
        }
        Ok(framing)
    }

    fn take(&mut self, header: &httparse::Header<'_>) -> Result<(), &'static str> {
        let mut words = header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        if header.name.eq_ignore_ascii_case("content-length") {
            for word in words {
                let length = decimal(word).ok_or("a length that is not a number")?;
                if self.content_length.is_some_and(|before| before != length) {
                    return Err("two different lengths");
                }
                self.content_length = Some(length);
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            let last = words.next_back().unwrap_or_default();
            self.is_chunked = Some(last.eq_ignore_ascii_case(b"chunked"));
        } else if header.name.eq_ignore_ascii_case("connection") {
            self.keeps_alive &= !words.any(|word| word.eq_ignore_ascii_case(b"close"));
        }
        Ok(())
    }
}

fn decimal(word: &[u8]) -> Option<u64> {
    if !word.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The size in a chunk's line, whose extensions say nothing to us.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.strip_suffix(b"\r\n")?.split(|byte| *byte == b';').next()?.trim_ascii_end();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
