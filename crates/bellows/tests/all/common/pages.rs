//! Servers of pages and of other answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A request as a server sees it: all lines of its head, and its body.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while reader.read_line(&mut head).ok()? > 2 {}
        let mut request = Self { head, body: Vec::new() };
        let length = request.header("content-length").map_or(0, |it| it.parse().expect("a length"));
        request.body.resize(length, 0);
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    /// The path, and what stands behind it.
    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The address of a server that answers one request of each connection. It serves until the test ends.
pub(crate) fn serve(answer: impl Fn(Request, &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let (listener, address) = super::listener();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                if let Some(request) = Request::read(&stream) {
                    answer(request, &mut stream);
                }
            });
        }
    });
    address
}

/// An answer after which the server closes the connection.
pub(crate) fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// The address of a server whose page takes this long. It serves until the test ends.
pub(crate) fn page_after(pause: Duration) -> String {
    let (listener, address) = super::listener();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let heads = BufReader::new(&stream).lines().map_while(Result::ok);
                for _ in heads.filter(|line| line.is_empty()) {
                    thread::sleep(pause);
                    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na 1\n";
                    if (&stream).write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}/metrics")
}
