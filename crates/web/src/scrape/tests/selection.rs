//! Which series are selected, and what they come to.

use measure::Time;
use wire::openmetrics::{PageEvent, PageFormat, Parser};

use super::super::selection::{SelectedValue, Selection};
use super::super::selector::Selector;

fn selection(select: &[&str], most: usize) -> Selection {
    let all: Vec<Selector> = select.iter().map(|text| text.parse().unwrap()).collect();
    Selection::new("page", &all, most)
}

/// Hands over a page.
fn add(selection: &mut Selection, page: &str) {
    selection.begin();
    let mut parser = Parser::new(PageFormat::Prometheus);
    let mut on = |event: PageEvent<'_>| match event {
        PageEvent::Sample(sample) => selection.add(&sample),
        PageEvent::Error(error) => panic!("{error}"),
        _ => {}
    };
    parser.feed(page.as_bytes(), &mut on);
    parser.finish(&mut on);
}

/// Selected values of a page that was due at this second.
fn at(selection: &mut Selection, second: u64, page: &str) -> Vec<SelectedValue> {
    add(selection, page);
    let time = Time(second * 1_000_000_000);
    selection.finish(time, time).unwrap()
}

fn shown(values: &[SelectedValue]) -> Vec<String> {
    let mut all: Vec<String> = values
        .iter()
        .map(|it| {
            let labels: Vec<&str> = it.name.labels.values().map(String::as_str).collect();
            format!("{}[{}] {}", it.name.name, labels.join(","), it.value)
        })
        .collect();
    all.sort();
    all
}

fn rates(values: &[SelectedValue]) -> Vec<Option<f64>> {
    values.iter().map(|it| it.rate.map(|rate| rate.per_second)).collect()
}

const PAGE: &str = include_str!("../../../tests/data/queues.prom");

#[test]
fn names_labels_and_expressions_select() {
    for [select, expected @ ..] in testkit::table::<3>(include_str!("../../../tests/data/selectors.txt")) {
        let expected: Vec<&str> = expected.into_iter().filter(|it| !it.is_empty()).collect();
        assert_eq!(shown(&at(&mut selection(&[select], 10), 1, PAGE)), expected, "{select}");
    }
}

#[test]
fn what_is_no_selector_is_refused_with_an_example() {
    let wrong = "|{}|a b|a{|a{b}|a{b=}|a{b=c}|a{b=\"c}|a{b=\"c\"|a{b=~\"(\"}|a{b=\"c\" d=\"e\"}|sum (a|sum by a (b)|\
        sum by (a b) (c)|a}|a***";
    for text in wrong.split('|') {
        let refused = text.parse::<Selector>().unwrap_err();
        assert!(refused.help.contains("rabbitmq_queue_messages"), "{text}: {refused:?}");
    }
    assert!("a{b=~\"(?:x{1000}){1000}\"}".parse::<Selector>().is_err(), "a huge expression");
}

#[test]
fn a_counter_that_starts_again_has_grown_by_what_it_shows() {
    let mut selection = selection(&["c_total"], 10);
    assert_eq!(rates(&at(&mut selection, 0, "c_total 100\n")), [None]);
    assert_eq!(rates(&at(&mut selection, 2, "c_total 110\n")), [Some(5.0)]);
    assert_eq!(rates(&at(&mut selection, 4, "c_total 6\n")), [Some(3.0)], "its process restarted");
    assert_eq!(rates(&at(&mut selection, 6, "c_total 6\n")), [Some(0.0)]);
}

#[test]
fn a_sum_of_counters_has_no_spike_where_one_of_them_goes_or_comes() {
    let mut selection = selection(&["sum(c_total)"], 10);
    at(&mut selection, 0, "c_total{q=\"1\"} 1000\nc_total{q=\"2\"} 5\n");
    let both = at(&mut selection, 1, "c_total{q=\"1\"} 1001\nc_total{q=\"2\"} 7\n");
    assert_eq!((both[0].value, rates(&both)), (1008.0, vec![Some(3.0)]));
    let gone = at(&mut selection, 2, "c_total{q=\"2\"} 8\n");
    assert_eq!((gone[0].value, rates(&gone)), (8.0, vec![Some(1.0)]));
    let back = at(&mut selection, 3, "c_total{q=\"1\"} 5000\nc_total{q=\"2\"} 8\n");
    assert_eq!((back[0].value, rates(&back)), (5008.0, vec![Some(0.0)]));
}

#[test]
fn a_page_that_broke_off_does_not_count() {
    let mut selection = selection(&["sum(c_total)"], 10);
    at(&mut selection, 0, "c_total{q=\"1\"} 10\nc_total{q=\"2\"} 10\n");
    add(&mut selection, "c_total{q=\"1\"} 20\nc_total{q=\"9\"} 1\n");
    selection.abandon();
    let next = at(&mut selection, 2, "c_total{q=\"1\"} 30\nc_total{q=\"2\"} 30\nc_total{q=\"9\"} 100\n");
    assert_eq!(rates(&next), [Some(20.0)], "from 10 and 10 to 30 and 30 in two seconds");
}

#[test]
fn a_series_that_stands_twice_counts_once() {
    let mut selection = selection(&["a"], 10);
    assert_eq!(at(&mut selection, 0, "a 1\na 2\n")[0].value, 1.0);
    assert_eq!(selection.duplicates(), 1);
    assert_eq!(at(&mut selection, 1, "a 3\n")[0].value, 3.0);
    assert_eq!(selection.duplicates(), 0);
}

#[test]
fn a_counter_that_shows_no_number_for_a_while_makes_no_spike() {
    for odd in ["NaN", "+Inf", "-Inf"] {
        let mut selection = selection(&["c_total"], 10);
        at(&mut selection, 0, "c_total 1000\n");
        let without = at(&mut selection, 1, &format!("c_total {odd}\n"));
        assert_eq!(rates(&without), [None], "{odd}");
        let back = at(&mut selection, 2, "c_total 1000000\n");
        assert_eq!(rates(&back), [None], "{odd}: it is not all of the last second");
        assert_eq!(rates(&at(&mut selection, 3, "c_total 1000007\n")), [Some(7.0)]);
    }
}

#[test]
fn the_order_of_labels_makes_no_other_series() {
    let mut selection = selection(&["c_total"], 10);
    at(&mut selection, 0, "c_total{x=\"1\",y=\"2\"} 10\n");
    let turned = at(&mut selection, 1, "c_total{y=\"2\",x=\"1\"} 15\nc_total{x=\"1\",y=\"2\"} 99\n");
    assert_eq!(shown(&turned), ["c_total[1,2] 15"]);
    assert_eq!(rates(&turned), [Some(5.0)]);
    assert_eq!(selection.duplicates(), 1);
    let other = at(&mut selection, 2, "c_total{x=\"2\",y=\"1\"} 1\n");
    assert_eq!(rates(&other), [None], "values do not change places");
}

#[test]
fn two_selectors_give_no_two_series_of_one_name() {
    let page = "a{q=\"1\"} 1\na{q=\"2\"} 2\n";
    let mut twice = selection(&["a", "a*"], 2);
    assert_eq!(shown(&at(&mut twice, 0, page)), ["a[1] 1", "a[2] 2"]);
    let sums = ["sum(a{q=\"1\"})", "sum(a{q=\"2\"})", "sum(a{q=~\".*\"})", "sum(a)"];
    let mut sums = selection(&sums, 10);
    assert_eq!(shown(&at(&mut sums, 0, page)), ["sum(a)[1] 1", "sum(a)[2] 2", "sum(a)[=~.*] 3", "sum(a)[] 3"]);
}

#[test]
fn too_many_series_are_a_problem_with_a_remedy() {
    let page: String = (0..11).map(|i| format!("a{{q=\"{i}\"}} 1\n")).collect();
    let mut selection = selection(&["a"], 10);
    add(&mut selection, &page);
    let problem = selection.finish(Time(0), Time(0)).unwrap_err();
    assert!(problem.cause.contains("more than 10 series"), "{problem}");
    assert!(problem.help.contains("sum by"), "{problem:?}");
}

#[test]
fn series_stand_as_they_were_selected_and_then_in_the_order_in_which_people_count() {
    let queues = ["orders12", "orders2", "audit", "orders012", "orders10"];
    let page: String = queues.iter().map(|queue| format!("a{{queue=\"{queue}\"}} 1\n")).collect();
    let of = |queue: &str| format!("a{{queue=\"{queue}\"}}");
    let counted = ["audit", "orders2", "orders10", "orders012", "orders12"].map(of);
    for (select, page, expected) in [
        (&["a", "sum(a)"][..], &*page, [&counted[..], &["sum (a)".to_owned()]].concat()),
        (&["sum(b)", "sum(a)", "b"], "a 1\nb 2\n", ["sum (b)", "sum (a)", "b"].map(str::to_owned).to_vec()),
    ] {
        let values = at(&mut selection(select, 10), 0, page);
        let shown: Vec<String> = values.into_iter().map(|it| it.shown).collect();
        assert_eq!(shown, expected);
    }
}

#[test]
fn a_sum_is_shown_as_it_was_written_with_the_labels_of_its_group() {
    let select = "sum by (vhost) (queue_*{queue=~\"q-.*\", vhost!=\"{b}\"})";
    let values = at(&mut selection(&[select], 10), 0, PAGE);
    let shown: Vec<&str> = values.iter().map(|it| it.shown.as_str()).collect();
    let sum = "{queue=~\"q-.*\", vhost!=\"{b}\"})";
    assert_eq!(
        shown,
        [
            &format!("sum by (vhost) (queue_consumers{sum}{{vhost=\"/\"}}"),
            &format!("sum by (vhost) (queue_messages{sum}{{vhost=\"/\"}}"),
            &format!("sum by (vhost) (queue_messages{sum}{{vhost=\"a\"}}"),
        ]
    );
}

/// A name that is far from all others helps nobody; names that begin alike do.
#[test]
fn what_selects_nothing_is_told_a_name_within_a_slip_or_names_that_begin_alike() {
    let page = "rabbitmq_consumers 1\nrabbitmq_connections 1\nerlang_uptime_seconds 1\n";
    for (select, expected) in [
        ("rabbitmq_consumer", "the nearest name on the page is rabbitmq_consumers"),
        (
            "rabbitmq_nonsense",
            "no name on the page is like it; it has rabbitmq_…, such as rabbitmq_connections, rabbitmq_consumers",
        ),
        ("nonsense", "no name on the page is like it"),
        ("rabbitmq_consumers{a=\"b\"}", "no series of that name has such labels"),
    ] {
        let mut selection = selection(&[select], 10);
        add(&mut selection, page);
        let told = selection.unmatched();
        assert_eq!(told, [format!("{select} selects nothing: {expected}")]);
    }
}
