//! Every format, of one comparison.

use std::collections::HashSet;

use archive::{
    ComparedCell, ComparedFigure, ComparedFunctions, ComparedMatrix, ComparedRun, ComparedSide, Comparison, CostChange,
    Decision, ExplainedChange, FunctionChange, MatrixKey, QuantityUnit, RunsCounted,
};
use testkit::{assert_has, assert_lacks};

use super::ComparisonFormat;
use crate::tests::fixtures;

fn figure(name: &str, unit: QuantityUnit, decision: Decision, change: f64) -> ComparedFigure {
    ComparedFigure {
        more_is_better: unit == QuantityUnit::PerSecond,
        a: vec![100_000.0, 110_000.0],
        b: vec![200_000.5, 220_000.0],
        means: (105_000.0, 210_000.0),
        ..fixtures::figure(name, unit, decision, change)
    }
}

/// Regression: with A against itself, the table had a change within the margin and the sentence none.
#[test]
fn the_sentence_agrees_with_every_decision() {
    use Decision::{Changed, Negligible, Same, Undecided};
    let mut random = testkit::Random::new(9);
    for _ in 0..5_000 {
        let mut of = compared();
        let runs = random.of(&[2, 8]);
        (of.a.runs, of.b.runs) = (vec![ComparedRun::default(); runs], vec![ComparedRun::default(); runs]);
        of.is_aa = random.one_in(4);
        let figures = (0..1 + random.below(4)).map(|at| {
            let decision = random.of(&[Changed, Negligible, Same, Undecided]);
            figure(&format!("latency {at}"), QuantityUnit::Ns, decision, random.of(&[-0.2, 0.2]))
        });
        of.figures = figures.collect();
        let said = crate::text::comparison::headline(&of);
        let any = |is: fn(&ComparedFigure) -> bool| of.figures.iter().any(is);
        let (worse, better) = (any(ComparedFigure::is_worse), any(ComparedFigure::is_better));
        let is_open = any(|it| it.decision == Undecided);
        let differs = any(|it| it.decision.differs());
        for (begins, is_true) in [
            ("A against itself, ", of.is_aa),
            ("changed for the worse: ", worse && !better && !of.is_aa),
            ("changed for the better: ", better && !worse && !of.is_aa),
            ("changed: ", worse && better && !of.is_aa),
            ("the same within the margins", !(worse || better || is_open || of.is_aa)),
        ] {
            assert_eq!(said.starts_with(begins), is_true, "{said}: {of:#?}");
        }
        assert_eq!(said.contains("false alarm"), of.is_aa && differs, "{said}");
        assert_eq!(said.contains("inconclusive"), is_open && !(worse || better || of.is_aa), "{said}");
        let as_matrix = crate::text::matrix::headline(&ComparedMatrix::of_one("x", of.clone()));
        assert_eq!(as_matrix.contains("false alarm"), of.is_aa && differs, "{as_matrix}");
    }
}

/// An unproven interval, which holds 0, may end there.
#[test]
fn an_interval_that_ends_at_nothing_says_so() {
    let mut of = figure("sent rate", QuantityUnit::PerSecond, Decision::Undecided, 0.02);
    of.interval = (0.0, 0.04);
    let (_, interval) = crate::text::comparison::change_and_interval(&of);
    assert_eq!(interval, "0 % to +4.00 %");
    // Where an exact test did that, it is said.
    of.corrected_p = Some(0.125);
    let mut compared = compared();
    let ends = "An interval that ends at 0 % was extended to it: an exact test";
    for (interval, is_told) in [((0.0, 0.04), true), ((-0.01, 0.04), false), ((0.0, 0.0), false)] {
        of.interval = interval;
        compared.figures = vec![of.clone()];
        let text = written(ComparisonFormat::Markdown, Some(&compared));
        assert_eq!(text.contains(ends), is_told, "{interval:?}: {text}");
    }
    of.interval = (-0.000_001, 0.04);
    let (_, interval) = crate::text::comparison::change_and_interval(&of);
    assert_eq!(interval, "-0.00 % to +4.00 %");
}

fn compared() -> Comparison {
    let runs = vec![ComparedRun::default(); 2];
    let side = ComparedSide { what: "RabbitMQ 3.10.8".into(), runs, ..ComparedSide::default() };
    let cost = |a: f64, b: f64| CostChange { a, b, proven: true, ..CostChange::default() };
    let function = || "evil|<img src=x>@someone:f/1".to_owned();
    let own = cost(100.0, 700.0);
    let changed = FunctionChange { function: function(), module: "m".into(), own, total: own, cut: 0.0 };
    let explained = ExplainedChange { function: function(), change: 600.0, ..ExplainedChange::default() };
    Comparison {
        a: side.clone(),
        b: side,
        level: 0.05,
        figures: vec![
            figure("ack response p50", QuantityUnit::Ns, Decision::Changed, 1.0),
            figure("received rate", QuantityUnit::PerSecond, Decision::Changed, 1.0),
            figure("broker memory", QuantityUnit::Bytes, Decision::Undecided, 0.02),
            figure("broker cpu", QuantityUnit::Ns, Decision::Same, 0.001),
        ],
        functions: Some(ComparedFunctions {
            broker: cost(2_000.0, 2_600.0),
            functions: vec![changed],
            explained: vec![explained],
            ..ComparedFunctions::default()
        }),
        ..Comparison::default()
    }
}

fn written(format: ComparisonFormat, of: Option<&Comparison>) -> String {
    let of = of.map(|it| ComparedMatrix::of_one("x", it.clone()));
    format.write("stream-publish", of.as_ref()).expect("memory")
}

fn matrix_written(format: ComparisonFormat, of: &ComparedMatrix) -> String {
    format.write("x", Some(of)).expect("memory")
}

/// Three cells: one that is worse, one that is the same, and one of which nothing is decided.
fn matrix() -> ComparedMatrix {
    let mut same = compared();
    same.figures.iter_mut().for_each(|it| it.decision = Decision::Same);
    let cell = |value: &str, comparison: Option<Comparison>| ComparedCell {
        values: vec![value.to_owned(), "uniform:1-2".to_owned()],
        why_not: comparison.is_none().then(|| "too few".to_owned()),
        comparison,
        ..ComparedCell::default()
    };
    let key = |key: &str| MatrixKey { key: key.to_owned(), ..MatrixKey::default() };
    ComparedMatrix {
        keys: vec![key("load.0.queue-type"), key("load.0.message-size")],
        cells: vec![cell("classic|<b>", Some(compared())), cell("quorum", Some(same)), cell("stream", None)],
        ..ComparedMatrix::default()
    }
}

#[test]
fn each_cell_of_a_matrix_is_a_test_a_row_and_a_benchmark() {
    let of = matrix();
    let written = |format| matrix_written(format, &of);
    let counts = "tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\"";
    let name = "name=\"queue-type=quorum, message-size=uniform:1-2\"";
    assert_has(written(ComparisonFormat::Junit), [counts, name, "no decision: too few"]);
    let markdown = written(ComparisonFormat::Markdown);
    let parts = [
        "**B is worse in 1 of 3 cells (queue-type / message-size): classic\\|&lt;b&gt; / uniform:1-2 (+100 % ",
        "| queue-type | message-size | received rate | broker cpu | decision |\n\
         | --- | --- | ---: | ---: | --- |\n",
        "| **+100 %** (+90.0 % to +110 %) | +0.10 % (-9.90 % to +10.1 %) | better and worse |",
        "| stream | uniform:1-2 |  |  | no decision |",
        "<details><summary>queue-type=quorum, message-size=uniform:1-2</summary>",
        "No decision for queue-type=stream, message-size=uniform:1-2: too few.",
    ];
    assert_has(&markdown, parts);
    assert_lacks(markdown, ["<b>"]);
    let go = written(ComparisonFormat::GoBench);
    assert_eq!(go.matches("\nside: b\n").count(), 1);
    assert_eq!(go.matches("Unit received-rate/s ").count(), 1);
    assert_eq!(go.matches("\nBenchmarkX/queue-type=quorum/message-size=uniform_1_2 1 ").count(), 4, "{go}");
}

/// Regression: with too few runs, some forms showed an interval up to a thousandfold, others none.
#[test]
fn an_interval_that_says_nothing_is_shown_in_no_form() {
    let mut of = matrix();
    for figure in of.cells.iter_mut().filter_map(|it| it.comparison.as_mut()).flat_map(|it| &mut it.figures) {
        figure.interval = (-0.9999, 5_000.0);
        (figure.decision, figure.needed) = (Decision::Undecided, None);
    }
    let alone = of.cells[0].comparison.clone();
    for (format, says) in [(ComparisonFormat::Junit, ": +100 %\""), (ComparisonFormat::Markdown, "too few runs")] {
        for text in [matrix_written(format, &of), written(format, alone.as_ref())] {
            assert_lacks(&text, ["100,000", "99.9"]);
            assert!(text.contains(says) || text.contains("queue-type="), "{text}");
        }
    }
}

#[test]
fn what_cannot_be_told_is_skipped_what_is_worse_fails_and_what_broke_off_is_an_error() {
    let counts = "tests=\"5\" failures=\"1\" errors=\"0\" skipped=\"1\"";
    let failure = "<failure message=\"changed, worse: A 105 µs, B 210 µs: +100 % [+90.0 %, +110 %]\"";
    let skipped = "<skipped message=\"inconclusive (about 23 runs per side to detect ";
    assert_has(written(ComparisonFormat::Junit, Some(&compared())), [counts, failure, skipped]);
    assert_has(written(ComparisonFormat::Junit, None), ["errors=\"1\""]);
    let mut of = ComparedMatrix::of_one("x", with_invalid_runs());
    of.break_off(Some("the broker did not start; see its log".to_owned()));
    assert_has(matrix_written(ComparisonFormat::Junit, &of), ["errors=\"1\"", "the broker did not start"]);
    assert_has(matrix_written(ComparisonFormat::Markdown, &of), ["It failed before all runs were made"]);
}

#[test]
fn markdown_is_a_table_and_names_are_no_markup() {
    let text = written(ComparisonFormat::Markdown, Some(&compared()));
    let parts = [
        "### stream-publish\n",
        "**changed: B has a 100 % higher ack response p50 \\[+90.0 %, +110 %\\] (worse), a 100 % higher \
         received rate",
        "| received rate | 105,000/s | 210,000/s | +100 % | +90.0 % to +110 % | **changed, better** |",
        "| broker memory |",
        "1 function changed in cost beyond chance",
        "evil\\|&lt;img src=x&gt;&#64;someone:f/1",
    ];
    assert_has(&text, parts);
    assert_lacks(&text, ["<img"]);
    // Every row of a table has the cells of its head.
    let mut rows = text.lines().filter(|line| line.starts_with('|'));
    assert!(rows.all(|it| [6, 7].contains(&it.replace("\\|", "").matches('|').count())), "{text}");
}

#[test]
fn go_benchmarks_have_a_line_for_each_run() {
    let text = written(ComparisonFormat::GoBench, Some(&compared()));
    let parts = [
        "Unit ack-response-p50-ns better=lower\n",
        "Unit received-rate/s better=higher\n",
        "\nside: b\nBenchmarkStreamPublish 1 200000.5 ack-response-p50-ns 200000.5 received-rate/s 200000.5 \
     broker-memory-B",
    ];
    assert_has(&text, parts);
    assert_eq!(text.matches("BenchmarkStreamPublish 1 ").count(), 4);
    let mut without = compared();
    for figure in &mut without.figures {
        figure.b = vec![0.0, 5.0];
    }
    let text = written(ComparisonFormat::GoBench, Some(&without));
    assert_eq!(text.matches("BenchmarkStreamPublish 1 ").count(), 3, "{text}");
    assert_eq!(written(ComparisonFormat::GoBench, None), "");
    let odd = ComparisonFormat::GoBench.write("-*-", Some(&ComparedMatrix::of_one("x", compared()))).expect("memory");
    assert_has(odd, ["\nBenchmarkComparison 1 "]);
    // Logs are told as logs.
    let mut of = compared();
    of.a.logs = true;
    of.a.runs = vec![ComparedRun { id: "a.hlog".into(), invalid: false, cautious: false }];
    assert_has(written(ComparisonFormat::GoBench, Some(&of)), ["# A: 1 log: a.hlog\n"]);
}

#[test]
fn what_one_side_alone_has_is_told_in_words_and_a_side_alone_is_shown_with_its_headings() {
    let mut of = compared();
    let lost = ComparedFigure { without: (2, 0), ..figure("lost", QuantityUnit::Count, Decision::Changed, 1.0) };
    of.figures = vec![lost];
    assert_has(written(ComparisonFormat::Markdown, Some(&of)), ["**changed for the worse: B has lost messages**"]);
    // Where no figure has a value in every run, nothing is known of noise either.
    of.is_aa = true;
    of.figures[0].decision = Decision::Undecided;
    let text = written(ComparisonFormat::Markdown, Some(&of));
    assert_has(&text, ["none can be tested"]);
    assert_lacks(text, ["inf"]);
    let mut of = compared();
    let text = written(ComparisonFormat::Markdown, Some(&of));
    let confidence = "each interval has the confidence of its decision, 95 % or more";
    let within = "the interval of 90 % of that figure alone lies within";
    assert_has(text, ["| change | interval | decision |", confidence, within]);
    of.b.runs.clear();
    for it in &mut of.figures {
        it.b.clear();
        (it.means.1, it.decision, it.needed) = (0.0, Decision::Undecided, None);
    }
    let text = written(ComparisonFormat::Markdown, Some(&of));
    assert_has(&text, ["| none |", "inconclusive: no run of B counts"]);
    assert_lacks(text, ["not paired"]);
}

/// Counts are decided also where some runs have none; no form calls them undecided then.
#[test]
fn what_is_decided_of_counts_is_said_also_where_some_runs_have_none() {
    let refused = |decision, margin| ComparedFigure {
        without: (2, 1),
        means: (0.0, 5.0),
        margin,
        needed: None,
        ..figure("refused", QuantityUnit::Count, decision, 1.0)
    };
    for (decision, margin, told) in [
        (Decision::Same, 0.1, "same within 10 %: none in 2 of 2 of A, none in 1 of 2 of B"),
        (Decision::Negligible, 0.1, "changed by less than 10 %: none in 2"),
        (Decision::Same, 20.0, "same within the margin: none in 2"),
        (Decision::Negligible, 20.0, "changed by less than the margin: none in 2"),
        (Decision::Undecided, 0.1, "inconclusive: none in 2"),
    ] {
        let of = Comparison { figures: vec![refused(decision, margin)], ..compared() };
        let is_open = decision == Decision::Undecided;
        for format in [ComparisonFormat::Junit, ComparisonFormat::Markdown] {
            let text = written(format, Some(&of));
            assert!(text.contains(told), "{told}: {text}");
            assert_eq!(text.contains("inconclusive"), is_open, "{text}");
            assert_eq!(text.contains("the same within the margins"), !is_open, "{text}");
        }
    }
}

#[test]
fn cells_and_figures_that_letters_do_not_tell_apart_are_no_benchmark_twice() {
    let cell = |value: &str| ComparedCell {
        values: vec![value.to_owned()],
        comparison: Some(compared()),
        ..ComparedCell::default()
    };
    let values = ["a b", "a-b", "a.b"];
    let key = MatrixKey { key: "load.0.routing-key".to_owned(), values: values.map(str::to_owned).into() };
    let cells = values.map(cell).into();
    let mut matrix = ComparedMatrix { name: "x".to_owned(), keys: vec![key], cells, ..ComparedMatrix::default() };
    for cell in &mut matrix.cells {
        let figures = &mut cell.comparison.as_mut().expect("one").figures;
        let mut alike = figures[0].clone();
        alike.name = alike.name.replace(' ', "_");
        figures.push(alike);
    }
    let text = matrix_written(ComparisonFormat::GoBench, &matrix);
    for name in ["a_b/cell=1", "a_b/cell=2", "a.b"] {
        assert_eq!(text.matches(&format!("\nBenchmarkX/routing-key={name} 1 ")).count(), 4, "{name}: {text}");
    }
    for line in text.lines().filter(|it| it.starts_with("Benchmark")) {
        let units = || line.split(' ').skip(3).step_by(2);
        assert_eq!(units().collect::<HashSet<_>>().len(), units().count(), "{line}");
    }
}

/// A comparison in which nothing changed, but runs of B do not count through B itself.
fn with_invalid_runs() -> Comparison {
    let mut of = compared();
    for side in [&mut of.a, &mut of.b] {
        side.runs.resize_with(8, ComparedRun::default);
    }
    of.figures.iter_mut().for_each(|it| it.decision = Decision::Same);
    let of_runs = Some(RunsCounted { a: (0, 8), b: (3, 8) });
    let invalid = figure(RunsCounted::INVALID, QuantityUnit::Count, Decision::Undecided, 0.0);
    of.figures.insert(0, ComparedFigure { means: (0.0, 3.0), of_runs, needed: None, ..invalid });
    of
}

#[test]
fn invalid_runs_of_one_side_are_never_called_the_same() {
    let mut of = with_invalid_runs();
    let text = written(ComparisonFormat::Junit, Some(&of));
    let open = "no change found beyond the margins; 1 figure is inconclusive; invalid runs: 0 of 8 of A, 3 of 8 of B";
    assert_has(&text, ["inconclusive: 0 of 8 of A, 3 of 8 of B: A none, B 3", open]);
    assert_has(&text, ["tests=\"6\" failures=\"0\" errors=\"0\" skipped=\"1\""]);
    assert_lacks(text, ["the same within"]);
    of.figures[0].decision = Decision::Changed;
    of.figures[0].change = 1.0;
    let told = "**changed for the worse: B has more invalid runs (0 of 8 of A, 3 of 8 of B)**";
    assert_has(written(ComparisonFormat::Markdown, Some(&of)), [told]);
    // A change for the better does not hide them.
    let mut of = with_invalid_runs();
    of.figures[1].decision = Decision::Changed;
    of.figures[1].more_is_better = true;
    let better = "**changed for the better: B has a 100 % higher ack response p50";
    let beside = "; invalid runs: 0 of 8 of A, 3 of 8 of B**";
    assert_has(written(ComparisonFormat::Markdown, Some(&of)), [better, beside]);
    assert!(of.is_undecided() && !of.is_worse());
}

#[test]
fn a_sentence_names_three_figures_and_counts_the_rest_and_says_how_many_pairs_would_tell() {
    let unit = QuantityUnit::Ns;
    let named = |at: usize| figure(&format!("latency {at}"), unit, Decision::Changed, 0.5);
    let of = Comparison { figures: (0..7).map(named).collect(), ..compared() };
    let text = written(ComparisonFormat::Markdown, Some(&of));
    let told = text.lines().find(|it| it.contains("B has")).expect("a sentence");
    assert_has(told, ["latency 2 \\[+40.0 %, +60.0 %\\] and 4 more"]);
    assert_lacks(told, ["latency 3"]);
    let open = |name: &str, needed: u32| {
        let (of, needed) = (figure(name, QuantityUnit::Ns, Decision::Undecided, 0.0), Some(needed));
        ComparedFigure { needed, a: vec![1.0; 8], b: vec![1.0; 8], ..of }
    };
    let mut of = Comparison { paired: true, ..with_invalid_runs() };
    of.figures = vec![open("end-to-end p99", 35_000), open("broker memory", 186)];
    let told = "about 186 pairs are needed for broker memory, the steadiest figure, 35,000 for end-to-end p99, the \
                noisiest";
    assert_has(written(ComparisonFormat::Markdown, Some(&of)), [told]);
    of.figures.truncate(1);
    assert_has(written(ComparisonFormat::Markdown, Some(&of)), ["; about 35,000 pairs are needed; longer"]);
}
