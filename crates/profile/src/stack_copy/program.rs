//! The program that copies stacks at the instant of a sample.
//!
//! It runs in the interrupt that takes the sample, on the processor and thread that are sampled; at a tracepoint in
//! whatever thread comes by, and leaves those of other processes alone. It has no loop, copies bounded lengths, and
//! writes one record into the ring of its processor, in place of the kernel's own. Only the record's own time, thread,
//! processor and kernel frames come from the kernel.

mod calls;
mod chosen;
mod following;

use super::bytecode::Operand::{In, Value};
use super::bytecode::{
    Bytecode, Condition, Helper, Label, Operand, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, Register,
    STACK,
};
use super::chance::state;
use super::record::{LARGEST_ERLANG, LARGEST_LONE, LARGEST_NATIVE, offset};
use super::sys::{Map, ProgramKind};
use super::threads::{KEY, enter, lookup, numbers};
use super::{Maps, PidNamespace, thread};
use crate::address_space::SystemCall;
use crate::allocators::{Answer, Argument, Size};
use crate::beam::{self, ProcessLayout};
use crate::tracepoint::Field;

/// Where `struct pt_regs` of x86-64 has the registers that are written.
const REGISTERS: [(i16, i16); 4] = [
    (128, offset::IP),
    (152, offset::SP),
    (32, offset::BP),
    (24, offset::R12),
];

/// Where `struct bpf_perf_event_data` has the number of events that a sample stands for, behind the registers.
const SAMPLE_PERIOD: i16 = 168;

/// Bytes that are tried, in this order, of a stack whose bounds are not known yet.
const GUESSES: [i32; 10] = [
    57_344, 40_960, 24_576, 16_384, 8192, 4096, 3072, 2048, 1024, 256,
];
/// An Erlang stack is copied from this far below its top: the process may have called functions since
/// it last wrote the top down.
const BELOW_TOP: i32 = 512;
/// Bytes that are copied from the top of an Erlang stack whose bounds are not known.
const MOVED_STACK: i32 = 4096;

// The program's own stack, from its end down. A key is the lower half of its word; of numbers of a thread and its
// process the latter is the upper half.
const PROCESS_NUMBER: i16 = KEY + 4;
const CURRENT: i16 = -16;
const ERLANG_END: i16 = -24;
const PROCESS_WORDS: i16 = ERLANG_END - ProcessLayout::SPAN;
const SAVED: i16 = PROCESS_WORDS - SAVED_WORDS * 8;
const IDENTIFIER: i16 = SAVED - 8;
/// What the sample stands for, and the processor's state, where calls are chosen by chance.
const STANDS_FOR: i16 = IDENTIFIER - 8;
const STATE: i16 = STANDS_FOR - 8;
/// The thread's numbers, where it enters the table of those whose wake-ups are told.
const ENTERED: i16 = STATE - 8;
/// Words at the beginning of a native stack among which the functions that were called first have
/// saved their callers' registers.
const SAVED_WORDS: i16 = 24;

/// What the kernel says where an event is no output of this processor.
const NOT_ON_THIS_CPU: i32 = -libc::EOPNOTSUPP;
const NO_SUCH_OUTPUT: i32 = -libc::ENOENT;

/// What makes the program run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trigger {
    /// An event of the thread's own.
    Event,
    /// A tracepoint, whoever comes by.
    Tracepoint {
        /// The process that is meant, by its number in its own namespace.
        process: u32,
        /// What its samples weigh by.
        field: Option<Field>,
    },
    /// The end of a call for address space, whoever comes by.
    Call {
        /// As above.
        process: u32,
        call: SystemCall,
    },
    /// The beginning of a function of the process's.
    Function {
        /// How it says how many bytes it is asked for.
        size: Size,
        /// Bytes are counted, rather than calls.
        by_bytes: bool,
    },
    /// A function of the process's whose blocks are followed.
    Followed(Followed),
}

/// What such a function does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Followed {
    /// It begins to allocate.
    Begins { size: Size, answer: Answer },
    /// It has allocated.
    Returns,
    /// It begins to give back.
    Frees,
}

impl Trigger {
    /// What the kernel calls such a program.
    pub(super) const fn kind(self) -> ProgramKind {
        match self {
            Self::Event => ProgramKind::PerfEvent,
            Self::Tracepoint { .. } | Self::Call { .. } => ProgramKind::Tracepoint,
            Self::Function { .. } | Self::Followed(_) => ProgramKind::Probe,
        }
    }

    /// Whether the record needs the thread's stack.
    const fn needs_stack(self) -> bool {
        match self {
            Self::Call { call, .. } => !call.only_gives_back(),
            Self::Event | Self::Tracepoint { .. } | Self::Function { .. } | Self::Followed(_) => {
                true
            }
        }
    }

    /// Whether it runs whatever thread comes by.
    const fn is_of_all(self) -> bool {
        matches!(self, Self::Tracepoint { .. } | Self::Call { .. })
    }

    /// Whether it is a place in the process's code, where threads may take turns in the middle of a record.
    const fn is_in_code(self) -> bool {
        matches!(self, Self::Function { .. } | Self::Followed(_))
    }
}

/// Where a function has its first arguments in `struct pt_regs` of x86-64.
const fn register_of(argument: Argument) -> i16 {
    match argument {
        Argument::First => 112,
        Argument::Second => 104,
        Argument::Third => 96,
    }
}

/// Throughout: R6 the program's argument, R7 the record, R8 the stack pointer, then the length of the
/// native copy, R9 what is known of the thread, then the length of the Erlang copy.
struct Writer<'m> {
    code: Bytecode,
    maps: &'m Maps,
    trigger: Trigger,
    namespace: Option<PidNamespace>,
    /// Bytes of a native stack that are copied at most.
    largest: i32,
    native: Label,
    guess: Label,
    erlang: Label,
    /// Leaves the sample to the kernel, which writes it without copies.
    plain: Label,
    /// Ends without a sample.
    passed: Label,
}

/// The program; `threads` is the table that threads enter whose wake-ups are told, `process` is where the fields of an Erlang process are, if the thread may run one, and
/// `namespace` where threads have the numbers that they are known by.
pub(super) fn program(
    maps: &Maps,
    trigger: Trigger,
    threads: Option<&Map>,
    process: Option<&ProcessLayout>,
    namespace: Option<PidNamespace>,
) -> Option<Vec<u64>> {
    let mut code = Bytecode::default();
    let [native, guess, erlang, plain, passed] = [(); 5].map(|()| code.label());
    let mut writer = Writer {
        code,
        maps,
        trigger,
        namespace,
        largest: process.map_or(LARGEST_LONE, |_| LARGEST_NATIVE),
        native,
        guess,
        erlang,
        plain,
        passed,
    };
    writer.code.set(R6, In(R1));
    match trigger {
        Trigger::Event => {
            if let Some(threads) = threads {
                enter(&mut writer.code, threads, namespace, ENTERED);
            }
        }
        Trigger::Tracepoint { process, .. } | Trigger::Call { process, .. } => writer.only(process),
        Trigger::Function { size, by_bytes } => writer.choose(size, by_bytes)?,
        Trigger::Followed(Followed::Returns) => writer.returns()?,
        Trigger::Followed(Followed::Begins { size, answer }) => {
            writer.begins(size, answer)?;
            return writer.code.finish();
        }
        Trigger::Followed(Followed::Frees) => {
            writer.frees()?;
            return writer.code.finish();
        }
    }
    writer.begin();
    if trigger.needs_stack() {
        writer.thread();
        if let Some(process) = process {
            writer.erlang_bounds(process);
        }
        writer.native_stack();
        match process {
            Some(_) => writer.erlang_stack(),
            None => writer.no_erlang_stack(),
        }
    } else {
        writer.no_stack();
    }
    writer.output();
    writer.code.finish()
}

impl Writer<'_> {
    /// Finds the record's memory and the registers of user space.
    fn begin(&mut self) {
        let scratch = self.maps.scratch.raw();
        let code = &mut self.code;
        code.call(Helper::ProcessorId);
        code.store_u32(STACK, KEY, R0);
        lookup(code, scratch);
        code.jump_if(R0, Condition::Equal, Value(0), self.plain);
        code.set(R7, In(R0));
        code.call(Helper::CurrentTask);
        if let Some(returns) = self.maps.returns {
            code.load(R1, R0, returns.utask);
            code.load(R1, R1, returns.return_instances);
            for at in [offset::REPLACED, offset::REPLACED_BEFORE] {
                code.load(R2, R1, returns.stack);
                code.store(R7, at, In(R2));
                code.load(R2, R1, returns.orig_ret_vaddr);
                code.store(R7, at + 8, In(R2));
                code.load(R1, R1, returns.next);
            }
        }
        code.set(R1, In(R0));
        code.call(Helper::TaskRegisters);
        for (from, to) in REGISTERS {
            code.load(R1, R0, from);
            code.store(R7, to, In(R1));
        }
        code.load(R8, R7, offset::SP);
        for field in [
            offset::PROCESS,
            offset::IDENTIFIER,
            offset::FRAME_POINTER,
            offset::STOP,
            offset::ERLANG_START,
        ] {
            code.store(R7, field, Value(0));
        }
        code.store(STACK, ERLANG_END, Value(0));
        let value = match self.trigger {
            Trigger::Event => Some((SAMPLE_PERIOD, 8)),
            Trigger::Tracepoint { field, .. } => field.map(|it| (it.offset, it.size)),
            Trigger::Call { call, .. } => return self.transfer(call),
            Trigger::Followed(_) => return self.numbers_of_blocks(),
            Trigger::Function { .. } => {
                code.load(R1, STACK, STANDS_FOR);
                return code.store(R7, offset::VALUE, In(R1));
            }
        };
        match value {
            None => return code.store(R7, offset::VALUE, Value(1)),
            Some((offset, 4)) => code.load_u32(R1, R6, offset),
            Some((offset, _)) => code.load(R1, R6, offset),
        }
        code.store(R7, offset::VALUE, In(R1));
    }

    /// Leaves the threads of other processes alone.
    fn only(&mut self, process: u32) {
        self.numbers();
        self.code.load_u32(R1, STACK, PROCESS_NUMBER);
        let number = Value(process.cast_signed());
        let other = Condition::NotEqual;
        self.code.jump_if(R1, other, number, self.plain);
    }

    /// Puts the numbers of the thread and its process on the stack, as the process's own namespace has them.
    fn numbers(&mut self) {
        // A thread of another namespace, where numbers mean others.
        let elsewhere = self.trigger.is_of_all().then_some(self.plain);
        numbers(&mut self.code, self.namespace, elsewhere);
    }

    /// Finds what is known of the thread, by its number in the process's own namespace.
    fn thread(&mut self) {
        let threads = self.maps.threads.raw();
        self.numbers();
        let code = &mut self.code;
        lookup(code, threads);
        code.set(R9, In(R0));
        code.jump_if(R9, Condition::Equal, Value(0), self.guess);
    }

    /// Finds the identifier and the stack of the Erlang process that the thread runs, and which of its two
    /// stacks the thread is on.
    fn erlang_bounds(&mut self, process: &ProcessLayout) {
        let at = |field: i16| PROCESS_WORDS + (field - process.first());
        let [found, moving, off, keep] = [(); 4].map(|()| self.code.label());
        let code = &mut self.code;
        code.load(R3, R9, thread::CURRENT_PROCESS);
        code.jump_if(R3, Condition::Equal, Value(0), self.native);
        read_user(code, &on_stack(CURRENT), Value(8));
        code.jump_if(R0, Condition::NotEqual, Value(0), self.native);
        code.load(R3, STACK, CURRENT);
        code.jump_if(R3, Condition::Equal, Value(0), self.native);
        try_process(code, process, Some(moving), found);
        // A stand-in, as `ets:select` gives its match specifications. The process itself is where the
        // first native function has saved the register that compiled code keeps it in.
        code.load(R3, R9, thread::TOP);
        code.jump_if(R3, Condition::Equal, Value(0), self.native);
        code.subtract(R3, Value(i32::from(SAVED_WORDS) * 8));
        read_user(code, &on_stack(SAVED), Value(i32::from(SAVED_WORDS) * 8));
        code.jump_if(R0, Condition::NotEqual, Value(0), self.native);
        for word in (0..SAVED_WORDS).rev() {
            code.load(R3, STACK, SAVED + word * 8);
            try_process(code, process, None, found);
        }
        code.jump(self.native);
        // Collecting garbage, a process has its stack in the new heap already while it lets go of the old one,
        // whose bounds it still has.
        code.place(moving);
        code.load(R3, STACK, at(process.stop));
        code.jump_if(R3, Condition::Equal, Value(0), self.native);
        code.load(R1, STACK, CURRENT);
        code.store(R7, offset::PROCESS, In(R1));
        code.load(R1, STACK, at(process.frame_pointer));
        code.store(R7, offset::FRAME_POINTER, In(R1));
        code.store(R7, offset::STOP, In(R3));
        code.store(R7, offset::ERLANG_START, In(R3));
        code.add(R3, Value(MOVED_STACK));
        code.store(STACK, ERLANG_END, In(R3));
        code.jump(self.native);
        code.place(found);
        code.load(R1, STACK, IDENTIFIER);
        code.store(R7, offset::IDENTIFIER, In(R1));
        code.load(R1, STACK, CURRENT);
        code.store(R7, offset::PROCESS, In(R1));
        code.load(R1, STACK, at(process.frame_pointer));
        code.store(R7, offset::FRAME_POINTER, In(R1));
        code.load(R3, STACK, at(process.stop));
        code.store(R7, offset::STOP, In(R3));
        code.load(R1, STACK, at(process.heap));
        code.load(R2, STACK, at(process.hend));
        code.store(STACK, ERLANG_END, In(R2));
        code.jump_if(R8, Condition::Below, In(R1), off);
        code.jump_if(R8, Condition::AtLeast, In(R2), off);
        // On the Erlang stack: its top is the stack pointer, and there is no other to copy.
        code.store(R7, offset::ERLANG_START, In(R8));
        code.set(R8, Value(0));
        code.jump(self.erlang);
        code.place(off);
        code.subtract(R3, Value(BELOW_TOP));
        code.jump_if(R3, Condition::AtLeast, In(R1), keep);
        code.set(R3, In(R1));
        code.place(keep);
        code.store(R7, offset::ERLANG_START, In(R3));
    }

    /// Copies the stack from R8 on, as far as the thread uses it; R8 becomes the length.
    fn native_stack(&mut self) {
        let small = self.code.label();
        let largest = self.largest;
        let code = &mut self.code;
        code.place(self.native);
        code.load(R1, R9, thread::LOW);
        code.load(R2, R9, thread::TOP);
        code.jump_if(R8, Condition::Below, In(R1), self.guess);
        code.jump_if(R8, Condition::AtLeast, In(R2), self.guess);
        code.subtract(R2, In(R8));
        at_most(code, R2, largest, small);
        code.set(R9, In(R2));
        code.set(R3, In(R8));
        read_user(code, &in_record(offset::BYTES), In(R9));
        // Bounds that are too wide hold pages that nobody has touched yet.
        code.jump_if(R0, Condition::NotEqual, Value(0), self.guess);
        code.set(R8, In(R9));
        code.jump(self.erlang);
        code.place(self.guess);
        for size in GUESSES.into_iter().filter(|size| *size <= largest) {
            let next = code.label();
            code.set(R3, In(R8));
            read_user(code, &in_record(offset::BYTES), Value(size));
            code.jump_if(R0, Condition::NotEqual, Value(0), next);
            code.set(R8, Value(size));
            code.jump(self.erlang);
            code.place(next);
        }
        code.set(R8, Value(0));
    }

    /// Copies the Erlang stack, where one was found, behind the native one; R9 becomes the length. What lies below
    /// its top may be memory that nobody has touched yet: then from the top on.
    fn erlang_stack(&mut self) {
        let [none, done] = [(); 2].map(|()| self.code.label());
        let code = &mut self.code;
        code.place(self.erlang);
        code.store(R7, offset::NATIVE_LENGTH, In(R8));
        code.load(R3, R7, offset::ERLANG_START);
        code.jump_if(R3, Condition::Equal, Value(0), none);
        copy_erlang(code, done);
        code.load(R3, R7, offset::STOP);
        code.store(R7, offset::ERLANG_START, In(R3));
        copy_erlang(code, done);
        code.place(none);
        code.set(R9, Value(0));
        code.place(done);
        code.store(R7, offset::ERLANG_LENGTH, In(R9));
    }

    /// The record where no thread runs Erlang; R9 becomes 0.
    fn no_erlang_stack(&mut self) {
        let code = &mut self.code;
        code.place(self.erlang);
        code.store(R7, offset::NATIVE_LENGTH, In(R8));
        code.store(R7, offset::ERLANG_LENGTH, Value(0));
        code.set(R9, Value(0));
    }

    /// Writes the record into the processor's ring. One that is full has counted the loss.
    fn output(&mut self) {
        let code = &mut self.code;
        code.set(R5, Value(offset::BYTES.into()));
        code.add(R5, In(R8));
        code.add(R5, In(R9));
        code.set(R1, In(R6));
        code.map(R2, self.maps.output.raw());
        // BPF_F_CURRENT_CPU
        code.set_u32(R3, u32::MAX);
        code.set(R4, In(R7));
        code.call(Helper::PerfEventOutput);
        self.release();
        let code = &mut self.code;
        for refusal in [NOT_ON_THIS_CPU, NO_SUCH_OUTPUT] {
            code.jump_if(R0, Condition::Equal, Value(refusal), self.plain);
        }
        // A tracepoint's answer holds for all who look at it, other profilers too.
        code.exit(self.trigger.is_of_all().into());
        code.place(self.plain);
        self.release();
        let code = &mut self.code;
        code.exit(1);
        // The kernel refuses instructions that nothing leads to.
        if self.trigger.is_in_code() {
            code.place(self.passed);
            code.exit(0);
        }
    }

    /// Gives the processor's record to the next that comes by.
    fn release(&mut self) {
        if self.trigger.is_in_code() {
            self.code.load(R1, STACK, STATE);
            self.code.store(R1, state::BUSY, Value(0));
        }
    }
}

/// Jumps to `found` where R3 is a process, by its identifier and the bounds of its heap, with its fields and
/// itself on the stack. What is certain to be one gives the record its identifier also while its heap moves, and
/// jumps to `moving` then.
fn try_process(code: &mut Bytecode, process: &ProcessLayout, moving: Option<Label>, found: Label) {
    let at = |field: i16| PROCESS_WORDS + (field - process.first());
    let next = code.label();
    code.jump_if(R3, Condition::Equal, Value(0), next);
    code.store(STACK, CURRENT, In(R3));
    read_user(code, &on_stack(IDENTIFIER), Value(8));
    code.jump_if(R0, Condition::NotEqual, Value(0), next);
    code.load(R2, STACK, IDENTIFIER);
    code.set(R1, In(R2));
    code.and(R1, Value(beam::IDENTIFIER_MASK));
    code.jump_if(R1, Condition::NotEqual, Value(beam::IDENTIFIER_TAG), next);
    if moving.is_some() {
        code.store(R7, offset::IDENTIFIER, In(R2));
    }
    code.load(R3, STACK, CURRENT);
    code.add(R3, Value(process.first().into()));
    read_user(
        code,
        &on_stack(PROCESS_WORDS),
        Value(ProcessLayout::SPAN.into()),
    );
    code.jump_if(R0, Condition::NotEqual, Value(0), next);
    code.load(R1, STACK, at(process.heap));
    code.load(R2, STACK, at(process.hend));
    code.load(R3, STACK, at(process.stop));
    code.jump_if(R1, Condition::Equal, Value(0), next);
    code.jump_if(R3, Condition::Below, In(R1), moving.unwrap_or(next));
    code.jump_if(R3, Condition::Below, In(R2), found);
    if let Some(moving) = moving {
        code.jump(moving);
    }
    code.place(next);
}

/// Memory of the program's own.
struct Place {
    base: Register,
    offset: i16,
}

fn on_stack(offset: i16) -> Place {
    let base = STACK;
    Place { base, offset }
}

fn in_record(offset: i16) -> Place {
    Place { base: R7, offset }
}

/// Copies `length` bytes of user space from R3 on; R0 becomes 0 where that could be done.
fn read_user(code: &mut Bytecode, to: &Place, length: Operand) {
    code.set(R1, In(to.base));
    code.add(R1, Value(to.offset.into()));
    code.set(R2, length);
    code.call(Helper::ReadUser);
}

/// Copies an Erlang stack from R3 on behind the native copy, whose length is R8, and jumps to `done` where that could be
/// done; R9 is the length.
fn copy_erlang(code: &mut Bytecode, done: Label) {
    let small = code.label();
    code.load(R2, STACK, ERLANG_END);
    code.subtract(R2, In(R3));
    at_most(code, R2, LARGEST_ERLANG, small);
    code.set(R9, In(R2));
    code.set(R1, In(R7));
    code.add(R1, Value(offset::BYTES.into()));
    code.add(R1, In(R8));
    code.call(Helper::ReadUser);
    code.jump_if(R0, Condition::Equal, Value(0), done);
}

/// A register that is larger becomes `most`.
fn at_most(code: &mut Bytecode, register: Register, most: i32, small: Label) {
    let large = code.label();
    code.jump_if(register, Condition::Above, Value(most), large);
    code.jump(small);
    code.place(large);
    code.set(register, Value(most));
    code.place(small);
}
