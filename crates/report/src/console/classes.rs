//! Table of a profile's classes of code.

use stacks::Profile;

use super::known::notes;
use super::table::{Align, Table};
use super::text::{Style, sanitise};
use crate::numbers::{percent_digits, weight, weight_digits, weight_head};
use crate::text;

/// Classes of a profile's samples, and notes on the whole, ending in a newline.
#[must_use]
pub fn classes(profile: &Profile, style: Style) -> String {
    let unit = sanitise(&profile.header.unit);
    let mut table = Table::new(&[
        ("share %", Align::Right),
        (weight_head(&unit), Align::Right),
        ("class", Align::Left),
        ("what it holds", Align::Left),
    ]);
    table.give_way(3);
    for row in profile.class_shares() {
        table.row(vec![
            percent_digits(row.share),
            weight_digits(row.weight, &unit),
            row.class.name().to_owned(),
            text::class_meaning(row.class).to_owned(),
        ]);
    }
    let mut lines = table.strong_lines(style);
    let sum = weight(profile.total_weight(), &unit);
    lines.extend([String::new(), style.faint(&sum)]);
    lines.extend(notes(profile).flat_map(|note| style.faint_prose(&note)));
    lines.join("\n") + "\n"
}
