//! Experiments that a fleet carries, and that of a worker.

use experiment::{BrokerKind, BrokerSpec, Experiment, LoadSpec, ProfileSpec};
use fleet::MOST_BYTES;
use load::{Endpoint, Error, Plan};
use measure::{Problem, counted};

/// Bytes around a plan in its message.
const ENVELOPE: usize = 4_096;

/// Refuses what a fleet does not carry yet.
pub(super) fn check(experiment: &Experiment) -> Result<(), Problem> {
    let fills = experiment.load.iter().any(|it| it.fill > 0);
    let is_from_file = |it: &LoadSpec| {
        let schedule = it.schedule.as_ref().map_or_else(String::new, ToString::to_string);
        it.message_size.to_string().trim_start().starts_with("files") || schedule.starts_with("trace")
    };
    let is_managed = experiment.broker.kind != BrokerKind::Attach;
    let refused = [
        (experiment.load.is_empty() || experiment.has_commands(), "load", "programs, or no messages at all"),
        (experiment.load.iter().any(is_from_file), "load", "bodies and schedules from files"),
        (experiment.churn.is_some(), "churn", "churn"),
        (!experiment.probe.is_empty(), "probe", "probes"),
        (!experiment.trace.is_empty(), "trace", "traces"),
        (!experiment.fault.is_empty(), "fault", "faults"),
        (!experiment.prepare.is_empty() || fills, "prepare", "queues that are filled before"),
        (is_managed && experiment.broker.tls, "broker.tls", "TLS to a broker that it starts"),
        (experiment.broker.oauth2.is_some(), "broker.oauth2", "logins by access token"),
    ];
    for (is_asked, key, what) in refused {
        let problem =
            Problem::new(format!("a fleet does not carry {what} yet"), "", "leave it out, or leave out --fleet");
        problem.about(key).unless(!is_asked)?;
    }
    Ok(())
}

/// Refuses workers, of which it is known whether they run on this machine, that cannot reach a broker that runs here.
pub(super) fn check_reach(experiment: &Experiment, workers: &[(String, bool)]) -> Result<(), Error> {
    let away = workers.iter().find(|(_, is_here)| !is_here);
    let (Some((name, _)), true) = (away, experiment.broker.kind != BrokerKind::Attach) else { return Ok(()) };
    let cause =
        format!("worker {name} runs on another machine, and the broker that bellows starts is for this one alone");
    Err(Error::invalid(cause, "start a broker that all of them reach, and name it: broker.kind = \"attach\""))
}

/// The experiment of all workers, whose share each of them takes: the load alone, on the broker as it is reached here.
/// It holds passwords. Errors: it is too large for a message.
pub(super) fn text(experiment: &Experiment, endpoint: &Endpoint, plan: &Plan) -> Result<String, Error> {
    let shared = plan.groups.iter().zip(&experiment.load).find(|(_, spec)| spec.url.is_none());
    let further = shared.iter().flat_map(|(group, _)| &group.further);
    let load = experiment.load.iter().zip(&plan.groups).map(|(spec, group)| LoadSpec {
        url: spec.url.as_ref().map(|_| group.endpoint.secret_url()),
        protocol: Some(group.protocol),
        ..spec.clone()
    });
    let part = Experiment { load: load.collect(), ..load_alone(experiment) };
    let broker = BrokerSpec {
        url: Some(endpoint.secret_url()),
        further_urls: further.map(Endpoint::secret_url).collect(),
        ..part.broker.clone()
    };
    let part = Experiment { broker, ..part };
    let text = serde_json::to_string(&part);
    let text = text.map_err(|error| Error::invalid("the load cannot be handed to workers", error.to_string()))?;
    let cause = format!("the load takes {} to describe, too much for a message", counted(text.len() as u64, "byte"));
    let refused = Error::invalid(cause, "describe equal clients as one group, and sizes by a distribution");
    refused.observed(text.len()).unless(text.len() < MOST_BYTES - ENVELOPE)?;
    Ok(text)
}

/// The load of an experiment on a broker that runs, and nothing that starts, reads or asks anything besides.
fn load_alone(experiment: &Experiment) -> Experiment {
    let of = &experiment.broker;
    Experiment {
        name: experiment.name.clone(),
        threads: experiment.threads,
        ledger: experiment.ledger,
        phases: experiment.phases.clone(),
        until: experiment.until,
        load: experiment.load.clone(),
        profile: ProfileSpec { events: Vec::new(), ..ProfileSpec::default() },
        broker: BrokerSpec {
            kind: BrokerKind::Attach,
            url: of.url.clone(),
            further_urls: of.further_urls.clone(),
            allocation: of.allocation,
            heartbeat: of.heartbeat,
            frame_max: of.frame_max,
            send_buffer: of.send_buffer,
            receive_buffer: of.receive_buffer,
            nagle: of.nagle,
            ca: of.ca.clone(),
            cert: of.cert.clone(),
            key: of.key.clone(),
            sni: of.sni.clone(),
            alpn: of.alpn.clone(),
            insecure: of.insecure,
            auth: of.auth,
            ..BrokerSpec::default()
        },
        ..Experiment::default()
    }
}

/// Reads it, on a worker, which does nothing for a coordinator but send and receive messages.
pub(super) fn read(text: &str) -> Result<Experiment, Problem> {
    let read = serde_json::from_str::<Experiment>(text);
    // What it says is not repeated: it may hold a password.
    let read = read.map_err(|_| Problem::new("the share is not understood", "", "use the same bellows everywhere"))?;
    check(&read)?;
    let refused = Problem::new("the share is to start a broker", read.broker.kind.name(), "name one that runs");
    refused.unless(read.broker.kind == BrokerKind::Attach)?;
    Ok(load_alone(&read))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(broker: &str, load: &str) -> Experiment {
        let text = format!("[broker]\n{broker}\n[profile]\nevents = [\"cpu\"]\n[[load]]\n{load}\n");
        Experiment::from_toml(&text, "test").expect("an experiment")
    }

    const RUNS: &str = "kind = \"attach\"\nurl = \"amqp://me@127.0.0.1:7\"\npassword = \"s3cret\"\nnode = \"rabbit@a\"";

    #[test]
    fn a_worker_gets_the_load_and_the_login_and_nothing_else() {
        let whole = experiment(RUNS, "num-destinations = 2\nrate = 50");
        let endpoint = whole.endpoint().expect("an endpoint");
        let plan = whole.plan(&endpoint, 7).expect("a plan");
        let part = read(&text(&whole, &endpoint, &plan).expect("a share")).expect("an experiment");
        let again = part.endpoint().expect("an endpoint");
        assert_eq!((again.host.as_str(), again.port, again.password().as_str()), ("127.0.0.1", 7, "s3cret"));
        assert!(part.profile.events.is_empty() && part.broker.node.is_none());
        let planned = part.plan(&again, 7).expect("a plan");
        assert_eq!(planned.groups[0].destinations, plan.groups[0].destinations);
    }

    #[test]
    fn a_worker_runs_no_program_and_reads_no_file_for_a_coordinator() {
        let asked = |of: &Experiment| read(&serde_json::to_string(of).expect("JSON")).err().map(|it| it.cause);
        assert_eq!(asked(&experiment(RUNS, "")), None);
        for (broker, load, part) in [
            ("kind = \"rabbitmq\"", "", "start a broker"),
            (RUNS, "kind = \"command\"\ncommand = [\"true\"]", "programs"),
            (RUNS, "message-size = \"files:/etc\"", "files"),
            (RUNS, "schedule = \"trace:/etc/passwd\"", "files"),
        ] {
            let told = asked(&experiment(broker, load));
            assert!(told.as_ref().is_some_and(|it| it.contains(part)), "{load}: {told:?}");
        }
    }
}
