//! Churn: objects that come and go at a rate. Each cycle opens one (a connection, a channel, a
//! queue), sends a few messages through it, and closes it.
//!
//! Cycle *i* is due at `start + i / rate`.

mod counts;
mod slot;

use std::marker::PhantomData;
use std::net::IpAddr;

use measure::{Clock, Metric, Nanos, ScenarioRole, Time};
use mio::Events;
use serde::{Deserialize, Serialize};

use self::counts::{CycleCounts, CycleFigures};
use self::slot::{Churned, CycleSlot, State};
use super::operations::{self, Buffers, LoopContext, Operation, OperationLoop, OperationMetrics, OperationServer};
use super::{Operations, Scenario};
use crate::control::Interruption;
use crate::protocol::amqp10::LinkConnection;
use crate::protocol::amqp091::AmqpConnection;
use crate::protocol::mqtt::MqttConnection;
use crate::protocol::{Admin, connect_options};
use crate::{
    ArrivalSchedule, Control, Endpoint, Error, Outcome, Phases, Protocol, Requested, RunEvent, Silence, SliceSink,
    StartBarrier, System,
};

/// The key of experiment files and of JSON.
const NAME: &str = "churn";

measure::named! {
    /// Kinds of objects that come and go.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum ChurnKind {
        #[default]
        /// Connect, log in, send, close.
        Connections = "connections",
        /// Open a channel, send, close it, on connections that stay.
        Channels = "channels",
        /// Declare a transient classic queue, send to it, delete it, on channels that stay.
        Queues = "queues",
        /// AMQP 1.0: begin a session, end it, on connections that stay.
        Sessions = "sessions",
        /// AMQP 1.0: attach a link to send over, detach it, in sessions that stay.
        Links = "links",
    }
}

/// Cycles of churn over a protocol, an operation of the event loop.
struct Cycles<C>(PhantomData<C>);

/// The part of the event loop that cycles work with.
type CycleContext<'a, C> = LoopContext<'a, Cycles<C>>;

/// A load of churn.
#[derive(Clone, Debug)]
pub struct ChurnPlan {
    /// The broker's address.
    pub endpoint: Endpoint,
    /// The protocol that is spoken there.
    pub protocol: Protocol,
    /// Kind of objects that are opened and closed.
    pub kind: ChurnKind,
    /// When cycles are due; `None`: the next begins as soon as one of [`ChurnPlan::most_open`] ends.
    pub schedule: Option<ArrivalSchedule>,
    /// Cycles that were due in this time are not counted.
    pub warmup: Nanos,
    /// How long new cycles begin after that; zero: until a scenario beside it ends.
    pub measure: Nanos,
    /// Messages that each cycle sends, transient and unconfirmed. Without a queue of their own they reach none.
    pub messages: u32,
    /// Bytes of each message.
    pub message_size: usize,
    /// Maximum cycles in flight. For channels and queues as many connections are kept.
    pub most_open: usize,
    /// Addresses of this machine to connect from, in turn.
    pub source_addresses: Vec<IpAddr>,
    /// The longest that anything may take.
    pub timeout: Nanos,
}

impl ChurnPlan {
    /// Checks what can be checked before anything is begun. Errors: [`Error::Invalid`], with the remedy.
    pub fn validate(&self) -> Result<(), Error> {
        let (most, size) = (self.most_open, self.message_size);
        let refused = Error::invalid(format!("{most} cycles in flight are out of range"), "use 1 to 60000");
        refused.observed(most).about("churn.max-open").unless((1..=60_000).contains(&most))?;
        let cause = format!("messages of {size} bytes are too large for churn");
        let refused = Error::invalid(cause, "use at most 100000 bytes").observed(size);
        refused.about("churn.message-size").unless(size <= 100_000)?;
        self.endpoint.check_login(self.protocol)?;
        let is_amqp091 = self.protocol == Protocol::Amqp091;
        let is_fine = match self.kind {
            ChurnKind::Connections => true,
            ChurnKind::Channels | ChurnKind::Queues => is_amqp091,
            ChurnKind::Sessions | ChurnKind::Links => self.protocol == Protocol::Amqp10,
        };
        let cause = "AMQP 0.9.1 has channels and queues, AMQP 1.0 has sessions and links, MQTT has connections alone";
        let help = "choose another kind, or the other protocol: amqp:// or amqp10:// in the URL";
        Error::invalid(cause, help).observed(self.kind.name()).about("churn.kind").unless(is_fine)?;
        let refused = Error::invalid("only cycles over AMQP 0.9.1 send messages", "leave the messages out");
        refused.observed(self.messages).about("churn.messages").unless(is_amqp091 || self.messages == 0)?;
        Scenario::requested(self).map(drop).map_err(|error| error.about("churn.rate"))
    }
}

/// Counts of [`Outcome::tallies`] go by the time at which a cycle was due: each cycle that was due in
/// the measured phase is in exactly one of `completed`, `failed` and `not_begun`, but where the run
/// broke off. Counts of intervals go by the time at which something happened.
impl Scenario for ChurnPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn subject(&self) -> &str {
        self.kind.name()
    }

    fn metrics(&self) -> Vec<Metric> {
        ChurnMetrics::resolve(NAME).all()
    }

    fn operations(&self) -> Option<Operations> {
        Some(ChurnMetrics::resolve(NAME).operations().operations())
    }

    /// In cycles.
    fn requested(&self) -> Result<Option<Requested>, Error> {
        self.schedule.as_ref().map(Requested::of).transpose()
    }

    fn in_flight_limit(&self) -> Option<u64> {
        Some(self.most_open as u64)
    }

    /// The drain is as long as anything may take.
    fn phases(&self) -> Phases {
        Phases::new(self.warmup, self.measure, self.timeout)
    }

    /// Churns on a thread of its own, and hands what it tells to `sink` on this one.
    fn run(&self, together: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
        self.validate()?;
        match self.protocol {
            Protocol::Amqp091 => operations::run::<Cycles<AmqpConnection>>(self, together, control, sink),
            Protocol::Amqp10 => operations::run::<Cycles<LinkConnection>>(self, together, control, sink),
            Protocol::Mqtt => operations::run::<Cycles<MqttConnection>>(self, together, control, sink),
        }
    }
}

measure::metrics! {
    /// The metrics of churn: the whole first, then the parts in the order of time.
    ///
    /// ```text
    /// due        begun     connected    secured     logged in    channel       closed
    ///  |-- wait ---|- connect -|-- secure --|-- log in --|- open ch. -|-- close --|
    ///  |------------------- open ------------------------|                        |
    ///  |------------------------------- cycle ------------------------------------|
    /// ```
    ///
    /// `open` and `cycle` count from the time that the cycle was due, and so are free of coordinated
    /// omission; the steps follow upon each other and add up to the cycle.
    struct ChurnMetrics of "churn" {
        cycle: latency() "cycle", "cycle", "due time to the end of the cycle; what has none counts with the time \
            that it waited: until its time-out, or the run's end";
        open: latency() "open", "open", "due time until what the cycle opens is open";
        wait: part() "wait", "wait", "due time to the beginning of the cycle";
        connect: part() "connect", "connect", "the TCP connection";
        secure: part() "secure", "secure", "the TLS handshake";
        log_in: part() "log_in", "log in", "connected or secured until connection.open-ok";
        open_channel: part() "open_channel", "open channel", "channel.open until channel.open-ok";
        begin_session: part() "begin_session", "begin session", "begin until the broker's begin";
        declare: part() "declare", "declare", "queue.declare until queue.declare-ok";
        attach: part() "attach", "attach", "attach until the broker's attach";
        detach: part() "detach", "detach", "detach until the broker's detach";
        delete: part() "delete", "delete", "queue.delete until queue.delete-ok, and the messages before it";
        close_channel: part() "close_channel", "close channel",
            "channel.close until channel.close-ok, and the messages before it";
        end_session: part() "end_session", "end session", "end until the broker's end";
        close: part() "close", "close", "connection.close until connection.close-ok, and the messages before it";
        begun: counter("cycles") "begun", "begun", "cycles that began";
        completed: counter("cycles") "completed", "completed", "cycles that ended in order";
        failed: counter("cycles") "failed", "failed", "cycles that did not end in order";
        late: counter("cycles") "late", "late", "cycles that began over 1 ms after they were due";
        in_flight: peak("cycles") "under_way", "in flight", "most cycles in flight at the same time";
        not_begun: counter("cycles") "not_begun", "not begun", "cycles that were due and found no room before the \
            end: they count with the time that they had waited by then";
        messages: peak("cycles") "messages", "messages each", "messages that each cycle sends";
    }
    at the end: not_begun, messages
}

impl ChurnMetrics {
    /// Whether the broker ends this step: to connect is answered by the kernel, also where nobody accepts.
    fn is_answer(&self, step: Metric) -> bool {
        step != self.connect
    }

    /// Whether the cycle asks nothing more after this step.
    fn is_last(&self, step: Metric) -> bool {
        [self.delete, self.detach, self.close_channel, self.end_session, self.close].contains(&step)
    }

    /// The steps in which the last thing that a cycle opens comes, and the first that it closes goes.
    const fn steps(&self, kind: ChurnKind) -> (Metric, Metric) {
        match kind {
            ChurnKind::Connections => (self.open_channel, self.close),
            ChurnKind::Channels => (self.open_channel, self.close_channel),
            ChurnKind::Queues => (self.declare, self.delete),
            ChurnKind::Sessions => (self.begin_session, self.end_session),
            ChurnKind::Links => (self.attach, self.detach),
        }
    }

    const fn operations(&self) -> OperationMetrics {
        OperationMetrics {
            scenario: NAME,
            words: ["cycle", "cycles"],
            role: ScenarioRole::Broker,
            begun: self.begun,
            completed: self.completed,
            failed: self.failed,
            late: self.late,
            in_flight: self.in_flight,
            not_begun: self.not_begun,
            in_flight_at_end: None,
            wait: self.wait,
            latency: self.cycle,
            opened: Some(self.open),
        }
    }
}

/// How many of the connections that stay are made at a time.
const AT_ONCE: usize = 32;
/// Setting up is told of this often.
const TELL: Nanos = Nanos(500_000_000);

impl<C: Churned> Operation for Cycles<C> {
    type Plan = ChurnPlan;
    type Slot = CycleSlot<C>;
    type Figures = CycleFigures;
    type Failure = Error;

    const SUBJECT: &'static str = NAME;
    const THREAD: &'static str = "bellows-churn";
    const POLL_INTERVAL: Nanos = Nanos(50_000_000);
    const FAILS_BESIDE_OTHERS: bool = true;

    fn schedule(plan: &ChurnPlan) -> Option<&ArrivalSchedule> {
        plan.schedule.as_ref()
    }

    fn counts(plan: &ChurnPlan, now: Time) -> CycleCounts {
        CycleCounts::new(now, plan.messages)
    }

    /// Logs in once.
    fn connect(plan: &ChurnPlan, control: &Control) -> Result<OperationServer<Self>, Interruption> {
        let options = connect_options(&plan.endpoint, &plan.source_addresses)?;
        let tls = options.tls.clone();
        let admin = <C::Admin<'_, System>>::connect(&System, &plan.endpoint, options, plan.timeout, control)?;
        let server = admin.server().clone();
        admin.close()?;
        let event = Some(server.connected(&plan.endpoint));
        Ok(OperationServer { operation: Self(PhantomData), addresses: server.addresses, tls, event })
    }

    fn open(event_loop: &mut OperationLoop<'_, Self>) -> Result<(), Interruption> {
        if event_loop.context.plan.kind == ChurnKind::Connections {
            return Ok(());
        }
        let wanted = event_loop.slots.len();
        let mut events = Events::with_capacity(1_024);
        let mut next = 0;
        let mut told = Clock.now();
        loop {
            let context = &mut event_loop.context;
            let ready = context.counts.own.ready;
            if ready >= wanted {
                return Ok(());
            }
            let now = Clock.now();
            for slot in event_loop.slots.iter_mut().take(ready + AT_ONCE).skip(next) {
                slot.dial(context, now)?;
                next += 1;
            }
            if now.since(told) >= TELL {
                told = now;
                context.say(RunEvent::Connecting { ready: ready as u64, wanted: wanted as u64 });
            }
            event_loop.check_stop()?;
            event_loop.poll(&mut events, now + Nanos::from_millis(20))?;
        }
    }

    fn begin(
        &mut self,
        slot: &mut CycleSlot<C>,
        context: &mut CycleContext<'_, C>,
        due: Time,
        now: Time,
    ) -> Result<bool, Error> {
        slot.due = due;
        if context.plan.kind == ChurnKind::Connections {
            slot.dial(context, now)?;
            return Ok(false);
        }
        slot.begin(context.plan, now)?;
        Ok(true)
    }

    fn turn(
        &mut self,
        slot: &mut CycleSlot<C>,
        context: &mut CycleContext<'_, C>,
        buffers: &mut Buffers,
    ) -> Result<(), Error> {
        slot.turn(context, buffers, Clock.now())
    }

    fn keep_time(slot: &mut CycleSlot<C>, plan: &ChurnPlan, heard: Time) -> Result<bool, Error> {
        if !slot.is_free() && slot.deadline <= heard {
            let (timeout, state) = (plan.timeout, slot.state.name());
            return Err(Error::TimedOut {
                endpoint: plan.endpoint.to_string(),
                detail: format!("a cycle did not proceed within {timeout} (it was {state})"),
            });
        }
        slot.keep_time(heard)?;
        Ok(slot.is_late(heard))
    }

    /// A connection that was to stay ends the run.
    fn failed(
        &mut self,
        slot: &mut CycleSlot<C>,
        context: &mut CycleContext<'_, C>,
        error: Error,
    ) -> Result<(), Error> {
        let stays = context.plan.kind != ChurnKind::Connections;
        let of_a_cycle = !stays || matches!(slot.state, State::Opening | State::Closing);
        let moments = slot.moments(Clock.now());
        slot.drop_connection();
        context.addresses.refresh(moments.now);
        if of_a_cycle && let Some(event) = context.counts.fail_cycle(error.clone(), moments) {
            context.say(event);
        }
        if stays {
            return Err(error);
        }
        context.free_after_failure(slot.number);
        Ok(())
    }

    fn take_silences(counts: &mut CycleCounts, due_until: impl Fn(Time) -> f64, is_end: bool) -> Vec<Silence> {
        counts.take_silences(due_until, is_end)
    }
}
