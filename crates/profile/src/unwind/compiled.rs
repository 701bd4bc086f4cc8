//! The frames of code that a JIT compiled, where they stand on the thread's own stack between those of native code.
//! Java keeps frame pointers where the JVM was told to, its interpreter and stubs always do; other compilers mostly do.

use super::native::{End, NativeUnwinder};
use crate::record::Address;
use crate::stack_copy::StackCopy;

/// Changes from compiled to native code and back that are followed at most.
const MOST_CHANGES: usize = 64;

/// Adds the addresses of a stack from where native code was called by compiled code, up to its root.
pub(super) fn follow(
    native: &mut NativeUnwinder,
    copy: &StackCopy<'_>,
    mut end: End,
    addresses: &mut Vec<Address>,
) -> End {
    for _ in 0..MOST_CHANGES {
        let End::Compiled { frame, .. } = end else { return end };
        end = through_compiled(native, copy, frame, addresses);
    }
    End::Lost
}

/// Adds the callers in compiled code, the last frame of which is at `frame`, and the native code that called those.
fn through_compiled(
    native: &mut NativeUnwinder,
    copy: &StackCopy<'_>,
    mut frame: u64,
    addresses: &mut Vec<Address>,
) -> End {
    loop {
        let caller = frame.checked_add(8).and_then(|at| copy.native.word(at));
        let (Some(before), Some(caller)) = (copy.native.word(frame), caller) else { return End::Lost };
        let mut take = |address| addresses.push(Address::User(address));
        if !native.is_compiled(caller) {
            return native.resume(copy, caller, frame.saturating_add(16), before, &mut take);
        }
        take(caller);
        // Callers stand above, so that this ends.
        if before <= frame {
            return End::Lost;
        }
        frame = before;
    }
}

/// Adds what frame pointers found above the last common address, where the copy ended early; all if it has more.
pub(super) fn add_rest(addresses: &mut Vec<Address>, chain: impl Iterator<Item = Address>) {
    let chain: Vec<Address> = chain.filter(Address::is_user).collect();
    let first = addresses.iter().position(Address::is_user).unwrap_or(addresses.len());
    let last = addresses.last().filter(|last| last.is_user());
    match last.and_then(|last| chain.iter().rposition(|it| it == last)) {
        Some(common) => addresses.extend(chain.iter().skip(common + 1)),
        None if chain.len() > addresses.len() - first => {
            addresses.truncate(first);
            addresses.extend(chain);
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(own: &[u64], theirs: &[u64]) -> Vec<u64> {
        let users = |all: &[u64]| -> Vec<Address> {
            std::iter::once(Address::Kernel(7)).chain(all.iter().map(|it| Address::User(*it))).collect()
        };
        let mut addresses = users(own);
        add_rest(&mut addresses, users(theirs).into_iter());
        assert_eq!(addresses[0], Address::Kernel(7));
        let user = addresses[1..].iter().map(|it| match it {
            Address::User(address) => *address,
            Address::Kernel(_) => panic!("{addresses:?}"),
        });
        user.collect()
    }

    #[test]
    fn where_the_copy_ends_the_kernels_walk_goes_on() {
        assert_eq!(rest(&[1, 2, 3], &[1, 3, 4, 5]), [1, 2, 3, 4, 5]);
        assert_eq!(rest(&[1, 2, 3], &[9]), [1, 2, 3], "nothing in common, and shorter");
        assert_eq!(rest(&[1], &[1]), [1]);
        assert_eq!(rest(&[1], &[2, 3]), [2, 3]);
        assert_eq!(rest(&[], &[2]), [2]);
        assert_eq!(rest(&[1, 2], &[]), [1, 2]);
    }
}
