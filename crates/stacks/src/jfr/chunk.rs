//! A chunk, readable alone: a header, events, constants that events name by number, and descriptions of types.

use super::values::{Bytes, CUT_OFF, Constants, JfrType, JfrTypes, Value, value};

/// First bytes of a chunk.
pub(super) const MAGIC: &[u8] = b"FLR\0";
const HEADER: usize = 68;
/// The version that is read: of JDK 11 and later.
const MAJOR: u16 = 2;
const PACKED: u8 = 1;
/// The types whose events are not events.
const TYPES: u64 = 0;
const CONSTANTS: u64 = 1;
/// Bytes that the constants of a chunk may take of memory.
const MOST_KEPT: usize = 512 << 20;
/// Constants that stacks are made of.
const KEPT: [&str; 9] = [
    "jdk.types.ThreadState",
    "jdk.types.StackTrace",
    "jdk.types.Method",
    "jdk.types.FrameType",
    "jdk.types.Symbol",
    "java.lang.Class",
    "java.lang.Thread",
    "java.lang.String",
    "jdk.types.ThreadGroup",
];

#[derive(Debug)]
pub(super) struct Chunk<'a> {
    bytes: &'a [u8],
    /// When it began, nanoseconds since 1970-01-01.
    pub(super) start_ns: u64,
    start_ticks: u64,
    ticks_per_second: u64,
    pub(super) classes: JfrTypes,
    constants: Constants,
}

/// The chunks of a recording, each from where the one before ends.
pub(super) fn split(recording: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut chunks = Vec::new();
    let mut rest = recording;
    while !rest.is_empty() {
        if !rest.starts_with(MAGIC) {
            return Err("behind its last chunk stands something else".to_owned());
        }
        let size = rest.get(8..16).ok_or(CUT_OFF)?;
        let size = Bytes::new(size).wide()?;
        if size == 0 {
            return Err("it was not finished: stop the recording (`jcmd PID JFR.stop`), or dump it".to_owned());
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let (chunk, others) = rest.split_at_checked(size).ok_or(CUT_OFF)?;
        if chunk.len() < HEADER {
            return Err(CUT_OFF.to_owned());
        }
        chunks.push(chunk);
        rest = others;
    }
    Ok(chunks)
}

impl<'a> Chunk<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut header = Bytes::new(bytes.get(MAGIC.len()..HEADER).ok_or(CUT_OFF)?);
        let version = header.take(4)?;
        let major = u16::from_be_bytes([version[0], version[1]]);
        if major != MAJOR {
            return Err(format!("it has version {major} of the format, and {MAJOR} is read: that of JDK 11 and later"));
        }
        let mut wide = || header.wide();
        let (_size, constants, types) = (wide()?, wide()?, wide()?);
        let (start_ns, _length, start_ticks) = (wide()?, wide()?, wide()?);
        let ticks_per_second = wide()?.max(1);
        if bytes.get(HEADER - 1).is_none_or(|flags| flags & PACKED == 0) {
            return Err("its numbers are not packed, which no JVM writes by default".to_owned());
        }
        let classes = JfrTypes::read(event(bytes, types)?)?;
        let mut chunk = Self { bytes, start_ns, start_ticks, ticks_per_second, classes, constants: Constants::new() };
        chunk.read_constants(constants)?;
        Ok(chunk)
    }

    /// Reads all constants: each event of them says how far before it the one before stands.
    fn read_constants(&mut self, last: u64) -> Result<(), String> {
        let mut at = last;
        let mut kept = 0_usize;
        loop {
            let mut bytes = Bytes::new(event(self.bytes, at)?);
            if bytes.number()? != CONSTANTS {
                return Err("its constants are not where its header says".to_owned());
            }
            let (_start, _length) = (bytes.number()?, bytes.number()?);
            let before = bytes.number()?.cast_signed();
            let _kind = bytes.byte()?;
            for _ in 0..bytes.count()? {
                let class = bytes.number()?;
                let keep = self.classes.get(class).is_some_and(|of| KEPT.contains(&of.name.as_str()));
                for _ in 0..bytes.count()? {
                    let key = bytes.number()?;
                    let value = value(&mut bytes, &self.classes, class, keep)?;
                    if keep {
                        kept = kept.saturating_add(64 + value.bytes());
                        if kept > MOST_KEPT {
                            return Err("a chunk's stacks take more than 512 MiB".to_owned());
                        }
                        self.constants.insert((class, key), value);
                    }
                }
            }
            // Only back, and none inside another: anything else could be read without end.
            match at.checked_add_signed(before) {
                _ if before == 0 => return Ok(()),
                Some(earlier) if earlier < at => {
                    let length = at - earlier;
                    if event(self.bytes, earlier)?.len() as u64 > length {
                        return Err("its constants stand in each other".to_owned());
                    }
                    at = earlier;
                }
                _ => return Err("its constants stand in a circle".to_owned()),
            }
        }
    }

    /// The type and the content of each event.
    pub(super) fn events(&self) -> impl Iterator<Item = Result<(u64, Bytes<'a>), String>> {
        let mut rest = self.bytes.get(HEADER..).unwrap_or_default();
        std::iter::from_fn(move || {
            while !rest.is_empty() {
                let content = match first_event(rest) {
                    Ok((content, others)) => {
                        rest = others;
                        content
                    }
                    Err(error) => {
                        rest = &[];
                        return Some(Err(error));
                    }
                };
                let mut bytes = Bytes::new(content);
                match bytes.number() {
                    Ok(TYPES | CONSTANTS) => {}
                    Ok(class) => return Some(Ok((class, bytes))),
                    Err(error) => return Some(Err(error)),
                }
            }
            None
        })
    }

    /// A constant that a field of a type names, and its own type.
    pub(super) fn constant(&self, class: &JfrType, field: &str, key: u64) -> Option<(&Value, &JfrType)> {
        let id = class.fields.get(class.place(field)?)?.class;
        self.constants.get(&(id, key)).zip(self.classes.get(id))
    }

    /// A constant of the type with a name.
    pub(super) fn constant_of(&self, class: &str, key: u64) -> Option<&Value> {
        self.constants.get(&(self.classes.id(class)?, key))
    }

    /// Nanoseconds since another instant on the wall clock; less than none for what began before it.
    pub(super) fn since(&self, origin_ns: u64, ticks: u64) -> i128 {
        let ticks_in = i128::from(ticks) - i128::from(self.start_ticks);
        let ns_in = ticks_in * 1_000_000_000 / i128::from(self.ticks_per_second);
        i128::from(self.start_ns) - i128::from(origin_ns) + ns_in
    }

    /// A length of time in nanoseconds.
    pub(super) fn length_ns(&self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// The content of the event at an offset.
fn event(chunk: &[u8], at: u64) -> Result<&[u8], String> {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let bytes = chunk.get(at..).filter(|_| at >= HEADER).ok_or(CUT_OFF)?;
    first_event(bytes).map(|(content, _)| content)
}

/// The content of the first event behind its size, and what stands behind it.
fn first_event(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let mut reader = Bytes::new(bytes);
    let size = reader.number()?;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let (event, others) = bytes.split_at_checked(size).ok_or(CUT_OFF)?;
    let of_size = bytes.len() - reader.len();
    let content = event.get(of_size..).filter(|it| !it.is_empty()).ok_or("an event without content")?;
    Ok((content, others))
}
