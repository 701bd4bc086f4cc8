//! AMQP 1.0 of the bare program. The client of `wire` opens a connection, a session and a link; then frames are looked
//! at no closer than counting needs.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, bail};
use measure::Clock;
use wire::amqp10::{
    Amqp10Client, Amqp10Config, Amqp10Event, Attach, Composite, Flow, HeaderSection, MessageHead, PropertiesSection,
    Source, Symbol, Target, TransferTemplate, TypedValue,
};
use wire::amqp091::Reader;

use super::setup::connect;

/// Bytes of a frame before its performative.
const HEAD: usize = 8;
/// Performatives by their numbers.
const FLOW: u8 = 0x13;
const TRANSFER: u8 = 0x14;
const DISPOSITION: u8 = 0x15;
/// Frames that the broker may send before it hears again, as in bellows.
const WINDOW: u32 = 1 << 16;

/// A connection with one session and one link, whose numbers are 0, on a socket that blocks.
pub struct LinkSession {
    stream: TcpStream,
    client: Amqp10Client,
    input: Vec<u8>,
}

impl LinkSession {
    /// Logs in as guest, and attaches a link to an address of the broker's.
    pub fn open(address: &str, link: &str, is_receiver: bool) -> Result<Self> {
        let config = Amqp10Config { container_id: "floor".to_owned(), ..Amqp10Config::default() };
        let client = Amqp10Client::new(config, Clock.now());
        let mut session = Self { stream: connect(address)?, client, input: Vec::new() };
        session.wait(|event| matches!(event, Amqp10Event::Open { .. })).context("log in")?;
        session.client.begin(0)?;
        // RabbitMQ's addresses begin with a slash; Artemis has to hear that a name is a queue's.
        let queue = if link.starts_with('/') { TypedValue::Null } else { TypedValue::Symbol(Symbol("queue")) };
        let address = TypedValue::Str(link);
        let mut target = Vec::new();
        Target { address, capabilities: queue, ..Target::default() }.write(&mut target);
        let attach = Attach {
            name: "floor",
            is_receiver,
            snd_settle_mode: Some(0),
            source: Some(Source { address, capabilities: queue, ..Source::default() }),
            target: TypedValue::read(&mut Reader::new(&target))?,
            initial_delivery_count: (!is_receiver).then_some(0),
            ..Attach::default()
        };
        session.client.attach(0, &attach)?;
        session.wait(|event| matches!(event, Amqp10Event::Attached { exists: true, .. })).context("attach")?;
        Ok(session)
    }

    /// A sender's answers, once the broker has given it credit.
    pub fn outcomes(&mut self) -> Result<Outcomes> {
        while self.client.credit(0, 0, 1) == 0 {
            self.wait(|event| matches!(event, Amqp10Event::Flow { .. })).context("credit")?;
        }
        let credit = self.client.credit(0, 0, 1).into();
        Ok(Outcomes { link: credit, session: credit })
    }

    /// A batch of messages of at most `most` bytes, the length of each, and where its delivery id and its tag stand.
    pub fn messages(&mut self, size: usize, persistent: bool, most: usize) -> Result<(Vec<u8>, usize, [usize; 2])> {
        self.write()?;
        let header = HeaderSection { durable: Some(persistent), ..HeaderSection::default() };
        let head = MessageHead { header, properties: PropertiesSection::default(), application_properties: &[] };
        let template = TransferTemplate::new(0, 0, false, &head, self.client.frame_max())?;
        let (frames, message) = template.wire_len(size);
        let body = vec![0; size];
        for _ in 0..most / message {
            self.client.publish(&template, &body, |_| {});
        }
        let bytes = self.client.pending_output().to_vec();
        self.client.consume_output(bytes.len());
        // The last bytes of two numbers are all in which the first message and the second differ.
        let pairs = bytes.iter().zip(bytes.iter().skip(message)).take(message).enumerate();
        let ids: Vec<usize> = pairs.filter(|(_, (one, other))| one != other).map(|(at, _)| at).collect();
        match *ids {
            [id, tag] if frames == 1 => Ok((bytes, message, [id - 3, tag - 3])),
            _ => bail!("a message of {size} bytes is no single frame with an id and a tag"),
        }
    }

    /// A receiver's deliveries, of which at most `prefetch` are on their way; they begin to come.
    pub fn transfers(&mut self, prefetch: u32) -> Result<Transfers> {
        self.write()?;
        self.client.flow(0, 0, prefetch, false);
        let flow = Flow::read(&mut Reader::new(&self.client.pending_output()[HEAD..]))?;
        let [next_incoming_id, delivery_count] =
            [flow.next_incoming_id, flow.delivery_count].map(|number| number.unwrap_or(0));
        Ok(Transfers { prefetch, next_incoming_id, delivery_count, first: None })
    }

    /// The socket, which no longer blocks, and what was read and not used.
    pub fn into_parts(mut self) -> Result<(mio::net::TcpStream, Vec<u8>)> {
        self.write()?;
        self.stream.set_nonblocking(true)?;
        Ok((mio::net::TcpStream::from_std(self.stream), self.input))
    }

    fn write(&mut self) -> Result<()> {
        while !self.client.pending_output().is_empty() {
            let written = self.stream.write(self.client.pending_output())?;
            self.client.consume_output(written);
        }
        Ok(())
    }

    /// Sends what waits, and takes events up to the one that is meant.
    fn wait(&mut self, is_meant: fn(&Amqp10Event<'_>) -> bool) -> Result<()> {
        loop {
            let mut rest = self.input.as_slice();
            let mut found = false;
            while !found && let Some(event) = self.client.poll(Clock.now(), &mut rest)? {
                found = is_meant(&event);
                if let Amqp10Event::Detached { .. } | Amqp10Event::Ended { .. } | Amqp10Event::Closed { .. } = event {
                    bail!("the broker refused: {event:?}");
                }
            }
            let taken = self.input.len() - rest.len();
            self.input.drain(..taken);
            if found {
                return Ok(());
            }
            self.write()?;
            let mut piece = [0; 4096];
            let read = self.stream.read(&mut piece).context("no answer")?;
            if read == 0 {
                bail!("the broker closed the connection");
            }
            self.input.extend_from_slice(&piece[..read]);
        }
    }
}

/// Walks over whole frames, hands on a performative's number and its fields, and tells how many bytes they were.
#[inline]
fn walk(bytes: &[u8], mut frame: impl FnMut(u8, &[u8]) -> Result<()>) -> Result<usize> {
    let mut at = 0;
    while let Some(size) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let size = u32::from_be_bytes(*size) as usize;
        let Some(body) = bytes.get(at + HEAD..at + size) else { break };
        match body {
            [0, 0x53, code, 0xc0, _, _, fields @ ..] | [0, 0x53, code, 0xd0, _, _, _, _, _, _, _, _, fields @ ..] => {
                frame(*code, fields)?;
            }
            // A heartbeat.
            [] => {}
            _ => bail!("the broker sent a frame without a performative's list"),
        }
        at += size;
    }
    Ok(at)
}

#[cold]
fn unexpected(code: u8) -> Result<()> {
    bail!("the broker sent an unexpected performative {code:#x}, or refused a message")
}

/// Takes the next field, a number; `None` where it is null, or something else, which then stays.
#[inline]
fn number(fields: &mut &[u8]) -> Option<u32> {
    let (number, rest) = match *fields {
        [0x40, rest @ ..] => (None, rest),
        [0x43, rest @ ..] => (Some(0), rest),
        [0x52, byte, rest @ ..] => (Some(u32::from(*byte)), rest),
        [0x70, a, b, c, d, rest @ ..] => (Some(u32::from_be_bytes([*a, *b, *c, *d])), rest),
        _ => return None,
    };
    *fields = rest;
    number
}

/// Messages that the link's credit and the session's window allow, counted from the first.
pub struct Outcomes {
    link: u64,
    session: u64,
}

impl Outcomes {
    /// Messages that may be sent in all.
    pub fn limit(&self) -> u64 {
        self.link.min(self.session)
    }

    /// Counts accepted messages, and takes credit.
    #[inline]
    pub fn take(&mut self, bytes: &[u8], accepted: &mut u64) -> Result<usize> {
        walk(bytes, |code, mut fields| {
            match (code, fields) {
                // Of this side's messages.
                (DISPOSITION, [0x41, rest @ ..]) => {
                    fields = rest;
                    let (first, last) = (number(&mut fields).unwrap_or(0), number(&mut fields));
                    // Settled, and the descriptor of `accepted`.
                    if !fields.starts_with(&[0x41, 0, 0x53, 0x24]) {
                        return unexpected(code);
                    }
                    *accepted += u64::from(last.unwrap_or(first).wrapping_sub(first)) + 1;
                }
                (FLOW, _) => {
                    let numbers: [Option<u32>; 7] = std::array::from_fn(|_| number(&mut fields));
                    let [next, window, _, _, _, count, credit] = numbers.map(|number| number.map(u64::from));
                    self.session = next.unwrap_or(0) + window.unwrap_or(0);
                    if let Some(credit) = credit {
                        self.link = count.unwrap_or(0) + credit;
                    }
                }
                _ => return unexpected(code),
            }
            Ok(())
        })
    }
}

/// Accepts and settles a delivery, whose number stands at [`FIRST_AT`].
const ACCEPTED: [u8; 26] =
    [0, 0, 0, 26, 2, 0, 0, 0, 0, 0x53, 0x15, 0xc0, 13, 5, 0x41, 0x70, 0, 0, 0, 0, 0x40, 0x41, 0, 0x53, 0x24, 0x45];
const FIRST_AT: usize = 16;

/// Deliveries over a link, each in one frame.
pub struct Transfers {
    prefetch: u32,
    /// Counters of the session and of the link before the first delivery.
    next_incoming_id: u32,
    delivery_count: u32,
    /// The number of the first delivery, once it has come.
    first: Option<u32>,
}

impl Transfers {
    /// Counts deliveries, and appends a disposition of each; a flow after each half of what may be on its way.
    #[inline]
    pub fn take(&mut self, bytes: &[u8], count: &mut u64, out: &mut Vec<u8>) -> Result<usize> {
        walk(bytes, |code, mut fields| {
            if code != TRANSFER {
                return if code == FLOW { Ok(()) } else { unexpected(code) };
            }
            let first = *self.first.get_or_insert_with(|| {
                number(&mut fields);
                number(&mut fields).unwrap_or(0)
            });
            let at = out.len() + FIRST_AT;
            out.extend_from_slice(&ACCEPTED);
            out[at..at + 4].copy_from_slice(&first.wrapping_add(*count as u32).to_be_bytes());
            *count += 1;
            if count.is_multiple_of(u64::from(self.prefetch / 2).max(1)) {
                self.flow(*count as u32, out);
            }
            Ok(())
        })
    }

    fn flow(&self, count: u32, out: &mut Vec<u8>) {
        let [next, delivery_count] =
            [self.next_incoming_id, self.delivery_count].map(|it| Some(it.wrapping_add(count)));
        let (incoming_window, outgoing_window) = (WINDOW, u32::MAX);
        let window = Flow { next_incoming_id: next, incoming_window, outgoing_window, ..Flow::default() };
        put(out, &Flow { handle: Some(0), delivery_count, link_credit: Some(self.prefetch), ..window });
    }
}

/// Appends a frame.
fn put<'a>(out: &mut Vec<u8>, performative: &impl Composite<'a>) {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, 2, 0, 0, 0]);
    performative.write(out);
    let size = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use wire::amqp10::{DeliveryState, Disposition, Transfer};

    use super::*;

    fn framed<'a>(performative: &impl Composite<'a>) -> Vec<u8> {
        let mut frame = Vec::new();
        put(&mut frame, performative);
        frame
    }

    fn answer(first: u32, last: Option<u32>, state: DeliveryState<'_>) -> Vec<u8> {
        let (settled, state) = (Some(true), Some(state));
        framed(&Disposition { is_receiver: true, first, last, settled, state, batchable: None })
    }

    #[test]
    fn accepted_messages_and_credit_are_counted() {
        let (mut outcomes, mut count) = (Outcomes { link: 10, session: 10 }, 0);
        let accepted = |first, last| answer(first, last, DeliveryState::Accepted);
        let flow = |window, credit| {
            let (next_incoming_id, delivery_count) = (Some(400), Some(390));
            let flow = Flow { next_incoming_id, incoming_window: window, delivery_count, ..Flow::default() };
            framed(&Flow { link_credit: credit, ..flow })
        };
        for (frame, accepted, limit) in [
            (accepted(0, None), 1, 10),
            (accepted(1, Some(299)), 300, 10),
            (flow(300, Some(170)), 300, 560),
            (vec![0, 0, 0, 8, 2, 0, 0, 0], 300, 560),
            (flow(50, None), 300, 450),
            (accepted(300, Some(70_000)), 70_001, 450),
        ] {
            assert_eq!(outcomes.take(&frame[..frame.len() - 1], &mut count).unwrap(), 0, "half a frame is left");
            assert_eq!(outcomes.take(&frame, &mut count).unwrap(), frame.len());
            assert_eq!((count, outcomes.limit()), (accepted, limit));
        }
        assert!(outcomes.take(&answer(9, None, DeliveryState::Released), &mut count).is_err());
    }

    #[test]
    fn each_delivery_is_settled_and_half_of_them_renew_the_credit() {
        let mut transfers = Transfers { prefetch: 4, next_incoming_id: u32::MAX, delivery_count: 7, first: None };
        let (mut count, mut out) = (0, Vec::new());
        let ids = [1_000, 1_001];
        let bytes = ids.map(|id| framed(&Transfer { delivery_id: Some(id), ..Transfer::default() })).concat();
        assert_eq!(transfers.take(&bytes, &mut count, &mut out).unwrap(), bytes.len());
        let settled = ids.map(|id| answer(id, None, DeliveryState::Accepted)).concat();
        assert_eq!((count, &out[..settled.len()]), (2, settled.as_slice()));
        let flow = Flow::read(&mut Reader::new(&out[settled.len() + HEAD..])).unwrap();
        assert_eq!((flow.next_incoming_id, flow.delivery_count, flow.link_credit), (Some(1), Some(9), Some(4)));
    }
}
