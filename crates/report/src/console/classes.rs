//! The table of what the time of a profile went into.

use archive::profile::Profile;

use super::functions::notes;
use super::table::{Align, Table};
use super::text::{Style, sanitise, wrap};
use crate::numbers::{count, percent_digits};
use crate::text;

/// The classes of a profile's samples, and below them what is to be known of the whole, ending in a newline.
#[must_use]
pub fn classes(profile: &Profile, style: Style) -> String {
    let mut table = Table::new(&[
        ("share %", Align::Right),
        ("samples", Align::Right),
        ("class", Align::Left),
        ("what it holds", Align::Left),
    ]);
    table.give_way(3);
    for row in profile.class_shares() {
        table.row(vec![
            percent_digits(row.share),
            count(row.weight),
            row.class.name().to_owned(),
            text::class_meaning(row.class).to_owned(),
        ]);
    }
    let mut lines = table.lines(style.columns);
    if let Some(heads) = lines.first_mut() {
        *heads = style.strong(heads);
    }
    let unit = sanitise(&profile.header.unit).into_owned();
    let sum = format!("{} {unit}", count(profile.total_weight()));
    let notes = notes(profile).flat_map(|note| wrap(&note, style.prose_columns()));
    let faint = std::iter::once(sum).chain(notes);
    lines.push(String::new());
    lines.extend(faint.map(|line| style.faint(&line)));
    lines.join("\n") + "\n"
}
