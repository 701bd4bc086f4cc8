//! Named series of a made-up machine, a broker, and a scraped page.

use archive::{RunWriter, SeriesName, SeriesUnit};

use crate::State;
use crate::random::Random;

/// Writes the values of a second.
pub(crate) fn write(writer: &mut RunWriter, second: u32, state: &State) {
    let mut random = Random(u64::from(second) + 99);
    let t = f64::from(second);
    let mut values: Vec<(SeriesName, f64)> = Vec::new();
    let name = |source: &str, name: &str, unit| SeriesName::new(source, name, unit);
    for (state, cores) in [("user", 1.2), ("system", 0.5), ("stolen", 0.0)] {
        let cpu = name("machine", "CPU", SeriesUnit::Cores).with("state", state);
        values.push((cpu, cores * (0.9 + 0.2 * random.unit())));
    }
    for (kind, bytes) in [("programs", 2.1e9), ("page cache", 4e8 + 2e7 * t)] {
        let memory = name("machine", "memory", SeriesUnit::Bytes).with("kind", kind);
        values.push((memory, bytes));
    }
    let pressure = name("machine", "pressure", SeriesUnit::Share);
    values.push((pressure.with("waiting for", "cpu (some)"), 0.3 * random.unit()));
    let switches = name("broker", "context switches", SeriesUnit::PerSecond);
    values.push((switches, 40e3 * (0.9 + 0.2 * random.unit())));
    if state.hostile {
        let page = name("<b>page</b>", "<img src=x onerror=alert(1)>", SeriesUnit::Count);
        values.push((page.with("queue", "\u{202e}<script>alert(1)</script>"), t + 1.0));
    }
    writer.append_values(t, 1.0, values);
    if second.is_multiple_of(2) {
        let queues = (0..12).map(|queue| {
            let ready = name("queues", "rabbitmq_queue_messages_ready", SeriesUnit::Count);
            let ready = ready.with("queue", &format!("orders-{queue}"));
            (ready, f64::from(queue * 40) + 20.0 * random.unit())
        });
        let values: Vec<_> = queues.collect();
        writer.append_values(t, 2.0, values);
    }
}
