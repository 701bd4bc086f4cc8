//! Known patterns in a profile's stacks.

use stacks::PatternShare;

use crate::numbers::percent;

/// One sentence on a pattern: share of the samples, their work, place, and cure elsewhere, with the source.
#[must_use]
pub fn known_pattern(of: &PatternShare) -> String {
    let function = of.function.as_deref();
    let below = function.map_or_else(String::new, |function| {
        let name = function.strip_prefix('$').unwrap_or(function);
        format!(" ({} below {name})", percent(of.function_share))
    });
    format!(
        "{} of the samples {}{below}; {}",
        percent(of.share),
        of.says,
        of.cure
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_names_share_function_and_cure() {
        let mut of = PatternShare {
            pattern: "match specifications compiled at each call".into(),
            share: 0.0353,
            function: Some("$rabbit_router:find_routes/2".into()),
            function_share: 0.029,
            says: "compile a match specification".into(),
            cure: "RabbitMQ looks routes up by key".into(),
            source: "https://github.com/rabbitmq/rabbitmq-server/pull/4606".into(),
        };
        assert_eq!(
            known_pattern(&of),
            "3.5 % of the samples compile a match specification (2.9 % below rabbit_router:find_routes/2); RabbitMQ \
             looks routes up by key"
        );
        of.function = None;
        assert_eq!(
            known_pattern(&of),
            "3.5 % of the samples compile a match specification; RabbitMQ looks routes up by key"
        );
    }
}
