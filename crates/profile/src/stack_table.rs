//! From the addresses of a stack to a node of the profile's stack tree.

use std::collections::HashMap;
use std::sync::Arc;

use measure::Time;
use stacks::{Frame, StacksWriter, is_first_function, is_root_function};

use crate::record::Address;
use crate::symbols::{CodeSource, Symbols};
use crate::unwind::Stack;

/// The frames of an address, behind those of functions that were inlined there.
type Frames = Arc<[u32]>;

/// The frames and stacks that samples have shown so far: an address is named once and not once per sample.
#[derive(Debug)]
pub(crate) struct StackTable {
    pub(crate) symbols: Symbols,
    kernel: HashMap<u64, u32>,
    /// By address, and whether it is a return address.
    user: HashMap<(u64, bool), Frames>,
    /// Addresses whose answer came, or may yet come, from the JIT map.
    jit: HashMap<(u64, bool), Frames>,
    roots: Vec<Root>,
    /// An address was in no mapping, so there are new mappings.
    missed: bool,
    /// The JIT map changes only when it is read by [`StackTable::reread_jit`].
    pub(crate) map_on_request: bool,
    /// The stack that is being named holds an address of compiled code without a name.
    unnamed: bool,
    path: Vec<u32>,
}

/// Whether a frame is the root of a thread or Erlang process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Root {
    No,
    Yes,
    /// No caller is above it.
    First,
}

/// The node of a sample's leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) id: u32,
    pub(crate) complete: bool,
    /// An address in memory that a compiler fills has no name, which may yet come.
    pub(crate) unnamed: bool,
}

impl StackTable {
    pub(crate) fn new(symbols: Symbols) -> Self {
        Self {
            symbols,
            kernel: HashMap::new(),
            user: HashMap::new(),
            jit: HashMap::new(),
            roots: Vec::new(),
            missed: false,
            map_on_request: false,
            unnamed: false,
            path: Vec::new(),
        }
    }

    /// The node of a stack that was taken at the instant `at`; an empty one is a stack of one unknown frame.
    pub(crate) fn node(&mut self, stack: &Stack, at: Time, sink: &mut StacksWriter) -> Node {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        self.unnamed = false;
        // Above the first address of each part stand return addresses: the instruction after the
        // call, which at the end of a function belongs to the next one.
        let (mut in_kernel, mut in_user) = (false, false);
        for address in &stack.addresses {
            match *address {
                Address::Kernel(ip) => {
                    let caller = std::mem::replace(&mut in_kernel, true);
                    path.push(self.kernel_frame(ip.saturating_sub(caller.into()), sink));
                }
                Address::User(ip) => {
                    let caller = std::mem::replace(&mut in_user, true);
                    path.extend_from_slice(&self.user_frames(ip, caller, at, sink));
                }
            }
        }
        if path.is_empty() {
            path.push(self.intern(&Frame::unknown(""), sink));
        }
        let root = |frame: &u32| self.roots.get(*frame as usize).copied();
        if let Some(first) = path.iter().position(|f| root(f) == Some(Root::First)) {
            path.truncate(first + 1);
        }
        let reaches_root = path.iter().filter_map(root).any(|root| root != Root::No);
        let complete = (reaches_root || stack.rooted) && !stack.truncated;
        let mut parent = None;
        for &frame in path.iter().rev() {
            parent = Some(sink.node(parent, frame));
        }
        self.path = path;
        Node { id: parent.unwrap_or(0), complete, unnamed: self.unnamed }
    }

    /// Forgets the indices of a file that has ended; symbols stay.
    pub(crate) fn begin_anew(&mut self) {
        self.kernel.clear();
        self.user.clear();
        self.jit.clear();
        self.roots.clear();
    }

    /// Whether an address was in no mapping since this was last asked.
    pub(crate) fn misses_mappings(&mut self) -> bool {
        std::mem::take(&mut self.missed)
    }

    /// Reads what has changed in the process's JIT map. Call it before samples are fetched: what it
    /// said before a change holds until the next call, for those that were taken before.
    pub(crate) fn refresh_jit(&mut self) {
        if self.map_on_request {
            return;
        }
        self.symbols.space.jit.settle();
        if self.symbols.space.jit.refresh() {
            self.jit.clear();
        }
    }

    /// Reads a JIT map that was written again. What it said before holds for earlier samples until the next call.
    pub(crate) fn reread_jit(&mut self) {
        self.symbols.space.jit.settle();
        if self.symbols.reread_jit() {
            self.jit.clear();
        }
    }

    /// Reads the process's mappings again; says whether they have changed.
    pub(crate) fn refresh_mappings(&mut self) -> bool {
        let changed = self.symbols.refresh_mappings();
        if changed {
            self.user.clear();
            self.jit.clear();
        }
        changed
    }

    fn kernel_frame(&mut self, address: u64, sink: &mut StacksWriter) -> u32 {
        if let Some(&frame) = self.kernel.get(&address) {
            return frame;
        }
        let frame = self.symbols.kernel.frame(address);
        let frame = self.intern(&frame, sink);
        self.kernel.insert(address, frame);
        frame
    }

    /// The frames of an address of the process, `caller` where it is a return address.
    fn user_frames(&mut self, ip: u64, caller: bool, at: Time, sink: &mut StacksWriter) -> Frames {
        let key = (ip, caller);
        if let Some(frames) = self.user.get(&key) {
            return Arc::clone(frames);
        }
        let mut passing = self.symbols.space.jit.is_before_change(at);
        if !passing && let Some(frames) = self.jit.get(&key) {
            return Arc::clone(frames);
        }
        let mut found = self.symbols.user_frames(ip, caller, at);
        if found.is_unnamed() && !self.map_on_request && self.symbols.space.jit.refresh() {
            // Compiled since the map was last read.
            self.jit.clear();
            passing = self.symbols.space.jit.is_before_change(at);
            found = self.symbols.user_frames(ip, caller, at);
        }
        let frames: Frames = found.frames.iter().map(|it| self.intern(it, sink)).collect();
        if found.is_unnamed() && self.map_on_request {
            // Not kept: the next stack shall wait for its name, too.
            self.unnamed = true;
            return frames;
        }
        match found.place {
            CodeSource::File => drop(self.user.insert(key, Arc::clone(&frames))),
            CodeSource::Jit if !passing => drop(self.jit.insert(key, Arc::clone(&frames))),
            CodeSource::Jit => {}
            // Code without frame pointers leaves any number there: kept, such addresses would fill the memory.
            CodeSource::Nowhere => self.missed = true,
        }
        frames
    }

    fn intern(&mut self, frame: &Frame, sink: &mut StacksWriter) -> u32 {
        let id = sink.frame(frame);
        let at = id as usize;
        if at >= self.roots.len() {
            self.roots.resize(at + 1, Root::No);
        }
        if let Some(root) = self.roots.get_mut(at) {
            *root = match frame.name.as_str() {
                name if is_first_function(name) => Root::First,
                name if is_root_function(name) => Root::Yes,
                _ => Root::No,
            };
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use measure::{Clock, Nanos};
    use stacks::{FrameKind, ProfileHeader};

    use super::*;
    use linux::Status;

    struct OwnMap(String);

    impl OwnMap {
        fn write(text: &str) -> Self {
            let map = Self(format!("/tmp/perf-{}.map", std::process::id()));
            std::fs::write(&map.0, text).unwrap();
            map
        }
    }

    impl Drop for OwnMap {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn samples_from_before_a_map_was_rewritten_keep_its_old_names() {
        let pid = std::process::id();
        // Nothing is mapped at these addresses, so that only the map can name them.
        let _first = OwnMap::write("1000 10 old\n1010 10 same\n");
        let mut stacks = StackTable::new(Symbols::new(pid, &Status::of(pid).unwrap(), false));
        let mut sink = StacksWriter::new(Vec::new(), ProfileHeader::new(Clock.now(), 0));
        let leaf = |name: &str, sink: &mut StacksWriter| {
            let frame = sink.frame(&Frame::new(name, "[jit]", FrameKind::Native));
            sink.node(None, frame)
        };
        let (old, new) = (leaf("old", &mut sink), leaf("new", &mut sink));
        let stack = Stack { addresses: vec![Address::User(0x1000)], ..Stack::default() };
        stacks.refresh_jit();
        let before = Clock.now();
        assert_eq!(stacks.node(&stack, before, &mut sink).id, old);
        std::thread::sleep(Duration::from_millis(30));
        // As long as the old one, so that its length tells nothing.
        let _second = OwnMap::write("1000 10 new\n1010 10 same\n");
        // Two clocks are read for when it was written, and on a full machine other programs run between the two.
        let after = Clock.now() + Nanos::from_millis(500);
        stacks.refresh_jit();
        // A ring is drained after another, so times do not come in order.
        for _ in 0..3 {
            assert_eq!(stacks.node(&stack, after, &mut sink).id, new);
            assert_eq!(stacks.node(&stack, before, &mut sink).id, old);
        }
        stacks.refresh_jit();
        assert_eq!(stacks.node(&stack, after, &mut sink).id, new);
    }
}
