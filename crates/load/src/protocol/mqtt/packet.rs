//! Packets of MQTT 3.1.1 and 5, as a client writes and reads them.

use plan::MqttVersion;

/// Bytes of the largest packet that is read; brokers of MQTT 5 are asked to send none that is larger.
pub(super) const LARGEST: usize = 1 << 20;
/// Bytes of the longest fixed header: type and length.
const LONGEST_HEAD: usize = 5;
/// The largest number that a variable byte integer holds.
const MOST_LENGTH: usize = 268_435_455;
/// Code of a message that matches no subscription.
pub(super) const NO_SUBSCRIBERS: u8 = 0x10;
/// Codes from here on refuse.
pub(super) const REFUSED: u8 = 0x80;

/// A packet that breaks the rules: what of it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// An answer to a message, or to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerKind {
    /// A message of quality of service 1 has arrived.
    Ack,
    /// One of quality of service 2 has.
    Received,
    /// Its sender forgets it.
    Release,
    /// Its receiver does, too.
    Complete,
}

impl AnswerKind {
    const fn first_byte(self) -> u8 {
        match self {
            Self::Ack => 0x40,
            Self::Received => 0x50,
            Self::Release => 0x62,
            Self::Complete => 0x70,
        }
    }
}

/// A packet from a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    Connected { session_present: bool, code: u8, properties: &'a [u8] },
    Message { qos: u8, is_repeated: bool, id: u16, payload: &'a [u8] },
    Answer { kind: AnswerKind, id: u16, code: u8 },
    Subscribed { id: u16, codes: &'a [u8] },
    Pong,
    Disconnected { code: u8, properties: &'a [u8] },
}

/// Total length of the packet at the beginning of `input` and of its fixed header; `None` where more bytes must come.
pub(super) fn length(input: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let mut length = 0;
    for (at, byte) in input.iter().skip(1).take(LONGEST_HEAD - 1).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            let head = at + 2;
            let is_fine = head + length <= LARGEST;
            return if is_fine { Ok(Some((head + length, head))) } else { Err(Malformed("a packet of over 1 MiB")) };
        }
    }
    if input.len() >= LONGEST_HEAD { Err(Malformed("a length of five bytes")) } else { Ok(None) }
}

/// Takes a whole packet off `input`; `None` where more bytes must come.
#[inline]
pub(super) fn read<'i>(version: MqttVersion, input: &mut &'i [u8]) -> Result<Option<Packet<'i>>, Malformed> {
    let Some((total, head)) = length(input)? else { return Ok(None) };
    if input.len() < total {
        return Ok(None);
    }
    let (packet, rest) = input.split_at(total);
    let packet = decode(version, packet[0], Fields(&packet[head..]))?;
    *input = rest;
    Ok(Some(packet))
}

#[inline]
fn decode(version: MqttVersion, first: u8, mut fields: Fields<'_>) -> Result<Packet<'_>, Malformed> {
    let has_properties = version == MqttVersion::V5;
    let answer = |kind, mut fields: Fields<'_>| {
        let id = fields.id()?;
        let code = if fields.0.is_empty() { 0 } else { fields.byte()? };
        Ok(Packet::Answer { kind, id, code })
    };
    match first {
        0x30..=0x3F => {
            let qos = first >> 1 & 3;
            if qos == 3 {
                return Err(Malformed("a message of quality of service 3"));
            }
            fields.text()?;
            let id = if qos > 0 { fields.id()? } else { 0 };
            if has_properties {
                fields.properties()?;
            }
            Ok(Packet::Message { qos, is_repeated: first & 8 != 0, id, payload: fields.0 })
        }
        0x20 => {
            let (flags, code) = (fields.byte()?, fields.byte()?);
            // Who does not know the version answers without properties.
            let properties = if fields.0.is_empty() { &[] } else { fields.properties()? };
            Ok(Packet::Connected { session_present: flags & 1 != 0, code, properties })
        }
        0x40 => answer(AnswerKind::Ack, fields),
        0x50 => answer(AnswerKind::Received, fields),
        0x62 => answer(AnswerKind::Release, fields),
        0x70 => answer(AnswerKind::Complete, fields),
        0x90 => {
            let id = fields.id()?;
            if has_properties {
                fields.properties()?;
            }
            Ok(Packet::Subscribed { id, codes: fields.0 })
        }
        0xD0 => Ok(Packet::Pong),
        0xE0 if has_properties => {
            let code = if fields.0.is_empty() { 0 } else { fields.byte()? };
            let properties = if fields.0.is_empty() { &[] } else { fields.properties()? };
            Ok(Packet::Disconnected { code, properties })
        }
        _ => Err(Malformed("a packet that no broker sends to this client")),
    }
}

/// What is left of a packet, or of its properties.
#[derive(Clone, Copy, Debug)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed("a packet that ends within a field"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn short(&mut self) -> Result<u16, Malformed> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn id(&mut self) -> Result<u16, Malformed> {
        match self.short()? {
            0 => Err(Malformed("a packet identifier of 0")),
            id => Ok(id),
        }
    }

    fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.short()?;
        self.take(len.into())
    }

    fn variable(&mut self) -> Result<usize, Malformed> {
        let mut number = 0;
        for at in 0..LONGEST_HEAD - 1 {
            let byte = self.byte()?;
            number |= usize::from(byte & 0x7F) << (7 * at);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed("a number of five bytes"))
    }

    fn properties(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.variable()?;
        self.take(len)
    }

    /// The value of the next property, whose identifier this is: a number, or bytes.
    fn value(&mut self, id: usize) -> Result<Value<'a>, Malformed> {
        Ok(match id {
            0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2A => Value::Number(self.byte()?.into()),
            0x13 | 0x21 | 0x22 | 0x23 => Value::Number(self.short()?.into()),
            0x02 | 0x11 | 0x18 | 0x27 => {
                let bytes = self.take(4)?;
                Value::Number(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            }
            0x0B => Value::Number(self.variable()? as u32),
            0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1A | 0x1C | 0x1F => Value::Bytes(self.text()?),
            0x26 => {
                self.text()?;
                Value::Bytes(self.text()?)
            }
            _ => return Err(Malformed("an unknown property")),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value<'a> {
    Number(u32),
    Bytes(&'a [u8]),
}

/// A broker's limits, as it tells them when it accepts a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerLimits {
    /// Messages without an answer that it takes.
    pub(super) receive_max: u16,
    pub(super) most_qos: u8,
    pub(super) retains: bool,
    /// Bytes of the largest packet that it takes.
    pub(super) packet_max: usize,
    /// The keep-alive that it asks for in place of the client's.
    pub(super) keep_alive_s: Option<u16>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self { receive_max: u16::MAX, most_qos: 2, retains: true, packet_max: MOST_LENGTH, keep_alive_s: None }
    }
}

impl ServerLimits {
    pub(super) fn read(properties: &[u8]) -> Result<Self, Malformed> {
        let mut limits = Self::default();
        let mut fields = Fields(properties);
        while !fields.0.is_empty() {
            let id = fields.variable()?;
            match (id, fields.value(id)?) {
                (0x21, Value::Number(0)) => return Err(Malformed("a receive maximum of 0")),
                (0x21, Value::Number(most)) => limits.receive_max = most as u16,
                (0x24, Value::Number(most)) => limits.most_qos = most as u8,
                (0x25, Value::Number(retains)) => limits.retains = retains != 0,
                (0x27, Value::Number(most)) => limits.packet_max = most as usize,
                (0x13, Value::Number(seconds)) => limits.keep_alive_s = Some(seconds as u16),
                _ => {}
            }
        }
        Ok(limits)
    }
}

/// The broker's own words for its code, where the properties hold some.
pub(super) fn reason(properties: &[u8]) -> Option<String> {
    let mut fields = Fields(properties);
    while !fields.0.is_empty() {
        let id = fields.variable().ok()?;
        if let (0x1F, Value::Bytes(text)) = (id, fields.value(id).ok()?) {
            return Some(String::from_utf8_lossy(text).into_owned());
        }
    }
    None
}

/// A request to connect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connect<'a> {
    pub(super) version: MqttVersion,
    pub(super) client_id: &'a str,
    /// User and password.
    pub(super) login: Option<(&'a str, &'a str)>,
    pub(super) keep_alive_s: u16,
    /// Seconds for which the broker keeps the session of a connection that is gone; `None` begins anew and leaves none.
    pub(super) session_s: Option<u32>,
    /// Messages without an answer that it may be sent; 0 for no limit.
    pub(super) receive_max: u16,
}

impl Connect<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(64 + self.client_id.len());
        put_text(&mut body, b"MQTT");
        let login = if self.login.is_some() { 0xC0 } else { 0 };
        let clean = if self.session_s.is_some() { 0 } else { 2 };
        let is_5 = self.version == MqttVersion::V5;
        body.extend_from_slice(&[if is_5 { 5 } else { 4 }, login | clean]);
        body.extend_from_slice(&self.keep_alive_s.to_be_bytes());
        if is_5 {
            let mut properties = Vec::new();
            if let Some(seconds) = self.session_s {
                properties.push(0x11);
                properties.extend_from_slice(&seconds.to_be_bytes());
            }
            if self.receive_max > 0 {
                properties.push(0x21);
                properties.extend_from_slice(&self.receive_max.to_be_bytes());
            }
            properties.push(0x27);
            properties.extend_from_slice(&(LARGEST as u32).to_be_bytes());
            put_length(&mut body, properties.len());
            body.extend_from_slice(&properties);
        }
        put_text(&mut body, self.client_id.as_bytes());
        if let Some((user, password)) = self.login {
            put_text(&mut body, user.as_bytes());
            put_text(&mut body, password.as_bytes());
        }
        put_packet(out, 0x10, &body);
    }
}

/// Asks for the messages of a filter. With a version that can say so, those retained come with a new one alone.
pub(super) fn put_subscribe(out: &mut Vec<u8>, version: MqttVersion, id: u16, filter: &str, qos: u8) {
    let mut body = Vec::with_capacity(8 + filter.len());
    body.extend_from_slice(&id.to_be_bytes());
    let is_5 = version == MqttVersion::V5;
    if is_5 {
        body.push(0);
    }
    put_text(&mut body, filter.as_bytes());
    body.push(if is_5 { qos | 0x10 } else { qos });
    put_packet(out, 0x82, &body);
}

#[inline]
pub(super) fn put_answer(out: &mut Vec<u8>, kind: AnswerKind, id: u16) {
    let [high, low] = id.to_be_bytes();
    out.extend_from_slice(&[kind.first_byte(), 2, high, low]);
}

pub(super) fn put_ping(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xC0, 0]);
}

pub(super) fn put_disconnect(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0xE0, 0]);
}

fn put_packet(out: &mut Vec<u8>, first: u8, body: &[u8]) {
    out.push(first);
    put_length(out, body.len());
    out.extend_from_slice(body);
}

/// Appends a text of at most 65,535 bytes; the plan refuses longer ones.
pub(super) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let text = text.get(..usize::from(u16::MAX)).unwrap_or(text);
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text);
}

#[inline]
pub(super) fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length > 0x7F {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

/// Bytes of a length.
pub(super) const fn length_len(length: usize) -> usize {
    match length {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V5: MqttVersion = MqttVersion::V5;

    fn read_all(version: MqttVersion, mut bytes: &[u8]) -> Result<Option<Packet<'_>>, Malformed> {
        read(version, &mut bytes)
    }

    #[test]
    fn packets_are_read_whole_and_split_ones_wait() {
        let message = b"\x34\x09\0\x01t\0\x07\0abc";
        let wanted = Packet::Message { qos: 2, is_repeated: false, id: 7, payload: b"abc" };
        assert_eq!(read_all(V5, message), Ok(Some(wanted)));
        for end in 0..message.len() {
            assert_eq!(read_all(V5, &message[..end]), Ok(None), "{end}");
        }
        for (version, bytes, wanted) in [
            (
                MqttVersion::V311,
                &b"\x20\x02\x01\x00"[..],
                Packet::Connected { session_present: true, code: 0, properties: &[] },
            ),
            (V5, b"\x20\x02\x00\x01", Packet::Connected { session_present: false, code: 1, properties: &[] }),
            (V5, b"\x40\x02\0\x05", Packet::Answer { kind: AnswerKind::Ack, id: 5, code: 0 }),
            (V5, b"\x50\x03\0\x05\x10", Packet::Answer { kind: AnswerKind::Received, id: 5, code: 0x10 }),
            (V5, b"\x90\x04\0\x01\0\x02", Packet::Subscribed { id: 1, codes: &[2] }),
            (MqttVersion::V311, b"\x90\x03\0\x01\x80", Packet::Subscribed { id: 1, codes: &[0x80] }),
            (V5, b"\xD0\0", Packet::Pong),
            (V5, b"\xE0\x01\x8E", Packet::Disconnected { code: 0x8E, properties: &[] }),
        ] {
            assert_eq!(read_all(version, bytes), Ok(Some(wanted)), "{bytes:?}");
        }
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        for bytes in [
            &b"\x36\x05\0\x01tab"[..],
            b"\x32\x05\0\x01t\0\0",
            b"\x30\x02\0\x09",
            b"\x40\x01\0",
            b"\x30\xFF\xFF\xFF\xFF",
            b"\x30\xFF\xFF\xFF\x7F",
            b"\x10\0",
            b"\x30\x08\0\x01t\xFF\xFF\xFF\xFF\x01",
        ] {
            assert!(read_all(V5, bytes).is_err(), "{bytes:?}");
        }
        // Whatever comes, nothing panics.
        let mut random = testkit::Random::new(7);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.below(24)).map(|_| random.below(256) as u8).collect();
            if let Ok(Some(Packet::Connected { properties, .. })) = read_all(V5, &bytes) {
                let _ = (ServerLimits::read(properties), reason(properties));
            }
        }
    }

    #[test]
    fn limits_and_reasons_stand_in_properties() {
        let limits = ServerLimits::read(b"\x21\0\x14\x24\x01\x25\0\x27\0\0\x10\0\x13\0\x1E\x26\0\x01a\0\x01b").unwrap();
        let wanted =
            ServerLimits { receive_max: 20, most_qos: 1, retains: false, packet_max: 4_096, keep_alive_s: Some(30) };
        assert_eq!(limits, wanted);
        assert!(ServerLimits::read(b"\x21\0\0").is_err() && ServerLimits::read(b"\x7E").is_err());
        assert_eq!(reason(b"\x21\0\x14\x1F\0\x02no").as_deref(), Some("no"));
        assert_eq!(reason(b"\x21\0\x14"), None);
    }

    #[test]
    fn a_request_to_connect_says_what_is_kept() {
        let connect = Connect {
            version: V5,
            client_id: "c",
            login: Some(("u", "p")),
            keep_alive_s: 60,
            session_s: Some(9),
            receive_max: 10,
        };
        let mut out = Vec::new();
        connect.write(&mut out);
        let head = b"\x10\x21\0\x04MQTT\x05\xC0\0\x3C\x0D\x11\0\0\0\x09\x21\0\x0A\x27\0\x10\0\0";
        assert_eq!(out, [&head[..], b"\0\x01c\0\x01u\0\x01p"].concat());
        out.clear();
        Connect { version: MqttVersion::V311, login: None, session_s: None, ..connect }.write(&mut out);
        assert_eq!(out, b"\x10\x0D\0\x04MQTT\x04\x02\0\x3C\0\x01c");
    }

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        for length in [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152] {
            let mut out = Vec::new();
            put_length(&mut out, length);
            assert_eq!(out.len(), length_len(length), "{length}");
            let mut fields = Fields(&out);
            assert_eq!(fields.variable(), Ok(length));
        }
    }
}
