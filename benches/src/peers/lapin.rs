//! A publisher written on crate `lapin`, as well as its interface allows: one channel, confirms,
//! a window of unconfirmed messages, the oldest confirm awaited when the window is full.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{BasicProperties, Connection, ConnectionProperties};

use super::Args;

/// Publishes, printing `time T s, sent: N msg/s` each second, as PerfTest does.
pub fn publish(args: Args) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(run(args))
}

async fn run(args: Args) -> Result<()> {
    let connection = Connection::connect(&args.url, ConnectionProperties::default()).await.context("cannot connect")?;
    let channel = connection.create_channel().await?;
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString(LongString::from("stream")));
    channel.queue_declare(args.queue.as_str().into(), QueueDeclareOptions::durable(), arguments).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let payload = vec![b'x'; args.size];
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let mut unconfirmed = VecDeque::with_capacity(args.window);
    let start = Instant::now();
    let mut last = start;
    let mut sent = 0u64;
    while start.elapsed() < Duration::from_secs(args.seconds) {
        // The clock is read once per batch, as bellows does.
        for _ in 0..64 {
            let confirm = channel
                .basic_publish(
                    "".into(),
                    args.queue.as_str().into(),
                    BasicPublishOptions::default(),
                    &payload,
                    persistent.clone(),
                )
                .await?;
            unconfirmed.push_back(confirm);
            sent += 1;
            if unconfirmed.len() == args.window
                && let Some(oldest) = unconfirmed.pop_front()
            {
                oldest.await?;
            }
        }
        let length = last.elapsed();
        if length >= Duration::from_secs(1) {
            let rate = sent as f64 / length.as_secs_f64();
            println!("time {:.3} s, sent: {rate:.0} msg/s", start.elapsed().as_secs_f64());
            last = Instant::now();
            sent = 0;
        }
    }
    for confirm in unconfirmed {
        confirm.await?;
    }
    connection.close(200, "done".into()).await?;
    Ok(())
}
