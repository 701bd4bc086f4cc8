//! Runs the client against a live broker and says what it saw: handshake, declare, publish with confirms (one frame and
//! many), consume, get, returns, transactions, and a channel closed by the broker.
//! `cargo run -p wire --example live -- 127.0.0.1:5672 [USER PASSWORD VHOST]`

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use measure::{Nanos, Time};
use wire::amqp091::*;

const QUEUE: &str = "wire-live";

/// A blocking connection, for a program that does one thing after the other.
struct Live {
    stream: TcpStream,
    client: Client,
    unread: Vec<u8>,
    start: Instant,
}

impl Live {
    fn now(&self) -> Time {
        Time(0) + Nanos::from(self.start.elapsed())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let written = self.client.pending_output().len();
        self.stream.write_all(self.client.pending_output())?;
        self.client.consume_output(written);
        Ok(())
    }

    /// Waits for the next event that `want` takes; others are printed, but for confirms.
    fn wait<T>(&mut self, mut want: impl FnMut(&Event<'_>) -> Option<T>) -> Result<T, Box<dyn Error>> {
        loop {
            let now = self.now();
            let mut input = self.unread.as_slice();
            let mut found = None;
            while let Some(event) = self.client.poll(now, &mut input)? {
                found = want(&event);
                if found.is_some() {
                    break;
                }
                if !matches!(event, Event::Confirm { .. }) {
                    println!("  {event:?}");
                }
            }
            let consumed = self.unread.len() - input.len();
            self.unread.drain(..consumed);
            self.flush()?;
            if let Some(found) = found {
                return Ok(found);
            }
            let mut buffer = [0; 65_536];
            match self.stream.read(&mut buffer)? {
                0 => return Err(self.client.end_of_input(&self.unread).into()),
                n => self.unread.extend_from_slice(buffer.get(..n).unwrap_or_default()),
            }
        }
    }

    /// Sends a method and waits for the answer named `answer`.
    fn call(&mut self, method: &impl EncodeMethod, answer: &str) -> Result<(), Box<dyn Error>> {
        self.client.send(1, method)?;
        self.flush()?;
        self.wait(|event| match event {
            Event::Method { method, .. } if method.info().name == answer => Some(()),
            _ => None,
        })?;
        println!("{answer}");
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5672".to_owned());
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let argument = |n, default: &str| std::env::args().nth(n).unwrap_or_else(|| default.to_owned());
    let config = ClientConfig {
        user: argument(2, "guest"),
        password: argument(3, "guest").into(),
        virtual_host: argument(4, "/"),
        connection_name: "wire live".to_owned(),
        ..Default::default()
    };
    let client = Client::new(config, Time(0));
    let mut live = Live { stream, client, unread: Vec::new(), start: Instant::now() };
    live.flush()?;
    live.wait(|event| matches!(event, Event::Open { .. }).then(|| println!("{event:?}")))?;

    open_channel(&mut live)?;
    let arguments = FieldTable::new();
    let declare = QueueDeclare { queue: QUEUE, arguments: arguments.view(), ..Default::default() };
    live.call(&declare, "queue.declare-ok")?;
    live.call(&QueuePurge { queue: QUEUE, ..Default::default() }, "queue.purge-ok")?;
    live.call(&ConfirmSelect { no_wait: false }, "confirm.select-ok")?;
    let largest = publish(&mut live)?;
    unroutable(&mut live)?;
    get(&mut live)?;
    consume(&mut live, largest)?;
    transaction(&mut live)?;
    channel_error(&mut live)?;
    let now = live.now();
    live.client.close(now, reply::REPLY_SUCCESS, "bye");
    live.flush()?;
    live.wait(|event| matches!(event, Event::CloseOk).then_some(()))?;
    println!("closed");
    Ok(())
}

fn open_channel(live: &mut Live) -> Result<(), Box<dyn Error>> {
    live.call(&ChannelOpen::default(), "channel.open-ok")
}

/// Publishes small messages from a template and one of several frames; all must be confirmed.
fn publish(live: &mut Live) -> Result<usize, Box<dyn Error>> {
    let to_queue = BasicPublish { routing_key: QUEUE, mandatory: true, ..Default::default() };
    let frame_max = live.client.frame_max();
    let template = PublishTemplate::new(1, &to_queue, Properties::NONE, &[0; 12], frame_max)?;
    for i in 0..1_000u32 {
        live.client.publish(&template, |body| {
            if let Some(slot) = body.first_chunk_mut() {
                *slot = i.to_le_bytes();
            }
        });
    }
    let large: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    let headers = headers()?;
    let properties = BasicProperties { headers: Some(headers.view()), ..Default::default() };
    let properties = properties.to_bytes()?;
    live.client.send_content(1, &to_queue, Properties::from_bytes(&properties), &large)?;
    live.flush()?;
    let mut confirmed = 0;
    live.wait(|event| match event {
        Event::Confirm { delivery_tag, multiple: true, nack: false, .. } => {
            confirmed = *delivery_tag;
            (confirmed == 1_001).then_some(())
        }
        Event::Confirm { multiple: false, nack: false, .. } => {
            confirmed += 1;
            (confirmed == 1_001).then_some(())
        }
        _ => None,
    })?;
    println!("1001 messages confirmed");
    Ok(large.len())
}

/// Every type that a header can have.
fn headers() -> Result<FieldTable, EncodeError> {
    let mut inner = FieldTable::new();
    inner.insert("void", Value::Void)?;
    let mut array = FieldArray::new();
    array.push("one")?;
    array.push(2i32)?;
    let mut headers = FieldTable::new();
    headers.insert("t", true)?;
    headers.insert("b", -8i8)?;
    headers.insert("B", 200u8)?;
    headers.insert("s", -16i16)?;
    headers.insert("u", 60_000u16)?;
    headers.insert("I", -32i32)?;
    headers.insert("i", 4_000_000_000u32)?;
    headers.insert("l", -64i64)?;
    headers.insert("f", 1.5f32)?;
    headers.insert("d", -2.25f64)?;
    headers.insert("D", Value::Decimal { scale: 2, value: 314 })?;
    headers.insert("S", "text")?;
    headers.insert("A", &array)?;
    headers.insert("T", Value::Timestamp(1_700_000_000))?;
    headers.insert("F", &inner)?;
    headers.insert("x", Value::Bytes(&[0, 255]))?;
    Ok(headers)
}

fn unroutable(live: &mut Live) -> Result<(), Box<dyn Error>> {
    let nowhere = BasicPublish { routing_key: "no-such-queue", mandatory: true, ..Default::default() };
    live.client.send_content(1, &nowhere, Properties::NONE, b"lost")?;
    live.flush()?;
    live.wait(|event| matches!(event, Event::Returned { .. }).then(|| println!("{event:?}")))?;
    live.wait(|event| matches!(event, Event::Confirm { .. }).then(|| println!("{event:?}")))
}

fn get(live: &mut Live) -> Result<(), Box<dyn Error>> {
    live.client.send(1, &BasicGet { queue: QUEUE, ..Default::default() })?;
    live.flush()?;
    let tag = live.wait(|event| match event {
        Event::GetOk { delivery_tag, .. } => {
            println!("{event:?}");
            Some(*delivery_tag)
        }
        _ => None,
    })?;
    live.client.reject(1, tag, true);
    Ok(())
}

/// Takes all messages back in order, the large one last and whole.
fn consume(live: &mut Live, largest: usize) -> Result<(), Box<dyn Error>> {
    live.call(&BasicQos { prefetch_count: 100, ..Default::default() }, "basic.qos-ok")?;
    let consume = BasicConsume { queue: QUEUE, consumer_tag: "c", ..Default::default() };
    live.call(&consume, "basic.consume-ok")?;
    for expected in 0..1_001u32 {
        let (tag, ok) = live.wait(|event| match event {
            Event::Delivery { delivery_tag, properties, body, .. } => {
                let ok = if body.len() == largest {
                    println!("{:?}", properties.decode());
                    expected == 1_000 && body.iter().zip(0u32..).all(|(b, i)| *b == i as u8)
                } else {
                    body.first_chunk() == Some(&expected.to_le_bytes())
                };
                Some((*delivery_tag, ok))
            }
            _ => None,
        })?;
        if !ok {
            return Err(format!("delivery {tag} is not what was published").into());
        }
        live.client.ack(1, tag, false);
        live.flush()?;
    }
    println!("1001 messages received");
    live.call(&BasicCancel { consumer_tag: "c", no_wait: false }, "basic.cancel-ok")
}

fn transaction(live: &mut Live) -> Result<(), Box<dyn Error>> {
    live.call(&ChannelClose { reply_code: 200, ..Default::default() }, "channel.close-ok")?;
    open_channel(live)?;
    live.call(&TxSelect {}, "tx.select-ok")?;
    let to_queue = BasicPublish { routing_key: QUEUE, ..Default::default() };
    live.client.send_content(1, &to_queue, Properties::NONE, b"")?;
    live.call(&TxCommit {}, "tx.commit-ok")?;
    live.client.send_content(1, &to_queue, Properties::NONE, b"not kept")?;
    live.call(&TxRollback {}, "tx.rollback-ok")?;
    live.call(&QueueDelete { queue: QUEUE, ..Default::default() }, "queue.delete-ok")
}

fn channel_error(live: &mut Live) -> Result<(), Box<dyn Error>> {
    live.client.send(1, &QueueDeclare { queue: "nope", passive: true, ..Default::default() })?;
    live.flush()?;
    live.wait(|event| match event {
        Event::ChannelClosed { closing, .. } => {
            println!("channel closed: {closing}");
            Some(())
        }
        _ => None,
    })
}
