//! Helpers for tests of several crates. A dev-dependency only.

mod left;
mod process;
mod proxy;
mod random;
mod relay;
mod scenes;

pub use left::{NOTHING_LEFT, left_on_node};
pub use process::{java, process_with_number, signal};
pub use proxy::Proxy;
pub use random::Random;
pub use relay::{Link, relay};
pub use scenes::{Played, play};

/// Leaves a test that cannot run here, loudly: prints the reason, and fails where `CI` is set,
/// because CI allows no skip.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)*) => {{
        let reason = format!($($reason)*);
        assert!(
            std::env::var_os("CI").is_none(),
            "CI allows no skipped test, but this one cannot run: {reason}"
        );
        eprintln!("SKIPPED {}: {reason}", module_path!());
        return;
    }};
}

/// How many random scenes a property test plays, and the first one's seed. Without anything said it plays `usual` of
/// them; `make prove` asks for six times as many with `BELLOWS_SEEDS=6x`. To repeat one: `BELLOWS_FIRST_SEED=N
/// BELLOWS_SEEDS=1`.
///
/// # Panics
/// Where one of these variables is no number.
#[must_use]
pub fn seeds(usual: u64) -> std::ops::Range<u64> {
    let said = |name: &str| std::env::var(name).ok();
    let first = said("BELLOWS_FIRST_SEED").map_or(0, |text| number("BELLOWS_FIRST_SEED", &text));
    let count = said("BELLOWS_SEEDS").map_or(usual, |text| match text.strip_suffix('x') {
        Some(times) => usual.saturating_mul(number("BELLOWS_SEEDS", times)),
        None => number("BELLOWS_SEEDS", &text),
    });
    first..first.saturating_add(count)
}

fn number(name: &str, text: &str) -> u64 {
    text.parse()
        .unwrap_or_else(|_| panic!("{name}={text:?} is no number"))
}

/// The seeds of [`seeds`], and those of scenes that failed once, which are played every time; not where
/// one scene is repeated.
///
/// # Panics
/// As [`seeds`].
#[must_use]
pub fn seeds_and(usual: u64, failed_once: &[u64]) -> Vec<u64> {
    let seeds = seeds(usual);
    let is_one = seeds.end - seeds.start == 1;
    let again = failed_once.iter().filter(|_| !is_one);
    seeds.chain(again.copied()).collect()
}

/// Whether Debian's RabbitMQ is installed, for tests that need a real broker:
///
/// ```text
/// if !testkit::has_rabbitmq() {
///     testkit::skip!("no RabbitMQ; apt-get install rabbitmq-server");
/// }
/// ```
#[must_use]
pub fn has_rabbitmq() -> bool {
    std::path::Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").exists()
}
