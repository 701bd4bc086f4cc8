//! How programs find and enter the thread that they run in, by its number.

use super::bytecode::Operand::{In, Value};
use super::bytecode::{Bytecode, Condition, Helper, Label, R0, R1, R2, R3, R4, STACK};
use super::namespace::PidNamespace;
use super::sys::Map;

/// Where a key stands on a program's own stack.
pub(super) const KEY: i16 = -8;

/// Puts the numbers of the thread and its process on the stack, as a namespace has them; a thread of none jumps to
/// `elsewhere`, or has those of this machine.
pub(super) fn numbers(
    code: &mut Bytecode,
    namespace: Option<PidNamespace>,
    elsewhere: Option<Label>,
) {
    let numbered = code.label();
    if let Some(namespace) = namespace {
        code.set_u64(R1, namespace.device);
        code.set_u64(R2, namespace.inode);
        code.set(R3, In(STACK));
        code.add(R3, Value(KEY.into()));
        code.set(R4, Value(8));
        // Writes `struct bpf_pidns_info`: the thread, the process.
        code.call(Helper::PidTgidInNamespace);
        code.jump_if(R0, Condition::Equal, Value(0), numbered);
        if let Some(elsewhere) = elsewhere {
            code.jump(elsewhere);
            return code.place(numbered);
        }
    }
    code.call(Helper::PidTgid);
    code.store(STACK, KEY, In(R0));
    code.place(numbered);
}

/// R0 becomes the value of the key on the stack, or 0.
pub(super) fn lookup(code: &mut Bytecode, map: i32) {
    code.set(R2, In(STACK));
    code.add(R2, Value(KEY.into()));
    code.map(R1, map);
    code.call(Helper::MapLookup);
}

/// Enters the thread that leaves its processor into the table; the word at `place` on the program's stack is used for
/// it. Only R6 to R9 stay what they are.
pub(super) fn enter(
    code: &mut Bytecode,
    threads: &Map,
    namespace: Option<PidNamespace>,
    place: i16,
) {
    let [new, done] = [(); 2].map(|()| code.label());
    numbers(code, namespace, None);
    code.load(R1, STACK, KEY);
    code.store(STACK, place, In(R1));
    // The lower half is the thread.
    code.call(Helper::PidTgid);
    code.store(STACK, KEY, In(R0));
    lookup(code, threads.raw());
    code.jump_if(R0, Condition::Equal, Value(0), new);
    // The number may have been another thread's.
    code.load(R1, STACK, place);
    code.store(R0, 0, In(R1));
    code.jump(done);
    code.place(new);
    code.map(R1, threads.raw());
    code.set(R2, In(STACK));
    code.add(R2, Value(KEY.into()));
    code.set(R3, In(STACK));
    code.add(R3, Value(place.into()));
    code.set(R4, Value(0));
    code.call(Helper::MapUpdate);
    code.place(done);
}
