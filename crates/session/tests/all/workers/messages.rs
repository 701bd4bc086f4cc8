//! Messages and slices arrive as they were sent, and whatever else arrives does no harm.

use std::fs;
use std::path::Path;

use fleet::{
    Envelope, LoadOutcome, MOST_BYTES, Piece, PieceRequest, Share, SliceReader, SliceWriter, ToCoordinator, ToWorker,
    WorkerFacts, WorkerState, fuzzing,
};
use measure::ledger::LedgerPart;
use measure::{Metric, MetricKind, Nanos, Phase, Slice, SliceRecorder, Time};
use testkit::{Random, assert_has};

fn number(random: &mut Random) -> u64 {
    let power = random.below(47);
    (random.below(1 << 31) << 16 | random.below(1 << 16)) >> power
}

fn fill(recorder: &mut SliceRecorder, random: &mut Random) {
    for metric in Metric::MESSAGES {
        for _ in 0..random.below(60) {
            let (latency, count) = (Nanos(number(random)), random.below(1_000));
            recorder.record_n(metric, latency, count);
        }
    }
}

/// Slices with all that one can hold.
fn slice(random: &mut Random) -> Slice {
    let mut slice = Slice::default();
    slice.reset(Time(number(random)), random.of(&Phase::ALL));
    slice.end = slice.start + Nanos(number(random));
    slice.ends_phase = random.one_in(4);
    slice.loop_lag_max = Nanos(number(random));
    slice.counters.sent = number(random);
    slice.counters.late = number(random);
    slice.waits.ready = Nanos(number(random));
    slice.waits.loop_time = Nanos(number(random));
    let (churned, most) = (("fleet_churned", MetricKind::Counter), ("fleet_most", MetricKind::Peak));
    for (key, kind) in [churned, most] {
        let metric = Metric::named(key, kind).expect("a key");
        let value = number(random);
        if kind == MetricKind::Peak { slice.counts.peak(metric, value) } else { slice.counts.add(metric, value) }
    }
    fill(&mut slice.latencies, random);
    if random.one_in(2) {
        fill(slice.carried.get_or_insert_default(), random);
    }
    slice
}

fn buckets(recorder: &SliceRecorder) -> Vec<(Metric, usize, u64)> {
    let all = recorder.filled().flat_map(|(metric, it)| it.buckets().map(move |(bucket, n)| (metric, bucket, n)));
    all.collect()
}

pub(crate) fn assert_same(a: &Slice, b: &Slice) {
    assert_eq!((a.start, a.end, a.phase, a.ends_phase), (b.start, b.end, b.phase, b.ends_phase));
    assert_eq!((a.counters, a.waits, a.loop_lag_max), (b.counters, b.waits, b.loop_lag_max));
    assert!(a.counts.iter().eq(b.counts.iter()));
    assert_eq!(buckets(&a.latencies), buckets(&b.latencies));
    let carried = |it: &Slice| it.carried.as_ref().map(buckets).unwrap_or_default();
    assert_eq!(carried(a), carried(b));
}

#[test]
fn slices_are_read_and_added_bit_by_bit() {
    let (mut writer, mut reader, mut read) = (SliceWriter::default(), SliceReader::default(), Slice::default());
    for seed in testkit::seeds(40) {
        let mut random = Random::new(seed);
        let (one, mut other) = (slice(&mut random), slice(&mut random));
        let data = [&one, &other].map(|it| writer.write(it));
        reader.read(&data[0], &mut read).unwrap();
        assert_same(&read, &one);
        assert_eq!(reader.add(&data[1], &mut read).is_ok(), one.phase == other.phase, "of one phase");
        if one.phase == other.phase {
            other.merge(&one);
            assert_same(&read, &other);
        }
    }
}

fn facts(name: &str) -> WorkerFacts {
    WorkerFacts { name: name.to_owned(), version: "1".to_owned(), cores: 2, ..WorkerFacts::default() }
}

fn to_coordinator(random: &mut Random, writer: &mut SliceWriter) -> ToCoordinator {
    let at = Time(number(random));
    match random.below(11) {
        0 => ToCoordinator::Join(facts("a")),
        1 => ToCoordinator::Status { facts: facts("\u{1b}[31m"), state: WorkerState::Armed, run: "r".to_owned() },
        2 => ToCoordinator::Refused { why: "no broker".to_owned() },
        3 => ToCoordinator::Echo { sent: at, received: at, replied: at },
        4 => ToCoordinator::Started { at, late: Nanos(number(random)) },
        5 => ToCoordinator::Event(serde_json::json!({"Lost": {"at": at.0, "detail": "reset"}})),
        6 => ToCoordinator::Ended(Box::new(LoadOutcome { start: at, spun: true, ..LoadOutcome::default() })),
        7 => ToCoordinator::Censored(writer.write(&slice(random))),
        9 => ToCoordinator::Ledger((0..random.below(99)).map(|n| n as u8).collect()),
        8 => ToCoordinator::Heartbeat { state: random.of(&WorkerState::ALL) },
        _ => ToCoordinator::Slice(writer.write(&slice(random))),
    }
}

#[test]
fn messages_arrive_as_they_were_sent_and_damaged_ones_do_no_harm() {
    let (mut writer, mut reader, mut sink) = (SliceWriter::default(), SliceReader::default(), Slice::default());
    for seed in testkit::seeds(400) {
        let mut random = Random::new(seed);
        let head = [0; 4].map(|_: u64| number(&mut random));
        let body = to_coordinator(&mut random, &mut writer);
        let [epoch, session, number, received] = head;
        let envelope = Envelope { epoch, session, number, received, stamp: Time(received), body };
        let mut bytes = envelope.encode().unwrap();
        assert_eq!(Envelope::<ToCoordinator>::decode(&bytes), Ok(envelope));
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(3) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] ^= 1 << random.below(8),
                _ => bytes.insert(at, random.below(256) as u8),
            }
        }
        let decoded = Envelope::<ToCoordinator>::decode(&bytes);
        if let Ok(Envelope { body: ToCoordinator::Slice(data) | ToCoordinator::Censored(data), .. }) = decoded {
            let _ = reader.read(&data, &mut sink);
        }
        let _ = Envelope::<ToWorker>::decode(&bytes);
    }
}

#[test]
fn other_versions_and_sizes_are_refused_and_no_plan_is_printed() {
    let share = Share { worker: 1, workers: 3, plan: "amqp://guest:secret@host".to_owned(), run_id: 7, files: 12 };
    let of =
        |share| Envelope { epoch: 1, session: 2, number: 3, received: 4, stamp: Time(5), body: ToWorker::Share(share) };
    let envelope = of(share.clone());
    assert!(!format!("{envelope:?}").contains("secret"));
    let bytes = envelope.encode().unwrap();
    assert_eq!(Envelope::<ToWorker>::decode(&bytes), Ok(envelope));
    let text = String::from_utf8(bytes).unwrap().replace("\"version\":1", "\"version\":2");
    let other = text.replace("Share", "Part");
    for text in [text, other] {
        let error = Envelope::<ToWorker>::decode(text.as_bytes()).unwrap_err();
        assert_has(error.to_string(), ["version 2", "this bellows speaks 1"]);
    }
    let error = of(Share { plan: "x".repeat(MOST_BYTES), ..share }).encode().unwrap_err();
    assert_has(error.to_string(), ["1048576 are the most"]);
    assert!(Envelope::<ToWorker>::decode(&vec![b'['; MOST_BYTES + 1]).is_err());
    assert!(Envelope::<ToWorker>::decode(&vec![b'['; 100_000]).is_err());
    let request = PieceRequest::new(3, "run".to_owned(), "run.json".to_owned(), 7);
    assert_eq!(PieceRequest::decode(&request.encode().unwrap()), Ok(request.clone()));
    let mut piece = Piece::answer(&request, 5, "w1".to_owned());
    piece.bytes = b"\n{\n".to_vec();
    let bytes = piece.encode().unwrap();
    assert_eq!(Piece::decode(&bytes), Ok(piece.clone()));
    assert!(Piece::decode(&bytes[..20]).is_err() && PieceRequest::decode(&bytes).is_err());
    piece.bytes = vec![0; MOST_BYTES];
    assert!(piece.encode().is_err());
    // A bomb: 64 MB of zeros.
    let mut bomb = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    (0..64).for_each(|_| std::io::Write::write_all(&mut bomb, &vec![0; 1 << 20]).unwrap());
    let mut bytes = vec![0xb5, 1, 1, 1, 1, 1, 1, 1];
    bytes.extend(bomb.finish().unwrap());
    let Ok(Envelope { body: ToCoordinator::Slice(data), .. }) = Envelope::<ToCoordinator>::decode(&bytes) else {
        panic!("no slice")
    };
    assert!(SliceReader::default().read(&data, &mut Slice::default()).is_err());
}

/// Whoever adds such things up would overflow, or count seconds until the end of time.
#[test]
fn what_no_worker_has_is_refused() {
    let mut slice = Slice::default();
    slice.reset(Time(1 << 50), Phase::Measure);
    for (end, is_fine) in [(1 << 51, false), (u64::MAX, false), ((1 << 50) + 3_600_000_000_000, true)] {
        slice.end = Time(end);
        let read = SliceReader::default().read(&SliceWriter::default().write(&slice), &mut Slice::default());
        assert_eq!(read.is_ok(), is_fine, "{end}");
    }
    slice.reset(Time(u64::MAX), Phase::Measure);
    assert!(SliceReader::default().read(&SliceWriter::default().write(&slice), &mut Slice::default()).is_err());
    let labels = (0..1_000).map(|at| (at.to_string(), "x".repeat(20))).collect();
    let body = ToCoordinator::Join(WorkerFacts { labels, ..facts("a") });
    let bytes = Envelope { epoch: 0, session: 2, number: 0, received: 0, stamp: Time(5), body }.encode().unwrap();
    let refused = Envelope::<ToCoordinator>::decode(&bytes).unwrap_err();
    assert_has(refused.to_string(), ["bytes of names", "16384 are the most"]);
}

/// The corpora of the fuzz targets of these names.
#[test]
fn each_corpus_of_a_fleet_is_replayed() {
    type Entry = fn(&[u8]);
    let targets: [(&str, Entry); 3] =
        [("fleet_message", fuzzing::message), ("fleet_piece", fuzzing::piece), ("ledger_part", fuzzing::ledger)];
    for (target, entry) in targets {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let seeds = fs::read_dir(&folder).unwrap().map(|it| fs::read(it.unwrap().path()).unwrap());
        let seeds: Vec<Vec<u8>> = seeds.collect();
        seeds.iter().for_each(|seed| entry(seed));
        assert!(seeds.len() >= 4, "{target}");
    }
    let slice = include_bytes!("../../../../../fuzz/corpus/fleet_message/seed-slice");
    let Ok(Envelope { body: ToCoordinator::Slice(data), .. }) = Envelope::<ToCoordinator>::decode(slice) else {
        panic!("no slice")
    };
    assert_eq!(SliceReader::default().read(&data, &mut Slice::default()), Ok(()));
    let [_, parts @ ..] = include_bytes!("../../../../../fuzz/corpus/ledger_part/seed-one");
    assert!(LedgerPart::sum(&[LedgerPart::new(parts.to_vec())]).is_some());
}
