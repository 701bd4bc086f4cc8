//! Where a broker is, as a URL says it.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU16;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use measure::{Problem, percent_decoded, percent_encoded};
use serde::{Deserialize, Serialize};
use transport::SocketOptions;
use transport::tls::{ClientTls, Connector};

use crate::{Error, MqttVersion, Protocol};

/// The largest frame requested: RabbitMQ's own limit.
pub const FRAME_MAX: u32 = 131_072;

/// A broker's address and the login used there. Neither `Debug` nor `Display` shows the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address; IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The protocol that is spoken there, which its URL shows.
    pub protocol: Protocol,
    /// User name.
    pub user: String,
    /// Password; see [`Endpoint::set_password`].
    password: String,
    /// Virtual host, `/` by default.
    pub virtual_host: String,
    /// How the connection is secured; `None` for plain TCP.
    pub tls: Option<ClientTls>,
    /// How to log in.
    pub auth: Auth,
    /// Used as the password, where there is one.
    pub token: Option<Token>,
    /// Settings of the connection.
    pub connection: ConnectionSettings,
    /// Looks up the host's addresses.
    pub resolver: Resolver,
}

/// Settings of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Heartbeat interval in seconds; 0 takes the broker's.
    pub heartbeat_s: u16,
    /// Largest frame in bytes, 4,096 to 131,072.
    pub frame_max: u32,
    /// Version of MQTT, where it is that.
    pub mqtt_version: MqttVersion,
    /// The TCP socket's options.
    pub socket: SocketOptions,
}

impl Default for ConnectionSettings {
    /// A heartbeat every 60 seconds, the largest frames that RabbitMQ takes, the system's buffers.
    fn default() -> Self {
        Self {
            heartbeat_s: 60,
            frame_max: FRAME_MAX,
            mqtt_version: MqttVersion::default(),
            socket: SocketOptions::default(),
        }
    }
}

measure::named! {
    /// How to log in.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Auth {
        /// User and password (SASL PLAIN).
        #[default]
        Plain = "plain",
        /// By the client's certificate (SASL EXTERNAL); user and password are not sent.
        External = "external",
        /// As nobody (SASL ANONYMOUS); user and password are not sent.
        Anonymous = "anonymous",
        /// User and a proof of the password, which is not sent (SASL SCRAM-SHA-256); over AMQP 1.0 alone.
        #[serde(rename = "scram-sha-256")]
        ScramSha256 = "scram-sha-256",
    }
}

impl Endpoint {
    /// The port of AMQP 0.9.1.
    pub const DEFAULT_PORT: u16 = 5_672;
    /// The port of AMQP 0.9.1 over TLS.
    pub const DEFAULT_TLS_PORT: u16 = 5_671;
    /// The port of MQTT, and of MQTT over TLS.
    const MQTT_PORTS: [u16; 2] = [1_883, 8_883];

    /// `guest` at the virtual host `/` of this address.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
            protocol: Protocol::default(),
            user: "guest".into(),
            password: "guest".into(),
            virtual_host: "/".into(),
            tls: None,
            auth: Auth::Plain,
            token: None,
            connection: ConnectionSettings::default(),
            resolver: Resolver::default(),
        }
    }

    /// Whether both lead to the same virtual host of a broker, over whichever protocol and as whomever.
    pub fn is_at(&self, other: &Self) -> bool {
        self.port == other.port && self.host == other.host && self.virtual_host == other.virtual_host
    }

    /// Sets the password, which nothing shows.
    pub fn set_password(&mut self, password: impl Into<String>) {
        self.password = password.into();
    }

    /// Checks that a protocol has the login. Errors: [`Error::Invalid`].
    pub fn check_login(&self, protocol: Protocol) -> Result<(), Error> {
        let help = "choose another login, or AMQP 1.0: amqp10:// in the URL, or {protocol} amqp10";
        let refused = Error::invalid("only AMQP 1.0 has a login by SCRAM-SHA-256", help).about("broker.auth");
        refused.unless(self.auth != Auth::ScramSha256 || protocol == Protocol::Amqp10)
    }

    /// Checks that the certificates that secure its connections can be read.
    pub fn check_certificates(&self) -> Result<(), Error> {
        self.connector().map(drop)
    }

    /// Reads the certificates that secure its connections; `None` for plain TCP.
    pub fn connector(&self) -> Result<Option<Arc<Connector>>, Error> {
        let Some(tls) = &self.tls else { return Ok(None) };
        let connector = Connector::new(tls, &self.host).map_err(Error::Invalid)?;
        Ok(Some(Arc::new(connector)))
    }

    /// The current password.
    pub fn password(&self) -> String {
        match &self.token {
            Some(token) => token.text(),
            None => self.password.clone(),
        }
    }
}

const HELP: &str = "write amqp://USER:PASSWORD@HOST:PORT/VHOST, with special characters as %XX";

/// For addresses of Artemis' own clients, which speak CORE.
const ARTEMIS_HELP: &str = "for ActiveMQ Artemis write amqp10:// (amqps10:// with TLS), which is AMQP 1.0 on the same \
     port; for AMQP 0.9.1 amqp://";

/// Reads `amqp://user:password@host:port/vhost`, or `amqps://` for TLS; everything but the host may be left out, and
/// user, password and virtual host are percent-decoded. As RabbitMQ's clients do, no path or an
/// empty one is the virtual host `/`, and `%2F` writes it out. With `amqp10://` and `amqps10://`, for AMQP 1.0, and
/// with `mqtt://` and `mqtts://` a path names a destination, which [`Endpoint::split_destination`] takes off.
///
/// The login ends at the last `@`, whatever characters stand before it, unless that `@` is certainly of a virtual host
/// or a destination: a password that somebody did not percent-encode may hold each of them, and must not be taken for
/// host, port or virtual host.
impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        // Nothing of a URL that could not be taken apart is repeated: it may hold a password.
        let parts = Parts::of(url)?;
        if parts.protocol.is_some() && parts.query.is_some() {
            let help = "leave out what follows the ?; a ? of a destination is written as %3F";
            return Err(unusable("options after its ? are not read", help));
        }
        let (host, port) = split_address(parts.address)?;
        let default_port = match parts.protocol {
            Some(Protocol::Mqtt) => Self::MQTT_PORTS[usize::from(parts.secured)],
            _ if parts.secured => Self::DEFAULT_TLS_PORT,
            _ => Self::DEFAULT_PORT,
        };
        let mut endpoint = Self::new(host, port.unwrap_or(default_port));
        endpoint.tls = parts.secured.then(ClientTls::default);
        endpoint.protocol = parts.protocol.unwrap_or_default();
        if let Some(login) = parts.login {
            let (user, password) = login.split_once(':').unwrap_or((login, "guest"));
            endpoint.user = decode(user, "user")?;
            endpoint.password = decode(password, "password")?;
        }
        if !parts.path.is_empty() {
            if parts.protocol.is_some() {
                let help = "name it apart: as DESTINATION on a command line, as destination in a [[load]]";
                return Err(unusable("what follows its address names a destination, which is not read here", help));
            }
            endpoint.virtual_host = decode(parts.path, "virtual host")?;
        }
        Ok(endpoint)
    }
}

/// A URL that was taken apart, before anything is decoded.
struct Parts<'a> {
    scheme: &'a str,
    /// The scheme is one with TLS.
    secured: bool,
    /// The protocol that the scheme names; `amqp` and `amqps` leave it open.
    protocol: Option<Protocol>,
    /// The part before the `@` at which [`login_end`] finds its end.
    login: Option<&'a str>,
    /// Host and port.
    address: &'a str,
    /// The virtual host, or with `protocol` the destination, without the slash before it.
    path: &'a str,
    /// The part after the `?`.
    query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Result<Self, Error> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let Some((scheme, secured, protocol)) = SCHEMES.into_iter().find(|(known, ..)| *known == scheme) else {
            if !is_scheme(scheme) {
                return Err(unusable("it has no scheme", HELP));
            }
            let help = if ["tcp", "ssl"].contains(&scheme) { ARTEMIS_HELP } else { HELP };
            return Err(unusable(format!("its scheme {scheme:?} is not supported"), help));
        };
        let (login, rest) = match login_end(rest, protocol.is_some())? {
            Some(at) => (rest.get(..at), rest.get(at + 1..).unwrap_or_default()),
            None => (None, rest),
        };
        // A destination may hold it, as `topic://news.#` does.
        let rest = if protocol.is_some() { rest } else { rest.split('#').next().unwrap_or_default() };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        Ok(Self { scheme, secured, protocol, login, address, path, query })
    }
}

/// Schemes of brokers' URLs: whether with TLS, and the protocol that they name.
const SCHEMES: [(&str, bool, Option<Protocol>); 6] = [
    ("amqp", false, None),
    ("amqps", true, None),
    ("amqp10", false, Some(Protocol::Amqp10)),
    ("amqps10", true, Some(Protocol::Amqp10)),
    ("mqtt", false, Some(Protocol::Mqtt)),
    ("mqtts", true, Some(Protocol::Mqtt)),
];

impl Endpoint {
    /// As a URL with its password, for programs and not to be shown. Of AMQP they know `amqp` and `amqps` alone.
    pub fn secret_url(&self) -> String {
        let password = percent_encoded(&self.password());
        let mut plain = self.clone();
        if plain.protocol == Protocol::Amqp10 {
            plain.protocol = Protocol::Amqp091;
        }
        // The user's own @ is written as %40.
        plain.to_string().replacen('@', &format!(":{password}@"), 1)
    }

    /// Whether a text is a broker's URL by its scheme.
    pub fn is_url(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| SCHEMES.iter().any(|(known, ..)| *known == scheme))
    }

    /// The protocol that a URL's scheme names, as `amqp10://` does; `None` where open, or no broker's.
    pub fn protocol_of(url: &str) -> Option<Protocol> {
        Parts::of(url).ok()?.protocol
    }

    /// Takes the destination off `amqp10://HOST:PORT/DESTINATION`, percent-decoded: `queue://NAME`, `topic://NAME`, or
    /// a bare name. URLs that name no protocol stay as they are, and have none. Errors: as of parsing an endpoint.
    pub fn split_destination(url: &str) -> Result<(String, Option<String>), Error> {
        let parts = Parts::of(url)?;
        if parts.protocol.is_none() || parts.path.is_empty() {
            return Ok((url.to_owned(), None));
        }
        let destination = decode(parts.path, "destination")?;
        let login = parts.login.map_or_else(String::new, |login| format!("{login}@"));
        let query = parts.query.map_or_else(String::new, |query| format!("?{query}"));
        Ok((format!("{}://{login}{}{query}", parts.scheme, parts.address), Some(destination)))
    }

    /// A broker's URL without its password and options, and with its scheme. Errors: as of parsing an endpoint.
    pub fn public_url(url: &str) -> Result<String, Error> {
        let (address, destination) = Self::split_destination(url)?;
        let shown = address.parse::<Self>()?;
        let destination = destination.unwrap_or_default();
        let (kind, name) = destination.split_once("://").unwrap_or(("", destination.as_str()));
        let kind = if kind.is_empty() { String::new() } else { format!("{}://", percent_encoded(kind)) };
        Ok(format!("{shown}{kind}{}", percent_encoded(name)))
    }

    /// Whether the URL has options after a `?`, which nothing here reads.
    pub fn has_options(url: &str) -> bool {
        Parts::of(url).is_ok_and(|parts| parts.query.is_some())
    }
}

/// Where the `@` is that ends a login: the last one before the first `/`, or before a destination such as
/// `/queue://a@b`. Only where no address stands there, a `/` of a password that was not percent-encoded does, and the
/// last `@` of all ends the login. Errors: it may be either.
fn login_end(rest: &str, has_destination: bool) -> Result<Option<usize>, Error> {
    let kinds = ["/queue://", "/topic://"].into_iter().filter(|_| has_destination);
    if let Some(at) = kinds.filter_map(|kind| rest.find(kind)).min() {
        return Ok(rest.split_at(at).0.rfind('@'));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let end = authority.rfind('@');
    let holds_no_password = end.is_none() && (authority.starts_with('[') || !authority.contains(':'));
    if holds_no_password || !path.contains('@') {
        return Ok(end);
    }
    let address = authority.rsplit('@').next().and_then(|it| it.split(['?', '#']).next());
    if split_address(address.unwrap_or_default()).is_err() {
        return Ok(rest.rfind('@'));
    }
    let help = "write an @ behind the address as %40, and a / of a password as %2F";
    Err(unusable("an @ behind its first / may end its login, or be of what follows its address", help))
}

/// Whether the text can be a URL's scheme (RFC 3986, 3.1), and so is not the beginning of a login.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Splits host and port. Neither is repeated in an error: without an `@` they may be user and password.
fn split_address(address: &str) -> Result<(&str, Option<u16>), Error> {
    let (host, port) = if let Some(rest) = address.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or_else(|| unusable("its address has no closing bracket", HELP))?;
        (host, port.strip_prefix(':').unwrap_or(port))
    } else {
        address.split_once(':').unwrap_or((address, ""))
    };
    if host.is_empty() {
        return Err(unusable("it has no host", HELP));
    }
    if !host.chars().all(is_of_host) {
        return Err(unusable("its host has a character that no host's name has", HELP));
    }
    let wrong = |_| unusable("what follows the host's colon is not a port from 1 to 65535", HELP);
    let port = (!port.is_empty()).then(|| port.parse::<NonZeroU16>().map(NonZeroU16::get).map_err(wrong));
    Ok((host, port.transpose()?))
}

/// An URL that is no broker's. It may hold a password, so `what` never repeats more than its scheme.
fn unusable(what: impl fmt::Display, help: &str) -> Error {
    Error::Invalid(Problem::new("the broker's URL cannot be used", what, help))
}

/// Names in any script, IPv4 and IPv6 addresses with their zone.
fn is_of_host(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '%')
}

/// Replaces `%XX`; the error names the part, never its text.
fn decode(text: &str, part: &str) -> Result<String, Error> {
    let decoded = percent_decoded(text).ok_or_else(|| {
        unusable(format!("its {part} has a % that two hexadecimal digits do not follow"), "write a literal % as %25")
    })?;
    String::from_utf8(decoded).map_err(|_| unusable(format!("its {part} is not UTF-8"), HELP))
}

/// `amqp://user@host:port/vhost`, or with another scheme, without the password. The virtual host `/` is left out.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.protocol, self.tls.is_some()) {
            (Protocol::Amqp091, false) => "amqp://",
            (Protocol::Amqp091, true) => "amqps://",
            (Protocol::Amqp10, false) => "amqp10://",
            (Protocol::Amqp10, true) => "amqps10://",
            (Protocol::Mqtt, false) => "mqtt://",
            (Protocol::Mqtt, true) => "mqtts://",
        })?;
        f.write_str(&percent_encoded(&self.user))?;
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "@{open}{}{close}:{}/", self.host, self.port)?;
        if self.virtual_host == "/" { Ok(()) } else { f.write_str(&percent_encoded(&self.virtual_host)) }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

/// An access token, used as the password. Whoever renews it calls [`Token::renew`]; every connection then tells its
/// broker (`connection.update-secret`), and new ones log in with it. `Debug` does not show it.
#[derive(Clone)]
pub struct Token(Arc<Shared>);

struct Shared {
    text: Mutex<String>,
    /// Raised with every renewal, so that looking costs no lock.
    version: AtomicU64,
}

impl Token {
    /// The first token.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(Shared { text: Mutex::new(text.into()), version: AtomicU64::new(0) }))
    }

    /// Replaces it, on all connections.
    pub fn renew(&self, text: impl Into<String>) {
        let mut place = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        *place = text.into();
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// The present one.
    pub fn text(&self) -> String {
        self.0.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often it was renewed.
    #[inline]
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(***)")
    }
}

type LookUp = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Looks up names; by default the system does. `Debug` shows nothing of it.
#[derive(Clone, Default)]
pub struct Resolver(Option<Arc<LookUp>>);

impl Resolver {
    /// Looks names up with this function, which gets host and port.
    pub fn new(look_up: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(look_up)))
    }

    /// The addresses of a host. Errors: it has none, or nobody can tell.
    pub fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match &self.0 {
            Some(look_up) => look_up(host, port),
            None => Ok((host, port).to_socket_addrs()?.collect()),
        }
    }
}

impl PartialEq for Resolver {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Eq for Resolver {}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn read(url: &str) -> Endpoint {
        url.parse().unwrap()
    }

    #[test]
    fn everything_but_the_host_has_a_default() {
        let endpoint = read("amqp://broker");
        assert_eq!(endpoint, Endpoint::new("broker", 5_672));
        assert_eq!((endpoint.user.as_str(), endpoint.password().as_str()), ("guest", "guest"));
        assert_eq!(endpoint.virtual_host, "/");
        assert_eq!(read("amqp://broker/"), endpoint);
        assert_eq!(read("amqp://broker:5672/%2f"), endpoint);
        assert_eq!(read("amqp://broker?heartbeat=5"), endpoint, "options are none of it");
        assert_eq!(read("amqp://broker/team%20one?heartbeat=5").virtual_host, "team one");
    }

    #[test]
    fn a_password_is_never_shown() {
        let endpoint = read("amqp://me:s3cret@host/v");
        for shown in [endpoint.to_string(), format!("{endpoint:?}")] {
            assert!(!shown.contains("s3cret"), "{shown}");
        }
        let wrong = "amqp://me:s3cret@host:x/|amqp://me:s3cret%@host/|me:s3cret@host|me:s3cret://x@host|\
            amqp://me:s3cret@|amqp://me:s3cret|amqp://me:s3cret/vhost|amqp://[me:s3cret";
        for bad in wrong.split('|') {
            let error = bad.parse::<Endpoint>().unwrap_err();
            let told = format!("{error} {}", error.problem().help);
            assert!(!told.contains("s3cret"), "{bad}: {told}");
        }
    }

    #[test]
    fn a_login_ends_at_the_last_at_sign() {
        for (url, password) in [
            ("amqp://me:s3cret/x@localhost", "s3cret/x"),
            ("amqp://me:s3cret#x@localhost", "s3cret#x"),
            ("amqp://me:s3cret?x@localhost", "s3cret?x"),
            ("amqp://me:a@b:c@localhost", "a@b:c"),
            ("amqp://me: @localhost", " "),
        ] {
            let endpoint = read(url);
            let found = (endpoint.user.as_str(), endpoint.host.as_str(), endpoint.port);
            assert_eq!(found, ("me", "localhost", 5_672), "{url}");
            assert_eq!(endpoint.password(), password);
        }
        assert!(Endpoint::has_options("amqp://h/v?x=1"));
        assert!(!Endpoint::has_options("amqp://me:s3cret?x@h/v"));
    }

    /// A password with every kind of character that a URL gives a meaning to, or that a terminal does.
    fn random_password(random: Random, round: u64) -> String {
        const MARKS: [&str; 20] = [
            "/", "#", "?", ":", "@", "%", " ", ",", ";", "=", "&", "[", "]", "\"", "\\", "ä", "日", "\u{1b}", "\n",
            "\u{202e}",
        ];
        let mark = |n: u64| MARKS[(random.word(round * 16 + n) % 20) as usize];
        let parts = 1 + random.word(round * 16) % 12;
        (1..=parts).map(|n| format!("{}s3cret", mark(n))).collect()
    }

    #[test]
    fn any_password_is_read_or_refused_and_never_repeated() {
        let random = Random::new(9, 0);
        for round in 0..20_000 {
            let password = random_password(random, round);
            let encoded: String = password.bytes().map(|b| format!("%{b:02X}")).collect();
            for (form, has_login) in [
                ("amqp://me:P@localhost:5671/v", true),
                ("amqps://me:P@[::1]", true),
                ("amqp://me:P@", true),
                ("amqp://me:P@h:x", true),
                ("me:P@localhost", true),
                ("P://me@h", true),
                ("(amqp://me:P@h)", true),
                ("amqp://me:P", false),
                ("amqp://[me:P", false),
            ] {
                for written in [&password, &encoded] {
                    let url = form.replace('P', written);
                    let told = match url.parse::<Endpoint>() {
                        // A password where a host or a virtual host belongs cannot be told from one.
                        Ok(_) if !has_login => continue,
                        Ok(endpoint) => {
                            assert!(endpoint.user == "me", "{url:?}: {endpoint}");
                            assert!(["localhost", "::1"].contains(&endpoint.host.as_str()));
                            assert!(written == &password || endpoint.password() == password);
                            format!("{endpoint} {endpoint:?}")
                        }
                        Err(error) => format!("{error} {error:?}"),
                    };
                    let leaks = told.contains("s3cret") || told.contains(&encoded);
                    assert!(!leaks, "round {round}: {url:?}: {told}");
                }
            }
            assert_eq!(read(&format!("amqp://me:{encoded}@localhost/v")).password(), password);
        }
    }

    #[test]
    fn what_is_shown_reads_back_but_for_the_password() {
        for url in [
            "amqp://guest@host:5672/",
            "amqp://a%40b@[::1]:1/x%2Fy",
            "amqp://u@1.2.3.4:65535/%C3%A9",
            "amqps://u@host:5671/",
            "amqp10://u@host:5672/",
            "amqps10://u@host:5671/",
            "mqtt://u@host:1883/",
            "mqtts://u@host:8883/",
        ] {
            assert_eq!(read(url).to_string(), url);
        }
        assert_eq!((read("mqtt://h").port, read("mqtts://h").port), (1_883, 8_883));
        assert_eq!(read("mqtt://u:p@h").secret_url(), "mqtt://u:p@h:1883/");
        assert_eq!(read("amqps10://u:p@host").secret_url(), "amqps://u:p@host:5671/", "other programs' scheme");
    }

    #[test]
    fn urls_of_amqp_1_0_name_a_destination_in_place_of_a_virtual_host() {
        for line in include_str!("../tests/data/destinations.txt").lines() {
            let cells: Vec<&str> = line.split(" ⇒ ").collect();
            let [url, address, destination, shown] = cells[..] else { panic!("{line}") };
            let found = Endpoint::split_destination(url).unwrap();
            assert_eq!(
                (found.0.as_str(), found.1.as_deref()),
                (address, Some(destination).filter(|it| !it.is_empty()))
            );
            assert_eq!(read(address).tls.is_some(), url.starts_with("amqps") || url.starts_with("mqtts"));
            assert_eq!(Endpoint::public_url(url).unwrap(), shown);
            let named = [("amqp10", Protocol::Amqp10), ("amqps10", Protocol::Amqp10), ("mqtt", Protocol::Mqtt)];
            let scheme = url.split("://").next().unwrap();
            let protocol = named.into_iter().find_map(|(known, protocol)| (known == scheme).then_some(protocol));
            assert_eq!(Endpoint::protocol_of(url), protocol, "{url}");
        }
        assert!(Endpoint::split_destination("amqp10://h/%zz").is_err());
        assert_eq!(Endpoint::protocol_of("queue://amqp10"), None);
        assert!(
            Endpoint::is_url("amqp://h") && Endpoint::is_url("amqps10://") && !Endpoint::is_url("queue://amqp://h")
        );
        let own = "tcp://h".parse::<Endpoint>().unwrap_err().problem().help;
        assert!(own.contains("write amqp10://"), "{own}");
    }

    #[test]
    fn bad_urls_name_what_is_wrong() {
        let wrong = include_str!("../tests/data/no-endpoints.txt").lines();
        for (url, part) in wrong.filter_map(|line| line.split_once(" ⇒ ")) {
            let error = url.parse::<Endpoint>().unwrap_err();
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(error.is_usage());
        }
    }
}
