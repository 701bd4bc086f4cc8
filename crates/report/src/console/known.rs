//! Known patterns in a profile's stacks.

use stacks::{PatternShare, Profile};

use super::text::{Style, sanitise, wrap};
use crate::text;

/// A sentence on each, with the address where it is written.
pub(super) fn lines(all: &[PatternShare], style: Style) -> Vec<String> {
    let line = |of: &PatternShare| {
        let text = format!("known: {} ({})", text::known_pattern(of), of.source);
        wrap(&sanitise(&text), style.prose_columns())
    };
    all.iter().flat_map(line).collect()
}

/// Notes for the reader of a profile, a line each.
pub(super) fn notes(profile: &Profile) -> impl Iterator<Item = String> {
    let notes = profile.notes.iter();
    notes.map(|note| format!("note: {}", sanitise(note)))
}
