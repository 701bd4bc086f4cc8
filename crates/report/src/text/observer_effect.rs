//! Overhead of profiling, in sentences.

use archive::{EffectFigure, ObserverEffect};

use super::stalls::one;
use crate::numbers::{duration, seconds_digits};

/// Overhead of profiling, the most important figure first.
pub fn observer_effect(effect: &ObserverEffect) -> Vec<String> {
    if effect.pairs < 2 {
        return vec![nothing(effect)];
    }
    let one = one(&effect.unit);
    let mut told = Vec::new();
    let mut hidden = Vec::new();
    match &effect.rate {
        Some(rate) if rate.is_told() => told.push(of_rate(rate)),
        Some(rate) => hidden.push(unseen("the rate", rate)),
        None => {}
    }
    match &effect.broker_cpu_us {
        Some(cpu) if cpu.is_told() => {
            told.push(format!("{} of broker CPU per {one} ({})", micros(cpu), signed(cpu)));
        }
        Some(cpu) => hidden.push(unseen(&format!("the broker's CPU per {one}"), cpu)),
        None => {}
    }
    let mut sentences = Vec::new();
    sentences.extend((!told.is_empty()).then(|| format!("profiling cost {}", told.join(" and "))));
    sentences.extend(hidden);
    if effect.paced {
        sentences.push("the rate was as requested: the cost of profiling shows in CPU and latency".into());
    }
    if let Some(p99) = &effect.p99_ns {
        let what = format!("{} p99", effect.latency);
        sentences.push(match p99.is_told() {
            true => format!("{what} was {} with profiling, {} without", changed(p99), duration(p99.off as u64)),
            false => unseen(&what, p99),
        });
    }
    if let Some(cpu) = effect.client_cpu_us.filter(EffectFigure::is_told) {
        sentences
            .push(format!("bellows itself took {} more CPU per {one}, including its sampling thread", micros(&cpu)));
    }
    sentences.push(method(effect));
    if effect.stays_in_the_way {
        sentences.push("a tracepoint stayed open while sampling was off: these figures lack its own cost".into());
    }
    sentences
}

fn method(effect: &ObserverEffect) -> String {
    let left_out = match effect.left_out {
        0 => String::new(),
        several => format!(", {several} left out"),
    };
    format!(
        "95 % intervals from {} of {} s blocks with and without profiling, in random order{left_out}; the profile \
         covers the blocks with profiling",
        measure::counted(effect.pairs.into(), "pair"),
        seconds_digits(effect.block_s)
    )
}

fn nothing(effect: &ObserverEffect) -> String {
    let pairs = measure::counted(u64::from(effect.pairs), "pair");
    let why = match effect.left_out {
        0 => "the measured phase was too short",
        _ => "in the others nothing was counted, or sampling was switched late",
    };
    format!("cost of profiling unknown: only {pairs} of blocks can be compared; {why}")
}

fn of_rate(rate: &EffectFigure) -> String {
    if rate.change > 0.0 {
        return format!("nothing of the rate, which was {} with it", changed(rate));
    }
    let [low, high] = [rate.high, rate.low].map(|it| percent(-it));
    format!("{} % [{low}, {high}] of the rate", percent(-rate.change))
}

/// A change of CPU time in microseconds, with its interval.
fn micros(cpu: &EffectFigure) -> String {
    let [change, low, high] = [cpu.change, cpu.low, cpu.high].map(|it| number(it * cpu.off));
    format!("{change} µs [{low}, {high}]")
}

/// `3.1 % [0.4, 5.8] higher`.
fn changed(figure: &EffectFigure) -> String {
    let way = if figure.change < 0.0 { "lower" } else { "higher" };
    let mut ends = [figure.low, figure.high].map(|it| it * figure.change.signum());
    ends.sort_by(f64::total_cmp);
    let [low, high] = ends.map(percent);
    format!("{} % [{low}, {high}] {way}", percent(figure.change.abs()))
}

/// `+3.1 %`.
fn signed(figure: &EffectFigure) -> String {
    let sign = if figure.change < 0.0 { "" } else { "+" };
    format!("{sign}{} %", percent(figure.change))
}

fn unseen(what: &str, figure: &EffectFigure) -> String {
    format!(
        "{what}: no significant change ({}); a change of {} % would show in four of five runs",
        change_and_interval(figure),
        percent(figure.visible)
    )
}

/// A change with its interval, in percent: `-2.1 % [-3.8, -0.4]`.
pub(crate) fn change_and_interval(figure: &EffectFigure) -> String {
    let [low, high] = [figure.low, figure.high].map(percent);
    format!("{} [{low}, {high}]", signed(figure))
}

/// A share as a percentage without its sign, in significant digits.
pub(crate) fn percent(share: f64) -> String {
    number(share * 100.0)
}

/// Two or three digits: `0.04`, `1.3`, `12`.
fn number(value: f64) -> String {
    let text = match value.abs() {
        large if large >= 9.95 => format!("{value:.0}"),
        middle if middle >= 0.095 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    if text.contains(|it: char| ('1'..='9').contains(&it)) { text } else { "0".to_owned() }
}

#[cfg(test)]
mod tests {
    use testkit::assert_has;

    use super::*;

    fn figure(off: f64, change: f64, half: f64) -> EffectFigure {
        EffectFigure { off, change, low: change - half, high: change + half, visible: half * 1.4, sign_flip_p: None }
    }

    fn effect() -> ObserverEffect {
        ObserverEffect {
            block_s: 1.0,
            guard_s: 0.2,
            pairs: 15,
            unit: "messages".into(),
            latency: "end-to-end".into(),
            rate: Some(figure(50_000.0, -0.021, 0.017)),
            broker_cpu_us: Some(figure(42.0, 0.031, 0.026)),
            client_cpu_us: Some(figure(6.0, 0.15, 0.02)),
            p99_ns: Some(figure(4_200_000.0, 0.04, 0.07)),
            ..ObserverEffect::default()
        }
    }

    #[test]
    fn the_cost_comes_first_with_its_interval() {
        let expected = [
            "profiling cost 2.1 % [0.4, 3.8] of the rate and 1.3 µs [0.2, 2.4] of broker CPU per message (+3.1 %)",
            "end-to-end p99: no significant change (+4.0 % [-3.0, 11]); a change of 9.8 % would show in four of \
             five runs",
            "bellows itself took 0.9 µs [0.8, 1.0] more CPU per message, including its sampling thread",
            "95 % intervals from 15 pairs of 1 s blocks with and without profiling, in random order; the profile \
             covers the blocks with profiling",
        ];
        assert_eq!(observer_effect(&effect()), expected);
    }

    #[test]
    fn what_cannot_be_told_says_why_and_what_could_have_been() {
        let paced = ObserverEffect {
            rate: None,
            paced: true,
            broker_cpu_us: Some(figure(42.0, -0.001, 0.02)),
            client_cpu_us: None,
            p99_ns: Some(figure(4_200_000.0, -0.2, 0.07)),
            left_out: 2,
            stays_in_the_way: true,
            ..effect()
        };
        let said = observer_effect(&paced).join("\n");
        let parts = [
            "the broker's CPU per message: no significant change (-0.1 % [-2.1, 1.9]); a change of 2.8 % would",
            "the rate was as requested",
            "end-to-end p99 was 20 % [13, 27] lower with profiling, 4.2",
            "2 left out",
            "a tracepoint stayed open",
        ];
        assert_has(&said, parts);
        assert!(!said.contains("profiling cost "), "{said}");
        let short = ObserverEffect::default();
        assert!(observer_effect(&short)[0].contains("the measured phase was too short"));
        let late = ObserverEffect { pairs: 1, left_out: 7, ..short };
        let said = observer_effect(&late);
        assert!(said[0].contains("1 pair of blocks") && said[0].contains("switched late"), "{said:?}");
    }
}
