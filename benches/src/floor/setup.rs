//! Everything before the load and after it, on a socket that blocks: what it costs is not measured.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use measure::Clock;
use wire::amqp091::{
    BasicConsume, BasicQos, ChannelOpen, Client, ClientConfig, ConfirmSelect, EncodeMethod, Event, FieldTable, Method,
    QueueDeclare, QueueDelete, QueuePurge,
};

use super::Args;

/// The only channel of a connection.
pub const CHANNEL: u16 = 1;
/// The broker answers a step of the set-up within this.
const PATIENCE: Duration = Duration::from_secs(30);

/// A socket that blocks, with time-outs.
pub fn connect(address: &str) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// A connection that is being set up.
pub struct Session {
    stream: TcpStream,
    pub client: Client,
}

impl Session {
    /// Logs in as guest, and opens a channel.
    pub fn open(address: &str) -> Result<Self> {
        let stream = connect(address)?;
        let config = ClientConfig { connection_name: "floor".to_owned(), ..ClientConfig::default() };
        let mut session = Self { stream, client: Client::new(config, Clock.now()) };
        session.answer().context("log in")?;
        session.call(&ChannelOpen::default())?;
        Ok(session)
    }

    /// The queue of the run, empty.
    pub fn declare(&mut self, args: &Args) -> Result<()> {
        let mut arguments = FieldTable::new();
        if args.stream {
            arguments.insert("x-queue-type", "stream")?;
        }
        if let Some(length) = args.max_length {
            arguments.insert("x-max-length", length)?;
        }
        self.call(&QueueDeclare {
            queue: &args.queue,
            durable: args.durable || args.stream,
            arguments: arguments.view(),
            ..QueueDeclare::default()
        })?;
        if args.stream {
            return Ok(());
        }
        self.call(&QueuePurge { queue: &args.queue, ..QueuePurge::default() })
    }

    /// From here on messages are confirmed.
    pub fn confirm(&mut self) -> Result<()> {
        self.call(&ConfirmSelect { no_wait: false })
    }

    /// From here on messages come, with no limit of those that are not acknowledged.
    pub fn consume(&mut self, queue: &str) -> Result<()> {
        self.call(&BasicQos::default())?;
        self.call(&BasicConsume { queue, consumer_tag: "bellows", ..BasicConsume::default() })
    }

    /// Removes the queue, with all that is in it.
    pub fn delete(&mut self, queue: &str) -> Result<()> {
        self.call(&QueueDelete { queue, ..QueueDelete::default() })
    }

    /// The socket, which no longer blocks.
    pub fn into_stream(self) -> Result<mio::net::TcpStream> {
        self.stream.set_nonblocking(true)?;
        Ok(mio::net::TcpStream::from_std(self.stream))
    }

    fn call(&mut self, method: &impl EncodeMethod) -> Result<()> {
        self.client.send(CHANNEL, method)?;
        self.answer()
    }

    /// Sends what waits, and takes in one answer.
    fn answer(&mut self) -> Result<()> {
        let mut input = Vec::new();
        loop {
            while !self.client.pending_output().is_empty() {
                let written = self.stream.write(self.client.pending_output())?;
                self.client.consume_output(written);
            }
            let mut piece = [0; 4096];
            let read = self.stream.read(&mut piece).context("no answer")?;
            if read == 0 {
                bail!("the broker closed the connection");
            }
            input.extend_from_slice(&piece[..read]);
            let mut rest = input.as_slice();
            while let Some(event) = self.client.poll(Clock.now(), &mut rest)? {
                match event {
                    Event::Open { .. } => return Ok(()),
                    Event::Method { method, .. } if is_answer(&method) => return Ok(()),
                    Event::ChannelClosed { closing, .. } | Event::Closed { closing } => {
                        bail!("the broker refused: {closing}")
                    }
                    _ => {}
                }
            }
            let taken = input.len() - rest.len();
            input.drain(..taken);
        }
    }
}

fn is_answer(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::ChannelOpenOk(_)
            | Method::QueueDeclareOk(_)
            | Method::QueuePurgeOk(_)
            | Method::QueueDeleteOk(_)
            | Method::ConfirmSelectOk(_)
            | Method::BasicQosOk(_)
            | Method::BasicConsumeOk(_)
    )
}
