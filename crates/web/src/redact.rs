//! Secrets never reach the archive, a terminal or a log.
//!
//! An experiment is typed: its own JSON and [`assignment`] know for each key whether it is a secret, an address, or a
//! table of private names. Mere text (an event's label, a variable's name) is hidden by a pattern, in doubt always.

mod command;
mod terms;

use load::Endpoint;

pub use command::{flags, secret_variables, words as words_and_secrets};
pub use terms::terms;

/// Replaces a secret.
pub const BLOT: &str = "***";
/// Tables of an experiment, which paths of its keys begin with.
const TABLES: [&str; 8] = ["broker", "load", "phases", "profile", "probe", "scrape", "trace", "fault"];

/// Parts of names whose values are secrets.
const SECRET_NAMES: [&str; 11] =
    ["authorization", "pass", "pwd", "pswd", "secret", "token", "cookie", "credential", "assertion", "bearer", "jwt"];

/// Keys that are secrets, whatever their words are parted by.
const SECRET_KEYS: [&str; 6] = ["apikey", "accesskey", "accountkey", "encryptionkey", "privatekey", "signingkey"];

/// Variables of RabbitMQ, Erlang and the system, whose values are shown unless their names speak of secrets.
const KNOWN_VARIABLES: [&str; 9] = ["RABBITMQ_", "ERL_", "ERTS_", "LANG", "LC_", "TZ", "PATH", "HOME", "USER"];

/// Keys of the `broker` table that hold no secret; the others are hidden, misspelt ones among them. A test compares
/// them with their types (`session/tests/all/keys`).
const PUBLIC_BROKER_KEYS: &str = "kind root nodes node node-port data data-dir definitions patch memory-every plugins \
    schedulers tls allocation heartbeat frame-max send-buffer receive-buffer nagle user management-user ca cert key \
    cookie-file sni alpn insecure auth pid oauth2.client-id";

/// Units behind numbers.
const UNITS: [&str; 18] =
    ["%", "B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB", "ns", "us", "µs", "ms", "s", "m", "min", "h", "d"];

/// Tables of a load whose keys somebody else chose.
const ARGUMENTS: [&str; 3] = ["headers", "arguments", "consumer-arguments"];

/// Placeholders for a login and an address in bellows' own texts about URLs.
const EXAMPLE_LOGIN: (&str, &str) = ("USER", "PASSWORD");
const EXAMPLE_ADDRESS: (&str, &str) = ("HOST", "PORT");

/// Whether a key, option or variable of this name holds a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let joined = name.replace(['-', '.', '_'], "");
    SECRET_NAMES.iter().any(|part| name.contains(part)) || SECRET_KEYS.iter().any(|part| joined.contains(part))
}

/// As [`is_secret`], for names that somebody else chose: a key may be a secret unless messages are routed by it.
fn may_be_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    is_secret(&name) || name.ends_with("key") && !name.ends_with("routing-key")
}

/// Schemes of an authorization, in small letters; what follows one of them logs in.
const SCHEMES: [&str; 16] = [
    "apikey",
    "api-key",
    "basic",
    "bearer",
    "concealed",
    "digest",
    "dpop",
    "gnap",
    "hawk",
    "hoba",
    "mutual",
    "negotiate",
    "ntlm",
    "oauth",
    "token",
    "vapid",
];

/// Whether a client's or queue's value looks like a secret: credentials with a scheme, a JSON web token, a PEM key.
fn is_credential(value: &str) -> bool {
    let value = value.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
    let (scheme, rest) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
    let scheme = scheme.to_lowercase();
    // `AWS4-HMAC-SHA256`, `SCRAM-SHA-256`, `SharedAccessSignature`.
    let parts = ["hmac", "scram", "signature", "sharedkey"];
    let is_scheme = SCHEMES.contains(&scheme.as_str()) || parts.iter().any(|it| scheme.contains(it));
    let is_token = |word: &str| word.starts_with("eyJ") && [2, 4].contains(&word.matches('.').count());
    let of_word = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ':' | ',' | '[' | '{');
    !rest.trim().is_empty() && is_scheme || value.split(of_word).any(is_token) || value.contains("PRIVATE KEY")
}

/// Parts of names of headers and arguments that what logs in, or stands for a login, is called by; and words of them.
const LOGIN_NAMES: [&str; 5] = ["auth", "signature", "session", "csrf", "xsrf"];
const LOGIN_WORDS: [&str; 5] = ["otp", "sas", "sid", "sig", "key"];

/// Whether a header or an argument of this name may hold a secret.
fn is_of_login(key: &str) -> bool {
    let key = key.to_lowercase();
    let mut words = key.split(|c: char| !c.is_ascii_alphanumeric());
    let is_routing = key.ends_with("routing-key");
    LOGIN_NAMES.iter().any(|it| key.contains(it))
        || !is_routing && words.any(|word| LOGIN_WORDS.contains(&word))
        || may_be_secret(&key)
}

/// Whether a table, as TOML or JSON, has a key or a value within that may be a secret, at any depth.
fn holds_secret(table: &str) -> bool {
    let marks = |c: char| matches!(c, '{' | '}' | '[' | ']' | ',' | '"' | '\'' | '\n' | ' ');
    let pairs = table.split(['=', ':', ';']).map(|it| it.trim_end_matches(marks));
    let mut keys = pairs.map(|it| it.rsplit(marks).next().unwrap_or(it));
    let mut values = table.split(['{', '}', '[', ']', ',', '=', ':']);
    is_secret(table) || keys.any(is_of_login) || values.any(is_credential) || is_credential(table)
}

/// The value of a setting of the broker, hidden where the key may hold a secret.
pub fn value(key: &str, value: &str) -> String {
    if may_be_secret(key) { BLOT.to_owned() } else { text(value) }
}

/// The value of a message's header, or of an argument of a queue or subscription, hidden where it may be a secret.
pub fn argument(key: &str, given: &str) -> String {
    let within = is_table(given) && holds_secret(given);
    if is_of_login(key) || within || is_credential(given) { BLOT.to_owned() } else { value(key, given) }
}

/// `KEY=VALUE,KEY=VALUE` of headers or arguments, each as [`argument`].
pub fn arguments(given: &str) -> String {
    let mut is_hidden = false;
    let shown = |pair: &str| {
        let shown = match pair.split_once('=') {
            Some((key, value)) => format!("{key}={}", argument(key.trim(), value)),
            // A value with a comma goes on.
            None if is_hidden || holds_secret(pair) => BLOT.to_owned(),
            None => pair.to_owned(),
        };
        is_hidden = shown != pair;
        shown
    };
    given.split(',').map(shown).collect::<Vec<_>>().join(",")
}

/// The value of a variable, hidden unless the name is known and speaks of no secret.
pub fn variable(name: &str, value: &str) -> String {
    let known = KNOWN_VARIABLES.iter().any(|known| name.starts_with(known));
    let has_options = |it: &str| it.contains(char::is_whitespace) || it.starts_with(['-', '+']);
    let is_of_emulator = name.ends_with("ERL_ARGS") || name.ends_with("ERL_FLAGS");
    let is_plain = !value.contains(['"', '\'', '\\', '$', '`']);
    match known && !may_be_secret(name) {
        true if is_plain && is_of_emulator => {
            let all: Vec<String> = value.split(' ').map(str::to_owned).collect();
            flags(&all).join(" ")
        }
        true if has_options(value) => command::script(value),
        true => text(value),
        false => BLOT.to_owned(),
    }
}

/// A URL without login, query and fragment, hidden as a whole where it cannot be parsed. A broker's keeps its user.
pub fn url(url: &str) -> String {
    if let Ok(shown) = Endpoint::public_url(url) {
        return shown;
    }
    public_url(url).or_else(|| is_address(url).then(|| url.to_owned())).unwrap_or_else(|| BLOT.to_owned())
}

/// Whether a text without a scheme is a host, its port, and perhaps a path, as in `localhost:9418/metrics`.
fn is_address(text: &str) -> bool {
    let (authority, path) = text.split_once('/').unwrap_or((text, ""));
    let is_plain =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/'));
    authority
        .split_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && is_plain(host) && is_plain(path) && port.parse::<u16>().is_ok())
}

fn public_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("***@", rest));
    let place = rest.split(['?', '#']).next()?;
    let query = if place.len() < rest.len() { "?***" } else { "" };
    let authority = place.split('/').next()?;
    let port_follows = |(_, port): (&str, &str)| port.chars().all(|c| c.is_ascii_digit());
    let is_plain = authority.starts_with('[') || authority.split_once(':').is_none_or(port_follows);
    let is_url = scheme.chars().all(is_scheme) && !authority.is_empty() && is_plain;
    is_url.then(|| format!("{scheme}://{login}{place}{query}"))
}

/// A change `PATH=VALUE` of an experiment, its value hidden unless the path is known to hold no secret.
pub fn assignment(given: &str) -> String {
    let Some((path, value)) = given.split_once('=') else {
        // A path without a value, or a piece of a value: nobody knows, unless it begins as a path does.
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_path = TABLES
            .iter()
            .any(|table| given.strip_prefix(table).is_some_and(|it| it.starts_with('.')) && given.chars().all(is_key));
        return if is_path { given } else { BLOT }.to_owned();
    };
    let path = path.trim();
    if !path.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_')) {
        return BLOT.to_owned();
    }
    format!("{path}={}", assigned(path, value))
}

fn assigned(path: &str, given: &str) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    let hidden = || BLOT.to_owned();
    match parts.as_slice() {
        // A path of the broker's own pages.
        ["scrape" | "probe", _, "url"] if given.trim().trim_matches(['"', '\'']).starts_with('/') => text(given),
        [.., "url"] | ["broker", "oauth2", "uri"] | ["broker", "management"] => {
            url(given.trim().trim_matches(['"', '\'']))
        }
        ["broker", "config", key @ ..] if !key.is_empty() => value(&key.join("."), given),
        ["broker", "env", name] => variable(name, given),
        // As it is, or in TOML's quotes.
        ["broker", "advanced"] => match given.trim_start().starts_with(['"', '\'']) {
            true => quoted(given, terms).unwrap_or_else(hidden),
            false => terms(given),
        },
        ["broker", "erlang-args" | "java-args"] => listed(given, flags).unwrap_or_else(hidden),
        ["broker", key @ ..] if PUBLIC_BROKER_KEYS.split(' ').any(|it| it == key.join(".")) => given.to_owned(),
        ["broker", _] if !may_be_secret(path) && is_quantity(given) => given.to_owned(),
        ["broker", ..] => hidden(),
        // What a probe sends with each request may log in.
        ["probe", ..] if parts.contains(&"headers") || given.contains("headers") => hidden(),
        ["load" | "prepare", _, table, key @ ..] if ARGUMENTS.contains(table) => match key.is_empty() {
            true => hidden(),
            false => argument(&key.join("."), given),
        },
        ["load" | "prepare", .., "command"] => listed(given, words).unwrap_or_else(hidden),
        ["load" | "prepare", ..] if is_table(given) && holds_others(given) => hidden(),
        // A whole table may hold a URL. Where a secret is kept is none.
        _ if is_secret(path) && !path.ends_with("-file") || given.contains("url") => hidden(),
        _ => text(given),
    }
}

/// Whether a value is a number with a unit, or a choice, as no secret is: `512MiB`, `30s`, `true`.
fn is_quantity(given: &str) -> bool {
    let given = given.trim().trim_matches(['"', '\'']);
    let unit = given.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_'));
    let has_number = given.starts_with(|c: char| c.is_ascii_digit());
    let is_unit = UNITS.contains(&unit.trim_start());
    has_number && is_unit || matches!(given, "true" | "false")
}

/// Whether a value is a table, or a list of some.
fn is_table(given: &str) -> bool {
    given.trim_start().starts_with(['{', '['])
}

/// Whether a table of a load may hold words that somebody else chose.
fn holds_others(given: &str) -> bool {
    given.contains("command") || ARGUMENTS.iter().any(|table| given.contains(table))
}

/// A text in TOML's quotes, as it is shown; `None` where it cannot be read.
fn quoted(given: &str, show: impl Fn(&str) -> String) -> Option<String> {
    let mut table = toml::from_str::<toml::Table>(&format!("text = {given}")).ok()?;
    let text = table.remove("text")?;
    let (text, is_alone) = (text.as_str()?, table.is_empty());
    let shown = show(text);
    is_alone.then(|| if shown == text { given.to_owned() } else { toml::Value::from(shown).to_string() })
}

/// The words of a list as TOML, as they are shown; `None` where they cannot be read.
fn listed(given: &str, show: impl Fn(&[String]) -> Vec<String>) -> Option<String> {
    let mut table = toml::from_str::<toml::Table>(&format!("words = {given}")).ok()?;
    let all: Vec<String> = table.remove("words")?.try_into().ok()?;
    let shown = show(&all);
    Some(if shown == all { given.to_owned() } else { toml::Value::from(shown).to_string() })
}

/// Any text: passwords in URLs, and values after `password=` and its like, are hidden.
pub fn text(text: &str) -> String {
    assignments(&urls(text))
}

/// Own options whose names speak of secrets, and whose values are the paths of files.
fn is_file_of_secret(option: &str) -> bool {
    option.ends_with("-file") || option == "fleet-credentials"
}

/// A command of this program, which knows of its own options what is a secret: only what nobody hid is hidden here.
pub fn own_command(words: &[String]) -> Vec<String> {
    let mut is_behind = false;
    let one = |word: &String| {
        let hides = is_behind;
        let option = word.strip_prefix("--");
        is_behind = option.is_some_and(|it| !it.contains('=') && is_secret(it) && !is_file_of_secret(it));
        if hides && !is_behind { BLOT.to_owned() } else { text(word) }
    };
    words.iter().map(one).collect()
}

/// A command, a word each, of which nothing is shown but what is known to be no secret.
pub fn words(words: &[String]) -> Vec<String> {
    command::words(words).0
}

/// `amqp://user:secret@host` becomes `amqp://user:***@host`.
pub fn urls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        // A destination has no login, unless it is of a URL, of which a careless password may be cut off.
        let is_apart = |kind: &&str| out.strip_suffix(*kind).is_some_and(|it| !it.ends_with('/'));
        let is_destination = ["queue://", "topic://"].iter().any(is_apart);
        // The login ends at the last @ before the next URL: a careless password may hold anything.
        let end = after.find("://").unwrap_or(after.len());
        let (span, next) = after.split_at(end);
        match is_destination && !span.contains('@') {
            true => out.push_str(span),
            false => out.push_str(&login(span)),
        }
        rest = next;
    }
    out.push_str(rest);
    out
}

/// The text behind a `://`, without the password.
fn login(span: &str) -> String {
    let word_end = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    // `http://host:15672/api: 500, from rabbit@db`: what is said of an address has no login of it.
    let (first, rest) = span.split_at(word_end(span));
    if first.strip_suffix(':').is_some_and(is_server) {
        return format!("{first}{rest}");
    }
    if let Some((login, host)) = span.rsplit_once('@') {
        return match login.split_once(':') {
            Some(EXAMPLE_LOGIN) => span.to_owned(),
            Some((user, _)) if !user.contains(char::is_whitespace) => {
                format!("{user}:{BLOT}@{host}")
            }
            _ => span.to_owned(),
        };
    }
    // Without an @, what follows the colon is a port, or a password whose host is missing.
    let (word, next) = span.split_at(word_end(span));
    let authority = word.split(['/', '?', '#']).next().unwrap_or(word);
    let port = |(host, port): (&str, &str)| {
        !port.starts_with(|c: char| c.is_ascii_digit()) && !host.starts_with('[') && !port.is_empty()
    };
    match word.split_once(':') {
        Some(_) if authority.split_once(':') == Some(EXAMPLE_ADDRESS) => span.to_owned(),
        // A placeholder in a command, of which nothing is to be filled in.
        Some(("{host}", port)) if port.starts_with("{port}") => span.to_owned(),
        Some((host, _)) if authority.split_once(':').is_some_and(port) => {
            // A list that is quoted keeps its end.
            let password = word.trim_end_matches(|c| "\"'])},;".contains(c));
            let end = word.get(password.len()..).unwrap_or_default();
            format!("{host}:{BLOT}{end}{next}")
        }
        _ => span.to_owned(),
    }
}

/// Whether this is host and port, perhaps with a path, without a login.
fn is_server(word: &str) -> bool {
    let port = word.split(['/', '?', '#']).next().unwrap_or(word).rsplit_once(':').map(|(_, port)| port);
    !word.contains('@') && port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// `broker.password=secret` becomes `broker.password=***`; also inside a URL's query.
fn assignments(text: &str) -> String {
    // An argument that is one assignment: its value may hold anything.
    if let Some((key, _)) = text.split_once('=').filter(|(key, _)| is_secret(key) && !key.contains("://")) {
        return format!("{key}={BLOT}");
    }
    let parts = text.split_inclusive(['?', '&', ' ', ',', ';']);
    let mut ends_query = false;
    // A hidden value goes on to its quote's end.
    let mut quote = None;
    let one = |part: &str| {
        let end = part.chars().last().filter(|c| matches!(c, '?' | '&' | ' ' | ',' | ';'));
        let end = end.map_or_else(String::new, String::from);
        if let Some(open) = quote {
            quote = quote.filter(|_| !part.contains(open));
            return if quote.is_none() { end } else { String::new() };
        }
        let in_query = std::mem::replace(&mut ends_query, part.ends_with(['?', '&']));
        let Some((key, value)) = part.split_once('=') else { return part.to_owned() };
        // What is hidden already keeps what ends it.
        let is_hidden = value.trim_end_matches(|c| "?& ,;\"']}".contains(c)) == BLOT;
        if is_hidden || !(is_secret(key) || in_query && is_of_login(key)) {
            return part.to_owned();
        }
        let open = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        quote = open.filter(|open| value.matches(*open).count() == 1);
        let end = if quote.is_none() { end } else { String::new() };
        format!("{key}={BLOT}{end}")
    };
    parts.map(one).collect()
}

/// A server's text, which may repeat its request or the beginning of it, without these secrets; a few letters are kept.
pub fn repeated(said: &str, secrets: impl IntoIterator<Item = String>) -> String {
    let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
    // A letter of several bytes that was cut off within is no letter.
    let said = said.trim_end_matches('\u{fffd}').to_owned();
    secrets.fold(said, |said, secret| {
        let said = without(&said, &secret, BLOT);
        let ends = (SAYS_NOTHING..secret.len()).rev();
        let kept = ends.filter_map(|end| said.strip_suffix(secret.get(..end)?)).next();
        kept.map(|kept| format!("{kept}{BLOT}")).unwrap_or(said)
    })
}

/// The login of a header `Authorization`, behind its scheme.
pub fn credentials(authorization: Option<&str>) -> Option<String> {
    let (_, login) = authorization?.split_once(' ')?;
    Some(login.to_owned())
}

/// A text with a secret replaced. One of a few letters is looked for where no letter is beside it, as others are words.
pub fn without(text: &str, secret: &str, shown: &str) -> String {
    if secret.len() > SAYS_NOTHING {
        return text.replace(secret, shown);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut last = None;
    while let Some((before, after)) = rest.split_once(secret) {
        let last_before = before.chars().next_back().or(last);
        let is_within = [last_before, after.chars().next()].into_iter().flatten().any(char::is_alphanumeric);
        out.push_str(before);
        out.push_str(if is_within { secret } else { shown });
        last = secret.chars().next_back();
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Letters of a secret that do not give it away.
const SAYS_NOTHING: usize = 3;

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
