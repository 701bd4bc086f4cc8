//! Files that hold one value as JSON.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use stacks::{bounded::read, replace_file};

use crate::Error;

/// The value of a JSON file that has at most this many bytes.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, most: u64) -> Result<T, Error> {
    let text = read(path, most).map_err(|source| Error::Io {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&text).map_err(|error| Error::Damaged {
        path: path.to_owned(),
        cause: error.to_string(),
    })
}

/// Writes a value as JSON, at once or not at all.
pub(crate) fn replace_json(path: PathBuf, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::from);
    let written = text.and_then(|text| replace_file(&path, &text));
    written.map_err(|source| Error::Io {
        action: "write",
        path,
        source,
    })
}
