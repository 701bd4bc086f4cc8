//! The silences of a run that are kept: the longest.

use load::Silence;
use measure::Nanos;

/// Most silences: a broker that answers slowly is silent without end, and only the longest matter.
const MOST: usize = 1_000;

/// Times in which event loops heard nothing or did not run.
#[derive(Debug, Default)]
pub(crate) struct Silences {
    kept: Vec<Silence>,
}

impl Silences {
    /// Keeps another one, where it is not shorter than all that are kept.
    pub(super) fn keep(&mut self, silence: Silence) {
        self.kept.push(silence);
        if self.kept.len() > MOST {
            let all = self.kept.iter().map(length).enumerate();
            if let Some((shortest, _)) = all.min_by_key(|(_, length)| *length) {
                self.kept.remove(shortest);
            }
        }
    }

    /// In the order in which they were told.
    pub(crate) fn all(&self) -> &[Silence] {
        &self.kept
    }
}

fn length(silence: &Silence) -> Nanos {
    silence.until.since(silence.from)
}

#[cfg(test)]
mod tests {
    use measure::Time;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_long_silence_after_many_short_ones_is_kept() {
        let mut silences = Silences::default();
        let silence = |from: u64, ms: u64| Silence {
            from: Time(from * MS),
            until: Time((from + ms) * MS),
            ..Silence::default()
        };
        for second in 0..1_500 {
            silences.keep(silence(second * 1_000, 100 + second % 7));
        }
        silences.keep(silence(1_500_000, 4_000));
        silences.keep(silence(1_505_000, 100));
        assert_eq!(silences.all().len(), MOST);
        assert_eq!(silences.all().last(), Some(&silence(1_500_000, 4_000)));
        let shortest = silences.all().iter().map(length).min();
        assert_eq!(shortest, Some(Nanos(102 * MS)));
    }
}
