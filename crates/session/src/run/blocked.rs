//! Counts how often the broker blocked publishers, and keeps its reasons.

/// Most reasons that are kept; a broker that gives a new one each time adds nothing.
const MOST_REASONS: usize = 3;
/// Blocked times that are reported as events; a broker may block and unblock without end.
const MOST_TOLD: u64 = 50;

/// Counts `connection.blocked`, in bounded memory whatever the broker sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocked {
    times: u64,
    /// The first ones, each once.
    reasons: Vec<String>,
    /// There were others.
    more: bool,
}

/// How much to report of one blocked time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// The reason.
    Reason,
    /// There may be further ones, which are only counted.
    Last,
    /// No report.
    Nothing,
}

impl Blocked {
    /// Notes one time.
    pub(crate) fn note(&mut self, reason: &str) -> Telling {
        self.times += 1;
        if !self.reasons.iter().any(|known| known == reason) {
            if self.reasons.len() < MOST_REASONS {
                self.reasons.push(reason.to_owned());
            } else {
                self.more = true;
            }
        }
        match self.times {
            1..MOST_TOLD => Telling::Reason,
            MOST_TOLD => Telling::Last,
            _ => Telling::Nothing,
        }
    }

    /// Whether the end of a block is reported, too.
    pub(crate) const fn tells_unblocked(&self) -> bool {
        self.times < MOST_TOLD
    }

    /// Number of blocked times, and the reasons; `None` without any.
    pub(crate) fn summary(&self) -> Option<(u64, String)> {
        let words = |reason: &String| {
            if reason.is_empty() {
                "it gave no reason".to_owned()
            } else {
                reason.clone()
            }
        };
        let mut reasons: Vec<String> = self.reasons.iter().map(words).collect();
        if self.more {
            reasons.push("and others".to_owned());
        }
        (self.times > 0).then(|| (self.times, reasons.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_blocks_without_end_is_counted_in_bounded_memory() {
        let mut blocked = Blocked::default();
        assert_eq!(blocked.summary(), None);
        let mut told = 0;
        for time in 0..1_000_000u64 {
            let reason = format!("{} {time}", "x".repeat(200));
            told += u64::from(blocked.note(&reason) != Telling::Nothing);
        }
        assert_eq!(told, MOST_TOLD);
        assert!(!blocked.tells_unblocked());
        let (times, reasons) = blocked.summary().unwrap();
        assert_eq!(times, 1_000_000);
        assert!(reasons.len() < 1_000, "{reasons}");
        assert!(reasons.ends_with("; and others"), "{reasons}");
    }

    #[test]
    fn equal_reasons_are_given_once() {
        let mut blocked = Blocked::default();
        for reason in ["low on memory", "", "low on memory"] {
            assert_eq!(blocked.note(reason), Telling::Reason);
        }
        let expected = "low on memory; it gave no reason".to_owned();
        assert_eq!(blocked.summary(), Some((3, expected)));
    }
}
