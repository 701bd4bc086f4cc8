//! Blocks of an allocator that are followed until they are given back.
//!
//! Where a function that allocates begins, chance decides by the bytes that it is asked for; where it returns, the
//! block has its address, and gets a number. Of those, `free` finds the number by the address. The stack is copied at
//! the return: there the caller has its return address back, which the kernel replaces while the function runs.
//!
//! A block that is given back loses its number before the function begins, and gets one after it has returned, so that
//! nobody else can have its address meanwhile.

use super::{ENTERED, SAVED, Writer, on_stack, read_user, register_of};
use crate::allocators::{Answer, Argument, Size};
use crate::stack_copy::bytecode::Operand::{In, Value};
use crate::stack_copy::bytecode::{
    Bytecode, Condition, Helper, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, STACK,
};
use crate::stack_copy::following::{Following, call};
use crate::stack_copy::record::offset;
use crate::stack_copy::sys::Map;
use crate::stack_copy::threads::{KEY, lookup};

// On the program's own stack: what is known of a call, and the number of a new block.
const CALL: i16 = ENTERED - call::SIZE as i16;
const BYTES: i16 = CALL + call::BYTES;
const OLD_NUMBER: i16 = CALL + call::OLD_NUMBER;
const OLD_ADDRESS: i16 = CALL + call::OLD_ADDRESS;
const BEHIND: i16 = CALL + call::BEHIND;
const NUMBER: i16 = CALL - 8;
/// A record without stacks, where saved registers are otherwise.
const BARE: i16 = SAVED;

/// Where `struct pt_regs` of x86-64 has the answer of a function, and the stack pointer.
const ANSWER: i16 = 80;
const STACK_POINTER: i16 = 152;

impl Writer<'_> {
    /// The whole program where a function that allocates begins.
    pub(super) fn begins(&mut self, size: Size, answer: Answer) -> Option<()> {
        let following = self.maps.following.as_ref()?;
        let is_resize = size == Size::Resize;
        let [unchosen, chosen, follow, to_nothing] = [(); 4].map(|()| self.code.label());
        let passed = self.passed;
        self.requested(size, true);
        if is_resize {
            self.code
                .jump_if(R8, Condition::Equal, Value(0), to_nothing);
        }
        self.code.store(STACK, BYTES, In(R8));
        self.draw(if is_resize { unchosen } else { passed })?;
        let code = &mut self.code;
        code.store(STACK, OLD_NUMBER, Value(0));
        code.store(STACK, OLD_ADDRESS, Value(0));
        if is_resize {
            code.jump(chosen);
            code.place(unchosen);
            code.store(STACK, BYTES, Value(0));
            code.place(chosen);
            forget(code, following);
            code.load(R1, STACK, BYTES);
            code.jump_if(R1, Condition::NotEqual, Value(0), follow);
            code.load(R1, STACK, OLD_NUMBER);
            code.jump_if(R1, Condition::Equal, Value(0), passed);
            code.place(follow);
        }
        match answer {
            Answer::Returned => code.store(STACK, BEHIND, Value(0)),
            Answer::Behind(argument) => {
                code.load(R1, R6, register_of(argument));
                code.store(STACK, BEHIND, In(R1));
            }
        }
        code.load(R1, R6, STACK_POINTER);
        code.store(STACK, KEY, In(R1));
        update(code, &following.calls, CALL);
        if is_resize {
            code.jump(passed);
            code.place(to_nothing);
        }
        if is_resize {
            self.frees()
        } else {
            self.code.place(passed);
            self.code.exit(0);
            Some(())
        }
    }

    /// The whole program where a block is given back.
    pub(super) fn frees(&mut self) -> Option<()> {
        let following = self.maps.following.as_ref()?;
        forget(&mut self.code, following);
        self.tell_release();
        self.code.place(self.passed);
        self.code.exit(0);
        Some(())
    }

    /// Goes on where a function that allocates has returned a block that is followed; R8 is its address.
    pub(super) fn returns(&mut self) -> Option<()> {
        let following = self.maps.following.as_ref()?;
        let [failed, direct, only_old, full, known] = [(); 5].map(|()| self.code.label());
        let (plain, passed) = (self.plain, self.passed);
        let code = &mut self.code;
        code.load(R1, R6, STACK_POINTER);
        // The return address was there.
        code.subtract(R1, Value(8));
        code.store(STACK, KEY, In(R1));
        lookup(code, following.calls.raw());
        code.jump_if(R0, Condition::Equal, Value(0), passed);
        for word in (0..call::SIZE as i16).step_by(8) {
            code.load(R1, R0, word);
            code.store(STACK, CALL + word, In(R1));
        }
        delete(code, &following.calls);
        code.load(R8, R6, ANSWER);
        code.load(R3, STACK, BEHIND);
        code.jump_if(R3, Condition::Equal, Value(0), direct);
        code.load_u32(R8, R6, ANSWER);
        code.jump_if(R8, Condition::NotEqual, Value(0), failed);
        read_user(code, &on_stack(KEY), Value(8));
        code.jump_if(R0, Condition::NotEqual, Value(0), failed);
        code.load(R8, STACK, KEY);
        code.place(direct);
        code.jump_if(R8, Condition::Equal, Value(0), failed);
        code.load(R1, STACK, BYTES);
        code.jump_if(R1, Condition::Equal, Value(0), only_old);
        self.state()?;
        self.claim(only_old);
        let code = &mut self.code;
        code.set(R1, Value(0));
        code.store_u32(STACK, KEY, R1);
        lookup(code, following.last.raw());
        code.jump_if(R0, Condition::Equal, Value(0), plain);
        code.set(R1, Value(1));
        code.fetch_and_add(R0, 0, R1);
        code.add(R1, Value(1));
        code.store(STACK, NUMBER, In(R1));
        code.store(STACK, KEY, In(R8));
        lookup(code, following.blocks.raw());
        code.jump_if(R0, Condition::Equal, Value(0), known);
        // Nobody saw that the block that had the address was given back; or the function has handed on to another that
        // is looked at, and that block is the same. The one that it has resized is given back besides.
        code.load(R9, R0, 0);
        self.tell_old();
        let code = &mut self.code;
        code.store(STACK, OLD_NUMBER, In(R9));
        code.store(STACK, KEY, In(R8));
        code.place(known);
        update(code, &following.blocks, NUMBER);
        code.jump_if(R0, Condition::Equal, Value(0), full);
        code.store(STACK, NUMBER, Value(0));
        code.jump(full);
        code.place(failed);
        // The old block stays where it was.
        code.load(R1, STACK, OLD_NUMBER);
        code.jump_if(R1, Condition::Equal, Value(0), passed);
        code.load(R1, STACK, OLD_ADDRESS);
        code.store(STACK, KEY, In(R1));
        update(code, &following.blocks, OLD_NUMBER);
        code.jump(passed);
        code.place(only_old);
        self.tell_release();
        self.code.jump(passed);
        self.code.place(full);
        Some(())
    }

    /// Writes the number of the block that was given back and that of the new one into the record.
    pub(super) fn numbers_of_blocks(&mut self) {
        let code = &mut self.code;
        code.store(R7, offset::VALUE, Value(0));
        code.store(R7, offset::RELEASED + 8, Value(0));
        for (from, to) in [
            (OLD_NUMBER, offset::RELEASED),
            (NUMBER, offset::TAKEN),
            (BYTES, offset::TAKEN + 8),
        ] {
            code.load(R1, STACK, from);
            code.store(R7, to, In(R1));
        }
        // Inside the call, as every caller's address is taken.
        code.load(R1, R7, offset::IP);
        code.subtract(R1, Value(1));
        code.store(R7, offset::IP, In(R1));
    }

    /// Tells that the block of the old number was given back, if it has one, and passes otherwise.
    fn tell_release(&mut self) {
        let code = &mut self.code;
        code.load(R1, STACK, OLD_NUMBER);
        code.jump_if(R1, Condition::Equal, Value(0), self.passed);
        self.tell_old();
    }

    /// Tells that the block of the old number was given back, if it has one, in a record without stacks.
    fn tell_old(&mut self) {
        let output = self.maps.output.raw();
        let code = &mut self.code;
        let nothing = code.label();
        code.load(R1, STACK, OLD_NUMBER);
        code.jump_if(R1, Condition::Equal, Value(0), nothing);
        for word in (0..offset::BYTES).step_by(8) {
            code.store(STACK, BARE + word, Value(0));
        }
        code.store(STACK, BARE + offset::RELEASED, In(R1));
        code.set(R1, In(R6));
        code.map(R2, output);
        // BPF_F_CURRENT_CPU
        code.set_u32(R3, u32::MAX);
        code.set(R4, In(STACK));
        code.add(R4, Value(BARE.into()));
        code.set(R5, Value(offset::BYTES.into()));
        code.call(Helper::PerfEventOutput);
        code.place(nothing);
    }
}

/// Takes the number of the block at the first argument, if it has one: it is about to be given back.
fn forget(code: &mut Bytecode, following: &Following) {
    let unknown = code.label();
    code.store(STACK, OLD_NUMBER, Value(0));
    code.store(STACK, OLD_ADDRESS, Value(0));
    code.load(R1, R6, register_of(Argument::First));
    code.store(STACK, KEY, In(R1));
    lookup(code, following.blocks.raw());
    code.jump_if(R0, Condition::Equal, Value(0), unknown);
    code.load(R1, R0, 0);
    code.store(STACK, OLD_NUMBER, In(R1));
    code.load(R1, STACK, KEY);
    code.store(STACK, OLD_ADDRESS, In(R1));
    delete(code, &following.blocks);
    code.place(unknown);
}

/// The value of the key on the stack becomes what stands at `value` there; R0 becomes 0 where that could be done.
fn update(code: &mut Bytecode, map: &Map, value: i16) {
    code.map(R1, map.raw());
    code.set(R2, In(STACK));
    code.add(R2, Value(KEY.into()));
    code.set(R3, In(STACK));
    code.add(R3, Value(value.into()));
    code.set(R4, Value(0));
    code.call(Helper::MapUpdate);
}

/// The key on the stack has no value any more.
fn delete(code: &mut Bytecode, map: &Map) {
    code.map(R1, map.raw());
    code.set(R2, In(STACK));
    code.add(R2, Value(KEY.into()));
    code.call(Helper::MapDelete);
}
