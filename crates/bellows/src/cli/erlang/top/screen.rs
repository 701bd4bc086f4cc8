//! The live view: a thread looks at the node, and this one draws and reads keys.

use std::io::{self, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use erlang::top::{TopProcess, TopRequest, TopWindow, top};
use erlang::{Error, Helper};
use measure::count;
use ratatui::Terminal;
use ratatui::backend::TermionBackend;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::termion::event::Key;
use ratatui::termion::input::TermRead as _;
use ratatui::termion::raw::{IntoRawMode as _, RawTerminal};
use ratatui::termion::screen::{AlternateScreen, IntoAlternateScreen as _};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use report::console::sanitise;
use report::text::bytes;
use signal_hook::consts::SIGINT;

use super::ProcessOrder;
use super::plain::{summary, title};
use crate::failure::{Done, Failure};
use crate::signals;

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
/// Rows that the screen has at most.
const MOST_ROWS: u32 = 500;

type TopScreen = Terminal<TermionBackend<AlternateScreen<RawTerminal<Stdout>>>>;

/// What the drawing thread hears of.
enum TopNews {
    Window(Box<Result<TopWindow, Error>>),
    Key(Key),
    /// There is no keyboard any more.
    End,
}

/// Shows windows until a key ends it.
pub(super) fn show(
    helper: &Helper,
    request: TopRequest,
    sort: ProcessOrder,
) -> Result<Done, Failure> {
    let wish = Arc::new(Mutex::new(TopRequest {
        limit: MOST_ROWS.min(request.limit.max(100)),
        ..request
    }));
    let (tell, news) = mpsc::channel();
    let keys = tell.clone();
    thread::Builder::new()
        .name("keys".to_owned())
        .spawn(move || read_keys(&keys))?;
    let (resume, paused) = mpsc::channel::<()>();
    let mut view = TopView {
        sort,
        node: helper.node().name().as_str().to_owned(),
        last: None,
        is_paused: false,
        wish: Arc::clone(&wish),
        control: load::Control::new(),
    };
    signals::stop_load(&view.control)?;
    let mut screen = open()?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = || is_over.load(Ordering::Relaxed);
        scope.spawn(move || look(helper, &wish, &tell, paused, &stop));
        let done = view.run(&mut screen, &news, &resume);
        // The one that looks ends its window. On a node that hangs that takes a while, in which the terminal is as it was.
        is_over.store(true, Ordering::Relaxed);
        drop(resume);
        drop(screen);
        done
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

/// Looks at window after window, until nobody wants more.
fn look(
    helper: &Helper,
    wish: &Mutex<TopRequest>,
    tell: &Sender<TopNews>,
    go_on: Receiver<()>,
    stop: &dyn Fn() -> bool,
) {
    loop {
        let request = *wish.lock().unwrap_or_else(PoisonError::into_inner);
        let window = top(helper, &request, stop);
        let failed = window.is_err();
        if tell.send(TopNews::Window(Box::new(window))).is_err() || failed || go_on.recv().is_err()
        {
            return;
        }
    }
}

/// What is shown.
struct TopView {
    sort: ProcessOrder,
    node: String,
    last: Option<TopWindow>,
    is_paused: bool,
    wish: Arc<Mutex<TopRequest>>,
    /// A signal may end the view, too; the terminal is put back then as well.
    control: load::Control,
}

impl TopView {
    fn run(
        &mut self,
        screen: &mut TopScreen,
        news: &Receiver<TopNews>,
        resume: &Sender<()>,
    ) -> Result<Done, Failure> {
        let mut is_waiting = false;
        while !self.control.is_stopping() {
            screen.draw(|frame| self.draw(frame))?;
            match news.recv_timeout(REDRAW) {
                Ok(TopNews::Window(window)) => {
                    self.last = Some((*window)?);
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
            Key::Char('r') => self.order(ProcessOrder::Reductions),
            Key::Char('m') => self.order(ProcessOrder::Memory),
            Key::Char('q') => self.order(ProcessOrder::Messages),
            Key::Char('b') => self.order(ProcessOrder::Binaries),
            Key::Char('+') => self.window(|now| WINDOWS.into_iter().find(|it| *it > now)),
            Key::Char('-') => self.window(|now| WINDOWS.into_iter().rev().find(|it| *it < now)),
            Key::Char('p') => self.is_paused = !self.is_paused,
            Key::Esc | Key::Char('x') | Key::Ctrl('d') => return true,
            // As the terminal would do: a second one, when the terminal is as it was, ends bellows at once.
            Key::Ctrl('c') => return signal_hook::low_level::raise(SIGINT).is_ok(),
            _ => {}
        }
        false
    }

    fn order(&mut self, sort: ProcessOrder) {
        self.sort = sort;
        self.change(|request| request.sort = sort.meaning());
        if let Some(last) = &mut self.last {
            let key = |process: &TopProcess| match sort {
                ProcessOrder::Reductions => process.reductions_per_s as u64,
                ProcessOrder::Memory => process.memory,
                ProcessOrder::Messages => process.messages,
                ProcessOrder::Binaries => process.binaries,
            };
            last.processes
                .sort_by_key(|process| std::cmp::Reverse(key(process)));
        }
    }

    fn window(&self, next: impl Fn(Duration) -> Option<Duration>) {
        self.change(|request| request.window = next(request.window).unwrap_or(request.window));
    }

    fn change(&self, change: impl FnOnce(&mut TopRequest)) {
        change(&mut self.wish.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn draw(&self, frame: &mut ratatui::Frame<'_>) {
        let Some(window) = &self.last else {
            let text = format!("looking at {} …", self.node);
            frame.render_widget(Paragraph::new(text), frame.area());
            return;
        };
        let mut lines: Vec<Line<'_>> = summary(window, &self.node)
            .into_iter()
            .map(|line| Line::from(sanitise(&line).into_owned()))
            .collect();
        let next = self
            .wish
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .window;
        let state = if self.is_paused { "paused; " } else { "" };
        lines.push(Line::from(format!(
            "{state}keys: r reductions  m memory  q message queue  b binaries  +/- window ({:.1} s)  p pause  Esc end",
            next.as_secs_f64()
        )));
        let head = Constraint::Length(lines.len() as u16 + 1);
        let [top, rest] = Layout::vertical([head, Constraint::Fill(1)]).areas(frame.area());
        frame.render_widget(Paragraph::new(lines), top);
        frame.render_widget(self.table(window, rest.width), rest);
    }

    fn table(&self, window: &TopWindow, width: u16) -> Table<'static> {
        let mark = |sort: ProcessOrder, head: &str| match sort == self.sort {
            true => format!("{head} v"),
            false => head.to_owned(),
        };
        let right = |text: String| Cell::from(Line::from(text).right_aligned());
        let strong = Style::default().add_modifier(Modifier::BOLD);
        let is_wide = width >= 110;
        let mut heads = vec![
            Cell::from("process"),
            right(mark(ProcessOrder::Reductions, "reductions/s")),
            right(mark(ProcessOrder::Memory, "memory")),
            right(mark(ProcessOrder::Messages, "messages")),
            right(mark(ProcessOrder::Binaries, "binaries")),
        ];
        let mut widths = vec![
            Constraint::Fill(1),
            Constraint::Length(14),
            Constraint::Length(10),
            Constraint::Length(10),
            Constraint::Length(10),
        ];
        if is_wide {
            heads.extend([Cell::from("pid"), Cell::from("in")]);
            widths.extend([Constraint::Length(14), Constraint::Length(40)]);
        }
        let rows = window.processes.iter().map(|process| {
            let mut cells = vec![
                Cell::from(sanitise(&title(process)).into_owned()),
                right(count(process.reductions_per_s as u64)),
                right(bytes(process.memory)),
                right(count(process.messages)),
                right(bytes(process.binaries)),
            ];
            if is_wide {
                cells.push(Cell::from(sanitise(&process.pid).into_owned()));
                cells.push(Cell::from(sanitise(&process.function).into_owned()));
            }
            let row = Row::new(cells);
            match process.flow {
                true => row.style(strong),
                false => row,
            }
        });
        Table::new(rows, widths).header(Row::new(heads).style(strong))
    }
}
