//! Folded text, as `stackcollapse-perf.pl` makes it and `flamegraph.pl` and inferno read it: one
//! line per stack, `thread;root;…;leaf count`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use super::frames::Frame;
use super::model::{Profile, ProfileHeader, Sample};
use super::tree::Builder;

impl Profile {
    /// The profile as folded text. The first field is the thread's group; `;` in a name becomes
    /// `:`, and control characters become `?`, because the format has no escapes. Lines are in the
    /// order of the stack tree, which depends on nothing but the profile.
    #[must_use]
    pub fn folded(&self) -> String {
        let mut groups: Vec<String> = Vec::new();
        let mut group_of_thread = Vec::with_capacity(self.threads.len());
        for group in self.thread_groups() {
            let known = groups.iter().position(|g| *g == group);
            group_of_thread.push(known.unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            }));
        }
        let mut sums: HashMap<(usize, u32), u64> = HashMap::new();
        for s in &self.samples {
            let group = group_of_thread
                .get(s.thread as usize)
                .copied()
                .unwrap_or(usize::MAX);
            let sum = sums.entry((group, s.stack)).or_insert(0);
            *sum = sum.saturating_add(s.weight);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        let names: Vec<_> = self.frames.iter().map(|f| plain(&f.name)).collect();
        let groups: Vec<_> = groups.iter().map(|g| plain(g)).collect();
        let mut text = String::with_capacity(sums.len() * 256);
        let mut path = Vec::new();
        for ((group, stack), weight) in sums {
            let mut separator = "";
            if let Some(group) = groups.get(group).filter(|g| !g.is_empty()) {
                text.push_str(group);
                separator = ";";
            }
            self.path_into(stack, &mut path);
            for &frame in path.iter().rev() {
                text.push_str(separator);
                text.push_str(names.get(frame as usize).map_or("", |n| n));
                separator = ";";
            }
            // Writing to a string cannot fail.
            let _ = writeln!(text, " {weight}");
        }
        text
    }

    /// The frame indices of a stack, leaf first.
    pub(super) fn path_into(&self, leaf: u32, path: &mut Vec<u32>) {
        path.clear();
        let mut next = Some(leaf);
        while let Some((this, node)) = next.and_then(|i| Some((i, self.stacks.get(i as usize)?))) {
            path.push(node.frame);
            next = node.parent.filter(|&parent| parent < this);
        }
    }
}

/// A name without the characters that the format cannot carry.
fn plain(name: &str) -> Cow<'_, str> {
    if name.contains(|c: char| c == ';' || c.is_control()) {
        let replace = |c: char| match c {
            ';' => ':',
            c if c.is_control() => '?',
            c => c,
        };
        Cow::Owned(name.chars().map(replace).collect())
    } else {
        Cow::Borrowed(name)
    }
}

/// Reads folded text; the first field is taken for the thread, as `stackcollapse-perf.pl` writes
/// it. Lines that are none (no count at the end) are skipped and counted in a note. `None` where
/// not a single line is one.
pub(super) fn read(text: &str) -> Option<Profile> {
    let mut builder = Builder::default();
    let (mut skipped, mut example) = (0u64, "");
    for line in text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        let Some((stack, weight)) = line
            .rsplit_once([' ', '\t'])
            .and_then(|(stack, count)| Some((stack.trim_end(), count_of(count)?)))
            .filter(|(stack, _)| !stack.is_empty())
        else {
            skipped += 1;
            if skipped == 1 {
                example = line;
            }
            continue;
        };
        let (thread, frames) = stack.split_once(';').unwrap_or(("", stack));
        let thread = builder.thread(thread);
        let mut parent = None;
        for name in frames.split(';').map(Frame::function_of) {
            let kind = Frame::kind_from_name(name, "");
            let frame = builder.frame(&Frame::new(name, "", kind));
            parent = Some(builder.node(parent, frame));
        }
        if let Some(stack) = parent {
            let sample = Sample {
                t: 0,
                weight,
                stack,
                thread,
                cpu: u16::MAX,
                complete: true,
            };
            builder.profile.samples.push(sample);
        }
    }
    let mut profile = builder.profile;
    if profile.samples.is_empty() {
        return None;
    }
    profile.header = ProfileHeader {
        schema: ProfileHeader::SCHEMA.into(),
        event: "cpu".into(),
        unit: "samples".into(),
        kernel_frames: true,
        ..ProfileHeader::default()
    };
    if skipped > 0 {
        let example: String = example.chars().take(60).collect();
        profile.notes.push(format!(
            "{skipped} lines without a count at their end were skipped; the first is `{example}`"
        ));
    }
    Some(profile)
}

/// A count: flamegraph.pl allows fractions, which are rounded here.
fn count_of(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| {
        let value: f64 = text.parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value.round() as u64)
    })
}
