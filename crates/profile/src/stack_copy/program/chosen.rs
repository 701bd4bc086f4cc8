//! Which calls of a function become samples.

use super::{STANDS_FOR, STATE, Writer, register_of};
use crate::allocators::{Argument, Size};
use crate::stack_copy::bytecode::Operand::{In, Value};
use crate::stack_copy::bytecode::{Condition, Helper, Label, R0, R1, R2, R6, R8, R9, STACK};
use crate::stack_copy::chance::{self, state};
use crate::stack_copy::threads::{KEY, lookup};

/// Nobody has that much memory (2 to this power): the call will fail.
const MOST_BYTES_BITS: u32 = 47;

impl Writer<'_> {
    /// Goes on where the call becomes a sample.
    pub(super) fn choose(&mut self, size: Size, by_bytes: bool) -> Option<()> {
        self.requested(size, by_bytes);
        self.draw(self.passed)?;
        self.claim(self.passed);
        Some(())
    }

    /// R9 becomes the processor's state.
    pub(super) fn state(&mut self) -> Option<()> {
        let chance = self.maps.chance.as_ref()?;
        let code = &mut self.code;
        code.call(Helper::ProcessorId);
        code.store_u32(STACK, KEY, R0);
        lookup(code, chance.states.raw());
        code.jump_if(R0, Condition::Equal, Value(0), self.passed);
        code.set(R9, In(R0));
        Some(())
    }

    /// Takes the calls or bytes in R8 off those until the next sample; goes on where they are used up, with the
    /// processor's state in R9.
    pub(super) fn draw(&mut self, unchosen: Label) -> Option<()> {
        let chance = self.maps.chance.as_ref()?;
        self.state()?;
        let (code, passed) = (&mut self.code, self.passed);
        code.set(R1, Value(0));
        code.subtract(R1, In(R8));
        code.fetch_and_add(R9, state::LEFT, R1);
        code.jump_if(R1, Condition::Greater, In(R8), unchosen);
        // What was asked for beyond, and the mean.
        code.subtract(R8, In(R1));
        code.add(R8, Value(chance.one_in.cast_signed()));
        if chance.one_in <= 1 {
            code.set(R8, Value(1));
        }
        code.store(STACK, STANDS_FOR, In(R8));
        code.call(Helper::Random);
        code.and(R0, Value(chance::DRAWS.cast_signed() - 1));
        code.store_u32(STACK, KEY, R0);
        lookup(code, chance.draws.raw());
        code.jump_if(R0, Condition::Equal, Value(0), passed);
        code.load(R1, R0, 0);
        code.store(R9, state::LEFT, In(R1));
        Some(())
    }

    /// Goes on where nobody else is in the middle of the processor's record; its state is in R9.
    pub(super) fn claim(&mut self, busy: Label) {
        let code = &mut self.code;
        code.set(R1, Value(1));
        code.exchange(R9, state::BUSY, R1);
        code.jump_if(R1, Condition::NotEqual, Value(0), busy);
        code.store(STACK, STATE, In(R9));
    }

    /// R8 becomes the bytes that the function is asked for, or 1.
    pub(super) fn requested(&mut self, size: Size, by_bytes: bool) {
        let [fits, passed] = [self.code.label(), self.passed];
        let code = &mut self.code;
        if size == Size::Resize {
            code.load(R1, R6, register_of(Argument::First));
            code.jump_if(R1, Condition::Equal, Value(0), passed);
        }
        if !by_bytes {
            return code.set(R8, Value(1));
        }
        match size {
            Size::Resize => code.load(R8, R6, register_of(Argument::Second)),
            Size::Argument(argument) => code.load(R8, R6, register_of(argument)),
            Size::Product => {
                code.load(R8, R6, register_of(Argument::First));
                code.load(R1, R6, register_of(Argument::Second));
                code.multiply(R8, In(R1));
                // A product that is too large for a register fails, whatever is left of it.
                code.set(R2, In(R8));
                code.divide(R2, In(R1));
                code.load(R1, R6, register_of(Argument::First));
                code.jump_if(R2, Condition::NotEqual, In(R1), passed);
            }
        }
        code.set_u64(R1, 1 << MOST_BYTES_BITS);
        code.jump_if(R8, Condition::Below, In(R1), fits);
        code.jump(passed);
        code.place(fits);
    }
}
