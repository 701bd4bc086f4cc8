//! Commands within one word, as shells are given them.
//!
//! The grammar is that of `sh` and bash as far as it tells where words and commands end: quotes, backslashes, what ends
//! a command, comments, lists, and commands whose output is put in (`$(...)`, `<(...)`, backticks). What is left open
//! goes to the end of the line, but for a quote, which is a letter then: any text is read, also one that is no script.
//! What cannot be read for certain hides the rest of its command, and texts between `<<END` and `END` are hidden.

use super::options::is_program;
use super::{BLOT, Place, compares_secret, is_secret, split_secret, words_within};

/// Commands are looked for so deep within others; what lies deeper is hidden.
const DEEPEST: usize = 6;

/// A piece of a line.
#[derive(Debug)]
struct Piece {
    /// As it stands there; commands that are put in have no secrets any more.
    given: String,
    /// A word, as the command gets it; `None` where it stands between words.
    word: Option<String>,
    /// A command ends with it.
    ends: bool,
    /// What the command gets is not known, nor what that makes of the words behind it.
    is_uncertain: bool,
}

/// A command within one word, without secrets; `None` where it has none. Behind a word that speaks of secrets itself
/// nobody knows where they end, unless a program is named that is known.
pub(super) fn line(word: &str, is_secret: bool, place: Place<'_>) -> Option<String> {
    if !word.contains(|c: char| c.is_whitespace() || ";&|(`".contains(c)) {
        return None;
    }
    if place.depth > DEEPEST {
        return Some(BLOT.to_owned());
    }
    let all = pieces(word, place);
    let words: Vec<&str> = all.iter().filter_map(|it| it.word.as_deref()).collect();
    let is_known = words.iter().any(|it| *it != word && is_program(it));
    let is_one = words.len() == 1 && words.contains(&word);
    if is_known {
        return Some(shown(&all, place));
    }
    if is_secret || is_one {
        return None;
    }
    let shown = split_secret(word, place, |before| script(before, place));
    let shown = shown.unwrap_or_else(|| self::shown(&all, place));
    (shown != word).then_some(shown)
}

/// Commands that are known to be some, without secrets.
pub(super) fn script(text: &str, place: Place<'_>) -> String {
    match place.depth > DEEPEST {
        true => BLOT.to_owned(),
        false => shown(&pieces(text, place), place),
    }
}

fn shown(pieces: &[Piece], place: Place<'_>) -> String {
    let mut out = String::new();
    // What ends a command may stand within a secret: what follows one at once is hidden, too.
    let mut is_hidden = false;
    // The patterns of a secret lie in commands of their own.
    let mut in_case = false;
    for command in pieces.split_inclusive(|it| it.ends) {
        let plain = command.iter().filter_map(|it| it.word.clone());
        let plain: Vec<String> = plain.collect();
        let has = |word: &str| plain.iter().any(|it| it == word);
        let mut hides_rest = std::mem::take(&mut in_case);
        in_case = (hides_rest || has("case") && compares_secret(&plain)) && !has("esac");
        let mut shown = words_within(&plain, place.within()).into_iter();
        for piece in command {
            hides_rest |= piece.is_uncertain;
            let shown = piece.word.as_ref().and_then(|word| {
                let shown = shown.next().filter(|shown| shown != word);
                match is_hidden || hides_rest {
                    true => Some(place.keep(word, || BLOT.to_owned())),
                    false => shown,
                }
            });
            is_hidden |= shown.is_some();
            is_hidden &= piece.word.is_some() || !piece.given.contains(char::is_whitespace);
            out.push_str(shown.as_ref().unwrap_or(&piece.given));
        }
    }
    out
}

fn pieces(line: &str, place: Place<'_>) -> Vec<Piece> {
    let reader = Reader {
        line,
        place,
        at: 0,
        quotes_end: None,
        comment_end: 0,
        word: None,
        in_address: false,
        in_query: false,
        is_uncertain: false,
        here: Vec::new(),
        pieces: Vec::new(),
    };
    reader.run()
}

/// What a place of a line is within.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Single,
    /// Letters with backslashes, `$'...'`.
    Escaped,
    Double,
    Backticks,
    Parentheses,
    /// A parameter, `${...}`.
    Braces,
    Comment,
}

/// How far it is to the end of what a text begins within; `None` where that stays open. Reads each letter once.
fn closing(text: &str, first: Within) -> Option<usize> {
    use Within::{Backticks, Braces, Comment, Double, Escaped, Parentheses, Single};
    let mut open = vec![first];
    let mut last = ' ';
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        let before = std::mem::replace(&mut last, c);
        if std::mem::take(&mut is_escaped) {
            last = ' ';
            continue;
        }
        match (*open.last()?, c) {
            (Single | Escaped, '\'')
            | (Double, '"')
            | (Backticks, '`')
            | (Parentheses, ')')
            | (Braces, '}') => {
                open.pop();
                if open.is_empty() {
                    return Some(at);
                }
            }
            (Comment, '\n') => drop(open.pop()),
            (Single | Comment, _) => {}
            (_, '\\') => is_escaped = true,
            (Backticks | Escaped, _) => {}
            (Double | Braces, '(') if before != '$' => {}
            (_, '(') => open.push(Parentheses),
            (_, '{') if before == '$' => open.push(Braces),
            (_, '`') => open.push(Backticks),
            (Parentheses, '\'') if before == '$' => open.push(Escaped),
            (Parentheses, '\'') => open.push(Single),
            (Parentheses | Braces, '"') => open.push(Double),
            (Parentheses, '#') if before.is_whitespace() || ";&|(".contains(before) => {
                open.push(Comment);
            }
            _ => {}
        }
    }
    None
}

/// Reads a line from its beginning to its end.
struct Reader<'a> {
    line: &'a str,
    place: Place<'a>,
    at: usize,
    /// Where the double quotes end that it is in.
    quotes_end: Option<usize>,
    /// Where the last comment ends: quotes in it do.
    comment_end: usize,
    /// The word that has begun: as it stands there, and as the command gets it.
    word: Option<(String, String)>,
    /// The word is an address.
    in_address: bool,
    /// And it has a query.
    in_query: bool,
    /// What the command gets of the word is not known.
    is_uncertain: bool,
    /// Ends of texts that begin with the next line.
    here: Vec<String>,
    pieces: Vec<Piece>,
}

impl<'a> Reader<'a> {
    fn run(mut self) -> Vec<Piece> {
        while let Some(c) = self.rest().chars().next() {
            if self.quotes_end == Some(self.at) {
                self.quotes_end = None;
                self.add(1, "");
            } else if self.quotes_end.is_some() {
                self.letter(c);
            } else {
                self.bare(c);
            }
        }
        self.end_word();
        self.pieces
    }

    fn rest(&self) -> &'a str {
        self.line.get(self.at..).unwrap_or_default()
    }

    /// What stands behind so many bytes from here, as far as quotes and comments go.
    fn behind(&self, bytes: usize) -> &'a str {
        let comment = Some(self.comment_end).filter(|end| self.at < *end);
        let end = self.quotes_end.or(comment).unwrap_or(self.line.len());
        self.line.get(self.at + bytes..end).unwrap_or_default()
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let taken = self.rest().get(..bytes).unwrap_or_default();
        self.at += bytes;
        taken
    }

    /// Adds so many bytes to the word, of which the command gets `plain`.
    fn add(&mut self, bytes: usize, plain: &str) {
        let taken = self.take(bytes);
        self.add_as(taken, plain);
    }

    fn add_as(&mut self, given: &str, plain: &str) {
        let word = self.word.get_or_insert_default();
        word.0.push_str(given);
        word.1.push_str(plain);
        self.in_address |= given == "/" && word.0.ends_with("://");
        self.in_query |= given == "?" && self.in_address;
    }

    fn end_word(&mut self) {
        (self.in_address, self.in_query) = (false, false);
        let is_uncertain = std::mem::take(&mut self.is_uncertain);
        if let Some((given, plain)) = self.word.take() {
            // Whatever parts words.
            let has_parts = given.contains("$IFS") || given.contains("${IFS");
            self.pieces.push(Piece {
                given,
                word: Some(plain),
                ends: false,
                is_uncertain: is_uncertain || has_parts,
            });
        }
    }

    /// Ends the word with so many bytes that belong to none.
    fn between(&mut self, bytes: usize, ends: bool) {
        self.end_word();
        let given = self.take(bytes).to_owned();
        self.pieces.push(Piece {
            given,
            word: None,
            ends,
            is_uncertain: false,
        });
        if ends && self.pieces.last().is_some_and(|it| it.given == "\n") {
            self.skip_here();
        }
    }

    /// Hides the texts of which the last line told the ends. Without its end a text goes to that of the whole.
    fn skip_here(&mut self) {
        for end in std::mem::take(&mut self.here) {
            let mut length = 0;
            for line in self.rest().split_inclusive('\n') {
                if line.trim_end_matches('\n').trim_start_matches('\t') == end {
                    break;
                }
                length += line.len();
            }
            let body = self.take(length);
            let text = body.strip_suffix('\n').unwrap_or(body);
            if !text.is_empty() {
                self.add_as(text, text);
                self.is_uncertain = true;
                self.end_word();
            }
            let line_end = body.get(text.len()..).unwrap_or_default().to_owned();
            self.pieces.push(Piece {
                given: line_end,
                word: None,
                ends: true,
                is_uncertain: false,
            });
        }
    }

    /// Notes the end of a text that begins with the next line, behind `<<`.
    fn note_here(&mut self) {
        let rest = self.rest().get(2..).unwrap_or_default();
        let rest = rest
            .strip_prefix('-')
            .unwrap_or(rest)
            .trim_start_matches([' ', '\t']);
        let is_end = |c: char| c.is_whitespace() || ";&|<>()".contains(c);
        let end = rest.split(is_end).next().unwrap_or_default();
        // `1 << 2` is none.
        if end.starts_with(|c: char| c.is_alphabetic() || "_'\"\\".contains(c)) {
            self.here.push(end.replace(['\'', '"', '\\'], ""));
        }
    }

    /// Takes a letter, or more, outside of quotes.
    fn bare(&mut self, c: char) {
        match c {
            _ if c.is_whitespace() => self.between(c.len_utf8(), c == '\n'),
            '#' if self.word.is_none() => {
                if self.at >= self.comment_end {
                    let length = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.comment_end = self.at + length;
                }
                self.between(1, true);
            }
            '<' if self.rest().starts_with("<<") && self.at >= self.comment_end => {
                let is_here = !self.rest().starts_with("<<<");
                if is_here {
                    self.note_here();
                }
                let sign = if is_here { "<<" } else { "<<<" };
                self.add(sign.len(), sign);
            }
            '<' | '>' if self.behind(1).starts_with('(') => self.command(2, Within::Parentheses),
            '$' if self.behind(1).starts_with('\'') => self.escaped(),
            '(' if self.word.as_ref().is_some_and(|it| it.1.ends_with('=')) => self.list(),
            '\'' => match closing(self.behind(1), Within::Single) {
                Some(length) => {
                    let plain = self.behind(1).get(..length).unwrap_or_default();
                    self.add(length + 2, plain);
                }
                None => self.add(1, ""),
            },
            '"' => {
                let length = closing(self.behind(1), Within::Double);
                let end = length.map(|length| self.at + 1 + length);
                self.add(1, "");
                self.quotes_end = end;
            }
            ';' => self.between(1, true),
            '(' if self.word.is_none() => self.between(1, true),
            '&' | '|' if !self.is_of_word(c) => self.between(1, true),
            _ => self.letter(c),
        }
    }

    /// Whether a sign that ends commands does not: in redirections, and between parameters of an address.
    fn is_of_word(&self, c: char) -> bool {
        let before = self.line.get(..self.at).unwrap_or_default();
        let next = self.rest().get(1..).unwrap_or_default();
        let is_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        let is_parameter = || {
            let name = next.trim_start_matches(is_name);
            name.len() < next.len() && name.starts_with('=')
        };
        before.ends_with(['>', '<'])
            || c == '&' && (next.starts_with('>') || self.in_query && is_parameter())
    }

    /// Takes a letter, or what means the same within double quotes and outside.
    fn letter(&mut self, c: char) {
        let next = self.behind(1).chars().next();
        match (c, next) {
            ('\\', Some('\n')) if self.word.is_none() => self.between(2, false),
            ('\\', Some(next)) => {
                let length = 1 + next.len_utf8();
                let both = self.rest().get(..length).unwrap_or_default();
                let is_kept = self.quotes_end.is_some() && !"\\\"$`".contains(next);
                match next {
                    '\n' => self.add(length, ""),
                    _ if is_kept => self.add(length, both),
                    _ => self.add(length, both.get(1..).unwrap_or_default()),
                }
            }
            ('$', Some('(')) => self.command(2, Within::Parentheses),
            ('$', Some('{')) => self.parameter(),
            ('`', _) => self.command(1, Within::Backticks),
            _ => {
                let letter = self.rest().get(..c.len_utf8()).unwrap_or_default();
                self.add(letter.len(), letter);
            }
        }
    }

    /// Takes `$'...'`.
    fn escaped(&mut self) {
        let inner = self.behind(2);
        let Some(length) = closing(inner, Within::Escaped) else {
            return self.add(1, "$");
        };
        let mut letters = inner.get(..length).unwrap_or_default().chars();
        let mut plain = String::new();
        while let Some(c) = letters.next() {
            plain.push(match (c, c == '\\') {
                (c, false) => c,
                (_, true) => match letters.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some(c @ ('\\' | '\'' | '"')) => c,
                    // Numbers of letters, and what else there may be.
                    _ => {
                        self.is_uncertain = true;
                        ' '
                    }
                },
            });
        }
        self.add(length + 3, &plain);
    }

    /// Takes the words of a list, `NAME=(...)`, as those of a command.
    fn list(&mut self) {
        if self.word.as_ref().is_some_and(|it| is_secret(&it.1)) {
            let inner = self.behind(1);
            let end = closing(inner, Within::Parentheses).unwrap_or(inner.len());
            let words = inner.get(..end).unwrap_or_default().split_whitespace();
            words.for_each(|it| self.place.hide(it));
        }
        self.command(1, Within::Parentheses);
    }

    /// Takes `${...}`, which may hold blanks.
    fn parameter(&mut self) {
        let inner = self.behind(2);
        let length = closing(inner, Within::Braces);
        let inner = inner
            .get(..length.unwrap_or(inner.len()))
            .unwrap_or_default();
        self.at += 2 + inner.len();
        let end = self.take(usize::from(length.is_some()));
        let shown = script(inner, self.place.within());
        self.add_as(&format!("${{{shown}{end}"), &format!("${{{inner}{end}"));
    }

    /// Takes a command whose output is put in, behind the sign of so many bytes that it begins with.
    fn command(&mut self, sign: usize, within: Within) {
        let inner = self.behind(sign);
        let length = closing(inner, within);
        if length.is_none() && within == Within::Backticks {
            let sign = self.take(sign);
            return self.add_as(sign, sign);
        }
        let inner = inner
            .get(..length.unwrap_or(inner.len()))
            .unwrap_or_default();
        let begin = self.take(sign);
        self.at += inner.len();
        let end = self.take(usize::from(length.is_some()));
        let plain = match within {
            Within::Backticks => without_backslashes(inner, self.quotes_end.is_some()),
            _ => inner.to_owned(),
        };
        let shown = script(&plain, self.place.within());
        let shown = if shown == plain { inner } else { &shown };
        // It has been looked at.
        self.add_as(&format!("{begin}{shown}{end}"), &format!("{begin}{end}"));
    }
}

/// A command between backticks as the shell reads it: what is put into it has backslashes before its own backticks.
fn without_backslashes(inner: &str, is_quoted: bool) -> String {
    let mut letters = inner.chars().peekable();
    let is_taken = |c: &char| "`\\$".contains(*c) || is_quoted && *c == '"';
    let mut plain = String::with_capacity(inner.len());
    while let Some(c) = letters.next() {
        let escaped = letters.next_if(|next| c == '\\' && is_taken(next));
        plain.push(escaped.unwrap_or(c));
    }
    plain
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
