//! Experiments that a fleet carries, that of a worker, and the files that it names.

use std::io::{self, Read as _};
use std::path::Path;

use brokers::guardian::{private_file, private_folder};
use experiment::{BrokerKind, BrokerSpec, Experiment, LoadSpec, ProfileSpec, ScheduleSpec, SizeSpec};
use fleet::MOST_BYTES;
use load::{Endpoint, Error, Plan};
use measure::{Problem, counted};
use stacks::bounded;

/// Bytes around a plan in its message.
const ENVELOPE: usize = 4_096;
/// Bytes of the files of a load at most: each worker gets all of them.
const MOST_FILE_BYTES: u64 = 16 << 20;
const MOST_FILES: usize = 10_000;
/// Bytes of these files with their names at most.
pub(super) const MOST_PACKED: u64 = MOST_FILE_BYTES + (1 << 20);

/// Refuses what a fleet does not carry yet.
pub(super) fn check(experiment: &Experiment) -> Result<(), Problem> {
    let fill = experiment.load.iter().position(|it| it.fill > 0).map(|at| format!("load.{at}.fill"));
    let is_managed = experiment.broker.kind != BrokerKind::Attach;
    let refused = [
        (experiment.churn.is_some(), "churn", "churn"),
        (!experiment.probe.is_empty(), "probe", "probes"),
        (!experiment.trace.is_empty(), "trace", "traces"),
        (!experiment.fault.is_empty(), "fault", "faults"),
        (!experiment.prepare.is_empty(), "prepare", "queues that are prepared before the load"),
        (fill.is_some(), fill.as_deref().unwrap_or_default(), "queues that are filled before the load"),
        (is_managed && experiment.broker.tls, "broker.tls", "TLS to a broker that it starts"),
        (experiment.broker.oauth2.is_some(), "broker.oauth2", "logins by access token"),
        (experiment.has_commands(), "load", "other programs"),
        (experiment.load.is_empty(), "load", "experiments without a load of messages"),
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
    // As a text within a text each of its quotes takes two.
    let quotes = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    refused.observed(text.len()).unless(text.len() + quotes < MOST_BYTES - ENVELOPE)?;
    Ok(text)
}

/// The experiment of workers that record a broker's process: without logins, and with the phases of the load. Errors:
/// it has no text.
pub(super) fn recording(experiment: &Experiment) -> Result<String, Error> {
    let text = serde_json::to_string(&recording_alone(experiment));
    text.map_err(|error| Error::invalid("the recording cannot be handed to workers", error.to_string()))
}

/// Reads it, on a worker, which does nothing for a coordinator but look at the process that it was started for.
pub(super) fn read_recording(text: &str) -> Result<Experiment, Problem> {
    let read = serde_json::from_str::<Experiment>(text);
    let torn = |_| Problem::new("the share is not understood", "", "use the same bellows everywhere");
    read.map(|it| recording_alone(&it)).map_err(torn)
}

/// The parts of an experiment that ask for a recording. A node's name says only that nodes are to be asked.
fn recording_alone(experiment: &Experiment) -> Experiment {
    let of = &experiment.broker;
    Experiment {
        name: experiment.name.clone(),
        phases: experiment.phases.clone(),
        load: vec![LoadSpec::default()],
        profile: ProfileSpec { blocks: None, ..experiment.profile.clone() },
        broker: BrokerSpec {
            kind: BrokerKind::Attach,
            node: of.node.clone(),
            memory_every: of.memory_every,
            ..BrokerSpec::default()
        },
        ..Experiment::default()
    }
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

/// Files as they travel: a line of JSON with their names and lengths, then their bytes.
#[derive(Debug, Default)]
struct PackedFiles {
    index: Vec<(String, u64)>,
    bytes: Vec<u8>,
}

impl PackedFiles {
    fn add(&mut self, name: String, path: &Path) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Invalid(Problem::io("read", path, &error));
        let file = bounded::open(path).map_err(failed)?;
        let before = self.bytes.len() as u64;
        let left = MOST_FILE_BYTES.saturating_sub(before);
        file.take(left + 1).read_to_end(&mut self.bytes).map_err(failed)?;
        let read = self.bytes.len() as u64 - before;
        let most = format!("{} MiB or {MOST_FILES} files", MOST_FILE_BYTES >> 20);
        let cause = format!("the files of the load up to {} are more than {most}", path.display());
        let refused = Error::invalid(cause, "take fewer or smaller ones: each worker gets all of them");
        refused.observed(path.display()).unless(read <= left && self.index.len() < MOST_FILES)?;
        self.index.push((name, read));
        Ok(())
    }
}

fn bodies_of(load: usize) -> String {
    format!("load-{load}-bodies")
}

fn trace_of(load: usize) -> String {
    format!("load-{load}-trace")
}

/// All files that the load names; empty where it names none. They may hold a private key. Errors: one cannot be read,
/// or they are too large.
pub(super) fn pack(experiment: &Experiment) -> Result<Vec<u8>, Error> {
    let mut files = PackedFiles::default();
    let broker = &experiment.broker;
    for (name, path) in [("ca", &broker.ca), ("cert", &broker.cert), ("key", &broker.key)] {
        if let Some(path) = path {
            files.add(name.to_owned(), path)?;
        }
    }
    for (load, spec) in experiment.load.iter().enumerate() {
        for (number, path) in spec.message_size.files()?.iter().flatten().enumerate() {
            files.add(format!("{}/{number:06}", bodies_of(load)), path)?;
        }
        if let Some(path) = spec.schedule.as_ref().and_then(ScheduleSpec::trace_file) {
            files.add(trace_of(load), path)?;
        }
    }
    if files.index.is_empty() {
        return Ok(Vec::new());
    }
    let index = serde_json::to_vec(&files.index);
    let mut packed = index.map_err(|error| Error::invalid("files have no names", error.to_string()))?;
    packed.push(b'\n');
    packed.append(&mut files.bytes);
    Ok(packed)
}

/// Writes such files below a folder, on a worker. Errors: they are not understood, or cannot be written.
pub(super) fn unpack(packed: &[u8], folder: &Path) -> Result<(), crate::Error> {
    let torn = || Problem::new("the files of the share are not understood", "", "use the same bellows everywhere");
    let end = packed.iter().position(|byte| *byte == b'\n').ok_or_else(torn)?;
    let (head, rest) = packed.split_at_checked(end).ok_or_else(torn)?;
    let index: Vec<(String, u64)> = serde_json::from_slice(head).map_err(|_| torn())?;
    let mut rest = rest.get(1..).unwrap_or_default();
    torn().unless(index.len() <= MOST_FILES)?;
    for (name, length) in index {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (content, after) = rest.split_at_checked(length).ok_or_else(torn)?;
        rest = after;
        let is_plain = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
        torn().unless(name.split('/').all(is_plain) && name.split('/').count() <= 2)?;
        let path = folder.join(&name);
        if let Some(parent) = path.parent() {
            private_folder(parent).map_err(|error| Problem::io("create", parent, &error))?;
        }
        private_file(&path, content)?;
    }
    Ok(torn().unless(rest.is_empty())?)
}

/// The experiment with the files of this folder: whatever the coordinator calls them, no others are read.
fn placed(of: Experiment, folder: Option<&Path>) -> Result<Experiment, Problem> {
    let is_from_file = |it: &LoadSpec| {
        let trace = it.schedule.as_ref().and_then(ScheduleSpec::trace_file);
        it.message_size.is_from_files() || trace.is_some()
    };
    let of_broker = [&of.broker.ca, &of.broker.cert, &of.broker.key];
    let Some(folder) = folder else {
        let help = "use the same bellows everywhere";
        let refused = Problem::new("the share names files that did not come with it", "", help);
        let names_files = of.load.iter().any(is_from_file) || of_broker.iter().any(|it| it.is_some());
        return refused.unless(!names_files).map(|()| of);
    };
    let load = of.load.iter().enumerate().map(|(load, spec)| LoadSpec {
        message_size: match spec.message_size.is_from_files() {
            true => SizeSpec::folder(&folder.join(bodies_of(load))),
            false => spec.message_size.clone(),
        },
        schedule: spec.schedule.as_ref().map(|it| it.with_trace_file(&folder.join(trace_of(load)))),
        ..spec.clone()
    });
    let load = load.collect();
    let [ca, cert, key] = of_broker.map(Option::is_some);
    let own = |is_there: bool, name: &str| is_there.then(|| folder.join(name));
    let (ca, cert, key) = (own(ca, "ca"), own(cert, "cert"), own(key, "key"));
    Ok(Experiment { broker: BrokerSpec { ca, cert, key, ..of.broker }, load, ..of })
}

/// Reads it, on a worker, which does nothing for a coordinator but send and receive messages. Its files are in a
/// folder.
pub(super) fn read(text: &str, files: Option<&Path>) -> Result<Experiment, Problem> {
    let read = serde_json::from_str::<Experiment>(text);
    // What it says is not repeated: it may hold a password.
    let read = read.map_err(|_| Problem::new("the share is not understood", "", "use the same bellows everywhere"))?;
    check(&read)?;
    let refused = Problem::new("the share is to start a broker", read.broker.kind.name(), "name one that runs");
    refused.unless(read.broker.kind == BrokerKind::Attach)?;
    placed(load_alone(&read), files)
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
        let part = read(&text(&whole, &endpoint, &plan).expect("a share"), None).expect("an experiment");
        let again = part.endpoint().expect("an endpoint");
        assert_eq!((again.host.as_str(), again.port, again.password().as_str()), ("127.0.0.1", 7, "s3cret"));
        assert!(part.profile.events.is_empty() && part.broker.node.is_none());
        let planned = part.plan(&again, 7).expect("a plan");
        assert_eq!(planned.groups[0].destinations, plan.groups[0].destinations);
    }

    #[test]
    fn a_worker_runs_no_program_and_reads_no_file_of_its_own_for_a_coordinator() {
        let filled = check(&experiment(RUNS, "fill = 10")).expect_err("no fill");
        testkit::assert_has(format!("{filled:?}"), ["load.0.fill", "filled before the load"]);
        let asked = |of: &Experiment| read(&serde_json::to_string(of).expect("JSON"), None).err().map(|it| it.cause);
        assert_eq!(asked(&experiment(RUNS, "")), None);
        for (broker, load, part) in [
            ("kind = \"rabbitmq\"", "", "start a broker"),
            (RUNS, "kind = \"command\"\ncommand = [\"true\"]", "programs"),
            (RUNS, "message-size = \"files:/etc\"", "files"),
            (RUNS, "schedule = \"trace:/etc/passwd\"", "files"),
            (format!("{RUNS}\nca = \"/etc/passwd\"").as_str(), "", "files"),
        ] {
            let told = asked(&experiment(broker, load));
            assert!(told.as_ref().is_some_and(|it| it.contains(part)), "{load}: {told:?}");
        }
    }

    #[test]
    fn files_of_a_load_travel_with_it_and_no_others_are_read() {
        let (here, there) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let write = |name: &str, text: &[u8]| std::fs::write(here.path().join(name), text).expect("write");
        write("b.txt", b"second\n");
        write("a.txt", b"first");
        write("trace.csv", b"0.5,100\n");
        write("ca.pem", b"certificate");
        let path = |name: &str| here.path().join(name).display().to_string();
        let broker = format!("{RUNS}\nca = \"{}\"", path("ca.pem"));
        let (bodies, trace) = (format!("{},{}", path("b.txt"), path("a.txt")), path("trace.csv"));
        let load = format!("message-size = \"files:{bodies}\"\n[[load]]\nschedule = \"trace:{trace}\"");
        let whole = experiment(&broker, &load);
        let packed = pack(&whole).expect("files");
        unpack(&packed, there.path()).expect("a folder");
        // The coordinator's files are another machine's.
        drop(here);
        let text = serde_json::to_string(&whole).expect("JSON");
        let part = read(&text, Some(there.path())).expect("an experiment");
        assert_eq!(part.broker.ca.as_deref(), Some(&*there.path().join("ca")));
        assert_eq!(std::fs::read(there.path().join("ca")).expect("read"), b"certificate");
        let files = part.load[0].message_size.files().expect("a folder").expect("files");
        let bodies: Vec<Vec<u8>> = files.iter().map(|it| std::fs::read(it).expect("read")).collect();
        assert_eq!(bodies, [b"second\n".to_vec(), b"first".to_vec()]);
        let trace = part.load[1].schedule.as_ref().and_then(ScheduleSpec::trace_file).expect("a trace");
        assert_eq!(trace, there.path().join("load-1-trace"));
        assert!(pack(&experiment(RUNS, "")).expect("none").is_empty());
        for hostile in
            ["[[\"../ca\",1]]\nx", "[[\"a/b/c\",1]]\nx", "[[\"a\",2]]\nx", "[[\"a\",1]]\nxy", "[[\"\",1]]\nx", "x"]
        {
            assert!(unpack(hostile.as_bytes(), there.path()).is_err(), "{hostile}");
        }
        let many: Vec<String> = (0..=MOST_FILES).map(|at| format!("[\"many/{at}\",0]")).collect();
        assert!(unpack(format!("[{}]\n", many.join(",")).as_bytes(), there.path()).is_err());
        assert!(!there.path().join("many").exists(), "before any is written");
    }

    /// One that is refused by the message itself would never come, and be waited for without end.
    #[test]
    fn a_load_that_fits_into_no_message_is_refused() {
        let names: Vec<String> = (0..58_000).map(|at| format!("\"queue://q{at:05}\"")).collect();
        let whole = experiment(RUNS, &format!("destinations = [{}]", names.join(",")));
        let endpoint = whole.endpoint().expect("an endpoint");
        let plan = whole.plan(&endpoint, 7).expect("a plan");
        let refused = text(&whole, &endpoint, &plan).expect_err("too large").problem().cause;
        testkit::assert_has(refused, ["too much for a message"]);
    }

    #[test]
    fn a_fleet_may_have_more_connections_than_one_process() {
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        if most.is_none_or(|most| most > 2_000_000) {
            testkit::skip!("open files are not limited here");
        }
        let whole = experiment(RUNS, "total-producers = 2000000");
        whole.validate().expect("an experiment");
        let told = super::super::Carrier::Alone.check(&whole).expect_err("too many").to_string();
        testkit::assert_has(told, ["open files are needed"]);
    }

    #[test]
    fn one_process_spreads_nothing() {
        let whole = experiment(RUNS, "place = \"spread\"");
        let told = super::super::Carrier::Alone.check(&whole).expect_err("no fleet").to_string();
        testkit::assert_has(told, ["no workers to spread"]);
    }

    #[test]
    fn too_many_bytes_of_files_are_refused() {
        let large = tempfile::NamedTempFile::new().expect("a file");
        large.as_file().set_len(MOST_FILE_BYTES + 1).expect("room");
        let whole = experiment(RUNS, &format!("message-size = \"files:{}\"", large.path().display()));
        let refused = pack(&whole).expect_err("too large").problem().cause;
        testkit::assert_has(refused, ["more than 16 MiB"]);
    }
}
