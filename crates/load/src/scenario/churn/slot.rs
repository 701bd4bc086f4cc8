//! One place for a cycle: a connection of its own, or one that stays.

use measure::{Clock, Metric, Time};
use transport::ClientSocket;

use super::{ChurnKind, ChurnPlan, CycleContext};
use crate::protocol::amqp10::{ChurnStep, LinkConnection, LinkSpec};
use crate::protocol::amqp091::{AmqpConnection, ChannelSpec, Queue, Request, Role};
use crate::protocol::mqtt::{MqttConnection, MqttSpec};
use crate::protocol::{Connection, ConnectionSpec, Driver, Event, Input, Progress};
use crate::scenario::operations::{Buffers, Slot};
use crate::{Error, RunEvent};

/// Of the connection's clients the only one.
const CHANNEL: usize = 0;
/// The routing key of messages without a queue of their own.
const NO_QUEUE: &str = "bellows-churn";
/// Reads of one connection before the others' turn: a noisy peer must not keep the loop to itself.
const READS_PER_TURN: usize = 4;

/// A protocol's connection, and what comes and goes on it. [`Progress::Answered`] tells of each answer.
pub(super) trait Churned: Connection {
    /// The clients of a connection; it may be for nothing but to come and go itself.
    fn clients(has_channel: bool) -> Vec<Self::ClientSpec>;

    /// Opens the channel, or the session.
    fn open_channel(&mut self) -> Result<(), Error>;

    fn close_channel(&mut self) -> Result<(), Error>;

    /// Declares a queue, or attaches a link.
    fn declare(&mut self, queue: &str) -> Result<(), Error>;

    fn delete(&mut self, queue: &str) -> Result<(), Error>;

    /// Sends a cycle's messages, where the protocol's cycles have any.
    fn send(&mut self, _queue: &str, _messages: u32, _size: usize) -> Result<(), Error> {
        Ok(())
    }
}

impl Churned for AmqpConnection {
    fn clients(has_channel: bool) -> Vec<ChannelSpec> {
        let channel = ChannelSpec { role: Role::Requests, declaration: None };
        if has_channel { vec![channel] } else { Vec::new() }
    }

    fn open_channel(&mut self) -> Result<(), Error> {
        self.ask(CHANNEL, Request::open_channel())
    }

    fn close_channel(&mut self) -> Result<(), Error> {
        self.ask(CHANNEL, Request::close_channel())
    }

    fn declare(&mut self, queue: &str) -> Result<(), Error> {
        let queue = Queue { name: queue.to_owned(), exclusive: true, ..Queue::default() };
        self.ask(CHANNEL, Request::declare_queue("declare a queue", queue))
    }

    fn delete(&mut self, queue: &str) -> Result<(), Error> {
        self.ask(CHANNEL, Request::delete_queue(queue))
    }

    fn send(&mut self, queue: &str, messages: u32, size: usize) -> Result<(), Error> {
        self.publish_zeros(CHANNEL, queue, messages, size)
    }
}

impl Churned for LinkConnection {
    fn clients(_has_channel: bool) -> Vec<LinkSpec> {
        Vec::new()
    }

    fn open_channel(&mut self) -> Result<(), Error> {
        self.take_step(ChurnStep::Begin)
    }

    fn close_channel(&mut self) -> Result<(), Error> {
        self.take_step(ChurnStep::End)
    }

    fn declare(&mut self, _queue: &str) -> Result<(), Error> {
        self.take_step(ChurnStep::Attach)
    }

    fn delete(&mut self, _queue: &str) -> Result<(), Error> {
        self.take_step(ChurnStep::Detach)
    }
}

/// Connections alone: the plan refuses other kinds.
impl Churned for MqttConnection {
    fn clients(_has_channel: bool) -> Vec<MqttSpec> {
        Vec::new()
    }

    fn open_channel(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn close_channel(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn declare(&mut self, _queue: &str) -> Result<(), Error> {
        Ok(())
    }

    fn delete(&mut self, _queue: &str) -> Result<(), Error> {
        Ok(())
    }
}

/// How far a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    Connecting,
    Securing,
    /// Logging in, and opening the channel that stays.
    SettingUp,
    Free,
    Opening,
    Closing,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Empty | Self::Free => "idle",
            Self::Connecting => "connecting",
            Self::Securing => "in the TLS handshake",
            Self::SettingUp => "logging in",
            Self::Opening => "opening",
            Self::Closing => "closing",
        }
    }
}

/// A report of a slot on its cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotEvent {
    Took(Metric),
    /// All that the cycle opens is open.
    Opened,
    Done,
    /// A connection that stays is ready.
    Ready,
}

/// The moments of a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    pub(super) due: Time,
    pub(super) step_began: Time,
    pub(super) asked: Time,
    pub(super) now: Time,
}

pub(super) struct CycleSlot<C> {
    pub(super) number: usize,
    pub(super) state: State,
    driver: Option<Driver<C, ClientSocket>>,
    pub(super) due: Time,
    /// When its last step ended.
    step_began: Time,
    /// When the broker was last asked: when that last step ended which it answered.
    asked: Time,
    /// Nothing may take longer.
    pub(super) deadline: Time,
    /// Of the queue to declare.
    queue: String,
    cycles: u64,
}

impl<C: Churned> Slot for CycleSlot<C> {
    fn new(number: usize, now: Time) -> Self {
        Self {
            number,
            state: State::Empty,
            driver: None,
            due: now,
            step_began: now,
            asked: now,
            deadline: now,
            queue: String::new(),
            cycles: 0,
        }
    }

    fn due(&self) -> Option<Time> {
        (!self.is_free()).then_some(self.due)
    }

    fn notice(&mut self, event: &mio::event::Event) {
        if let Some(driver) = &mut self.driver {
            driver.notice(event.into());
        }
    }

    fn wants_turn(&self) -> bool {
        self.driver.as_ref().is_some_and(Driver::is_readable)
    }
}

impl<C: Churned> CycleSlot<C> {
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, State::Empty | State::Free)
    }

    /// Connects; for a cycle of connections that is its beginning.
    pub(super) fn dial(&mut self, context: &mut CycleContext<'_, C>, now: Time) -> Result<(), Error> {
        let plan = context.plan;
        let attempt = context.attempt(&plan.source_addresses, now + plan.timeout, now);
        (self.deadline, self.step_began, self.asked) = (now + plan.timeout, now, now);
        let has_channel = plan.kind != ChurnKind::Connections || plan.messages > 0;
        let spec = ConnectionSpec {
            endpoint: plan.endpoint.clone(),
            name: "bellows churn".to_owned(),
            timeout: plan.timeout,
            resumes: false,
            clients: C::clients(has_channel),
        };
        let connection = C::new(spec, now);
        self.driver = Some(Driver::connect(connection, attempt, context.poll.registry(), self.number, now)?);
        self.state = State::Connecting;
        Ok(())
    }

    /// Begins a cycle on a connection that stays.
    pub(super) fn begin(&mut self, plan: &ChurnPlan, now: Time) -> Result<(), Error> {
        (self.deadline, self.state) = (now + plan.timeout, State::Opening);
        (self.step_began, self.asked) = (now, now);
        self.cycles += 1;
        let Some(driver) = &mut self.driver else { return Ok(()) };
        match plan.kind {
            ChurnKind::Connections => Ok(()),
            ChurnKind::Channels | ChurnKind::Sessions => driver.connection.open_channel(),
            ChurnKind::Queues | ChurnKind::Links => {
                let (process, number, cycle) = (std::process::id(), self.number, self.cycles);
                self.queue = format!("bellows-churn-{process}-{number}-{cycle}");
                driver.connection.declare(&self.queue)
            }
        }
    }

    /// Sends heartbeats and a renewed token; a broker that was silent for two heartbeats is an error.
    pub(super) fn keep_time(&mut self, now: Time) -> Result<(), Error> {
        let Some(driver) = self.driver.as_mut().filter(|it| it.is_connected()) else { return Ok(()) };
        driver.handle_timeout(now)?;
        driver.connection.renew_token()?;
        driver.flush(true)
    }

    /// Whether an address does not answer, and the next is to be tried.
    pub(super) fn is_late(&self, now: Time) -> bool {
        self.driver.as_ref().is_some_and(|it| it.is_late(now))
    }

    /// Reads and writes what there is, up to a limit.
    pub(super) fn turn(
        &mut self,
        context: &mut CycleContext<'_, C>,
        buffers: &mut Buffers,
        now: Time,
    ) -> Result<(), Error> {
        let Some(mut driver) = self.driver.take() else { return Ok(()) };
        let result = self.exchange(&mut driver, context, buffers, now);
        if self.state != State::Empty {
            self.driver = Some(driver);
        }
        result
    }

    fn exchange(
        &mut self,
        driver: &mut Driver<C, ClientSocket>,
        context: &mut CycleContext<'_, C>,
        buffers: &mut Buffers,
        now: Time,
    ) -> Result<(), Error> {
        if self.state == State::Connecting {
            if !driver.finish_connecting(context.poll.registry(), now)? {
                return Ok(());
            }
            self.took(context.counts.own.metrics.connect, context);
            self.state = if driver.is_being_secured() { State::Securing } else { State::SettingUp };
        }
        driver.flush(true)?;
        for _ in 0..READS_PER_TURN {
            if !driver.is_readable() || self.state == State::Empty {
                break;
            }
            let input = driver.read(&mut buffers.plain, &mut buffers.cipher, now)?;
            // A handshake goes on with what was read, and may be over with it.
            if self.state == State::Securing && !driver.is_being_secured() {
                self.took(context.counts.own.metrics.secure, context);
                self.state = State::SettingUp;
            }
            match input {
                Input::Nothing => {}
                Input::End => return Err(driver.ended()),
                Input::Bytes(filled) => {
                    let bytes = buffers.plain.get(..filled).unwrap_or_default();
                    self.decode(driver, bytes, context, now)?;
                }
            }
            driver.flush(true)?;
        }
        Ok(())
    }

    fn decode(
        &mut self,
        driver: &mut Driver<C, ClientSocket>,
        bytes: &[u8],
        context: &mut CycleContext<'_, C>,
        now: Time,
    ) -> Result<(), Error> {
        let mut input = bytes;
        while self.state != State::Empty
            && let Some((_, event)) = driver.connection.poll(now, &mut input)?
        {
            if matches!(event, Event::Answer) {
                let progress = driver.connection.proceed(now)?;
                self.proceed(&mut driver.connection, progress, context, now)?;
            }
        }
        driver.keep(input);
        Ok(())
    }

    /// Goes on after an answer: tells of the step that has ended, and begins the next.
    fn proceed(
        &mut self,
        connection: &mut C,
        progress: Progress,
        context: &mut CycleContext<'_, C>,
        now: Time,
    ) -> Result<(), Error> {
        use ChurnKind::{Channels, Connections, Links, Queues, Sessions};
        let (plan, metrics) = (context.plan, context.counts.own.metrics);
        let (opened, closed) = metrics.steps(plan.kind);
        let (messages, size) = (plan.messages, plan.message_size);
        match (progress, plan.kind, self.state) {
            (Progress::Ready, Connections, _) => {
                self.took(metrics.log_in, context);
                self.state = State::Opening;
                if plan.messages > 0 {
                    connection.open_channel()?;
                } else {
                    self.leave(connection, now)?;
                }
                self.tell(SlotEvent::Opened, context);
            }
            (Progress::Answered, Connections, State::Opening) => {
                self.took(opened, context);
                connection.send(NO_QUEUE, messages, size)?;
                self.leave(connection, now)?;
            }
            (Progress::Closed, Connections, _) => {
                self.took(closed, context);
                self.state = State::Empty;
                self.tell(SlotEvent::Done, context);
            }
            (Progress::Ready, Channels | Sessions, _) | (Progress::Answered, Queues | Links, State::SettingUp) => {
                self.state = State::Free;
                self.tell(SlotEvent::Ready, context);
            }
            (Progress::Ready, Queues | Links, _) => connection.open_channel()?,
            (Progress::Answered, Channels | Sessions, State::Opening) => {
                self.took(opened, context);
                connection.send(NO_QUEUE, messages, size)?;
                self.state = State::Closing;
                connection.close_channel()?;
                self.tell(SlotEvent::Opened, context);
            }
            (Progress::Answered, Queues | Links, State::Opening) => {
                self.took(opened, context);
                let queue = std::mem::take(&mut self.queue);
                connection.send(&queue, messages, size)?;
                self.state = State::Closing;
                connection.delete(&queue)?;
                self.tell(SlotEvent::Opened, context);
            }
            (Progress::Answered, Channels | Queues | Sessions | Links, State::Closing) => {
                self.took(closed, context);
                self.state = State::Free;
                self.tell(SlotEvent::Done, context);
            }
            _ => {}
        }
        Ok(())
    }

    /// Tells of a step, where it is one of a cycle, and begins the next.
    fn took(&mut self, step: Metric, context: &mut CycleContext<'_, C>) {
        let of_a_cycle =
            context.plan.kind == ChurnKind::Connections || matches!(self.state, State::Opening | State::Closing);
        if of_a_cycle {
            self.step_began = self.tell(SlotEvent::Took(step), context);
            if context.counts.own.metrics.is_answer(step) {
                self.asked = self.step_began;
            }
        }
    }

    /// Counts it, and frees the slot at the end of its cycle; when that was.
    fn tell(&self, what: SlotEvent, context: &mut CycleContext<'_, C>) -> Time {
        // Read here and not once per turn: one turn may take a slot through several steps.
        let now = Clock.now();
        if context.counts.note(what, self.moments(now)) {
            context.free.push_back(self.number);
            if context.control.is_first_confirm(|| self.due) {
                context.say(RunEvent::FirstConfirm { at: now });
            }
        }
        now
    }

    pub(super) const fn moments(&self, now: Time) -> Moments {
        Moments { due: self.due, step_began: self.step_began, asked: self.asked, now }
    }

    fn leave(&mut self, connection: &mut C, now: Time) -> Result<(), Error> {
        self.state = State::Closing;
        connection.leave(now)
    }

    pub(super) fn drop_connection(&mut self) {
        self.state = State::Empty;
        if let Some(mut driver) = self.driver.take() {
            driver.hang_up();
        }
    }
}
