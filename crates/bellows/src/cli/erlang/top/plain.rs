//! A window as text, and the columns that a terminal has room for.

use erlang::top::{TopProcess, TopSort, TopWindow};
use measure::{Nanos, count, counted};
use report::console::{Style, grid, named_grid, sentence, width};
use report::text::bytes;

/// Connections, channels and queues in flow control that are named.
const NAMED: usize = 8;

/// Processes, below the activity of the whole node.
pub(super) fn text(window: &TopWindow, node: &str, sort: TopSort, style: Style) -> String {
    let mut out = String::new();
    for line in summary(window, node, style.columns) {
        out += &sentence(&line, style);
    }
    out.push('\n');
    let heads = "process<|reductions/s|memory|messages|binaries|pid<|in<";
    let row = |(title, process): (String, &TopProcess)| -> Vec<String> {
        let others = TopColumn::ALL.iter().skip(1).map(|column| column.text(process));
        std::iter::once(title).chain(others).collect()
    };
    let rows = titles(&window.processes).into_iter().zip(&window.processes).map(row);
    out += &named_grid(heads, LEAST_NAME, left_out(sort), rows, style);
    out.push('\n');
    let rows = window.tables.iter().take(5);
    let rows = rows.map(|table| vec![table.name.clone(), bytes(table.bytes), count(table.rows)]);
    out + &grid("table<|memory|rows", Some(0), rows, style)
}

/// The columns that a narrow terminal has no room for, the least useful first. The one that gives the order stays.
const fn left_out(sort: TopSort) -> &'static [usize] {
    match sort {
        TopSort::Reductions => &[6, 5, 4, 3, 2],
        TopSort::Memory => &[6, 5, 4, 3, 1],
        TopSort::Messages => &[6, 5, 4, 2, 1],
        TopSort::Binaries => &[6, 5, 3, 2, 1],
    }
}

/// The processes by role and name; those that have the same, with their identifier: its column may have no room.
pub(super) fn titles(processes: &[TopProcess]) -> Vec<String> {
    let titles: Vec<String> = processes.iter().map(title).collect();
    let has_twin = |title: &str| titles.iter().filter(|it| *it == title).nth(1).is_some();
    let each = |(title, process): (&String, &TopProcess)| match has_twin(title) {
        true => format!("{title} {}", process.pid),
        false => title.clone(),
    };
    titles.iter().zip(processes).map(each).collect()
}

/// Whether the process is part of a look into the node, this one or that of another bellows.
pub(super) fn is_own(process: &TopProcess) -> bool {
    let parts = [process.role.as_str(), process.name.as_str()];
    parts.into_iter().any(erlang::Helper::is_its_name)
}

/// The process by role and name, and whether it waits for credit.
fn title(process: &TopProcess) -> String {
    let parts = [process.role.as_str(), process.name.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
    let flow = if process.flow { " (flow)" } else { "" };
    match parts.is_empty() {
        // Such as the reader of another look, whose window was over: nobody knows any more what it was.
        true if process.status == "exited" => format!("ended meanwhile {}", process.pid),
        true => format!("{}{flow}", process.pid),
        false => format!("{}{flow}", parts.join(" ")),
    }
}

/// As many parts as a line has room for, the most useful first.
fn line(head: &str, parts: &[String], columns: usize) -> String {
    let joined = |most: usize| format!("{head}{}", parts.get(..most).unwrap_or_default().join(", "));
    let lines = (1..=parts.len()).rev().map(joined);
    let mut lines = lines.skip_while(|line| width(line) > columns);
    lines.next().unwrap_or_else(|| joined(1))
}

/// Activity of the whole node, in lines; a narrow terminal shows the first parts of each.
pub(super) fn summary(window: &TopWindow, node: &str, columns: usize) -> Vec<String> {
    let counted_of = |key: &str| window.counts.get(key).copied().unwrap_or(0);
    let of = |what, key, limit| format!("{what} {} of {}", count(counted_of(key)), count(counted_of(limit)));
    let memory = |what: &str, key: &str| format!("{what}{}", bytes(window.memory.get(key).copied().unwrap_or(0)));
    let rate = |key: &str| window.rates.get(key).copied().unwrap_or(0.0) as u64;
    let looked = [
        format!("window of {:.1} s", window.seconds),
        format!("looking took the node {}", Nanos(window.node_us * 1_000)),
    ];
    let held = [
        memory("processes ", "processes"),
        memory("binaries ", "binary"),
        memory("ETS ", "ets"),
        memory("code ", "code"),
        memory("atoms ", "atom"),
    ];
    let counts = [
        of("processes", "processes", "process_limit"),
        of("ports", "ports", "port_limit"),
        of("descriptors", "descriptors", "descriptor_limit"),
        format!("tables {}", count(counted_of("tables"))),
    ];
    let work = [
        format!("reductions {}/s", count(rate("reductions"))),
        format!("collections {}/s", count(rate("collections"))),
        format!("in {}/s", bytes(rate("input_bytes"))),
        format!("out {}/s", bytes(rate("output_bytes"))),
    ];
    let mut lines = vec![
        line(&format!("{node}, "), &looked, columns),
        schedulers(window, columns),
        line(&format!("{}: ", memory("memory ", "total")), &held, columns),
        line("", &counts, columns),
        line("", &work, columns),
    ];
    lines.extend(rabbitmq(window));
    lines
}

/// Utilisation of schedulers: each, or their mean where there are too many for a line.
fn schedulers(window: &TopWindow, columns: usize) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mean = |shares: &[f64]| percent(shares.iter().sum::<f64>() / shares.len().max(1) as f64);
    let used = &window.schedulers;
    let others = [
        format!("run queue {}", count(window.run_queue)),
        format!("dirty CPU {}", mean(&used.dirty_cpu)),
        format!("dirty I/O {}", mean(&used.dirty_io)),
    ];
    let each = used.normal.iter().map(|it| percent(*it));
    let each = match used.normal.len() {
        0 => "-".to_owned(),
        _ => each.collect::<Vec<_>>().join(" "),
    };
    let whole = format!("schedulers {each}; {}", others.join(", "));
    if used.normal.len() <= 16 && width(&whole) <= columns {
        return whole;
    }
    let (all, busy) = (used.normal.len(), mean(&used.normal));
    line(&format!("schedulers {all}, {busy} busy on average; "), &others, columns)
}

/// RabbitMQ's own figures, where the node has it; of one that is stopped, only that.
fn rabbitmq(window: &TopWindow) -> Vec<String> {
    let alarms = match window.alarms.is_empty() {
        true => "no alarms".to_owned(),
        false => format!("alarms: {}", window.alarms.join(", ")),
    };
    let stopped = "RabbitMQ is stopped on this node: rabbitmqctl start_app starts it";
    match window.rabbitmq.as_str() {
        "stopped" => vec![stopped.to_owned()],
        "stopping" => vec!["RabbitMQ is about to stop".to_owned()],
        "booting" => vec!["RabbitMQ is still starting".to_owned()],
        // No RabbitMQ, or one before 3.8, which does not say.
        "" if window.flow_count == 0 && window.alarms.is_empty() => Vec::new(),
        _ => vec![slowed(window), alarms],
    }
}

/// Processes in flow control, or blocked by an alarm.
fn slowed(window: &TopWindow) -> String {
    let whole = if window.flow_whole { "" } else { " among those that were looked at" };
    if window.flow_count == 0 {
        return format!("nobody in flow control{whole}");
    }
    let names: Vec<String> =
        window.flow.iter().take(NAMED).map(|it| format!("{} {} ({})", it.kind, it.name, it.state)).collect();
    format!("{} in flow control{whole}: {}", counted(window.flow_count, "client or queue"), names.join(", "))
}

/// The narrowest name of a process that is of use: `connection 127.0.0.1:45678…0.0.1:5672`.
pub(super) const LEAST_NAME: usize = 40;
/// The narrowest function that is of use.
const LEAST_FUNCTION: u16 = 24;
/// Marks the head of the column that gives the order.
pub(super) const MARK: &str = " v";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopColumn {
    Name,
    /// A number that processes can be put in order by.
    Number(TopSort),
    Pid,
    Function,
}

impl TopColumn {
    /// All columns, from left to right: a narrow terminal omits the last ones first, and never the first.
    const ALL: [Self; 7] = [
        Self::Name,
        Self::Number(TopSort::Reductions),
        Self::Number(TopSort::Memory),
        Self::Number(TopSort::Messages),
        Self::Number(TopSort::Binaries),
        Self::Pid,
        Self::Function,
    ];

    pub(super) const fn head(self) -> &'static str {
        match self {
            Self::Name => "process",
            Self::Number(TopSort::Reductions) => "reductions/s",
            Self::Number(sort) => sort.name(),
            Self::Pid => "pid",
            Self::Function => "in",
        }
    }

    /// A process's cell in a column other than the name's.
    pub(super) fn text(self, process: &TopProcess) -> String {
        match self {
            Self::Name => String::new(),
            Self::Number(sort @ (TopSort::Reductions | TopSort::Messages)) => count(value(process, sort)),
            Self::Number(sort) => bytes(value(process, sort)),
            Self::Pid => process.pid.clone(),
            Self::Function => process.function.clone(),
        }
    }

    /// The width below which it is of no use, where its longest text has this one.
    fn least(self, longest: u16) -> u16 {
        let head = self.head().len() as u16;
        match self {
            Self::Name => longest.clamp(head, LEAST_NAME as u16),
            // The mark of the order stands behind the head.
            Self::Number(_) => longest.max(head + MARK.len() as u16),
            Self::Pid => longest.max(head),
            Self::Function => longest.clamp(head, LEAST_FUNCTION),
        }
    }
}

/// The number that processes are put in order by.
pub(super) fn value(process: &TopProcess, sort: TopSort) -> u64 {
    match sort {
        TopSort::Reductions => process.reductions_per_s as u64,
        TopSort::Memory => process.memory,
        TopSort::Messages => process.messages,
        TopSort::Binaries => process.binaries,
    }
}

/// The columns that fit, each with its width: as wide as its `longest` text, where there is room. Numbers and
/// identifiers are never cut; names have the room before functions.
pub(super) fn columns(width: u16, sort: TopSort, longest: impl Fn(TopColumn) -> u16) -> Vec<(TopColumn, u16)> {
    let mut shown = TopColumn::ALL.to_vec();
    let least = |column: TopColumn| column.least(longest(column));
    let needed = |shown: &[TopColumn]| {
        let widths = shown.iter().map(|it| least(*it)).sum::<u16>();
        // A blank stands between two.
        widths + (shown.len() as u16).saturating_sub(1)
    };
    for column in TopColumn::ALL.into_iter().skip(1).rev() {
        if needed(&shown) > width && column != TopColumn::Number(sort) {
            shown.retain(|it| *it != column);
        }
    }
    let mut spare = width.saturating_sub(needed(&shown));
    let missing = needed(&shown).saturating_sub(width);
    let widths = shown.into_iter().map(|column| {
        let least = least(column);
        let width = match column {
            TopColumn::Name | TopColumn::Function => {
                let more = longest(column).saturating_sub(least).min(spare);
                spare -= more;
                least + more
            }
            _ => least,
        };
        match column {
            TopColumn::Name => (column, width.saturating_sub(missing)),
            _ => (column, width),
        }
    });
    widths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::erlang::top::tests::window;

    #[test]
    fn a_stopped_rabbitmq_has_neither_alarms_nor_flow() {
        let mut window = window();
        let said = |window: &TopWindow| summary(window, "a@b", usize::MAX).join("\n");
        assert!(said(&window).ends_with("nobody in flow control\nno alarms"));
        for (state, part) in [("stopped", "RabbitMQ is stopped on this node"), ("", "")] {
            window.rabbitmq = state.into();
            let told = said(&window);
            assert!(told.contains(part) && !told.contains("alarms") && !told.contains("flow"), "{told}");
        }
    }

    #[test]
    fn what_has_no_name_of_its_own_has_its_identifier() {
        let mut processes = window().processes;
        let mut twins = processes[1].clone();
        (twins.role, twins.name) = ("heartbeat".into(), String::new());
        processes.extend([twins.clone(), twins]);
        processes[5].pid = "<1.2.3>".into();
        processes.push(TopProcess {
            status: "exited".into(),
            role: String::new(),
            pid: "<4.5.6>".into(),
            ..processes[5].clone()
        });
        let titles = titles(&processes);
        let own = [&titles[1], &titles[5], &titles[6]];
        assert_eq!(own, ["queue orders", "heartbeat <1.2.3>", "ended meanwhile <4.5.6>"]);
        assert_ne!(titles[4], titles[5]);
    }

    #[test]
    fn lines_about_the_node_fit_the_terminal() {
        let mut window = window();
        for (key, memory) in [("processes", 234), ("binary", 123), ("ets", 45), ("code", 35)] {
            window.memory.insert(key.to_owned(), memory * 1_000_000);
        }
        for (count, limit) in [("processes", "process_limit"), ("descriptors", "descriptor_limit")] {
            window.counts.insert(count.to_owned(), 12_345);
            window.counts.insert(limit.to_owned(), 1_048_576);
        }
        for columns in [60, 80, 100, 200] {
            let lines = summary(&window, "bellows-1234-5678@localhost", columns);
            assert!(lines.iter().all(|it| width(it) <= columns), "{lines:#?}");
            let has = |part: &str| lines.iter().any(|it| it.contains(part));
            assert!(has("run queue 1") && (has("ETS 45") || columns < 80), "{lines:#?}");
        }
        let whole = summary(&window, "a@b", usize::MAX).join("\n");
        assert!(whole.contains("atoms 12") && whole.contains("50 % 50 %"), "{whole}");
    }

    #[test]
    fn a_narrow_terminal_has_names_and_what_gives_the_order() {
        let node = "bellows-1234-5678@localhost";
        let style = |columns| Style { terminal: true, columns, ..Style::PLAIN };
        for (sort, kept, gone) in
            [(TopSort::Reductions, "reductions/s", "binaries"), (TopSort::Binaries, "binaries", "messages")]
        {
            let text = text(&window(), node, sort, style(80));
            assert!(text.lines().all(|line| width(line) <= 80), "{text}");
            let head = text.lines().find(|line| line.starts_with("process ")).unwrap_or_default();
            assert!(head.contains(kept) && !head.contains(gone), "{text}");
            assert!(text.contains("connection 127.0.0.1:45678 ->"), "{text}");
        }
        let whole = text(&window(), node, TopSort::Reductions, Style::PLAIN);
        testkit::assert_has(whole, ["gen_server2:process_next_msg/1", "connection 127.0.0.1:45678 -> 127.0.0.1:5672"]);
    }

    #[test]
    fn the_name_keeps_its_width_and_the_order_its_column() {
        for sort in [TopSort::Reductions, TopSort::Memory, TopSort::Messages, TopSort::Binaries] {
            for width in 1..400 {
                let shown = columns(width, sort, |_| 14);
                let wide = columns(width, sort, |_| 60);
                let whole: u16 = wide.iter().map(|(_, it)| it + 1).sum();
                assert!(width < 80 || whole - 1 <= width, "{width}: {wide:?}");
                let (first, name) = shown[0];
                assert_eq!(first, TopColumn::Name);
                let narrowest = 14 + 1 + 14;
                assert!(width < narrowest || name == 14, "{width}: {shown:?}");
                let ordered = TopColumn::Number(sort);
                assert!(shown.iter().any(|(it, _)| *it == ordered), "{shown:?}");
                let whole: u16 = shown.iter().map(|(_, it)| it + 1).sum();
                assert!(width < 16 || whole - 1 <= width, "{width}: {shown:?}");
            }
        }
    }

    #[test]
    fn more_room_shows_more_columns() {
        let longest = |column| match column {
            TopColumn::Name => 60,
            TopColumn::Function => 40,
            _ => 10,
        };
        let number = |width| columns(width, TopSort::Reductions, longest).len();
        assert_eq!([60, 80, 90, 120, 140].map(number), [2, 4, 5, 6, 7]);
        // A name is not cut while there is room for it.
        let name = |width| columns(width, TopSort::Reductions, longest)[0].1;
        assert_eq!([160, 200, 250].map(name), [60, 60, 60]);
    }
}
