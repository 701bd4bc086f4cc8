//! Memory for message bodies in several frames, shared by all connections of this process.

use std::sync::LazyLock;

use wire::amqp091::BodyAllowance;

/// Bodies that are half there may always take so much together.
const LEAST_FOR_BODIES: u64 = 256 << 20;
/// Where the machine has more memory, they may take this part of it.
const PART_FOR_BODIES: u64 = 4;

static BODIES: LazyLock<BodyAllowance> = LazyLock::new(|| {
    let machine = rustix::system::sysinfo();
    let memory = u64::from(machine.mem_unit).saturating_mul(machine.totalram as u64);
    BodyAllowance::new((memory / PART_FOR_BODIES).max(LEAST_FOR_BODIES))
});

/// The allowance of this process.
pub(super) fn of_all_connections() -> BodyAllowance {
    BODIES.clone()
}
