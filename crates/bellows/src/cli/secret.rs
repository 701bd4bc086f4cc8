//! Passwords and tokens, which no option takes: others would see them in the list of processes.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use web::Secret;

use crate::failure::Failure;

/// Bytes of a file with a secret.
const LONGEST: u64 = 64 << 10;

/// The only line of a file, or else the variable, where it is set.
pub(super) fn secret(file: Option<&Path>, variable: &str) -> Result<Option<Secret>, Failure> {
    let Some(path) = file else {
        let set = std::env::var(variable).ok();
        return Ok(set.filter(|it| !it.is_empty()).map(Secret::new));
    };
    let mut text = String::new();
    let opened = File::open(path).map(|file| file.take(LONGEST + 1));
    let read = opened.and_then(|mut file| file.read_to_string(&mut text));
    read.map_err(|error| Failure::io("read", path, &error))?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() || text.len() as u64 > LONGEST || text.contains(char::is_control) {
        let cause = format!("{} holds no password or token", path.display());
        return Err(Failure::failed(cause, "write it on its only line")
            .observed(format_args!("{} bytes", text.len())));
    }
    Ok(Some(Secret::new(text)))
}
