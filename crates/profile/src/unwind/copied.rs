//! Unwinding from copies of the stack: native code by its unwind tables, and the Erlang code that
//! called it by the stack of its process; what other compilers made by its frame pointers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use linux::{maps, processes, threads};
use perf_event_open_sys::bindings::perf_event_attr;
use stacks::Unwinding;

use super::erlang::Code;
use super::native::{End, NativeUnwinder};
use super::{FramePointers, Stack, Unwinder, compiled};
use crate::beam::{ProcessId, Vm};
use crate::record::{Address, SampleRecord};
use crate::stack_copy::{StackCopier, StackCopy, ThreadStack};

/// Stacks of a thread that are looked up at most: one that changes them all the time is copied by guessing.
const MOST_STACKS: u32 = 64;

/// Bytes that are copied above the frames of a process's first thread.
const ABOVE_FIRST: u64 = 64;

/// How often the code of the kernel's probes is looked for.
const MOST_LOOKS: u32 = 256;

/// Unwinds what the program of [`StackCopier`] has copied; a sample that it left to the kernel, by frame pointers.
pub(super) struct CopiedStacks {
    pid: u32,
    copier: Arc<StackCopier>,
    native: NativeUnwinder,
    plain: FramePointers,
    compiled: CompiledCode,
    threads: HashMap<u32, KnownThread>,
    probes: ProbeCode,
}

/// Where the process has the code of the kernel's probes.
#[derive(Clone, Debug, Default)]
struct ProbeCode {
    range: Range<u64>,
    looked_for: u32,
}

impl ProbeCode {
    /// It comes with the first probe.
    fn code(&mut self, pid: u32) -> &Range<u64> {
        if self.range.is_empty() && self.looked_for < MOST_LOOKS {
            self.looked_for += 1;
            self.range = maps::probe_code(pid);
        }
        &self.range
    }
}

enum CompiledCode {
    /// On the stacks of Erlang processes, where it is known how to find those.
    InErlangProcesses(Option<Vm>),
    /// On the threads' own stacks: Java, and whatever else keeps frame pointers.
    OnThreads,
}

/// Thread as the program knows it.
#[derive(Clone, Copy, Debug, Default)]
struct KnownThread {
    stack: ThreadStack,
    /// Its first frame was seen, so that nothing above it is copied.
    settled: bool,
    told: u32,
}

impl CopiedStacks {
    /// For any process but an Erlang virtual machine.
    pub(super) fn new(pid: u32, copier: Arc<StackCopier>) -> Self {
        Self::with_threads(pid, copier, HashMap::new())
    }

    /// Tells the program where threads that wait have their stacks: guesses would cut the first samples short.
    fn with_threads(pid: u32, copier: Arc<StackCopier>, mut of: HashMap<u32, ThreadStack>) -> Self {
        let ranges = maps::ranges(pid);
        for tid in threads::ids(pid) {
            let address = threads::stack_address(pid, tid);
            let range = address.and_then(|address| stack_around(pid, &ranges, address));
            if let Some(range) = range {
                let stack = of.entry(tid).or_default();
                (stack.low, stack.top) = (range.start, range.end);
            }
        }
        of.iter().for_each(|(tid, stack)| copier.set_thread(*tid, *stack));
        let threads = of.into_iter().map(|(tid, stack)| (tid, KnownThread { stack, ..KnownThread::default() }));
        Self {
            pid,
            threads: threads.collect(),
            probes: ProbeCode::default(),
            copier,
            native: NativeUnwinder::new(pid),
            plain: FramePointers::new(),
            compiled: CompiledCode::OnThreads,
        }
    }

    /// For an Erlang virtual machine; `schedulers` are threads, each with where it writes down which process it runs.
    pub(super) fn of_beam(
        pid: u32,
        copier: Arc<StackCopier>,
        vm: Option<Vm>,
        schedulers: impl Iterator<Item = (u32, u64)>,
    ) -> Self {
        let threads =
            schedulers.map(|(tid, current_process)| (tid, ThreadStack { current_process, ..Default::default() }));
        Self { compiled: CompiledCode::InErlangProcesses(vm), ..Self::with_threads(pid, copier, threads.collect()) }
    }

    /// Unwinds native and compiled code in turn; what the copy does not hold, by frame pointers alone.
    fn unwind_thread(&mut self, sample: &SampleRecord<'_>, copy: &StackCopy<'_>, stack: &mut Stack) {
        let addresses = &mut stack.addresses;
        let leaf = if self.native.is_compiled(copy.ip) {
            addresses.push(Address::User(copy.ip));
            End::Compiled { sp: copy.sp, frame: copy.bp }
        } else {
            let take = &mut |address| addresses.push(Address::User(address));
            self.native.unwind(copy, None, take)
        };
        let end = compiled::follow(&mut self.native, copy, leaf, addresses);
        stack.rooted = matches!(end, End::Root { .. });
        if !stack.rooted {
            compiled::add_rest(addresses, sample.chain.addresses());
        }
        self.learn(sample.tid, copy.sp, end);
    }

    /// Tells the program how much of a thread's stack matters, where that is not known yet.
    fn learn(&mut self, tid: u32, sp: u64, end: End) {
        let known = self.threads.entry(tid).or_default();
        let stack = known.stack;
        let inside = (stack.low..stack.top).contains(&sp);
        let top = if let End::Compiled { sp, .. } | End::Root { sp } = end { Some(sp) } else { None };
        let is_known = inside && (known.settled || top.is_none());
        if is_known || known.told == MOST_STACKS {
            return;
        }
        known.told += 1;
        let Some(mapping) = stack_around(self.pid, &maps::ranges(self.pid), sp) else { return };
        let top = top.filter(|top| mapping.contains(top));
        *known = KnownThread {
            stack: ThreadStack { low: mapping.start, top: top.unwrap_or(mapping.end), ..stack },
            settled: top.is_some(),
            told: known.told,
        };
        self.copier.set_thread(tid, known.stack);
    }
}

impl Unwinder for CopiedStacks {
    fn configure(&self, attr: &mut perf_event_attr) {
        self.plain.configure(attr);
    }

    fn copier(&self) -> Option<Arc<StackCopier>> {
        Some(Arc::clone(&self.copier))
    }

    fn needs_user_chain(&self) -> bool {
        matches!(self.compiled, CompiledCode::OnThreads)
    }

    fn refresh(&mut self) {
        self.native.refresh();
    }

    fn unwind(&mut self, sample: &SampleRecord<'_>, stack: &mut Stack) {
        let Some(mut copy) = StackCopy::parse(sample.rest) else { return self.plain.unwind(sample, stack) };
        stack.addresses.clear();
        stack.addresses.extend(sample.chain.addresses().filter(|address| !address.is_user()));
        *stack = Stack {
            addresses: std::mem::take(&mut stack.addresses),
            unwinding: Unwinding::StackCopy,
            copied: copy.len(),
            value: Some(copy.value),
            transfer: copy.transfer(),
            ..Stack::default()
        };
        if copy.len() == 0 {
            return;
        }
        if copy.has_replaced_returns() || !self.native.is_code(copy.ip) {
            let known = self.probes.code(self.pid).clone();
            // A process that has ended meanwhile does not show it any more.
            let told = || copy.probe_code().unwrap_or_default();
            let code = if known.is_empty() { told() } else { known };
            copy.put_back(&code);
        }
        let CompiledCode::InErlangProcesses(vm) = &self.compiled else {
            return self.unwind_thread(sample, &copy, stack);
        };
        let layout = vm.as_ref().map(|vm| vm.identifiers);
        stack.process = layout.and_then(|layout| ProcessId::of_term(copy.identifier, layout));
        let addresses = &mut stack.addresses;
        if self.native.is_compiled(copy.ip) {
            addresses.push(Address::User(copy.ip));
            stack.rooted = erlang(vm.as_ref(), &self.native, &copy, copy.bp, addresses);
            return;
        }
        let take = &mut |address| addresses.push(Address::User(address));
        let end = self.native.unwind(&copy, None, take);
        stack.rooted = match end {
            End::Compiled { frame, .. } => erlang(vm.as_ref(), &self.native, &copy, frame, addresses),
            End::Root { .. } => true,
            End::Lost => false,
        };
        self.learn(sample.tid, copy.sp, end);
    }
}

/// The memory of the stack that an address lies on, as far as it can hold frames: above those of the first thread lie
/// arguments and environment, with pages between that nobody has touched.
fn stack_around(pid: u32, ranges: &[Range<u64>], address: u64) -> Option<Range<u64>> {
    let range = maps::range_around(ranges, address)?;
    let first = processes::stack_start(pid).filter(|start| range.contains(start));
    let end = first.map_or(range.end, |start| start.saturating_add(ABOVE_FIRST).min(range.end));
    Some(range.start..end)
}

/// Adds the Erlang functions of the copied stack from the frame at `frame` on; whether up to the process's first.
fn erlang(
    vm: Option<&Vm>,
    native: &NativeUnwinder,
    copy: &StackCopy<'_>,
    frame: u64,
    addresses: &mut Vec<Address>,
) -> bool {
    let Some(vm) = vm.filter(|_| copy.process != 0) else { return false };
    let code = Code { normal_exit: vm.normal_exit, is_compiled: &|address| native.is_compiled(address) };
    let (stack, before) = (&copy.erlang, addresses.len());
    if vm.frame_pointers {
        let caller = code.caller_without_frame(stack, copy.sp, frame);
        // A process that collects its garbage has moved its stack, and written down where to.
        for (frame, caller) in [(frame, caller), (copy.frame_pointer, None)] {
            addresses.extend(caller.map(Address::User));
            let take = &mut |address| addresses.push(Address::User(address));
            if code.follow(stack, frame, take) {
                return true;
            }
            addresses.truncate(before);
        }
    }
    let on_stack = |top: &u64| (stack.start..stack.end()).contains(top);
    let top = [copy.sp, copy.r12].into_iter().find(on_stack).unwrap_or(copy.stop);
    code.scan(stack, top, &mut |address| addresses.push(Address::User(address)))
}
