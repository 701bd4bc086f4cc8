//! Bytecode of the kernel's eBPF machine, put together instruction by instruction, so that neither
//! this machine nor the user's needs a compiler for it.
//!
//! An instruction is 64 bits: opcode, destination and source register (4 bits each), a signed offset
//! of 16 bits and a constant of 32 (`Documentation/bpf/standardization/instruction-set.rst`).

/// A register. R0 holds answers, R1 to R5 arguments, R6 to R9 survive calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register(u8);

pub(super) const R0: Register = Register(0);
pub(super) const R1: Register = Register(1);
pub(super) const R2: Register = Register(2);
pub(super) const R3: Register = Register(3);
pub(super) const R4: Register = Register(4);
pub(super) const R5: Register = Register(5);
pub(super) const R6: Register = Register(6);
pub(super) const R7: Register = Register(7);
pub(super) const R8: Register = Register(8);
pub(super) const R9: Register = Register(9);
/// The end of the program's own 512 bytes of stack.
pub(super) const STACK: Register = Register(10);

/// What is added, moved or compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    Value(i32),
    In(Register),
}

/// When to jump. Values are compared without sign, but where it is said.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Condition {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
    Below = 0xa0,
    /// With sign.
    Greater = 0x60,
}

/// The kernel's functions that the program calls (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(super) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    Random = 7,
    ProcessorId = 8,
    PidTgid = 14,
    ThreadName = 16,
    PerfEventOutput = 25,
    ReadUser = 112,
    PidTgidInNamespace = 120,
    CurrentTask = 158,
    TaskRegisters = 175,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A program while it is being written.
#[derive(Debug, Default)]
pub(super) struct Bytecode {
    instructions: Vec<u64>,
    /// Where each label stands, once that is known.
    labels: Vec<Option<usize>>,
    /// Instructions that jump to a label.
    jumps: Vec<(usize, Label)>,
}

const ADD: u8 = 0x07;
const SUBTRACT: u8 = 0x17;
const MULTIPLY: u8 = 0x27;
const DIVIDE: u8 = 0x37;
const AND: u8 = 0x57;
/// What an instruction on memory that others change, too, does: adds, or exchanges; the register becomes what was there.
const FETCH_AND_ADD: i32 = 0x01;
const EXCHANGE: i32 = 0xe1;
const MOVE: u8 = 0xb7;
const JUMP: u8 = 0x05;
/// The operand is a register rather than a constant.
const FROM_REGISTER: u8 = 0x08;

impl Bytecode {
    fn push(&mut self, opcode: u8, to: Register, from: Register, offset: i16, value: i32) {
        let registers = u64::from(to.0 | from.0 << 4);
        let offset = u64::from(offset.cast_unsigned());
        let value = u64::from(value.cast_unsigned());
        self.instructions
            .push(u64::from(opcode) | registers << 8 | offset << 16 | value << 32);
    }

    fn with_operand(&mut self, opcode: u8, to: Register, operand: Operand) {
        match operand {
            Operand::Value(value) => self.push(opcode, to, R0, 0, value),
            Operand::In(from) => self.push(opcode | FROM_REGISTER, to, from, 0, 0),
        }
    }

    pub(super) fn set(&mut self, to: Register, operand: Operand) {
        self.with_operand(MOVE, to, operand);
    }

    pub(super) fn add(&mut self, to: Register, operand: Operand) {
        self.with_operand(ADD, to, operand);
    }

    pub(super) fn subtract(&mut self, to: Register, operand: Operand) {
        self.with_operand(SUBTRACT, to, operand);
    }

    pub(super) fn multiply(&mut self, to: Register, operand: Operand) {
        self.with_operand(MULTIPLY, to, operand);
    }

    /// Without signs; what is divided by 0 becomes 0.
    pub(super) fn divide(&mut self, to: Register, operand: Operand) {
        self.with_operand(DIVIDE, to, operand);
    }

    /// Adds `register` to the word at `base + offset`, in one step; `register` becomes what was there.
    pub(super) fn fetch_and_add(&mut self, base: Register, offset: i16, register: Register) {
        self.push(0xdb, base, register, offset, FETCH_AND_ADD);
    }

    /// Exchanges `register` and the word at `base + offset`, in one step.
    pub(super) fn exchange(&mut self, base: Register, offset: i16, register: Register) {
        self.push(0xdb, base, register, offset, EXCHANGE);
    }

    pub(super) fn and(&mut self, to: Register, operand: Operand) {
        self.with_operand(AND, to, operand);
    }

    /// `to` becomes the 32 bits of `value`, without sign.
    pub(super) fn set_u32(&mut self, to: Register, value: u32) {
        self.push(0xb4, to, R0, 0, value.cast_signed());
    }

    /// `to` becomes `value`.
    pub(super) fn set_u64(&mut self, to: Register, value: u64) {
        let [low, high] = [value as u32, (value >> 32) as u32].map(u32::cast_signed);
        self.push(0x18, to, R0, 0, low);
        self.push(0, R0, R0, 0, high);
    }

    /// `to` becomes the word of 64 bits at `base + offset`.
    pub(super) fn load(&mut self, to: Register, base: Register, offset: i16) {
        self.push(0x79, to, base, offset, 0);
    }

    /// `to` becomes the 32 bits at `base + offset`, without sign.
    pub(super) fn load_u32(&mut self, to: Register, base: Register, offset: i16) {
        self.push(0x61, to, base, offset, 0);
    }

    /// The word at `base + offset` becomes `from`.
    pub(super) fn store(&mut self, base: Register, offset: i16, from: Operand) {
        match from {
            Operand::In(from) => self.push(0x7b, base, from, offset, 0),
            Operand::Value(value) => self.push(0x7a, base, R0, offset, value),
        }
    }

    /// The 32 bits at `base + offset` become the lower half of `from`.
    pub(super) fn store_u32(&mut self, base: Register, offset: i16, from: Register) {
        self.push(0x63, base, from, offset, 0);
    }

    /// `to` becomes the map of a descriptor.
    pub(super) fn map(&mut self, to: Register, descriptor: i32) {
        self.push(0x18, to, R1, 0, descriptor);
        self.push(0, R0, R0, 0, 0);
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.push(0x85, R0, R0, 0, helper as i32);
    }

    /// Ends the program; what it answers is the kernel's cue whether to write its own sample.
    pub(super) fn exit(&mut self, answer: i32) {
        self.set(R0, Operand::Value(answer));
        self.push(0x95, R0, R0, 0, 0);
    }

    /// A label that is placed later.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction is where `label` stands.
    pub(super) fn place(&mut self, label: Label) {
        if let Some(at) = self.labels.get_mut(label.0) {
            *at = Some(self.instructions.len());
        }
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP, R0, R0, 0, 0);
    }

    pub(super) fn jump_if(
        &mut self,
        register: Register,
        condition: Condition,
        operand: Operand,
        label: Label,
    ) {
        self.jumps.push((self.instructions.len(), label));
        self.with_operand(JUMP | condition as u8, register, operand);
    }

    /// The program; `None` where it jumps to a label that was not placed, or too far.
    pub(super) fn finish(mut self) -> Option<Vec<u64>> {
        for (from, label) in self.jumps {
            let to = (*self.labels.get(label.0)?)?;
            let distance = i64::try_from(to).ok()? - i64::try_from(from).ok()? - 1;
            let distance = i16::try_from(distance).ok()?;
            *self.instructions.get_mut(from)? |= u64::from(distance.cast_unsigned()) << 16;
        }
        Some(self.instructions)
    }
}

#[cfg(test)]
mod tests {
    use super::Operand::{In, Value};
    use super::*;

    #[test]
    fn instructions_are_encoded_as_the_kernels_documentation_says() {
        let mut code = Bytecode::default();
        let end = code.label();
        code.set(R6, In(R1));
        code.add(R2, Value(-8));
        code.and(R1, Value(15));
        code.divide(R2, In(R1));
        code.load(R1, R7, 16);
        code.load_u32(R1, STACK, -4);
        code.store_u32(STACK, -8, R0);
        code.jump_if(R2, Condition::Above, Value(16_384), end);
        code.call(Helper::MapLookup);
        code.place(end);
        code.set_u64(R2, 0x1_f000_0002);
        code.exit(1);
        assert_eq!(
            code.finish().unwrap(),
            [
                0x0000_0000_0000_16bf,
                0xffff_fff8_0000_0207,
                0x0000_000f_0000_0157,
                0x0000_0000_0000_123f,
                0x0000_0000_0010_7179,
                0x0000_0000_fffc_a161,
                0x0000_0000_fff8_0a63,
                0x0000_4000_0001_0225,
                0x0000_0001_0000_0085,
                0xf000_0002_0000_0218,
                0x0000_0001_0000_0000,
                0x0000_0001_0000_00b7,
                0x0000_0000_0000_0095,
            ]
        );
    }

    #[test]
    fn a_jump_to_nowhere_is_no_program() {
        let mut code = Bytecode::default();
        let label = code.label();
        code.jump(label);
        assert_eq!(code.finish(), None);
    }
}
