//! A recording of the loopback, and the frames of AMQP 1.0 that Wireshark finds in it.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};

use testkit::{ChildGuard, signal};

const MISSING: &str = "no tshark and tcpdump that may record the loopback; scripts/setup test, and be root";
/// The first eight bytes of a connection over AMQP 1.0, behind the head of a TCP segment.
const GREETING: &str =
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x414d5150 and tcp[((tcp[12] & 0xf0) >> 2) + 4:4] = 0x03010000";
/// Fields that Wireshark shows of each segment.
const FIELDS: [&str; 5] = [
    "tcp.stream",
    "amqp.performative.arguments.containerId",
    "amqp.performative",
    "_ws.expert.severity",
    "_ws.expert.message",
];
/// The severity of errors, malformed frames among them.
const ERROR: &str = "8388608";
/// Wireshark 4.0 on a body that is a described value, such as requests of transactions (4.5.2): it cannot show it.
const DESCRIBED: &str = "Unknown AMQP type 0 (0x0) of field \"AMQP-Value\"";
/// The number of a transfer's descriptor.
const TRANSFER: &str = "20";

/// All TCP of the loopback, from now on.
pub(crate) struct Capture {
    tcpdump: ChildGuard,
    /// Kept, because who cannot write there dies before the recording is whole.
    _said: BufReader<ChildStderr>,
    file: PathBuf,
}

/// Frames of AMQP 1.0 that were sent to a broker, and from it.
#[derive(Debug)]
pub(crate) struct SentFrames {
    /// Transfers of the load; a message of one frame is one.
    pub(crate) transfers: usize,
    /// Segments that Wireshark could not read.
    pub(crate) errors: Vec<String>,
}

impl Capture {
    /// Begins to record. Errors: programs that are missing, and users who may not.
    pub(crate) fn start(dir: &Path) -> Result<Self, &'static str> {
        Command::new("tshark").arg("--version").output().map_err(|_| MISSING)?;
        let file = dir.join("loopback.pcap");
        let mut tcpdump = Command::new("tcpdump");
        // The kernel keeps all that comes while this has no core; it would write as another user.
        tcpdump.args(["-i", "lo", "-B", "65536", "-Z", "root", "-w"]).arg(&file).arg("tcp");
        let child = tcpdump.stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut tcpdump = ChildGuard(child.map_err(|_| MISSING)?);
        let mut said = BufReader::new(tcpdump.stderr.take().ok_or(MISSING)?);
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            if said.read_line(&mut line).unwrap_or(0) == 0 {
                return Err(MISSING);
            }
        }
        Ok(Self { tcpdump, _said: said, file })
    }

    /// Ends it, and has Wireshark read what went to the broker that was the first to be greeted, where `which` is `dst
    /// port`, or what went there and came from there (`port`).
    pub(crate) fn end(mut self, which: &str) -> SentFrames {
        signal(self.tcpdump.id(), "INT");
        self.tcpdump.wait().expect("tcpdump ends");
        let first = printed(tcpdump_on(&self.file).args(["-n", "-c", "1", GREETING]));
        let to = first.split_once(" > ").and_then(|(_, to)| to.split_once(": "));
        let port = to.and_then(|(to, _)| to.rsplit_once('.')).expect("a greeting").1;
        let sent = self.file.with_extension("sent.pcap");
        printed(tcpdump_on(&self.file).args(["-Z", "root", "-w"]).arg(&sent).arg(format!("tcp {which} {port}")));
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&sent).args(["-d", &format!("tcp.port=={port},amqp"), "-T", "fields"]);
        tshark.args(["-E", "occurrence=a", "-E", "aggregator=,"]);
        SentFrames::read(&printed(tshark.args(FIELDS.iter().flat_map(|field| ["-e", field]))))
    }
}

impl SentFrames {
    fn read(text: &str) -> Self {
        let (mut transfers, mut errors, mut set_up) = (0, Vec::new(), HashSet::new());
        for line in text.lines() {
            let fields: Vec<_> = line.split('\t').collect();
            let [stream, container, performatives, severities, messages] = fields[..] else { panic!("{line:?}") };
            // Its transfers are questions to the broker.
            if container == "bellows set-up" {
                set_up.insert(stream);
            }
            if !set_up.contains(stream) {
                transfers += performatives.split(',').filter(|it| *it == TRANSFER).count();
            }
            let among = |all: &str, one: &str| all.split(',').filter(|it| *it == one).count();
            if among(severities, ERROR) > among(messages, DESCRIBED) {
                errors.push(line.to_owned());
            }
        }
        Self { transfers, errors }
    }
}

fn tcpdump_on(file: &Path) -> Command {
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.arg("-r").arg(file);
    tcpdump
}

fn printed(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
