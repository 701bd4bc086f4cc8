//! From the addresses of a stack to a node of the profile's stack tree.

use std::collections::HashMap;

use archive::profile::{Frame, StacksWriter};

use crate::record::Address;
use crate::roots;
use crate::source::Stack;
use crate::symbols::Symbols;

/// Keeps what it has found, so that an address is named once and not once per sample.
#[derive(Debug)]
pub(crate) struct Stacker {
    symbols: Symbols,
    kernel: HashMap<u64, u32>,
    user: HashMap<u64, u32>,
    /// Addresses whose answer came, or may yet come, from the JIT map.
    jit: HashMap<u64, u32>,
    /// By frame: whether it is the root of a thread or Erlang process.
    is_root: Vec<bool>,
    /// An address was in no mapping, so there are new mappings.
    missed: bool,
    path: Vec<u32>,
}

/// The node of a sample's leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) id: u32,
    /// The stack reaches its root.
    pub(crate) complete: bool,
}

impl Stacker {
    pub(crate) fn new(symbols: Symbols) -> Self {
        Self {
            symbols,
            kernel: HashMap::new(),
            user: HashMap::new(),
            jit: HashMap::new(),
            is_root: Vec::new(),
            missed: false,
            path: Vec::new(),
        }
    }

    pub(crate) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// The node of a stack; an empty one is a stack of one unknown frame.
    pub(crate) fn node(&mut self, stack: &Stack, sink: &mut StacksWriter) -> Node {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        // Above the first address of each part stand return addresses: the instruction after the
        // call, which at the end of a function belongs to the next one.
        let (mut in_kernel, mut in_user) = (false, false);
        for address in &stack.addresses {
            path.push(match *address {
                Address::Kernel(ip) => {
                    let caller = std::mem::replace(&mut in_kernel, true);
                    self.kernel_frame(ip.saturating_sub(caller.into()), sink)
                }
                Address::User(ip) => {
                    let caller = std::mem::replace(&mut in_user, true);
                    self.user_frame(ip.saturating_sub(caller.into()), sink)
                }
            });
        }
        if path.is_empty() {
            path.push(self.intern(&Frame::unknown(""), sink));
        }
        let reaches_root = path
            .iter()
            .any(|&frame| self.is_root.get(frame as usize) == Some(&true));
        let complete = reaches_root && !stack.truncated;
        let mut parent = None;
        for &frame in path.iter().rev() {
            parent = Some(sink.node(parent, frame));
        }
        self.path = path;
        Node {
            id: parent.unwrap_or(0),
            complete,
        }
    }

    /// Reads what the process has added to its JIT map, once a second or so.
    pub(crate) fn refresh(&mut self) {
        if std::mem::take(&mut self.missed) {
            self.refresh_mappings();
        }
        if self.symbols.refresh_jit() {
            self.jit.clear();
        }
    }

    /// Reads the process's mappings again: it has new ones.
    pub(crate) fn refresh_mappings(&mut self) {
        self.symbols.refresh_mappings();
        self.user.clear();
        self.jit.clear();
    }

    fn kernel_frame(&mut self, address: u64, sink: &mut StacksWriter) -> u32 {
        if let Some(&frame) = self.kernel.get(&address) {
            return frame;
        }
        let frame = self.symbols.kernel_frame(address);
        let frame = self.intern(&frame, sink);
        self.kernel.insert(address, frame);
        frame
    }

    fn user_frame(&mut self, address: u64, sink: &mut StacksWriter) -> u32 {
        if let Some(&frame) = self.user.get(&address).or_else(|| self.jit.get(&address)) {
            return frame;
        }
        let mut found = self.symbols.user_frame(address);
        if found.from_jit && found.frame.is_unknown() && self.symbols.refresh_jit() {
            // Compiled since the map was last read.
            self.jit.clear();
            found = self.symbols.user_frame(address);
        }
        self.missed |= found.frame.is_unknown() && found.frame.module.is_empty();
        let frame = self.intern(&found.frame, sink);
        let cache = if found.from_jit {
            &mut self.jit
        } else {
            &mut self.user
        };
        cache.insert(address, frame);
        frame
    }

    fn intern(&mut self, frame: &Frame, sink: &mut StacksWriter) -> u32 {
        let id = sink.frame(frame);
        let at = id as usize;
        if at >= self.is_root.len() {
            self.is_root.resize(at + 1, false);
        }
        if let Some(flag) = self.is_root.get_mut(at) {
            *flag = roots::is_root(&frame.name);
        }
        id
    }
}
