//! How connections to the broker are secured and how clients log in, as the `broker` table says it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use load::{Auth, ClientTls, Endpoint, Identity, SocketOptions};
use serde::{Deserialize, Serialize};

use super::{BrokerKind, BrokerSpec};

/// RabbitMQ's plugin that takes access tokens.
const OAUTH2_PLUGIN: &str = "rabbitmq_auth_backend_oauth2";

/// Where access tokens come from: OAuth 2's client credentials grant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct OAuth2Spec {
    /// The token endpoint.
    pub uri: String,
    /// Who asks.
    pub client_id: String,
    /// What for; the endpoint's default where empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Further parameters of each request, as `orgId = "1234"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Never read from a file and never written to one; [`OAuth2Spec::SECRET_VARIABLE`] where
    /// absent.
    #[serde(skip)]
    pub client_secret: Option<Hidden>,
}

impl OAuth2Spec {
    /// The variable that holds the client's secret.
    pub const SECRET_VARIABLE: &str = "BELLOWS_OAUTH2_CLIENT_SECRET";

    /// The client's secret, wherever it is.
    pub(crate) fn secret(&self) -> Option<String> {
        let given = self.client_secret.as_ref().map(|hidden| hidden.0.clone());
        given.or_else(|| std::env::var(Self::SECRET_VARIABLE).ok())
    }
}

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Hides it.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl std::str::FromStr for Hidden {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(text))
    }
}

impl Hidden {
    /// The text itself, for the place that hands it on.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(crate::redact::BLOT)
    }
}

impl BrokerSpec {
    /// What is requested, beside what a managed broker brings itself.
    pub(crate) fn secure(&self, endpoint: &mut Endpoint) {
        if let Some(tls) = &mut endpoint.tls {
            let own = std::mem::take(tls);
            *tls = ClientTls {
                ca: self.ca.clone().or(own.ca),
                identity: self.identity().or(own.identity),
                server_name: self.sni.clone().or(own.server_name),
                insecure: self.insecure,
            };
        }
        let connection = &mut endpoint.connection;
        if let Some(seconds) = self.heartbeat {
            connection.heartbeat_s = seconds;
        }
        if let Some(bytes) = self.frame_max {
            connection.frame_max = bytes;
        }
        connection.socket = SocketOptions {
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            no_delay: !self.nagle,
        };
        endpoint.auth = self.auth;
    }

    fn identity(&self) -> Option<Identity> {
        let pair = self.cert.clone().zip(self.key.clone());
        pair.map(|(certificate, key)| Identity { certificate, key })
    }

    /// Whether connections are to be encrypted.
    fn is_secured(&self) -> bool {
        match self.kind {
            BrokerKind::Rabbitmq | BrokerKind::Embedded => self.tls,
            BrokerKind::Attach => self
                .url
                .as_deref()
                .is_some_and(|url| url.starts_with("amqps://")),
        }
    }

    /// Keys that contradict each other or would be silently without effect.
    pub(super) fn security_problem(&self) -> Option<String> {
        let set = |file: &Option<PathBuf>| file.is_some();
        let keys = [
            ("tls", self.tls),
            ("ca", set(&self.ca)),
            ("cert", set(&self.cert)),
            ("key", set(&self.key)),
            ("sni", self.sni.is_some()),
            ("insecure", self.insecure),
            ("auth", self.auth == Auth::External),
        ];
        if let Some((key, _)) = keys
            .iter()
            .find(|(_, is_set)| *is_set && !self.is_secured())
        {
            let remedy = match self.kind {
                BrokerKind::Attach => "write the URL with amqps://",
                BrokerKind::Rabbitmq | BrokerKind::Embedded => "set broker.tls = true",
            };
            return Some(format!(
                "{{broker.{key}}} has no effect without TLS; {remedy}, or leave it out"
            ));
        }
        if self.cert.is_some() != self.key.is_some() {
            let (given, missing) = if self.cert.is_some() {
                ("cert", "key")
            } else {
                ("key", "cert")
            };
            return Some(format!(
                "{{broker.{given}}} is given without {{broker.{missing}}}; a client's certificate needs both"
            ));
        }
        if let Some(oauth2) = &self.oauth2 {
            let has_plugin = self.plugins.iter().any(|name| name == OAUTH2_PLUGIN);
            match self.kind {
                BrokerKind::Embedded => {
                    return Some(
                        "broker.oauth2 has no effect on kind = \"embedded\", which knows no tokens; \
                         leave it out, or set broker.kind = \"rabbitmq\""
                            .to_owned(),
                    );
                }
                BrokerKind::Rabbitmq if !has_plugin => {
                    return Some(format!(
                        "broker.oauth2 needs a node that takes access tokens; add {OAUTH2_PLUGIN:?} to \
                         broker.plugins, and its keys to broker.advanced"
                    ));
                }
                BrokerKind::Rabbitmq | BrokerKind::Attach => {}
            }
            let uri = &oauth2.uri;
            if !(uri.starts_with("https://") || uri.starts_with("http://")) {
                return Some(format!(
                    "{{broker.oauth2.uri}} = {:?} is no token endpoint; write https://HOST/PATH",
                    crate::redact::url(uri)
                ));
            }
            if oauth2.client_id.is_empty() {
                return Some(
                    "{broker.oauth2.uri} has no {broker.oauth2.client-id} beside it; give it"
                        .to_owned(),
                );
            }
            if self.auth == Auth::External {
                return Some(
                    "{broker.oauth2.uri} has no effect with {broker.auth} = \"external\"; leave one of them out"
                        .to_owned(),
                );
            }
        }
        let external = self.auth == Auth::External && self.kind == BrokerKind::Attach;
        (external && self.cert.is_none()).then(|| {
            "{broker.auth} = \"external\" logs in by the client's certificate, and there is none; give \
             {broker.cert} and {broker.key}"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> Option<String> {
        let spec: BrokerSpec = toml::from_str(text).expect("TOML");
        spec.security_problem()
    }

    #[test]
    fn keys_without_effect_are_refused() {
        for (text, part) in [
            ("kind = 'attach'\nurl = 'amqp://h'\nca = 'x'", "amqps://"),
            ("kind = 'attach'\nurl = 'amqp://h'\ntls = true", "amqps://"),
            ("kind = 'rabbitmq'\ninsecure = true", "broker.tls = true"),
            ("kind = 'embedded'\nauth = 'external'", "broker.tls = true"),
            (
                "kind = 'rabbitmq'\n[oauth2]\nuri = 'http://h'\nclient-id = 'x'",
                "broker.plugins",
            ),
            (
                "kind = 'embedded'\n[oauth2]\nuri = 'http://h'\nclient-id = 'x'",
                "knows no tokens",
            ),
            (
                "kind = 'attach'\nurl = 'amqps://h'\nkey = 'x'",
                "without {broker.cert}",
            ),
            (
                "kind = 'attach'\nurl = 'amqps://h'\nauth = 'external'",
                "{broker.cert} and {broker.key}",
            ),
        ] {
            let found = problem(text).unwrap_or_default();
            assert!(found.contains(part), "{text}: {found:?}");
        }
        for text in [
            "kind = 'rabbitmq'\ntls = true\nauth = 'external'",
            "kind = 'attach'\nurl = 'amqps://h'\nca = 'x'\nsni = 'y'",
            "kind = 'attach'\nurl = 'amqps://h'\ncert = 'x'\nkey = 'y'\nauth = 'external'",
        ] {
            assert_eq!(problem(text), None, "{text}");
        }
    }

    #[test]
    fn a_managed_brokers_own_certificates_are_used_unless_others_are_named() {
        let mut endpoint = Endpoint::new("h", 1);
        endpoint.tls = Some(ClientTls {
            ca: Some("own.pem".into()),
            ..ClientTls::default()
        });
        let mut spec = BrokerSpec {
            insecure: true,
            ..BrokerSpec::default()
        };
        spec.secure(&mut endpoint);
        let tls = endpoint.tls.clone().expect("TLS");
        assert_eq!((tls.ca, tls.insecure), (Some("own.pem".into()), true));
        spec.ca = Some("given.pem".into());
        spec.secure(&mut endpoint);
        assert_eq!(endpoint.tls.expect("TLS").ca, Some("given.pem".into()));
    }
}
