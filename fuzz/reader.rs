//! Body of the targets of all readers of profiles.

use stacks::{FORMATS, FirstField, Format, Input};

/// Reads bytes as the format of this name.
///
/// # Panics
///
/// Where no format of this name can be read, or where what was read contradicts itself.
pub fn read_named(name: &str, data: &[u8]) {
    let format = FORMATS.iter().find(|format| format.name == name);
    read(format.expect("a format"), data);
}

/// Reads bytes as this format: they are a profile or an error.
///
/// # Panics
///
/// Where the format cannot be read, or where what was read contradicts itself.
pub fn read(format: &Format, data: &[u8]) {
    let reader = format.read.as_ref().expect("a reader");
    let first_field = FirstField::default();
    let input = &mut Input { bytes: &mut &*data, packed: None, file: None, event: None, first_field };
    if let Ok(Ok(profile)) = (reader.read)(input) {
        assert!(profile.is_consistent());
    }
}
