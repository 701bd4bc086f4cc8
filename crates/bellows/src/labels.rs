//! Labels as people write them.

use archive::Labels;

use crate::failure::Failure;

/// Reads labels as people write them. An empty note is none.
pub(crate) fn labels<'a>(
    note: String,
    tags: impl Iterator<Item = &'a String>,
) -> Result<Labels, Failure> {
    let wrong = |what: &'static str| {
        move |why: String| {
            Failure::usage(format!("{what} cannot be kept: {why}"), "change it").observed(why)
        }
    };
    let read = |tag: &String| {
        tag.parse()
            .map_err(wrong("the tag"))
            .map_err(|e| e.observed(tag))
    };
    let labels = Labels {
        note: Some(note).filter(|note| !note.is_empty()),
        tags: tags.map(read).collect::<Result<_, Failure>>()?,
    };
    labels.check().map_err(wrong("the tags"))?;
    Ok(labels)
}
