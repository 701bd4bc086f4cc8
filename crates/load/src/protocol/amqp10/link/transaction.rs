//! A client's transactions: a link to the broker's coordinator, beside the client's own in its session (part 4 of the
//! specification, "Transactions"). One is open at a time. The next is declared together with the request to commit
//! the one before; what comes until the broker has answered both waits.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use wire::amqp10::{
    Amqp10Client, Amqp10Error, Attach, Composite, Condition, DeclareTransaction, DeclaredTransaction, DeliveryState,
    Discharge, Source, Symbol, TransactionCoordinator, TransactionalState, TypedValue,
};
use wire::amqp091::Reader;

use super::{Link, LinkSpec};

/// The handle of the link to the coordinator.
pub(in super::super) const COORDINATOR: u32 = 1;
/// Bytes of the longest id of a transaction; Artemis' have 36.
pub(super) const LONGEST_ID: usize = 128;
/// The outcome `accepted`, encoded.
const ACCEPTED: [u8; 4] = [0, 0x53, 0x24, 0x45];
/// Purposes, as in "cannot ...".
pub(in super::super) const BEGIN: &str = "begin transactions";
pub(in super::super) const COMMIT: &str = "commit transactions";

/// An answer of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum CoordinatorAnswer<'a> {
    Declared,
    Committed,
    /// It has said so before: brokers may tell an outcome, and then settle with it.
    Repeated,
    /// The request that it refuses, and its reason.
    Refused(&'static str, Option<Condition<'a>>),
}

/// A client's wish within its transactions.
#[derive(Clone, Copy, Debug)]
pub(super) enum TransactionStep {
    /// Deliveries are accepted: their ids on the wire, and how many they are.
    Accept {
        from: u32,
        to: u32,
        count: u32,
    },
    Commit,
}

#[derive(Debug)]
pub(super) struct Transactions {
    /// The id of the transaction that was declared last; empty once it is to be committed.
    id: Vec<u8>,
    /// Its state of an accepted delivery, encoded.
    accepted: Vec<u8>,
    /// Requests that wait for credit.
    is_to_commit: bool,
    is_to_declare: bool,
    /// Requests without an answer, by their delivery ids.
    committing: Option<u32>,
    declaring: Option<u32>,
    /// Requests sent, and those before the open transaction's messages: they share the session's delivery ids.
    requests: u32,
    pub(super) requests_before: u32,
    /// Steps that wait for an open transaction: as many as the consumer's credit allows.
    waiting: VecDeque<TransactionStep>,
}

impl Transactions {
    pub(super) const fn new() -> Self {
        Self {
            id: Vec::new(),
            accepted: Vec::new(),
            is_to_commit: false,
            is_to_declare: true,
            committing: None,
            declaring: None,
            requests: 0,
            requests_before: 0,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn attach(session: u16, name: &str, client: &mut Amqp10Client) -> Result<(), Amqp10Error> {
        let mut target = Vec::new();
        let capabilities = TypedValue::Symbol(Symbol("amqp:local-transactions"));
        TransactionCoordinator { capabilities }.write(&mut target);
        let attach = Attach {
            name: &format!("{name} transactions"),
            handle: COORDINATOR,
            snd_settle_mode: Some(0),
            rcv_settle_mode: Some(0),
            source: Some(Source::default()),
            target: TypedValue::read(&mut Reader::new(&target)).unwrap_or_default(),
            initial_delivery_count: Some(0),
            ..Attach::default()
        };
        client.attach(session, &attach)
    }

    /// Whether messages and acknowledgements may go under a transaction.
    #[inline]
    pub(super) const fn is_open(&self) -> bool {
        !self.id.is_empty() && !self.is_to_commit && self.committing.is_none()
    }

    /// Whether all commits that were asked for are answered.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && !self.is_to_commit && self.committing.is_none()
    }

    #[inline]
    pub(super) fn push(&mut self, step: TransactionStep) {
        self.waiting.push_back(step);
    }

    /// Sends the requests that are due and what waits for a transaction; how many deliveries that settles.
    #[inline]
    pub(super) fn work_off(&mut self, session: u16, client: &mut Amqp10Client) -> u32 {
        let mut settled = 0;
        self.request(session, client);
        while self.is_open()
            && let Some(step) = self.waiting.pop_front()
        {
            match step {
                TransactionStep::Accept { from, to, count } => {
                    let state = TypedValue::read(&mut Reader::new(&self.accepted)).unwrap_or_default();
                    client.settle(session, from, to, DeliveryState::Other(state));
                    settled += count;
                }
                TransactionStep::Commit => {
                    (self.is_to_commit, self.is_to_declare) = (true, true);
                    self.request(session, client);
                }
            }
        }
        settled
    }

    /// Sends the requests that are due, as far as the coordinator takes them.
    fn request(&mut self, session: u16, client: &mut Amqp10Client) {
        if self.is_to_commit {
            let discharge = Discharge { txn_id: &self.id, fail: Some(false) };
            let Some(id) = client.send_value(session, COORDINATOR, &discharge) else { return };
            (self.is_to_commit, self.committing) = (false, Some(id));
            self.id.clear();
            self.requests = self.requests.wrapping_add(1);
        }
        if self.is_to_declare
            && let Some(id) = client.send_value(session, COORDINATOR, &DeclareTransaction::default())
        {
            (self.is_to_declare, self.declaring) = (false, Some(id));
            self.requests = self.requests.wrapping_add(1);
        }
    }

    /// Takes the answer to deliveries `first` to `last`, where a request is among them.
    fn take<'a>(&mut self, first: u32, last: u32, state: Option<DeliveryState<'a>>) -> Option<CoordinatorAnswer<'a>> {
        if let Some(DeliveryState::Received(_)) = state {
            return None;
        }
        let is_meant = |id: &mut u32| id.wrapping_sub(first) <= last.wrapping_sub(first);
        let reason = match state {
            Some(DeliveryState::Rejected(it)) => it.error,
            _ => None,
        };
        let answer = if self.committing.take_if(is_meant).is_some() {
            match state {
                Some(DeliveryState::Accepted) => CoordinatorAnswer::Committed,
                _ => CoordinatorAnswer::Refused(COMMIT, reason),
            }
        } else if self.declaring.take_if(is_meant).is_some() {
            match state {
                Some(DeliveryState::Other(value)) if self.begin(value) => CoordinatorAnswer::Declared,
                _ => CoordinatorAnswer::Refused(BEGIN, reason),
            }
        } else {
            let is_declared =
                matches!(state, Some(DeliveryState::Other(value)) if DeclaredTransaction::of(value).is_ok());
            return is_declared.then_some(CoordinatorAnswer::Repeated);
        };
        if self.is_open() {
            self.requests_before = self.requests;
        }
        Some(answer)
    }

    /// Begins the transaction that the broker has declared; `false` where it is none.
    fn begin(&mut self, declared: TypedValue<'_>) -> bool {
        let Ok(DeclaredTransaction { txn_id }) = DeclaredTransaction::of(declared) else { return false };
        txn_id.clone_into(&mut self.id);
        self.accepted.clear();
        let outcome = TypedValue::read(&mut Reader::new(&ACCEPTED)).unwrap_or_default();
        TransactionalState { txn_id, outcome }.write(&mut self.accepted);
        (1..=LONGEST_ID).contains(&txn_id.len())
    }
}

impl Link {
    /// Takes the answer to deliveries `first` to `last` of its session; `None` where it is to messages.
    pub(in super::super) fn coordinated<'a>(
        &mut self,
        session: u16,
        settled: RangeInclusive<u32>,
        state: Option<DeliveryState<'a>>,
    ) -> Result<Option<CoordinatorAnswer<'a>>, Amqp10Error> {
        let Some(transactions) = &mut self.transactions else { return Ok(None) };
        let (first, last) = settled.into_inner();
        let mut answer = transactions.take(first, last, state);
        if matches!(self.spec, LinkSpec::Consumer(_)) && last < transactions.requests {
            // Nothing but requests is sent on its session.
            answer = answer.or(Some(CoordinatorAnswer::Repeated));
        }
        if answer == Some(CoordinatorAnswer::Declared)
            && let (LinkSpec::Producer(sending), Some(template)) = (&self.spec, &mut self.template)
            && !template.set_transaction(&transactions.id)
        {
            (*template, self.frames) = sending.template(session, Some(&transactions.id), self.frame_max)?;
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use measure::Time;
    use wire::amqp10::{Amqp10Config, Begin, Disposition, Flow, Performative, TypedField, fuzzing::HANDSHAKE};

    use super::super::{HANDLE, LinkHandle, LinkNode, Receiving};
    use super::*;
    use crate::Destination;
    use crate::protocol::Receiver;

    fn frame<'a>(what: &impl Composite<'a>) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, 2, 0, 0, 0];
        what.write(&mut bytes);
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        bytes
    }

    fn hear(client: &mut Amqp10Client, mut bytes: &[u8]) {
        while client.poll(Time(0), &mut bytes).unwrap().is_some() {}
    }

    /// Client's requests and acknowledgements since the last call; other frames are left out.
    fn said(client: &mut Amqp10Client) -> Vec<String> {
        let bytes = client.pending_output().to_vec();
        client.consume_output(bytes.len());
        let (mut rest, mut said) = (bytes.as_slice(), Vec::new());
        while let Some((size, _)) = rest.split_first_chunk::<4>() {
            let (frame, behind) = rest.split_at(u32::from_be_bytes(*size) as usize);
            rest = behind;
            let mut reader = Reader::new(&frame[8..]);
            match Performative::read(&mut reader).unwrap() {
                Performative::Transfer(it) => {
                    assert_eq!(it.handle, COORDINATOR);
                    let section = TypedValue::read(&mut reader).unwrap();
                    let TypedValue::Described(section) = section else { panic!("{section:?}") };
                    let request = section.value().unwrap();
                    said.push(Discharge::of(request).map_or_else(
                        |_| "declare".to_owned(),
                        |it| format!("commit {}", String::from_utf8_lossy(it.txn_id)),
                    ));
                }
                Performative::Disposition(Disposition {
                    first, last, state: Some(DeliveryState::Other(it)), ..
                }) => {
                    let state = TransactionalState::of(it).unwrap();
                    let accepted = DeliveryState::of_value(Some(state.outcome));
                    assert_eq!(accepted, Ok(DeliveryState::Accepted));
                    let id = String::from_utf8_lossy(state.txn_id).into_owned();
                    said.push(format!("accept {first}-{} {id}", last.unwrap_or(first)));
                }
                _ => {}
            }
        }
        said
    }

    /// A consumer of ten messages that commits, and its client, whose coordinator takes `credit` requests.
    fn consumer(credit: u32) -> (Amqp10Client, Link) {
        let mut client = Amqp10Client::new(Amqp10Config::default(), Time(0));
        hear(&mut client, HANDSHAKE);
        let node = LinkNode::published(&Destination::queue("q"));
        let spec = Receiving {
            node,
            settled: false,
            transacted: true,
            credit: 100,
            is_limit: true,
            later: false,
            offset: None,
            selector: None,
        };
        let mut link = Link::new(LinkSpec::Consumer(spec));
        link.attach(0, "c", &mut client).unwrap();
        let begin = Begin { remote_channel: Some(0), incoming_window: 100, ..Begin::default() };
        let source = Some(Source::default());
        let consuming = Attach { name: "c", handle: HANDLE, source, ..Attach::default() };
        let target = TypedValue::Bool(true);
        let name = "c transactions";
        let coordinator = Attach { name, handle: COORDINATOR, is_receiver: true, target, ..Attach::default() };
        let flow =
            Flow { incoming_window: 100, handle: Some(COORDINATOR), link_credit: Some(credit), ..Flow::default() };
        hear(&mut client, &[frame(&begin), frame(&consuming), frame(&coordinator), frame(&flow)].concat());
        client.consume_output(client.pending_output().len());
        for id in 0..10 {
            assert_eq!(link.received(id), Some(u64::from(id) + 1));
        }
        link.tend(0, &mut client);
        (client, link)
    }

    fn declared<'a>(link: &mut Link, request: u32, txn_id: &[u8]) -> Option<CoordinatorAnswer<'a>> {
        let mut bytes = Vec::new();
        DeclaredTransaction { txn_id }.write(&mut bytes);
        let state = DeliveryState::Other(TypedValue::read(&mut Reader::new(&bytes)).unwrap());
        match link.coordinated(0, request..=request, Some(state)).unwrap()? {
            CoordinatorAnswer::Declared => Some(CoordinatorAnswer::Declared),
            CoordinatorAnswer::Repeated => Some(CoordinatorAnswer::Repeated),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_follows_a_commit_waits_for_the_next_transaction() {
        let (mut client, mut link) = consumer(10);
        let act = |client: &mut Amqp10Client, link: &mut Link, tags: &[u64]| {
            let mut receiver = LinkHandle { client, link, session: 0 };
            tags.iter().for_each(|tag| receiver.acknowledge(*tag, true));
            Receiver::commit(&mut receiver).unwrap();
        };
        assert_eq!(declared(&mut link, 0, b"a"), Some(CoordinatorAnswer::Declared));
        assert_eq!(declared(&mut link, 0, b"a"), Some(CoordinatorAnswer::Repeated), "as it settles");
        assert!(link.is_committed());
        act(&mut client, &mut link, &[1, 3]);
        act(&mut client, &mut link, &[5]);
        act(&mut client, &mut link, &[6]);
        assert_eq!(said(&mut client), ["declare", "accept 0-0 a", "accept 1-2 a", "commit a", "declare"]);
        // The answers may come in any order.
        assert_eq!(declared(&mut link, 2, b"bc"), Some(CoordinatorAnswer::Declared));
        link.tend(0, &mut client);
        assert_eq!(said(&mut client), [""; 0]);
        let accepted = Some(DeliveryState::Accepted);
        assert_eq!(link.coordinated(0, 1..=1, accepted), Ok(Some(CoordinatorAnswer::Committed)));
        link.tend(0, &mut client);
        assert_eq!(said(&mut client), ["accept 3-4 bc", "commit bc", "declare"]);
        assert!(!link.is_committed());
        let rejected = Some(DeliveryState::Rejected(wire::amqp10::Rejected::default()));
        let refused = Ok(Some(CoordinatorAnswer::Refused(COMMIT, None)));
        assert_eq!(link.coordinated(0, 3..=3, rejected), refused);
        assert_eq!(link.coordinated(0, 9..=9, accepted), Ok(None), "nothing of this number was sent");
    }

    #[test]
    fn requests_wait_for_credit_and_an_id_of_no_or_too_many_bytes_begins_nothing() {
        let (mut client, mut link) = consumer(0);
        assert_eq!(said(&mut client), [""; 0]);
        for (id, begins) in [(0, false), (LONGEST_ID, true), (LONGEST_ID + 1, false)] {
            let (_, mut link) = consumer(1);
            let mut bytes = Vec::new();
            DeclaredTransaction { txn_id: &vec![b'i'; id] }.write(&mut bytes);
            let state = Some(DeliveryState::Other(TypedValue::read(&mut Reader::new(&bytes)).unwrap()));
            let answer = link.coordinated(0, 0..=0, state).unwrap();
            assert_eq!(answer == Some(CoordinatorAnswer::Declared), begins, "{answer:?}");
        }
        link.tend(0, &mut client);
        assert!(link.transactions.as_ref().is_some_and(|it| it.is_to_declare && !it.is_open()));
    }
}
