//! Topic exchanges' patterns (AMQP 0.9.1, 3.1.3.3): words between dots, `*` for one word, `#` for
//! any number of them, also none.

/// Whether a binding's pattern takes messages of this routing key.
///
/// As RabbitMQ has it: the empty key has no word, `.` has two empty ones, and `*` takes an empty
/// word too. At most words times words steps, however many `#` there are.
#[must_use]
pub fn matches(pattern: &str, key: &str) -> bool {
    let pattern: Vec<&str> = words(pattern).collect();
    let key: Vec<&str> = words(key).collect();
    let (mut at, mut word) = (0, 0);
    // The last `#`, and the first word behind what it has taken.
    let mut hash: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at), key.get(word)) {
            (Some(&"#"), _) => {
                hash = Some((at, word));
                at += 1;
            }
            (Some(one), Some(other)) if *one == "*" || one == other => {
                at += 1;
                word += 1;
            }
            (None, None) => return true,
            _ => {
                // The last `#` takes one word more; what came before it need not change, because
                // an earlier one could only take what this one can.
                let Some((behind, taken)) = hash.filter(|(_, taken)| *taken < key.len()) else {
                    return false;
                };
                hash = Some((behind, taken + 1));
                at = behind + 1;
                word = taken + 1;
            }
        }
    }
}

/// Whether a pattern takes other keys than itself.
pub(crate) fn is_open(pattern: &str) -> bool {
    words(pattern).any(|word| word == "*" || word == "#")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let many = if text.is_empty() { 0 } else { usize::MAX };
    text.split('.').take(many)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// The definition, word by word.
    fn naive(pattern: &[&str], key: &[&str]) -> bool {
        match pattern.split_first() {
            None => key.is_empty(),
            Some((&"#", rest)) => (0..=key.len()).any(|taken| naive(rest, &key[taken..])),
            Some((word, rest)) => key.split_first().is_some_and(|(first, behind)| {
                (*word == "*" || word == first) && naive(rest, behind)
            }),
        }
    }

    fn text(random: Random, words: &[&str], at: &mut u64) -> String {
        let mut next = |bound: u64| {
            *at += 1;
            (random.word(*at) >> 33) % bound
        };
        let count = next(7);
        let text: Vec<&str> = (0..count)
            .map(|_| words[next(words.len() as u64) as usize])
            .collect();
        text.join(".")
    }

    #[test]
    fn patterns_match_as_the_definition_says() {
        let random = Random::new(7, 0);
        let (mut at, mut hits) = (0, 0);
        for _ in 0..100_000 {
            let pattern = text(random, &["a", "b", "*", "#", "", "#"], &mut at);
            let key = text(random, &["a", "b", "", "*", "#"], &mut at);
            let expected = naive(
                &words(&pattern).collect::<Vec<_>>(),
                &words(&key).collect::<Vec<_>>(),
            );
            assert_eq!(matches(&pattern, &key), expected, "{pattern:?} and {key:?}");
            assert!(matches(&pattern, &pattern), "{pattern:?} takes itself");
            hits += u32::from(expected);
        }
        assert!((10_000..90_000).contains(&hits), "{hits} hits");
    }

    #[test]
    fn many_wildcards_are_no_trap() {
        let pattern = "#.a.".repeat(60) + "b";
        assert!(!matches(&pattern, &"a.".repeat(120)));
        assert!(matches("#", "") && !matches("*", "") && matches("*.*", "."));
        assert!(is_open("a.#") && is_open("*") && !is_open("a*.b#") && !is_open(""));
    }
}
