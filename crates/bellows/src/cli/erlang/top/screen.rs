//! The live view: a thread looks at the node, and this one draws and reads keys.

use std::io::{self, Stdout, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use erlang::top::{TopProcess, TopRequest, TopSort, TopWindow, top};
use erlang::{Error, Helper};
use ratatui::Terminal;
use ratatui::backend::TermionBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::termion::event::Key;
use ratatui::termion::input::TermRead as _;
use ratatui::termion::raw::{IntoRawMode as _, RawTerminal};
use ratatui::termion::screen::{AlternateScreen, IntoAlternateScreen as _};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use report::console::{fit, fit_apart, fit_middle, sanitise, width, wrap};
use signal_hook::consts::SIGINT;

use super::plain::{MARK, TopColumn, columns, is_own, summary, titles, value};
use crate::{Done, Failure, signals};

/// Windows that + and - choose from.
const WINDOWS: [Duration; 6] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];
/// How often the screen is drawn again without news, so that it follows its size.
const REDRAW: Duration = Duration::from_millis(250);
/// Delay from which on a node counts as not answering.
const LONG_SILENCE: Duration = Duration::from_secs(2);
/// A screen with fewer rows than this has none to spare for second lines.
const SMALL: u16 = 24;
/// Bounds of the number of requested processes: the first rows of another order, and no more than a screen has rows.
const ASKED: (u32, u32) = (100, 500);

type TopScreen = Terminal<TermionBackend<AlternateScreen<RawTerminal<Stdout>>>>;

enum TopNews {
    Window(Box<Result<TopWindow, Error>>),
    Key(Key),
    /// There is no keyboard any more.
    End,
}

/// Shows windows until a key ends it, of each as many processes as have room, and `limit` at most.
pub(super) fn show(helper: &Helper, request: TopRequest, sort: TopSort, limit: Option<u32>) -> Result<Done, Failure> {
    let (least, most) = ASKED;
    let wish = Arc::new(Mutex::new(TopRequest { limit: limit.unwrap_or(least).clamp(least, most), ..request }));
    let (tell, news) = mpsc::channel();
    let keys = tell.clone();
    thread::Builder::new().name("keys".to_owned()).spawn(move || read_keys(&keys))?;
    let (resume, paused) = mpsc::channel::<()>();
    let (control, _) = signals::stop_load()?;
    let mut view = TopView {
        sort,
        limit: limit.map_or(usize::MAX, |limit| limit as usize),
        node: helper.node().name().as_str().to_owned(),
        last: None,
        since: Instant::now(),
        is_paused: false,
        all_keys: false,
        wish: Arc::clone(&wish),
        control,
    };
    let mut screen = open()?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = || is_over.load(Ordering::Relaxed);
        scope.spawn(move || look(helper, &wish, &tell, paused, &stop));
        let done = view.run(&mut screen, &news, &resume);
        // The one that looks ends its window. On a node that hangs that takes a while; the terminal stays as it was.
        is_over.store(true, Ordering::Relaxed);
        drop(resume);
        drop(screen);
        // The way back to the usual screen waits for a line's end, and an error's message does not.
        let flushed = io::stdout().flush();
        // What went wrong first is what is said.
        let done = done?;
        flushed?;
        Ok(done)
    })
}

fn open() -> io::Result<TopScreen> {
    let out = io::stdout().into_raw_mode()?.into_alternate_screen()?;
    let mut screen = Terminal::new(TermionBackend::new(out))?;
    // The other screen begins empty; clearing it would ask the terminal, whose answer the thread of keys would take.
    screen.hide_cursor()?;
    Ok(screen)
}

fn read_keys(tell: &Sender<TopNews>) {
    for key in io::stdin().keys() {
        let Ok(key) = key else { break };
        if tell.send(TopNews::Key(key)).is_err() {
            return;
        }
    }
    let _ = tell.send(TopNews::End);
}

/// Reads window after window, until the screen ends.
fn look(
    helper: &Helper,
    wish: &Mutex<TopRequest>,
    tell: &Sender<TopNews>,
    go_on: Receiver<()>,
    stop: &dyn Fn() -> bool,
) {
    loop {
        let wanted = || *wish.lock().unwrap_or_else(PoisonError::into_inner);
        let request = wanted();
        // Another order has other processes first: nobody waits for the end of a window that is not wanted any more.
        let window = top(helper, &request, &|| stop() || wanted() != request);
        let failed = window.is_err();
        if tell.send(TopNews::Window(Box::new(window))).is_err() || failed || go_on.recv().is_err() {
            return;
        }
    }
}

struct TopView {
    sort: TopSort,
    /// Rows of processes at most.
    limit: usize,
    node: String,
    last: Option<TopWindow>,
    /// Since when the next one is waited for.
    since: Instant,
    is_paused: bool,
    /// Whether all keys are named, however many lines that takes.
    all_keys: bool,
    wish: Arc<Mutex<TopRequest>>,
    /// A signal may end the view, too; the terminal is put back then as well.
    control: load::Control,
}

impl TopView {
    fn run(&mut self, screen: &mut TopScreen, news: &Receiver<TopNews>, resume: &Sender<()>) -> Result<Done, Failure> {
        let mut is_waiting = false;
        while !self.control.is_stopping() {
            screen.draw(|frame| self.draw(frame))?;
            match news.recv_timeout(REDRAW) {
                Ok(TopNews::Window(window)) => {
                    self.last = Some((*window)?);
                    self.since = Instant::now();
                    // Its order is that of the time at which it began.
                    self.arrange();
                    is_waiting = true;
                }
                Ok(TopNews::Key(key)) => {
                    if self.press(key) {
                        return Ok(Done::Fine);
                    }
                }
                Ok(TopNews::End) | Err(RecvTimeoutError::Disconnected) => return Ok(Done::Fine),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if is_waiting && !self.is_paused {
                is_waiting = resume.send(()).is_err();
            }
        }
        Ok(Done::Fine)
    }

    /// Acts on a key; whether it ends the view.
    fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Char('r') => self.order(TopSort::Reductions),
            Key::Char('m') => self.order(TopSort::Memory),
            Key::Char('l') => self.order(TopSort::Messages),
            Key::Char('b') => self.order(TopSort::Binaries),
            Key::Char('+') => self.window(|now| WINDOWS.into_iter().find(|it| *it > now)),
            Key::Char('-') => self.window(|now| WINDOWS.into_iter().rev().find(|it| *it < now)),
            Key::Char('?') => self.all_keys = !self.all_keys,
            Key::Char('p') => {
                self.is_paused = !self.is_paused;
                self.since = Instant::now();
            }
            Key::Esc | Key::Char('q' | 'x') | Key::Ctrl('d') => return true,
            // As the terminal would do: a second one, when the terminal is as it was, ends bellows at once.
            Key::Ctrl('c') => return signal_hook::low_level::raise(SIGINT).is_ok(),
            _ => {}
        }
        false
    }

    fn order(&mut self, sort: TopSort) {
        self.sort = sort;
        self.change(|request| request.sort = sort);
        self.arrange();
    }

    /// Puts the processes into the order that the heads of the columns show.
    fn arrange(&mut self) {
        let sort = self.sort;
        if let Some(last) = &mut self.last {
            let key = |process: &TopProcess| (value(process, sort), process.reductions_per_s as u64);
            last.processes.retain(|process| !is_own(process));
            last.processes.sort_by_key(|process| std::cmp::Reverse(key(process)));
        }
    }

    fn window(&self, next: impl Fn(Duration) -> Option<Duration>) {
        self.change(|request| request.window = next(request.window).unwrap_or(request.window));
    }

    fn change(&self, change: impl FnOnce(&mut TopRequest)) {
        change(&mut self.wish.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn draw(&self, frame: &mut ratatui::Frame<'_>) {
        let silence = self.silence();
        let Some(window) = &self.last else {
            let silence = silence.map_or_else(String::new, |silence| format!(" {silence}"));
            let text = format!("looking at {} …{silence}", self.node);
            frame.render_widget(Paragraph::new(text), frame.area());
            return;
        };
        let mut lines: Vec<String> = silence.into_iter().collect();
        lines.extend(self.summary(window, frame.area()));
        lines.extend(self.keys(frame.area().width.into()));
        let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
        let head = Constraint::Length(lines.len() as u16 + 1);
        let [top, rest] = Layout::vertical([head, Constraint::Fill(1)]).areas(frame.area());
        frame.render_widget(Paragraph::new(lines), top);
        frame.render_widget(self.table(window, rest.width), rest);
    }

    /// How long the node has been silent when it should have answered: the screen shows older values.
    fn silence(&self) -> Option<String> {
        let window = self.wish.lock().unwrap_or_else(PoisonError::into_inner).window;
        let over = self.since.elapsed().saturating_sub(window);
        (over >= LONG_SILENCE && !self.is_paused).then(|| format!("the node has not answered for {} s", over.as_secs()))
    }

    /// Activity of the whole node. A long line is wrapped into two where the screen has the rows for that.
    fn summary(&self, window: &TopWindow, area: Rect) -> Vec<String> {
        let columns = usize::from(area.width);
        let most = if area.height < SMALL { 1 } else { 2 };
        let lines = summary(window, &self.node, columns).into_iter().flat_map(|line| {
            let line = sanitise(&line).into_owned();
            let mut broken = wrap(&line, columns);
            if broken.len() > most {
                let rest = broken.split_off(most - 1).join(" ");
                broken.push(fit_parts(&rest, columns));
            }
            broken
        });
        lines.collect()
    }

    fn keys(&self, columns: usize) -> Vec<String> {
        let wish = self.wish.lock().unwrap_or_else(PoisonError::into_inner);
        let state = if self.is_paused { "paused; " } else { "" };
        if self.all_keys {
            let mut lines = key_lines(wish.window, columns.saturating_sub(state.len()));
            if let Some(first) = lines.first_mut() {
                first.insert_str(0, state);
            }
            return lines;
        }
        let keys = key_line(wish.window, columns.saturating_sub(state.len()));
        vec![format!("{state}{keys}")]
    }

    fn table(&self, window: &TopWindow, room: u16) -> Table<'static> {
        let strong = Style::default().add_modifier(Modifier::BOLD);
        let processes = &window.processes[..self.limit.min(window.processes.len())];
        let titles = titles(processes).into_iter();
        let titles: Vec<String> = titles.map(|it| sanitise(&it).into_owned()).collect();
        let of_column = |column: TopColumn| processes.iter().map(move |it| sanitise(&column.text(it)).into_owned());
        let longest = |column: TopColumn| {
            let widest = match column {
                TopColumn::Name => titles.iter().map(|it| width(it)).max(),
                _ => of_column(column).map(|it| width(&it)).max(),
            };
            widest.unwrap_or(0).min(usize::from(u16::MAX / 8)) as u16
        };
        let columns = columns(room, self.sort, longest);
        let heads = columns.iter().map(|(column, width)| {
            let mark = match *column == TopColumn::Number(self.sort) {
                true => format!("{}{MARK}", column.head()),
                false => column.head().to_owned(),
            };
            cell(*column, &mark, *width)
        });
        let texts = columns.iter().map(|(column, width)| match column {
            TopColumn::Name => fit_apart(&titles, (*width).into()),
            _ => of_column(*column).collect(),
        });
        let texts: Vec<Vec<String>> = texts.collect();
        let rows = processes.iter().enumerate().map(|(row, process)| {
            let cells = columns.iter().zip(&texts);
            let cells = cells.map(|((column, width), texts)| cell(*column, &texts[row], *width));
            let row = Row::new(cells);
            if process.flow { row.style(strong) } else { row }
        });
        let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
        Table::new(rows, widths).header(Row::new(heads).style(strong))
    }
}

/// As many whole parts as a line has room for, so that no name loses its end.
fn fit_parts(line: &str, columns: usize) -> String {
    let fits = |text: &String| width(text) <= columns;
    let ends = line.match_indices(", ").map(|(at, _)| format!("{}, …", line.split_at(at).0));
    let cut = || ends.filter(fits).last().unwrap_or_else(|| fit_middle(line, columns));
    Some(line.to_owned()).filter(fits).unwrap_or_else(cut)
}

/// A cell that marks where it was cut: a name or a function ends with what tells it from others.
fn cell(column: TopColumn, text: &str, width: u16) -> Cell<'static> {
    let text = fit_middle(text, width.into());
    match column {
        TopColumn::Number(_) => Cell::from(Line::from(text).right_aligned()),
        _ => Cell::from(text),
    }
}

/// A key, and its action in a few words, and in one. The first rows are the last to be omitted.
type KeyText = (&'static str, String, String);

/// As much of the line as fits: in few words where the terminal is narrow, then without the keys that need a reminder
/// least; `?` shows those.
fn key_line(window: Duration, columns: usize) -> String {
    let keys = keys(window);
    let long = format!("keys: {}", joined(keys.iter().map(|(key, what, _)| (*key, what))));
    if width(&long) <= columns {
        return long;
    }
    for left in (1..=keys.len()).rev() {
        let more = ("?", &"more".to_owned());
        let shown = keys.iter().take(left).map(|(key, _, what)| (*key, what));
        let text = if left == keys.len() { joined(shown) } else { joined(shown.chain([more])) };
        if width(&text) <= columns {
            return text;
        }
    }
    fit("? keys", columns).into_owned()
}

fn key_lines(window: Duration, columns: usize) -> Vec<String> {
    let keys = keys(window);
    let mut keys: Vec<String> = keys.iter().map(|(key, what, _)| format!("{key} {what}")).collect();
    keys.push("? fewer".to_owned());
    wrap(&format!("keys: {}", keys.join(", ")), columns)
}

fn joined<'a>(keys: impl Iterator<Item = (&'a str, &'a String)>) -> String {
    let keys: Vec<String> = keys.map(|(key, what)| format!("{key} {what}")).collect();
    keys.join("  ")
}

fn keys(window: Duration) -> [KeyText; 7] {
    let seconds = format!("{:.1} s", window.as_secs_f64());
    let key = |key, long: &str, short: &str| (key, long.to_owned(), short.to_owned());
    [
        key("q", "end", "end"),
        key("r", "reductions", "reductions"),
        key("m", "memory", "memory"),
        key("l", "message queue", "messages"),
        key("b", "binaries", "binaries"),
        key("p", "pause", "pause"),
        key("+/-", &format!("window ({seconds})"), &seconds),
    ]
}

#[cfg(test)]
mod tests {
    use erlang::top::Slowed;
    use ratatui::backend::TestBackend;

    use super::super::tests::window;
    use super::*;

    fn view(ago: Duration, is_paused: bool, sort: TopSort) -> TopView {
        TopView {
            sort,
            limit: usize::MAX,
            node: "bellows-1234-5678@localhost".to_owned(),
            last: Some(window()),
            since: Instant::now().checked_sub(ago).expect("a time"),
            is_paused,
            all_keys: false,
            wish: Arc::new(Mutex::new(TopRequest { window: Duration::from_secs(2), sort, limit: 10, flow: true })),
            control: load::Control::new(),
        }
    }

    fn shown(width: u16, height: u16, sort: TopSort) -> Vec<String> {
        drawn(&view(Duration::ZERO, true, sort), width, height)
    }

    fn drawn(view: &TopView, width: u16, height: u16) -> Vec<String> {
        let mut screen = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        screen.draw(|frame| view.draw(frame)).expect("a picture");
        let cells = screen.backend().buffer().content();
        let rows = cells.chunks(width.into());
        rows.map(|row| row.iter().map(|cell| cell.symbol()).collect()).collect()
    }

    #[test]
    fn a_small_terminal_has_names_and_keys_that_are_not_cut() {
        let rows = shown(80, 24, TopSort::Reductions);
        let text = rows.join("\n");
        testkit::assert_has(&text, ["connection 127.0.0.1:45678", "queue orders", "reductions/s v", "code "]);
        let keys = rows.iter().find(|row| row.starts_with("paused; ")).map_or("", |row| row.trim_end());
        assert!(keys.ends_with("? more") || keys.ends_with("2.0 s"), "{text}");
        // Of a window with long lines, none is cut but those that name many.
        let heads = rows.iter().take_while(|row| !row.starts_with("process "));
        assert!(heads.clone().all(|row| !row.contains('…')), "{text}");
        let names = rows.iter().filter(|row| row.starts_with("channel 127.0.0.1:45678"));
        let names: Vec<&str> = names.filter_map(|row| row.split("  ").next()).collect();
        assert!(names.len() == 2 && names[0] != names[1], "{text}");
        assert!(names[0].ends_with("(1)") && names[1].ends_with("(2)") && names[0].contains(":45678"), "{text}");
        // A number at the end of a name tells it from others, also in a line that names many.
        let mut view = view(Duration::ZERO, true, TopSort::Reductions);
        let window = view.last.as_mut().expect("a window");
        let flow =
            |number| Slowed { kind: "queue".into(), name: format!("orders-of-a-shop-{number}"), state: "flow".into() };
        (window.flow_count, window.flow) = (20, (100..120).map(flow).collect());
        let told = drawn(&view, 80, 24).join(" ");
        assert!(told.contains("shop-100 (flow), ") && told.contains(" (flow), …"), "{told}");
        let wide = shown(160, 24, TopSort::Binaries).join("\n");
        testkit::assert_has(&wide, ["-> 127.0.0.1:5672 ", "binaries v", "gen_server2:process_next_msg/1"]);
    }

    #[test]
    fn no_more_processes_are_shown_than_were_asked_for() {
        let mut view = view(Duration::ZERO, true, TopSort::Memory);
        let mut processes = window().processes;
        for (process, memory) in processes.iter_mut().zip([1, 4, 3, 2]) {
            process.memory = memory;
        }
        for (limit, shown) in [(1, 1), (2, 2), (100, 4)] {
            view.limit = limit;
            let last = view.last.as_mut().expect("a window");
            last.processes.clone_from(&processes);
            view.arrange();
            let rows = drawn(&view, 160, 24).join("\n");
            let (_, rows) = rows.split_once("\nprocess ").expect("a table");
            let names: Vec<_> = rows.lines().skip(1).filter_map(|row| row.split("  ").next()).collect();
            assert_eq!(names.iter().filter(|name| !name.trim().is_empty()).count(), shown, "{names:?}");
            // The first are those of the order that is shown, also before the node was asked for it.
            assert_eq!(names[0].trim(), "queue orders");
        }
    }

    #[test]
    fn a_node_that_does_not_answer_is_told_as_such() {
        let told = |ago, is_paused| view(Duration::from_secs(ago), is_paused, TopSort::Memory).silence();
        assert_eq!(told(3, false), None);
        assert_eq!(told(7, false).as_deref(), Some("the node has not answered for 5 s"));
        assert_eq!(told(7, true), None, "nobody asks it");
    }

    #[test]
    fn no_terminal_is_too_small_to_be_drawn_on() {
        for width in [1, 2, 7, 20, 54, 79] {
            for height in [1, 2, 9, 15] {
                shown(width, height, TopSort::Messages);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let two = Duration::from_secs(2);
        let at = |columns| key_line(two, columns);
        assert!(at(120).starts_with("keys: q end  r reductions"));
        assert!(at(120).ends_with("+/- window (2.0 s)"));
        assert!(at(80).ends_with("p pause  +/- 2.0 s"), "{}", at(80));
        assert_eq!(at(40), "q end  r reductions  m memory  ? more");
        for columns in 6..200 {
            let text = at(columns);
            assert!(width(&text) <= columns && !text.contains('…'), "{text}");
            let all = key_lines(two, columns).join(" ");
            assert!(columns < 20 || all.contains("? fewer"), "{all}");
        }
    }
}
