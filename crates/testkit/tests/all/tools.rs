//! The tools of other tests: the proxy, the slow link, the player of scenes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::{Link, Proxy, play, relay};

#[test]
fn bytes_arrive_whole_and_late() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let link = Link { delay: Duration::from_millis(20), bandwidth: Some(1_000_000) };
    let near = relay(listener.local_addr().unwrap(), link).unwrap();
    let mut client = TcpStream::connect(near).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let began = Instant::now();
    let sent: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    client.write_all(&sent).unwrap();
    let mut got = vec![0; sent.len()];
    server.read_exact(&mut got).unwrap();
    assert!(got == sent);
    assert!(began.elapsed() > Duration::from_millis(90), "{:?}", began.elapsed());
    server.write_all(b"x").unwrap();
    client.read_exact(&mut got[..1]).unwrap();
    assert!(began.elapsed() > Duration::from_millis(110), "{:?}", began.elapsed());
    drop(client);
    assert_eq!(server.read(&mut got).unwrap(), 0, "the end arrives too");
}

#[test]
fn every_scene_is_played_once_and_the_wrong_ones_are_named() {
    let seeds: Vec<u64> = (0..100).collect();
    let count = AtomicUsize::new(0);
    let played = play(&seeds, 7, |seed| {
        count.fetch_add(1, Ordering::Relaxed);
        (seed == 42).then(|| "it is the answer".to_owned())
    });
    assert_eq!(count.into_inner(), 100);
    assert_eq!(played.problems, [(42, "it is the answer".to_owned())]);
    play(&seeds, 7, |_| None).assert_right("--test none");
}

#[test]
fn connections_pass_wait_and_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::new(listener.local_addr().unwrap()).unwrap();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut got = [0; 8];
    client.write_all(b"one").unwrap();
    assert_eq!(server.read(&mut got).unwrap(), 3);
    proxy.hold(true);
    thread::sleep(Duration::from_millis(200));
    client.write_all(b"two").unwrap();
    server.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(server.read(&mut got).is_err(), "held");
    proxy.hold(false);
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(server.read(&mut got).unwrap(), 3);
    proxy.cut(Duration::from_millis(100));
    assert_eq!(client.read(&mut got).unwrap(), 0, "the client sees it");
    server.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    proxy.keep_away(true);
    let mut again = TcpStream::connect(proxy.address()).unwrap();
    assert!(!matches!(again.read(&mut got), Ok(1..)), "kept away");
}
