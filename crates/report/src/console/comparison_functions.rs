//! Functions whose costs changed between two sides, on a terminal.

use archive::{ComparedFunctions, CostChange, FunctionChange};

use super::table::Table;
use super::text::{Style, sanitise, wrap};
use crate::numbers::CANNOT_TELL;
use crate::text::functions::{cost_interval, signed_time, time};

/// Rows of the table.
const MOST_ROWS: usize = 15;
/// Rows whose change is not proven, at most.
const MOST_UNPROVEN: usize = 5;

/// The functions, ending without a newline.
pub(super) fn lines(of: &ComparedFunctions, style: Style) -> Vec<String> {
    let mut table = Table::of("CPU a message<|A|B|change|interval|with callees|shows from");
    table.drop_in_order(&[6, 4, 2]);
    table.named_by(0);
    table.row(cells("the whole broker", &of.broker, None));
    let (mut proven, unproven): (Vec<_>, Vec<_>) = (of.functions.iter())
        .partition(|it| it.own.proven || it.total.proven || explains(of, it) < NONE);
    // Those that the sentence names come first: their own cost may be small.
    proven.sort_by_key(|it| explains(of, it));
    let room = MOST_UNPROVEN.min(MOST_ROWS.saturating_sub(proven.len()));
    let shown = proven.into_iter().take(MOST_ROWS);
    let shown: Vec<&FunctionChange> = shown.chain(unproven.into_iter().take(room)).collect();
    for row in &shown {
        table.row(cells(&row.function, &row.own, Some(&row.total)));
    }
    let told: f64 = shown.iter().map(|it| it.own.change()).sum();
    let mut rest = vec![String::new(); 7];
    if let [name, _, _, change, ..] = rest.as_mut_slice() {
        "all others".clone_into(name);
        *change = signed_time(of.broker.change() - told) + "  ";
    }
    table.row(rest);
    let mut lines = table.lines(style.columns);
    let note = "Functions by their own cost, at the leaf of the stack; \"with callees\" is the change with all that they call. * is none of \
                chance: levels are corrected over all functions (Benjamini and Hochberg). The column \"change\" adds up to the \
                broker's.";
    lines.extend(wrap(note, style.prose_columns()));
    lines
}

/// Rank without a part in the explanation.
const NONE: usize = usize::MAX;

/// The place of a function among those that explain the change.
fn explains(of: &ComparedFunctions, row: &FunctionChange) -> usize {
    let mut explained = of.explained.iter();
    let is_it =
        |it: &archive::ExplainedChange| (&it.function, &it.module) == (&row.function, &row.module);
    explained.position(is_it).unwrap_or(NONE)
}

fn cells(name: &str, own: &CostChange, total: Option<&CostChange>) -> Vec<String> {
    let marked = |it: &CostChange| {
        let mark = if it.proven { " *" } else { "  " };
        signed_time(it.change()) + mark
    };
    vec![
        sanitise(name).into_owned(),
        time(own.a),
        time(own.b),
        marked(own),
        cost_interval(own),
        total.map(marked).unwrap_or_default(),
        own.visible.map_or_else(|| CANNOT_TELL.to_owned(), time),
    ]
}

#[cfg(test)]
mod tests {
    use archive::ExplainedChange;

    use super::*;
    use crate::text::functions::explanation;

    fn cost(a: f64, b: f64, proven: bool) -> CostChange {
        CostChange {
            a,
            b,
            proven,
            ..CostChange::default()
        }
    }

    fn function(name: &str, own: CostChange, total: CostChange) -> FunctionChange {
        FunctionChange {
            function: name.into(),
            module: "m".into(),
            own,
            total,
            cut: 0.0,
        }
    }

    fn explained(function: &str, change: f64) -> ExplainedChange {
        ExplainedChange {
            function: function.into(),
            change,
            ..ExplainedChange::default()
        }
    }

    #[test]
    fn the_change_adds_up_and_a_name_is_harmless() {
        let of = ComparedFunctions {
            other_builds: Vec::new(),
            renamed: Vec::new(),
            broker: cost(2_000.0, 2_610.0, true),
            functions: vec![
                function(
                    "route\u{1b}[2J",
                    cost(100.0, 700.0, true),
                    cost(200.0, 790.0, true),
                ),
                function("noise", cost(50.0, 55.0, false), cost(50.0, 55.0, false)),
            ],
            others: 5.0,
            explained: vec![explained("$route\u{1b}[2J", 590.0)],
        };
        assert_eq!(
            explanation(&of).as_deref(),
            Some("590 ns of the 610 ns added a message are in route\u{1b}[2J and below")
        );
        let shown = lines(&of, Style::PLAIN).join("\n");
        for part in [
            "the whole broker",
            "+610 ns *",
            "+600 ns *",
            "all others",
            "+5 ns",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains('\u{1b}'), "{shown}");
        // Runs that are too few to show a change have no interval that says anything.
        assert!(!shown.contains(" ns to "), "{shown}");
        let narrow = Style {
            columns: 80,
            ..Style::PLAIN
        };
        assert!(lines(&of, narrow).iter().all(|it| it.chars().count() <= 80));
        let unproven = ComparedFunctions {
            broker: cost(2_000.0, 2_610.0, false),
            ..of
        };
        assert_eq!(
            explanation(&unproven).as_deref(),
            Some(
                "no change of the CPU a message as a whole is proven, but B needs 590 ns more in route\u{1b}[2J and below"
            )
        );
        assert_eq!(explanation(&ComparedFunctions::default()), None);
    }

    #[test]
    fn what_is_more_than_the_whole_is_told_with_its_direction() {
        let told = |broker: CostChange, explained: Vec<ExplainedChange>| {
            explanation(&ComparedFunctions {
                broker,
                explained,
                ..ComparedFunctions::default()
            })
        };
        let saved = cost(2_830.0, 2_000.0, true);
        let two = vec![explained("a", -610.0), explained("b", -120.0)];
        assert_eq!(
            told(saved, two).as_deref(),
            Some("610 ns of the 830 ns saved a message are in a and below, 120 ns in b and below")
        );
        let own = ExplainedChange {
            own: true,
            ..explained("memcpy", -900.0)
        };
        assert_eq!(
            told(saved, vec![own]).as_deref(),
            Some("B needs 830 ns less CPU a message: 900 ns less in memcpy itself")
        );
    }
}
