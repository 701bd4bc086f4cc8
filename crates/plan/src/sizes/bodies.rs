//! Message bodies that are there before the load: from files, or random JSON documents.

use std::path::{Path, PathBuf};

use measure::Problem;

use crate::Error;
use crate::random::Random;

/// Bodies are kept in memory.
const MOST_BYTES: u64 = 1 << 30;
const MOST_BODIES: usize = 100_000;

/// Message bodies that are there before the load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    bodies: Vec<Box<[u8]>>,
}

impl Bodies {
    /// Those that were made in memory.
    pub(super) const fn new(bodies: Vec<Box<[u8]>>) -> Self {
        Self { bodies }
    }

    /// Reads files in the order given; of a folder all of them, in the order of their names. Errors: [`Error::Invalid`]
    /// with the path, where something cannot be read, is no file, or is too large to be kept in memory (1 GiB in all).
    pub fn read<P: AsRef<Path>>(paths: &[P]) -> Result<Self, Error> {
        Self::read_files(&Self::files(paths)?)
    }

    /// The files that are read, in this order. Errors: a folder that cannot be read, or holds none.
    pub fn files<P: AsRef<Path>>(paths: &[P]) -> Result<Vec<PathBuf>, Error> {
        let mut files = Vec::new();
        for path in paths.iter().map(AsRef::as_ref) {
            if path.is_dir() {
                files.extend(files_in(path)?);
            } else {
                files.push(path.to_owned());
            }
        }
        Ok(files)
    }

    fn read_files(files: &[PathBuf]) -> Result<Self, Error> {
        let count = files.len();
        let help = format!("name 1 to {MOST_BODIES} files, or a folder with as many");
        let refused = Error::invalid(format!("cannot take message bodies from {count} files"), help).observed(count);
        refused.unless((1..=MOST_BODIES).contains(&count))?;
        let mut left = MOST_BYTES;
        let mut bodies = Vec::with_capacity(files.len());
        for file in files {
            // Asked for before it is read, so that a device without an end is not.
            let facts = std::fs::metadata(file).map_err(|e| failed(file, &e))?;
            if !facts.is_file() {
                return Err(failed(file, &"it is no regular file"));
            }
            left = left.checked_sub(facts.len()).ok_or_else(|| {
                let cause = format!("the message bodies up to {} have more than {MOST_BYTES} bytes", file.display());
                Error::invalid(cause, "take fewer or smaller files: they are kept in memory").observed(file.display())
            })?;
            let content = std::fs::read(file).map_err(|e| failed(file, &e))?;
            bodies.push(content.into_boxed_slice());
        }
        Ok(Self { bodies })
    }

    /// Bytes of each.
    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> {
        self.bodies.iter().map(|body| body.len())
    }

    /// The body of a producer's `sequence`-th message.
    #[inline]
    pub fn content(&self, sequence: u64) -> &[u8] {
        let at = sequence % self.bodies.len().max(1) as u64;
        self.bodies.get(at as usize).map_or(&[], |body| body)
    }
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = std::fs::read_dir(folder).and_then(|entries| entries.map(|it| it.map(|it| it.path())).collect());
    let mut files: Vec<PathBuf> = entries.map_err(|e| failed(folder, &e))?;
    files.retain(|file| file.is_file());
    if files.is_empty() {
        return Err(failed(folder, &"there are 0 files in it"));
    }
    files.sort();
    Ok(files)
}

fn failed(path: &Path, cause: &dyn std::fmt::Display) -> Error {
    let help = "name a file, or a folder of files, that may be read";
    Error::Invalid(Problem::new(format!("cannot read message bodies from {}", path.display()), cause, help))
}

/// The smallest document: `{"abcd":"e"}`.
const SMALLEST: usize = 12;
/// A name has 5 to 30 small letters, …
const NAME: (usize, usize) = (5, 30);
/// … a value 5 to 200 letters and digits, as PerfTest's have.
const VALUE: (usize, usize) = (5, 200);
/// Quotes and colon of a member.
const AROUND: usize = 5;
/// A member that would leave less room for the next takes it itself: the longest name with a number
/// of ten digits behind it, and one byte of a value.
const ROOM: usize = NAME.1 + 10 + AROUND + 1;
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// Random JSON documents of one size, each an object with texts in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json {
    /// Bytes of each, 12 at least.
    pub size: usize,
    /// Number of documents.
    pub count: usize,
    /// Names and values that they are made of.
    pub fields: usize,
    /// Any number; the same gives the same documents.
    pub seed: u64,
}

impl Json {
    /// PerfTest's 100 documents of 1,000 names and values.
    pub const fn new(size: usize) -> Self {
        Self { size, count: 100, fields: 1_000, seed: 0 }
    }

    /// Makes the documents. Errors: [`Error::Invalid`] for documents that cannot be made or kept in memory.
    pub fn bodies(&self) -> Result<Bodies, Error> {
        self.validate()?;
        let pool = Pool::new(self.fields, self.seed);
        let documents = (0..self.count).map(|n| {
            let random = Random::new(self.seed ^ 0x6A73_6F6E, n as u64);
            pool.document(self.size, random).into_boxed_slice()
        });
        Ok(Bodies::new(documents.collect()))
    }

    fn validate(&self) -> Result<(), Error> {
        let Self { size, count, fields, .. } = *self;
        let bytes = measure::counted(size as u64, "byte");
        let cause = format!("a JSON document of {bytes} has no room for a member");
        let refused = Error::invalid(cause, format!("ask for at least {SMALLEST} bytes")).observed(size);
        refused.unless(size >= SMALLEST)?;
        for (what, number) in [("JSON documents", count), ("names", fields)] {
            let help = format!("ask for 1 to {MOST_BODIES}");
            let refused = Error::invalid(format!("{number} {what} cannot be made"), help).observed(number);
            refused.unless((1..=MOST_BODIES).contains(&number))?;
        }
        let bytes = (size as u64).saturating_mul(count as u64);
        let cause = format!("{count} JSON documents of {size} bytes are {bytes} bytes, and {MOST_BYTES} are the most");
        let refused = Error::invalid(cause, "ask for fewer or smaller ones: they are kept in memory").observed(bytes);
        refused.unless(bytes <= MOST_BYTES)
    }
}

/// Names and values to choose from.
struct Pool {
    names: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
}

impl Pool {
    fn new(fields: usize, seed: u64) -> Self {
        let words = |sequence: u64, lengths: (usize, usize), letters: usize| {
            let word = |n: usize| {
                let random = Random::new(seed ^ sequence, n as u64);
                let more = random.word(0) as usize % (lengths.1 - lengths.0 + 1);
                text(random, lengths.0 + more, letters)
            };
            (0..fields).map(word).collect()
        };
        Self { names: words(1 << 32, NAME, 26), values: words(2 << 32, VALUE, LETTERS.len()) }
    }

    /// A document of this many bytes.
    fn document(&self, size: usize, random: Random) -> Vec<u8> {
        let mut out = Vec::with_capacity(size);
        out.push(b'{');
        let first = random.word(0) as usize;
        for member in 0.. {
            let name = self.name(first, member);
            let value = pick(&self.values, random.word(member as u64 + 1) as usize);
            let left = size.saturating_sub(out.len() + 1);
            let used = AROUND + name.len() + value.len() + 1;
            if left >= used + ROOM {
                put(&mut out, &name, value);
                out.push(b',');
                continue;
            }
            // At least one byte of a value.
            let name = name.get(..left - AROUND - 1).unwrap_or(&name);
            let rest = left - AROUND - name.len();
            put(&mut out, name, &text(Random::new(random.word(1 << 40), 0), rest, LETTERS.len()));
            break;
        }
        out.push(b'}');
        out
    }

    /// The name of a document's member, all in turn; a number keeps repeated ones of large documents apart.
    fn name(&self, first: usize, member: usize) -> Vec<u8> {
        let mut name = pick(&self.names, first.wrapping_add(member)).to_vec();
        name.extend_from_slice(member.to_string().as_bytes());
        name
    }
}

fn pick(all: &[Vec<u8>], at: usize) -> &[u8] {
    all.get(at % all.len().max(1)).map_or(&[], Vec::as_slice)
}

fn put(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [b"\"".as_slice(), name, b"\":\"", value, b"\""] {
        out.extend_from_slice(part);
    }
}

/// A word of the first `letters` letters.
fn text(random: Random, len: usize, letters: usize) -> Vec<u8> {
    let letter = |n: usize| LETTERS.get(random.word(n as u64 + 1) as usize % letters).copied().unwrap_or(b'a');
    (0..len).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The names of a document: it must be an object of texts, in one line.
    fn names(document: &[u8]) -> Vec<String> {
        let text = std::str::from_utf8(document).unwrap();
        let inner = text.strip_prefix("{\"").and_then(|t| t.strip_suffix("\"}"));
        let members = inner.unwrap_or_else(|| panic!("{text}")).split("\",\"");
        let name = |member: &str| {
            let (name, value) = member.split_once("\":\"").unwrap_or_else(|| panic!("{text}"));
            let words = [name, value].map(|w| w.bytes().all(|b| b.is_ascii_alphanumeric()));
            assert_eq!(words, [true, true], "{member}");
            assert!(!value.is_empty(), "{member}");
            name.to_owned()
        };
        members.map(name).collect()
    }

    #[test]
    fn documents_have_their_size_and_no_name_twice() {
        for size in (12..600).chain([1_000, 10_000, 100_000]) {
            for fields in [1, 10, 1_000] {
                let json = Json { count: 3, fields, ..Json::new(size) };
                let bodies = json.bodies().unwrap();
                for n in 0..3 {
                    let document = bodies.content(n);
                    assert_eq!(document.len(), size);
                    let names = names(document);
                    let different: HashSet<_> = names.iter().collect();
                    assert_eq!(different.len(), names.len(), "{size} bytes");
                }
            }
        }
    }

    #[test]
    fn a_seed_makes_the_same_documents_again() {
        let bodies = |seed| Json { seed, ..Json::new(500) }.bodies().unwrap();
        assert_eq!(bodies(7), bodies(7));
        assert_ne!(bodies(7).content(0), bodies(8).content(0));
        assert_ne!(bodies(7).content(0), bodies(7).content(1));
        assert_eq!(bodies(7).bodies.len(), 100);
    }

    #[test]
    fn documents_that_cannot_be_made_are_refused() {
        let json = Json::new(1_000);
        for wrong in [
            Json::new(11),
            Json { count: 0, ..json },
            Json { fields: 0, ..json },
            Json { count: 100_000, ..Json::new(100_000) },
        ] {
            assert!(wrong.bodies().is_err(), "{wrong:?}");
        }
    }
}
