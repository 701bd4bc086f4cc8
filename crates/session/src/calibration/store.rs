//! Where calibrations are kept: one file per machine and bellows in
//! `$XDG_DATA_HOME/bellows` (`~/.local/share/bellows`), replaced as a whole.

use std::path::PathBuf;
use std::{fs, io};

use archive::data_folder;

use super::Calibration;

/// Most bytes of a calibration, which has some kilobytes.
const LARGEST: u64 = 1 << 20;

fn file_name(calibration: &Calibration) -> String {
    let text = format!(
        "{} {} cores {}",
        calibration.cpu, calibration.cores, calibration.bellows
    );
    let mut name = String::from("calibration");
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()) {
        if !word.is_empty() {
            name.push('-');
            name.push_str(&word.to_ascii_lowercase());
        }
    }
    name.truncate(150);
    name + ".json"
}

/// Whether a calibration was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// In this file.
    Kept(PathBuf),
    /// The one that was kept before was taken on a quieter machine, and stays.
    Quieter,
}

/// Stores the calibration for this machine, unless the stored one was taken on a less busy machine.
///
/// # Errors
/// Where there is no home, or the file cannot be written.
pub fn keep(calibration: &Calibration) -> io::Result<Keeping> {
    if kept().is_some_and(|before| !replaces(calibration, &before)) {
        return Ok(Keeping::Quieter);
    }
    let folder = data_folder().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "neither XDG_DATA_HOME nor HOME is set",
        )
    })?;
    fs::create_dir_all(&folder)?;
    let name = file_name(calibration);
    let mut text = serde_json::to_vec_pretty(calibration).map_err(io::Error::from)?;
    text.push(b'\n');
    let path = folder.join(name);
    stacks::replace_file(&path, &text)?;
    Ok(Keeping::Kept(path))
}

/// A quiet calibration replaces any, a busy one only a busier one.
fn replaces(new: &Calibration, before: &Calibration) -> bool {
    !new.is_busy() || new.others_cores <= before.others_cores
}

/// The calibration of this machine and this bellows. A file that is unreadable or of another kernel counts as none:
/// calibrating again replaces it.
#[must_use]
pub fn kept() -> Option<Calibration> {
    let here = Calibration::here();
    let path = data_folder()?.join(file_name(&here));
    if fs::metadata(&path).ok()?.len() > LARGEST {
        return None;
    }
    let found: Calibration = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    found.is_of(&here).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_machine_and_version() {
        let calibration = Calibration {
            cpu: "Intel(R) Xeon(R) CPU @ 2.20GHz/../x".into(),
            cores: 2,
            bellows: "0.1.0 (debug)".into(),
            ..Calibration::here()
        };
        assert_eq!(
            file_name(&calibration),
            "calibration-intel-r-xeon-r-cpu-2-20ghz-x-2-cores-0-1-0-debug.json"
        );
    }

    #[test]
    fn a_quiet_calibration_is_not_lost_to_a_busy_one() {
        let with = |others_cores| Calibration {
            others_cores,
            ..Calibration::here()
        };
        assert!(replaces(&with(0.05), &with(0.0)));
        assert!(replaces(&with(0.05), &with(1.0)));
        assert!(!replaces(&with(0.5), &with(0.05)));
        assert!(replaces(&with(0.5), &with(1.0)));
    }

    #[test]
    fn another_kernel_or_version_is_another_machine() {
        let here = Calibration::here();
        assert!(here.is_of(&Calibration::here()));
        let other = Calibration {
            kernel: "Linux 1.0".into(),
            ..here.clone()
        };
        assert!(!other.is_of(&here));
    }
}
