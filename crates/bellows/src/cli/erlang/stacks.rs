//! Stacks of calls as a file: a flame graph, folded stacks, or other tools' formats.

use std::collections::BTreeMap;
use std::path::Path;

use erlang::calls::CallTree;
use measure::Time;
use stacks::{Frame, FrameKind, Heading, Profile, ProfileHeader, Sample, StackNode};

use crate::profile_formats::Output;
use crate::{Failure, output};

const WAITS: &str = "[waits]";

#[derive(Debug)]
pub(super) struct Stacks<'a> {
    pub(super) tree: &'a CallTree,
    /// Whether waits weigh, too.
    pub(super) waits: bool,
    pub(super) title: &'a str,
    pub(super) subtitle: String,
    /// Advice where there are no stacks.
    pub(super) none: &'a str,
}

impl Stacks<'_> {
    pub(super) fn write(self, path: &Path, format: Output) -> Result<(), Failure> {
        let profile = self.profile();
        if profile.samples.is_empty() {
            return Err(Failure::failed("there are no stacks to draw", self.none));
        }
        let (of_title, of_subtitle) = if self.waits { (", waits included", "; blue: waits") } else { ("", "") };
        let heading = Heading {
            title: format!("{}{of_title}", self.title),
            subtitle: Some(format!("{}{of_subtitle}", self.subtitle)),
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
                profile.frames.push(Frame::new(node.function.as_str(), "", FrameKind::Erlang));
            }
            profile.stacks.push(StackNode { parent: node.caller.map(|it| it as u32), frame });
            profile.samples.extend(sample(index as u32, node.running));
        }
        if self.waits {
            self.add_waits(&mut profile);
        }
        profile
    }

    /// Adds each function's waits as a frame below it, in the colour of time off CPU.
    fn add_waits(&self, profile: &mut Profile) {
        let frame = profile.frames.len() as u32;
        profile.frames.push(Frame::new(WAITS, "", FrameKind::Kernel));
        let waiting = self.tree.nodes().iter().enumerate();
        for (index, node) in waiting.filter(|(_, node)| node.waiting > 0) {
            let stack = profile.stacks.len() as u32;
            profile.stacks.push(StackNode { parent: Some(index as u32), frame });
            profile.samples.extend(sample(stack, node.waiting));
        }
    }
}

/// Time on a stack; `None` of none.
fn sample(stack: u32, weight: u64) -> Option<Sample> {
    (weight > 0).then(|| Sample::new(stack, 0, weight))
}
