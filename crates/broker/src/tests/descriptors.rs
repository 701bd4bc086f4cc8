//! A process without free descriptors. The limit is the whole process's: `scripts/test` gives each test its own.

use std::net::TcpStream;
use std::time::Duration;

use super::peer::{Connection, Seen};
use crate::{Broker, Config};
use measure::Clock;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use wire::amqp091::QueueDeclare;

fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

#[test]
fn newcomers_wait_while_no_descriptor_is_left_and_nothing_spins() {
    let broker = Broker::bind(Config::default()).expect("a free port");
    let address = broker.local_addr();
    // The system completes these connections; the broker has yet to accept them.
    let waiting: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).expect("a connection")).collect();
    let highest = std::fs::read_dir("/proc/self/fd").expect("descriptors").count() as u64;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 4), ..limit }).expect("a lower limit");
    let _running = broker.spawn().expect("a thread");

    let mut clients: Vec<Connection> = waiting.into_iter().map(Connection::start).collect();
    let mut served = clients.remove(0);
    assert_eq!(served.next(), Seen::Open, "those who are in are served");
    let (began, cpu) = (Clock.now(), cpu_time());
    std::thread::sleep(Duration::from_secs(1));
    let (wall, cpu) = (Duration::from(Clock.now().since(began)), cpu_time() - cpu);
    assert!(cpu < wall / 5, "{cpu:?} of CPU time in {wall:?} of waiting");

    // Each one that leaves lets one in.
    drop(served);
    for mut client in clients {
        assert_eq!(client.next(), Seen::Open);
        client.ask(&wire::amqp091::ChannelOpen::default(), "ChannelOpenOk");
        client.ask(&QueueDeclare { queue: "q", ..QueueDeclare::default() }, "QueueDeclareOk");
    }
    let mut last = Connection::open(address);
    last.publish("q", b"all is well again");
    last.flush();
    last.ask(&QueueDeclare { queue: "q", ..QueueDeclare::default() }, "QueueDeclareOk");
}
