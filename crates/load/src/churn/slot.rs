//! One place for a cycle: a connection of its own, or one that stays.

use measure::{Clock, Step, Time};
use mio::{Registry, Token};
use transport::{ClientSocket, ConnectAttempt, Received};
use wire::amqp091::{
    BasicProperties, BasicPublish, ChannelClose, ChannelOpen, Client, ConnectionUpdateSecret,
    Event, Method, Properties, PublishTemplate, QueueDeclare, QueueDelete, SecretStr,
};

use super::{ChurnKind, ChurnPlan};
use crate::Error;
use crate::failure::{self, Stage};
use crate::protocol::amqp091::admin::ClientOutput;
use crate::protocol::amqp091::{client_config, version_of};

const CHANNEL: u16 = 1;
/// Reads of one connection before the others get their turn: a peer that is never quiet must not
/// keep the loop to itself.
const READS_PER_TURN: usize = 4;

/// How far a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No connection.
    Empty,
    Connecting,
    /// The TLS handshake.
    Securing,
    /// Logging in, and opening the channel that stays.
    SettingUp,
    /// Ready for a cycle.
    Free,
    Opening,
    Closing,
}

/// What a slot has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A step of a cycle has been taken.
    Took(Step),
    /// What the cycle opens is open.
    Opened,
    /// The cycle has ended.
    Done,
    /// A connection that stays is ready.
    Ready,
}

/// Hears what a slot tells, when its cycle was due, when its last step ended, and what time it is.
pub(super) type Hear<'a> = dyn FnMut(Told, Moments) + 'a;

/// The moments of a cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    pub(super) due: Time,
    pub(super) step_began: Time,
    pub(super) now: Time,
}

pub(super) struct Slot {
    number: usize,
    pub(super) state: State,
    socket: Option<ClientSocket>,
    /// The broker's addresses that are left to try.
    attempt: Option<ConnectAttempt>,
    client: Client,
    rest: Vec<u8>,
    /// When the cycle was due.
    pub(super) due: Time,
    /// When its last step ended.
    step_began: Time,
    /// Nothing may take longer.
    pub(super) deadline: Time,
    /// Of the queue to declare.
    queue: String,
    cycles: u64,
    /// Which renewal of the token the broker knows, where there is one.
    token_version: u64,
    /// In the loop's list of those that have more to read.
    pub(super) is_unread: bool,
}

impl Slot {
    pub(super) fn new(number: usize, plan: &ChurnPlan, now: Time) -> Self {
        Self {
            number,
            state: State::Empty,
            socket: None,
            attempt: None,
            client: new_client(plan, now),
            rest: Vec::new(),
            due: now,
            step_began: now,
            deadline: now,
            queue: String::new(),
            cycles: 0,
            token_version: 0,
            is_unread: false,
        }
    }

    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, State::Empty | State::Free)
    }

    /// Connects; for a cycle of connections that is its beginning.
    pub(super) fn dial(
        &mut self,
        plan: &ChurnPlan,
        attempt: ConnectAttempt,
        registry: &Registry,
        now: Time,
    ) -> Result<(), Error> {
        (self.deadline, self.step_began) = (now + plan.timeout, now);
        self.rest.clear();
        // Before the token itself: one that is renewed in between is only told once more.
        self.token_version = version_of(&plan.endpoint);
        self.client = new_client(plan, now);
        self.attempt = Some(attempt);
        self.socket = self.next_socket(plan, registry, now)?;
        self.state = State::Connecting;
        Ok(())
    }

    /// Begins to connect to the next of the broker's addresses.
    fn next_socket(
        &mut self,
        plan: &ChurnPlan,
        registry: &Registry,
        now: Time,
    ) -> Result<Option<ClientSocket>, Error> {
        let token = Token(self.number);
        let dialled = self
            .attempt
            .as_mut()
            .map(|attempt| attempt.connect(registry, token, now));
        dialled
            .transpose()
            .map_err(|error| failure::of_socket(&plan.endpoint, None, &error))
    }

    /// Whether it is connected by now. Where an address refuses, the next is tried.
    fn finish_connecting(
        &mut self,
        socket: &mut ClientSocket,
        plan: &ChurnPlan,
        now: Time,
        registry: &Registry,
    ) -> Result<bool, Error> {
        let attempt = self.attempt.as_ref();
        match socket.finish_connecting(plan.endpoint.connection.socket) {
            Ok(true) => return Ok(true),
            Ok(false) if !attempt.is_some_and(|it| it.is_late(now)) => return Ok(false),
            Err(error) if !attempt.is_some_and(ConnectAttempt::has_more) => {
                return Err(failure::of_connect(&plan.endpoint, &error));
            }
            Ok(false) | Err(_) => {}
        }
        if let Some(next) = self.next_socket(plan, registry, now)? {
            *socket = next;
        }
        Ok(false)
    }

    /// Begins a cycle on a connection that stays.
    pub(super) fn begin(&mut self, plan: &ChurnPlan, due: Time, now: Time) -> Result<(), Error> {
        (self.due, self.deadline, self.state) = (due, now + plan.timeout, State::Opening);
        self.step_began = now;
        self.cycles += 1;
        let sent = match plan.kind {
            ChurnKind::Connections => Ok(()),
            ChurnKind::Channels => self.client.send(CHANNEL, &ChannelOpen::default()),
            ChurnKind::Queues => {
                self.queue = format!(
                    "bellows-churn-{}-{}-{}",
                    std::process::id(),
                    self.number,
                    self.cycles
                );
                let declare = QueueDeclare {
                    queue: &self.queue,
                    exclusive: true,
                    ..QueueDeclare::default()
                };
                self.client.send(CHANNEL, &declare)
            }
        };
        sent.map_err(|error| failure::of_wire(&plan.endpoint, &stage(plan), &error))
    }

    pub(super) fn notice(&mut self, event: &mio::event::Event) {
        if let Some(socket) = &mut self.socket {
            socket.notice(event);
        }
    }

    /// Does what time asks for on a connection: heartbeats, and a token that was renewed.
    ///
    /// # Errors
    /// A broker that was silent for two heartbeats.
    pub(super) fn keep_time(&mut self, plan: &ChurnPlan, now: Time) -> Result<(), Error> {
        if !matches!(
            self.state,
            State::SettingUp | State::Free | State::Opening | State::Closing
        ) {
            return Ok(());
        }
        let stage = stage(plan);
        if self.client.next_timeout().is_some_and(|due| due <= now) {
            let handled = self.client.handle_timeout(now);
            handled.map_err(|error| failure::of_wire(&plan.endpoint, &stage, &error))?;
        }
        self.keep_token(plan, &stage)?;
        if self.client.pending_output().is_empty() {
            return Ok(());
        }
        let Some(mut socket) = self.socket.take() else {
            return Ok(());
        };
        let flushed = self.flush(&mut socket, plan, &stage);
        self.socket = Some(socket);
        flushed
    }

    /// Tells the broker of a renewed token on a connection that stays.
    fn keep_token(&mut self, plan: &ChurnPlan, stage: &Stage) -> Result<(), Error> {
        let (Some(token), State::Free) = (&plan.endpoint.token, self.state) else {
            return Ok(());
        };
        let version = token.version();
        if version == self.token_version {
            return Ok(());
        }
        self.token_version = version;
        let text = token.text();
        let method = ConnectionUpdateSecret {
            new_secret: SecretStr(text.as_bytes()),
            reason: "renewed before it expires",
        };
        let sent = self.client.send(0, &method);
        sent.map_err(|error| failure::of_wire(&plan.endpoint, stage, &error))
    }

    /// Whether an address does not answer, and the next is to be tried.
    pub(super) fn is_late(&self, now: Time) -> bool {
        let late = |attempt: &ConnectAttempt| attempt.is_late(now);
        self.state == State::Connecting && self.attempt.as_ref().is_some_and(late)
    }

    /// Whether the last turn left something to read.
    pub(super) fn wants_turn(&self) -> bool {
        self.socket.as_ref().is_some_and(ClientSocket::is_readable)
    }

    /// Reads and writes what there is, up to a limit; calls `told` for each step of the cycle.
    pub(super) fn turn(
        &mut self,
        plan: &ChurnPlan,
        now: Time,
        buffers: (&mut [u8], &mut Vec<u8>),
        registry: &Registry,
        told: &mut Hear<'_>,
    ) -> Result<(), Error> {
        let Some(mut socket) = self.socket.take() else {
            return Ok(());
        };
        let connected = match self.state {
            State::Connecting => self.finish_connecting(&mut socket, plan, now, registry),
            _ => Ok(true),
        };
        let result = match connected {
            Ok(true) => self.exchange(&mut socket, plan, now, buffers, told),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if self.state != State::Empty {
            self.socket = Some(socket);
        }
        result
    }

    fn exchange(
        &mut self,
        socket: &mut ClientSocket,
        plan: &ChurnPlan,
        now: Time,
        (plain, cipher): (&mut [u8], &mut Vec<u8>),
        told: &mut Hear<'_>,
    ) -> Result<(), Error> {
        let stage = stage(plan);
        if self.state == State::Connecting {
            self.took(plan, Step::Connect, told);
            self.state = if socket.is_being_secured() {
                State::Securing
            } else {
                State::SettingUp
            };
        }
        self.flush(socket, plan, &stage)?;
        for _ in 0..READS_PER_TURN {
            if !socket.is_readable() || self.state == State::Empty {
                break;
            }
            let kept = self.rest.len();
            let (front, room) = plain.split_at_mut(kept.min(plain.len()));
            front.copy_from_slice(&self.rest);
            let read = match socket.read(cipher, room) {
                Ok(Received::Bytes(n)) => n,
                Ok(Received::Nothing) => {
                    // A handshake goes on with what was read, and may be over with it.
                    self.look_whether_secured(socket, plan, told);
                    self.flush(socket, plan, &stage)?;
                    continue;
                }
                Ok(Received::End) => {
                    let error = self.client.end_of_input(&self.rest);
                    return Err(failure::of_wire(&plan.endpoint, &stage, &error));
                }
                Err(error) => return Err(failure::of_socket(&plan.endpoint, Some(&stage), &error)),
            };
            self.look_whether_secured(socket, plan, told);
            self.decode(
                plain.get(..kept + read).unwrap_or_default(),
                plan,
                now,
                told,
            )?;
            self.flush(socket, plan, &stage)?;
        }
        Ok(())
    }

    fn look_whether_secured(
        &mut self,
        socket: &ClientSocket,
        plan: &ChurnPlan,
        told: &mut Hear<'_>,
    ) {
        if self.state == State::Securing && !socket.is_being_secured() {
            self.took(plan, Step::Secure, told);
            self.state = State::SettingUp;
        }
    }

    fn flush(
        &mut self,
        socket: &mut ClientSocket,
        plan: &ChurnPlan,
        stage: &Stage,
    ) -> Result<(), Error> {
        match socket.flush(&mut ClientOutput(&mut self.client)) {
            Ok(()) => Ok(()),
            // Whoever closed it may have said why.
            Err(error) if error.is_loss() && socket.is_readable() => Ok(()),
            Err(error) => Err(failure::of_socket(&plan.endpoint, Some(stage), &error)),
        }
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        plan: &ChurnPlan,
        now: Time,
        told: &mut Hear<'_>,
    ) -> Result<(), Error> {
        let mut input = bytes;
        let stage = stage(plan);
        loop {
            let answer = match self.client.poll(now, &mut input) {
                Ok(None) => break,
                Ok(Some(event)) => answer_of(&event, plan, &stage)?,
                Err(error) => return Err(failure::of_wire(&plan.endpoint, &stage, &error)),
            };
            if let Some(step) = self.step_of(answer, plan.kind) {
                self.took(plan, step, told);
            }
            let what = self
                .take(answer, plan, now)
                .map_err(|error| failure::of_wire(&plan.endpoint, &stage, &error))?;
            if let Some(what) = what {
                self.tell(what, told);
            }
            if self.state == State::Empty {
                return Ok(());
            }
        }
        self.rest.clear();
        self.rest.extend_from_slice(input);
        Ok(())
    }

    /// The step of a cycle that an answer ends.
    const fn step_of(&self, answer: Answer, kind: ChurnKind) -> Option<Step> {
        use ChurnKind::{Channels, Connections, Queues};
        match (answer, kind, self.state) {
            (Answer::Open, Connections, _) => Some(Step::LogIn),
            (Answer::Channel, Connections | Channels, State::Opening) => Some(Step::OpenChannel),
            (Answer::Closed, Connections, _) => Some(Step::Close),
            (Answer::Declared, Queues, State::Opening) => Some(Step::Declare),
            (Answer::ChannelClosed, Channels, _) => Some(Step::CloseChannel),
            (Answer::Deleted, Queues, _) => Some(Step::Delete),
            _ => None,
        }
    }

    /// Tells of a step, where it is one of a cycle, and begins the next.
    fn took(&mut self, plan: &ChurnPlan, step: Step, told: &mut Hear<'_>) {
        let of_a_cycle = plan.kind == ChurnKind::Connections
            || matches!(self.state, State::Opening | State::Closing);
        if of_a_cycle {
            self.step_began = self.tell(Told::Took(step), told);
        }
    }

    fn tell(&self, what: Told, told: &mut Hear<'_>) -> Time {
        // Read here and not once per turn: one turn may take a slot through several steps.
        let now = Clock.now();
        let moments = Moments {
            due: self.due,
            step_began: self.step_began,
            now,
        };
        told(what, moments);
        now
    }

    /// The next step.
    fn take(
        &mut self,
        answer: Answer,
        plan: &ChurnPlan,
        now: Time,
    ) -> Result<Option<Told>, wire::amqp091::Error> {
        use ChurnKind::{Channels, Connections, Queues};
        match (answer, plan.kind, self.state) {
            (Answer::Open, Connections, _) => {
                self.state = State::Opening;
                if plan.messages > 0 {
                    self.client.send(CHANNEL, &ChannelOpen::default())?;
                } else {
                    self.leave(now);
                }
                Ok(Some(Told::Opened))
            }
            (Answer::Channel, Connections, State::Opening) => {
                self.publish(plan, "bellows-churn")?;
                self.leave(now);
                Ok(None)
            }
            (Answer::Closed, Connections, _) => {
                self.state = State::Empty;
                Ok(Some(Told::Done))
            }
            (Answer::Open, Channels, _) | (Answer::Channel, Queues, State::SettingUp) => {
                self.state = State::Free;
                Ok(Some(Told::Ready))
            }
            (Answer::Open, Queues, _) => {
                self.client.send(CHANNEL, &ChannelOpen::default())?;
                Ok(None)
            }
            (Answer::Channel, Channels, State::Opening) => {
                self.publish(plan, "bellows-churn")?;
                self.state = State::Closing;
                let close = ChannelClose {
                    reply_code: 200,
                    ..ChannelClose::default()
                };
                self.client.send(CHANNEL, &close)?;
                Ok(Some(Told::Opened))
            }
            (Answer::Declared, Queues, State::Opening) => {
                let queue = std::mem::take(&mut self.queue);
                self.publish(plan, &queue)?;
                self.state = State::Closing;
                let delete = QueueDelete {
                    queue: &queue,
                    ..QueueDelete::default()
                };
                self.client.send(CHANNEL, &delete)?;
                Ok(Some(Told::Opened))
            }
            (Answer::ChannelClosed, Channels, _) | (Answer::Deleted, Queues, _) => {
                self.state = State::Free;
                Ok(Some(Told::Done))
            }
            _ => Ok(None),
        }
    }

    fn leave(&mut self, now: Time) {
        self.state = State::Closing;
        self.client.close(now, 200, "the cycle has ended");
    }

    fn publish(&mut self, plan: &ChurnPlan, queue: &str) -> Result<(), wire::amqp091::Error> {
        if plan.messages == 0 {
            return Ok(());
        }
        let publish = BasicPublish {
            routing_key: queue,
            ..BasicPublish::default()
        };
        let properties = BasicProperties::default().to_bytes()?;
        let body = vec![0; plan.message_size];
        let properties = Properties::from_bytes(&properties);
        let frame_max = self.client.frame_max();
        let template = PublishTemplate::new(CHANNEL, &publish, properties, &body, frame_max)?;
        for _ in 0..plan.messages {
            self.client.publish(&template, |_| {});
        }
        Ok(())
    }

    /// Drops the connection.
    pub(super) fn drop_connection(&mut self) {
        self.state = State::Empty;
        if let Some(mut socket) = self.socket.take() {
            socket.hang_up();
        }
    }
}

fn new_client(plan: &ChurnPlan, now: Time) -> Client {
    Client::new(
        client_config(&plan.endpoint, "bellows churn", plan.timeout),
        now,
    )
}

/// What came, without what it borrows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Open,
    Channel,
    Declared,
    Deleted,
    ChannelClosed,
    Closed,
    Other,
}

fn answer_of(event: &Event<'_>, plan: &ChurnPlan, stage: &Stage) -> Result<Answer, Error> {
    Ok(match event {
        Event::Open { .. } => Answer::Open,
        Event::CloseOk => Answer::Closed,
        Event::ChannelClosed { closing, .. } | Event::Closed { closing } => {
            return Err(failure::of_closing(&plan.endpoint, stage, closing));
        }
        Event::Method { method, .. } => match method {
            Method::ChannelOpenOk(_) => Answer::Channel,
            Method::ChannelCloseOk(_) => Answer::ChannelClosed,
            Method::QueueDeclareOk(_) => Answer::Declared,
            Method::QueueDeleteOk(_) => Answer::Deleted,
            _ => Answer::Other,
        },
        _ => Answer::Other,
    })
}

fn stage(plan: &ChurnPlan) -> Stage {
    match plan.kind {
        ChurnKind::Connections => Stage::LogIn,
        ChurnKind::Channels => Stage::SetUp("open and close a channel".into()),
        ChurnKind::Queues => Stage::SetUp("declare and delete a queue".into()),
    }
}
