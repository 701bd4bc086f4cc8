//! Texts with names in them: known names are replaced, and so are addresses, paths and nodes, by their form.

use std::net::Ipv6Addr;

use experiment::TextKind;

use super::names::{Names, before, folded, is_loopback, is_public_part, is_word, said_kind};
use super::words::are_own_words;

/// Sites with public documentation, those of known patterns included.
const PUBLIC_SITES: [&str; 8] = [
    "github.com/rabbitmq",
    "github.com/prometheus-erl",
    "www.rabbitmq.com",
    "www.erlang.org",
    "erlang.org",
    "www.erlang-solutions.com/blog",
    "docs.kernel.org",
    "activemq.apache.org",
];
const LONGEST_QUOTED: usize = 512;

pub(super) fn redacted(names: &mut Names, text: &str) -> String {
    scanned(names, text, false)
}

/// The text without known names, and names found by their form; `is_outside`: of somebody else.
fn scanned(names: &mut Names, text: &str, is_outside: bool) -> String {
    let whole = names.known(text);
    whole.unwrap_or_else(|| Scan { chars: text.chars().collect(), names, is_outside }.run())
}

/// A sentence of bellows that ends in somebody else's words, behind the first colon.
pub(super) fn said(names: &mut Names, text: &str) -> String {
    let outside = text.split_once(": ").map(|(own, said)| {
        let own = redacted(names, own);
        format!("{own}: {}", outside(names, said))
    });
    outside.unwrap_or_else(|| redacted(names, text))
}

/// A text of a system, a library or a broker: names, quotes, and words not known to be harmless are hidden.
pub(super) fn outside(names: &mut Names, text: &str) -> String {
    let known = scanned(names, text, true);
    known.split_inclusive(char::is_whitespace).fold(String::new(), |mut out, part| {
        let word = part.trim_end();
        match are_own_words(word) && !is_dotted(word) {
            true => out.push_str(part),
            false => {
                out.push('\u{2026}');
                out.push_str(part.get(word.len()..).unwrap_or_default());
            }
        }
        out
    })
}

/// Whether a word has a dot within it, as hosts have, and is no number.
fn is_dotted(word: &str) -> bool {
    let mut parts = word.split('.').peekable();
    let mut dotted = false;
    while let (Some(left), Some(right)) = (parts.next(), parts.peek()) {
        let (last, first) = (left.chars().next_back(), right.chars().next());
        let beside = [last, first].map(|c| c.filter(|c| c.is_alphanumeric()));
        dotted |= beside.iter().all(Option::is_some) && beside.iter().flatten().any(|c| c.is_alphabetic());
    }
    dotted
}

/// Whether a quoted text may be a name: no sentence, no number, no argument of a queue, no page and no usual host.
fn is_somebodys(quoted: &str) -> bool {
    let is_said = quoted.contains("://") || quoted.starts_with(['/', '{']);
    let is_word = !quoted.is_empty() && !quoted.contains(char::is_whitespace);
    let is_number = !quoted.contains(char::is_alphabetic);
    is_word && !is_said && !is_number && !quoted.starts_with("x-") && !is_loopback(quoted)
}

struct Piece {
    end: usize,
    text: String,
}

struct Scan<'a> {
    chars: Vec<char>,
    names: &'a mut Names,
    /// Somebody else's text: quotations are names, whatever their words.
    is_outside: bool,
}

impl Scan<'_> {
    fn run(mut self) -> String {
        let mut out = String::with_capacity(self.chars.len());
        let mut at = 0;
        while let Some(&c) = self.chars.get(at) {
            match self.piece(at) {
                Some(piece) => {
                    out.push_str(&piece.text);
                    at = piece.end;
                }
                None => {
                    out.push(c);
                    at += 1;
                }
            }
        }
        out
    }

    /// Replacement at a place: of a known name and what a form shows, the longer.
    fn piece(&mut self, at: usize) -> Option<Piece> {
        let found = self.names.longest(&self.chars, at);
        let phrase = self.names.phrase(&self.chars, at);
        if let Some(end) = phrase.filter(|&end| found.is_none_or(|it| it.end <= end)) {
            let text = self.slice(at, end);
            return Some(Piece { end, text });
        }
        let least = found.map_or(at, |it| it.end);
        let formed = self
            .url(at)
            .or_else(|| self.quoted(at))
            .or_else(|| self.node(at))
            .or_else(|| self.address(at))
            .or_else(|| self.path(at));
        if let Some(mut piece) = formed.filter(|it| it.end > least) {
            // A form ends at a character that a name may have: the name's rest is none of the text.
            for inside in at..piece.end {
                let known = self.names.longest(&self.chars, inside);
                piece.end = known.map_or(piece.end, |it| piece.end.max(it.end));
            }
            return Some(piece);
        }
        let (text, end) = self.names.replace(found?, &self.chars);
        Some(Piece { end, text })
    }

    fn slice(&self, from: usize, end: usize) -> String {
        self.chars.get(from..end).unwrap_or_default().iter().collect()
    }

    /// The first place from `at` on whose character is none of these.
    fn run_of(&self, at: usize, of: impl Fn(char) -> bool) -> usize {
        let rest = self.chars.iter().skip(at);
        at + rest.take_while(|&&c| of(c)).count()
    }

    /// End of an address or a path. One of the `marks`, common in sentences, belongs to it if the path goes on behind.
    fn token_end(&self, from: usize, marks: &str) -> usize {
        let ends = |at: usize| match self.chars.get(at) {
            None => true,
            Some(c) if marks.contains(*c) => !self.goes_on(at + 1),
            Some(c) => c.is_whitespace() || "\"`<>\u{201d}".contains(*c),
        };
        (from..).find(|at| ends(*at)).unwrap_or(from)
    }

    /// Whether the path or address before may go on here, and no next address begins.
    fn goes_on(&self, at: usize) -> bool {
        let scheme = self.run_of(at, |c| c.is_ascii_alphanumeric() || "+.-".contains(c));
        let next = self.chars.get(at).copied();
        self.slice(scheme, scheme + 3) != "://" && (is_word(next) || next == Some('/'))
    }

    fn begins(&self, at: usize) -> bool {
        !is_word(before(&self.chars, at))
    }

    /// An address with a scheme: `amqp://user:password@host:port/path?query`.
    fn url(&mut self, at: usize) -> Option<Piece> {
        if !self.begins(at) || !self.chars.get(at)?.is_ascii_alphabetic() {
            return None;
        }
        let scheme_end = self.run_of(at, |c| c.is_ascii_alphanumeric() || "+.-".contains(c));
        let marks = self.slice(scheme_end, scheme_end + 3);
        if marks != "://" {
            return None;
        }
        let scheme = self.slice(at, scheme_end);
        let from = scheme_end + 3;
        if let ("queue" | "topic", Some(known)) = (scheme.as_str(), self.names.longest(&self.chars, from)) {
            let (text, end) = self.names.replace(known, &self.chars);
            let text = format!("{scheme}://{text}");
            return Some(Piece { end, text });
        }
        let mut end = self.token_end(from, "'(),;|");
        while end > from
            && before(&self.chars, end).is_some_and(|c| ".:]".contains(c))
            && !self.slice(from, end).starts_with('[')
        {
            end -= 1;
        }
        let rest = self.slice(from, end);
        let text = match scheme.as_str() {
            "queue" | "topic" => format!("{scheme}://{}", self.name_or_number(TextKind::Queue, &rest)),
            _ => self.shown_url(&scheme, &rest),
        };
        Some(Piece { end, text })
    }

    fn shown_url(&mut self, scheme: &str, rest: &str) -> String {
        if PUBLIC_SITES.iter().any(|site| rest.starts_with(site)) {
            return format!("{scheme}://{rest}");
        }
        let cut = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let mut out = format!("{scheme}://");
        if !user.is_empty() {
            let name = user.split(':').next().unwrap_or(user);
            out.push_str(&self.name_or_number(TextKind::User, &decoded(name)));
            out.push('@');
        }
        out.push_str(&self.host(host));
        out.push_str(&match scheme {
            // A path of such an address names a virtual host.
            "amqp" | "amqps" => self.virtual_host(path),
            _ => self.page(path),
        });
        out
    }

    /// A host with its port, which stays.
    fn host(&mut self, host: &str) -> String {
        let after_bracket = host.rfind(']').map_or(0, |it| it + 1);
        let port = host.get(after_bracket..).and_then(|it| it.find(':'));
        let (name, port) = host.split_at(port.map_or(host.len(), |it| it + after_bracket));
        let bare = name.trim_matches(['[', ']']);
        match bare.starts_with('{') && bare.ends_with('}') {
            true => format!("{name}{port}"),
            false => format!("{}{port}", self.name_or_number(TextKind::Host, bare)),
        }
    }

    fn virtual_host(&mut self, path: &str) -> String {
        let name = decoded(path.trim_start_matches('/').split('?').next().unwrap_or_default());
        match name.as_str() {
            "" | "/" => path.split('?').next().unwrap_or_default().to_owned(),
            name => format!("/{}", self.names.stand_in(TextKind::VirtualHost, name)),
        }
    }

    /// A page of a server; names of every broker's pages stay.
    fn page(&mut self, path: &str) -> String {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts = path.split('/').map(|part| match is_public_part(part) {
            true => part.to_owned(),
            false => self.names.stand_in(TextKind::Path, &decoded(part)),
        });
        let path = parts.collect::<Vec<_>>().join("/");
        let query = match query {
            "" => String::new(),
            query if is_public_query(query) => format!("?{query}"),
            query => format!("?{}", self.names.stand_in(TextKind::Text, query)),
        };
        format!("{path}{query}")
    }

    fn name_or_number(&mut self, kind: TextKind, name: &str) -> String {
        if is_loopback(&folded(name)) { name.to_owned() } else { self.names.stand_in(kind, name) }
    }

    /// Replacement of a quoted text: `no queue 'orders' in vhost 'shop'`, values of labels as `{queue="orders"}`, and
    /// all else that a broker or a library quotes, unless its words are bellows' own.
    fn quoted(&mut self, at: usize) -> Option<Piece> {
        let quote = *self.chars.get(at)?;
        // `a queue's` is a word.
        if !"'\"`\u{201c}".contains(quote) || quote == '\'' && !self.begins(at) {
            return None;
        }
        let closing = if quote == '\u{201c}' { '\u{201d}' } else { quote };
        let behind = self.chars.get(at + 1..)?;
        let ends = |place: usize| {
            // So is the one in `'o'brien'`.
            let goes_on = quote == '\'' && is_word(behind.get(place + 1).copied());
            behind.get(place) == Some(&closing) && !goes_on
        };
        let length = (0..behind.len().min(LONGEST_QUOTED)).find(|place| ends(*place))?;
        let end = at + 1 + length;
        let inside = self.slice(at + 1, end);
        let kind = self.quoted_kind(at, quote, &inside);
        let name = match (self.names.known(&inside), kind) {
            (Some(known), _) if kind.is_some() || self.is_outside => known,
            (_, Some(kind)) => self.name_or_number(kind, &inside),
            // A name of words that cannot be blotted out wherever they stand.
            (_, None) if self.is_outside && is_somebodys(&inside) => "\u{2026}".to_owned(),
            (_, None) => return None,
        };
        Some(Piece { end: end + 1, text: format!("{quote}{name}{closing}") })
    }

    /// Kind of the quoted name, by the words before it; `None` where it is known to be no name.
    fn quoted_kind(&self, at: usize, quote: char, inside: &str) -> Option<TextKind> {
        let left = folded(self.slice(at.saturating_sub(16), at).trim_end());
        let is_label = quote == '"' && (left.ends_with('=') || left.ends_with("=~") || left.ends_with("!~"));
        // A command that bellows advises, and what is found by its own form.
        let is_command = quote == '`' && inside.contains(char::is_whitespace);
        let page = inside.strip_prefix('/').unwrap_or_default();
        let is_page = page.split(['/', '?']).next().is_some_and(is_public_part);
        let is_formed = inside.contains("://") || !page.is_empty() && is_page;
        let is_path = ["/", "~/", "./", "../"].iter().any(|it| inside.starts_with(it));
        match said_kind(&left) {
            _ if inside.is_empty() => None,
            _ if is_label => Some(TextKind::Label),
            Some(said) => Some(said),
            None if is_command || is_formed => None,
            None if are_own_words(inside) && (quote == '`' || !is_dotted(inside)) => None,
            None if is_path => Some(TextKind::Path),
            None => Some(TextKind::Text),
        }
    }

    /// `rabbit@host`; `cpu@1` is none.
    fn node(&mut self, at: usize) -> Option<Piece> {
        if !self.begins(at) || matches!(before(&self.chars, at), Some('_' | '-')) {
            return None;
        }
        let is_name = |c: char| c.is_alphanumeric() || "_-".contains(c);
        let sign = self.run_of(at, is_name);
        if sign == at || *self.chars.get(sign)? != '@' {
            return None;
        }
        let first = *self.chars.get(sign + 1)?;
        let mut end = self.run_of(sign + 1, |c| is_name(c) || c == '.');
        while end > sign && before(&self.chars, end) == Some('.') {
            end -= 1;
        }
        let host = self.slice(sign + 1, end);
        let is_host = first.is_alphabetic() || host.contains('.');
        is_host.then(|| Piece { text: self.names.stand_in(TextKind::Node, &self.slice(at, end)), end })
    }

    /// An address of IPv4 or IPv6; versions of Erlang have four numbers, too.
    fn address(&mut self, at: usize) -> Option<Piece> {
        let c = *self.chars.get(at)?;
        let left = before(&self.chars, at);
        if !self.begins(at) || matches!(left, Some('.' | ':' | '_')) || !(c.is_ascii_hexdigit() || c == ':') {
            return None;
        }
        let of_six = self.run_of(at, |c| c.is_ascii_hexdigit() || ":.".contains(c));
        let text = self.slice(at, of_six);
        let is_six = text.matches(':').count() > 1 && text.trim_end_matches('.').parse::<Ipv6Addr>().is_ok();
        let of_four = self.run_of(at, |c| c.is_ascii_digit() || c == '.');
        let four = self.slice(at, of_four);
        let end = match is_six {
            true => at + text.trim_end_matches('.').chars().count(),
            false => at + four.trim_end_matches('.').chars().count(),
        };
        let address = self.slice(at, end);
        let is_four = address.parse::<std::net::Ipv4Addr>().is_ok() && !self.is_version(at);
        let is_own = is_loopback(&address);
        (is_six || is_four).then(|| Piece {
            text: if is_own { address.clone() } else { self.names.stand_in(TextKind::Host, &address) },
            end,
        })
    }

    fn is_version(&self, at: usize) -> bool {
        let left = folded(self.slice(at.saturating_sub(12), at).trim_end());
        ["otp", "otp/", "version", "erts", "erts-", "rabbitmq", "-", "linux", "artemis", "java"]
            .iter()
            .any(|it| left.ends_with(it))
    }

    /// A path of a file: `/home/me/x`, `~/x`, `./x`, `../x`; or one of a server's page.
    fn path(&mut self, at: usize) -> Option<Piece> {
        let left = before(&self.chars, at);
        // `msg/s`, and the inner parts of what begins in another way.
        if left.is_some_and(|c| c.is_alphanumeric() || "./~_".contains(c)) {
            return None;
        }
        let begins = ["/", "~/", "./", "../"];
        let head = self.slice(at, at + 3);
        let begin = begins.iter().find(|it| head.starts_with(**it))?;
        let from = at + begin.len();
        let mut end = self.token_end(from, "'(),;[]{}|");
        while end > from && before(&self.chars, end).is_some_and(|c| ".:".contains(c)) {
            end -= 1;
        }
        let text = self.slice(at, end);
        let first = self.slice(from, end);
        let first = first.split(['/', '?']).next().unwrap_or_default();
        // `1,000 /s` is a rate, and `/` alone the usual virtual host.
        let is_unit = *begin == "/"
            && !first.contains('.')
            && first.chars().count() <= 3
            && !text.get(1..).unwrap_or_default().contains('/');
        if is_unit || first.is_empty() {
            return None;
        }
        let is_page = *begin == "/" && is_public_part(first);
        let text = if is_page { self.page(&text) } else { self.names.stand_in(TextKind::Path, &text) };
        Some(Piece { end, text })
    }
}

/// Whether a query asks for fields, families or pages that every broker has.
fn is_public_query(query: &str) -> bool {
    let keys = "columns family sort page page_size disable_stats enable_queue_totals";
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_.,".contains(c);
    query.split('&').all(|part| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        keys.split(' ').any(|it| it == key) && value.chars().all(is_letter)
    })
}

/// The text behind percent signs of an address.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let hex = others.get(..2).filter(|_| first == b'%');
        let byte = hex.and_then(|it| std::str::from_utf8(it).ok()).and_then(|it| u8::from_str_radix(it, 16).ok());
        bytes.push(byte.unwrap_or(first));
        let taken = if byte.is_some() { 2 } else { 0 };
        rest = others.get(taken..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
