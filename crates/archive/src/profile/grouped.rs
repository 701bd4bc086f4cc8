//! A profile with larger things in place of functions: modules, or groups of threads.

use std::collections::HashMap;

use super::frames::{Frame, FrameKind, UNKNOWN};
use super::model::{Profile, StackNode};

impl Profile {
    /// The same samples with modules in place of functions: an Erlang module, a Java class, a library, a program, the
    /// kernel. A module that calls itself counts once.
    #[must_use]
    pub fn by_module(&self) -> Self {
        let mut modules = Names::default();
        let of_frame: Vec<u32> = (self.frames.iter())
            .map(|frame| modules.frame(module(frame), frame.kind))
            .collect();
        let mut grouped = self.clone();
        grouped.frames = modules.frames;
        for node in &mut grouped.stacks {
            // An index out of range stays one.
            node.frame = of_frame
                .get(node.frame as usize)
                .copied()
                .unwrap_or(u32::MAX);
        }
        grouped
    }

    /// The same samples with the group of their thread in place of their stack.
    #[must_use]
    pub fn by_thread_group(&self) -> Self {
        let groups = self.thread_groups();
        let frames = groups.names.iter();
        let frames: Vec<Frame> = frames
            .map(|name| Frame::new(name, "", FrameKind::Native))
            .collect();
        let nodes = 0..frames.len() as u32;
        let stacks = nodes.map(|frame| StackNode {
            parent: None,
            frame,
        });
        let mut grouped = self.clone();
        grouped.stacks = stacks.collect();
        grouped.frames = frames;
        for sample in &mut grouped.samples {
            let group = groups.of_thread.get(sample.thread as usize);
            sample.stack = group.copied().unwrap_or(u32::MAX);
        }
        grouped
    }
}

/// Frames that are told apart by their names alone.
#[derive(Default)]
struct Names {
    known: HashMap<String, u32>,
    frames: Vec<Frame>,
}

impl Names {
    fn frame(&mut self, name: &str, kind: FrameKind) -> u32 {
        if let Some(frame) = self.known.get(name) {
            return *frame;
        }
        let frame = self.frames.len() as u32;
        self.frames.push(Frame::new(name, "", kind));
        self.known.insert(name.to_owned(), frame);
        frame
    }
}

/// The module that a frame's function is of.
fn module(frame: &Frame) -> &str {
    let of_name = match frame.kind {
        FrameKind::Erlang => (frame.name.trim_start_matches('$').split_once(':')).map(|it| it.0),
        FrameKind::Java => frame.name.rsplit_once('.').map(|it| it.0),
        _ => None,
    };
    let of_file = Some(frame.module.as_str()).filter(|module| !module.is_empty());
    of_name.or(of_file).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Builder, Sample, Unwinding};

    fn profile() -> Profile {
        let mut builder = Builder::default();
        let frames = [
            Frame::new("$gen_server2:handle_msg/2", "[jit]", FrameKind::Erlang),
            Frame::new("$rabbit_channel:handle_cast/2", "[jit]", FrameKind::Erlang),
            Frame::new("$gen_server2:loop/8", "[jit]", FrameKind::Erlang),
            Frame::new("memcpy", "libc.so.6", FrameKind::Libc),
            Frame::new("a.b.C.m", "[jit]", FrameKind::Java),
            Frame::new("[unknown]", "", FrameKind::Unknown),
        ]
        .map(|frame| builder.frame(&frame));
        for (thread, path, weight) in [
            // One module twice in a stack, with another between.
            ("1_scheduler", &[0, 1, 2][..], 4),
            ("2_scheduler", &[0, 1, 3], 3),
            ("1_aux", &[4], 2),
            ("1_aux", &[5], 1),
        ] {
            let thread = builder.thread(thread);
            let node = |parent, at: &usize| Some(builder.node(parent, frames[*at]));
            let stack = path.iter().fold(None, node).unwrap();
            builder.sample(Sample {
                t: 0,
                weight,
                stack,
                thread,
                cpu: 0,
                complete: true,
                unwinding: Unwinding::Unknown,
                process: None,
            });
        }
        builder.profile
    }

    fn shares(profile: &Profile) -> Vec<(String, u64, u64)> {
        let rows = profile.functions().into_iter();
        rows.map(|it| (it.share.function, it.self_weight, it.total_weight))
            .collect()
    }

    fn row(name: &str, own: u64, total: u64) -> (String, u64, u64) {
        (name.to_owned(), own, total)
    }

    #[test]
    fn modules_count_once_in_a_stack() {
        assert_eq!(
            shares(&profile().by_module()),
            [
                row("gen_server2", 4, 7),
                row("libc.so.6", 3, 3),
                row("a.b.C", 2, 2),
                row("[unknown]", 1, 1),
                row("rabbit_channel", 0, 7),
            ]
        );
    }

    #[test]
    fn threads_of_a_group_are_one_row() {
        let rows = shares(&profile().by_thread_group());
        assert_eq!(rows, [row("scheduler", 7, 7), row("aux", 3, 3)]);
    }
}
