use load::*;
use measure::*;
struct S { total: Interval, last: Option<(u64,u64)> }
impl Sink for S {
    fn interval(&mut self, m: &Interval) {
        let s = m.length().as_secs_f64();
        let c = m.counters;
        let l = m.latencies.summaries();
        println!("{:8} {:.3}s sent {:.0} completed {:.0} received {:.0} blocked {} late {} nacked {} lag {} | ackresp p50 {} p99 {} max {} | delay p50 {} p99 {} | e2e p50 {} p99 {} max {} transfer n {}",
            m.phase.name(), s, c.sent as f64/s, c.completed as f64/s, c.received as f64/s, c.blocked, c.late, c.nacked, m.loop_lag_max,
            Nanos(l.ack_response.p50_ns), Nanos(l.ack_response.p99_ns), Nanos(l.ack_response.max_ns), Nanos(l.send_delay.p50_ns), Nanos(l.send_delay.p99_ns),
            Nanos(l.end_to_end.p50_ns), Nanos(l.end_to_end.p99_ns), Nanos(l.end_to_end.max_ns), l.transfer.count);
        if m.phase == Phase::Measure { self.total.merge(m); }
    }
    fn event(&mut self, e: Event) { println!("{e:?}"); let _ = &self.last; }
}
fn main() {
    let mut args = std::env::args().skip(1);
    let mut g = Group::new(args.next().unwrap().parse().unwrap(), vec![]);
    let mut plan = Plan { run_id: std::process::id(), ..Plan::default() };
    plan.phases = Phases { warmup: Nanos::SECOND, measure: Some(Nanos(5_000_000_000)), drain: Nanos(5_000_000_000) };
    g.producers.max_pending = 2000; g.producers.message_size = 12; g.producers.per_destination = 1;
    for a in args {
        let (k, v) = a.split_once('=').unwrap();
        match k {
            "dest" => g.destinations.push(Destination::parse(v).unwrap()),
            "type" => for d in &mut g.destinations { d.queue_type = match v { "stream" => QueueType::Stream, "quorum" => QueueType::Quorum, _ => QueueType::Classic } },
            "durable" => for d in &mut g.destinations { d.durable = v == "1" },
            "producers" => g.producers.per_destination = v.parse().unwrap(),
            "consumers" => g.consumers.per_destination = v.parse().unwrap(),
            "rate" => g.producers.rate = Rate::per_second(v.parse().unwrap()),
            "pending" => g.producers.max_pending = v.parse().unwrap(),
            "size" => g.producers.message_size = v.parse().unwrap(),
            "persistent" => g.producers.persistent = v == "1",
            "confirm" => g.producers.confirm = v == "1",
            "count" => g.producers.message_count = Some(v.parse().unwrap()),
            "ccount" => g.consumers.message_count = Some(v.parse().unwrap()),
            "prefetch" => g.consumers.prefetch = v.parse().unwrap(),
            "ack" => g.consumers.ack = match v { "auto" => Ack::Auto, n => Ack::Every(n.parse().unwrap()) },
            "offset" => g.consumers.stream_offset = if v == "first" { StreamOffset::First } else { StreamOffset::Next },
            "delete" => g.queues.delete = v == "1",
            "purge" => g.queues.purge = v == "1",
            "threads" => plan.threads = v.parse().unwrap(),
            "warmup" => plan.phases.warmup = Nanos::from_secs_f64(v.parse().unwrap()),
            "time" => plan.phases.measure = if v == "none" { None } else { Some(Nanos::from_secs_f64(v.parse().unwrap())) },
            "spin" => plan.spin = if v == "1" { Spin::Always } else { Spin::Never },
            _ => panic!("{k}"),
        }
    }
    plan.groups.push(g);
    let mut s = S { total: Interval::new(), last: None };
    let r = run(&plan, &Control::new(), &mut s);
    match &r { Ok(o) => {
        println!("{:?}", s.total.latencies.summaries());
        let n = o.measured.sent.max(o.measured.received).max(1);
        let cpu: u64 = o.threads.iter().map(|t| t.measured.0).sum();
        println!("{o:?}\nCPU us per message (loop threads, measured) {:.3}", cpu as f64 / n as f64 / 1e3);
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        println!("{}", status.lines().filter(|l| l.starts_with("VmHWM")).collect::<String>());
    }
      Err(e) => println!("error: {e}\nhelp: {}", e.help()) }
}
