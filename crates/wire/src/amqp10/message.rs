//! Messages (specification 3.2): sections, one after the other.
//!
//! ```text
//! header 0x70  delivery-annotations 0x71  message-annotations 0x72  properties 0x73
//! application-properties 0x74             then the body:
//! data 0x75 (binary, any number)   sequence 0x76 (list, any number)   value 0x77 (one of any type)
//! footer 0x78
//! ```

use std::borrow::Cow;

use super::composite::{Composite, HeaderSection, PropertiesSection, is};
use super::types::{Described, Descriptor, Items, TypedValue, put_descriptor, put_map};
use super::usual;
use crate::amqp091::{DecodeError, Reader};

/// How a section is described: a number, or a name.
pub(super) type SectionName = (u64, &'static str);

const DELIVERY_ANNOTATIONS: SectionName = (0x71, "amqp:delivery-annotations:map");
pub(super) const ANNOTATIONS: SectionName = (0x72, "amqp:message-annotations:map");
pub(super) const APPLICATION_PROPERTIES: SectionName = (0x74, "amqp:application-properties:map");
const DATA: SectionName = (0x75, "amqp:data:binary");
const SEQUENCE: SectionName = (0x76, "amqp:amqp-sequence:list");
const VALUE: SectionName = (0x77, "amqp:amqp-value:*");

/// A message, not decoded: what stands before its body, and the body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageParts<'a> {
    /// All of its sections.
    pub all: Sections<'a>,
    /// The sections before the body.
    pub before: Sections<'a>,
    /// Its body.
    pub body: MessageBody<'a>,
}

/// The body of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MessageBody<'a> {
    /// One section of bytes.
    Data(&'a [u8]),
    /// One value.
    Value(TypedValue<'a>),
    /// Anything else, with what follows it: several sections, sequences, none.
    Sections(Sections<'a>),
}

impl<'a> MessageBody<'a> {
    /// The bytes that a message is about: those of a single section of data or of a value that is text or
    /// bytes; otherwise as they are encoded.
    pub const fn bytes(&self) -> &'a [u8] {
        match *self {
            Self::Data(bytes) | Self::Value(TypedValue::Binary(bytes)) => bytes,
            Self::Value(TypedValue::Str(text)) => text.as_bytes(),
            Self::Value(_) => &[],
            Self::Sections(sections) => sections.0,
        }
    }
}

impl<'a> MessageParts<'a> {
    /// Takes a message apart. Errors: bytes that are no sections.
    #[inline]
    pub fn read(message: &'a [u8]) -> Result<Self, DecodeError> {
        let all = Sections(message);
        let mut sections = all;
        loop {
            let rest = sections.0;
            let before = Sections(message.get(..message.len() - rest.len()).unwrap_or_default());
            let Some(section) = sections.next().transpose()? else {
                let body = MessageBody::Sections(Sections(rest));
                return Ok(Self { all, before, body });
            };
            let is = |(code, name)| is(section.descriptor, code, name);
            if !is(DATA) && !is(VALUE) && !is(SEQUENCE) {
                continue;
            }
            let mut behind = sections;
            let is_last = match behind.next().transpose()? {
                None => true,
                Some(next) => !super::composite::is(next.descriptor, DATA.0, DATA.1),
            };
            let body = match section.value()? {
                TypedValue::Binary(bytes) if is(DATA) && is_last => MessageBody::Data(bytes),
                value if is(VALUE) => MessageBody::Value(value),
                _ => MessageBody::Sections(Sections(rest)),
            };
            return Ok(Self { all, before, body });
        }
    }
}

impl<'a> MessageParts<'a> {
    /// Sections that a broker passes on as they came: message annotations, properties, body and footer. A header and
    /// delivery annotations are for one hop.
    pub fn lasting(&self) -> Sections<'a> {
        let mut rest = self.all;
        loop {
            let mut behind = rest;
            match behind.next() {
                Some(Ok(it)) if is_of_one_hop(&it) => rest = behind,
                _ => return rest,
            }
        }
    }

    /// The body as AMQP 0.9.1 has it: the bytes of its sections of data, one after the other; any other body as it is
    /// encoded, with the footer. It is copied where there are several sections of data.
    pub fn basic_body(&self) -> Cow<'a, [u8]> {
        let encoded = self.all.0.get(self.before.0.len()..).unwrap_or_default();
        match self.body {
            MessageBody::Data(bytes) => Cow::Borrowed(bytes),
            MessageBody::Sections(sections) if self.is_data() => {
                let mut whole = Vec::new();
                let parts = sections.map_while(|section| data(&section.ok()?));
                parts.for_each(|part| whole.extend_from_slice(part));
                Cow::Owned(whole)
            }
            MessageBody::Value(_) | MessageBody::Sections(_) => Cow::Borrowed(encoded),
        }
    }

    /// Whether its body is bytes, in one section or several.
    pub(super) fn is_data(&self) -> bool {
        match self.body {
            MessageBody::Data(_) => true,
            MessageBody::Value(_) => false,
            MessageBody::Sections(mut sections) => {
                sections.next().is_some_and(|first| first.is_ok_and(|first| data(&first).is_some()))
            }
        }
    }
}

fn is_of_one_hop(section: &Described<'_>) -> bool {
    let is = |(code, name)| is(section.descriptor, code, name);
    is((HeaderSection::CODE, HeaderSection::NAME)) || is(DELIVERY_ANNOTATIONS)
}

/// The bytes of a section of data; `None` for any other.
fn data<'a>(section: &Described<'a>) -> Option<&'a [u8]> {
    match section.value() {
        Ok(TypedValue::Binary(bytes)) if is(section.descriptor, DATA.0, DATA.1) => Some(bytes),
        _ => None,
    }
}

/// Sections as they are encoded. Walking them yields each, or why it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections<'a>(pub &'a [u8]);

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Described<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let mut reader = Reader::new(self.0);
        let section = match TypedValue::read(&mut reader) {
            Ok(TypedValue::Described(section)) => Ok(section),
            Ok(_) => Err(reader.error("a section of a message is not described")),
            Err(error) => Err(error),
        };
        self.0 = if section.is_ok() { reader.rest() } else { &[] };
        Some(section)
    }
}

impl<'a> Sections<'a> {
    /// The first section of this kind.
    fn find(self, code: u64, name: &str) -> Option<TypedValue<'a>> {
        self.flatten().find(|it| is(it.descriptor, code, name)).map(TypedValue::Described)
    }

    /// The section `header`, where there is one that can be read.
    pub fn header(self) -> Option<HeaderSection> {
        let section = self.find(HeaderSection::CODE, HeaderSection::NAME)?;
        HeaderSection::of(section).ok()
    }

    /// Whether the header says that the message may have been delivered before.
    #[inline]
    pub fn may_be_repeated(self) -> bool {
        usual::may_be_repeated(self.0).unwrap_or_else(|| {
            let header = self.header().unwrap_or_default();
            header.first_acquirer == Some(false) || header.delivery_count > Some(0)
        })
    }

    /// The section `properties`, where there is one that can be read.
    pub fn properties(self) -> Option<PropertiesSection<'a>> {
        let section = self.find(PropertiesSection::CODE, PropertiesSection::NAME)?;
        PropertiesSection::of(section).ok()
    }

    /// The value of an application property, where there is one.
    pub fn application_property(self, name: &str) -> Option<TypedValue<'a>> {
        self.map(APPLICATION_PROPERTIES)?.get(name)
    }

    /// Keys and values of the first section of this kind, which is a map.
    fn map(self, section: SectionName) -> Option<Items<'a>> {
        match self.find(section.0, section.1)? {
            TypedValue::Described(map) => map.map(),
            _ => None,
        }
    }
}

/// A message to send, without its body.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MessageHead<'a> {
    /// Its section `header`.
    pub header: HeaderSection,
    /// Its section `properties`.
    pub properties: PropertiesSection<'a>,
    /// Keys and values of its application properties.
    pub application_properties: &'a [(&'a str, TypedValue<'a>)],
}

impl MessageHead<'_> {
    /// Appends the sections that hold anything.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.header != HeaderSection::default() {
            self.header.write(out);
        }
        if self.properties != PropertiesSection::default() {
            self.properties.write(out);
        }
        if !self.application_properties.is_empty() {
            let (code, _) = APPLICATION_PROPERTIES;
            put_descriptor(out, Descriptor::Code(code));
            put_map(out, |out| {
                for (name, value) in self.application_properties {
                    TypedValue::Str(name).write(out);
                    value.write(out);
                }
                2 * self.application_properties.len() as u32
            });
        }
    }
}

/// Appends the beginning of a section of `len` bytes of data, which follow; the length takes four bytes.
pub(super) fn put_data_head(out: &mut Vec<u8>, len: u32) {
    put_descriptor(out, Descriptor::Code(DATA.0));
    out.push(0xB0);
    out.extend_from_slice(&len.to_be_bytes());
}

/// Appends a body of one value.
pub(super) fn put_value<'a>(out: &mut Vec<u8>, value: &impl Composite<'a>) {
    put_descriptor(out, Descriptor::Code(VALUE.0));
    value.write(out);
}
