//! Options in sentences. Sentences name those of `bellows client`; other commands have other names for the same.

use archive::RunSummary;

use super::said_within;

/// An option of `bellows client` as sentences name it, and another name of it.
type Name = (&'static str, &'static str);

/// PerfTest's names. It has no event loops and no broker's process to name.
const PERF_TEST: &[Name] = &[
    ("--max-pending", "-c/--confirm"),
    ("--prefetch", "-q/--qos"),
    ("--insecure", "--tls-insecure"),
    ("--ca FILE (broker.ca)", "--tls-ca FILE"),
    ("(--ca)", "(--tls-ca)"),
    ("--sni NAME (broker.sni)", "-sni NAME"),
    ("oauth2.uri (--oauth2-uri)", "-o2uri"),
    ("oauth2.uri", "-o2uri"),
    ("phases.drain", "-st/--shutdown-timeout"),
    ("--threads", "threads, as `bellows client --threads` has"),
    ("(--pid)", "(`bellows client --pid`)"),
];

/// The keys of an experiment.
const KEYS: &[Name] = &[
    ("--max-pending", "`max-pending`"),
    ("--prefetch", "`prefetch`"),
    ("--insecure", "`broker.insecure`"),
    ("--ca FILE (broker.ca)", "`broker.ca`"),
    ("(--ca)", "(`broker.ca`)"),
    ("--sni NAME (broker.sni)", "`broker.sni`"),
    ("oauth2.uri (--oauth2-uri)", "`broker.oauth2.uri`"),
    ("--threads", "`threads`"),
    ("(--pid)", "(`broker.pid`)"),
    // Where the key stands beside the option, it is enough.
    ("(--max-open, ", "("),
    ("--max-open", "`max-open`"),
];

/// Names options as the command has them that was typed, in the remedy of an error.
pub fn remedy(help: &str, command: &[String]) -> String {
    names(command).iter().fold(help.to_owned(), |help, (from, to)| help.replace(from, to))
}

/// The other names that options have for a command.
fn names(command: &[String]) -> &'static [Name] {
    match command.get(1).map(String::as_str) {
        Some("perf-test") => PERF_TEST,
        Some("ab" | "demo" | "limit" | "run") => KEYS,
        _ => &[],
    }
}

/// Renames options in the sentences of a verdict and of warnings.
pub fn options(summary: &mut RunSummary, command: &[String]) {
    let rename = |text: &mut String| *text = remedy(text, command);
    // Others' words stay.
    summary.warnings.iter_mut().filter(|it| said_within(it).is_none()).for_each(|it| rename(&mut it.text));
    if let Some(verdict) = &mut summary.verdict {
        rename(&mut verdict.sentence);
        verdict.reasons.iter_mut().for_each(|it| rename(&mut it.text));
    }
}

#[cfg(test)]
mod tests {
    use archive::{Cause, Finding, Tier, Verdict, Warning};

    use testkit::assert_lacks;

    use super::*;
    use crate::text;

    #[test]
    fn remedies_name_options_of_the_command_that_was_typed() {
        let help = "check oauth2.uri (--oauth2-uri) and (--ca), or give --sni NAME (broker.sni), or --insecure";
        let told = |command: &str| remedy(help, &["bellows".to_owned(), command.to_owned()]);
        assert_eq!(told("client"), help);
        assert_eq!(told("perf-test"), "check -o2uri and (--tls-ca), or give -sni NAME, or --tls-insecure");
        let keys = "check `broker.oauth2.uri` and (`broker.ca`), or give `broker.sni`, or `broker.insecure`";
        assert_eq!(told("run"), keys);
    }

    #[test]
    fn options_are_those_of_the_command_that_was_typed() {
        let told = |command: &str| {
            let mut verdict = Verdict { cause: Some(Cause::ConsumersIdle), ..Verdict::default() };
            text::verdict(&mut verdict);
            let mut summary = RunSummary { verdict: Some(verdict), ..RunSummary::default() };
            let saturated = Finding::GeneratorSaturated { at_work: 1.0, threads: 1, unit: "messages".to_owned() };
            for finding in [saturated, Finding::CertificateNotChecked {}] {
                let mut warning = Warning::new(Tier::Caution, finding);
                warning.text = text::warning(&warning);
                summary.warnings.push(warning);
            }
            options(&mut summary, &["bellows".to_owned(), command.to_owned()]);
            let texts = summary.warnings.iter().map(|it| it.text.clone());
            let sentence = summary.verdict.map(|it| it.sentence);
            sentence.into_iter().chain(texts).collect::<Vec<_>>().join("\n")
        };
        for (command, named) in [
            ("client", ["larger --prefetch", "more --threads", "with --ca FILE"]),
            ("perf-test", ["larger -q/--qos", "`bellows client --threads`", "with --tls-ca FILE"]),
            ("run", ["larger `prefetch`", "more `threads`", "with `broker.ca`"]),
        ] {
            let told = told(command);
            assert!(named.iter().all(|it| told.contains(it)), "{command}: {told}");
        }
        for command in ["perf-test", "run"] {
            let told = told(command);
            assert_lacks(told.replace("--tls-", ""), ["--prefetch", " more --threads", "--insecure", "--ca "]);
        }
    }
}
