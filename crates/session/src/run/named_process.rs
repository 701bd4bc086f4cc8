//! The process that a name means: the name of a command, of an executable, or of an Erlang node.

use std::net::Ipv4Addr;
use std::time::Duration;

use erlang::{ConnectOptions, registered_nodes};
use linux::{ProcessId, processes, sockets};
use measure::Problem;

/// Processes of one name that an error lists.
const MOST_LISTED: usize = 20;
/// EPMD answers from memory, on this machine.
const EPMD_TIMEOUT: Duration = Duration::from_millis(500);

/// Which process to profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By number.
    Pid(u32),
    /// By the name, of one alone, of its command or executable (`beam.smp`) or Erlang node (`rabbit@host`, `rabbit`).
    Name(String),
}

/// All processes that some names mean, with the name of each: its Erlang node, else its command.
pub(super) fn all(names: &[String]) -> Vec<(ProcessId, String)> {
    let nodes = ErlangNodes::list();
    let mut found = processes::others();
    let is_meant = |pid: u32, name: &str| processes::is_called(pid, name) || nodes.is_named(pid, name);
    found.retain(|pid| names.iter().any(|name| is_meant(*pid, name)));
    let named = |pid: u32| Some((ProcessId::of(pid)?, nodes.name(pid)?));
    found.into_iter().filter_map(named).collect()
}

/// A process's name: its Erlang node, else its command.
pub(super) fn name_of(pid: u32) -> Option<String> {
    ErlangNodes::list().name(pid)
}

/// The Erlang nodes of this machine that this name means, else those whose names begin with it: `NAME@HOST`, each once.
pub fn nodes_called(name: &str) -> Vec<String> {
    let nodes = ErlangNodes::list();
    let pids = processes::others().into_iter();
    nodes.called(name, pids.flat_map(|pid| nodes.names_of(pid).into_iter().next()).collect())
}

pub(super) fn find(target: &Target) -> Result<ProcessId, Problem> {
    let pid = match target {
        Target::Pid(pid) => *pid,
        Target::Name(name) => called(name)?,
    };
    ProcessId::of(pid).ok_or_else(|| profile::no_such_process(pid))
}

fn called(name: &str) -> Result<u32, Problem> {
    let nodes = ErlangNodes::list();
    let mut found = processes::others();
    found.retain(|pid| processes::is_called(*pid, name) || nodes.is_named(*pid, name));
    match found.as_slice() {
        [pid] => Ok(*pid),
        [] => Err(Problem::new(
            format!("no process is called {name:?}"),
            "no command, executable or Erlang node that this user may see has that name",
            "give its number with --pid N; `bellows doctor` lists the brokers that run here",
        )),
        several => {
            let mut problem =
                Problem::new(format!("{} processes are called {name:?}", several.len()), "", "choose one with --pid N");
            let rows: Vec<[String; 5]> = several.iter().map(|pid| row(*pid, &nodes)).collect();
            problem.log = table(&rows);
            Err(problem)
        }
    }
}

/// Columns that tell processes of one name apart.
fn row(pid: u32, nodes: &ErlangNodes) -> [String; 5] {
    let ports: Vec<String> = sockets::listening_ports(pid).iter().map(u16::to_string).collect();
    let started = ProcessId::of(pid).and_then(|id| jiff::Timestamp::try_from(id.started()).ok());
    let command = processes::stat(pid).map(|stat| stat.command);
    let or_dash = |text: Option<String>| text.filter(|it| !it.is_empty()).unwrap_or("-".into());
    [
        pid.to_string(),
        or_dash(processes::user(pid)),
        or_dash(Some(ports.join(", "))),
        or_dash(started.map(|at| at.strftime("%F %T").to_string())),
        or_dash(nodes.names_of(pid).into_iter().next().or(command)),
    ]
}

/// Rows below their heads, in columns. Line breaks in names are replaced: a row has one line.
fn table(rows: &[[String; 5]]) -> String {
    let heads = ["pid", "user", "ports", "started (UTC)", "name"].map(str::to_owned);
    let more = rows.len().saturating_sub(MOST_LISTED);
    let shown = rows.get(..rows.len() - more).unwrap_or_default();
    let on_a_line = |cell: String| cell.replace(char::is_control, "\u{fffd}");
    let shown: Vec<[String; 5]> = shown.iter().map(|row| row.clone().map(on_a_line)).collect();
    let lines = std::iter::once(&heads).chain(&shown);
    let width = |column: usize| lines.clone().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut text: Vec<String> = lines.clone().map(line).collect();
    if more > 0 {
        text.push(format!("and {more} more"));
    }
    text.join("\n")
}

/// The Erlang nodes that EPMD knows, and this machine's name.
struct ErlangNodes {
    /// Name without host, and the port for other nodes.
    registered: Vec<(String, u16)>,
    host: String,
}

impl ErlangNodes {
    /// The nodes of this machine; without an EPMD only those that have their name on the command line.
    fn list() -> Self {
        let port = std::env::var("ERL_EPMD_PORT").ok();
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(ConnectOptions::EPMD_PORT);
        let host = rustix::system::uname();
        let registered = registered_nodes(&(Ipv4Addr::LOCALHOST, port).into(), EPMD_TIMEOUT).unwrap_or_default();
        Self { registered, host: host.nodename().to_string_lossy().into_owned() }
    }

    fn name(&self, pid: u32) -> Option<String> {
        let command = processes::stat(pid)?.command;
        Some(self.names_of(pid).into_iter().next().unwrap_or(command))
    }

    /// Whether a process is the node `name`, which may leave the host out: `rabbit` or `rabbit@host`.
    fn is_named(&self, pid: u32, name: &str) -> bool {
        self.names_of(pid).iter().any(|node| self.means(name, node))
    }

    /// The names of the node that a process is: from its command line, from RabbitMQ's environment, or from EPMD.
    fn names_of(&self, pid: u32) -> Vec<String> {
        let is_emulator = |stat: processes::Stat| stat.command.starts_with("beam");
        if !processes::stat(pid).is_some_and(is_emulator) {
            return Vec::new();
        }
        let variable = || processes::environment_variable(pid, "RABBITMQ_NODENAME");
        let mut names = told(&processes::arguments(pid), variable);
        if names.is_empty() {
            let ports = sockets::listening_ports(pid);
            let own = |(_, port): &&(String, u16)| ports.contains(port);
            names.extend(self.registered.iter().filter(own).map(|(name, _)| name.clone()));
        }
        names
    }

    /// The nodes that the typed name means, else those whose names begin with it; without a host it is this machine's.
    fn called(&self, typed: &str, mut known: Vec<String>) -> Vec<String> {
        let is_called = |node: &String| self.means(typed, node);
        if known.iter().any(is_called) {
            known.retain(is_called);
        } else {
            known.retain(|node| node.starts_with(typed));
        }
        for node in known.iter_mut().filter(|node| !node.contains('@')) {
            let host = self.host.split('.').next().unwrap_or_default();
            *node = format!("{node}@{host}");
        }
        known.sort();
        known.dedup();
        known
    }

    /// Whether the typed name means this node; one that was started without a host is on this machine.
    fn means(&self, typed: &str, node: &str) -> bool {
        let parts = |name| str::split_once(name, '@').map_or((name, None), |(name, host)| (name, Some(host)));
        let ((typed, typed_host), (node, node_host)) = (parts(typed), parts(node));
        let short = |host: &str| host.split('.').next().unwrap_or_default().to_owned();
        let is_host = |host: &str| node_host.map_or_else(|| short(&self.host) == short(host), |of| of == host);
        typed == node && typed_host.is_none_or(is_host)
    }
}

/// Names in a node's command line, or else in its variable: nodes that RabbitMQ starts have that, and another name.
fn told(arguments: &[String], variable: impl FnOnce() -> Option<String>) -> Vec<String> {
    let flags = arguments.windows(2);
    let typed = flags.filter(|pair| matches!(pair[0].as_str(), "-sname" | "-name"));
    let names: Vec<String> = typed.map(|pair| pair[1].clone()).collect();
    if names.is_empty() { variable().into_iter().collect() } else { names }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_meant_with_and_without_its_host_and_found_by_the_beginning_of_its_name() {
        let nodes = ErlangNodes { registered: Vec::new(), host: "here.example".into() };
        for [typed, node, meant] in testkit::table(include_str!("../../tests/data/meant-nodes.txt")) {
            assert_eq!(nodes.means(typed, node), meant == "true", "{typed} {node}");
        }
        let called = |typed| {
            let known = ["rabbit", "rabbit-2@there", "rabbit", "other@there"];
            nodes.called(typed, known.map(str::to_owned).to_vec())
        };
        assert_eq!(called("rabbit"), ["rabbit@here"]);
        assert_eq!(called("rabb"), ["rabbit-2@there", "rabbit@here"]);
        assert_eq!(called("other"), ["other@there"]);
        assert!(called("there").is_empty());
    }

    #[test]
    fn what_a_broker_starts_beside_itself_is_not_the_broker() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let variable = || Some("rabbit@here".to_owned());
        let of = |line: &str| told(&words(line), variable);
        assert_eq!(of("beam.smp -W w -noshell"), ["rabbit@here"]);
        let starter = "beam.smp -boot no_dot_erlang -sname epmd-starter-5 -noinput";
        assert_eq!(of(starter), ["epmd-starter-5"]);
    }

    #[test]
    fn several_of_one_name_are_listed_in_columns() {
        let row = |pid: &str, ports: &str| [pid, "root", ports, "-", "beam.smp"].map(str::to_owned);
        let text = table(&[row("7", "5672, 25672"), row("4711", "-")]);
        assert_eq!(
            text,
            "pid   user  ports        started (UTC)  name\n\
             7     root  5672, 25672  -              beam.smp\n\
             4711  root  -            -              beam.smp"
        );
        let broken = table(&[["7", "root", "-", "-", "rab\nbit\t@x"].map(str::to_owned)]);
        assert!(broken.ends_with("  rab\u{fffd}bit\u{fffd}@x"), "{broken}");
        assert_eq!(broken.lines().count(), 2, "{broken}");
        testkit::assert_ends(table(&vec![row("7", "-"); MOST_LISTED + 2]), "\nand 2 more");
        assert_eq!(called("no such command").unwrap_err().log, "");
    }
}
