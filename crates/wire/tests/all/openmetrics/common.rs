//! Events as values that can be kept and compared.

use wire::openmetrics::{FamilyKind, Labels, LineCause, PageEvent, PageFormat, Parser, SeriesRole, unescape};

/// An event that owns what it says; numbers are kept as bits, so that `NaN` is itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Told {
    Help(String, String),
    Type(String, FamilyKind),
    Unit(String, String),
    Sample(ToldSample),
    Eof,
    Error(u64, LineCause),
}

/// Labels, the bits of its value, and those of its time.
pub(crate) type ToldExemplar = (Vec<(String, String)>, u64, Option<u64>);

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ToldSample {
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: u64,
    pub(crate) timestamp: Option<u64>,
    pub(crate) exemplar: Option<ToldExemplar>,
    pub(crate) role: SeriesRole,
}

fn owned(labels: &Labels<'_>) -> Vec<(String, String)> {
    labels.iter().map(|label| (label.name.to_owned(), label.value().into_owned())).collect()
}

impl Told {
    fn of(event: &PageEvent<'_>) -> Self {
        match event {
            PageEvent::Help { name, text } => Self::Help((*name).into(), unescape(text).into_owned()),
            PageEvent::Type { name, kind } => Self::Type((*name).into(), *kind),
            PageEvent::Unit { name, unit } => Self::Unit((*name).into(), (*unit).into()),
            PageEvent::Sample(sample) => Self::Sample(ToldSample {
                name: sample.name.into(),
                labels: owned(&sample.labels),
                value: sample.value.to_bits(),
                timestamp: sample.timestamp.map(f64::to_bits),
                exemplar: sample.exemplar.map(|exemplar| {
                    let bits = exemplar.timestamp.map(f64::to_bits);
                    (owned(&exemplar.labels), exemplar.value.to_bits(), bits)
                }),
                role: sample.role,
            }),
            PageEvent::Eof => Self::Eof,
            PageEvent::Error(error) => Self::Error(error.line, error.cause),
        }
    }
}

/// All events of a page that arrives at once.
pub(crate) fn told(format: PageFormat, page: &[u8]) -> Vec<Told> {
    let mut events = Vec::new();
    let mut parser = Parser::new(format);
    parser.feed(page, |event| events.push(Told::of(&event)));
    parser.finish(|event| events.push(Told::of(&event)));
    let totals = parser.totals();
    let is = |wanted: fn(&Told) -> bool| events.iter().filter(|event| wanted(event)).count() as u64;
    assert_eq!(totals.samples, is(|told| matches!(told, Told::Sample(_))));
    assert_eq!(totals.errors, is(|told| matches!(told, Told::Error(..))));
    events
}
