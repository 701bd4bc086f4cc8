//! TLS errors and their remedies.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error as Rustls, PeerIncompatible};

/// Why a connection is not secured, or not any more. `Display` is one line; [`TlsError::help`] the remedy.
#[derive(Debug)]
pub enum TlsError {
    /// The other side's first bytes are not TLS; what they are instead.
    OtherProtocol(String),
    /// The other side's mistake, or its refusal of ours.
    Protocol(rustls::Error),
    /// This many bytes have come that are no whole message yet, such as a chain of certificates.
    TooLong(usize),
    /// The connection ended, or nothing came, before the handshake was over.
    Unfinished(String),
}

const TRUST: &str = "name the authority that issued the broker's certificate with --ca FILE \
                     (broker.ca), or give up the check with --insecure";
const CLIENT: &str = "the broker wants a client certificate from an authority that it trusts: give \
                      --cert FILE and --key FILE (broker.cert, broker.key)";
const NAME: &str = "write the name that the certificate is for into the URL, or give it with --sni NAME (broker.sni)";
const PORT: &str = "the port probably has no TLS: write its URL without TLS, or check the port (RabbitMQ has TLS on \
                    5671 and 15671)";

impl TlsError {
    /// A remedy.
    pub fn help(&self) -> &'static str {
        self.text().1
    }

    /// Whether the port probably has no TLS.
    pub const fn is_without_tls(&self) -> bool {
        matches!(self, Self::OtherProtocol(_) | Self::Unfinished(_))
    }

    /// The observed fact, and its remedy.
    fn text(&self) -> (String, &'static str) {
        match self {
            Self::OtherProtocol(what) => (what.clone(), PORT),
            Self::TooLong(bytes) => (
                format!(
                    "after {bytes} bytes a message of the handshake is not whole, and the longest \
                     that TLS needs have 65535"
                ),
                "let the broker show a shorter chain of certificates: its own and those of the authorities in between",
            ),
            Self::Unfinished(what) => (format!("TLS was not agreed on: {what}"), PORT),
            Self::Protocol(Rustls::InvalidCertificate(error)) => certificate(error),
            Self::Protocol(Rustls::AlertReceived(alert)) => refusal(*alert),
            Self::Protocol(Rustls::PeerIncompatible(
                PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon,
            )) => ("the broker takes no signature of a kind that our key can make".to_owned(), CLIENT),
            Self::Protocol(error @ Rustls::PeerIncompatible(_)) => {
                (format!("{error}"), "the broker must offer TLS 1.2 or 1.3 with ECDHE and AES-GCM or ChaCha20")
            }
            Self::Protocol(error) => (error.to_string(), PORT),
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names in certificates are others' words: no control character may reach a terminal.
        f.write_str(&self.text().0.replace(char::is_control, " "))
    }
}

fn certificate(error: &CertificateError) -> (String, &'static str) {
    match error {
        CertificateError::UnknownIssuer => {
            ("the broker's certificate was issued by nobody who is trusted here".into(), TRUST)
        }
        CertificateError::NotValidForName => ("the broker's certificate is for another name".into(), NAME),
        CertificateError::NotValidForNameContext { expected, presented } => (
            format!(
                "the broker's certificate is not for {:?} but for {}",
                expected.to_str(),
                if presented.is_empty() { "nobody".into() } else { presented.join(", ") }
            ),
            NAME,
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
            format!("the broker's certificate has expired ({error})"),
            "renew it, set the clock right, or give up the check with --insecure",
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
            format!("the broker's certificate is not valid yet ({error})"),
            "set the clock right, or give up the check with --insecure",
        ),
        CertificateError::BadSignature => {
            ("the broker's certificate was not signed by the authority that it names".into(), TRUST)
        }
        error => (format!("the broker's certificate is not accepted: {error}"), TRUST),
    }
}

fn refusal(alert: AlertDescription) -> (String, &'static str) {
    let help = match alert {
        AlertDescription::CertificateRequired
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied => CLIENT,
        AlertDescription::UnrecognisedName => NAME,
        AlertDescription::HandshakeFailure => {
            "the broker's log says why: often no client certificate (--cert, --key), or no cipher in common"
        }
        _ => "the broker's log says why",
    };
    (format!("the broker refused with the TLS alert {alert:?}"), help)
}
