//! How long the hot paths take, in nanoseconds per message: `cargo run --release -p wire --example hot_paths`. Each
//! line is the fastest of many batches, so that a busy machine changes it little; a batch is one turn of an event loop.

use std::hint::black_box;
use std::time::Instant;

use measure::Time;
use wire::amqp091::*;

const NOW: Time = Time(1);
const BATCH: u64 = 1_000;
const ROUNDS: usize = 2_000;

/// The fastest batch, in nanoseconds per message.
fn fastest(mut batch: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        batch();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e9 / BATCH as f64
}

/// Both sides, with channel 1 open.
fn open() -> Result<(Client, Server), Failure> {
    let config = ClientConfig { heartbeat_s: 0, ..ClientConfig::default() };
    let server = ServerConfig { heartbeat_s: 0, ..ServerConfig::default() };
    let (mut client, mut server) = (Client::new(config, NOW), Server::new(server, NOW));
    for _ in 0..4 {
        let bytes = take_client(&mut client);
        serve(&mut server, &bytes)?;
        let bytes = take_server(&mut server);
        let mut input = bytes.as_slice();
        while client.poll(NOW, &mut input)?.is_some() {}
        if client.is_open() {
            client.send(1, &ChannelOpen::default())?;
            serve(&mut server, &take_client(&mut client))?;
            take_server(&mut server);
            return Ok((client, server));
        }
    }
    Err("no handshake".into())
}

type Failure = Box<dyn std::error::Error>;

fn serve(server: &mut Server, bytes: &[u8]) -> Result<(), Failure> {
    let mut input = bytes;
    loop {
        let (login, open) = match server.poll(NOW, &mut input)? {
            Some(event) => (matches!(event, ServerEvent::Login { .. }), matches!(event, ServerEvent::Open { .. })),
            None => return Ok(()),
        };
        if login {
            server.accept_login();
        }
        if open {
            server.accept_open();
        }
    }
}

fn take_client(client: &mut Client) -> Vec<u8> {
    let bytes = client.pending_output().to_vec();
    client.consume_output(bytes.len());
    bytes
}

fn take_server(server: &mut Server) -> Vec<u8> {
    let bytes = server.pending_output().to_vec();
    server.consume_output(bytes.len());
    bytes
}

fn main() -> Result<(), Failure> {
    println!("{:<52} {:>8}", "ns per message", "");
    for len in [12usize, 1024] {
        let (mut client, mut server) = open()?;
        let to_queue = BasicPublish { routing_key: "TEST_QUEUE", ..Default::default() };
        let properties = BasicProperties { delivery_mode: Some(2), ..Default::default() };
        let properties = properties.to_bytes()?;
        let properties = Properties::from_bytes(&properties);
        let body = vec![0; len];
        let template = PublishTemplate::new(1, &to_queue, properties, &body, client.frame_max())?;
        let publish = |client: &mut Client| {
            for i in 0..BATCH {
                client.publish(&template, |body| {
                    if let Some(slot) = body.first_chunk_mut() {
                        *slot = i.to_le_bytes();
                    }
                });
            }
        };
        row(&format!("client: publish from a template, {len} B"), || {
            publish(&mut client);
            client.consume_output(black_box(client.pending_output()).len());
        });
        publish(&mut client);
        let published = take_client(&mut client);
        row(&format!("server: decode a publish in place, {len} B"), || {
            let mut input = published.as_slice();
            while let Ok(Some(event)) = server.poll(NOW, &mut input) {
                black_box(&event);
            }
        });

        let template = DeliverTemplate::new(1, "consumer-1", "", "TEST_QUEUE")?;
        let deliver = |server: &mut Server| {
            for tag in 0..BATCH {
                let _ = server.deliver(&template, tag, false, properties, &body);
            }
        };
        row(&format!("server: deliver from a template, {len} B"), || {
            deliver(&mut server);
            server.consume_output(black_box(server.pending_output()).len());
        });
        deliver(&mut server);
        let delivered = take_server(&mut server);
        row(&format!("client: decode a delivery in place, {len} B"), || {
            let mut input = delivered.as_slice();
            while let Ok(Some(event)) = client.poll(NOW, &mut input) {
                black_box(&event);
            }
        });
    }
    settlements()
}

fn settlements() -> Result<(), Failure> {
    let (mut client, mut server) = open()?;
    row("server: encode a confirm", || {
        (0..BATCH).for_each(|tag| server.confirm(1, tag, false));
        server.consume_output(black_box(server.pending_output()).len());
    });
    (0..BATCH).for_each(|tag| server.confirm(1, tag, false));
    let confirms = take_server(&mut server);
    row("client: decode a confirm", || {
        let mut input = confirms.as_slice();
        while let Ok(Some(event)) = client.poll(NOW, &mut input) {
            black_box(&event);
        }
    });
    row("client: encode an ack", || {
        (0..BATCH).for_each(|tag| client.ack(1, tag, true));
        client.consume_output(black_box(client.pending_output()).len());
    });
    (0..BATCH).for_each(|tag| client.ack(1, tag, true));
    let acks = take_client(&mut client);
    row("server: decode an ack", || {
        let mut input = acks.as_slice();
        while let Ok(Some(event)) = server.poll(NOW, &mut input) {
            black_box(&event);
        }
    });
    Ok(())
}

fn row(name: &str, batch: impl FnMut()) {
    println!("{name:<52} {:>8.1}", fastest(batch));
}
