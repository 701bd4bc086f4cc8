//! Stacks of calls as a file: a flame graph, folded stacks, or other tools' formats.

use std::collections::BTreeMap;
use std::path::Path;

use erlang::calls::CallTree;
use measure::Time;
use stacks::{Frame, FrameKind, Heading, Profile, ProfileHeader, Sample, StackNode, Unwinding};

use crate::failure::Failure;
use crate::output;
use crate::profile_formats::Output;

/// The frame of waits.
const WAITS: &str = "[waits]";

/// Stacks to write, and their titles.
#[derive(Debug)]
pub(super) struct Stacks<'a> {
    /// The stacks.
    pub(super) tree: &'a CallTree,
    /// Whether waits weigh, too.
    pub(super) waits: bool,
    /// The picture's title.
    pub(super) title: &'a str,
    /// The picture's subtitle.
    pub(super) subtitle: String,
    /// Advice where there are no stacks.
    pub(super) none: &'a str,
}

impl Stacks<'_> {
    /// Writes them in this format.
    pub(super) fn write(self, path: &Path, format: Output) -> Result<(), Failure> {
        let profile = self.profile();
        if profile.samples.is_empty() {
            return Err(Failure::failed("there are no stacks to draw", self.none));
        }
        let heading = Heading {
            title: match self.waits {
                true => format!("{}, waits included", self.title),
                false => self.title.to_owned(),
            },
            subtitle: Some(match self.waits {
                true => format!("{}; blue: waits", self.subtitle),
                false => self.subtitle,
            }),
        };
        let content = format.write(profile, &heading)?;
        stacks::write_output(path, &content).map_err(|e| Failure::io("write", path, &e))?;
        output::line_aside(&format!("stacks written to {}", path.display()));
        Ok(())
    }

    /// The stacks, weighted by nanoseconds.
    fn profile(&self) -> Profile {
        let mut profile = Profile {
            header: ProfileHeader {
                event: "calls".into(),
                unit: "nanoseconds".into(),
                ..ProfileHeader::new(Time(0), 0)
            },
            threads: vec![String::new()],
            ..Profile::default()
        };
        let mut frames: BTreeMap<&str, u32> = BTreeMap::new();
        for (index, node) in self.tree.nodes().iter().enumerate() {
            let next = frames.len() as u32;
            let frame = *frames.entry(&node.function).or_insert(next);
            if frame == next {
                let name = node.function.as_str();
                profile.frames.push(Frame::new(name, "", FrameKind::Erlang));
            }
            let parent = node.caller.map(|it| it as u32);
            profile.stacks.push(StackNode { parent, frame });
            let running = node.running;
            profile.samples.extend(sample(index as u32, running));
        }
        if self.waits {
            self.add_waits(&mut profile);
        }
        profile
    }

    /// Adds each function's waits as a frame below it, in the colour of time off CPU.
    fn add_waits(&self, profile: &mut Profile) {
        let frame = profile.frames.len() as u32;
        let waits = Frame::new(WAITS, "", FrameKind::Kernel);
        profile.frames.push(waits);
        let waiting = self.tree.nodes().iter().enumerate();
        for (index, node) in waiting.filter(|(_, node)| node.waiting > 0) {
            let stack = profile.stacks.len() as u32;
            let parent = Some(index as u32);
            profile.stacks.push(StackNode { parent, frame });
            profile.samples.extend(sample(stack, node.waiting));
        }
    }
}

/// Time on a stack; `None` of none.
fn sample(stack: u32, weight: u64) -> Option<Sample> {
    (weight > 0).then_some(Sample {
        t: 0,
        weight,
        stack,
        thread: 0,
        cpu: u16::MAX,
        complete: true,
        unwinding: Unwinding::Unknown,
        process: None,
        wait: None,
    })
}
