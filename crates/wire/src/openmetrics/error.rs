//! Errors in a line of a page.

use thiserror::Error;

/// A line that was skipped: which one, and why.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("line {line}: {cause}")]
pub struct LineError {
    /// The line's number, from 1 on.
    pub line: u64,
    /// The cause.
    pub cause: LineCause,
}

/// Why a line is no event.
#[derive(Clone, Copy, Debug, Eq, Error, Hash, Ord, PartialEq, PartialOrd)]
pub enum LineCause {
    /// Bytes that are not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// A line of more than [`MAX_LINE`](super::MAX_LINE) bytes.
    #[error("longer than 1 MiB")]
    TooLong,
    /// The line begins with something that is no metric name.
    #[error("no metric name at its beginning")]
    MetricName,
    /// The text before `=` is no label name.
    #[error("a label's name is empty or has a character that names cannot have")]
    LabelName,
    /// A label value without quotes.
    #[error("a label's value is not in quotes")]
    Unquoted,
    /// A label value whose closing quote is missing.
    #[error("a label's value has no closing quote")]
    Unterminated,
    /// Neither `,` nor `}` behind a label.
    #[error("neither a comma nor a closing brace behind a label")]
    Separator,
    /// A label name twice in one sample.
    #[error("a label stands twice")]
    DuplicateLabel,
    /// More labels than any real series has.
    #[error("more than 128 labels")]
    TooManyLabels,
    /// No value, or none that is a number.
    #[error("its value is missing or no number")]
    Value,
    /// A time stamp that is no number.
    #[error("its time stamp is no number")]
    Timestamp,
    /// The text after `#` behind a value is no exemplar.
    #[error("its exemplar is malformed")]
    Exemplar,
    /// Something behind value and time stamp.
    #[error("something stands behind the value and the time stamp")]
    Trailing,
    /// A `TYPE`, `HELP` or `UNIT` line without a name, or of a type that does not exist.
    #[error("a TYPE, HELP or UNIT line without a metric name or with an unknown type")]
    Metadata,
    /// A line behind `# EOF`.
    #[error("a line behind # EOF")]
    AfterEof,
    /// An OpenMetrics page without `# EOF`: it was cut off.
    #[error("the page ends without # EOF: it was cut off")]
    NoEof,
}
