//! Erlang's terms, as `advanced.config` has them, without secrets: lists, tuples, atoms and numbers are shown, but for
//! what stands behind a name of a secret; strings and binaries only where they are known.

use super::BLOT;
use super::command::{is_known_by_itself, names_secret};

/// Lists and tuples within each other that are followed.
const DEEPEST: usize = 64;
/// Letters of an atom that is shown.
const LONGEST_ATOM: usize = 48;

/// A term as it is shown.
#[derive(Debug)]
struct Shown {
    text: String,
    /// It is, or holds, a name of a secret: what stands behind it in a tuple may be one.
    names_secret: bool,
    /// It is a word, and no list or tuple.
    is_word: bool,
}

/// Terms that are not read yet.
struct Terms<'a> {
    rest: &'a str,
    depth: usize,
}

/// The text of an `advanced.config` without secrets and comments; `***` where it is more than a list of plain terms.
pub fn terms(text: &str) -> String {
    let mut terms = Terms { rest: text, depth: 0 };
    terms.file().unwrap_or_else(|| BLOT.to_owned())
}

impl<'a> Terms<'a> {
    fn file(&mut self) -> Option<String> {
        let mut out = self.blank();
        if !self.rest.starts_with('[') {
            return None;
        }
        out += &self.term()?.text;
        out += &self.blank();
        self.rest = self.rest.strip_prefix('.')?;
        out.push('.');
        out += &self.blank();
        self.rest.is_empty().then_some(out)
    }

    /// The text between terms, without comments.
    fn blank(&mut self) -> String {
        let mut out = String::new();
        loop {
            let rest = self.rest.trim_start();
            out += self.take(self.rest.len() - rest.len());
            if !self.rest.starts_with('%') {
                return out;
            }
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    /// The next bytes, of which whole letters are asked for.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !of(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    fn term(&mut self) -> Option<Shown> {
        match self.rest.chars().next()? {
            '[' => self.sequence(']'),
            '{' => self.sequence('}'),
            'a'..='z' => {
                let atom = self.take_while(|c| c.is_ascii_alphanumeric() || "_@".contains(c));
                Some(Shown {
                    text: if atom.len() <= LONGEST_ATOM { atom } else { BLOT }.to_owned(),
                    names_secret: names_secret(atom),
                    is_word: true,
                })
            }
            '0'..='9' | '-' => self.number(),
            quote @ ('"' | '\'') => {
                self.take(1);
                let content = self.content(quote)?;
                Some(Shown::word(&content, &format!("{quote}{content}{quote}")))
            }
            '<' => {
                self.rest = self.rest.strip_prefix("<<\"")?;
                let content = self.content('"')?;
                let end = ["/utf8>>", ">>"].into_iter().find(|it| self.rest.starts_with(it))?;
                self.take(end.len());
                Some(Shown::word(&content, &format!("<<\"{content}\"{end}")))
            }
            _ => None,
        }
    }

    /// A list or a tuple.
    fn sequence(&mut self, close: char) -> Option<Shown> {
        self.depth += 1;
        let mut text = self.take(1).to_owned();
        let (mut names, mut hides) = (false, false);
        text += &self.blank();
        while !self.rest.starts_with(close) {
            if self.depth > DEEPEST {
                return None;
            }
            let term = self.term()?;
            text += if hides { BLOT } else { &term.text };
            names |= term.names_secret;
            // A pair of a list says nothing of those behind it.
            hides |= term.names_secret && (close == '}' || term.is_word);
            // What is hidden of a tuple may name what stands behind it.
            hides |= close == '}' && term.is_word && term.text == BLOT;
            text += &self.blank();
            if self.rest.starts_with([',', '|']) {
                text += self.take(1);
                text += &self.blank();
            } else if !self.rest.starts_with(close) {
                return None;
            }
        }
        self.depth -= 1;
        text += self.take(1);
        Some(Shown { text, names_secret: names, is_word: false })
    }

    /// A number, also with a base, a fraction and an exponent.
    fn number(&mut self) -> Option<Shown> {
        let sign = usize::from(self.rest.starts_with('-'));
        let digits = self.rest.get(sign..)?;
        let mut end = digits.find(|c: char| !(c.is_ascii_alphanumeric() || "#_".contains(c))).unwrap_or(digits.len());
        let behind = digits.get(end..).and_then(|it| it.strip_prefix('.'));
        if let Some(behind) = behind.filter(|it| it.starts_with(|c: char| c.is_ascii_digit())) {
            let part = behind.find(|c: char| !c.is_ascii_digit());
            end += 1 + part.unwrap_or(behind.len());
        }
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit());
        is_number.then(|| Shown { text: self.take(sign + end).to_owned(), names_secret: false, is_word: true })
    }

    /// The text before the quote that ends it, which is passed.
    fn content(&mut self, quote: char) -> Option<String> {
        let mut is_escaped = false;
        let end = self.rest.find(|c| {
            let is_end = c == quote && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        })?;
        let content = self.take(end).to_owned();
        self.take(1);
        Some(content)
    }
}

impl Shown {
    /// A string, a binary or an atom in quotes, with its content.
    fn word(content: &str, whole: &str) -> Self {
        let is_number = content.bytes().all(|it| it.is_ascii_digit());
        let is_shown = content.is_empty() || is_known_by_itself(content) && !is_number;
        Self {
            text: if is_shown { whole } else { BLOT }.to_owned(),
            names_secret: names_secret(content),
            is_word: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::Random;

    use super::*;

    #[test]
    fn what_may_be_a_secret_is_hidden_in_terms_and_others_are_shown_as_they_are() {
        for given in [
            "[{rabbit,[{credit_flow_default_credit,{0,0}}]}].",
            "[{rabbit, [{tcp_listen_options, [{backlog, 4096}, {nodelay, true}]},\n  {x, -1.5}, {y, 16#ff}]} ].\n",
            "[].",
            "[{kernel, [{a, [1, 2 | 3]}, {log, \"/var/log/x.log\"}, {b, <<\"rabbit\">>}, {c, 'rabbit'}]}].",
        ] {
            assert_eq!(terms(given), given);
        }
        for [given, shown] in testkit::table(include_str!("../../tests/data/redact/terms.txt")) {
            assert_eq!(terms(given), shown);
        }
        // More than plain terms, or none: nobody knows what it holds.
        let others = r#"|s3cret|hunter2.|[{a,#{b => 1234}}].|[{a,f(1234)}].|[{a,$s}].|[{a,"s3cret}].|[{a,1}]"#;
        let wrong = "[{a,1}]. [1234].|[{a,<<1,2>>}].|[a b].|[1234|[{a,1}}.";
        for given in others.split('|').chain(wrong.split('|')) {
            assert_eq!(terms(given), BLOT, "{given}");
        }
        assert_eq!(terms(&"[".repeat(100_000)), BLOT);
    }

    /// However terms are nested: no string is shown that is not known, and nothing behind a name of a secret.
    #[test]
    fn no_secret_survives_in_terms() {
        fn term(random: &mut Random, depth: u64) -> String {
            let of = |random: &mut Random| term(random, depth + 1);
            match random.below(if depth > 4 { 5 } else { 9 }) {
                0 => "\"s3cret, }]\"".to_owned(),
                1 => "<<\"s3cret\">>".to_owned(),
                2 => "'s3cret x'".to_owned(),
                3 => "true".to_owned(),
                4 => "12".to_owned(),
                5 => format!("{{default_pass, 90817263, {}}}", of(random)),
                6 => format!("{{<<\"token\">>, [{}, 90817263]}}", of(random)),
                7 => format!("[{}, {}]", of(random), of(random)),
                _ => format!("{{a, {} , {}}}", of(random), of(random)),
            }
        }
        let mut random = Random::new(7);
        for _ in 0..2_000 {
            let given = format!("[{}].", term(&mut random, 0));
            let shown = terms(&given);
            assert!(!shown.contains("s3cret") && !shown.contains("9081"), "{given}\n{shown}");
            assert_ne!(shown, BLOT, "{given}");
        }
    }
}
