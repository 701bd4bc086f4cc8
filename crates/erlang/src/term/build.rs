//! Terms that are sent.

use std::collections::HashMap;

use erl_dist::term::{Atom, BigInteger, Binary, FixInteger, List, Map, Term, Tuple};

/// An atom.
#[must_use]
pub fn atom(name: &str) -> Term {
    Term::from(Atom::from(name))
}

/// A binary with this text.
#[must_use]
pub fn text(text: &str) -> Term {
    Term::from(Binary::from(text.as_bytes().to_vec()))
}

/// A list of characters: what Erlang calls a string.
#[must_use]
pub fn charlist(text: &str) -> Term {
    // What is longer is no string in the external format.
    if text.is_ascii() && !text.is_empty() && text.len() <= usize::from(u16::MAX) {
        return Term::from(text.to_owned());
    }
    list(text.chars().map(|it| int(i64::from(u32::from(it)))))
}

/// An integer.
#[must_use]
pub fn int(value: i64) -> Term {
    match i32::try_from(value) {
        // Of a list of small integers `eetf` makes a string, of negative ones, too, which would come out as
        // others.
        Ok(value) if value >= 0 => Term::from(FixInteger::from(value)),
        _ => Term::from(BigInteger::from(value)),
    }
}

/// A tuple.
#[must_use]
pub fn tuple(elements: impl IntoIterator<Item = Term>) -> Term {
    Term::from(Tuple::from(elements.into_iter().collect::<Vec<_>>()))
}

/// A list.
#[must_use]
pub fn list(elements: impl IntoIterator<Item = Term>) -> Term {
    let sign = |term: Term| match term {
        Term::FixInteger(it) if it.value < 0 => int(i64::from(it.value)),
        term => term,
    };
    Term::from(List::from(
        elements.into_iter().map(sign).collect::<Vec<_>>(),
    ))
}

/// A map.
#[must_use]
pub fn map(entries: impl IntoIterator<Item = (Term, Term)>) -> Term {
    Term::from(Map::from(entries.into_iter().collect::<HashMap<_, _>>()))
}
