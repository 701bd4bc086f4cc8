//! What the tests of several crates share. A dev-dependency only.

mod process;
mod relay;

pub use process::process_with_number;
pub use relay::{Link, relay};

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

/// Whether Debian's RabbitMQ is installed, for tests that need a real broker:
///
/// ```no_run
/// if !testkit::has_rabbitmq() {
///     testkit::skip!("no RabbitMQ; apt-get install rabbitmq-server");
/// }
/// ```
#[must_use]
pub fn has_rabbitmq() -> bool {
    std::path::Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").exists()
}
