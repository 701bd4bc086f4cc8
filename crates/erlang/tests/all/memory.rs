//! Memory of a hostile node's messages once they are decoded, where a byte can become a term of its own.

use crate::hostile_node;

use std::io::{Read as _, Write as _};
use std::mem::size_of;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use erlang::term::{Term, TermError, check, decode};
use erlang::{ConnectOptions, Mailbox, Node};
use hostile_node::Peer;
use testkit::Random;

/// The most memory of one message, and of all that wait.
const MOST: u64 = 256 << 20;

/// The memory that a term takes, from the capacities of what it allocates; the allocator's own share is left out.
fn footprint(term: &Term) -> u64 {
    (size_of::<Term>() + allocated(term)) as u64
}

fn allocated(term: &Term) -> usize {
    let all = |terms: &Vec<Term>| -> usize {
        let inner: usize = terms.iter().map(allocated).sum();
        terms.capacity() * size_of::<Term>() + inner
    };
    match term {
        Term::Atom(it) => it.name.capacity(),
        Term::FixInteger(_) | Term::Float(_) => 0,
        Term::BigInteger(it) => it.value.bits().div_ceil(8) as usize,
        Term::Pid(it) => it.node.name.capacity(),
        Term::Port(it) => it.node.name.capacity(),
        Term::Reference(it) => size_of_val(it.as_ref()) + it.node.name.capacity() + 4 * it.id.capacity(),
        Term::ExternalFun(it) => size_of_val(it.as_ref()) + it.module.name.capacity() + it.function.name.capacity(),
        Term::InternalFun(it) => size_of_val(it.as_ref()),
        Term::Binary(it) => it.bytes.capacity(),
        Term::BitBinary(it) => it.bytes.capacity(),
        Term::ByteList(it) => it.bytes.capacity(),
        Term::List(it) => all(&it.elements),
        Term::ImproperList(it) => all(&it.elements) + size_of::<Term>() + allocated(&it.last),
        Term::Tuple(it) => all(&it.elements),
        Term::Map(it) => {
            let places = it.map.capacity() * 8 / 7;
            let inner: usize = it.map.iter().map(|(k, v)| allocated(k) + allocated(v)).sum();
            places * (2 * size_of::<Term>() + 1) + inner
        }
    }
}

/// A term of any kind, its lists and maps smaller the deeper they are.
fn random_term(random: &mut Random, depth: u32, bytes: &mut Vec<u8>) {
    let name = |random: &mut Random, bytes: &mut Vec<u8>| {
        let length = random.below(40) as u8;
        bytes.extend([random.of(&[115, 119]), length]);
        bytes.extend(vec![b'a'; usize::from(length)]);
    };
    let kind = random.below(if depth < 6 { 15 } else { 9 });
    let count = random.below((24_u64 >> depth.min(4)) + 1) as u32;
    let length = random.below(64) as u8;
    match kind {
        0 => bytes.push(106),
        1 => bytes.extend([97, 7]),
        2 => bytes.extend([98, 1, 2, 3, 4]),
        3 => name(random, bytes),
        4 => bytes.extend([vec![109, 0, 0, 0, length], vec![1; usize::from(length)]].concat()),
        5 => bytes.extend([vec![110, length, 0], vec![255; usize::from(length)]].concat()),
        6 => {
            bytes.push(88);
            name(random, bytes);
            bytes.extend([0; 12]);
        }
        7 => {
            bytes.extend([90, 0, 3]);
            name(random, bytes);
            bytes.extend([0; 16]);
        }
        8 => {
            bytes.push(113);
            name(random, bytes);
            name(random, bytes);
            bytes.extend([97, 2]);
        }
        9 | 10 => bytes.extend([104, count as u8]),
        11 | 12 => bytes.extend([&[108][..], &count.to_be_bytes()].concat()),
        13 => {
            let length = random.below(300) as u16;
            bytes.push(107);
            bytes.extend(length.to_be_bytes());
            bytes.extend(vec![b'x'; usize::from(length)]);
        }
        _ => bytes.extend([&[116][..], &count.to_be_bytes()].concat()),
    }
    let children = if [9, 10, 11, 12, 14].contains(&kind) { count } else { 0 };
    for key in 0..children {
        if kind == 14 {
            bytes.push(98);
            bytes.extend(key.to_be_bytes());
        }
        random_term(random, depth + 1, bytes);
    }
    if [11, 12].contains(&kind) {
        if random.one_in(4) { random_term(random, depth + 1, bytes) } else { bytes.push(106) }
    }
}

#[test]
fn a_term_takes_no_more_memory_than_was_counted_before() {
    let mut largest = 0;
    for seed in testkit::seeds(400) {
        let mut random = Random::new(seed);
        let mut bytes = vec![131];
        random_term(&mut random, 0, &mut bytes);
        let size = check(&bytes).expect("a term");
        assert_eq!(size.bytes, bytes.len());
        let taken = footprint(&decode(&bytes).expect("decoded"));
        assert!(taken <= size.memory, "seed {seed}: {taken} of {size:?}");
        // Nor is far more counted than is taken, which would refuse what has room.
        let allocations = 32 * bytes.len() as u64 + 512;
        assert!(size.memory <= 4 * taken + allocations, "seed {seed}: {taken} of {size:?}");
        largest = largest.max(taken);
    }
    assert!(largest > 20_000, "{largest}: the scenes are too small");
}

fn list_of(count: u32, element: &[u8]) -> Vec<u8> {
    let mut bytes = vec![131, 108];
    bytes.extend(count.to_be_bytes());
    bytes.extend(element.repeat(count as usize));
    bytes.push(106);
    bytes
}

/// Maps as keys and values of maps, `depth` times.
fn nested_maps(depth: u32) -> Vec<u8> {
    match depth {
        0 => vec![106],
        _ => {
            let inner = nested_maps(depth - 1);
            let mut bytes = vec![116, 0, 0, 0, 2, 97, 0];
            bytes.extend(&inner);
            bytes.extend([97, 1]);
            bytes.extend(&inner);
            bytes
        }
    }
}

#[test]
fn small_terms_that_become_large_are_refused() {
    let refused = |bytes: &[u8]| matches!(decode(bytes), Err(TermError::TooLarge(MOST)));
    // Tuples and lists of one element, maps of none and of one.
    assert!(refused(&list_of(2_000_000, &[104, 1, 106])));
    assert!(refused(&list_of(1_300_000, &[108, 0, 0, 0, 1, 106, 106])));
    assert!(refused(&list_of(1_300_000, &[116, 0, 0, 0, 0])));
    assert!(refused(&list_of(900_000, &[116, 0, 0, 0, 1, 106, 106])));
    assert!(refused(&list_of(3_500_000, &[119, 0])));
    assert!(refused(&list_of(1_300_000, &nested_maps(1))));
    // Others that are as long have room.
    assert!(decode(&list_of(2_000_000, &[106])).is_ok());
    assert!(decode(&list_of(200_000, &[104, 1, 106])).is_ok());
    assert!(decode(&[&[131][..], &nested_maps(12)].concat()).is_ok());
}

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.split_whitespace().next());
    kb.and_then(|kb| kb.parse::<u64>().ok()).expect("a peak") << 10
}

fn frame(us: &Peer, to: u32, message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![112, 131, 104, 3, 97, 2, 119, 0, 88, 119, us.name.len() as u8];
    bytes.extend(us.name.as_bytes());
    bytes.extend(to.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(us.creation);
    bytes.extend(message);
    let mut whole = u32::try_from(bytes.len()).expect("short").to_be_bytes().to_vec();
    whole.extend(bytes);
    whole
}

/// The answer to the first call: the release, for the reference in it.
fn release(stream: &mut TcpStream, us: &Peer) -> std::io::Result<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size)?;
    let mut call = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut call)?;
    // Three words, after node and creation.
    let length = 5 + us.name.len() + 4 + 12;
    let at = call.windows(4).position(|it| it == [90, 0, 3, 119]);
    let reference = at.and_then(|at| call.get(at..at + length)).expect("a reference");
    let message = [&[131, 104, 2][..], reference, &[109, 0, 0, 0, 2], b"25"].concat();
    Ok(frame(us, 1, &message))
}

/// Runs alone: it looks at the memory of the whole process, which cargo's other threads of tests would raise. So it is
/// this program once more.
#[test]
fn mailboxes_of_a_hostile_node_stay_within_their_memory() {
    const ALONE: &str = "BELLOWS_MEMORY_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let program = std::env::current_exe().expect("this program");
        let ended = std::process::Command::new(program)
            .args(["--exact", "memory::mailboxes_of_a_hostile_node_stay_within_their_memory", "--nocapture"])
            .env(ALONE, "1")
            .output()
            .expect("run");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        return;
    }
    // 100 messages of 2 MB that become 80 MB and more each, and many small ones, for three mailboxes.
    let port = hostile_node::serve(|mut stream, us| {
        let answer = release(&mut stream, &us)?;
        stream.write_all(&answer)?;
        // The next that comes says that there are mailboxes.
        let _ = stream.read(&mut [0; 1_000])?;
        let large = list_of(2_000_000, &[106]);
        let small = list_of(1_000, &[104, 0]);
        for number in 0..100 {
            let to = 2 + number % 3;
            stream.write_all(&frame(&us, to, &large))?;
            for _ in 0..200 {
                stream.write_all(&frame(&us, to, &small))?;
            }
        }
        thread::sleep(Duration::from_secs(60));
        Ok(())
    });
    let address = Some(("127.0.0.1".into(), port));
    let options = ConnectOptions { address, ..hostile_node::options(Duration::from_secs(60)) };
    let node = Node::connect(&options).expect("connected");
    let mailboxes = [node.mailbox(), node.mailbox(), node.mailbox()];
    let before = peak();
    let unanswered = node.call_within(Duration::from_millis(10), "erlang", "node", vec![]);
    unanswered.expect_err("no answer");
    let sent = 100 * 201;
    let until = Instant::now() + Duration::from_secs(120);
    let mut received = 0;
    let dropped = |of: &[Mailbox; 3]| of.iter().map(Mailbox::dropped).sum::<u64>();
    while dropped(&mailboxes) < sent / 2 {
        assert!(Instant::now() < until, "{} are dropped", dropped(&mailboxes));
        thread::sleep(Duration::from_millis(50));
    }
    // Room that is made is used again.
    while dropped(&mailboxes) + received < sent {
        assert!(Instant::now() < until, "{received} of {sent}");
        for mailbox in &mailboxes {
            let message = mailbox.receive(Duration::from_millis(20)).expect("a connection");
            received += u64::from(message.is_some());
        }
    }
    let risen = peak() - before;
    // What waits, what is just decoded, and the frame that it comes from.
    assert!(risen < 3 * MOST, "{} MB", risen >> 20);
    assert!(risen > MOST / 4, "{} MB: it has not come", risen >> 20);
    assert!(received > 0 && dropped(&mailboxes) > 0);
}
