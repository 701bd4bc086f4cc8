//! From what a run observed to the evidence that its verdict rests on.

use archive::{BrokerUse, Capacity, Evidence, LoopUse, ProducerTime};
use load::{ArrivalProcess, DestinationKind, Plan, QueueType};
use measure::{Nanos, Waits};

use crate::run::Recording;
use crate::usage::Usage;
use crate::warnings::lag_explains;

/// What is known of a load before it begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planned {
    /// Messages that may be in flight, all producers together.
    pub(crate) in_flight_limit: Option<u64>,
    /// Deliveries that each message should lead to at least; `None` where only one side is here.
    pub(crate) deliveries_each: Option<f64>,
    pub(crate) closed_loop: bool,
    pub(crate) slow_consumers: bool,
    /// What calibration says of such a load.
    pub(crate) capacity: Option<Capacity>,
}

impl Planned {
    pub(crate) fn of(plan: &Plan) -> Self {
        let producing: Vec<_> = plan
            .groups
            .iter()
            .filter(|group| group.producer_count() > 0)
            .collect();
        let limit = |group: &&load::Group| {
            let producers = &group.producers;
            let each = if matches!(producers.arrivals, ArrivalProcess::ThinkTime(_)) {
                1
            } else {
                producers.max_pending
            };
            let limited = producers.has_answers() && each > 0;
            limited.then(|| u64::from(each) * group.producer_count() as u64)
        };
        let deliveries = |group: &&load::Group| {
            let consumers = group.consumer_count();
            let copies = |d: &load::Destination| {
                d.kind == DestinationKind::Topic || d.queue_type == QueueType::Stream
            };
            // What an exchange makes of a message is its own affair.
            let known = group.destinations.iter().all(|d| d.exchange.is_none());
            let each = if group.destinations.iter().all(copies) {
                (consumers / group.destinations.len().max(1)).max(1) as f64
            } else {
                1.0
            };
            (known && consumers > 0).then_some(each)
        };
        let fewest = |sum: Option<f64>, each: f64| Some(sum.map_or(each, |sum| sum.min(each)));
        let deliveries: Option<Vec<f64>> = producing.iter().map(deliveries).collect();
        Self {
            in_flight_limit: producing.iter().map(limit).sum::<Option<u64>>(),
            deliveries_each: deliveries.and_then(|all| all.into_iter().fold(None, fewest)),
            closed_loop: plan.is_closed_loop(),
            slow_consumers: plan
                .groups
                .iter()
                .any(|g| g.consumer_count() > 0 && takes_its_time(&g.consumers)),
            capacity: None,
        }
    }
}

fn takes_its_time(consumers: &load::Consumers) -> bool {
    !consumers.service.is_zero() || consumers.poll.is_some() || consumers.start_after > Nanos::ZERO
}

impl Recording<'_> {
    /// What the verdict rests on.
    pub(crate) fn evidence(&self, outcome: &load::Outcome, usage: &Usage) -> Evidence {
        let seconds = self.measured_length.as_secs_f64();
        let rate = |count: u64| {
            if seconds > 0.0 {
                count as f64 / seconds
            } else {
                0.0
            }
        };
        let counters = &self.measured.counters;
        let asked = self
            .setting
            .requested
            .as_ref()
            .map(|_| self.against.measured());
        let (begun, late) = self.begun();
        let producers = outcome.totals.sent > 0 || self.measured.waits.producing() > Nanos::ZERO;
        let service = self.measured.latencies.histogram(measure::Metric::SendAck);
        let lags: Vec<u64> = self.lag_and_p99.iter().map(|(lag, _)| *lag).collect();
        Evidence {
            seconds,
            requested_rate: asked.map(|(messages, _)| messages / seconds.max(1e-9)),
            requested_deviation: asked.map_or(0.0, |(_, deviation)| deviation),
            closed_loop: self.setting.planned.closed_loop,
            slow_consumers: self.setting.planned.slow_consumers,
            sent_rate: rate(begun),
            received_rate: rate(counters.received),
            expected_rate: self
                .setting
                .planned
                .deliveries_each
                .map(|each| each * rate(counters.sent)),
            late_share: late as f64 / begun.max(1) as f64,
            producers: producers.then(|| producer_time(&self.measured.waits)),
            in_flight_limit: self.setting.planned.in_flight_limit,
            answer_ns: match self.cycle_took() {
                Some(took) => took,
                None if service.is_empty() => 0,
                None => service.mean() as u64,
            },
            loops: outcome.threads.iter().map(loop_use).collect(),
            spun: outcome.spun,
            loop_lag_median_ns: median(lags),
            loop_lag_max_ns: self.measured.loop_lag_max.0,
            lag_explains: lag_explains(&self.lag_and_p99) as f64
                / self.lag_and_p99.len().max(1) as f64,
            cores: crate::hardware::cores(),
            machine_cores: usage.cores,
            apart: self.together.is_some_and(|together| together.apart),
            idle: usage.idle,
            steal: usage.steal,
            client_cores: usage.client.map(|used| used.cpu_cores),
            broker: usage.broker.map(|used| self.broker_use(used.cpu_cores)),
            same_machine: self.setting.shared_machine,
            round_trip_ns: self.round_trip.map(|took| took.0),
            idle_answer_ns: self.idle_answer.map(|took| took.0),
            relay: self.proxy.clone(),
            connections: self.connections,
            capacity: self.setting.planned.capacity.clone(),
        }
    }

    fn broker_use(&self, cores: f64) -> BrokerUse {
        let seconds = self.measured_length.as_secs_f64().max(1e-9);
        let share = |time: Nanos| time.as_secs_f64() / seconds;
        let threads = self.broker_threads.as_ref();
        BrokerUse {
            cores,
            busiest_thread: threads.map(|used| share(used.busiest)),
            busiest_thread_name: threads.and_then(|used| used.name.clone()),
            starved: threads.map(|used| share(used.starved)),
        }
    }
}

fn producer_time(waits: &Waits) -> ProducerTime {
    let all = waits.producing().0.max(1) as f64;
    let share = |part: Nanos| part.0 as f64 / all;
    ProducerTime {
        ready: share(waits.ready),
        schedule: share(waits.schedule),
        budget: share(waits.budget),
        socket: share(waits.socket),
        blocked: share(waits.blocked),
        away: share(waits.away),
    }
}

fn loop_use(thread: &load::ThreadUsage) -> LoopUse {
    let share = |part: Nanos| part.0 as f64 / thread.measured_time.0.max(1) as f64;
    LoopUse {
        cpu: share(thread.measured),
        idle: share(thread.measured_idle),
        starved: thread.measured_run_queue_wait.map(share),
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
