//! `[[trace]]`: functions that are traced on the broker's Erlang node beside the load.

use std::time::Duration;

use erlang::trace::TraceOptions;
use erlang::{Budget, FunctionPattern, ProcessFilter};
use load::scenario::probe::ProbePlan;
use measure::{Nanos, Problem, Refused};

use super::Experiment;
use super::error::{ensure, wrong};
use super::flat_table::{FlatTable, flat_table};

const MOST_TRACES: usize = 8;
/// Most calls that a trace sees, in all and in a second, as in `bellows erlang trace`.
const MOST_CALLS: u32 = 100_000;
/// Upper bound of the other limits, as in `bellows erlang trace`.
const MOST: u32 = 1_000_000;
const ARGUMENT_BYTES: u16 = 300;

flat_table! {
    /// A function of the broker's Erlang node that is traced while the load runs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TraceSpec {
        /// Tells several traces apart: lower-case letters, digits and `-`.
        "name" name: String as Label = String::new(),
        /// The function, MODULE:FUNCTION/ARITY; MODULE:FUNCTION for any number of arguments.
        "call" call: String as Nothing = String::new(),
        /// Only calls whose arguments match, as in a function's head, perhaps with `when`.
        "match" matching: Option<String> as Terms = None,
        /// Only processes with this role when it begins: `queue`, `channel`, `connection`, or the module that they run.
        "role" role: Option<String> = None,
        /// The node of a cluster, by number; the first where absent.
        "node" node: Option<u32> = None,
        /// Whether arguments are kept, cut and with secrets masked.
        "arguments" arguments: bool = true,
        /// Calls of the measured phase after which it ends.
        "limit" limit: u32 = 100,
        /// Calls in one second at which it ends.
        "rate" rate: u32 = 500,
        /// Ends it when so many trace messages wait on the node.
        "max-backlog" max_backlog: u32 = 10_000,
        /// Ends it when the node's memory rises by so many MB.
        "max-memory" max_memory: u32 = 256,
        /// Ends it when so many more processes than before wait to run, for a second.
        "max-run-queue" max_run_queue: u32 = 32,
    }
}

impl FlatTable for TraceSpec {
    const REQUIRED: Option<&'static str> = Some("call");
    const SPARSE: &'static [&'static str] = &["name"];
}

impl TraceSpec {
    /// The key in JSON: `trace`, or `trace_NAME`.
    fn scenario(&self) -> String {
        match self.name.as_str() {
            "" => "trace".to_owned(),
            name => format!("trace_{}", name.replace('-', "_")),
        }
    }

    fn check(&self, key: &impl Fn(&str) -> String) -> Result<FunctionPattern, Problem> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = self.name.len() <= ProbePlan::LONGEST_NAME && self.name.bytes().all(is_letter);
        let help = "use at most 30 lower-case letters, digits and -";
        ensure(is_name, key("name"), " cannot name a trace", help)?;
        // It would be that of each process that has a registered name.
        let is_empty = self.role.as_deref() == Some("");
        ensure(!is_empty, key("role"), " is empty", "name one, such as queue, or leave it out")?;
        let limits = [
            ("limit", self.limit, MOST_CALLS),
            ("rate", self.rate, MOST_CALLS),
            ("max-backlog", self.max_backlog, MOST),
            ("max-memory", self.max_memory, MOST),
            ("max-run-queue", self.max_run_queue, MOST),
        ];
        for (name, value, most) in limits {
            let why = format!(" = {value} is not between 1 and {most}");
            ensure((1..=most).contains(&value), key(name), why, "give a number that is")?;
        }
        let refuse = |refused: Refused| wrong(key("call"), format!(": {}", refused.what), refused.help);
        let function: FunctionPattern = self.call.parse().map_err(refuse)?;
        let why = format!(" = {function} means every function of a module");
        let help = "name one, such as rabbit_mgmt_wm_queues:to_json/2";
        ensure(function.function.is_some(), key("call"), why, help)?;
        Ok(function)
    }

    fn filter(&self) -> ProcessFilter {
        (self.role.clone()).map_or(ProcessFilter::All, ProcessFilter::Role)
    }
}

/// The traces of one node, which are one there.
#[derive(Clone, Debug)]
pub struct NodeTrace {
    /// The node's number.
    pub node: u32,
    /// Functions of all traces, and limits of their common cost.
    pub options: TraceOptions,
    /// The traces of the node.
    pub traces: Vec<OneTrace>,
}

/// One of the traces of a node.
#[derive(Clone, Debug)]
pub struct OneTrace {
    /// Its scenario: `trace`, or `trace_NAME`.
    pub scenario: String,
    /// The function.
    pub function: FunctionPattern,
    /// Calls after which it ends.
    pub limit: u32,
}

/// The time for which a trace may last on its node.
fn longest(warmup: Nanos, measure: Nanos) -> Duration {
    /// Length of a load that ends only when stopped.
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    /// Generous time for clients to connect.
    const SLACK: Duration = Duration::from_secs(600);
    match measure {
        Nanos::ZERO => DAY * 7,
        measure => Duration::from(warmup + measure) + SLACK,
    }
}

/// Sum of a limit over all traces.
fn sum(specs: &[&TraceSpec], of: impl Fn(&TraceSpec) -> u32) -> u32 {
    specs.iter().map(|spec| of(spec)).fold(0, u32::saturating_add)
}

impl Experiment {
    /// The nodes that are traced, by number.
    pub fn nodes_to_trace(&self) -> Vec<u32> {
        let mut nodes: Vec<u32> = self.trace.iter().map(|it| it.node.unwrap_or(0)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The traces of each node, resolved.
    pub fn traced_nodes(&self) -> Result<Vec<NodeTrace>, Problem> {
        let functions = self.check_traces()?;
        let traces = |node| {
            let its = self.trace.iter().zip(&functions);
            self.traces_of(node, its.filter(|(spec, _)| spec.node.unwrap_or(0) == node))
        };
        Ok(self.nodes_to_trace().into_iter().map(traces).collect())
    }

    fn traces_of<'a>(&self, node: u32, its: impl Iterator<Item = (&'a TraceSpec, &'a FunctionPattern)>) -> NodeTrace {
        let (specs, functions): (Vec<&TraceSpec>, Vec<&FunctionPattern>) = its.unzip();
        let (warmup, measure) = (self.phases.warmup.0, self.phases.measure.0);
        let first = specs.first();
        let has_arguments = first.is_some_and(|spec| spec.arguments);
        let most = |of: fn(&TraceSpec) -> u32| specs.iter().map(|spec| of(spec)).max();
        let usual = Budget::lasting(longest(warmup, measure));
        let options = TraceOptions {
            functions: functions.iter().map(|it| (*it).clone()).collect(),
            arguments: first.and_then(|spec| spec.matching.clone()),
            processes: first.map_or(ProcessFilter::All, |spec| spec.filter()),
            limit: sum(&specs, |spec| spec.limit),
            rate: sum(&specs, |spec| spec.rate),
            returns: true,
            argument_bytes: if has_arguments { ARGUMENT_BYTES } else { 0 },
            budget: Budget {
                backlog: most(|spec| spec.max_backlog).unwrap_or(usual.backlog),
                node_bytes: u64::from(most(|spec| spec.max_memory).unwrap_or(0)) << 20,
                run_queue: most(|spec| spec.max_run_queue).unwrap_or(usual.run_queue),
                ..usual
            },
        };
        let traces = specs.iter().zip(functions);
        let traces = traces.map(|(spec, function)| OneTrace {
            scenario: spec.scenario(),
            function: function.clone(),
            limit: spec.limit,
        });
        NodeTrace { node, options, traces: traces.collect() }
    }

    /// Checks each trace, and that they go together; their functions.
    fn check_traces(&self) -> Result<Vec<FunctionPattern>, Problem> {
        let why = format!(" has {} entries; at most {MOST_TRACES} are allowed", self.trace.len());
        ensure(self.trace.len() <= MOST_TRACES, "trace", why, "leave some out")?;
        let has_node = self.trace.is_empty() || self.broker.has_erlang();
        let help = "use a managed RabbitMQ, or name the node of an attached one with {broker.node}";
        ensure(has_node, "trace", " needs a RabbitMQ's Erlang node, and none is known", help)?;
        let mut functions = Vec::new();
        for (number, spec) in self.trace.iter().enumerate() {
            let key = |key: &str| format!("trace.{number}.{key}");
            functions.push(spec.check(&key)?);
            let before = || self.trace.iter().take(number);
            let is_new = !before().any(|it| it.name == spec.name);
            ensure(is_new, key("name"), ": another trace has this name", "give each trace a name of its own")?;
            let (count, node) = (self.broker.node_count(), spec.node.unwrap_or(0));
            let why = format!(" = {node} is none of the broker's nodes");
            let help = match count {
                1 => "leave it out: there is one node".to_owned(),
                count => format!("give 0 to {}", count.saturating_sub(1)),
            };
            ensure(spec.node.is_none() || node < count, key("node"), why, help)?;
            if let Some(first) = before().find(|it| it.node.unwrap_or(0) == node) {
                let same = [
                    ("match", spec.matching == first.matching),
                    ("role", spec.role == first.role),
                    ("arguments", spec.arguments == first.arguments),
                ];
                let why = " differs from another trace of the same node, which they share";
                same.iter().try_for_each(|(name, is_same)| ensure(*is_same, key(name), why, "give both the same"))?;
            }
        }
        Ok(functions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec_tests::{read, refused};

    #[test]
    fn what_cannot_be_traced_is_refused_before_a_broker_is_started() {
        let with = |traces: &str| refused(&format!("[[load]]\ndestination = \"queue://q\"\n{traces}"));
        assert_eq!(with("[[trace]]\ncall = \"lists:map/2\"\n"), "");
        for [traces, said] in testkit::table(include_str!("../tests/data/no-traces.txt")) {
            testkit::assert_has(with(traces), [said]);
        }
    }

    #[test]
    fn traces_of_a_node_are_one_there_with_the_sum_of_their_calls() {
        let text = "[[load]]\ndestination = \"queue://q\"\n[broker]\nnodes = 2\n\
                    [[trace]]\nname = \"a\"\ncall = \"a:b/1\"\nlimit = 7\n\
                    [[trace]]\nname = \"b\"\ncall = \"a:c\"\nlimit = 5\nrate = 10\n\
                    [[trace]]\nname = \"c\"\ncall = \"a:b/1\"\nnode = 1\n";
        let experiment = read(text);
        let nodes = experiment.traced_nodes().unwrap();
        let counts: Vec<usize> = nodes.iter().map(|it| it.traces.len()).collect();
        assert_eq!(counts, [2, 1]);
        let specs: Vec<&TraceSpec> = experiment.trace.iter().take(2).collect();
        assert_eq!(sum(&specs, |it| it.limit), 12);
        assert_eq!(sum(&specs, |it| it.rate), 510);
    }
}
