//! Which threads count as one: rules are data (`thread-rules.txt`), not code.
//!
//! A rule is one line, `PATTERN -> GROUP`. In a pattern `<n>` stands for one or more digits, `<*>`
//! for anything (as little as will do), and every other character for itself; `<*>` in the group
//! stands for what the pattern's first `<*>` matched. The first rule that matches the whole name decides;
//! names that no rule matches are their own group.

use std::sync::OnceLock;

use thiserror::Error;

use super::pattern::Pattern;

const BUILT_IN: &str = include_str!("thread-rules.txt");

/// A table of rules.
#[derive(Clone, Debug, Default)]
pub struct ThreadRules {
    rules: Vec<(Pattern, String)>,
}

/// A rule that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} of the thread rules is `{text}`: a rule is written PATTERN -> GROUP")]
pub struct ThreadRulesError {
    /// Counted from 1.
    pub line: usize,
    /// As it stands there.
    pub text: String,
}

impl ThreadRules {
    /// The rules that all outputs use.
    pub fn built_in() -> &'static Self {
        static RULES: OnceLock<ThreadRules> = OnceLock::new();
        // A test parses the built-in text, so the fallback is never taken.
        RULES.get_or_init(|| Self::parse(BUILT_IN).unwrap_or_default())
    }

    /// Rules from text; empty lines and lines that begin with `//` are skipped.
    ///
    /// # Errors
    /// The first line that is not a rule.
    pub fn parse(text: &str) -> Result<Self, ThreadRulesError> {
        let mut rules = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with("//") {
                continue;
            }
            match line.split_once("->") {
                Some((pattern, group)) if !pattern.trim().is_empty() => {
                    rules.push((Pattern::new(pattern.trim()), group.trim().to_owned()));
                }
                _ => {
                    return Err(ThreadRulesError {
                        line: i + 1,
                        text: line.to_owned(),
                    });
                }
            }
        }
        Ok(Self { rules })
    }

    /// The group of a thread name.
    #[must_use]
    pub fn group(&self, name: &str) -> String {
        for (pattern, group) in &self.rules {
            if let Some(captured) = pattern.captured(name) {
                return group.replace("<*>", captured);
            }
        }
        name.to_owned()
    }

    /// Whether a rule matches this name, or makes it of others.
    #[must_use]
    pub fn know(&self, name: &str) -> bool {
        let knows = |(pattern, group): &(Pattern, String)| {
            group == name || pattern.captured(name).is_some()
        };
        self.rules.iter().any(knows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_rules_are_well_formed_and_merge_what_belongs_together() {
        ThreadRules::parse(BUILT_IN).expect("built-in rules");
        let groups = [
            ("1_scheduler", "scheduler"),
            ("16_scheduler", "scheduler"),
            ("erts_sched_3", "scheduler"),
            ("1_dirty_cpu_sch", "dirty_cpu_scheduler"),
            ("2_dirty_cpu_scheduler", "dirty_cpu_scheduler"),
            ("erts_dcpus_1", "dirty_cpu_scheduler"),
            ("10_dirty_io_sch", "dirty_io_scheduler"),
            ("erts_dios_3", "dirty_io_scheduler"),
            ("aux", "aux"),
            ("erts_aux", "aux"),
            ("erts_aux_1", "aux"),
            ("erts_poll_0", "poller"),
            ("0_poller", "poller"),
            ("erts_smsg_disp", "erts_smsg_disp"),
            ("erts_async_12", "erts_async"),
            ("3_async", "async"),
            ("GC Thread#3", "GC Thread"),
            ("G1 Conc#0", "G1 Conc"),
            ("C2 CompilerThre", "C2 CompilerThread"),
            ("C1 CompilerThread0", "C1 CompilerThread"),
            ("pool-12-thread-", "pool-thread"),
            ("pool-2-thread-7", "pool-thread"),
            ("tokio-runtime-w", "tokio-runtime-w"),
            ("beam.smp", "beam.smp"),
            ("", ""),
        ];
        for (name, group) in groups {
            assert_eq!(ThreadRules::built_in().group(name), group, "{name}");
        }
    }

    #[test]
    fn patterns_match_whole_names_only() {
        let rules = ThreadRules::parse("a<n> -> A\n<*>-x -> <*>\n// comment\n< -> lt").unwrap();
        for (name, group) in [
            ("a1", "A"),
            ("a", "a"),
            ("a1b", "a1b"),
            ("ba1", "ba1"),
            ("é-x", "é"),
            ("-x", ""),
            ("<", "lt"),
        ] {
            assert_eq!(rules.group(name), group, "{name}");
        }
    }

    #[test]
    fn a_line_that_is_no_rule_is_named() {
        let error = ThreadRules::parse("a -> b\nnonsense").unwrap_err();
        assert_eq!((error.line, error.text.as_str()), (2, "nonsense"));
    }
}
