//! Fields of maps that helper modules answer with.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::Error;
use crate::helper::{Answer, Helper};
use crate::term::{Term, as_int, as_text, get};

/// Keys of `erlang:memory/0`, in bytes.
pub(crate) const MEMORY_KINDS: [&str; 9] = [
    "total",
    "processes",
    "processes_used",
    "system",
    "atom",
    "atom_used",
    "binary",
    "code",
    "ets",
];

/// A number that cannot be negative.
pub(crate) fn number(term: &Term, key: &str) -> Option<u64> {
    as_int(get(term, key)?).map(unsigned)
}

/// A text.
pub(crate) fn text_of(term: &Term, key: &str) -> Option<String> {
    as_text(get(term, key)?)
}

/// The numbers that there are with these keys.
pub(crate) fn numbers(term: &Term, keys: &[&str]) -> BTreeMap<String, u64> {
    let pair = |key: &&str| Some(((*key).to_owned(), number(term, key)?));
    keys.iter().filter_map(pair).collect()
}

/// A count that cannot be negative.
pub(crate) fn unsigned(value: i128) -> u64 {
    u64::try_from(value.max(0)).unwrap_or(u64::MAX)
}

/// The failure where something of this name, for which we waited so long, gave no answer.
pub(crate) fn no_answer(helper: &Helper, answer: Answer, what: &str, after: Duration) -> Error {
    let node = helper.node().name().clone();
    let failed = |reason| Error::Exception {
        node: node.clone(),
        call: what.to_owned(),
        reason,
    };
    match answer {
        Answer::Failed(reason) => failed(reason),
        Answer::Ended => failed("it was ended on the node".to_owned()),
        Answer::Silent | Answer::Reply(_) => Error::Timeout {
            node: node.clone(),
            what: what.to_owned(),
            after,
        },
    }
}

/// The failure of an answer in another form than ours.
pub(crate) fn unexpected(helper: &Helper, call: &str) -> Error {
    Error::Exception {
        node: helper.node().name().clone(),
        call: call.to_owned(),
        reason: "its answer has another form than was expected".to_owned(),
    }
}
