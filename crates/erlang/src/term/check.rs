//! Whether bytes are a term that can be decoded without harm: the decoder recurses and allocates as the bytes say, so
//! that nesting, lengths, the number of terms and the memory that they take are looked at before, without recursion.

use std::fmt;
use std::mem::size_of;

use erl_dist::term::Term;

use super::show::cut;

pub(crate) const DEEPEST: usize = 256;
const MOST_TERMS: u64 = 4 << 20;
/// The most memory that a message takes once it is decoded, in bytes: a byte can become a term of its own.
pub(crate) const MOST_MEMORY: u64 = 256 << 20;
/// A term's place in the list, tuple or map that holds it.
const TERM: u64 = size_of::<Term>() as u64;
/// Bytes of an allocation beside its content: head and rounding.
const ALLOCATION: u64 = 32;
/// Bytes of a function or reference that is allocated by itself.
const BOXED: u64 = 160;
const LONGEST_INTEGER: usize = 1 << 10;
const LONGEST_REFERENCE: usize = 16;
const VERSION: u8 = 131;
/// Bytes of the decoder's own words that are told.
const SHOWN: usize = 200;

/// Why bytes are not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermError {
    /// It ends before it is whole.
    Truncated,
    /// Lists, tuples and maps in each other, deeper than this.
    TooDeep(usize),
    /// More terms than this.
    TooMany(u64),
    /// More memory than this, in bytes, once it is decoded.
    TooLarge(u64),
    /// A part that is too long, and its length.
    TooLong(&'static str, usize),
    /// A byte that stands for no kind of term that a node sends, and its place.
    Unknown {
        /// The byte.
        tag: u8,
        /// Its place.
        at: usize,
    },
    /// A part of it that is not what has to be there.
    Malformed(String),
}

impl fmt::Display for TermError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("it is incomplete"),
            Self::TooDeep(most) => write!(f, "it is nested deeper than {most} levels"),
            Self::TooMany(most) => write!(f, "it has more than {most} terms"),
            Self::TooLarge(most) => {
                write!(f, "decoded it takes more than {} MB of memory", most >> 20)
            }
            Self::TooLong(what, length) => write!(f, "{what} of {length} bytes is too long"),
            Self::Unknown { tag, at } => write!(f, "byte {tag} at {at} begins no term"),
            Self::Malformed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for TermError {}

/// Decodes one term, which has to fill the bytes. Errors: no term, or one that is too large or too deep.
pub fn decode(bytes: &[u8]) -> Result<Term, TermError> {
    let used = check(bytes)?.bytes;
    if used != bytes.len() {
        return Err(TermError::Malformed(format!("{} bytes follow it", bytes.len() - used)));
    }
    Term::decode(bytes).map_err(|error| malformed(&error))
}

/// The decoder's failure, cut: it can hold a term as text, as large as the term.
pub(crate) fn malformed(error: &dyn fmt::Display) -> TermError {
    TermError::Malformed(cut(error, SHOWN))
}

/// Size of a term, encoded and decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermSize {
    /// Its bytes as they came.
    pub bytes: usize,
    /// The memory that it takes at most, decoded, in bytes.
    pub memory: u64,
}

/// Appends a term's bytes.
pub fn encode(term: &Term, bytes: &mut Vec<u8>) -> Result<(), TermError> {
    term.encode(bytes).map_err(|error| TermError::Malformed(error.to_string()))
}

/// How many bytes the term at the front has, and how much memory it takes.
pub fn check(bytes: &[u8]) -> Result<TermSize, TermError> {
    let mut cursor = Cursor { bytes, at: 0, terms: 0, memory: TERM };
    if cursor.byte()? != VERSION {
        return Err(TermError::Unknown { tag: bytes.first().copied().unwrap_or_default(), at: 0 });
    }
    // Terms that are to come on each level.
    let mut levels: Vec<u64> = vec![1];
    while let Some(left) = levels.last_mut() {
        if *left == 0 {
            levels.pop();
            continue;
        }
        *left -= 1;
        let inner = cursor.head()?;
        if inner > 0 {
            if levels.len() > DEEPEST {
                return Err(TermError::TooDeep(DEEPEST));
            }
            cursor.expect(inner)?;
            levels.push(inner);
        }
    }
    Ok(TermSize { bytes: cursor.at, memory: cursor.memory })
}

/// Bytes of a map's table beside keys and values: it doubles when seven eighths are full, from 4 on, and both exist.
fn map_memory(pairs: u64) -> u64 {
    let places = (pairs.saturating_mul(8) / 7 + 1).next_power_of_two().max(4);
    places.saturating_mul(2 * TERM + 1) + 2 * ALLOCATION
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    terms: u64,
    /// Bytes of the terms so far once they are decoded.
    memory: u64,
}

impl Cursor<'_> {
    /// Reads a term without those inside it, whose number it returns.
    fn head(&mut self) -> Result<u64, TermError> {
        let at = self.at;
        match self.byte()? {
            // Small integer, integer, float, float of old, nil.
            97 => self.skip(1),
            98 => self.skip(4),
            70 => self.skip(8),
            99 => self.skip(31),
            106 => Ok(0),
            // Atoms: of old, whose bytes can become two each, and in UTF-8.
            100 => self.named(2).and_then(|it| self.take(it)),
            115 => self.named(1).and_then(|it| self.take(it)),
            118 => self.named(2).map(|_| 0),
            119 => self.named(1).map(|_| 0),
            // String, binary, and one with bits.
            107 => self.named(2).map(|_| 0),
            109 => self.named(4).map(|_| 0),
            77 => self.bits(),
            // Integers of any length.
            110 => self.integer(1),
            111 => self.integer(4),
            // Tuples, list, map.
            104 => self.several(1, 0),
            105 => self.several(4, 0),
            108 => self.several(4, 1),
            116 => self.map(),
            // Processes, ports, references.
            103 => self.node(9),
            88 => self.node(12),
            102 => self.node(5),
            89 => self.node(8),
            120 => self.node(12),
            101 => self.node(5),
            114 => self.reference(1),
            90 => self.reference(4),
            // Functions.
            113 => self.export(),
            112 => self.function(),
            tag => Err(TermError::Unknown { tag, at }),
        }
    }

    /// So many terms follow, each of a byte at least.
    fn expect(&mut self, count: u64) -> Result<(), TermError> {
        self.terms += count;
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(TermError::Truncated);
        }
        if self.terms > MOST_TERMS {
            return Err(TermError::TooMany(MOST_TERMS));
        }
        self.take(count * TERM)?;
        Ok(())
    }

    /// The next term takes this much memory beside its place. Nothing follows for that.
    fn take(&mut self, memory: u64) -> Result<u64, TermError> {
        self.memory = self.memory.saturating_add(memory);
        if self.memory > MOST_MEMORY { Err(TermError::TooLarge(MOST_MEMORY)) } else { Ok(0) }
    }

    /// The number of terms in a tuple or list, which has some more than it says.
    fn several(&mut self, width: usize, more: u64) -> Result<u64, TermError> {
        let count = self.length(width)? as u64 + more;
        // Of a list that ends in another term than the empty list that term has an allocation of its own.
        self.take(ALLOCATION * (1 + more))?;
        Ok(count)
    }

    /// The number of keys and values in a map.
    fn map(&mut self) -> Result<u64, TermError> {
        let pairs = self.length(4)? as u64;
        // What cannot be there is no reason to say that it is too large.
        if 2 * pairs > (self.bytes.len() - self.at) as u64 {
            return Err(TermError::Truncated);
        }
        self.take(map_memory(pairs))?;
        Ok(2 * pairs)
    }

    fn byte(&mut self) -> Result<u8, TermError> {
        let byte = self.bytes.get(self.at).ok_or(TermError::Truncated)?;
        self.at += 1;
        Ok(*byte)
    }

    fn skip(&mut self, count: usize) -> Result<u64, TermError> {
        if count > self.bytes.len() - self.at {
            return Err(TermError::Truncated);
        }
        self.at += count;
        Ok(0)
    }

    /// An unsigned number of 1, 2 or 4 bytes.
    fn length(&mut self, width: usize) -> Result<usize, TermError> {
        let mut value = 0;
        for _ in 0..width {
            value = value << 8 | usize::from(self.byte()?);
        }
        Ok(value)
    }

    /// Bytes after their number, which it returns.
    fn named(&mut self, width: usize) -> Result<u64, TermError> {
        let length = self.length(width)?;
        self.skip(length)?;
        self.take(length as u64 + ALLOCATION)?;
        Ok(length as u64)
    }

    fn bits(&mut self) -> Result<u64, TermError> {
        let length = self.length(4)?;
        let bits = self.byte()?;
        if !(1..=8).contains(&bits) || length == 0 {
            let what = format!("{bits} bits at the end of {length} bytes");
            return Err(TermError::Malformed(what));
        }
        self.skip(length)?;
        self.take(length as u64 + ALLOCATION)
    }

    fn integer(&mut self, width: usize) -> Result<u64, TermError> {
        let length = self.length(width)?;
        if length > LONGEST_INTEGER {
            return Err(TermError::TooLong("an integer", length));
        }
        // And its sign. Its digits have room for some more.
        self.skip(length + 1)?;
        self.take(2 * length as u64 + 2 * ALLOCATION)
    }

    fn atom(&mut self) -> Result<(), TermError> {
        let at = self.at;
        let length = match self.byte()? {
            100 | 118 => self.named(2)?,
            115 | 119 => self.named(1)?,
            tag => return Err(TermError::Unknown { tag, at }),
        };
        self.take(length)?;
        Ok(())
    }

    fn small(&mut self) -> Result<(), TermError> {
        let at = self.at;
        match self.byte()? {
            97 => self.skip(1)?,
            98 => self.skip(4)?,
            tag => return Err(TermError::Unknown { tag, at }),
        };
        Ok(())
    }

    /// A node's name and so many bytes.
    fn node(&mut self, rest: usize) -> Result<u64, TermError> {
        self.atom()?;
        self.skip(rest)
    }

    fn reference(&mut self, creation: usize) -> Result<u64, TermError> {
        let words = self.length(2)?;
        if words > LONGEST_REFERENCE {
            return Err(TermError::TooLong("a reference", 4 * words));
        }
        self.take(BOXED + 2 * ALLOCATION + 4 * words as u64)?;
        self.node(creation + 4 * words)
    }

    fn export(&mut self) -> Result<u64, TermError> {
        self.atom()?;
        self.atom()?;
        self.small()?;
        self.take(BOXED + ALLOCATION)
    }

    fn function(&mut self) -> Result<u64, TermError> {
        // Size, arity, unique bytes, index.
        self.skip(4 + 1 + 16 + 4)?;
        let free = self.length(4)?;
        self.atom()?;
        self.small()?;
        self.small()?;
        let at = self.at;
        match self.byte()? {
            103 => self.node(9)?,
            88 => self.node(12)?,
            tag => return Err(TermError::Unknown { tag, at }),
        };
        self.take(BOXED + 2 * ALLOCATION)?;
        Ok(free as u64)
    }
}
