//! What went wrong with TLS, as people understand it.

use rustls::{AlertDescription, CertificateError, Error as Tls, PeerIncompatible};

use wire::tls::Fault;

use crate::{Endpoint, Error};

const TRUST: &str = "name the authority that issued the broker's certificate with --ca FILE \
                     (broker.ca), or give up the check with --insecure";
const CLIENT: &str = "the broker wants a client certificate from an authority that it trusts: give \
                      --cert FILE and --key FILE (broker.cert, broker.key)";
const NAME: &str = "write the name that the certificate is for into the URL, or give it with --sni \
                    NAME (broker.sni)";
const PORT: &str = "check the port: 5671 is usual for amqps, 5672 for amqp without TLS";

/// What it means for the connection to `endpoint`.
pub(crate) fn explain(fault: &Fault, endpoint: &Endpoint) -> Error {
    let (detail, help) = match fault {
        Fault::OtherProtocol(what) => (what.clone(), PORT),
        Fault::TooLong(bytes) => (
            format!(
                "after {bytes} bytes a message of the handshake is not whole, and the longest that \
                 TLS needs have 65535"
            ),
            "let the broker show a shorter chain of certificates: its own and those of the \
             authorities in between",
        ),
        Fault::Tls(Tls::InvalidCertificate(error)) => certificate(error),
        Fault::Tls(Tls::AlertReceived(alert)) => refusal(*alert),
        Fault::Tls(Tls::PeerIncompatible(
            PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon,
        )) => (
            "the broker takes no signature of a kind that our key can make".to_owned(),
            CLIENT,
        ),
        Fault::Tls(error @ Tls::PeerIncompatible(_)) => (
            format!("{error}"),
            "the broker must offer TLS 1.2 or 1.3 with ECDHE and AES-GCM or ChaCha20",
        ),
        Fault::Tls(error) => (error.to_string(), PORT),
    };
    Error::Tls {
        endpoint: endpoint.to_string(),
        detail: one_line(&detail),
        help: help.into(),
    }
}

fn certificate(error: &CertificateError) -> (String, &'static str) {
    match error {
        CertificateError::UnknownIssuer => (
            "the broker's certificate was issued by nobody who is trusted here".into(),
            TRUST,
        ),
        CertificateError::NotValidForName => {
            ("the broker's certificate is for another name".into(), NAME)
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => (
            format!(
                "the broker's certificate is not for {:?} but for {}",
                expected.to_str(),
                if presented.is_empty() {
                    "nobody".into()
                } else {
                    presented.join(", ")
                }
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
        CertificateError::BadSignature => (
            "the broker's certificate was not signed by the authority that it names".into(),
            TRUST,
        ),
        error => (
            format!("the broker's certificate is not accepted: {error}"),
            TRUST,
        ),
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
            "the broker's log says why: often no client certificate (--cert, --key), or no cipher \
             in common"
        }
        _ => "the broker's log says why",
    };
    (
        format!("the broker refused with the TLS alert {alert:?}"),
        help,
    )
}

/// The connection ended, or nothing came, while TLS was being agreed on.
pub(crate) fn unfinished(endpoint: &Endpoint, detail: &str) -> Error {
    Error::Tls {
        endpoint: endpoint.to_string(),
        detail: format!("TLS was not agreed on: {}", one_line(detail)),
        help: PORT.into(),
    }
}

/// Names in certificates are others' words: no control character may reach a terminal.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}
