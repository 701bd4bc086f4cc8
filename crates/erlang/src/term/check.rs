//! Whether bytes are a term that can be decoded without harm: the decoder recurses and allocates as the bytes
//! say, so that nesting, lengths and the number of terms are looked at before, without recursion.

use std::fmt;

use erl_dist::term::Term;

/// The deepest nesting that is decoded.
pub(crate) const DEEPEST: usize = 256;
/// The most terms of a message: each takes some 40 bytes at least once it is decoded.
const MOST_TERMS: u64 = 4 << 20;
/// The longest integer, in bytes.
const LONGEST_INTEGER: usize = 1 << 10;
/// The most words of a reference.
const LONGEST_REFERENCE: usize = 16;
const VERSION: u8 = 131;

/// Why bytes are not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TermError {
    /// It ends before it is whole.
    Truncated,
    /// Lists, tuples and maps in each other, deeper than this.
    TooDeep(usize),
    /// More terms than this.
    TooMany(u64),
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
            Self::Truncated => f.write_str("it ends before it is whole"),
            Self::TooDeep(most) => write!(f, "it is nested deeper than {most} levels"),
            Self::TooMany(most) => write!(f, "it has more than {most} terms"),
            Self::TooLong(what, length) => write!(f, "{what} of {length} bytes is too long"),
            Self::Unknown { tag, at } => write!(f, "byte {tag} at {at} begins no term"),
            Self::Malformed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for TermError {}

/// Decodes one term, which has to fill the bytes.
///
/// # Errors
/// Bytes that are no term, and terms that are too large or too deep.
pub fn decode(bytes: &[u8]) -> Result<Term, TermError> {
    let used = check(bytes)?;
    if used != bytes.len() {
        return Err(TermError::Malformed(format!(
            "{} bytes follow it",
            bytes.len() - used
        )));
    }
    Term::decode(bytes).map_err(|error| TermError::Malformed(error.to_string()))
}

/// Appends a term's bytes.
///
/// # Errors
/// An atom that is too long.
pub fn encode(term: &Term, bytes: &mut Vec<u8>) -> Result<(), TermError> {
    term.encode(bytes)
        .map_err(|error| TermError::Malformed(error.to_string()))
}

/// How many bytes the term at the front takes.
///
/// # Errors
/// As [`decode`].
pub fn check(bytes: &[u8]) -> Result<usize, TermError> {
    let mut cursor = Cursor {
        bytes,
        at: 0,
        terms: 0,
    };
    if cursor.byte()? != VERSION {
        return Err(TermError::Unknown {
            tag: bytes.first().copied().unwrap_or_default(),
            at: 0,
        });
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
    Ok(cursor.at)
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    terms: u64,
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
            // Atoms.
            100 | 118 => self.named(2),
            115 | 119 => self.named(1),
            // String, binary, and one with bits.
            107 => self.named(2),
            109 => self.named(4),
            77 => self.bits(),
            // Integers of any length.
            110 => self.integer(1),
            111 => self.integer(4),
            // Tuples, list, map.
            104 => self.length(1).map(|it| it as u64),
            105 => self.length(4).map(|it| it as u64),
            108 => self.length(4).map(|it| it as u64 + 1),
            116 => self.length(4).map(|it| it as u64 * 2),
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
        Ok(())
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

    /// Bytes after their number.
    fn named(&mut self, width: usize) -> Result<u64, TermError> {
        let length = self.length(width)?;
        self.skip(length)
    }

    fn bits(&mut self) -> Result<u64, TermError> {
        let length = self.length(4)?;
        let bits = self.byte()?;
        if !(1..=8).contains(&bits) || length == 0 {
            let what = format!("{bits} bits at the end of {length} bytes");
            return Err(TermError::Malformed(what));
        }
        self.skip(length)
    }

    fn integer(&mut self, width: usize) -> Result<u64, TermError> {
        let length = self.length(width)?;
        if length > LONGEST_INTEGER {
            return Err(TermError::TooLong("an integer", length));
        }
        // And its sign.
        self.skip(length + 1)
    }

    fn atom(&mut self) -> Result<(), TermError> {
        let at = self.at;
        match self.byte()? {
            100 | 118 => self.named(2)?,
            115 | 119 => self.named(1)?,
            tag => return Err(TermError::Unknown { tag, at }),
        };
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
        self.node(creation + 4 * words)
    }

    fn export(&mut self) -> Result<u64, TermError> {
        self.atom()?;
        self.atom()?;
        self.small()?;
        Ok(0)
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
        Ok(free as u64)
    }
}
