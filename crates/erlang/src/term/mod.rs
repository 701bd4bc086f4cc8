//! Erlang terms: made, read, checked and shown. The types are those of `erl_dist`.

mod check;
mod show;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

pub use erl_dist::term::{Atom, BigInteger, Binary, FixInteger, Float, List, Map, Pid, Reference, Term, Tuple};

pub(crate) use check::{MOST_MEMORY, malformed};
pub use check::{TermError, TermSize, check, decode, encode};
pub use show::show;

/// An atom.
pub fn atom(name: &str) -> Term {
    Term::from(Atom::from(name))
}

/// A binary with this text.
pub fn text(text: &str) -> Term {
    Term::from(Binary::from(text.as_bytes().to_vec()))
}

/// A list of characters: what Erlang calls a string.
pub fn charlist(text: &str) -> Term {
    // What is longer is no string in the external format.
    if text.is_ascii() && !text.is_empty() && text.len() <= usize::from(u16::MAX) {
        return Term::from(text.to_owned());
    }
    list(text.chars().map(|it| int(i64::from(u32::from(it)))))
}

/// An integer.
pub fn int(value: i64) -> Term {
    match i32::try_from(value) {
        // Of a list of small integers `eetf` makes a string, of negative ones, too, which would come out as others.
        Ok(value) if value >= 0 => Term::from(FixInteger::from(value)),
        _ => Term::from(BigInteger::from(value)),
    }
}

/// A length of time, as whole milliseconds.
pub(crate) fn millis(time: Duration) -> Term {
    int(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// A tuple.
pub fn tuple(elements: impl IntoIterator<Item = Term>) -> Term {
    Term::from(Tuple::from(elements.into_iter().collect::<Vec<_>>()))
}

/// A list.
pub fn list(elements: impl IntoIterator<Item = Term>) -> Term {
    let sign = |term: Term| match term {
        Term::FixInteger(it) if it.value < 0 => int(i64::from(it.value)),
        term => term,
    };
    Term::from(List::from(elements.into_iter().map(sign).collect::<Vec<_>>()))
}

/// A map.
pub fn map(entries: impl IntoIterator<Item = (Term, Term)>) -> Term {
    Term::from(Map::from(entries.into_iter().collect::<HashMap<_, _>>()))
}

/// The name of an atom.
pub fn as_atom(term: &Term) -> Option<&str> {
    match term {
        Term::Atom(atom) => Some(&atom.name),
        _ => None,
    }
}

/// An integer that 128 bits hold.
pub fn as_int(term: &Term) -> Option<i128> {
    match term {
        Term::FixInteger(it) => Some(i128::from(it.value)),
        Term::BigInteger(it) => i128::try_from(&it.value).ok(),
        _ => None,
    }
}

/// The bytes of a binary.
pub fn as_bytes(term: &Term) -> Option<&[u8]> {
    match term {
        Term::Binary(it) => Some(&it.bytes),
        _ => None,
    }
}

/// The text of a binary, a list of characters or an atom; what is not UTF-8 is replaced.
pub fn as_text(term: &Term) -> Option<String> {
    match term {
        Term::Binary(it) => Some(String::from_utf8_lossy(&it.bytes).into_owned()),
        Term::Atom(it) => Some(it.name.clone()),
        // Characters, each of less than 256.
        Term::ByteList(it) => Some(it.bytes.iter().map(|byte| char::from(*byte)).collect()),
        Term::List(it) => {
            let character = |term: &Term| as_int(term).and_then(|it| u32::try_from(it).ok()).and_then(char::from_u32);
            it.elements.iter().map(character).collect()
        }
        _ => None,
    }
}

/// The elements of a list. A list of small integers comes as a string, whose bytes become terms again.
pub fn as_list(term: &Term) -> Option<Cow<'_, [Term]>> {
    match term {
        Term::List(it) => Some(Cow::Borrowed(&it.elements)),
        Term::ByteList(it) => {
            let integers = it.bytes.iter().map(|byte| FixInteger::from(*byte).into());
            Some(Cow::Owned(integers.collect()))
        }
        _ => None,
    }
}

pub(crate) fn as_texts(term: &Term) -> Option<Vec<String>> {
    as_list(term)?.iter().map(as_text).collect()
}

/// The elements of a tuple.
pub fn as_tuple(term: &Term) -> Option<&[Term]> {
    match term {
        Term::Tuple(it) => Some(&it.elements),
        _ => None,
    }
}

/// Exactly so many terms, such as the elements of a tuple.
pub(crate) fn exactly<const N: usize>(terms: &[Term]) -> Option<&[Term; N]> {
    terms.try_into().ok()
}

/// Value of a map, or a list of pairs, under an atom or a binary of this name.
pub fn get<'a>(term: &'a Term, key: &str) -> Option<&'a Term> {
    let is_key = |term: &Term| match term {
        Term::Atom(atom) => atom.name == key,
        Term::Binary(binary) => binary.bytes == key.as_bytes(),
        _ => false,
    };
    match term {
        Term::Map(map) => map.map.iter().find_map(|(name, value)| is_key(name).then_some(value)),
        Term::List(list) => list.elements.iter().find_map(|pair| match as_tuple(pair)? {
            [name, value] if is_key(name) => Some(value),
            _ => None,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{as_int, as_list, atom, decode, encode, get, int, list, tuple};

    #[test]
    fn lists_are_read_whether_they_come_as_strings_or_pairs() {
        // As Erlang writes [1, 2].
        let small = decode(b"\x83k\0\x02\x01\x02").expect("a string");
        let small = as_list(&small).expect("a list");
        assert_eq!(small.iter().filter_map(as_int).collect::<Vec<_>>(), [1, 2]);

        let mut bytes = Vec::new();
        encode(&list([tuple([atom("a"), int(1 << 40)])]), &mut bytes).expect("encoded");
        let pairs = decode(&bytes).expect("decoded");
        assert_eq!(get(&pairs, "a").and_then(as_int), Some(1 << 40));
        assert!(get(&pairs, "nothing").is_none());
    }
}
