//! Frames: what a node sends once the handshake is over, and what is understood of it.

use erl_dist::message::Message;
use erl_dist::term::Term;

use crate::term::{TermError, check, malformed};

pub(super) const LONGEST: usize = 64 << 20;
/// Room that is kept for the next frame.
const KEPT: usize = 1 << 20;
/// First byte of frames without an atom cache.
const PASS_THROUGH: u8 = 112;

/// A decoded frame.
#[derive(Debug)]
#[non_exhaustive]
pub enum Frame {
    /// It is still there.
    Tick,
    /// A message for a process, or a word about one.
    Message(Box<Message>),
    /// A message that is not decoded, and the process that it is for.
    Refused {
        /// The number of the process.
        to: u32,
        /// The decoder's error.
        error: TermError,
    },
    /// Something that does not matter to us.
    Other,
}

/// A frame that can be decoded.
#[derive(Debug)]
pub(super) enum Checked<'a> {
    /// Control and message, and the memory that both take once they are decoded.
    Whole {
        /// The bytes of both.
        bytes: &'a [u8],
        /// In bytes.
        memory: u64,
    },
    /// One that is not decoded.
    Rest(Frame),
}

impl<'a> Checked<'a> {
    /// Looks at what follows the length.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, TermError> {
        let Some((first, rest)) = bytes.split_first() else { return Ok(Self::Rest(Frame::Tick)) };
        if *first != PASS_THROUGH {
            return Err(TermError::Unknown { tag: *first, at: 0 });
        }
        let control = check(rest)?;
        let payload = rest.get(control.bytes..).unwrap_or_default();
        if payload.is_empty() {
            return Ok(Self::Whole { bytes: rest, memory: control.memory });
        }
        match check(payload) {
            Ok(size) if size.bytes == payload.len() => {
                Ok(Self::Whole { bytes: rest, memory: control.memory + size.memory })
            }
            Ok(_) => Err(TermError::Malformed("bytes follow the message".into())),
            Err(error) => match addressee(rest) {
                Some(to) => Ok(Self::Rest(Frame::Refused { to, error })),
                None => Err(error),
            },
        }
    }

    /// The memory that it takes once it is decoded, in bytes.
    pub(super) const fn memory(&self) -> u64 {
        match self {
            Self::Whole { memory, .. } => *memory,
            Self::Rest(_) => 0,
        }
    }

    /// The number of the process that it is for.
    pub(super) fn addressee(&self) -> Option<u32> {
        match self {
            Self::Whole { bytes, .. } => addressee(bytes),
            Self::Rest(_) => None,
        }
    }

    pub(super) fn decode(self) -> Result<Frame, TermError> {
        let bytes = match self {
            Self::Whole { bytes, .. } => bytes,
            Self::Rest(frame) => return Ok(frame),
        };
        Ok(match Message::read_from(&mut { bytes }) {
            Ok(message) => Frame::Message(Box::new(message)),
            // Operations that are not asked for, and that nobody misses.
            Err(erl_dist::message::RecvError::UnsupportedOp { .. }) => Frame::Other,
            Err(error) => return Err(malformed(&error)),
        })
    }
}

impl Frame {
    /// Reads what follows the length.
    pub fn read(bytes: &[u8]) -> Result<Self, TermError> {
        Checked::new(bytes)?.decode()
    }
}

/// The number of the process that a message is for whose first term is whole.
fn addressee(bytes: &[u8]) -> Option<u32> {
    let Ok(Term::Tuple(control)) = Term::decode(bytes) else { return None };
    match control.elements.as_slice() {
        [Term::FixInteger(operation), _, Term::Pid(to)] if [2, 22].contains(&operation.value) => Some(to.id),
        _ => None,
    }
}

/// Cuts what was read into frames.
#[derive(Default)]
pub(super) struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Hands each frame that is whole to `take`.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.bytes.extend_from_slice(bytes);
        let mut used = 0;
        while let Some((size, rest)) = self.bytes.get(used..).and_then(<[u8]>::split_first_chunk) {
            let size = u32::from_be_bytes(*size) as usize;
            if size > LONGEST {
                return Err(format!("it sends a message of {size} bytes; the limit is {LONGEST}"));
            }
            let Some(frame) = rest.get(..size) else { break };
            take(frame)?;
            used += 4 + size;
        }
        self.bytes.drain(..used);
        if self.bytes.len() < KEPT && self.bytes.capacity() > 2 * KEPT {
            self.bytes.shrink_to(KEPT);
        }
        Ok(())
    }
}
