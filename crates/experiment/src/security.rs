//! How connections to the broker are secured and how clients log in, as the `broker` table says it.

use std::collections::BTreeMap;

use load::{Auth, ClientTls, Endpoint, Identity, SocketOptions};
use measure::Problem;
use web::Secret;

use super::error::{ensure, wrong};
use super::flat_table::{FlatTable, flat_table, given};
use super::{BrokerKind, BrokerSpec};

/// RabbitMQ's plugin that takes access tokens.
const OAUTH2_PLUGIN: &str = "rabbitmq_auth_backend_oauth2";

flat_table! {
    /// Where access tokens come from: OAuth 2's client credentials grant.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OAuth2Spec {
        /// The token endpoint.
        "uri" uri: String as Address = String::new(),
        /// Who asks.
        "client-id" client_id: String as User = String::new(),
        /// Scopes of the token; the endpoint's default where empty.
        "scopes" scopes: Vec<String> = Vec::new(),
        /// Further parameters of each request, as `orgId = "1234"`.
        "parameters" parameters: BTreeMap<String, String> = BTreeMap::new(),
        /// Never read from a file and never written to one; [`OAuth2Spec::SECRET_VARIABLE`] where absent.
        client_secret: Option<Secret> = None,
    }
}

impl FlatTable for OAuth2Spec {}

impl OAuth2Spec {
    /// The variable that holds the client's secret.
    pub const SECRET_VARIABLE: &str = "BELLOWS_OAUTH2_CLIENT_SECRET";

    /// The client's secret, wherever it is.
    pub fn secret(&self) -> Option<String> {
        let given = self.client_secret.as_ref().map(|hidden| hidden.expose().to_owned());
        given.or_else(|| std::env::var(Self::SECRET_VARIABLE).ok())
    }
}

impl BrokerSpec {
    /// Applies the requested TLS, heartbeat, frame size and socket buffers; a managed broker keeps its certificates.
    pub fn secure(&self, endpoint: &mut Endpoint) {
        if let Some(tls) = &mut endpoint.tls {
            let own = std::mem::take(tls);
            *tls = ClientTls {
                ca: self.ca.clone().or(own.ca),
                identity: self.identity().or(own.identity),
                server_name: self.sni.clone().or(own.server_name),
                insecure: self.insecure,
                alpn: self.alpn.clone(),
            };
        }
        let connection = &mut endpoint.connection;
        if let Some(seconds) = self.heartbeat {
            connection.heartbeat_s = seconds;
        }
        if let Some(bytes) = self.frame_max {
            connection.frame_max = bytes;
        }
        connection.socket =
            SocketOptions { send_buffer: self.send_buffer, receive_buffer: self.receive_buffer, no_delay: !self.nagle };
        endpoint.auth = self.auth;
    }

    fn identity(&self) -> Option<Identity> {
        self.cert.clone().zip(self.key.clone()).map(|(certificate, key)| Identity { certificate, key })
    }

    /// Whether connections are to be encrypted.
    fn is_secured(&self) -> bool {
        match self.kind {
            BrokerKind::Rabbitmq | BrokerKind::Embedded => self.tls,
            BrokerKind::Artemis | BrokerKind::Mosquitto => false,
            BrokerKind::Attach => {
                let schemes = ["amqps://", "amqps10://", "mqtts://"];
                self.url.as_deref().is_some_and(|url| schemes.iter().any(|it| url.starts_with(it)))
            }
        }
    }

    /// Whether a management API is named that needs certificates.
    fn has_secure_management(&self) -> bool {
        self.management.as_deref().unwrap_or_default().trim().starts_with("https://")
    }

    /// Checks for keys that contradict each other or would be silently without effect.
    pub(super) fn check_security(&self) -> Result<(), Problem> {
        const KEYS: [&str; 8] = ["tls", "ca", "cert", "key", "sni", "alpn", "insecure", "auth"];
        let given = given(self);
        let is_in_vain = |key: &str| {
            let of_management = ["ca", "insecure"].contains(&key) && self.has_secure_management();
            let needs_none = key == "auth" && self.auth != Auth::External;
            !self.is_secured() && !of_management && !needs_none
        };
        if let Some(key) = KEYS.iter().find(|key| given.contains_key(**key) && is_in_vain(key)) {
            let help = match self.kind {
                BrokerKind::Attach => "write the URL with amqps:// or mqtts://, or leave it out",
                BrokerKind::Artemis | BrokerKind::Mosquitto => "leave it out: a managed one of this kind has no TLS",
                BrokerKind::Rabbitmq | BrokerKind::Embedded => "set broker.tls = true, or leave it out",
            };
            return Err(wrong(format!("broker.{key}"), " has no effect without TLS", help));
        }
        let is_fine = self.alpn.iter().all(|name| (1..=usize::from(u8::MAX)).contains(&name.len()));
        ensure(is_fine, "broker.alpn", ": a protocol's name has 1 to 255 bytes", "give one such as \"amqp\"")?;
        let (has_cert, has_key) = (self.cert.is_some(), self.key.is_some());
        let help = "a client's certificate needs both";
        ensure(!has_cert || has_key, "broker.cert", " is given without {broker.key}", help)?;
        ensure(has_cert || !has_key, "broker.key", " is given without {broker.cert}", help)?;
        if let Some(oauth2) = &self.oauth2 {
            self.check_oauth2(oauth2)?;
        }
        let is_fine = self.auth != Auth::External || self.kind != BrokerKind::Attach || has_cert;
        let why = " = \"external\" logs in by the client's certificate, and there is none";
        ensure(is_fine, "broker.auth", why, "give {broker.cert} and {broker.key}")
    }

    fn check_oauth2(&self, oauth2: &OAuth2Spec) -> Result<(), Problem> {
        const TABLE: &str = "broker.oauth2";
        const URI: &str = "broker.oauth2.uri";
        let uri = &oauth2.uri;
        match self.kind {
            BrokerKind::Embedded | BrokerKind::Artemis | BrokerKind::Mosquitto => {
                let why = format!(" has no effect on kind = {:?}, which knows no tokens", self.kind.name());
                Err(wrong(TABLE, why, "leave it out, or set broker.kind = \"rabbitmq\""))
            }
            BrokerKind::Rabbitmq if !self.plugins.iter().any(|name| name == OAUTH2_PLUGIN) => {
                let help = format!("add {OAUTH2_PLUGIN:?} to broker.plugins, and its keys to broker.advanced");
                Err(wrong(TABLE, " needs a node that takes access tokens", help))
            }
            _ if !(uri.starts_with("https://") || uri.starts_with("http://")) => {
                let help = "write https://HOST/PATH";
                Err(wrong(URI, format!(" = {:?} is not a token endpoint", web::redact::url(uri)), help))
            }
            _ if oauth2.client_id.is_empty() => {
                Err(wrong(URI, " has no {broker.oauth2.client-id} beside it", "give it"))
            }
            _ if self.auth != Auth::Plain => {
                let why = format!(" has no effect with {{broker.auth}} = {:?}", self.auth.name());
                Err(wrong(URI, why, "leave one of them out"))
            }
            BrokerKind::Rabbitmq | BrokerKind::Attach => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Option<String> {
        let spec: BrokerSpec = toml::from_str(text).expect("TOML");
        spec.check_security().err().map(|problem| problem.sentence())
    }

    #[test]
    fn keys_without_effect_are_refused() {
        for [text, part] in testkit::table(include_str!("../tests/data/no-security.txt")) {
            testkit::assert_has(problem(text).unwrap_or_default(), [part]);
        }
        for text in [
            "kind = 'rabbitmq'\ntls = true\nauth = 'external'",
            "kind = 'artemis'\nauth = 'anonymous'",
            "kind = 'attach'\nurl = 'amqp10://h'\nauth = 'scram-sha-256'",
            "kind = 'attach'\nurl = 'amqps://h'\nca = 'x'\nsni = 'y'",
            "kind = 'attach'\nurl = 'amqps10://h'\nca = 'x'\nalpn = ['amqp']",
            "kind = 'attach'\nurl = 'amqps://h'\ncert = 'x'\nkey = 'y'\nauth = 'external'",
        ] {
            assert_eq!(problem(text), None, "{text}");
        }
    }

    #[test]
    fn a_managed_brokers_own_certificates_are_used_unless_others_are_named() {
        let mut endpoint = Endpoint::new("h", 1);
        endpoint.tls = Some(ClientTls { ca: Some("own.pem".into()), ..ClientTls::default() });
        let mut spec = BrokerSpec { insecure: true, ..BrokerSpec::default() };
        spec.secure(&mut endpoint);
        let tls = endpoint.tls.clone().expect("TLS");
        assert_eq!((tls.ca, tls.insecure), (Some("own.pem".into()), true));
        spec.ca = Some("given.pem".into());
        spec.secure(&mut endpoint);
        assert_eq!(endpoint.tls.expect("TLS").ca, Some("given.pem".into()));
    }
}
