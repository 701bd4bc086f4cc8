//! The end of a broker's log, and what it grows by.

use std::{
    fs,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// Bytes that are read of a log at once, and that a line has at most.
const MOST_BYTES: u64 = 64 * 1_024;

/// Reads the lines by which a log grows.
#[derive(Clone, Debug)]
pub struct LogFollower {
    log: PathBuf,
    offset: u64,
}

impl LogFollower {
    /// From the log's beginning.
    pub const fn new(log: PathBuf) -> Self {
        Self { log, offset: 0 }
    }

    /// New whole lines, without empty ones. Of too many for once it says how many they were.
    pub fn lines(&mut self) -> Vec<String> {
        let bytes = self.read().unwrap_or_default();
        let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if bytes.len() as u64 == MOST_BYTES => bytes.len(),
            None => 0,
        };
        self.offset += whole as u64;
        let text = String::from_utf8_lossy(bytes.get(..whole).unwrap_or_default());
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let mut told: Vec<String> = lines.map(str::to_owned).collect();
        let is_full = bytes.len() as u64 == MOST_BYTES;
        match self.pass(is_full).unwrap_or_default() {
            0 => {}
            1 => told.push("(1 line left out)".to_owned()),
            many => told.push(format!("({} lines left out)", measure::count(many))),
        }
        told
    }

    /// Passes over the whole lines that are left, and counts those that are not empty.
    fn pass(&mut self, is_full: bool) -> std::io::Result<u64> {
        if !is_full {
            return Ok(0);
        }
        let mut file = fs::File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let (mut lines, mut is_empty, mut read) = (0, true, 0_u64);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            if (&mut file).take(MOST_BYTES).read_to_end(&mut bytes)? == 0 {
                return Ok(lines);
            }
            for byte in &bytes {
                read += 1;
                if *byte == b'\n' {
                    lines += u64::from(!is_empty);
                    is_empty = true;
                    self.offset += std::mem::take(&mut read);
                } else {
                    is_empty &= byte.is_ascii_whitespace();
                }
            }
        }
    }

    fn read(&self) -> std::io::Result<Vec<u8>> {
        let mut file = fs::File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The last `lines` lines of a log that have something in them.
pub fn tail(log: &Path, lines: usize) -> String {
    let text = read(log);
    let told: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    told.get(told.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}

/// A whole log; what is not UTF-8 in it is replaced.
pub(super) fn read(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_followed_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("broker.log");
        let mut follower = LogFollower::new(log.clone());
        assert!(follower.lines().is_empty(), "there is none yet");
        let mut written = String::from("first\n\nsecond\nthi");
        fs::write(&log, &written).unwrap();
        assert_eq!(follower.lines(), ["first", "second"]);
        assert!(follower.lines().is_empty());
        written.push_str("rd\n");
        fs::write(&log, &written).unwrap();
        assert_eq!(follower.lines(), ["third"]);
        // Without an end of its own a line is broken, and memory stays bounded.
        written.push_str(&"x".repeat(2 * MOST_BYTES as usize + 1));
        fs::write(&log, &written).unwrap();
        let lengths: Vec<usize> = (0..3).flat_map(|_| follower.lines()).map(|line| line.len()).collect();
        assert_eq!(lengths, [MOST_BYTES as usize; 2]);
    }

    #[test]
    fn of_a_log_that_grows_too_fast_it_is_said_how_many_lines_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("broker.log");
        let mut follower = LogFollower::new(log.clone());
        let line = |number: u32| format!("{number:08} something went wrong\n\n");
        let most = u32::try_from(MOST_BYTES).unwrap() / 16;
        let mut written: String = (0..most).map(line).collect();
        written.push_str("the last one is not who");
        fs::write(&log, &written).unwrap();
        let told = follower.lines();
        let (left_out, lines) = told.split_last().unwrap();
        let missing = most as usize - lines.len();
        assert!(missing > 100, "{missing}");
        let missing = measure::count(missing as u64);
        assert_eq!(*left_out, format!("({missing} lines left out)"));
        assert!(follower.lines().is_empty());
        written.push_str("le\n");
        fs::write(&log, &written).unwrap();
        assert_eq!(follower.lines(), ["the last one is not whole"]);
    }
}
