//! Commands as they are shown: harmless words by a list, all else hidden. A text is cut at its blanks into chunks, and
//! those into tokens, runs of letters and some signs. No list, text of several lines or quote (but that of a secret) is
//! followed to its end, so there is no grammar to get wrong: a token is shown where it is known by itself and no name
//! of a secret stands before it. A chunk with a hidden one hides all from its first value to its last.

use std::collections::HashSet;
use std::ffi::OsString;
use std::ops::Range;
use std::sync::LazyLock;

use super::{BLOT, UNITS, is_credential, is_of_login, is_secret};

/// Words that are no secrets: of shells, programs and brokers, and of what load generators say.
static KNOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| include_str!("known.txt").split_whitespace().collect());

/// Names of options, and of what is assigned to, whose values are shown whatever the program.
const PUBLIC: &str = "address-family arrival-rate body-size class-name clients concurrency connections consumers \
    consume-from content-type delivery-mode destination destinations duration encoding environment exchange \
    exchange-type executor expiry format host hostname id interval iterations kind level locale log-level max-pending \
    message-size mode name node nodes output output-format pattern phase port prefetch priority producers protocol \
    publish-to publishers qos queue queue-name queue-pattern queue-type queues rate rates request routing-key scenario \
    scheduler size stages stream-name subscribers target threads topic topics ttl type unit vhost virtual-host workers \
    workload";

/// Programs, letters of their options with public values, and of those whose values, even numbers, are secrets.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("7z", "", "p"),
    ("curl", "Xow", "buxEHU"),
    ("htpasswd", "", "b"),
    ("http", "", "a"),
    ("https", "", "a"),
    ("ldapsearch", "bs", "w"),
    ("mariadb", "hDP", "p"),
    ("mongosh", "", "p"),
    ("mosquitto_pub", "hiqtV", "P"),
    ("mosquitto_sub", "hiqtV", "P"),
    ("mqttx", "hiqtV", "P"),
    ("mysql", "hDP", "p"),
    ("mysqldump", "hDP", "p"),
    ("openssl", "", "kK"),
    ("perf-test", "deiktuxy", ""),
    ("rabbitmq-diagnostics", "np", ""),
    ("rabbitmq-perf-test", "deiktuxy", ""),
    ("rabbitmq-queues", "np", ""),
    ("rabbitmqadmin", "HNPV", "p"),
    ("rabbitmqctl", "np", ""),
    ("rar", "", "p"),
    ("redis-cli", "hnp", "a"),
    ("sshpass", "", "p"),
    ("unzip", "", "P"),
    ("xh", "", "a"),
    ("zip", "", "P"),
];

/// Letters of options that stand for a password in some program: a number that is joined to one is not shown.
const DOUBTFUL: &str = "apPwWkK";
/// Options of more than one letter behind one dash.
const DASHED: &str = "boot config cookie cp detached eval exec hidden jar kernel name noinput noshell pass passwd \
    password pw rabbit secret server setcookie sname token type user";
/// Such words that compare: what stands behind one belongs to what stands before.
const COMPARE: &str = "eq ne lt le gt ge ef nt ot";
/// Words behind which all that follows in a command may be a secret.
const VERBS: &str = "add_user auth authenticate_user change_password hash_password identified requirepass";
/// Words and programs behind which a command begins.
const BEFORE: &str = "chrt command do elif else env exec if ionice nice nohup setsid stdbuf sudo taskset then time \
    timeout until while builtin";
/// Flags of Erlang's emulator, besides those of its allocators, which begin with `M`.
const FLAGS: &str = "A B Bc Bd Bi JPperf K L P Q R S SDPcpu SDcpu SDio SP T W a c d fna fnl fnu hmbs hmqd hms hpds \
    pc sbt sbwt sbwtdcpu sbwtdio scl sfwi spp ssct stbt sub swct swt swtdcpu swtdio sws t zdbbl zdntgc";
/// Where files lie whose names are shown.
const FOLDERS: &str = "app bin data dev etc exchanges home lib mnt opt proc queues root run sbin srv sys tmp usr";
/// Ends of names of files.
const FILES: &str = "bin cfg class cnf conf config crt csv db erl exs gz hdr hlog html ini jar java jfr js json jsonl \
    log lua mjs out pcap pem php pl properties py rb rs sh sql svg tar tgz toml ts tsv txt xml yaml yml zip";
/// Placeholders for the broker's address.
const ADDRESS_PARTS: &str = "url host port";
/// Letters that a name has at most.
const LONGEST_NAME: usize = 48;
/// Letters that a path, an option, or another word that is known by itself, has at most.
const LONGEST_WORD: usize = 128;
const QUOTES: [char; 2] = ['"', '\''];

/// The kind of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum After {
    #[default]
    Anything,
    /// No secret, whatever it is.
    Public,
    /// A secret, which ends with its chunk, unless there are quotes.
    Value,
    /// A variable that may hold a secret: what stands beside it may be another one, or words about it.
    Beside,
    /// A secret, of which nobody knows where it ends: at the next option, or with the command.
    Secret,
    /// Secrets, to the end of the command.
    Secrets,
}

/// A part of a chunk, with what stands before and behind it there.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    before: &'a str,
    text: &'a str,
    behind: &'a str,
}

/// Reads commands from their beginnings to their ends.
#[derive(Debug, Default)]
struct Reader {
    after: After,
    /// Letters of public options of the program, and of secret ones.
    program: (&'static str, String),
    /// The command has begun.
    has_begun: bool,
    /// The next word may be an option's value.
    is_doubtful: bool,
    /// The word is one of an option, which no shell takes apart.
    is_option: bool,
    /// The last token is a key of a secret, where a sign follows.
    was_key: bool,
    /// The quote that a secret began with, whether a backslash stood before it.
    quote: Option<(char, bool)>,
    /// The quoted text is all of the secret.
    is_quoted: bool,
    /// The secret is what commands in brackets or backticks print: all is one to their end.
    is_within: bool,
    /// Where these open in their chunk.
    opened: usize,
    /// Where they end is known.
    is_plain: bool,
    /// It is one that prints its words, and what is hidden of such: no secret of the script, unless it hands that on.
    prints: bool,
    printed: Vec<String>,
    /// Hidden words, as the program may repeat them.
    hidden: Vec<String>,
    /// A value stood behind the name of a secret.
    is_told: bool,
}

/// A command of words without secrets, and what is hidden in it.
pub fn words(words: &[String]) -> (Vec<String>, Vec<String>) {
    let mut reader = Reader::default();
    let shown = words.iter().enumerate().map(|(at, word)| reader.word(word, is_program(words, at)));
    let shown = shown.collect();
    reader.hidden.sort();
    reader.hidden.dedup();
    (shown, reader.hidden)
}

/// Values of variables whose names speak of secrets, as a program may print them.
pub fn secret_variables(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let texts = all.filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    let secret = texts.filter(|(name, _)| is_secret(name));
    let mut found: Vec<String> = secret.flat_map(|(_, value)| values(&value)).collect();
    found.sort();
    found.dedup();
    found
}

/// Flags of a virtual machine, of which all is shown but what stands behind a name of a secret.
pub fn flags(words: &[String]) -> Vec<String> {
    // A value may begin as a flag does where it stands directly behind a name.
    let (mut is_behind, mut is_first) = (false, false);
    let one = |word: &String| {
        let is_flag = word.starts_with(['-', '+']) && !is_first;
        is_behind &= !is_flag;
        is_first = false;
        if is_behind || is_credential(word) {
            return BLOT.to_owned();
        }
        if word.contains(char::is_whitespace) {
            return script(word);
        }
        if let Some((name, _)) = word.split_once('=').filter(|it| is_of_login(it.0)) {
            return format!("{name}={BLOT}");
        }
        if !is_secret(word) {
            return super::text(word);
        }
        (is_behind, is_first) = (true, true);
        if is_path(word) { word.clone() } else { BLOT.to_owned() }
    };
    words.iter().map(one).collect()
}

/// A text that may hold commands or options, without secrets.
pub(super) fn script(text: &str) -> String {
    Reader::default().text(text)
}

/// Whether a word of a command is the program, or one that another one starts.
fn is_program(words: &[String], at: usize) -> bool {
    let (first, others) = words.get(..at).and_then(<[String]>::split_first).unzip();
    let is_before = |word: &String| {
        let is_option = word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        is_option || word.contains('=') || has(BEFORE, file_name(word))
    };
    let is_word = |word: &String| word.starts_with(|c: char| c.is_alphabetic() || "./_".contains(c)) && is_path(word);
    words.get(at).is_some_and(is_word)
        && first.is_none_or(|it| has(BEFORE, file_name(it)))
        && others.is_none_or(|it: &[String]| it.iter().all(is_before))
}

impl Reader {
    /// Reads a word that no shell takes apart.
    fn word(&mut self, word: &str, is_program: bool) -> String {
        let is_secret = self.is_secret();
        if is_secret && word != "--" && !is_reference(word) {
            let is_sure = self.after != After::Beside;
            self.end_secret();
            self.hide(word, is_sure);
            return BLOT.to_owned();
        }
        // An option with its value is no script: what is secret of it goes on to its end.
        self.is_option = word.starts_with('-');
        let is_text = word.contains(char::is_whitespace) && !self.is_option;
        if is_text {
            self.between("\n");
        }
        let known = self.hidden.len();
        self.is_told = false;
        let shown = self.text(word);
        (self.quote, self.is_option) = (None, false);
        if is_secret || self.is_told {
            self.end_secret();
        }
        if is_text {
            self.between("\n");
            self.printed.clear();
        }
        if is_program {
            if is_of_program(word) {
                self.after = After::Anything;
            }
            self.hidden.truncate(known);
            return word.to_owned();
        }
        shown
    }

    /// Reads a text that a shell may take apart.
    fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut until = 0;
        while !rest.is_empty() {
            let (blank, after) = split_before(rest, |c| !c.is_whitespace());
            let (chunk, next) = split_before(after, char::is_whitespace);
            // A backslash continues the line.
            if !(out.ends_with('\\') && blank.starts_with('\n')) {
                self.between(blank);
            }
            let is_sign = self.was_key && chunk.starts_with([':', '=']);
            self.was_key = false;
            if is_sign {
                self.after = After::Secret;
            }
            let (was_open, was_within) = (self.quote.is_some(), self.is_within);
            let shown = self.chunk(chunk);
            if self.is_within && !was_within {
                let end = plain_ends(after, self.opened);
                self.is_plain = end.is_some();
                until = text.len() - after.len() + end.unwrap_or_else(|| last_end(after));
                // What stands in quotes within ends with it.
                let before = chunk.get(..self.opened).unwrap_or_default();
                let is_outer = |it: &(char, bool)| was_open || it.0 == '\0' || before.contains(it.0);
                self.quote = self.quote.filter(|it| !self.is_plain || is_outer(it));
            }
            let end = text.len() - next.len();
            match self.is_within {
                true if end < until => {}
                true => self.end_within(text.get(until..end).unwrap_or_default()),
                false => self.close_quote(chunk, was_open),
            }
            let behind = shown.strip_prefix(BLOT).filter(|_| out.ends_with(BLOT) && !blank.contains('\n'));
            match behind {
                Some(behind) => out.push_str(behind),
                None => out.extend([blank, &shown]),
            }
            rest = next;
        }
        self.is_within = false;
        out
    }

    fn chunk(&mut self, chunk: &str) -> String {
        if let Some(at) = chunk.find("://") {
            return self.with_address(chunk, at);
        }
        let (mut at, mut end) = (0, 0);
        let mut odd = odd_quotes(chunk);
        let mut values: Option<Range<usize>> = None;
        let (mut hides, mut is_told, mut is_sure) = (false, false, false);
        while let Some(range) = next_token(chunk, at, end) {
            let gap = chunk.get(at..range.start).unwrap_or_default();
            self.between_at(gap, at);
            odd ^= odd_quotes(gap);
            let token = Token {
                before: chunk.get(..range.start).unwrap_or_default(),
                text: chunk.get(range.clone()).unwrap_or_default(),
                behind: chunk.get(range.end..).unwrap_or_default(),
            };
            (at, end) = (range.end, range.end);
            self.was_key = token.is_key();
            if values.is_none() {
                self.open_quote(token.before, odd);
                if let Some(length) = self.name(token) {
                    at = range.start + length;
                    continue;
                }
                let rest = chunk.get(range.start..).unwrap_or_default();
                if self.after == After::Public && !is_plain(rest.trim_end_matches(is_closing)) {
                    self.after = After::Anything;
                }
            }
            let tells = self.is_secret() && token.text != ":";
            let tells_surely = tells && (self.is_within || self.after != After::Beside);
            let is_hidden = !self.is_harmless(token);
            if tells_surely && is_hidden {
                self.hide(token.text, true);
            }
            is_told |= tells;
            is_sure |= tells_surely;
            hides |= is_hidden;
            values = Some(values.map_or(range.start, |it| it.start)..range.end);
        }
        self.is_told |= is_told;
        self.after = match self.after {
            After::Public if values.is_some() => After::Anything,
            After::Value if is_sure => self.behind_secret(chunk),
            after => after,
        };
        let rest = chunk.get(at..).unwrap_or_default();
        let Some(values) = values.filter(|_| hides) else {
            self.between_at(rest, at);
            return chunk.to_owned();
        };
        let (before, hidden) = chunk.split_at_checked(values.start).unwrap_or((chunk, ""));
        let (hidden, behind) = hidden.split_at_checked(values.len()).unwrap_or((hidden, ""));
        self.hide(hidden, is_sure);
        self.between_at(rest, at);
        format!("{before}{BLOT}{behind}")
    }

    /// Reads a chunk with an address in it, of which its scheme ends there.
    fn with_address(&mut self, chunk: &str, at: usize) -> String {
        let scheme = |c: char| c.is_ascii_alphanumeric() || "+-".contains(c);
        let head = chunk.get(..at).unwrap_or_default();
        let scheme = head.get(head.trim_end_matches(scheme).len()..).unwrap_or_default();
        let start = at - scheme.trim_start_matches(|c: char| !c.is_alphabetic()).len();
        let (before, rest) = chunk.split_at_checked(start).unwrap_or(("", chunk));
        let trimmed = rest.trim_end_matches(is_closing);
        // `{port}` ends with its brace.
        let is_open = trimmed.matches('{').count() > trimmed.matches('}').count();
        let end = trimmed.len() + usize::from(is_open && trimmed.len() < rest.len());
        let (url, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let before = self.chunk(before);
        self.open_quote(chunk.get(..start).unwrap_or_default(), odd_quotes(rest));
        self.is_told |= self.is_secret();
        let (_, place) = url.split_once("://").unwrap_or_default();
        let is_secret = match self.after {
            After::Beside | After::Secret if !self.is_within => self.quote.is_some() || !place.starts_with("{host}"),
            _ => self.is_secret(),
        };
        let is_sure = self.is_within || self.after != After::Beside;
        self.after = match self.after {
            After::Public => After::Anything,
            After::Value => self.behind_secret(chunk),
            after => after,
        };
        let shown = address(url).filter(|_| !is_secret);
        let shown = shown.unwrap_or_else(|| BLOT.to_owned());
        if is_secret {
            self.hide(url, is_sure);
        }
        if shown != url {
            let (_, rest) = url.split_once("://").unwrap_or(("", url));
            let login = rest.rsplit_once('@').map(|it| it.0);
            let parts = rest.split(['/', '?', '#', '&', '=', '@', ':']);
            let parts = parts.filter(|it| !is_known_by_itself(it));
            let hidden = login.into_iter().chain(parts).filter(|it| !shown.contains(it));
            hidden.for_each(|it| self.hide(it, it.len() > 3));
        }
        self.between_at(behind, start + end);
        format!("{before}{shown}{behind}")
    }

    /// As [`Self::between`], at a place in a chunk.
    fn between_at(&mut self, gap: &str, at: usize) {
        let was_within = self.is_within;
        self.between(gap);
        if self.is_within && !was_within {
            self.opened = at + gap.find(['(', '`']).unwrap_or_default();
            self.is_plain = false;
        }
    }

    /// Notes what stands between tokens: a command may end there, and what it prints may go elsewhere.
    fn between(&mut self, gap: &str) {
        let opens = gap.find(['(', '`']);
        let ends = gap.find([';', '|', '&', ')', '\n']);
        self.is_within |= self.is_secret() && opens.is_some_and(|at| ends.is_none_or(|end| at < end));
        let ends = opens.or(ends).is_some() && !self.is_within;
        let is_pipe = gap.replace("||", "").contains(['|', ')', '`']);
        if is_pipe || gap.contains(['<', '>']) && !gap.contains('&') {
            self.hidden.append(&mut self.printed);
            self.prints = false;
        }
        if ends && self.quote.is_none() {
            (self.after, self.program) = (After::Anything, ("", String::new()));
            (self.has_begun, self.is_doubtful, self.prints) = (false, false, false);
        }
        // A text for the program's input.
        if gap.contains("<<<") {
            self.after = After::Secret;
        }
    }

    /// Notes a secret's opening quote, unless it ends in the same chunk: all that is parted within belongs to it.
    fn open_quote(&mut self, before: &str, odd: u8) {
        if self.is_option && self.is_secret() {
            self.quote = Some(('\0', false));
        }
        if self.is_within && self.is_plain {
            return;
        }
        let of_quote = before.get(before.trim_end_matches(|c| !is_of_token(c)).len()..);
        let open = of_quote.and_then(|it| it.rfind(QUOTES).map(|at| it.split_at(at)));
        let Some((before, open)) = open.filter(|_| self.quote.is_none() && self.is_secret()) else { return };
        let quote = open.chars().next().map(|it| (it, before.ends_with('\\')));
        self.quote = quote.filter(|it| odd & quote_bit(it.0, it.1) == 0);
    }

    /// Ends what an open quote holds where it closes.
    fn close_quote(&mut self, chunk: &str, was_open: bool) {
        let closes = |it: &(char, bool)| was_open && odd_quotes(chunk) & quote_bit(it.0, it.1) != 0;
        if let Some((quote, _)) = self.quote.take_if(|it| closes(it)) {
            self.is_quoted = false;
            self.between(chunk.rsplit(quote).next().unwrap_or_default());
        }
    }

    /// Ends what commands print, with the rest of their last chunk behind them.
    fn end_within(&mut self, behind: &str) {
        self.is_within = false;
        match self.quote {
            Some((quote, is_escaped)) => {
                // It closes right behind them.
                let closes = !is_escaped && behind.strip_prefix(quote) == Some("");
                let ends = closes && self.is_plain && self.is_quoted;
                self.after = After::Secret;
                self.close_quote(behind, true);
                if ends {
                    self.after = After::Anything;
                    self.has_begun &= self.program != ("", String::new());
                }
            }
            None => self.between(behind),
        }
    }

    fn is_secret(&self) -> bool {
        use After::{Beside, Secret, Secrets, Value};
        self.is_within || matches!(self.after, Value | Beside | Secret | Secrets)
    }

    /// Where quotes or backslashes are, nobody knows where a secret ends, unless they are plain.
    fn behind_secret(&mut self, chunk: &str) -> After {
        let has_quotes = !self.is_within && chunk.contains(['"', '\'', '\\', '`']);
        self.is_quoted = self.quote.is_some();
        if self.is_quoted || has_quotes && !is_quoted_value(chunk) { After::Secret } else { After::Anything }
    }

    fn end_secret(&mut self) {
        if self.after != After::Secrets {
            self.after = After::Anything;
        }
    }

    /// Length of a name at a token's beginning: of an option, an assignment, a variable, or a placeholder.
    fn name(&mut self, token: Token<'_>) -> Option<usize> {
        if token.is_reference() {
            self.note_variable(token.text);
            return Some(token.text.len());
        }
        if self.after == After::Secrets || self.quote.is_some() || self.is_within {
            return None;
        }
        // What is joined to an option that may be a password's is none of a variable.
        let may_assign = token.joined_to().is_none_or(|it| !self.is_secret() && !DOUBTFUL.contains(it));
        if may_assign && token.is_assigned_to() {
            self.after = behind_name(token.text);
            self.is_doubtful = true;
            return Some(token.text.len());
        }
        // Within a value that is secret no option begins.
        if self.is_secret() && !token.before.is_empty() { None } else { self.option(token) }
    }

    fn option(&mut self, token: Token<'_>) -> Option<usize> {
        let text = token.text;
        self.is_doubtful |= text.starts_with('-');
        if let Some(name) = text.strip_prefix("--") {
            let is_word = (1..=LONGEST_WORD).contains(&name.len()) && name.bytes().all(|it| it.is_ascii_alphabetic());
            self.after = (is_word || is_name(name)).then(|| behind_name(name))?;
            return Some(text.len());
        }
        if let Some(name) = text.strip_prefix('+') {
            let is_letters = name.bytes().all(|it| it.is_ascii_alphabetic());
            let is_flag = has(FLAGS, name) || name.starts_with('M') && name.len() <= 6 && is_letters;
            return is_flag.then_some(text.len());
        }
        let name = text.strip_prefix('-')?;
        if has(COMPARE, name) {
            return Some(text.len());
        }
        if has(DASHED, name) {
            if name == "jar" {
                (self.has_begun, self.is_doubtful) = (false, false);
            }
            self.after = behind_name(name);
            return Some(text.len());
        }
        self.letters(token, name)
    }

    /// An option of a letter, or of a group of some, of which the last may have a value.
    fn letters(&mut self, token: Token<'_>, name: &str) -> Option<usize> {
        let letter = name.chars().next().filter(char::is_ascii_alphabetic)?;
        let joined = name.get(1..).unwrap_or_default();
        let (public, secret) = &self.program;
        let letters = name.split(|c: char| !c.is_ascii_alphabetic()).next();
        let mut group = letters.unwrap_or_default().chars().take(4);
        let last = group.find(|it| public.contains(*it) || secret.contains(*it));
        let is_last = last.is_some_and(|it| name.len() <= 4 && name.find(it) == Some(name.len() - 1));
        self.after = match last {
            Some(last) if secret.contains(last) => After::Value,
            Some(last) if last == letter => After::Public,
            _ => After::Anything,
        };
        let is_quoted = |text: &str| text.starts_with(QUOTES) && text.contains(char::is_alphanumeric);
        if joined.is_empty() && DOUBTFUL.contains(letter) && is_quoted(token.behind) {
            self.after = After::Value;
        }
        let is_free = self.after == After::Anything && !DOUBTFUL.contains(letter);
        if is_free && token.behind.starts_with('=') && is_name(joined) {
            return Some(2);
        }
        let is_letters = joined.len() <= 3 && joined.bytes().all(|it| it.is_ascii_alphabetic());
        let is_known = is_free && name.len() <= LONGEST_WORD && (is_known_by_itself(joined) || is_of_java(name));
        let is_shown = joined.is_empty()
            || is_last && self.is_secret()
            || self.after == After::Anything && (is_letters || is_known);
        Some(if is_shown { token.text.len() } else { 2 })
    }

    /// Whether a value may be shown.
    fn is_harmless(&mut self, token: Token<'_>) -> bool {
        let text = token.text;
        if text.is_ascii() && !text.contains(|c: char| c.is_ascii_alphanumeric()) {
            return true;
        }
        if token.is_reference() {
            self.note_variable(text);
            return true;
        }
        let hides = self.is_secret();
        let small = text.to_ascii_lowercase();
        if has(VERBS, small.as_str()) {
            self.after = After::Secrets;
            return !hides;
        }
        let is_program = !self.has_begun && text.contains('/') && is_of_program(text);
        if !hides && !is_program && token.names_secret() {
            self.after = After::Secret;
            return false;
        }
        self.begin(text);
        !hides && (self.after == After::Public || !token.is_within() && is_known_by_itself(text))
    }

    /// Notes the program where a command begins. Elsewhere a word may only look like one: its secrets count, too.
    fn begin(&mut self, word: &str) {
        let name = file_name(word).trim_end_matches(".jar");
        let is_doubtful = std::mem::take(&mut self.is_doubtful);
        if let Some(&(_, public, secret)) = PROGRAMS.iter().find(|it| it.0 == name) {
            match self.has_begun || is_doubtful {
                true if self.program.1.contains(secret) => {}
                true => self.program.1.push_str(secret),
                false => self.program = (public, secret.to_owned()),
            }
        }
        if !self.has_begun {
            self.prints |= matches!(word, "echo" | "printf");
            self.has_begun = !(is_doubtful || has(BEFORE, word) || is_number(word));
        }
    }

    /// Notes a variable that may hold a secret.
    fn note_variable(&mut self, name: &str) {
        if self.after != After::Secrets && speaks_of_secrets(name) {
            self.after = if self.is_secret() && self.after != After::Beside { After::Secret } else { After::Beside };
        }
    }

    /// Keeps what is hidden. A few unknown letters say nothing; what a script prints is no secret to it.
    fn hide(&mut self, text: &str, is_sure: bool) {
        let all = values(text).into_iter().filter(|it| is_sure || it.len() > 3);
        match self.prints && !is_sure {
            true => self.printed.extend(all),
            false => self.hidden.extend(all),
        }
    }
}

impl Token<'_> {
    /// A variable, `$NAME` or `${NAME`, or a placeholder.
    fn is_reference(self) -> bool {
        let is_place = self.before.ends_with('{') && self.behind.starts_with('}') && has(ADDRESS_PARTS, self.text);
        // It is none where quotes or a backslash make it a letter; numbers are awk's.
        let before = self.before.strip_suffix('$');
        let is_literal = before.is_some_and(|it| it.ends_with(['\'', '\\'])) && !is_number(self.text);
        is_place || is_behind_dollar(self.before) && is_variable(self.text) && !is_literal
    }

    /// The letter of an option that stands before it, without a blank.
    fn joined_to(self) -> Option<char> {
        let letter = self.before.chars().next_back()?;
        self.before.strip_suffix(|c: char| c.is_ascii_alphabetic())?.ends_with('-').then_some(letter)
    }

    /// The last word of a chunk, where a sign behind it makes it a key of a secret.
    fn is_key(self) -> bool {
        let is_last = || self.behind.trim_start_matches(QUOTES).is_empty();
        self.text.len() <= LONGEST_NAME && is_last() && behind_name(self.text) == After::Value
    }

    /// `NAME=`, also behind a letter, as Java's `-D`.
    fn is_assigned_to(self) -> bool {
        let is_joined = match self.joined_to() {
            Some('D') => is_path(self.text),
            Some(_) => is_name(self.text),
            None => false,
        };
        let begins = !self.before.ends_with(is_of_token) && is_name(self.text) || is_joined;
        let is_one = self.behind.starts_with('=') && !self.behind.starts_with("==");
        // A secret may end with the sign.
        let is_sure = |text: &str| self.behind.len() > 1 || KNOWN.contains(text) || text == text.to_ascii_uppercase();
        begins && is_one && is_sure(self.text)
    }

    /// A word, or a key, that speaks of a secret.
    fn names_secret(self) -> bool {
        let is_key = self.behind.trim_start_matches(QUOTES).starts_with([':', '=']);
        let key = self.text.strip_suffix(':').or_else(|| is_key.then_some(self.text));
        speaks_of_secrets(self.text) || key.is_some_and(|it| behind_name(it) == After::Value)
    }

    /// Whether it is only a part: of an option's value joined to it, or of a letter written as a number.
    fn is_within(self) -> bool {
        let is_number = self.before.ends_with('\\') && self.text.starts_with(|c: char| c.is_ascii_digit());
        self.joined_to().is_some() || is_number && self.text != "033"
    }
}

/// A text before and from the first character on that is one of these.
fn split_before(text: &str, of: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at_checked(text.find(of).unwrap_or(text.len())).unwrap_or((text, ""))
}

fn is_of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./%:@+-".contains(c) || !c.is_ascii()
}

/// `NAME="value"`, with no other quote nor a backslash in it: all of a word of a shell.
fn is_quoted_value(chunk: &str) -> bool {
    let (name, value) = chunk.split_once('=').unwrap_or_default();
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    let inner = QUOTES.into_iter().find_map(inner);
    name.chars().all(is_of_token) && inner.is_some_and(|it: &str| !it.contains(['"', '\'', '\\', '`']))
}

fn is_closing(c: char) -> bool {
    "\"');,|&>}`".contains(c)
}

fn is_behind_dollar(before: &str) -> bool {
    before.ends_with('$') || before.ends_with("${")
}

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|it| it == word)
}

/// Where the substitution ends that opens there, and others without a blank behind it, if that is plain of each.
fn plain_ends(text: &str, opened: usize) -> Option<usize> {
    let mut end = opened;
    loop {
        let rest = text.get(end..)?;
        match rest.find(|c: char| matches!(c, '(' | '`') || c.is_whitespace()) {
            Some(open) if !rest.get(open..)?.starts_with(char::is_whitespace) => end = plain_end(text, end + open)?,
            _ => return Some(end),
        }
    }
}

/// Behind the only reading of a closing bracket or backtick: not in quotes, comments, patterns, or escaped.
fn plain_end(text: &str, open: usize) -> Option<usize> {
    let inner = text.get(open..)?;
    let is_tick = inner.starts_with('`');
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in inner.char_indices() {
        let is_of_other = if is_tick { "()" } else { "`" }.contains(c);
        match quote {
            Some(it) if it == c => quote = None,
            _ if matches!(c, '\\' | '#') || is_of_other => return None,
            Some(_) if matches!(c, '(' | ')' | '`') => return None,
            Some(_) => continue,
            None if QUOTES.contains(&c) => quote = Some(c),
            None => match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                '`' => depth = usize::from(depth == 0),
                _ => continue,
            },
        }
        if depth == 0 && quote.is_none() {
            let content = inner.get(..at)?;
            let mut words = content.split(|c: char| !c.is_ascii_alphanumeric());
            let has_pattern = words.any(|it| it == "case") || content.contains("${");
            return (!has_pattern && !content.contains("<<")).then_some(open + at + 1);
        }
    }
    None
}

/// Behind the last bracket or backtick that closes in the line in which as many have closed as have opened since the
/// first one of a text. Which of them are letters within quotes nobody needs to know.
fn last_end(text: &str) -> usize {
    let start = text.find(['(', '`']).unwrap_or(text.len());
    let (mut depth, mut ticks, mut end) = (0_i64, 0_usize, None);
    for (at, c) in text.char_indices().filter(|it| it.0 >= start) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            '`' => ticks += 1,
            '\n' if end.is_some() && depth <= 0 && ticks % 2 == 0 => break,
            _ => {}
        }
        end = if ")`".contains(c) { Some(at + 1) } else { end };
    }
    end.filter(|_| depth <= 0 && ticks % 2 == 0).unwrap_or(text.len())
}

/// Where the next token of a chunk is, or what is left of the last one, which ends there.
fn next_token(chunk: &str, from: usize, last_end: usize) -> Option<Range<usize>> {
    if from < last_end {
        return Some(from..last_end);
    }
    let start = from + chunk.get(from..)?.find(is_of_token)?;
    let rest = chunk.get(start..)?;
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_variable = is_behind_dollar(chunk.get(..start)?) && rest.starts_with(is_letter);
    let length = rest.find(|c: char| if is_variable { !is_letter(c) } else { !is_of_token(c) });
    Some(start..start + length.unwrap_or(rest.len()))
}

/// Names of options and variables: words of letters of one case, perhaps with a number behind.
fn is_name(text: &str) -> bool {
    let is_word = |word: &str| {
        let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
        let is_of = |of: fn(&u8) -> bool| letters.bytes().all(|it| of(&it));
        let is_letters = is_of(u8::is_ascii_lowercase) || is_of(u8::is_ascii_uppercase);
        !letters.is_empty() && is_letters && word.len() - letters.len() <= 2
    };
    text.len() <= LONGEST_NAME && text.trim_matches('_').split(['-', '.', '_']).all(is_word)
}

fn is_variable(text: &str) -> bool {
    is_name(text) || text.len() <= 2 && text.bytes().all(|it| it.is_ascii_digit())
}

/// Whether a word is a variable, or stands for the broker's address, and nothing else.
fn is_reference(word: &str) -> bool {
    let inner = |begin: &str| word.strip_prefix(begin).and_then(|it| it.strip_suffix('}'));
    word.strip_prefix('$').or_else(|| inner("${")).is_some_and(is_variable)
        || inner("{").is_some_and(|it| has(ADDRESS_PARTS, it))
}

/// A kind of quote, with a backslash before it or without.
fn quote_bit(quote: char, is_escaped: bool) -> u8 {
    let bit: u8 = match quote {
        '\'' => 1,
        '"' => 4,
        _ => 0,
    };
    bit << u8::from(is_escaped)
}

/// Kinds of quotes that are odd in number in a text.
fn odd_quotes(text: &str) -> u8 {
    let (mut odd, mut is_escaped) = (0, false);
    for c in text.chars() {
        if QUOTES.contains(&c) {
            odd ^= quote_bit(c, is_escaped);
        }
        is_escaped = c == '\\';
    }
    odd
}

fn behind_name(name: &str) -> After {
    let name = name.to_ascii_lowercase();
    match name.as_str() {
        it if has(PUBLIC, &it.replace('_', "-")) => After::Public,
        "pin" | "pw" | "user" | "username" | "proxy-user" => After::Value,
        it if is_of_login(it) => After::Value,
        _ => After::Anything,
    }
}

/// Whether what stands behind a name of Erlang's is secret.
pub(super) fn names_secret(name: &str) -> bool {
    matches!(name, "login" | "bind" | "dn_lookup_bind") || behind_name(name) == After::Value
}

/// Whether a word speaks of secrets. Passes are counted.
fn speaks_of_secrets(word: &str) -> bool {
    !KNOWN.contains(word) && is_secret(&word.to_lowercase().replace("passes", ""))
}

/// Whether a value has only letters, and signs of names, files and numbers.
fn is_plain(value: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./%+-,".contains(c);
    let value = value.rsplit_once(':').filter(|it| is_number(it.1)).map_or(value, |it| it.0);
    (1..=64).contains(&value.len()) && value.chars().all(is_plain)
}

pub(super) fn is_known_by_itself(text: &str) -> bool {
    let is_letter = text.len() == 1 && text.is_ascii();
    let is_word = || is_number(text) || is_known(text) || is_format(text) || is_file(text);
    is_letter || text.len() <= LONGEST_WORD && is_word()
}

/// Words that are known, at most four of them joined, also with a version; as they are, in capitals, or with one.
fn is_known(text: &str) -> bool {
    let is_known = |word: &str| {
        let small = word.to_ascii_lowercase();
        let others = word.get(1..).unwrap_or_default();
        let is_of_case = small.get(1..) == Some(others) || word.to_ascii_uppercase() == word;
        KNOWN.contains(word) || is_of_case && KNOWN.contains(small.as_str())
    };
    let text = text.trim_matches([':', '.', '+', '-', '%', '/', '_']);
    let is_version = |part: &&str| matches!(part.len(), 1 | 2) && part.bytes().all(|it| it.is_ascii_digit());
    let parts = text.split(['-', '_', '.', ':', '/']);
    let (numbers, words): (Vec<&str>, Vec<&str>) = parts.partition(is_version);
    let is_tagged = text.starts_with(|c: char| c.is_ascii_alphabetic()) && numbers.len() <= 3;
    let is_joined = numbers.is_empty() || is_tagged;
    is_known(text) || is_joined && words.len() <= 4 && words.into_iter().all(is_known)
}

/// Short numbers, with a unit; ports and addresses of numbers; ranges.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-', ':', '%']).unwrap_or(text).trim_end_matches(['.', ':']);
    let is_digits =
        |text: &str, most: usize| (1..=most).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
    let (number, unit) = split_before(text, |c| !c.is_ascii_digit() && !".:".contains(c));
    let is_unit =
        unit.is_empty() || UNITS.contains(&unit) || matches!(unit, "k" | "K" | "M" | "G" | "T" | "Ki" | "Mi" | "Gi");
    let parts: Vec<&str> = number.split(['.', ':']).collect();
    let is_short = match parts.len() {
        ..=2 => parts.iter().all(|it| is_digits(it, 9)),
        count => count <= 6 && parts.iter().all(|it| is_digits(it, 5)),
    };
    let range = text.split_once('-');
    is_unit && is_short || range.is_some_and(|(from, to)| is_digits(from, 4) && is_digits(to, 4))
}

/// Forms of what is printed, `+%Y-%m`.
fn is_format(text: &str) -> bool {
    let is_sign = |text: &str| text.is_ascii() && !text.contains(|c: char| c.is_ascii_alphanumeric());
    let mut parts = text.split('%');
    let is_first = parts.next().is_some_and(is_sign);
    let is_form = |part: &str| {
        let part = part.trim_start_matches(|c: char| c.is_ascii_digit() || ".-".contains(c));
        part.strip_prefix(|c: char| c.is_ascii_alphabetic()).is_some_and(is_sign)
    };
    is_first && text.contains('%') && parts.all(is_form)
}

fn is_path(text: &str) -> bool {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    (1..=LONGEST_WORD).contains(&text.len()) && text.chars().all(is_of_path)
}

/// The name of a file behind its folders.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a program may be called by this path and take no secret.
fn is_of_program(path: &str) -> bool {
    is_path(path) && !file_name(path).contains("passw")
}

/// Names of files: by their ends, where they lie, or where they are known.
fn is_file(text: &str) -> bool {
    let text = text.strip_prefix('@').unwrap_or(text);
    let end = file_name(text).rsplit_once('.').map(|it| it.1);
    let has_end = end.is_some_and(|end| has(FILES, end));
    let folder = text.strip_prefix('/').and_then(|it| it.split('/').next());
    let lies = folder.is_some_and(|it| has(FOLDERS, it)) || text.starts_with("./") || text.starts_with("../");
    let is_part = |part: &str| part.is_empty() || part.len() == 1 || is_number(part) || is_known(part);
    is_path(text) && (has_end || lies || text.contains('/') && text.split('/').all(is_part))
}

/// `Xmx4G` and `XX:+UseG1GC` of Java.
fn is_of_java(name: &str) -> bool {
    let size = ["Xmx", "Xms", "Xmn", "Xss"].into_iter().find_map(|it| name.strip_prefix(it));
    let flag = name.strip_prefix("XX:").map(|it| it.trim_start_matches(['+', '-']));
    size.is_some_and(is_number) || flag.is_some_and(|it| it.bytes().all(|it| it.is_ascii_alphanumeric()))
}

/// An address without its login and its query, and without a path that is not known.
fn address(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let is_scheme = scheme.chars().all(|c| c.is_ascii_lowercase() || "+-".contains(c));
    if !is_scheme || scheme.is_empty() {
        return None;
    }
    if matches!(scheme, "queue" | "topic") {
        return is_path(rest).then(|| url.to_owned());
    }
    let login = rest.rsplit_once('@');
    let (login, rest) = login.map_or(("", rest), |it| ("***@", it.1));
    let (authority, page) = split_before(rest, |c| "/?#".contains(c));
    let port = authority.rsplit_once(':').filter(|_| !authority.ends_with(']'));
    let (host, port) = port.unwrap_or((authority, ""));
    let is_label = |it: &str| is_name(it) || is_number(it);
    let is_of_six = |c: char| c.is_ascii_hexdigit() || "[]:.".contains(c);
    let is_host = is_reference(host)
        || host.split(['.', '-', '_']).all(is_label)
        || host.starts_with('[') && host.chars().all(is_of_six);
    let is_port = port.is_empty() || port.parse::<u16>().is_ok() || is_reference(port);
    if !is_host || !is_port {
        return None;
    }
    let (path, query) = split_before(page, |c| "?#".contains(c));
    let is_part = |part: &str| part.is_empty() || is_reference(part) || is_known_by_itself(part);
    let path = if path.split('/').all(is_part) { path } else { "/***" };
    let query = if query.is_empty() { "" } else { "?***" };
    Some(format!("{scheme}://{login}{authority}{path}{query}"))
}

/// Parts of a hidden text that may be the secret itself: all of it, without its quotes, and behind its key or scheme.
fn values(hidden: &str) -> Vec<String> {
    let marks = |c: char| c.is_whitespace() || ";,{}[]()<>\\".contains(c);
    let plain = hidden.trim_matches(marks);
    let key = plain.split_once([':', '=']);
    let scheme = plain.rsplit_once(char::is_whitespace);
    let behind = [key, scheme].into_iter().flatten().map(|it| it.1);
    let quoted = plain.split(QUOTES).skip(1).step_by(2);
    let bare = hidden.replace(['"', '\'', '\\'], "");
    let found = [hidden, plain, &bare].into_iter().chain(behind).chain(quoted);
    let found = found.map(|it| it.trim().trim_matches(QUOTES).to_owned());
    // Short numbers, ports, variables and words that every log may have would take its sentences apart.
    let is_word = |it: &str| KNOWN.contains(it.to_ascii_lowercase().as_str());
    let is_kept = |it: &String| match it.bytes().all(|byte| byte.is_ascii_digit()) {
        true => it.len() > 3,
        false => it.len() > 1 && !is_number(it) && !is_reference(it) && !is_word(it),
    };
    found.filter(is_kept).collect()
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
