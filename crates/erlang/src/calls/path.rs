//! Cost of an entry function's calls, by function, in all processes on their path; and how slow calls differ.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

use serde::{Serialize, Serializer};

use super::tree::{CallTree, NodeCost, TreeNode, linked};
use super::{name, number, rows};
use crate::budget::{Budget, Ended, refusal};
use crate::error::Error;
use crate::helper::{Answer, Helper, Worker};
use crate::pattern::{FunctionPattern, ProcessFilter};
use crate::term::{
    Term, as_atom, as_bytes, as_text, as_texts, as_tuple, atom, exactly, get, int, list, map, millis, show,
};

/// Fewer calls than these have no slowest tenth.
const LEAST_CALLS: usize = 10;
/// Bytes of a node's number, calls, and times in what a call cost.
const COST_BYTES: usize = 24;

/// Calls of an entry function.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// All that was traced, summed.
    pub tree: CallTree,
    /// Each call that was traced from its beginning to its end, the first first.
    pub calls: Vec<EntryCall>,
    /// How long calls took while only the entry was traced, before the others.
    pub untraced: Vec<Duration>,
    /// How long calls took of which only the entry was traced, between those that were followed.
    pub beside: Vec<Duration>,
    /// Calls that began.
    pub begun: u64,
    /// Calls of these that were not seen to end: they go on in a tail call, or were not traced from the beginning.
    pub unfinished: u64,
    /// Modules of the entry that were loaded anew meanwhile, so that calls are missing.
    pub loaded_anew: Vec<String>,
    /// Modules traced below the entry.
    pub modules: Vec<String>,
    /// Functions of it that were called too often to go on with them.
    pub left_out: Vec<String>,
    /// Calls of the entry that counted functions, to know which to leave out from the start; none without a count.
    pub counted_calls: u64,
    /// Counts of functions left out of it, most own time first.
    pub counted: Vec<CountedFunction>,
    /// Trace messages.
    pub messages: u64,
    /// Why it ended.
    pub ended: Ended,
}

/// A function that was left out, by the counters of the emulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CountedFunction {
    /// Its name.
    pub function: String,
    /// Calls of it.
    pub calls: u64,
    /// Time in itself.
    #[serde(rename = "own_ns", serialize_with = "whole_nanos")]
    pub own: Duration,
}

/// How much longer calls take that are followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObserverEffect {
    /// Calls that were followed.
    pub followed: usize,
    /// Their median.
    pub followed_median: Duration,
    /// Calls between them of which only the entry was traced.
    pub beside: usize,
    /// Their median.
    pub beside_median: Duration,
}

impl ObserverEffect {
    /// How many times as long followed calls take.
    pub fn ratio(&self) -> f64 {
        self.followed_median.as_secs_f64() / self.beside_median.as_secs_f64().max(1e-9)
    }
}

/// A call of the entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryCall {
    /// When it began, by the node's clock.
    pub began: SystemTime,
    /// The process that made it.
    pub pid: String,
    /// From the call to its return, waits included.
    pub duration: Duration,
    /// Its cost by function.
    pub costs: Vec<NodeCost>,
}

/// The slowest tenth of the calls beside the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Number of slow calls.
    pub slow: usize,
    /// Number of the others.
    pub rest: usize,
    /// Mean duration of the slow ones, in nanoseconds.
    pub slow_mean: f64,
    /// Mean of the others.
    pub rest_mean: f64,
    /// Each function, the one first that takes most more in slow calls.
    pub functions: Vec<Difference>,
}

/// Cost of a function in slow calls and in the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its name.
    pub function: String,
    /// In slow calls.
    pub slow: PerCall,
    /// In the others.
    pub rest: PerCall,
}

/// Means of one call of the entry; times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PerCall {
    /// Calls of the function.
    pub calls: f64,
    /// On a processor, in itself.
    #[serde(rename = "own_ns", serialize_with = "whole")]
    pub own: f64,
    /// Waiting, in itself.
    #[serde(rename = "waiting_ns", serialize_with = "whole")]
    pub waiting: f64,
    /// On a processor, with all that it calls.
    #[serde(rename = "accumulated_ns", serialize_with = "whole")]
    pub accumulated: f64,
    /// Waiting, with all that it calls.
    #[serde(rename = "accumulated_waiting_ns", serialize_with = "whole")]
    pub accumulated_waiting: f64,
}

fn whole<S: Serializer>(nanos: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    (*nanos as u64).serialize(serializer)
}

fn whole_nanos<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    measure::Nanos::from(*time).0.serialize(serializer)
}

impl Difference {
    /// Nanoseconds by which the function itself takes longer in a slow call, waits included; they add up.
    pub fn more(&self) -> f64 {
        self.slow.own + self.slow.waiting - self.rest.own - self.rest.waiting
    }
}

impl Path {
    /// How long the traced calls took, the shortest first.
    pub fn durations(&self) -> Vec<Duration> {
        let mut durations: Vec<_> = self.calls.iter().map(|call| call.duration).collect();
        durations.sort_unstable();
        durations
    }

    /// How much longer the followed calls took than those between them; `None` where one of the two has no calls.
    pub fn observer_effect(&self) -> Option<ObserverEffect> {
        let median = |mut durations: Vec<Duration>| {
            durations.sort_unstable();
            Some((durations.len(), *durations.get(durations.len().checked_sub(1)? / 2)?))
        };
        let (followed, followed_median) = median(self.durations())?;
        let (beside, beside_median) = median(self.beside.clone())?;
        Some(ObserverEffect { followed, followed_median, beside, beside_median })
    }

    /// The slowest tenth beside the rest; `None` of fewer than ten calls.
    pub fn comparison(&self) -> Option<Comparison> {
        if self.calls.len() < LEAST_CALLS {
            return None;
        }
        let mut calls: Vec<_> = self.calls.iter().collect();
        calls.sort_by_key(|call| std::cmp::Reverse(call.duration));
        let (slow, rest) = calls.split_at(calls.len().div_ceil(10));
        let (in_slow, in_rest) = (self.per_call(slow), self.per_call(rest));
        let names: HashSet<&str> = in_slow.keys().chain(in_rest.keys()).copied().collect();
        let of = |sums: &BTreeMap<&str, PerCall>, name| sums.get(name).copied().unwrap_or_default();
        let mut functions: Vec<_> = names
            .into_iter()
            .map(|function| Difference {
                function: function.to_owned(),
                slow: of(&in_slow, function),
                rest: of(&in_rest, function),
            })
            .collect();
        functions.sort_by(|a, b| {
            let by_time = b.more().total_cmp(&a.more());
            by_time.then_with(|| a.function.cmp(&b.function))
        });
        Some(Comparison { slow: slow.len(), rest: rest.len(), slow_mean: mean(slow), rest_mean: mean(rest), functions })
    }

    /// Mean cost of each function in one of these calls.
    fn per_call(&self, calls: &[&EntryCall]) -> BTreeMap<&str, PerCall> {
        let tree = self.tree.with_costs(calls.iter().flat_map(|call| &call.costs));
        let each = |nanos: u64| nanos as f64 / calls.len().max(1) as f64;
        let (own, accumulated) = (tree.own(), tree.accumulated());
        let nodes = self.tree.nodes().iter();
        nodes
            .filter_map(|node| {
                let name = node.function.as_str();
                let (own, all) = (own.get(name)?, accumulated.get(name)?);
                let per_call = PerCall {
                    calls: each(own.calls),
                    own: each(own.running),
                    waiting: each(own.waiting),
                    accumulated: each(all.running),
                    accumulated_waiting: each(all.waiting),
                };
                Some((name, per_call))
            })
            .collect()
    }
}

fn mean(calls: &[&EntryCall]) -> f64 {
    let sum: u128 = calls.iter().map(|call| call.duration.as_nanos()).sum();
    sum as f64 / calls.len().max(1) as f64
}

pub(crate) fn read(term: &Term) -> Option<Path> {
    let nodes = nodes(get(term, "nodes")?)?;
    let calls = rows(get(term, "calls")?, |row| call(row, nodes.len()))?;
    let untraced = as_bytes(get(term, "plain")?)?;
    let tree = CallTree { nodes }.with_costs(calls.iter().flat_map(|call| &call.costs));
    let texts = |key| as_texts(get(term, key)?);
    Some(Path {
        tree,
        calls,
        untraced: nanos(untraced),
        beside: nanos(as_bytes(get(term, "alone")?)?),
        begun: number(get(term, "begun")?)?,
        unfinished: number(get(term, "lost")?)?,
        // A call that we make ourselves has none.
        loaded_anew: texts("loaded_anew").unwrap_or_default(),
        modules: texts("modules")?,
        left_out: texts("left_out")?,
        // Nothing is counted in calls that we make ourselves.
        counted_calls: get(term, "counted_calls").and_then(number).unwrap_or(0),
        counted: get(term, "counted").map_or_else(|| Some(Vec::new()), |counted| rows(counted, counted_function))?,
        messages: number(get(term, "messages")?)?,
        ended: Ended::read(get(term, "ended")?)?,
    })
}

fn counted_function(row: &[Term]) -> Option<CountedFunction> {
    let [module, function, arity, calls, micros] = exactly(row)?;
    Some(CountedFunction {
        function: name(module, function, arity)?,
        calls: number(calls)?,
        own: Duration::from_micros(number(micros)?),
    })
}

pub(crate) fn nanos(bytes: &[u8]) -> Vec<Duration> {
    let numbers = bytes.chunks_exact(8).filter_map(|it| it.try_into().ok());
    numbers.map(|it| Duration::from_nanos(u64::from_be_bytes(it))).collect()
}

/// The tree without its costs; callers stand before those that they call.
fn nodes(term: &Term) -> Option<Vec<TreeNode>> {
    let node = |id: &Term, caller: &Term, function: String| {
        let node = TreeNode { caller: None, function, calls: 0, running: 0, waiting: 0 };
        Some((number(id)?, number(caller)?, node))
    };
    linked(rows(term, |row| match row {
        [id, caller, module, function, arity] => node(id, caller, name(module, function, arity)?),
        [id, caller, role, name] => node(id, caller, served(&as_text(role)?, &as_text(name)?)),
        _ => None,
    })?)
}

/// How a process stands in the tree that serves a request.
fn served(role: &str, name: &str) -> String {
    match (role, name) {
        ("", "") => "[another process]".to_owned(),
        ("", one) | (one, "") => format!("[{one}]"),
        _ => format!("[{role} {name}]"),
    }
}

fn call(row: &[Term], nodes: usize) -> Option<EntryCall> {
    let [micros, pid, nanos, costs] = exactly(row)?;
    let costs = as_bytes(costs)?.chunks_exact(COST_BYTES);
    Some(EntryCall {
        began: SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(number(micros)?))?,
        pid: as_text(pid)?,
        duration: Duration::from_nanos(number(nanos)?),
        costs: costs.map(|bytes| cost(bytes, nodes)).collect::<Option<_>>()?,
    })
}

fn cost(bytes: &[u8], nodes: usize) -> Option<NodeCost> {
    let (node, rest) = bytes.split_first_chunk()?;
    let (calls, rest) = rest.split_first_chunk()?;
    let (running, rest) = rest.split_first_chunk()?;
    let (waiting, _) = rest.split_first_chunk()?;
    let node = usize::try_from(u32::from_be_bytes(*node)).ok()?.checked_sub(1)?;
    (node < nodes).then_some(NodeCost {
        node,
        calls: u32::from_be_bytes(*calls),
        running: u64::from_be_bytes(*running),
        waiting: u64::from_be_bytes(*waiting),
    })
}

/// Asks for what there is before the end, which is all that is left where the node goes away.
pub(crate) const SO_FAR: &str = "so_far";
/// Bounds of the time between two of these questions: an answer costs the node some work.
const SO_FAR_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// As a part of the whole time.
const SO_FAR_PART: u32 = 8;

/// How often a measurement of this length is asked for what there is.
pub(crate) fn so_far_every(whole: Duration) -> Duration {
    let [least, most] = SO_FAR_EVERY;
    (whole / SO_FAR_PART).clamp(least, most)
}

/// What a worker has before its end; `None` in its last answer, and where it has nothing yet.
pub(crate) fn told_so_far(reply: &Term) -> Option<&Term> {
    match as_tuple(reply)? {
        [word, told] if as_atom(word) == Some(SO_FAR) => Some(told),
        _ => None,
    }
}

/// Time between two questions of how far it is.
const EVERY: Duration = Duration::from_millis(250);
/// Longest wait for one answer: at the end the node puts everything together.
const ANSWER: Duration = Duration::from_secs(60);

/// Options of following an entry.
#[derive(Clone, Debug)]
pub struct RootOptions {
    /// The entry function.
    pub root: FunctionPattern,
    /// Functions traced below it; those modules that run there if empty.
    pub functions: Vec<FunctionPattern>,
    /// The processes whose calls of the entry count.
    pub processes: ProcessFilter,
    /// How long; in the first quarter only the entry is traced.
    pub duration: Duration,
    /// Calls of the entry after which it ends.
    pub limit: u32,
    /// Calls of the entry in one second at which it ends.
    pub rate: u32,
    /// Trace messages at which it ends.
    pub messages: u32,
    /// Limits of its cost to the node.
    pub budget: Budget,
}

/// How calls of the entry are handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootPhase {
    /// Only the entry is traced.
    #[default]
    Alone,
    /// Functions below it are counted.
    Counting,
    /// Functions below it are traced.
    Following,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootProgress {
    /// The phase.
    pub phase: RootPhase,
    /// Calls of the entry while only that was traced.
    pub untraced: u64,
    /// Calls of the entry that were traced with all below them.
    pub calls: u64,
    /// Trace messages.
    pub messages: u64,
}

/// Calls that the node follows.
#[derive(Debug)]
pub struct Following<'a> {
    helper: &'a Helper,
    worker: Worker,
    so_far_every: Duration,
}

impl<'a> Following<'a> {
    /// Begins. What the node's side refuses, [`Following::wait`] tells.
    pub fn begin(helper: &'a Helper, options: &RootOptions) -> Result<Self, Error> {
        let worker = helper.run("bellows_root", "start", options.term())?;
        Ok(Self { helper, worker, so_far_every: so_far_every(options.duration) })
    }

    /// Waits until one of the limits ends it, or `look` says that it is enough. Where the node goes away meanwhile,
    /// `so_far` has what was followed until shortly before.
    pub fn wait(&self, mut look: impl FnMut(RootProgress) -> bool, so_far: &mut Option<Path>) -> Result<Path, Error> {
        const WHAT: &str = "the trace of calls";
        let mut request = "next";
        let mut due = Instant::now() + self.so_far_every;
        loop {
            let reply = answer(self.helper, &self.worker, request, WHAT)?;
            if let Some(told) = told_so_far(&reply) {
                *so_far = read(told).map(|it| Path { ended: Ended::Gone, ..it });
                request = "next";
                continue;
            }
            let Some(progress) = progress(&reply) else { return done(self.helper, &reply, WHAT, read) };
            let enough = look(progress);
            request = if enough { "stop" } else { "next" };
            if !enough {
                std::thread::sleep(EVERY);
            }
            if !enough && Instant::now() >= due {
                (request, due) = (SO_FAR, Instant::now() + self.so_far_every);
            }
        }
    }

    /// Removes what is left of it from the node, which closing the helper does, too.
    pub fn end(self) -> Result<(), Error> {
        self.helper.stop(self.worker)
    }
}

/// How far a worker is; `None` where that is its last answer.
fn progress(reply: &Term) -> Option<RootProgress> {
    let [running, phase, untraced, calls, messages] = exactly(as_tuple(reply)?)?;
    let count = |term| number(term).unwrap_or(0);
    (as_atom(running) == Some("running")).then(|| RootProgress {
        phase: match as_atom(phase) {
            Some("detailed") => RootPhase::Following,
            Some("counted") => RootPhase::Counting,
            _ => RootPhase::Alone,
        },
        untraced: count(untraced),
        calls: count(calls),
        messages: count(messages),
    })
}

pub(crate) fn answer(helper: &Helper, worker: &Worker, request: &str, what: &str) -> Result<Term, Error> {
    told(helper, helper.ask(worker, atom(request), ANSWER)?, what, "it did not answer in time")
}

/// A worker's reply; `silent` says why there is none where nothing came in time.
pub(super) fn told(helper: &Helper, answer: Answer, what: &str, silent: &str) -> Result<Term, Error> {
    let reason = match answer {
        Answer::Reply(reply) => return Ok(reply),
        Answer::Silent => silent.to_owned(),
        Answer::Ended => "it was stopped".to_owned(),
        Answer::Failed(reason) => reason,
    };
    Err(helper.failed(what, reason))
}

/// Reads `{done, Result}` or `{refused, Reason}`.
pub(crate) fn done<T>(
    helper: &Helper,
    reply: &Term,
    what: &str,
    read: impl Fn(&Term) -> Option<T>,
) -> Result<T, Error> {
    match as_tuple(reply) {
        Some([word, result]) if as_atom(word) != Some("refused") => {
            read(result).ok_or_else(|| helper.failed(what, show(result, 200)))
        }
        _ => Err(refused(helper, reply, what)),
    }
}

/// Why an answer is none that was asked for.
pub(super) fn refused(helper: &Helper, reply: &Term, what: &str) -> Error {
    match as_tuple(reply) {
        Some([word, reason]) if as_atom(word) == Some("refused") => Error::Other(refusal(reason)),
        _ => helper.failed(what, show(reply, 200)),
    }
}

impl RootOptions {
    fn term(&self) -> Term {
        let functions = self.functions.iter().map(FunctionPattern::term);
        map([
            (atom("root"), self.root.term()),
            (atom("patterns"), list(functions)),
            (atom("processes"), self.processes.term()),
            (atom("for_ms"), millis(self.duration)),
            (atom("limit"), int(self.limit.into())),
            (atom("rate"), int(self.rate.into())),
            (atom("messages"), int(self.messages.into())),
            (atom("limits"), self.budget.term()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{Binary, atom, int, list, map, text, tuple};

    fn binary(bytes: Vec<u8>) -> Term {
        Term::from(Binary::from(bytes))
    }

    fn costs(of: &[(u32, u32, u64, u64)]) -> Term {
        let bytes = of.iter().flat_map(|(node, calls, running, waiting)| {
            let head = [node.to_be_bytes(), calls.to_be_bytes()].concat();
            [head, [running.to_be_bytes(), waiting.to_be_bytes()].concat()].concat()
        });
        binary(bytes.collect())
    }

    fn told(slow: u64) -> Term {
        let node = |id, caller, function| tuple([int(id), int(caller), text("m"), text(function), int(1)]);
        let server = tuple([int(3), int(2), text("queue"), text("orders")]);
        let calls = (0..20).map(|number| {
            let extra = if number % 10 == 9 { slow } else { 0 };
            tuple([
                int(number),
                text("<0.1.0>"),
                int(i64::try_from(1_000 + extra).unwrap()),
                costs(&[(1, 1, 400, 0), (2, 1, 100, 200), (3, 1, 300 + extra, 0)]),
            ])
        });
        map([
            (atom("nodes"), list([node(1, 0, "entry"), node(2, 1, "call"), server])),
            (atom("calls"), list(calls)),
            (atom("plain"), binary(7_u64.to_be_bytes().to_vec())),
            (atom("alone"), binary([400_u64.to_be_bytes(), 500_u64.to_be_bytes()].concat())),
            (atom("counted_calls"), int(2)),
            (atom("counted"), list([tuple([text("m"), text("hot"), int(0), int(9_000), int(70)])])),
            (atom("modules"), list([text("m")])),
            (atom("left_out"), list([])),
            (atom("begun"), int(22)),
            (atom("lost"), int(1)),
            (atom("messages"), int(99)),
            (atom("ended"), atom("time")),
        ])
    }

    #[test]
    fn slow_calls_are_set_against_the_rest() {
        let path = read(&told(50_000)).unwrap();
        assert_eq!((path.calls.len(), path.begun, path.unfinished), (20, 22, 1));
        assert_eq!(path.untraced, [Duration::from_nanos(7)]);
        let effect = path.observer_effect().unwrap();
        assert_eq!((effect.followed, effect.beside), (20, 2));
        assert_eq!(effect.ratio(), 2.5);
        let hot = CountedFunction { function: "m:hot/0".to_owned(), calls: 9_000, own: Duration::from_micros(70) };
        assert_eq!((path.counted_calls, &path.counted[..]), (2, &[hot][..]));
        assert_eq!(path.tree.nodes()[2].function, "[queue orders]");
        assert_eq!(path.tree.accumulated()["m:entry/1"].running, 20 * 800 + 100_000);
        let compared = path.comparison().unwrap();
        assert_eq!((compared.slow, compared.rest), (2, 18));
        let first = &compared.functions[0];
        assert_eq!(first.function, "[queue orders]");
        assert_eq!((first.slow.own, first.rest.own), (50_300.0, 300.0));
        let more: f64 = compared.functions.iter().map(Difference::more).sum();
        assert!((more - (compared.slow_mean - compared.rest_mean)).abs() < 1e-6);
    }

    #[test]
    fn costs_of_functions_that_are_not_there_are_refused() {
        let bytes = costs(&[(4, 1, 1, 1)]);
        assert_eq!(cost(as_bytes(&bytes).unwrap(), 3), None);
        assert!(cost(as_bytes(&bytes).unwrap(), 4).is_some());
        assert_eq!(cost(as_bytes(&costs(&[(0, 1, 1, 1)])).unwrap(), 4), None);
    }
}
