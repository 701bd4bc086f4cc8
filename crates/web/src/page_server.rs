//! A server of a page or a few, for whoever scrapes them: a thread for each request, few at once, and time-outs
//! everywhere. Every page is made when asked for, and sent as it is written. On the loopback interface it answers by
//! that's names alone: another web page, whose name leads here, would read what is served.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a client may take to ask, and as long again to take the answer.
const TIME_OUT: Duration = Duration::from_secs(2);
/// How long the rest of a request is waited for.
const LEAVE: Duration = Duration::from_millis(100);
/// The longest request that is read, in bytes and in headers.
const LONGEST_REQUEST: usize = 8_192;
const MOST_HEADERS: usize = 64;
/// Requests that are answered at the same time; further ones wait until one of them has its answer.
const AT_ONCE: usize = 64;
/// Memory for the stack of each.
const STACK: usize = 256 << 10;
/// Bytes that are sent together.
const PIECE: usize = 16_384;

/// A page to serve.
pub trait Page: Send + Sync + 'static {
    /// The value of `Content-Type`.
    fn content_type(&self) -> &'static str;

    /// Brings the page's content up to date before the answer. Errors: the reason in words, instead of a page.
    fn refresh(&self) -> Result<(), String> {
        Ok(())
    }

    /// Writes the page as it is now.
    fn write(&self, out: &mut dyn fmt::Write) -> fmt::Result;
}

/// Serves a page at a path of an address, `HOST:PORT`, until the process ends; says where it listens.
/// Errors: the address cannot be listened on, or no thread can be started.
pub fn serve_page(address: &str, path: &str, page: impl Page) -> io::Result<SocketAddr> {
    serve_pages(address, vec![(path.to_owned(), Box::new(page))])
}

/// Serves pages, each at its path, as [`serve_page`] does.
pub fn serve_pages(address: &str, pages: Vec<(String, Box<dyn Page>)>) -> io::Result<SocketAddr> {
    let server = PageServer::start(address, pages)?;
    let address = server.address;
    // Without whoever would end it, it goes on.
    std::mem::forget(server);
    Ok(address)
}

/// Pages that are served until this is dropped.
#[derive(Debug)]
pub struct PageServer {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl PageServer {
    /// Serves pages, each at its path.
    pub fn start(address: &str, pages: Vec<(String, Box<dyn Page>)>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let is_ended = Arc::clone(&is_over);
        let pages = Arc::new(Pages { pages, only_here: address.ip().to_canonical().is_loopback() });
        thread::Builder::new().name("pages".into()).spawn(move || answer_all(&listener, &is_ended, &pages))?;
        Ok(Self { address, is_over })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PageServer {
    /// The thread that waits for requests is woken by one of ours; those that answer end behind their requests.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let _ = TcpStream::connect_timeout(&self.address, TIME_OUT);
    }
}

struct Pages {
    pages: Vec<(String, Box<dyn Page>)>,
    /// It listens on the loopback interface alone.
    only_here: bool,
}

/// Answers whoever connects, until it is over.
fn answer_all(listener: &TcpListener, is_over: &AtomicBool, pages: &Arc<Pages>) {
    let places = AnswerSlots::default();
    for stream in listener.incoming().flatten() {
        if is_over.load(Ordering::Acquire) {
            return;
        }
        let (place, pages) = (places.take(), Arc::clone(pages));
        // Who hangs up is no concern of the run, and neither is one that no thread can be started for.
        let _ = thread::Builder::new().name("page".into()).stack_size(STACK).spawn(move || {
            let _ = answer(stream, &pages);
            drop(place);
        });
    }
}

/// How many requests are being answered.
#[derive(Clone, Default)]
struct AnswerSlots(Arc<(Mutex<usize>, Condvar)>);

impl AnswerSlots {
    /// Waits for one that is free, and takes it until it is dropped.
    fn take(&self) -> AnswerSlot {
        let (taken, freed) = &*self.0;
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = freed.wait_while(taken, |taken| *taken >= AT_ONCE);
        *taken.unwrap_or_else(PoisonError::into_inner) += 1;
        AnswerSlot(self.clone())
    }
}

struct AnswerSlot(AnswerSlots);

impl Drop for AnswerSlot {
    fn drop(&mut self) {
        let (taken, freed) = &*self.0.0;
        *taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        freed.notify_one();
    }
}

/// Answers one request.
fn answer(mut stream: TcpStream, served: &Pages) -> io::Result<()> {
    stream.set_write_timeout(Some(TIME_OUT))?;
    let page_at = |target: &str| {
        let path = target.split('?').next();
        let found = served.pages.iter().find(|(it, _)| Some(it.as_str()) == path);
        found.map(|(_, page)| page.as_ref())
    };
    let (status, body) = match read_request(&mut stream)? {
        Ok(request) if served.only_here && !is_own_host(request.host.as_deref()) => {
            ("421 Misdirected Request", "requested by a name other than localhost or the address".to_owned())
        }
        Ok(request) if request.method != "GET" => ("405 Method Not Allowed", "only GET is answered".to_owned()),
        Ok(request) => match page_at(&request.target) {
            Some(page) => match page.refresh() {
                Ok(()) => return take_leave(&mut send(stream, page, request.minor)?),
                Err(why) => ("503 Service Unavailable", why),
            },
            None => ("404 Not Found", "no such page".to_owned()),
        },
        Err(status) => (status, String::new()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}\n",
        body.len() + 1
    )?;
    take_leave(&mut stream)
}

/// Whether a request names a server of the loopback interface.
fn is_own_host(host: Option<&str>) -> bool {
    let Some(host) = host else {
        // No browser leaves it out.
        return true;
    };
    // With any port: others may lead here.
    let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = port.map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = address.parse().is_ok_and(|it: IpAddr| it.to_canonical().is_loopback());
    is_loopback || name.trim_end_matches('.').eq_ignore_ascii_case("localhost")
}

/// Sends the page in pieces, as the protocol's version lets one.
fn send(mut stream: TcpStream, page: &dyn Page, minor: u8) -> io::Result<TcpStream> {
    let chunked = minor >= 1;
    let encoding = if chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {}\r\n{encoding}Connection: close\r\n\r\n", page.content_type())?;
    let mut pieces = Pieces {
        stream,
        chunked,
        waiting: Vec::with_capacity(PIECE),
        deadline: Instant::now() + TIME_OUT,
        error: None,
    };
    match page.write(&mut pieces) {
        Ok(()) => pieces.finish(),
        // Without the last piece the client knows that something is missing.
        Err(fmt::Error) => Err(pieces.error.unwrap_or_else(|| io::Error::other("no page"))),
    }
}

/// A page on its way.
struct Pieces {
    stream: TcpStream,
    chunked: bool,
    waiting: Vec<u8>,
    /// Who takes a byte now and then is not waited for longer than anybody else.
    deadline: Instant,
    error: Option<io::Error>,
}

impl Pieces {
    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() >= self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if self.chunked {
            write!(self.stream, "{:x}\r\n", self.waiting.len())?;
            self.waiting.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<TcpStream> {
        self.flush()?;
        if self.chunked {
            self.stream.write_all(b"0\r\n\r\n")?;
        }
        Ok(self.stream)
    }
}

impl fmt::Write for Pieces {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(PIECE) {
            if self.waiting.len() + piece.len() > PIECE
                && let Err(e) = self.flush()
            {
                self.error = Some(e);
                return Err(fmt::Error);
            }
            self.waiting.extend_from_slice(piece);
        }
        Ok(())
    }
}

/// Takes what is still on its way of a request: a close before that would take the answer back.
fn take_leave(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(LEAVE))?;
    let rest = stream.take(LONGEST_REQUEST as u64);
    io::copy(&mut { rest }, &mut io::sink())?;
    Ok(())
}

struct Request {
    method: String,
    target: String,
    host: Option<String>,
    /// The second number of the version.
    minor: u8,
}

/// Reads a request; the status of one that cannot be answered.
fn read_request(stream: &mut TcpStream) -> io::Result<Result<Request, &'static str>> {
    let deadline = Instant::now() + TIME_OUT;
    let mut bytes = Vec::with_capacity(LONGEST_REQUEST);
    let mut piece = [0; 1_024];
    while bytes.len() < LONGEST_REQUEST {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Err("408 Request Timeout"));
        }
        stream.set_read_timeout(Some(left))?;
        let length = match stream.read(&mut piece)? {
            0 => return Ok(Err("400 Bad Request")),
            length => length,
        };
        bytes.extend_from_slice(piece.get(..length).unwrap_or_default());
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        match (head.parse(&bytes), head.method, head.path, head.version) {
            (Ok(status), Some(method), Some(target), Some(minor)) if status.is_complete() => {
                let mut hosts = head.headers.iter().filter(|it| it.name.eq_ignore_ascii_case("host"));
                let host = hosts.next().map(|it| String::from_utf8_lossy(it.value).into_owned());
                return Ok(match hosts.next() {
                    Some(_) => Err("400 Bad Request"),
                    None => Ok(Request { method: method.to_owned(), target: target.to_owned(), host, minor }),
                });
            }
            (Ok(_), ..) => {}
            (Err(_), ..) => return Ok(Err("400 Bad Request")),
        }
    }
    Ok(Err("431 Request Header Fields Too Large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some lines.
    struct Lines(usize);

    impl Page for Lines {
        fn content_type(&self) -> &'static str {
            "text/x-lines"
        }

        fn write(&self, out: &mut dyn fmt::Write) -> fmt::Result {
            (0..self.0).try_for_each(|line| writeln!(out, "line {line}"))
        }
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A refusal may be reset behind the answer.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn requests_are_answered_or_refused_and_nobody_is_waited_for() {
        let address = serve_page("127.0.0.1:0", "/own", Lines(2)).unwrap();
        let chunked = ask(address, "GET /own?x HTTP/1.1\r\n\r\n");
        let expected = "Content-Type: text/x-lines\r\nTransfer-Encoding: chunked\r\n\
            Connection: close\r\n\r\ne\r\nline 0\nline 1\n\r\n0\r\n\r\n";
        assert!(chunked.ends_with(expected), "{chunked:?}");
        let plain = ask(address, "GET /own HTTP/1.0\r\n\r\n");
        assert!(plain.ends_with("Connection: close\r\n\r\nline 0\nline 1\n"), "{plain:?}");
        for [request, status] in testkit::table(include_str!("../tests/data/requests.txt")) {
            let request = request.replace('\n', "\r\n");
            testkit::assert_begins(ask(address, &request), format!("HTTP/1.1 {status} "));
        }
        // Unread bytes behind a request take no answer back.
        let behind = format!("GET /own HTTP/1.1\r\n\r\n{}", "x".repeat(5_000));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(behind.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("0\r\n\r\n"), "{answer}");
        // Who lets others in lets them use any name.
        let open = serve_page("0.0.0.0:0", "/own", Lines(2)).unwrap();
        let open = SocketAddr::new(address.ip(), open.port());
        testkit::assert_begins(ask(open, "GET /own HTTP/1.1\r\nHost: any.example\r\n\r\n"), "HTTP/1.1 200");
        assert!(!ask(address, &format!("GET /{}", "x".repeat(LONGEST_REQUEST))).starts_with("HTTP/1.1 200"));
        // Who sends a byte now and then is not waited for longer than anybody else.
        let begun = Instant::now();
        let mut slow = TcpStream::connect(address).unwrap();
        while begun.elapsed() < 5 * TIME_OUT && slow.write_all(b"G").is_ok() {
            thread::sleep(TIME_OUT / 10);
        }
        assert!(begun.elapsed() < 4 * TIME_OUT, "{:?}", begun.elapsed());
        assert!(ask(address, "GET /own HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    }

    #[test]
    fn who_connects_and_does_not_ask_holds_up_nobody() {
        let address = serve_page("127.0.0.1:0", "/own", Lines(2)).unwrap();
        let connect = || TcpStream::connect(address).unwrap();
        let few: Vec<TcpStream> = (0..AT_ONCE / 2).map(|_| connect()).collect();
        let begun = Instant::now();
        assert!(ask(address, "GET /own HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(begun.elapsed() < TIME_OUT / 2, "{:?}", begun.elapsed());
        // More than are answered at a time: as long as they are waited for.
        let many: Vec<TcpStream> = (0..2 * AT_ONCE).map(|_| connect()).collect();
        assert!(ask(address, "GET /own HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
        assert!(begun.elapsed() < 5 * TIME_OUT, "{:?}", begun.elapsed());
        drop((few, many));
    }

    #[test]
    fn a_long_page_arrives_whole_and_one_that_nobody_takes_is_given_up() {
        let address = serve_page("127.0.0.1:0", "/", Lines(2_000_000)).unwrap();
        // It asks, and takes nothing.
        let mut idle = TcpStream::connect(address).unwrap();
        idle.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let begun = Instant::now();
        let page = ask(address, "GET / HTTP/1.0\r\n\r\n");
        assert!(begun.elapsed() < 5 * TIME_OUT, "{:?}", begun.elapsed());
        let (_, body) = page.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.lines().count(), 2_000_000);
        assert!(body.ends_with("line 1999999\n"));
    }
}
