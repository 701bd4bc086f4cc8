//! Pages of metrics that tests serve.

use std::io::{BufRead as _, BufReader, Write as _};
use std::thread;
use std::time::Duration;

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
