//! Secrets never reach the archive: passwords in URLs, in arguments and in settings are blotted
//! out before anything is written.

/// What stands where a secret stood.
pub(crate) const BLOT: &str = "***";

/// Parts of names whose values are secrets.
const SECRET_NAMES: [&str; 7] = [
    "password",
    "passwd",
    "default_pass",
    "secret",
    "token",
    "cookie",
    "passphrase",
];

/// PerfTest's short option for a client's secret, which its value may follow at once.
const PERF_TESTS: &str = "o2sec";

/// Whether a key, option or variable of this name holds a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// The value of a key, blotted out where the key holds a secret.
pub(crate) fn value(key: &str, value: &str) -> String {
    if is_secret(key) {
        BLOT.to_owned()
    } else {
        text(value)
    }
}

/// Any text: passwords in URLs, and values after `password=` and its like, are blotted out.
pub(crate) fn text(text: &str) -> String {
    assignments(&urls(text))
}

/// Text of several lines in an unknown language: lines that speak of secrets are left out.
pub(crate) fn lines(all: &str) -> String {
    let kept = all.lines().map(|line| {
        if is_secret(line) {
            BLOT.to_owned()
        } else {
            text(line)
        }
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// A command line: also what follows `--password` as its own word.
pub(crate) fn arguments(arguments: &[String]) -> Vec<String> {
    let mut hide_next = false;
    let one = |argument: &String| {
        let hide = std::mem::replace(&mut hide_next, false);
        if hide && !argument.starts_with("--") {
            return BLOT.to_owned();
        }
        let name = argument.trim_start_matches('-');
        if name.starts_with(PERF_TESTS) && name.len() > PERF_TESTS.len() {
            return format!("-{PERF_TESTS}{BLOT}");
        }
        // PerfTest's options may be shortened.
        let secret = is_secret(name) || name == PERF_TESTS || name.starts_with("oauth2-client-s");
        hide_next = argument.starts_with('-') && !argument.contains('=') && secret;
        text(argument)
    };
    arguments.iter().map(one).collect()
}

/// `amqp://user:secret@host` becomes `amqp://user:***@host`.
fn urls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        // The login ends at the last @: a careless password may hold an @ or a / itself.
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (authority, next) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((login, host)) => {
                let user = login.split_once(':').map_or(login, |(user, _)| user);
                out.push_str(user);
                if login.contains(':') {
                    out.push(':');
                    out.push_str(BLOT);
                }
                out.push('@');
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        rest = next;
    }
    out.push_str(rest);
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_urls_are_blotted_out() {
        for (given, kept) in [
            (
                "amqp://guest:s3cret@host:5672/vhost",
                "amqp://guest:***@host:5672/vhost",
            ),
            ("amqp://guest:p@ss:w@host", "amqp://guest:***@host"),
            ("amqp://guest:p/w@host", "amqp://guest:***@host"),
            ("amqp://host:5672/", "amqp://host:5672/"),
            ("amqp://user@host/%2F", "amqp://user@host/%2F"),
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
    fn passwords_in_arguments_are_blotted_out() {
        let given = [
            "bellows",
            "client",
            "--password",
            "s3cret",
            "--user",
            "me",
            "--password=s3cret",
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
            "queue://x",
        ];
        let given: Vec<String> = given.iter().map(|s| (*s).to_owned()).collect();
        let kept = arguments(&given);
        assert!(!kept.join(" ").contains("s3cret"), "{kept:?}");
        assert_eq!(kept.len(), given.len());
        assert_eq!(kept[4..6], ["--user", "me"]);
        assert_eq!(kept.last().map(String::as_str), Some("queue://x"));
    }

    #[test]
    fn lines_that_speak_of_secrets_are_left_out() {
        assert_eq!(
            lines("[{rabbit, [\n{default_pass, <<\"x\">>},\n{a, 1}]}]."),
            "[{rabbit, [\n***\n{a, 1}]}]."
        );
    }
}
