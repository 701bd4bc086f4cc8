//! Whose work the samples of a node are.

use std::collections::HashMap;

use serde::Serialize;

use super::frames::{Frame, FrameKind};
use super::model::{ErlangProcess, Profile};
use super::tree::numbered;
use crate::summary::WorkShare;

measure::named! {
    /// Splits of a node's work.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum WorkBy {
        /// Process by process, by their names: `queue orders-7`.
        #[default]
        Process = "process",
        /// Kinds of processes: all queues, all channels.
        Role = "role",
        /// Connections, with all processes that work for one.
        Connection = "connection",
        /// Virtual hosts.
        VirtualHost = "virtual host",
    }
}

impl WorkBy {
    /// Key that tells a process's work from all others'; a text of the broker cannot be mistaken for a placeholder.
    fn key(self, process: &ErlangProcess) -> [&str; 4] {
        let ErlangProcess { id, role, name, vhost, connection, from_stacks: _ } = process;
        // A queue is one by its name. Clients may give any number of connections the same one.
        let is_one = !name.is_empty() && connection.is_empty();
        let id = if is_one { "" } else { id };
        match self {
            Self::Process => [role, name, vhost, id],
            Self::Role => [role, "", "", ""],
            Self::Connection => [connection, "", "", ""],
            Self::VirtualHost => [vhost, "", "", ""],
        }
    }

    /// Whether processes that the node did not name are one row for each role, where it has named others.
    fn has_unnamed(self, has_named: bool) -> bool {
        has_named && self == Self::Process
    }

    /// Label of a process's group, for people.
    fn label(self, process: &ErlangProcess) -> String {
        let or = |text: &str, otherwise: &str| match text {
            "" => otherwise.to_owned(),
            text => text.to_owned(),
        };
        match self {
            Self::Process => process.label(),
            Self::Role => or(&process.role, "other processes"),
            Self::Connection => or(&process.connection, "no connection"),
            Self::VirtualHost => or(&process.vhost, "no virtual host"),
        }
    }

    /// Role of all processes in one group; empty where they differ.
    fn role(self, process: &ErlangProcess) -> &str {
        match self {
            Self::Process | Self::Role => &process.role,
            Self::Connection | Self::VirtualHost => "",
        }
    }
}

/// Kind of a row of a node's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// Work of processes.
    Processes,
    /// Processes of one role that the node did not name: most had ended when it was asked.
    Unnamed,
    /// Work outside processes.
    #[default]
    NoProcess,
    /// Several rows, for which there was no room.
    Others,
}

/// Weight of what was split.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Work {
    /// Whose it is, as people call it.
    pub of: String,
    /// Kind of row.
    pub kind: WorkKind,
    /// Role of its processes: `queue`, `channel`; empty where not known, or where they differ.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// Share of all samples (0 to 1).
    pub share: f64,
    /// Sum of the samples' weights.
    #[serde(rename = "samples")]
    pub weight: u64,
    /// Processes that it is made of.
    pub processes: usize,
    /// Those of them whose role is taken from their stacks, because the node did not say it.
    #[serde(skip_serializing_if = "is_none")]
    pub from_stacks: usize,
}

/// Whether a count is left out.
const fn is_none(count: &usize) -> bool {
    *count == 0
}

impl Work {
    /// Work of nothing yet, of such processes; of none where there is none.
    fn of(by: WorkBy, process: Option<&ErlangProcess>, is_unnamed: bool) -> Self {
        let (kind, of) = match process {
            None => (WorkKind::NoProcess, "no Erlang process".to_owned()),
            Some(it) if is_unnamed => (WorkKind::Unnamed, it.unnamed_label()),
            Some(it) => (WorkKind::Processes, by.label(it)),
        };
        Self { of, kind, role: process.map_or("", |it| by.role(it)).to_owned(), ..Self::default() }
    }
}

impl Profile {
    /// Whose work the samples are, the largest weight first, then by name; empty without Erlang processes.
    pub fn work(&self, by: WorkBy) -> Vec<Work> {
        if self.processes.is_empty() {
            return Vec::new();
        }
        let told = self.has_named_processes();
        let mut all: HashMap<Option<[&str; 4]>, Work> = HashMap::new();
        for (process, weight) in self.sums(|sample| sample.process) {
            let known = process.and_then(|it| self.processes.get(it as usize));
            let is_unnamed = known.is_some_and(|it| by.has_unnamed(told) && it.is_unnamed());
            let key = |process| if is_unnamed { WorkBy::Role.key(process) } else { by.key(process) };
            let work = all.entry(known.map(key)).or_insert_with(|| Work::of(by, known, is_unnamed));
            work.weight = work.weight.saturating_add(weight);
            work.processes += usize::from(known.is_some());
            work.from_stacks += usize::from(known.is_some_and(|it| it.from_stacks));
        }
        let sum = self.total_weight().max(1) as f64;
        let mut namesakes: HashMap<String, usize> = HashMap::new();
        for work in all.values_mut() {
            work.share = work.weight as f64 / sum;
            *namesakes.entry(work.of.clone()).or_default() += 1;
        }
        for (key, work) in &mut all {
            if let Some([.., id]) = key
                && !id.is_empty()
                && namesakes.get(&work.of).is_some_and(|&rows| rows > 1)
            {
                work.of = format!("{} {id}", work.of);
            }
        }
        let mut all: Vec<Work> = all.into_values().collect();
        all.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.of.cmp(&b.of)));
        all
    }

    /// Whether the node has named processes. Unnamed ones are then no rows of their own: their numbers say nothing.
    pub fn has_named_processes(&self) -> bool {
        self.processes.iter().any(|it| !it.is_unnamed())
    }

    /// Whether it is known of some process what the work is split by; also where there are no processes at all.
    pub fn tells_work(&self, by: WorkBy) -> bool {
        let mut processes = self.processes.iter();
        let tells = |process: &ErlangProcess| match by {
            WorkBy::Process => true,
            WorkBy::Role => !process.is_unknown(),
            // Stacks tell neither.
            WorkBy::Connection | WorkBy::VirtualHost => !process.is_unknown() && !process.from_stacks,
        };
        self.processes.is_empty() || processes.any(tells)
    }

    /// Labels of processes' work, and for each process which of these it is; the first is that of no process. Processes
    /// of one name are one: their identifiers differ from run to run.
    pub(super) fn work_names(&self, by: WorkBy) -> (Vec<String>, Vec<u32>) {
        let told = self.has_named_processes();
        let label = |it: &ErlangProcess| Work::of(by, Some(it), by.has_unnamed(told) && it.is_unnamed()).of;
        let (mut names, of_process) = numbered(self.processes.iter().map(label));
        // A process that is called so is a row of its own.
        names.insert(0, Work::of(by, None, false).of);
        (names, of_process.into_iter().map(|it| it + 1).collect())
    }

    /// Gives the profile's processes the names that the node has said.
    pub fn name_processes(&mut self, named: &[ErlangProcess]) {
        let named: HashMap<&str, &ErlangProcess> = named.iter().map(|process| (process.id.as_str(), process)).collect();
        for process in &mut self.processes {
            if let Some(&known) = named.get(process.id.as_str()) {
                process.clone_from(known);
            }
        }
    }

    /// The largest shares of what processes did, at most `top`.
    pub fn work_shares(&self, by: WorkBy, top: usize) -> Vec<WorkShare> {
        let work = self.work(by).into_iter();
        let work = work.filter(|work| work.kind == WorkKind::Processes);
        work.take(top).map(|work| WorkShare { of: work.of, role: work.role, share: work.share }).collect()
    }
}

/// Modules of RabbitMQ, and the kinds of processes that begin in them. Others are known by the module.
const ROLES: [(&str, &str); 13] = [
    ("rabbit_reader", "connection"),
    ("rabbit_amqp_reader", "connection"),
    ("rabbit_mqtt_reader", "connection"),
    ("rabbit_stomp_reader", "connection"),
    ("rabbit_stream_reader", "connection"),
    ("rabbit_channel", "channel"),
    ("rabbit_amqp_session", "session"),
    ("rabbit_writer", "writer"),
    ("rabbit_amqp_writer", "writer"),
    ("rabbit_limiter", "limiter"),
    ("rabbit_heartbeat", "heartbeat"),
    ("rabbit_amqqueue_process", "queue"),
    ("osiris_writer", "queue"),
];

impl Profile {
    /// Gives the processes of which nothing is known but their identifier, because they had ended when the node was
    /// asked or it cannot be asked, the role that their stacks tell: that of the
    /// first module from the root that not every process runs in, of the most samples.
    pub fn take_roles_from_stacks(&mut self) {
        let modules = self.first_modules();
        let sums = self.sums(|sample| {
            let module = modules.get(sample.stack as usize).copied();
            (sample.process, module.flatten())
        });
        let mut largest: HashMap<u32, (u64, u32)> = HashMap::new();
        for ((process, frame), weight) in sums {
            if let (Some(process), Some(frame)) = (process, frame) {
                let most = largest.entry(process).or_insert((0, frame));
                if weight > most.0 {
                    *most = (weight, frame);
                }
            }
        }
        for (at, process) in (0u32..).zip(&mut self.processes) {
            if !process.is_unknown() {
                continue;
            }
            let frame = largest.get(&at).map(|(_, frame)| *frame as usize);
            let frame = frame.and_then(|frame| self.frames.get(frame));
            if let Some(module) = frame.and_then(|frame| Frame::own_module(&frame.name)) {
                let role = ROLES.iter().find(|(of, _)| *of == module);
                process.role = role.map_or(module, |(_, role)| role).to_owned();
                process.from_stacks = true;
            }
        }
    }

    /// For each stack a frame of the first module that not every process runs in: always the same one of a module.
    fn first_modules(&self) -> Vec<Option<u32>> {
        let mut known: HashMap<&str, u32> = HashMap::new();
        let of_frame = (0u32..).zip(&self.frames).map(|(at, frame)| {
            let erlang = (frame.kind == FrameKind::Erlang).then_some(&frame.name)?;
            Some(*known.entry(Frame::own_module(erlang)?).or_insert(at))
        });
        let of_frame: Vec<Option<u32>> = of_frame.collect();
        self.per_stack(|above: Option<Option<u32>>, node| {
            let own = of_frame.get(node.frame as usize).copied();
            above.flatten().or(own.flatten())
        })
    }
}
