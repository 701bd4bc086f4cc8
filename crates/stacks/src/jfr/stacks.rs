//! Stacks and threads of a chunk.

use std::collections::HashMap;

use super::chunk::Chunk;
use super::values::{JfrType, Value};
use crate::frames::{Frame, FrameKind, SourceLine, UNKNOWN, java_method};
use crate::tree::Builder;

/// Cache of a chunk's constants.
#[derive(Debug)]
pub(super) struct Stacks<'c> {
    chunk: &'c Chunk<'c>,
    /// The leaf of each stack, and whether it is complete.
    stacks: HashMap<u64, (u32, bool)>,
    /// The frame of each method, kind of code and line.
    frames: HashMap<(u64, u64, u64), u32>,
}

impl<'c> Stacks<'c> {
    pub(super) fn new(chunk: &'c Chunk<'c>) -> Self {
        Self { chunk, stacks: HashMap::new(), frames: HashMap::new() }
    }

    /// The leaf of the stack that the field `stackTrace` names, and whether the stack is complete.
    pub(super) fn stack(&mut self, event: &JfrType, key: u64, builder: &mut Builder) -> Result<(u32, bool), String> {
        if let Some(&known) = self.stacks.get(&key) {
            return Ok(known);
        }
        let found = self.chunk.constant(event, "stackTrace", key);
        let known = match found {
            None => (self.unknown(builder), false),
            Some((trace, class)) => self.trace(trace, class, builder)?,
        };
        builder.take(64);
        self.stacks.insert(key, known);
        Ok(known)
    }

    fn unknown(&self, builder: &mut Builder) -> u32 {
        let frame = builder.frame(&Frame::unknown(""));
        builder.node(None, frame)
    }

    fn trace(&mut self, trace: &Value, class: &JfrType, builder: &mut Builder) -> Result<(u32, bool), String> {
        let chunk = self.chunk;
        let place = class.place("frames").and_then(|at| class.fields.get(at));
        let of_frame = place.and_then(|field| chunk.classes.get(field.class)).ok_or("its stacks have no frames")?;
        let mut leaf = None;
        // The leaf comes first.
        for value in trace.field(class, "frames").list().iter().rev() {
            let method = value.field(of_frame, "method").number();
            let kind = value.field(of_frame, "type").number();
            let line = value.field(of_frame, "lineNumber").number();
            let key = (method, kind, line);
            let frame = match self.frames.get(&key) {
                Some(&frame) => frame,
                None => {
                    let frame = self.frame(of_frame, method, kind).at_line(source_line(line));
                    let frame = builder.frame(&frame);
                    builder.take(64);
                    self.frames.insert(key, frame);
                    frame
                }
            };
            leaf = Some(builder.node(leaf, frame));
            builder.room()?;
        }
        let is_cut = trace.field(class, "truncated").number() != 0;
        Ok(match leaf {
            Some(leaf) => (leaf, !is_cut),
            None => (self.unknown(builder), false),
        })
    }

    fn frame(&self, of_frame: &JfrType, method: u64, kind: u64) -> Frame {
        let chunk = self.chunk;
        let kind = chunk.constant(of_frame, "type", kind);
        let kind = kind.map_or("", |(value, class)| self.text(class, "description", value));
        let Some((value, class)) = chunk.constant(of_frame, "method", method) else { return Frame::unknown("") };
        let name = self.symbol(class, "name", value);
        let of = chunk.constant(class, "type", value.field(class, "type").number());
        let of = of.map_or("", |(of, class)| self.symbol(class, "name", of));
        let name = match of {
            // Functions that are not Java's have no class.
            "" => name.to_owned(),
            of => java_method(&format!("{}::{name}", of.replace('/', "."))),
        };
        let (module, kind) = match kind {
            _ if !of.is_empty() => ("", FrameKind::Java),
            "Kernel" => ("[kernel]", FrameKind::Kernel),
            "C++" => ("libjvm.so", FrameKind::Runtime),
            _ => ("", FrameKind::Native),
        };
        if name.is_empty() || name == UNKNOWN { Frame::unknown(module) } else { Frame::new(name, module, kind) }
    }

    /// The text of a symbol that a field names.
    fn symbol<'v>(&'v self, class: &JfrType, field: &str, value: &'v Value) -> &'v str {
        let symbol = self.chunk.constant(class, field, value.field(class, field).number());
        symbol.map_or("", |(symbol, class)| self.text(class, "string", symbol))
    }

    /// A text, which may be a constant.
    fn text<'v>(&'v self, class: &JfrType, field: &str, value: &'v Value) -> &'v str {
        match value.field(class, field) {
            Value::Text(text) => text,
            Value::Number(key) => self.chunk.constant_of("java.lang.String", *key).map_or("", Value::text),
            _ => "",
        }
    }

    /// State of a thread, in the recorder's words; empty where that is not told.
    pub(super) fn state(&self, event: &JfrType, key: u64) -> &str {
        let state = self.chunk.constant(event, "state", key);
        state.map_or("", |(state, class)| self.text(class, "name", state))
    }

    /// The name of the thread that a field names.
    pub(super) fn thread(&self, event: &JfrType, field: &str, key: u64) -> Option<String> {
        let (thread, class) = self.chunk.constant(event, field, key)?;
        let names = ["javaName", "osName"].map(|name| self.text(class, name, thread));
        names.into_iter().find(|name| !name.is_empty()).map(str::to_owned)
    }
}

/// A line of a class's file, which recordings do not name; 0 and less stand for none.
fn source_line(number: u64) -> Option<SourceLine> {
    let number = u32::try_from(number).ok().filter(|number| *number > 0 && *number <= i32::MAX as u32);
    number.map(|number| SourceLine { file: String::new(), number })
}
