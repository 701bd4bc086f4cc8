//! `--over`: keys that are varied, each with its values.

use archive::{MatrixKey, PairedMatrix};

use super::super::command_line::Assignment;
use crate::failure::Failure;

/// Help for a value of `--over` that cannot be read.
const EXAMPLE: &str = "write --over load.0.queue-type=classic,quorum,stream";

/// The keys that are varied, in the order in which they were given.
///
/// `by_sides` are keys that `--a-set`, `--b-set` and their like set: what one side sets cannot be varied for both.
pub(super) fn keys(given: &[Assignment], by_sides: &[String]) -> Result<Vec<MatrixKey>, Failure> {
    let mut keys: Vec<MatrixKey> = Vec::new();
    for over in given {
        let key = key(&over.0)?;
        if keys.iter().any(|other| other.key == key.key) {
            return Err(Failure::usage(
                format!("--over {}: the key is given twice", key.key),
                format!("give all its values at once: --over {}=A,B,C", key.key),
            ));
        }
        if let Some(side) = by_sides.iter().find(|side| overlap(side, &key.key)) {
            return Err(Failure::usage(
                format!(
                    "--over {}: one side sets {side} to a value of its own",
                    key.key
                ),
                "vary it with --over, which is for both sides, or let the sides differ in it; not both",
            ));
        }
        keys.push(key);
    }
    let cells = keys.iter().map(|key| key.values.len());
    let cells = cells.fold(1_usize, usize::saturating_mul);
    if cells > PairedMatrix::MOST_CELLS {
        return Err(Failure::usage(
            format!(
                "--over asks for {cells} cells, {} are the most",
                PairedMatrix::MOST_CELLS
            ),
            "give fewer values, or fewer keys: each combination is a comparison with all its runs",
        )
        .observed(cells));
    }
    Ok(keys)
}

/// Reads `KEY=VALUE,VALUE`.
fn key(given: &str) -> Result<MatrixKey, Failure> {
    let Some((key, values)) = given.split_once('=') else {
        let hidden = web::redact::text(given);
        return Err(Failure::usage(
            format!("--over {hidden}: it has no values"),
            EXAMPLE,
        ));
    };
    let key = key.trim();
    let wrong = |what: &str, help: &str| Failure::usage(format!("--over {key}: {what}"), help);
    if key.is_empty() {
        return Err(wrong("it names no key", EXAMPLE));
    }
    let values: Vec<String> = split(values).collect();
    let is_secret = |value: &String| {
        let assignment = format!("{key}={value}");
        web::redact::assignment(&assignment) != assignment
    };
    if values.iter().all(String::is_empty) {
        return Err(wrong("it has no values", EXAMPLE));
    }
    if values.iter().any(is_secret) {
        return Err(wrong(
            "its values may be secret, and would name the cells",
            "vary a key whose values anybody may read",
        ));
    }
    if values.iter().any(String::is_empty) {
        return Err(wrong(
            "a value between its commas is empty",
            "write \"\" for an empty text; a comma within quotes or brackets parts nothing",
        ));
    }
    if let Some((_, twice)) = (values.iter().enumerate())
        .find(|(at, value)| values.iter().take(*at).any(|before| before == *value))
    {
        return Err(wrong(
            "a value is given twice",
            "each value makes cells of its own: give it once",
        )
        .observed(twice));
    }
    Ok(MatrixKey {
        key: key.to_owned(),
        values,
    })
}

/// The values between commas; a comma within quotes or brackets is a part of a value.
fn split(values: &str) -> impl Iterator<Item = String> {
    let (mut depth, mut quote) = (0_usize, None);
    let parts = values.split(move |c: char| {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && quote.is_none()
    });
    parts.map(|value| value.trim().to_owned())
}

/// Whether two keys are equal, or one lies in the other's table.
fn overlap(a: &str, b: &str) -> bool {
    let below = |outer: &str, inner: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    below(a, b) || below(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[&str], by_sides: &[&str]) -> Result<Vec<MatrixKey>, String> {
        let given: Vec<Assignment> = given
            .iter()
            .map(|it| Assignment((*it).to_owned()))
            .collect();
        let by_sides: Vec<String> = by_sides.iter().map(|it| (*it).to_owned()).collect();
        keys(&given, &by_sides).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn values_stand_between_commas_but_for_those_in_quotes_and_brackets() {
        let found = read(
            &[
                "load.0.queue-type=classic, quorum",
                "load.0.destinations=[\"a\", \"b\"],[]",
                "load.0.schedule=\"ramp:from=1,to=2\",'x,y'",
            ],
            &["load.0.rate"],
        )
        .unwrap();
        let values: Vec<_> = found.iter().map(|it| it.values.join("|")).collect();
        assert_eq!(
            values,
            [
                "classic|quorum",
                "[\"a\", \"b\"]|[]",
                "\"ramp:from=1,to=2\"|'x,y'"
            ]
        );
    }

    #[test]
    fn what_makes_no_matrix_says_why() {
        let many = format!(
            "load.0.rate={}",
            (0..51).map(|n| n.to_string() + ",").collect::<String>() + "51"
        );
        for (given, by_sides, why) in [
            (vec!["load.0.rate"], vec![], "no values"),
            (vec!["load.0.rate="], vec![], "no values"),
            (vec!["=1,2"], vec![], "names no key"),
            (vec!["load.0.rate=1,,2"], vec![], "empty"),
            (vec!["load.0.rate=1,2,1"], vec![], "value is given twice"),
            (
                vec!["load.0.rate=1", "load.0.rate=2"],
                vec![],
                "key is given twice",
            ),
            (vec!["load.0.rate=1"], vec!["load.0.rate"], "one side sets"),
            (vec!["load.0.rate=1"], vec!["load"], "one side sets"),
            (vec!["broker.password=a,b"], vec![], "secret"),
            (vec!["probe.0.headers.X-Auth=a,b"], vec![], "secret"),
            (vec![many.as_str(), "load.0.x=1,2"], vec![], "104 cells"),
        ] {
            let told = read(&given, &by_sides).expect_err(why);
            assert!(told.contains(why), "{why}: {told}");
            assert!(!told.contains("a,b"), "{told}");
        }
        assert!(read(&["load.1.rate=1"], &["load.0.rate", "load.1.rated"]).is_ok());
    }
}
