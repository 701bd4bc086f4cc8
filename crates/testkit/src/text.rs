//! Checks of texts that show the text where they fail.

/// Asserts that a text has all of these parts.
#[track_caller]
pub fn assert_has<const N: usize>(text: impl AsRef<str>, parts: [&str; N]) {
    let text = text.as_ref();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

/// Asserts that a text has none of these parts.
#[track_caller]
pub fn assert_lacks<const N: usize>(text: impl AsRef<str>, parts: [&str; N]) {
    let text = text.as_ref();
    for part in parts {
        assert!(!text.contains(part), "{part:?} is in: {text}");
    }
}

/// Asserts that a text begins so.
#[track_caller]
pub fn assert_begins(text: impl AsRef<str>, begin: impl AsRef<str>) {
    let (text, begin) = (text.as_ref(), begin.as_ref());
    assert!(text.starts_with(begin), "{begin:?} does not begin: {text}");
}

/// Asserts that a text ends so.
#[track_caller]
pub fn assert_ends(text: impl AsRef<str>, end: impl AsRef<str>) {
    let (text, end) = (text.as_ref(), end.as_ref());
    assert!(text.ends_with(end), "{end:?} does not end: {text}");
}
