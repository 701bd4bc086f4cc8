//! Output of trials of any kind, and how they end `limit`.

use std::path::Path;

use archive::LimitTrials;
use report::console;

use super::args::OutputArgs;
use crate::failure::{Done, Failure};
use crate::output;

/// Prints and stores the trials' result with its page, and returns the command's exit.
pub(super) fn tell(output: &OutputArgs, dir: &Path, trials: &LimitTrials) -> Result<Done, Failure> {
    match output.json {
        true => output::print_json(trials)?,
        false => output::print(&console::limit(trials, output::style()))?,
    }
    // What was measured for hours is shown, whatever becomes of the files.
    trials.write(dir)?;
    let page = report::html::write_limit(dir)?;
    let kept = format!("page: {}", page.display());
    match output.json {
        true if output.quiet => {}
        true => output::line_aside(&kept),
        false => output::print(&format!("{kept}\n"))?,
    }
    Ok(done(trials, output.strict))
}

/// The command's exit after these trials.
fn done(trials: &LimitTrials, is_strict: bool) -> Done {
    let is_answered = trials.is_answered();
    match is_strict && (trials.is_invalid() || !is_answered) {
        true => Done::Invalid,
        false if is_answered => Done::Fine,
        false => Done::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use archive::{
        Finding, FoundLimit, LimitOutcome, LimitTrial, ScaleDoubt, ScaleLaw, ScaleRun, ScaleRuns,
        Tier, Warning,
    };

    use super::*;

    /// With numbers of clients, --strict did nothing where a law was fitted, and a law that the throughputs do not
    /// follow was fine.
    #[test]
    fn every_kind_of_search_ends_by_one_rule() {
        let warned = |is_invalid: bool| {
            let warning = Warning::new(Tier::Invalid, Finding::DebugBuild {});
            is_invalid.then_some(warning).into_iter().collect()
        };
        let rates = |confirmed, is_invalid| LimitTrials {
            trials: vec![LimitTrial {
                outcome: LimitOutcome::Held,
                cautions: warned(is_invalid),
                ..LimitTrial::default()
            }],
            found: Some(FoundLimit {
                confirmed,
                ..FoundLimit::default()
            }),
            ..LimitTrials::default()
        };
        let clients = |is_followed: bool, is_invalid| LimitTrials {
            scale: Some(ScaleRuns {
                runs: vec![ScaleRun {
                    cautions: warned(is_invalid),
                    ..ScaleRun::default()
                }],
                law: Some(ScaleLaw {
                    no_peak: (!is_followed).then_some(ScaleDoubt::PoorFit),
                    ..ScaleLaw::default()
                }),
                ..ScaleRuns::default()
            }),
            ..LimitTrials::default()
        };
        for (is_answered, is_invalid, ends, ends_strictly) in [
            (true, false, Done::Fine, Done::Fine),
            (false, false, Done::Unknown, Done::Invalid),
            (true, true, Done::Fine, Done::Invalid),
            (false, true, Done::Unknown, Done::Invalid),
        ] {
            for of in [
                rates(is_answered, is_invalid),
                clients(is_answered, is_invalid),
            ] {
                assert_eq!(done(&of, false), ends, "{of:?}");
                assert_eq!(done(&of, true), ends_strictly, "{of:?}");
            }
        }
    }
}
