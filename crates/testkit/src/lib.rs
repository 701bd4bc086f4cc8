//! Helpers for tests of several crates. A dev-dependency only.

mod process;
mod proxy;
mod random;

pub use process::{ChildGuard, java, process_with_number, signal};
pub use proxy::{Link, Proxy, relay};
pub use random::{Played, Random, play};

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

/// Leaves a test, as [`skip`] does, where there is a reason why it cannot run.
#[macro_export]
macro_rules! skip_for {
    ($reason:expr) => {
        if let Some(reason) = $reason {
            $crate::skip!("{reason}");
        }
    };
}

/// A result's value. Without one it leaves the test, as [`skip`] does, with the reason.
#[macro_export]
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(reason) => $crate::skip!("{reason}"),
        }
    };
}

/// Leaves a test, as [`skip`] does, that needs a real broker, where Debian's RabbitMQ is not installed.
#[macro_export]
macro_rules! needs_rabbitmq {
    () => {
        if !$crate::has_rabbitmq() {
            $crate::skip!("no RabbitMQ; apt-get install rabbitmq-server");
        }
    };
}

/// How many random scenes a property test plays, and the first one's seed. Without anything said it plays `usual` of
/// them; `make prove` asks for six times as many with `BELLOWS_SEEDS=6x`. To repeat one: `BELLOWS_FIRST_SEED=N
/// BELLOWS_SEEDS=1`.
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
    text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number"))
}

/// The seeds of [`seeds`], and those of scenes that failed once, which are played every time; not where
/// one scene is repeated.
pub fn seeds_and(usual: u64, failed_once: &[u64]) -> Vec<u64> {
    let seeds = seeds(usual);
    let is_one = seeds.end - seeds.start == 1;
    let again = failed_once.iter().filter(|_| !is_one);
    seeds.chain(again.copied()).collect()
}

/// Whether Debian's RabbitMQ is installed.
pub fn has_rabbitmq() -> bool {
    std::path::Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").exists()
}

/// Erlang that tells what of bellows is on a node: modules, names, processes, processes with trace flags, functions of
/// these modules with a trace pattern or a counter, and trace sessions. Where there is none its value is the text
/// [`NOTHING_LEFT`].
pub fn left_on_node(modules: &[&str]) -> String {
    format!(
        "Named = fun(A) -> lists:prefix(\"bellows_\", atom_to_list(A)) end, \
         M = [A || {{A, _}} <- code:all_loaded(), Named(A)], \
         N = [A || A <- registered(), Named(A)], \
         P = [A || A <- processes(), {{dictionary, D}} <- [process_info(A, dictionary)], \
                   {{'$initial_call', {{B, _, _}}}} <- D, Named(B)], \
         F = [A || A <- [new | processes()], {{flags, [_ | _]}} <- [catch erlang:trace_info(A, flags)]], \
         T = [{{Mod, A, B}} || Mod <- [{}], {{A, B}} <- Mod:module_info(functions), \
                        K <- [traced, call_count, call_time, meta], \
                        {{_, V}} <- [erlang:trace_info({{Mod, A, B}}, K)], V =/= false, V =/= undefined], \
         S = [A || erlang:function_exported(trace, session_info, 1), {{A, _}} <- trace:session_info(all), Named(A)], \
         lists:flatten(io_lib:format(\"~p\", [[M, N, P, F, T, S]])).",
        modules.join(", ")
    )
}

/// The value of [`left_on_node`] on a clean node.
pub const NOTHING_LEFT: &str = "[[],[],[],[],[],[]]";

/// Rows of a table in a file, whose cells ` ⇒ ` parts, and in which `↵` is a line break. A line that begins with `## `
/// is a remark.
///
/// # Panics
/// With the row that has another number of cells, and where there is none.
pub fn table<const N: usize>(text: &str) -> Vec<[&'static str; N]> {
    let cells = |row: &str| -> [&'static str; N] {
        let cells = row.split(" ⇒").map(|cell| cell.strip_prefix(' ').unwrap_or(cell));
        let cells: Vec<&'static str> = cells.map(|cell| &*cell.replace('↵', "\n").leak()).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("not {N} cells: {cells:?}"))
    };
    let rows: Vec<_> = text.lines().filter(|line| !line.starts_with("## ")).map(cells).collect();
    assert!(!rows.is_empty(), "there is no row");
    rows
}

/// The one item of a list.
///
/// # Panics
/// With the list, where it has none or several.
#[track_caller]
pub fn only<T: std::fmt::Debug>(list: &[T]) -> &T {
    let [one] = list else { panic!("not one: {list:#?}") };
    one
}

/// Asserts that a text has all of these parts.
#[track_caller]
pub fn assert_has<const N: usize>(text: impl AsRef<str>, parts: [&str; N]) {
    let text = text.as_ref();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

/// Asserts that a text has none of these parts.
#[track_caller]
pub fn assert_lacks<const N: usize>(text: impl AsRef<str>, parts: [&str; N]) {
    let text = text.as_ref();
    for part in parts {
        assert!(!text.contains(part), "{part:?} is in: {text}");
    }
}

/// Asserts that a text begins so.
#[track_caller]
pub fn assert_begins(text: impl AsRef<str>, begin: impl AsRef<str>) {
    let (text, begin) = (text.as_ref(), begin.as_ref());
    assert!(text.starts_with(begin), "{begin:?} does not begin: {text}");
}

/// Asserts that a text ends so.
#[track_caller]
pub fn assert_ends(text: impl AsRef<str>, end: impl AsRef<str>) {
    let (text, end) = (text.as_ref(), end.as_ref());
    assert!(text.ends_with(end), "{end:?} does not end: {text}");
}
