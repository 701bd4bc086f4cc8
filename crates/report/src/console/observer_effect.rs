//! Table of profiling's overhead with several events and frequencies.

use archive::{EffectFigure, ObserverRow, ObserverTable};

use super::table::{Table, or_dash};
use super::text::{Style, sanitise};
use crate::numbers::{count, three_digits};
use crate::text::{change_and_interval, effect_percent};

/// Columns of the smallest visible changes, which narrow screens leave out.
const VISIBLE: [usize; 2] = [4, 6];

/// The table, ending in a newline.
pub fn observer_table(of: &ObserverTable, style: Style) -> String {
    let title = format!("{}: what profiling cost", of.name);
    let mut lines = vec![style.strong(&sanitise(&title))];
    let effects = || of.rows.iter().filter_map(|row| row.observer_effect.as_ref());
    let paced = effects().any(|effect| effect.paced);
    let table = table(of, paced);
    lines.extend(table.faint_lines(style));
    let pairs = effects().map(|effect| effect.pairs);
    let (fewest, most) = (pairs.clone().min(), pairs.max());
    let pairs = match (fewest, most) {
        (Some(fewest), Some(most)) if fewest == most => measure::counted(most.into(), "pair"),
        (Some(fewest), Some(most)) => format!("{fewest} to {most} pairs"),
        _ => "no pairs".to_owned(),
    };
    let visible = match VISIBLE.iter().any(|it| table.shows(*it, style.columns)) {
        true => "; visible: the smallest change that would show in four of five such runs",
        false => "",
    };
    let note = format!(
        "changes by profiling with their 95 % intervals, from {pairs} of blocks with it and without in each \
         run{visible}"
    );
    lines.extend(style.faint_prose(&note));
    lines.join("\n") + "\n"
}

fn table(of: &ObserverTable, paced: bool) -> Table {
    let first = if paced { "p99 %" } else { "rate %" };
    let heads = format!("event<|Hz|stacks<|{first}|visible|broker CPU %|visible|µs/msg");
    let mut table = Table::of(&heads);
    table.drop = &[VISIBLE[0], VISIBLE[1], 7];
    of.rows.iter().for_each(|row| table.row(cells(row, paced)));
    table
}

fn cells(row: &ObserverRow, paced: bool) -> Vec<String> {
    let effect = row.observer_effect.as_ref();
    let first = effect.and_then(|it| if paced { it.p99_ns } else { it.rate });
    let cpu = effect.and_then(|it| it.broker_cpu_us);
    let or_none =
        |figure: Option<EffectFigure>, text: fn(&EffectFigure) -> String| or_dash(figure.map(|figure| text(&figure)));
    let change = |figure: &EffectFigure| change_and_interval(figure).replace(" %", "");
    let visible = |figure: &EffectFigure| effect_percent(figure.visible);
    let micros = |figure: &EffectFigure| {
        let sign = if figure.change < 0.0 { "-" } else { "+" };
        format!("{sign}{}", three_digits((figure.change * figure.off).abs()))
    };
    vec![
        sanitise(&row.event).into_owned(),
        or_dash(row.frequency.map(|hertz| count(hertz.into()))),
        sanitise(&row.stacks).into_owned(),
        or_none(first, change),
        or_none(first, visible),
        or_none(cpu, change),
        or_none(cpu, visible),
        or_none(cpu, micros),
    ]
}

#[cfg(test)]
mod tests {
    use archive::ObserverEffect;
    use testkit::{assert_has, assert_lacks};

    use super::*;

    #[test]
    fn each_event_and_frequency_has_its_row() {
        let figure = |off: f64, change: f64| {
            let (low, high) = (change - 0.01, change + 0.01);
            EffectFigure { off, change, low, high, visible: 0.014, sign_flip_p: None }
        };
        let row = |event: &str, frequency, change: f64| {
            let (rate, cpu) = (Some(figure(50_000.0, -change)), Some(figure(40.0, change)));
            let effect = ObserverEffect { pairs: 15, rate, broker_cpu_us: cpu, ..ObserverEffect::default() };
            let (event, stacks, run_dir) = (event.into(), "whole".into(), String::new());
            ObserverRow { event, frequency, stacks, run_dir, observer_effect: Some(effect) }
        };
        let unknown = ObserverRow { observer_effect: None, ..row("mmap", None, 0.0) };
        let rows = vec![row("cpu", Some(9_999), 0.123), row("off-cpu", None, 0.021), unknown];
        let of = ObserverTable { schema: ObserverTable::SCHEMA.into(), name: "in-out".into(), rows };
        let shown = |columns| observer_table(&of, Style { columns, ..Style::PLAIN });
        let text = shown(100);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let cpu = ["cpu", "9,999", "whole", "-12", "[-13,", "-11]", "1.4", "+12", "[11,", "13]", "1.4", "+4.92"];
        assert_eq!(lines[2], cpu, "{text}");
        assert_eq!(lines[3][..5], ["off-cpu", "-", "whole", "-2.1", "[-3.1,"], "{text}");
        assert_eq!(lines[4], ["mmap", "-", "whole", "-", "-", "-", "-", "-"], "{text}");
        assert_has(&text, ["15 pairs", "visible: the smallest"]);
        let narrow = shown(60);
        assert!(narrow.lines().all(|line| line.chars().count() <= 60));
        assert_lacks(narrow, ["visible"]);
    }
}
