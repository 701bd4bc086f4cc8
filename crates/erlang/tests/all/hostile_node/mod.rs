//! A peer that goes through a node's handshake, and then sends what it likes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use erlang::{ConnectOptions, Cookie};

/// Who we are to the node.
pub(crate) struct Peer {
    pub(crate) creation: [u8; 4],
    pub(crate) name: String,
}

/// Options for the node that it says it is.
pub(crate) fn options(timeout: Duration) -> ConnectOptions {
    let name = "node@127.0.0.1".parse().expect("a name");
    ConnectOptions { timeout, ..ConnectOptions::new(name, Cookie::new("cookie").expect("a cookie")) }
}

/// Serves the first connection, and further ones alike.
pub(crate) fn server(serve: impl Fn(TcpStream) -> std::io::Result<()> + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client hangs up in the middle: that is what it should do.
            let _ = serve(stream);
        }
    });
    port
}

pub(crate) fn message(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut size = [0; 2];
    stream.read_exact(&mut size)?;
    let mut bytes = vec![0; usize::from(u16::from_be_bytes(size))];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn answer(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let size = u16::try_from(bytes.len()).expect("short");
    stream.write_all(&size.to_be_bytes())?;
    stream.write_all(bytes)
}

pub(crate) fn challenge(name: &str) -> Vec<u8> {
    let mut bytes = vec![b'N'];
    bytes.extend(0x0d_07df_7fbd_u64.to_be_bytes());
    bytes.extend([1, 2, 3, 4, 0, 0, 0, 9]);
    bytes.extend(u16::try_from(name.len()).expect("short").to_be_bytes());
    bytes.extend(name.as_bytes());
    bytes
}

/// The server's part of a handshake that leads somewhere, and what it sends then.
pub(crate) fn serve(then: impl Fn(TcpStream, Peer) -> std::io::Result<()> + Send + Sync + 'static) -> u16 {
    server(move |mut stream| {
        let introduced = message(&mut stream)?;
        answer(&mut stream, b"sok")?;
        answer(&mut stream, &challenge("node@127.0.0.1"))?;
        let reply = message(&mut stream)?;
        let challenge = u32::from_be_bytes([reply[1], reply[2], reply[3], reply[4]]);
        let mut ack = vec![b'a'];
        ack.extend(md5::compute(format!("cookie{challenge}")).0);
        answer(&mut stream, &ack)?;
        // Flags, creation, and the name after its length.
        let peer = Peer {
            creation: introduced[9..13].try_into().expect("four bytes"),
            name: String::from_utf8_lossy(&introduced[15..]).into_owned(),
        };
        then(stream, peer)
    })
}
