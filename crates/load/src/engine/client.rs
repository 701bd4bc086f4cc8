//! One client on its socket: reads in batches, decides, writes in batches.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;

use measure::{Clock, Nanos, Phase, Time};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::consumer::{Consumer, Wanted};
use super::deal::{ClientSpec, WorkSpec};
use super::pages::Pages;
use super::producer::{Producer, Standing};
use super::repair::Repair;
use super::series::Series;
use super::shared::{Reason, Report, Shared, Standing as Progress};
use crate::control::Watch;
use crate::link::{FRAME_MAX, Link, Progress as SetUp, Signal};
use crate::{Error, Event as Happening, failure};

/// Room for one whole frame beside what one read brings.
pub(crate) const BUFFER_BYTES: usize = 2 * FRAME_MAX as usize;
/// A client that has this much to write reads nothing more, or its acknowledgements would pile up.
const UNREAD_ABOVE: usize = 1 << 20;

/// Room for the piece of a confirm that a read cuts off.
const ANSWER_ROOM: usize = 64;

/// What all clients of a thread work with.
pub(crate) struct Context<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) series: &'a mut Series,
    pub(crate) shared: &'a Shared,
    pub(crate) reports: &'a SyncSender<Report>,
    /// Where bytes are read to and decoded in; left-overs move to their client.
    pub(crate) buffer: &'a mut [u8],
    pub(crate) tally: &'a mut Tally,
    pub(crate) pages: &'a mut Option<Pages>,
}

/// What a thread has seen so far, beside its intervals.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) progress: Progress,
    /// Confirms and deliveries.
    pub(crate) handled: u64,
    /// Of the last confirm or delivery.
    pub(crate) latency: Nanos,
    /// The clock's last reading.
    pub(crate) last_now: Time,
    /// Clients without a connection at present, and all that ever lost theirs.
    pub(crate) broken: u64,
    pub(crate) lost_connections: u64,
    /// CPU time when the measured phase began, and how much it took.
    measure_cpu: Nanos,
    pub(crate) measured_cpu: Nanos,
}

impl Context<'_> {
    /// Reads the clock and closes the intervals that have ended by then.
    #[inline]
    pub(crate) fn now(&mut self) -> Time {
        // The clock before the boundaries: a boundary is always announced ahead of its time.
        let now = Clock.now();
        self.tally.last_now = now;
        let before = self.series.phase();
        if self.series.roll(now, self.shared.boundaries()) {
            self.phase_changed(before);
        }
        now
    }

    #[cold]
    fn phase_changed(&mut self, before: Phase) {
        let cpu = thread_cpu();
        if before == Phase::Measure {
            self.tally.measured_cpu = cpu.saturating_sub(self.tally.measure_cpu);
        } else if self.series.phase() == Phase::Measure {
            self.tally.measure_cpu = cpu;
        }
    }

    /// Notes the CPU time at the start of a run that begins with its measured phase.
    pub(crate) fn begin(&mut self) {
        self.tally.measure_cpu = thread_cpu();
    }

    fn tell(&self, report: Report) {
        // What does not fit is dropped: reports of this kind only inform.
        let _ = self.reports.try_send(report);
    }
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Connecting,
    SettingUp,
    /// Set up, waiting for the common start.
    Ready,
    Running,
    /// Lost its connection, and waits to make a new one.
    Broken,
    Leaving,
    Gone,
}

pub(super) enum Work {
    Producer(Producer),
    Consumer(Consumer),
}

/// What a client wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another turn, for there is more to do.
    Again,
    /// A turn at this time at the latest.
    At(Time),
    /// A turn when its socket stirs.
    Wait,
}

pub(crate) struct Client {
    pub(super) stream: TcpStream,
    pub(super) link: Link,
    pub(super) work: Work,
    pub(crate) state: State,
    token: Token,
    address: SocketAddr,
    pub(super) recovery: Option<Repair>,
    patience: Nanos,
    step_deadline: Time,
    endpoint: crate::Endpoint,
    /// What its buffers may take before they are needed.
    room: usize,
    /// Bytes read and not decoded yet.
    rest: Vec<u8>,
    /// The rest may hold whole frames.
    undecoded: bool,
    readable: bool,
    writable: bool,
    read_closed: bool,
    /// The broker asked for no more messages.
    withheld: bool,
    /// In the worker's queue already.
    pub(crate) queued: bool,
    /// In the worker's timer heap already.
    pub(crate) timed: bool,
}

impl Client {
    /// Starts to connect.
    pub(crate) fn connect(
        spec: ClientSpec,
        registry: &Registry,
        token: Token,
        now: Time,
    ) -> Result<Self, Error> {
        let endpoint = spec.link.endpoint.clone();
        let stream = dial(spec.address, registry, token)
            .map_err(|error| failure::of_connect(&endpoint, &error))?;
        let patience = spec.link.patience;
        let work = match spec.work {
            WorkSpec::Producer(spec) => Work::Producer(Producer::new(spec)),
            WorkSpec::Consumer(spec) => Work::Consumer(Consumer::new(spec)),
        };
        Ok(Self {
            stream,
            link: Link::new(spec.link, now),
            work,
            state: State::Connecting,
            token,
            address: spec.address,
            recovery: spec.recovery.map(Repair::new),
            patience,
            step_deadline: now + patience,
            endpoint,
            room: spec.room,
            rest: Vec::new(),
            undecoded: false,
            readable: false,
            writable: false,
            read_closed: false,
            withheld: false,
            queued: false,
            timed: false,
        })
    }

    /// Takes what the poll says of the socket.
    pub(crate) fn notice(&mut self, event: &Event) {
        self.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.writable |= event.is_writable() || event.is_error();
        self.read_closed |= event.is_read_closed() || event.is_error();
    }

    /// The common start has come.
    pub(crate) fn start(&mut self, start: Time) {
        if self.state == State::Ready {
            self.state = State::Running;
            self.may_be_repaired_from_now_on();
            match &mut self.work {
                Work::Producer(producer) => producer.start(start),
                Work::Consumer(consumer) => consumer.start(start),
            }
        }
    }

    /// Begins the way out.
    pub(crate) fn leave(&mut self, now: Time) -> Result<(), Error> {
        match self.state {
            State::Running | State::Ready => {
                if let Work::Consumer(consumer) = &mut self.work {
                    consumer.flush(&mut self.link);
                }
                self.state = State::Leaving;
                self.step_deadline = now + self.patience;
                self.link.leave(now)
            }
            State::Leaving => Ok(()),
            _ => {
                self.state = State::Gone;
                Ok(())
            }
        }
    }

    /// Does one bounded batch of whatever can be done.
    #[inline]
    pub(crate) fn turn(&mut self, context: &mut Context<'_>) -> Result<Next, Error> {
        if self.state == State::Broken
            && let Some(due) = self.connect_again(context)?
        {
            return Ok(Next::At(due));
        }
        if self.state == State::Connecting && !self.finish_connecting()? {
            return Ok(Next::Wait);
        }
        if self.may_read() {
            self.read(context)?;
        }
        self.flush()?;
        let standing = self.send(context)?;
        Ok(match standing {
            Standing::More if self.may_write() => Next::Again,
            _ if self.may_read() => Next::Again,
            Standing::Until(due) => Next::At(due),
            _ => Next::Wait,
        })
    }

    fn finish_connecting(&mut self) -> Result<bool, Error> {
        let failed = |error: std::io::Error| failure::of_connect(&self.endpoint, &error);
        if let Some(error) = self.stream.take_error().map_err(failed)? {
            return Err(failed(error));
        }
        if !self.writable {
            return Ok(false);
        }
        self.stream.set_nodelay(true).map_err(failed)?;
        self.state = State::SettingUp;
        Ok(true)
    }

    fn may_read(&self) -> bool {
        (self.readable || self.undecoded)
            && !matches!(self.state, State::Ready | State::Broken | State::Gone)
            && self.link.pending_output().len() < UNREAD_ABOVE
    }

    fn may_write(&self) -> bool {
        self.writable && self.link.pending_output().is_empty()
    }

    fn read(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let kept = self.rest.len();
        let (head, tail) = context.buffer.split_at_mut(kept.min(BUFFER_BYTES));
        head.copy_from_slice(&self.rest);
        let mut filled = kept;
        if self.undecoded {
            self.undecoded = false;
        } else {
            match self.stream.read(tail) {
                Ok(0) if self.state == State::Leaving => {
                    self.state = State::Gone;
                    return Ok(());
                }
                Ok(0) => return Err(self.link.end_of_input(&self.rest)),
                Ok(n) => {
                    filled += n;
                    // Less than asked for: the socket is empty, and will say when it is not.
                    self.readable = n == tail.len() || self.read_closed;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
                Err(error) => return Err(self.link.transport_failed(&error)),
            }
        }
        // After the read: whatever is in the buffer was sent before this instant.
        let now = context.now();
        let buffer = std::mem::take(&mut context.buffer);
        let decoded = self.decode(now, &buffer[..filled], context);
        context.buffer = buffer;
        let decoded = decoded?;
        if let Some(pages) = context.pages {
            pages.send_when_due(context.reports);
        }
        self.rest.clear();
        self.rest
            .extend_from_slice(&context.buffer[decoded..filled]);
        Ok(())
    }

    /// Decodes whole frames and returns how many bytes they took.
    fn decode(
        &mut self,
        now: Time,
        bytes: &[u8],
        context: &mut Context<'_>,
    ) -> Result<usize, Error> {
        let mut at = 0;
        loop {
            let mut input = &bytes[at..];
            let signal = self.link.poll(now, &mut input)?;
            at = bytes.len() - input.len();
            match signal {
                Some(Signal::Delivery {
                    tag,
                    redelivered,
                    body,
                }) => {
                    let Work::Consumer(consumer) = &mut self.work else {
                        continue;
                    };
                    if self.state != State::Running {
                        continue;
                    }
                    let wanted = consumer.wants();
                    if wanted == Wanted::No {
                        continue;
                    }
                    let ours = consumer.take(
                        (body, redelivered),
                        now,
                        context.series.current(),
                        &mut context.tally.latency,
                        context.pages.as_mut(),
                    );
                    consumer.acknowledge(tag, now, &mut self.link);
                    context.tally.handled += 1;
                    context.tally.progress.received += u64::from(ours);
                    if wanted == Wanted::Last {
                        context.tell(Report::CountReached);
                    }
                }
                Some(Signal::Confirm {
                    tag,
                    multiple,
                    nack,
                }) => {
                    self.confirmed((tag, multiple, nack), now, context)?;
                }
                Some(Signal::Step(step)) => {
                    self.step_deadline = now + self.patience;
                    if self.link.proceed(step, now)? == SetUp::Ready {
                        self.state = State::Ready;
                        self.make_room();
                        self.resume(context);
                        // What follows already belongs to the run, which has not begun.
                        self.undecoded = at < bytes.len();
                        break;
                    }
                }
                Some(Signal::Returned) => context.series.current().counters.returned += 1,
                Some(Signal::Blocked { reason }) => {
                    self.withheld = true;
                    // AMQP's short strings are never too long for it.
                    let reason = Reason::from(reason).unwrap_or_default();
                    context.tell(Report::Blocked { at: now, reason });
                }
                Some(Signal::Unblocked) => {
                    self.withheld = false;
                    context.tell(Report::Event(Happening::Unblocked { at: now }));
                }
                Some(Signal::Closed) => {
                    self.state = State::Gone;
                    break;
                }
                Some(Signal::Other) => {}
                None => break,
            }
        }
        if let Work::Consumer(consumer) = &mut self.work {
            consumer.end_of_batch(now, context.series.current(), &mut context.tally.latency);
        }
        Ok(at)
    }

    /// Makes room for all that may wait in memory, so that nothing is allocated later.
    fn make_room(&mut self) {
        let (output, input) = match &self.work {
            Work::Producer(producer) => (producer.output_room(&self.link), ANSWER_ROOM),
            Work::Consumer(consumer) => (consumer.output_room(), consumer.input_room()),
        };
        self.link.reserve(output.min(self.room));
        self.rest.reserve(input.min(self.room));
    }

    #[inline]
    fn confirmed(
        &mut self,
        answer: (u64, bool, bool),
        now: Time,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        let Work::Producer(producer) = &mut self.work else {
            return Ok(());
        };
        let (interval, latency) = (context.series.current(), &mut context.tally.latency);
        // What is answered after the end of the drain came too late for the ledger, too.
        let pages = context
            .pages
            .as_mut()
            .filter(|_| self.state == State::Running);
        let count = producer
            .answer(answer, now, interval, latency, pages)
            .map_err(|_| Error::Protocol {
                endpoint: self.endpoint.to_string(),
                detail: format!(
                    "the broker confirmed message {}, which was never sent",
                    answer.0
                ),
            })?;
        if context.shared.control.watch() == Watch::Confirm
            && !answer.2
            && context
                .shared
                .control
                .watch_on(Watch::Confirm, Watch::Backlog)
        {
            context.tell(Report::Event(Happening::FirstConfirm { at: now }));
        }
        let progress = &mut context.tally.progress;
        progress.open = progress.open.saturating_sub(count);
        if answer.2 {
            let lost = count * producer.spec.fan_out;
            progress.expected = progress.expected.saturating_sub(lost);
        }
        context.tally.handled += count;
        Ok(())
    }

    fn send(&mut self, context: &mut Context<'_>) -> Result<Standing, Error> {
        if self.state != State::Running || self.withheld || !self.may_write() {
            return Ok(Standing::Idle);
        }
        let Work::Producer(producer) = &mut self.work else {
            return Ok(Standing::Idle);
        };
        let now = context.now();
        if context.series.phase() == Phase::Drain {
            return Ok(Standing::Idle);
        }
        let sent = producer.send(now, &mut self.link, context.series.current());
        let progress = &mut context.tally.progress;
        progress.expected += sent.count * producer.spec.fan_out;
        if producer.spec.confirm {
            progress.open += sent.count;
        }
        if sent.reached_limit
            && context
                .shared
                .producers_left
                .fetch_sub(1, Ordering::Relaxed)
                == 1
        {
            context.tell(Report::CountReached);
        }
        self.flush()?;
        Ok(sent.standing)
    }

    /// Writes as much as the socket takes.
    fn flush(&mut self) -> Result<(), Error> {
        while self.writable {
            let pending = self.link.pending_output();
            if pending.is_empty() {
                break;
            }
            match self.stream.write(pending) {
                Ok(n) => self.link.consume_output(n),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Whoever closed the connection may have said why; reading will tell.
                Err(_) if self.may_read() => break,
                Err(error) => return Err(self.link.transport_failed(&error)),
            }
        }
        Ok(())
    }

    /// What is due now and then: heartbeats, left-over acknowledgements, steps that take too long.
    /// Tells whether the client needs a turn.
    pub(crate) fn housekeep(&mut self, now: Time) -> Result<bool, Error> {
        if matches!(self.state, State::Broken | State::Gone) {
            return Ok(false);
        }
        if self.link.next_timeout().is_some_and(|due| due <= now) {
            self.link.handle_timeout(now)?;
        }
        let setting_up = matches!(self.state, State::Connecting | State::SettingUp);
        if setting_up && now > self.step_deadline {
            return Err(self.link.took_too_long());
        }
        if self.state == State::Running
            && let Work::Consumer(consumer) = &mut self.work
            && consumer.gathers_acks()
        {
            consumer.flush_if_idle(now, &mut self.link);
        }
        Ok(!self.link.pending_output().is_empty() && self.writable)
    }

    /// Messages without an answer.
    pub(crate) fn unanswered(&self) -> u64 {
        match &self.work {
            Work::Producer(producer) => producer.unanswered(),
            Work::Consumer(_) => 0,
        }
    }

    /// A producer's number and how much it sent.
    pub(crate) fn sent(&self) -> Option<(u32, u64)> {
        match &self.work {
            Work::Producer(producer) => Some((producer.spec.id, producer.sent())),
            Work::Consumer(_) => None,
        }
    }

    /// Whether it still has to catch up with the return of a broker: a producer with its schedule,
    /// a consumer with what was due from `since` on.
    pub(crate) fn is_behind(&self, now: Time, since: Time) -> bool {
        match (&self.work, self.state) {
            (Work::Producer(producer), State::Running) => producer.is_late(now),
            (Work::Consumer(consumer), State::Running) => consumer.latest() < since,
            _ => true,
        }
    }

    /// Drops the connection.
    pub(super) fn hang_up(&mut self) {
        self.state = State::Broken;
        self.rest.clear();
        self.undecoded = false;
        self.readable = false;
        self.writable = false;
        self.read_closed = false;
        self.withheld = false;
        // Both fail only where the other side has gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Starts to connect on a new socket.
    pub(super) fn dial_again(&mut self, now: Time, registry: &Registry) -> Result<(), Error> {
        self.state = State::Connecting;
        self.step_deadline = now + self.patience;
        self.stream = dial(self.address, registry, self.token)
            .map_err(|error| failure::of_connect(&self.endpoint, &error))?;
        self.link.restart(now);
        Ok(())
    }
}

fn dial(address: SocketAddr, registry: &Registry, token: Token) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(stream)
}
