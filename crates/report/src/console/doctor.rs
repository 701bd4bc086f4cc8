//! Capabilities of this machine for measuring.

use super::text::{Style, sanitise, wrap};

/// How a check turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckStatus {
    /// Nothing to improve.
    Ok,
    /// Something cannot be measured as well as it could.
    Warn,
    /// Something cannot be measured at all.
    Bad,
}

/// One line of `bellows doctor`.
#[derive(Clone, Debug)]
pub struct CheckRow {
    /// Name of the check.
    pub name: String,
    /// How it turned out.
    pub status: CheckStatus,
    /// The value found.
    pub observed: String,
    /// Consequence for measurements.
    pub meaning: String,
    /// How to improve it.
    pub fix: Option<String>,
}

/// The checks, each with its value; meaning and fix below those that are not in order.
#[must_use]
pub fn doctor(checks: &[CheckRow], style: Style) -> String {
    let name_width = checks
        .iter()
        .map(|c| c.name.chars().count())
        .max()
        .unwrap_or(0);
    let indent = 4 + 2 + name_width + 2;
    let room = style.columns.min(100).saturating_sub(indent).max(20);
    let mut out = String::new();
    for check in checks {
        let status = match check.status {
            CheckStatus::Ok => style.accent("ok  "),
            CheckStatus::Warn => style.caution("warn"),
            CheckStatus::Bad => style.alarm("bad "),
        };
        let name = super::text::left(&sanitise(&check.name), name_width);
        let mut lines = wrap(&sanitise(&check.observed), room);
        if check.status != CheckStatus::Ok {
            lines.extend(wrap(&sanitise(&check.meaning), room));
            lines.extend(
                check
                    .fix
                    .iter()
                    .flat_map(|fix| wrap(&format!("fix: {}", sanitise(fix)), room)),
            );
        }
        let mut lines = lines.into_iter();
        out.push_str(&format!(
            "{status}  {name}  {}\n",
            lines.next().unwrap_or_default()
        ));
        for line in lines {
            out.push_str(&format!("{:indent$}{line}\n", ""));
        }
    }
    let bad = |status| checks.iter().filter(|c| c.status == status).count();
    out.push_str(&format!(
        "\n{} checks: {} warn, {} bad\n",
        checks.len(),
        bad(CheckStatus::Warn),
        bad(CheckStatus::Bad)
    ));
    out
}
