//! Terms as Erlang writes them, cut.

use std::fmt::{self, Write};

use erl_dist::term::Term;

/// Text that is no longer than so many bytes.
struct Cut {
    text: String,
    most: usize,
}

impl Write for Cut {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for character in part.chars() {
            if self.text.len() >= self.most {
                return Err(fmt::Error);
            }
            self.text.push(character);
        }
        Ok(())
    }
}

/// A term as Erlang writes it, in one line of at most `most` bytes and an ellipsis.
pub fn show(term: &Term, most: usize) -> String {
    written(most, |out| write_term(out, term))
}

/// Text of a value, cut while it is written.
pub(super) fn cut(what: &dyn fmt::Display, most: usize) -> String {
    written(most, |out| write!(out, "{what}"))
}

fn written(most: usize, write: impl FnOnce(&mut Cut) -> fmt::Result) -> String {
    let mut cut = Cut { text: String::new(), most };
    if write(&mut cut).is_err() {
        cut.text.push('…');
    }
    cut.text
}

fn write_term(out: &mut Cut, term: &Term) -> fmt::Result {
    match term {
        Term::Atom(it) => write_atom(out, &it.name),
        Term::FixInteger(it) => write!(out, "{}", it.value),
        Term::BigInteger(it) => write!(out, "{}", it.value),
        Term::Float(it) => write!(out, "{:?}", it.value),
        Term::Pid(it) => write!(out, "<{}.{}.{}>", it.node.name.len().min(1), it.id, it.serial),
        Term::Port(it) => write!(out, "#Port<{}>", it.id),
        Term::Reference(it) => {
            out.write_str("#Ref<")?;
            for (i, id) in it.id.iter().rev().enumerate() {
                let dot = if i > 0 { "." } else { "" };
                write!(out, "{dot}{id}")?;
            }
            out.write_str(">")
        }
        Term::ExternalFun(it) => {
            out.write_str("fun ")?;
            write_atom(out, &it.module.name)?;
            out.write_str(":")?;
            write_atom(out, &it.function.name)?;
            write!(out, "/{}", it.arity)
        }
        Term::InternalFun(_) => out.write_str("#Fun"),
        Term::Binary(it) => write_binary(out, &it.bytes),
        Term::BitBinary(it) => write!(out, "<<{} bytes and bits>>", it.bytes.len()),
        Term::ByteList(it) => write_string(out, &it.bytes),
        Term::List(it) => write_all(out, "[", &it.elements, "]"),
        Term::ImproperList(it) => {
            write_all(out, "[", &it.elements, "|")?;
            write_term(out, &it.last)?;
            out.write_str("]")
        }
        Term::Tuple(it) => write_all(out, "{", &it.elements, "}"),
        Term::Map(it) => {
            out.write_str("#{")?;
            for (i, (key, value)) in it.map.iter().enumerate() {
                out.write_str(if i > 0 { "," } else { "" })?;
                write_term(out, key)?;
                out.write_str(" => ")?;
                write_term(out, value)?;
            }
            out.write_str("}")
        }
    }
}

fn write_all(out: &mut Cut, open: &str, terms: &[Term], close: &str) -> fmt::Result {
    out.write_str(open)?;
    for (i, term) in terms.iter().enumerate() {
        out.write_str(if i > 0 { "," } else { "" })?;
        write_term(out, term)?;
    }
    out.write_str(close)
}

fn write_atom(out: &mut Cut, name: &str) -> fmt::Result {
    let plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '@';
    if name.starts_with(|it: char| it.is_ascii_lowercase()) && name.chars().all(plain) {
        return out.write_str(name);
    }
    write_quoted(out, name.chars(), '\'')
}

fn write_binary(out: &mut Cut, bytes: &[u8]) -> fmt::Result {
    out.write_str("<<")?;
    match std::str::from_utf8(bytes) {
        Ok(text) => write_quoted(out, text.chars(), '"')?,
        Err(_) => write_numbers(out, bytes)?,
    }
    out.write_str(">>")
}

fn write_string(out: &mut Cut, bytes: &[u8]) -> fmt::Result {
    let printable = |byte: &u8| (b' '..127).contains(byte) || b"\n\r\t".contains(byte);
    if bytes.iter().all(printable) {
        return write_quoted(out, bytes.iter().copied().map(char::from), '"');
    }
    out.write_str("[")?;
    write_numbers(out, bytes)?;
    out.write_str("]")
}

fn write_numbers(out: &mut Cut, bytes: &[u8]) -> fmt::Result {
    for (i, byte) in bytes.iter().enumerate() {
        write!(out, "{}{byte}", if i > 0 { "," } else { "" })?;
    }
    Ok(())
}

fn write_quoted(out: &mut Cut, text: impl Iterator<Item = char>, quote: char) -> fmt::Result {
    out.write_char(quote)?;
    for character in text {
        write_escaped(out, character, quote)?;
    }
    out.write_char(quote)
}

fn write_escaped(out: &mut Cut, character: char, quote: char) -> fmt::Result {
    match character {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\\' => out.write_str("\\\\"),
        it if it == quote => write!(out, "\\{it}"),
        it if it.is_control() => write!(out, "\\x{{{:x}}}", u32::from(it)),
        it => out.write_char(it),
    }
}

#[cfg(test)]
mod tests {
    use super::show;
    use crate::term::{atom, charlist, decode, encode, int, list, map, text, tuple};

    #[test]
    fn terms_look_as_in_erlang_and_are_cut() {
        let term = tuple([
            atom("badrpc"),
            atom("Not plain"),
            text("a\"b\n\u{1b}"),
            list([int(-1), int(1 << 40)]),
            map([(atom("k"), tuple([]))]),
        ]);
        assert_eq!(show(&term, 200), r#"{badrpc,'Not plain',<<"a\"b\n\x{1b}">>,[-1,1099511627776],#{k => {}}}"#);
        assert_eq!(show(&term, 5), "{badr…");
        let mut bytes = Vec::new();
        encode(&charlist("hello"), &mut bytes).expect("encoded");
        assert_eq!(show(&decode(&bytes).expect("decoded"), 20), "\"hello\"");
    }
}
