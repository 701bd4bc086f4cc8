//! Memory of all connections for bodies that come in pieces.

use wire::amqp091::*;

use crate::amqp091::common::{Pair, Random, drain_client};
use crate::amqp091::pair::frames;

const CHANNELS: u16 = 5;

/// A connection with open channels, and the frames that still go to each of them.
struct Receiving {
    pair: Pair,
    frames: Vec<Vec<Vec<u8>>>,
}

impl Receiving {
    fn new(allowance: &BodyAllowance) -> Self {
        let body_allowance = Some(allowance.clone());
        let client = ClientConfig { frame_max: FRAME_MIN_SIZE, body_allowance, ..ClientConfig::default() };
        let mut pair = Pair::open(client, ServerConfig::default());
        for channel in 1..=CHANNELS {
            pair.client.send(channel, &ChannelOpen::default()).expect("sends");
        }
        pair.settle();
        pair.client_log.clear();
        Self { pair, frames: vec![Vec::new(); CHANNELS.into()] }
    }

    /// Carries the next frame of a channel's delivery, or the first of a new one of `size` bytes.
    fn carry(&mut self, channel: u16, size: usize) {
        let waiting = &mut self.frames[usize::from(channel - 1)];
        if waiting.is_empty() {
            let (deliver, server) = (BasicDeliver::default(), &mut self.pair.server);
            server.send_content(channel, &deliver, Properties::NONE, &vec![7; size]).expect("delivers");
            let output = server.pending_output().to_vec();
            server.consume_output(output.len());
            *waiting = frames(&output);
            waiting.reverse();
        }
        let mut bytes = waiting.pop().expect("a frame");
        let (pair, log) = (&mut self.pair, &mut Vec::new());
        drain_client(pair.now, &mut pair.client, &mut bytes, log);
        pair.client_log.append(log);
    }
}

#[test]
fn connections_share_what_there_is_for_bodies_and_give_all_of_it_back() {
    for seed in 1..=100 {
        let random = &mut Random::new(seed);
        let allowance = BodyAllowance::new(10_000 + random.below(60_000) as u64);
        let mut all: Vec<_> = (0..3).map(|_| Receiving::new(&allowance)).collect();
        for _ in 0..400 {
            let at = random.below(all.len());
            let channel = 1 + random.below(CHANNELS.into()) as u16;
            all[at].carry(channel, [100, 4_000, 4_089, 9_000, 30_000][random.below(5)]);
            assert!(allowance.taken() <= allowance.limit(), "seed {seed}");
            let refused = |line: &String| line.contains("RESOURCE_ERROR 506");
            if all[at].pair.client_log.iter().any(refused) {
                all[at] = Receiving::new(&allowance);
            } else if random.below(100) == 0 {
                // Wherever it is.
                all[at].pair.client_log.clear();
                all[at] = Receiving::new(&allowance);
            }
        }
        let logs = all.iter().flat_map(|it| &it.pair.client_log);
        let wrong = logs.clone().find(|line| !line.starts_with("Delivery"));
        assert_eq!(wrong, None, "seed {seed}");
        drop(all);
        assert_eq!(allowance.taken(), 0, "seed {seed}");
    }
}

#[test]
fn a_body_too_many_says_what_is_taken_and_what_may_be() {
    let allowance = BodyAllowance::new(8_000);
    let (mut first, mut second) = (Receiving::new(&allowance), Receiving::new(&allowance));
    for _ in 0..3 {
        first.carry(1, 9_000);
        second.carry(1, 9_000);
    }
    assert_eq!(first.pair.client_log, Vec::<String>::new());
    let said = second.pair.client_log.join(" ");
    assert!(said.contains("4088 bytes") && said.contains("may take 8000"), "{said}");
    drop(first);
    assert_eq!(allowance.taken(), 0);
    let mut third = Receiving::new(&allowance);
    (0..5).for_each(|_| third.carry(1, 7_000));
    assert_eq!(third.pair.client_log.len(), 1, "{:?}", third.pair.client_log);
}
