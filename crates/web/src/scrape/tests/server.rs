//! A server of pages that answers as it is told.

use std::io::{Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

pub(super) struct Answer {
    head: String,
    body: Vec<u8>,
    /// After the body, until nobody listens any more: these bytes, each after a pause.
    then: Option<(Vec<u8>, Duration)>,
}

impl Answer {
    fn new(head: String, body: &[u8]) -> Self {
        Self { head, body: body.to_vec(), then: None }
    }

    fn followed_by(self, bytes: &[u8], pause: Duration) -> Self {
        Self { then: Some((bytes.to_vec(), pause)), ..self }
    }

    pub(super) fn page(text: &str) -> Self {
        Self::of("text/plain; version=0.0.4", "", text.as_bytes())
    }

    pub(super) fn of(kind: &str, headers: &str, body: &[u8]) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{headers}\r\n");
        Self::new(head, body)
    }

    pub(super) fn gzip(body: &[u8]) -> Self {
        Self::of("text/plain", "Content-Encoding: gzip\r\n", &compressed(body))
    }

    pub(super) fn status(status: &str) -> Self {
        Self::raw(&format!("HTTP/1.1 {status}\r\n"), b"why?")
    }

    /// A first line with its end, and a body.
    pub(super) fn raw(line: &str, body: &[u8]) -> Self {
        Self::new(format!("{line}Content-Length: {}\r\n\r\n", body.len()), body)
    }

    /// A page whose length is not said, behind which the connection stays open.
    pub(super) fn open(kind: &str, body: &[u8]) -> Self {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n");
        Self::new(head, body).followed_by(b"", Duration::from_millis(50))
    }

    /// This answer without its end.
    pub(super) fn cut_off(mut self) -> Self {
        self.body.pop();
        self
    }

    /// Nothing at all, on a connection that stays open.
    pub(super) fn silence() -> Self {
        Self::new(String::new(), b"").followed_by(b"", Duration::from_millis(50))
    }

    /// A body without an end.
    pub(super) fn endless(bytes: &[u8], pause: Duration) -> Self {
        Self::open("text/plain", b"").followed_by(bytes, pause)
    }

    fn write(&self, stream: &mut TcpStream, stop: &AtomicBool) -> std::io::Result<()> {
        stream.write_all(self.head.as_bytes())?;
        stream.write_all(&self.body)?;
        if let Some((bytes, pause)) = &self.then {
            while !stop.load(Ordering::Relaxed) {
                stream.write_all(bytes)?;
                thread::sleep(*pause);
            }
        }
        Ok(())
    }
}

pub(super) fn compressed(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Answers until it is dropped.
pub(super) struct Server {
    port: u16,
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    heard: Arc<Mutex<String>>,
}

impl Server {
    /// A server whose answers follow from the number of the request, from 0 on.
    pub(super) fn start(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            stop: Arc::default(),
            connections: Arc::default(),
            heard: Arc::default(),
        };
        let (stop, connections) = (Arc::clone(&server.stop), Arc::clone(&server.connections));
        let heard = Arc::clone(&server.heard);
        let (answer, requests) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                connections.fetch_add(1, Ordering::Relaxed);
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                let (stop, heard) = (Arc::clone(&stop), Arc::clone(&heard));
                thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    stream.set_nodelay(true).unwrap();
                    while hear(&mut stream, &heard) {
                        let number = requests.fetch_add(1, Ordering::Relaxed);
                        if answer(number).write(&mut stream, &stop).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        server
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.port)
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// All heads of requests.
    pub(super) fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

/// Reads the head of a request; `false` where the connection has ended.
fn hear(stream: &mut TcpStream, heard: &Mutex<String>) -> bool {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    heard.lock().unwrap().push_str(&String::from_utf8_lossy(&head));
    true
}
