//! Secrets never reach the archive, a terminal or a log.
//!
//! What an experiment consists of is typed: [`crate::Experiment::to_json`] and [`assignment`] know for each key
//! whether it is a secret, an address, or a table of names that only their owner knows. Where nothing but text is
//! left (the label of an event, a name of a variable), a pattern decides, and in doubt it hides.

use load::Endpoint;

/// What stands where a secret stood.
pub(crate) const BLOT: &str = "***";
/// Tables of an experiment, which paths of its keys begin with.
const TABLES: [&str; 8] = [
    "broker", "load", "phases", "profile", "probe", "scrape", "trace", "fault",
];

/// Parts of names whose values are secrets.
const SECRET_NAMES: [&str; 14] = [
    "pass",
    "pwd",
    "secret",
    "token",
    "cookie",
    "credential",
    "assertion",
    "bearer",
    "jwt",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "signing_key",
];

/// Variables of RabbitMQ, Erlang and the system, whose values are shown unless their names speak of secrets.
const KNOWN_VARIABLES: [&str; 9] = [
    "RABBITMQ_",
    "ERL_",
    "ERTS_",
    "LANG",
    "LC_",
    "TZ",
    "PATH",
    "HOME",
    "USER",
];

/// Keys of the `broker` table that hold no secret; the others are hidden, misspelt ones among them.
const PUBLIC_BROKER_KEYS: [&str; 23] = [
    "node",
    "nodes",
    "kind",
    "root",
    "plugins",
    "schedulers",
    "tls",
    "allocation",
    "heartbeat",
    "frame-max",
    "send-buffer",
    "receive-buffer",
    "nagle",
    "user",
    "management-user",
    "ca",
    "cert",
    "key",
    "sni",
    "insecure",
    "auth",
    "pid",
    "oauth2.client-id",
];

/// PerfTest's short option for a client's secret, which its value may follow at once.
const PERF_TESTS: &str = "o2sec";

/// What stands for a login, and for an address, in what bellows itself says of URLs.
const EXAMPLE_LOGIN: (&str, &str) = ("USER", "PASSWORD");
const EXAMPLE_ADDRESS: (&str, &str) = ("HOST", "PORT");

/// Whether a key, option or variable of this name holds a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase().replace(['-', '.'], "_");
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// The same for names that somebody else chose: a key is one more thing that may be secret.
fn may_be_secret(name: &str) -> bool {
    is_secret(name) || name.to_lowercase().ends_with("key")
}

/// The value of a setting of the broker, hidden where the key may hold a secret.
pub(crate) fn value(key: &str, value: &str) -> String {
    if may_be_secret(key) {
        BLOT.to_owned()
    } else {
        text(value)
    }
}

/// The value of a variable, hidden unless the name is known and speaks of no secret.
pub(crate) fn variable(name: &str, value: &str) -> String {
    let known = KNOWN_VARIABLES.iter().any(|known| name.starts_with(known));
    if known && !may_be_secret(name) {
        words(&[value.to_owned()]).concat()
    } else {
        BLOT.to_owned()
    }
}

/// A URL as far as it certainly holds no secret: without login, query and fragment, and hidden as a whole where it
/// cannot be taken apart. Of a broker's URL the user is left.
#[must_use]
pub fn url(url: &str) -> String {
    if let Ok(endpoint) = url.parse::<Endpoint>() {
        return endpoint.to_string();
    }
    public_url(url)
        .or_else(|| is_address(url).then(|| url.to_owned()))
        .unwrap_or_else(|| BLOT.to_owned())
}

/// Whether a text without a scheme is a host, its port, and perhaps a path, as in `localhost:9418/metrics`.
fn is_address(text: &str) -> bool {
    let (authority, path) = text.split_once('/').unwrap_or((text, ""));
    let is_plain = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'/'))
    };
    authority.split_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && is_plain(host) && is_plain(path) && port.parse::<u16>().is_ok()
    })
}

fn public_url(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let (login, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    let place = rest.split(['?', '#']).next()?;
    let query = if place.len() < rest.len() { "?***" } else { "" };
    let authority = place.split('/').next()?;
    let port_follows = |(_, port): (&str, &str)| port.chars().all(|c| c.is_ascii_digit());
    let is_plain = authority.starts_with('[') || authority.split_once(':').is_none_or(port_follows);
    let is_url = scheme.chars().all(is_scheme) && !authority.is_empty() && is_plain;
    is_url.then(|| format!("{scheme}://{login}{place}{query}"))
}

/// A change `PATH=VALUE` of an experiment, its value hidden unless the path is known to hold no secret.
#[must_use]
pub fn assignment(given: &str) -> String {
    let Some((path, value)) = given.split_once('=') else {
        // A path without a value, or a piece of a value: nobody knows, unless it begins as a path does.
        let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let is_path = TABLES.iter().any(|table| {
            let rest = given.strip_prefix(table);
            rest.is_some_and(|it| it.starts_with('.')) && given.chars().all(is_key)
        });
        return if is_path { given } else { BLOT }.to_owned();
    };
    let path = path.trim();
    if !path
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
    {
        return BLOT.to_owned();
    }
    format!("{path}={}", assigned(path, value))
}

fn assigned(path: &str, given: &str) -> String {
    let parts: Vec<&str> = path.split('.').collect();
    let hidden = || BLOT.to_owned();
    match parts.as_slice() {
        // A path of the broker's own pages.
        ["scrape" | "probe", _, "url"]
            if given.trim().trim_matches(['"', '\'']).starts_with('/') =>
        {
            text(given)
        }
        [.., "url"] | ["broker", "oauth2", "uri"] | ["broker", "management"] => {
            url(given.trim().trim_matches(['"', '\'']))
        }
        ["broker", "config", key @ ..] if !key.is_empty() => value(&key.join("."), given),
        ["broker", "env", name] => variable(name, given),
        ["broker", key @ ..] if PUBLIC_BROKER_KEYS.contains(&key.join(".").as_str()) => {
            given.to_owned()
        }
        ["broker", ..] => hidden(),
        // What a probe sends with each request may log in.
        ["probe", ..] if parts.contains(&"headers") || given.contains("headers") => hidden(),
        ["load", .., "command"] if !is_public_command(given) => hidden(),
        ["load", .., "command"] => text(given),
        ["load", ..] if is_table(given) && given.contains("command") => hidden(),
        // A whole table may hold a URL.
        _ if is_secret(path) || given.contains("url") => hidden(),
        _ => text(given),
    }
}

/// Whether a value is a table, or a list of some.
fn is_table(given: &str) -> bool {
    given.trim_start().starts_with(['{', '['])
}

/// Whether the words of a command can be read, and none of them may be a secret.
fn is_public_command(given: &str) -> bool {
    let table = toml::from_str::<toml::Table>(&format!("command = {given}"));
    let given = table.ok().and_then(|mut it| it.remove("command"));
    let given = given.and_then(|it| it.try_into::<Vec<String>>().ok());
    given.is_some_and(|given| words(&given) == given)
}

/// Any text: passwords in URLs, and values after `password=` and its like, are hidden.
#[must_use]
pub fn text(text: &str) -> String {
    assignments(&urls(text))
}

/// A command line in which nothing is known but the words: what follows `--password` or `-setcookie` as its own
/// word is hidden, too, whatever it begins with.
pub(crate) fn words(words: &[String]) -> Vec<String> {
    let mut hide_next = false;
    let one = |word: &String| {
        let name = word.trim_start_matches('-');
        let name = name.split('=').next().unwrap_or(name);
        if std::mem::replace(&mut hide_next, false) {
            return BLOT.to_owned();
        }
        if name.starts_with(PERF_TESTS) && name.len() > PERF_TESTS.len() {
            return format!("-{PERF_TESTS}{BLOT}");
        }
        // PerfTest's options may be shortened.
        let secret = is_secret(name) || name == PERF_TESTS || name.starts_with("oauth2-client-s");
        if !secret {
            return text(word);
        }
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        match word.split_once('=') {
            Some((option, _)) => format!("{option}={BLOT}"),
            None if word.chars().all(is_name) => {
                hide_next = true;
                word.clone()
            }
            // A term or an expression that speaks of secrets.
            None => BLOT.to_owned(),
        }
    };
    words.iter().map(one).collect()
}

/// `amqp://user:secret@host` becomes `amqp://user:***@host`.
pub fn urls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        // The login ends at the last @ before the next URL: a careless password may hold anything.
        let end = after.find("://").unwrap_or(after.len());
        let (span, next) = after.split_at(end);
        out.push_str(&login(span));
        rest = next;
    }
    out.push_str(rest);
    out
}

/// What follows a `://`, without the password.
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
        !port.starts_with(|c: char| c.is_ascii_digit())
            && !host.starts_with('[')
            && !port.is_empty()
    };
    match word.split_once(':') {
        Some(_) if authority.split_once(':') == Some(EXAMPLE_ADDRESS) => span.to_owned(),
        Some((host, _)) if authority.split_once(':').is_some_and(port) => {
            format!("{host}:{BLOT}{next}")
        }
        _ => span.to_owned(),
    }
}

/// Whether this is host and port, perhaps with a path, without a login.
fn is_server(word: &str) -> bool {
    let authority = word.split(['/', '?', '#']).next().unwrap_or(word);
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    !word.contains('@') && port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// `broker.password=secret` becomes `broker.password=***`; also inside a URL's query.
fn assignments(text: &str) -> String {
    // An argument that is one assignment: its value may hold anything.
    if let Some((key, _)) = text
        .split_once('=')
        .filter(|(key, _)| is_secret(key) && !key.contains("://"))
    {
        return format!("{key}={BLOT}");
    }
    let mut parts = text.split_inclusive(['?', '&', ' ', ',', ';']);
    let one = |part: &str| {
        let Some((key, value)) = part.split_once('=') else {
            return part.to_owned();
        };
        if !is_secret(key) {
            return part.to_owned();
        }
        let end = value
            .chars()
            .last()
            .filter(|c| matches!(c, '?' | '&' | ' ' | ',' | ';'));
        format!("{key}={BLOT}{}", end.map_or_else(String::new, String::from))
    };
    parts.by_ref().map(one).collect()
}

/// What a server said, which may repeat what it was sent, without these secrets; also without the beginning of one that it
/// was cut off within. A few letters say nothing.
pub(crate) fn repeated(said: &str, secrets: impl IntoIterator<Item = String>) -> String {
    let secrets = secrets.into_iter().filter(|secret| !secret.is_empty());
    // A letter of several bytes that was cut off within is no letter.
    let said = said.trim_end_matches('\u{fffd}').to_owned();
    secrets.fold(said, |said, secret| {
        let said = said.replace(&secret, BLOT);
        let ends = (SAYS_NOTHING..secret.len()).rev();
        let mut kept = ends.filter_map(|end| said.strip_suffix(secret.get(..end)?));
        match kept.next() {
            Some(kept) => format!("{kept}{BLOT}"),
            None => said,
        }
    })
}

/// The login of a header `Authorization`, behind its scheme.
pub(crate) fn credentials(authorization: Option<&str>) -> Option<String> {
    let (_, login) = authorization?.split_once(' ')?;
    Some(login.to_owned())
}

/// Letters of a secret that do not give it away.
const SAYS_NOTHING: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_text_are_hidden() {
        for (given, kept) in [
            (
                "amqp://guest:s3cret@host:5672/vhost",
                "amqp://guest:***@host:5672/vhost",
            ),
            ("amqp://guest:p@ss:w@host", "amqp://guest:***@host"),
            ("amqp://guest:p/w@host", "amqp://guest:***@host"),
            ("amqp://guest:p w#?@host", "amqp://guest:***@host"),
            ("amqp://guest:s3cret", "amqp://guest:***"),
            (
                "amqp://guest:s3cret/x was lost",
                "amqp://guest:*** was lost",
            ),
            ("amqp://host:5672/", "amqp://host:5672/"),
            (
                "at http://127.0.0.1:15672/api: 500, from rabbit@db9 and more",
                "at http://127.0.0.1:15672/api: 500, from rabbit@db9 and more",
            ),
            (
                "at http://127.0.0.1:15672/api: lost amqp://me:s3cret@host",
                "at http://127.0.0.1:15672/api: lost amqp://me:***@host",
            ),
            ("at amqp://[::1]:5672", "at amqp://[::1]:5672"),
            ("amqp://user@host/%2F", "amqp://user@host/%2F"),
            (
                "write http://HOST:PORT/PATH or https://HOST:PORT/PATH",
                "write http://HOST:PORT/PATH or https://HOST:PORT/PATH",
            ),
            (
                "write amqp://USER:PASSWORD@HOST:PORT/VHOST",
                "write amqp://USER:PASSWORD@HOST:PORT/VHOST",
            ),
            ("http://HOST:s3cret/PORT", "http://HOST:***"),
            (
                "two http://a:b@c/ and amqp://d:e@f",
                "two http://a:***@c/ and amqp://d:***@f",
            ),
            ("http://c/x?token=s3cret&y=1", "http://c/x?token=***&y=1"),
            ("broker.password=two, words", "broker.password=***"),
        ] {
            assert_eq!(text(given), kept);
        }
    }

    #[test]
    fn passwords_in_words_are_hidden() {
        let given = [
            "bellows",
            "client",
            "--password",
            "s3cret",
            "--user",
            "me",
            "--password=s3cret",
            "--password",
            "--s3cret",
            "--consumer-url",
            "amqp://a:s3cret@b",
            "--set",
            "broker.password=s3cret",
            "--auth-token",
            "s3cret",
            "-o2sec",
            "s3cret",
            "-o2secs3cret",
            "--oauth2-client-s",
            "s3cret",
            "--oauth2-client-sec=s3cret",
            "-o2p",
            "client_assertion=s3cret",
            "-setcookie",
            "s3cret",
            "default_pass",
            "<<\"s3cret\">>",
            "application:set_env(rabbit,default_pass,<<\"s3cret\">>)",
            "queue://x",
        ];
        let given: Vec<String> = given.iter().map(|s| (*s).to_owned()).collect();
        let kept = words(&given);
        assert!(!kept.join(" ").contains("s3cret"), "{kept:?}");
        assert_eq!(kept.len(), given.len());
        assert_eq!(kept[4..6], ["--user", "me"]);
        assert_eq!(kept.last().map(String::as_str), Some("queue://x"));
    }

    #[test]
    fn of_a_url_only_what_is_no_secret_is_shown() {
        for (given, kept) in [
            ("amqp://me:a/b@h", "amqp://me@h:5672/"),
            (
                "https://me:s3cret/x@h:8443/token?a=b",
                "https://***@h:8443/token?***",
            ),
            ("https://h/token", "https://h/token"),
            ("https://me:s3cret", "***"),
            ("https://[::1]:80/x", "https://[::1]:80/x"),
            ("me:s3cret@h", "***"),
            ("me:1234@h", "***"),
            ("me:s3cret", "***"),
            ("localhost:9418/metrics?a=b", "***"),
            ("localhost:9418/metrics", "localhost:9418/metrics"),
            ("localhost:15672", "localhost:15672"),
            ("amqp://me:s3cret%@h:1", "amqp://***@h:1"),
            ("s3 cret://x", "***"),
        ] {
            assert_eq!(url(given), kept);
        }
    }

    #[test]
    fn names_that_somebody_else_chose_are_hidden_in_doubt() {
        for name in [
            "MY_LDAP_PASS",
            "RABBITMQ_DEFAULT_PASS",
            "RABBITMQ_ENCRYPTION_KEY",
            "ANYTHING",
        ] {
            assert_eq!(variable(name, "s3cret"), BLOT, "{name}");
        }
        assert_eq!(variable("RABBITMQ_LOGS", "-"), "-");
        assert_eq!(
            variable("RABBITMQ_SERVER_ERL_ARGS", "-setcookie s3cret"),
            BLOT
        );
        for key in [
            "anonymous_login_pass",
            "auth_ldap.bind.pwd",
            "x.key",
            "a.jwt",
        ] {
            assert_eq!(value(key, "s3cret"), BLOT, "{key}");
        }
        assert_eq!(value("vm_memory_high_watermark.relative", "0.4"), "0.4");
    }

    #[test]
    fn changes_of_an_experiment_are_shown_where_they_hold_no_secret() {
        for (given, kept) in [
            ("load.0.rate=20000", "load.0.rate=20000"),
            ("load.0.routing-key=a", "load.0.routing-key=a"),
            ("broker.tls=true", "broker.tls=true"),
            (
                "broker.url=amqp://me:s3cret/@h",
                "broker.url=amqp://me@h:5672/",
            ),
            (
                "broker.management=http://me:s3cret@h:1",
                "broker.management=http://***@h:1",
            ),
            ("broker.management-user=me", "broker.management-user=me"),
            ("broker.password=s3cret", "broker.password=***"),
            ("broker.pasword=s3cret", "broker.pasword=***"),
            ("broker={password='s3cret'}", "broker=***"),
            ("load.0={url='amqp://a:s3cret@b'}", "load.0=***"),
            (
                "broker.advanced=[{a,[{b,<<\"s3cret\">>}]}].",
                "broker.advanced=***",
            ),
            (
                "broker.env.MY_LDAP_PASS=s3cret",
                "broker.env.MY_LDAP_PASS=***",
            ),
            ("broker.config.a.b=1", "broker.config.a.b=1"),
            (
                "broker.config.anonymous_login_pass=s3cret",
                "broker.config.anonymous_login_pass=***",
            ),
            (
                "broker.oauth2.parameters.x=s3cret",
                "broker.oauth2.parameters.x=***",
            ),
            (
                "probe.0.headers.Authorization=\"Bearer s3cret\"",
                "probe.0.headers.Authorization=***",
            ),
            ("probe.0.headers={X-Auth='s3cret'}", "probe.0.headers=***"),
            (
                "probe.0={name='a', headers={X-Auth='s3cret'}}",
                "probe.0=***",
            ),
            ("probe.0.rate=5", "probe.0.rate=5"),
            ("load.0.kind=command", "load.0.kind=command"),
            (
                "load.0.command=['x', '--password', 's3cret']",
                "load.0.command=***",
            ),
            ("load.0={command=['x', '-p', 's3cret']}", "load.0=***"),
            (
                "load.0.command=['x', '--rate', '5']",
                "load.0.command=['x', '--rate', '5']",
            ),
            (
                "load.0.exchange-type=headers",
                "load.0.exchange-type=headers",
            ),
            ("s3cret", "***"),
        ] {
            assert_eq!(assignment(given), kept);
        }
    }

    #[test]
    fn what_a_server_repeats_is_hidden_wherever_it_is_cut_off() {
        for secret in ["swordfish", "dTpzd29yZGZpc2g=", "pässwörd-ß", "a b\tc"] {
            let whole = format!("wrong login {secret}, says {secret} and more");
            for end in 0..=whole.len() {
                let cut = String::from_utf8_lossy(&whole.as_bytes()[..end]).into_owned();
                let said = repeated(&cut, [secret.to_owned(), String::new()]);
                let mut starts =
                    (SAYS_NOTHING + 1..=secret.len()).filter_map(|at| secret.get(..at));
                let leak = starts.find(|start| said.contains(start));
                assert_eq!(leak, None, "{cut:?} became {said:?}");
                assert!(
                    said.starts_with(&"wrong login "[..said.len().min(12)]),
                    "{said:?}"
                );
            }
        }
        assert_eq!(credentials(Some("Basic dTpw")).as_deref(), Some("dTpw"));
    }
}
