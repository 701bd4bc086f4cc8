//! What a call for address space has taken and given back, from its arguments and its answer.

use super::Writer;
use super::register_of;
use crate::address_space::SystemCall;
use crate::allocators::Argument;
use crate::stack_copy::bytecode::Operand::{In, Value};
use crate::stack_copy::bytecode::{Bytecode, Condition, R0, R1, R2, R6, R7, R8, R9};
use crate::stack_copy::record::offset;

/// Where a system call has its fourth argument.
const FOURTH_OF_CALL: i16 = 56;
/// Where the record of the end of a system call has its answer, and the first of those that are errors.
const RESULT: i16 = 16;
const FIRST_ERROR: i32 = -4095;

impl Writer<'_> {
    /// Writes what memory a call has taken and given back, of those that have not failed; R0 is where the registers are.
    pub(super) fn transfer(&mut self, call: SystemCall) {
        let plain = self.plain;
        let code = &mut self.code;
        code.store(R7, offset::VALUE, Value(call.number().into()));
        for word in [offset::RELEASED, offset::TAKEN] {
            code.store(R7, word, Value(0));
            code.store(R7, word + 8, Value(0));
        }
        if call == SystemCall::Exec {
            // All addresses, as a number with sign.
            return code.store(R7, offset::RELEASED + 8, Value(-1));
        }
        code.load(R1, R6, RESULT);
        code.set(R2, Value(FIRST_ERROR));
        code.jump_if(R1, Condition::AtLeast, In(R2), plain);
        let [first, second, third] =
            [Argument::First, Argument::Second, Argument::Third].map(register_of);
        let (taken, released) = match call {
            SystemCall::Mmap => (Some(second), false),
            SystemCall::Mremap => (Some(third), true),
            SystemCall::Munmap => (None, true),
            SystemCall::Brk | SystemCall::Exec => (None, false),
        };
        if let Some(length) = taken {
            copy_register(code, length, offset::TAKEN + 8);
        }
        if call != SystemCall::Munmap {
            code.store(R7, offset::TAKEN, In(R1));
        }
        let keeps_old = code.label();
        if call == SystemCall::Mremap {
            code.load(R1, R0, FOURTH_OF_CALL);
            code.and(R1, Value(libc::MREMAP_DONTUNMAP));
            code.jump_if(R1, Condition::NotEqual, Value(0), keeps_old);
        }
        if released {
            copy_register(code, first, offset::RELEASED);
            copy_register(code, second, offset::RELEASED + 8);
        }
        code.place(keeps_old);
    }

    /// Writes that nothing of the stack is copied.
    pub(super) fn no_stack(&mut self) {
        let code = &mut self.code;
        for length in [offset::NATIVE_LENGTH, offset::ERLANG_LENGTH] {
            code.store(R7, length, Value(0));
        }
        code.set(R8, Value(0));
        code.set(R9, Value(0));
    }
}

/// Writes a register of the registers at R0 into the record.
fn copy_register(code: &mut Bytecode, from: i16, to: i16) {
    code.load(R2, R0, from);
    code.store(R7, to, In(R2));
}
