//! A client's connection as the reactor keeps it: its socket, and what was read and not decoded.

use transport::{Output, ServerSocket};

use crate::node::Node;
use crate::slots::Key;

/// A connection's socket, and what the reactor notes of it.
pub(crate) struct Connection {
    pub(crate) socket: ServerSocket,
    pub(crate) key: Key,
    /// The start of a frame whose rest has not come, or what waits while the connection is paused.
    pub(crate) held: Vec<u8>,
    /// Whether we send no more.
    pub(crate) is_shut: bool,
    /// Whether it is in the list of connections to read.
    pub(crate) is_queued: bool,
    /// Whether the client's certificate was looked at.
    is_identified: bool,
}

impl Connection {
    pub(crate) const fn new(socket: ServerSocket, key: Key) -> Self {
        Self { socket, key, held: Vec::new(), is_shut: false, is_queued: false, is_identified: false }
    }

    /// The name in the client's certificate, once, as soon as it is known.
    pub(crate) fn take_name(&mut self) -> Option<&str> {
        let session = self.socket.session()?;
        if std::mem::replace(&mut self.is_identified, true) { None } else { common_name(session.certificate()?) }
    }
}

/// A connection's output, which the node keeps.
pub(crate) struct NodeOutput<'a> {
    pub(crate) node: &'a mut Node,
    pub(crate) key: Key,
}

impl Output for NodeOutput<'_> {
    fn pending(&self) -> &[u8] {
        self.node.output(self.key)
    }

    fn consume(&mut self, bytes: usize) {
        self.node.written(self.key, bytes);
    }
}

/// The common name (CN) in a certificate's subject; the last one where there are several.
///
/// ```text
/// Certificate ::= SEQUENCE { tbs SEQUENCE { [0] version?, serial, signature, issuer, validity,
///                            subject SEQUENCE OF SET OF SEQUENCE { type OID, value }, … }, … }
/// ```
///
/// (RFC 5280, 4.1.) The certificate was verified before, so its form is known to be right; what
/// is not as expected has no name.
fn common_name(certificate: &[u8]) -> Option<&str> {
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    /// 2.5.4.3 with its tag and length.
    const COMMON_NAME: &[u8] = &[0x06, 3, 0x55, 4, 3];
    /// UTF8String and PrintableString, IA5String: what is text without a conversion.
    const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
    let (_, mut outer) = element(&mut &*certificate, SEQUENCE)?;
    let (_, mut tbs) = element(&mut outer, SEQUENCE)?;
    if tbs.first() == Some(&0xa0) {
        any(&mut tbs)?;
    }
    // Serial number, signature's algorithm, issuer, validity.
    for _ in 0..4 {
        any(&mut tbs)?;
    }
    let (_, mut subject) = element(&mut tbs, SEQUENCE)?;
    let mut found = None;
    while !subject.is_empty() {
        let (_, mut set) = element(&mut subject, SET)?;
        while !set.is_empty() {
            let (_, attribute) = element(&mut set, SEQUENCE)?;
            if let Some(mut value) = attribute.strip_prefix(COMMON_NAME) {
                let (tag, text) = any(&mut value)?;
                found = TEXTS.contains(&tag).then_some(text);
            }
        }
    }
    str::from_utf8(found?).ok()
}

/// The next element, which must have this tag.
fn element<'a>(input: &mut &'a [u8], tag: u8) -> Option<(u8, &'a [u8])> {
    any(input).filter(|(found, _)| *found == tag)
}

/// The next element of DER: its tag and its content.
fn any<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let length = if first < 0x80 {
        usize::from(first)
    } else {
        let (digits, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
        rest = behind;
        if digits.len() > 4 {
            return None;
        }
        digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit))
    };
    let (content, behind) = rest.split_at_checked(length)?;
    *input = behind;
    Some((tag, content))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["host.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificates_common_name_is_found() {
        let other = (DnType::OrganizationName, "guests");
        for (names, expected) in [
            (vec![(DnType::CommonName, "guest")], Some("guest")),
            (vec![other.clone(), (DnType::CommonName, "größer")], Some("größer")),
            (vec![(DnType::CommonName, "first"), other.clone()], Some("first")),
            (vec![other], None),
            (vec![], None),
        ] {
            assert_eq!(common_name(&certificate(&names)), expected, "{names:?}");
        }
    }

    #[test]
    fn what_is_no_certificate_has_no_name() {
        let whole = certificate(&[(DnType::CommonName, "guest")]);
        for end in 0..whole.len() {
            assert_eq!(common_name(&whole[..end]), None, "{end}");
        }
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0x80, 0x84, 0x88, 0xff] {
                let mut broken = whole.clone();
                broken[at] = byte;
                let _ = common_name(&broken);
            }
        }
    }
}
