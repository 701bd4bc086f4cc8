//! Files in pieces, beside the messages of a run: those that an experiment names go to the workers, those of a worker's
//! run folder to whoever collects the run. Who wants one asks for a piece at a time, and asks again where none comes.
//!
//! ```text
//! request   JSON: {"version":1,"asker":…,"run":…,"file":…,"from":…}
//! piece     JSON: {"version":1,"owner":…,"name":…,"file":…,"from":…,"files":{…}} | \n | bytes
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::message::{VERSION, check_size, check_version};
use crate::slice::Malformed;

/// Bytes of a piece at most.
pub const PIECE: usize = 512 << 10;

/// Asks for a piece of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRequest {
    version: u64,
    /// Who asks: a random number.
    pub asker: u64,
    /// Name of the run.
    pub run: String,
    /// The file; empty for the names and sizes of those that there are.
    pub file: String,
    /// First byte.
    pub from: u64,
}

impl PieceRequest {
    /// A request.
    pub const fn new(asker: u64, run: String, file: String, from: u64) -> Self {
        Self { version: VERSION, asker, run, file, from }
    }

    /// Encodes it. Errors: it is too large for a message.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let bytes = serde_json::to_vec(self).map_err(|error| Malformed(error.to_string()))?;
        check_size(&bytes).map(|()| bytes)
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        check_size(bytes)?;
        let request: Self = serde_json::from_slice(bytes).map_err(|error| Malformed(error.to_string()))?;
        check_version(request.version).map(|()| request)
    }
}

/// A piece of a file, or the files that there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    version: u64,
    /// Whose file it is: a random number of that process.
    pub owner: u64,
    /// That worker's name; empty where it is the coordinator's.
    pub name: String,
    /// The file; empty where it is asked for [`Self::files`].
    pub file: String,
    /// First byte.
    pub from: u64,
    /// Files with their sizes.
    pub files: BTreeMap<String, u64>,
    /// Its bytes; none beyond the file's end.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

impl Piece {
    /// The answer to a request, without bytes or files yet.
    pub fn answer(request: &PieceRequest, owner: u64, name: String) -> Self {
        let (file, from) = (request.file.clone(), request.from);
        Self { version: VERSION, owner, name, file, from, files: BTreeMap::new(), bytes: Vec::new() }
    }

    /// Encodes it. Errors: it is too large for a message.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let mut bytes = serde_json::to_vec(self).map_err(|error| Malformed(error.to_string()))?;
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.bytes);
        check_size(&bytes).map(|()| bytes)
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        check_size(bytes)?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let (head, rest) = end.and_then(|end| bytes.split_at_checked(end)).unwrap_or((bytes, b"".as_slice()));
        let piece: Self = serde_json::from_slice(head).map_err(|error| Malformed(error.to_string()))?;
        check_version(piece.version)?;
        Ok(Self { bytes: rest.get(1..).unwrap_or_default().to_vec(), ..piece })
    }
}
