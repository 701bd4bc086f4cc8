//! One connection's TLS, either side, without the socket: encrypted bytes in, plain ones out, and back. Bytes are
//! decrypted in the buffer that they were read to, which all connections of a thread share; a session keeps only the
//! start of a record or handshake message whose rest has not come. What is given to [`Session::seal`] becomes records
//! of up to 16 KiB at once: what is not in [`Session::pending`] is on its way or with the caller. `rustls` allocates
//! once per record.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, ServerConfig};

use super::error::TlsError;

/// How long a buffer for encrypted bytes is: beside what is kept there is always room to read to.
pub const CIPHER_BYTES: usize = KEPT_BYTES + (32 << 10);
/// Bytes that may be kept: the longest message of a handshake (64 KiB, where a chain of certificates
/// needs them), what its records add to it, and the start of the next record.
const KEPT_BYTES: usize = 96 << 10;
const READ_BYTES: usize = 64 << 10;
/// Plain bytes that are sealed at once: four full records.
const SEAL_BYTES: usize = 64 << 10;
/// A record's largest payload, and more than a record adds to it.
const RECORD_BYTES: usize = 16 << 10;
const RECORD_EXTRA: usize = 64;

/// A side of TLS: what `rustls` has under the same names for both, without a common trait.
pub trait Side {
    /// Data of its states.
    type Data;
    /// Whether bytes that are not TLS are an error with a name; elsewhere they get an alert.
    const NAMES_STRANGERS: bool;

    /// The next thing to do, from encrypted bytes.
    fn process<'c, 'i>(&'c mut self, encrypted: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// State common to both sides.
    fn common(&self) -> &CommonState;
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    const NAMES_STRANGERS: bool = true;

    fn process<'c, 'i>(&'c mut self, encrypted: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(encrypted)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    const NAMES_STRANGERS: bool = false;

    fn process<'c, 'i>(&'c mut self, encrypted: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(encrypted)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

/// A client's session.
pub type ClientSession = Session<UnbufferedClientConnection>;
/// A server's session.
pub type ServerSession = Session<UnbufferedServerConnection>;

/// One connection's TLS.
pub struct Session<S> {
    connection: S,
    /// The start of a record, or of a handshake's message, whose rest has not come.
    held: Vec<u8>,
    /// Encrypted, to be written from `head` on.
    sealed: Vec<u8>,
    head: usize,
    /// The handshake is over.
    open: bool,
    /// The other side will send nothing more.
    ended: bool,
    /// Bytes came.
    heard: bool,
    /// The other side's mistake or refusal has ended it.
    failed: bool,
    /// `close_notify` was queued.
    said_end: bool,
}

impl ClientSession {
    /// Queues the first flight. Errors: a configuration that allows nothing.
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, rustls::Error> {
        let mut session = Self::new(UnbufferedClientConnection::new(config, name)?);
        session.drive(&mut [], &mut [])?;
        Ok(session)
    }
}

impl ServerSession {
    /// Waits for the client's first flight. Errors: a configuration that allows nothing.
    pub fn server(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        Ok(Self::new(UnbufferedServerConnection::new(config)?))
    }
}

impl<S: Side> Session<S> {
    const fn new(connection: S) -> Self {
        Self {
            connection,
            held: Vec::new(),
            sealed: Vec::new(),
            head: 0,
            open: false,
            ended: false,
            heard: false,
            failed: false,
            said_end: false,
        }
    }

    /// Puts what was kept to the front of `buffer` and returns what follows, to read to. A buffer of
    /// [`CIPHER_BYTES`] always has room; without any, nothing could be told from an end.
    pub fn room<'a>(&self, buffer: &'a mut [u8]) -> &'a mut [u8] {
        let kept = self.held.len().min(buffer.len());
        let (front, room) = buffer.split_at_mut(kept);
        front.copy_from_slice(self.held.get(..kept).unwrap_or_default());
        let size = room.len().min(READ_BYTES);
        room.get_mut(..size).unwrap_or_default()
    }

    /// Decrypts `buffer`, which begins with what [`Self::room`] put there, followed by `read` bytes; returns how many
    /// bytes of `plain` it filled. `plain` is as long as `buffer`. Errors: what is not TLS, what TLS refuses, and what
    /// is longer than anything that it allows; [`Self::pending`] tells the other side why.
    pub fn receive(&mut self, buffer: &mut [u8], read: usize, plain: &mut [u8]) -> Result<usize, TlsError> {
        let filled = (self.held.len() + read).min(buffer.len());
        let cipher = buffer.get_mut(..filled).unwrap_or_default();
        if !self.heard && read > 0 {
            self.heard = true;
            if S::NAMES_STRANGERS {
                not_tls(cipher)?;
            }
        }
        let (used, produced) = self.drive(cipher, plain).map_err(TlsError::Protocol)?;
        let rest = cipher.get(used..).unwrap_or_default();
        self.held.clear();
        if rest.len() > KEPT_BYTES {
            self.failed = true;
            return Err(TlsError::TooLong(rest.len()));
        }
        if rest.is_empty() && self.held.capacity() > 2 * RECORD_BYTES {
            // A long handshake is over; ten thousand connections need not remember it.
            self.held = Vec::new();
        }
        self.held.extend_from_slice(rest);
        Ok(produced)
    }

    /// Queues the alert that goes with an error. As long as there is one it is handed out before
    /// any input is looked at.
    #[cold]
    fn say_why(&mut self) {
        while self.connection.common().wants_write() {
            let Ok(ConnectionState::EncodeTlsData(mut data)) = self.connection.process(&mut []).state else { return };
            if encode(&mut self.sealed, |room| data.encode(room)).is_err() {
                return;
            }
        }
    }

    /// Queues the word that nothing more is sent (`close_notify`), once the handshake is over. A
    /// second call does nothing.
    pub fn say_end(&mut self) {
        if self.failed || std::mem::replace(&mut self.said_end, true) {
            return;
        }
        let (connection, held) = (&mut self.connection, &mut self.held);
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = connection.process(held).state {
            // A session that cannot say it ends all the same.
            let _ = encode(&mut self.sealed, |room| {
                traffic.queue_close_notify(room).map_err(|error| match error {
                    EncryptError::InsufficientSize(size) => EncodeError::InsufficientSize(size),
                    EncryptError::EncryptExhausted => EncodeError::AlreadyEncoded,
                })
            });
        }
    }

    /// The certificate that the other side has shown and that was verified.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.connection.common().peer_certificates()?.first()
    }

    /// Encrypts the start of `plain`, where nothing is pending and the handshake is over; returns how many bytes it
    /// took. Errors: a session that has failed.
    pub fn seal(&mut self, plain: &[u8]) -> Result<usize, TlsError> {
        if !self.open || self.failed || !self.pending().is_empty() || plain.is_empty() {
            return Ok(0);
        }
        let plain = plain.get(..SEAL_BYTES).unwrap_or(plain);
        // The connection looks at what is kept before it says that it may write.
        let mut held = std::mem::take(&mut self.held);
        let result = self.encrypt(&mut held, plain);
        self.held = held;
        result.map_err(TlsError::Protocol)
    }

    fn encrypt(&mut self, held: &mut [u8], plain: &[u8]) -> Result<usize, rustls::Error> {
        let mut room = plain.len() + (plain.len() / RECORD_BYTES + 1) * RECORD_EXTRA;
        loop {
            let state = self.connection.process(held).state?;
            match state {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let start = self.sealed.len();
                    self.sealed.resize(start + room, 0);
                    let target = self.sealed.get_mut(start..).unwrap_or_default();
                    let written = traffic.encrypt(plain, target);
                    self.sealed.truncate(start + *written.as_ref().unwrap_or(&0));
                    match written {
                        Ok(_) => return Ok(plain.len()),
                        Err(EncryptError::EncryptExhausted) => return Err(rustls::Error::EncryptError),
                        // A configuration with short records adds more to them.
                        Err(EncryptError::InsufficientSize(size)) if size.required_size > room => {
                            room = size.required_size;
                        }
                        Err(EncryptError::InsufficientSize(size)) => return Err(too_small(size.required_size)),
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(&mut self.sealed, |room| data.encode(room))?;
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                // Whatever else there is to do comes with the next bytes.
                _ => return Ok(0),
            }
        }
    }

    /// Takes the connection as far as `cipher` leads; how much of it was used, and how much of `plain` was filled.
    fn drive(&mut self, cipher: &mut [u8], plain: &mut [u8]) -> Result<(usize, usize), rustls::Error> {
        let (mut used, mut produced) = (0, 0);
        loop {
            let rest = cipher.get_mut(used..).unwrap_or_default();
            let UnbufferedStatus { mut discard, state, .. } = self.connection.process(rest);
            let state = match state {
                Ok(state) => state,
                Err(error) => {
                    self.failed = true;
                    self.say_why();
                    return Err(error);
                }
            };
            let more = match state {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        let end = produced + record.payload.len();
                        plain.get_mut(produced..end).ok_or_else(|| too_small(end))?.copy_from_slice(record.payload);
                        produced = end;
                    }
                    true
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(&mut self.sealed, |room| data.encode(room))?;
                    true
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    true
                }
                ConnectionState::WriteTraffic(_) => {
                    self.open = true;
                    false
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    self.ended = true;
                    false
                }
                _ => false,
            };
            used += discard;
            if !more {
                return Ok((used, produced));
            }
        }
    }

    /// Bytes to write to the socket.
    pub fn pending(&self) -> &[u8] {
        self.sealed.get(self.head..).unwrap_or_default()
    }

    /// This many of them are written.
    pub fn consume(&mut self, written: usize) {
        self.head += written;
        if self.head >= self.sealed.len() {
            self.sealed.clear();
            self.head = 0;
        }
    }

    /// The handshake is over.
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// The other side has said that it sends nothing more.
    pub const fn has_ended(&self) -> bool {
        self.ended
    }
}

impl<S> std::fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("open", &self.open).field("ended", &self.ended).finish_non_exhaustive()
    }
}

fn encode(
    sealed: &mut Vec<u8>,
    mut into: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), rustls::Error> {
    let start = sealed.len();
    loop {
        let room = sealed.get_mut(start..).unwrap_or_default();
        match into(room) {
            Ok(written) => {
                sealed.truncate(start + written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(size)) if size.required_size > sealed.len() - start => {
                sealed.resize(start + size.required_size, 0);
            }
            Err(error) => return Err(rustls::Error::General(error.to_string())),
        }
    }
}

fn too_small(needed: usize) -> rustls::Error {
    rustls::Error::General(format!("a buffer has no room for {needed} bytes"))
}

/// Records begin with their type: 20 to 23 (RFC 8446, 5.1).
fn not_tls(bytes: &[u8]) -> Result<(), TlsError> {
    let Some(first) = bytes.first().filter(|first| !(20..=23).contains(*first)) else { return Ok(()) };
    let name = match first {
        b'A' if bytes.starts_with(b"AMQP") => "AMQP without TLS",
        b'H' if bytes.starts_with(b"HTTP") => "HTTP without TLS",
        _ => "no TLS",
    };
    let start = bytes.get(..bytes.len().min(16)).unwrap_or_default();
    Err(TlsError::OtherProtocol(format!(
        "the port speaks {name} (its first bytes are {:?})",
        String::from_utf8_lossy(start)
    )))
}
