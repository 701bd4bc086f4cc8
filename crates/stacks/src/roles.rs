//! Roles of Erlang processes by their stacks, where the node named none: those that had ended when it was asked, and
//! all of a node that cannot be asked.

use std::collections::HashMap;

use super::frames::{Frame, FrameKind};
use super::model::Profile;

/// Modules of RabbitMQ, and what the processes are that begin in them. Others are known by the module, as those are
/// that the node was asked about.
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
    /// Gives the processes of which nothing is known but their identifier the role that their stacks tell: that of
    /// the first module from the root that not every process runs in, of the most samples.
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

    /// For each stack a frame of the first module, from its root, that not every process runs in: always the same
    /// one of a module.
    fn first_modules(&self) -> Vec<Option<u32>> {
        let mut known: HashMap<&str, u32> = HashMap::new();
        let of_frame = (0u32..).zip(&self.frames).map(|(at, frame)| {
            let erlang = (frame.kind == FrameKind::Erlang).then_some(&frame.name)?;
            Some(*known.entry(Frame::own_module(erlang)?).or_insert(at))
        });
        let of_frame: Vec<Option<u32>> = of_frame.collect();
        let mut modules: Vec<Option<u32>> = Vec::with_capacity(self.stacks.len());
        for node in &self.stacks {
            let above = node.parent.and_then(|it| modules.get(it as usize).copied());
            let own = of_frame.get(node.frame as usize).copied();
            modules.push(above.flatten().or(own.flatten()));
        }
        modules
    }
}
