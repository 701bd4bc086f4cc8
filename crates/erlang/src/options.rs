//! How a node is reached: its name, its cookie, and the rest.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use measure::{Problem, Refused};
use transport::tls::ClientTls;

/// How a node is reached.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Its name.
    pub node: NodeName,
    /// The secret that it shares.
    pub cookie: Cookie,
    /// Others that may be it: each is tried where the node refuses those before it.
    pub other_cookies: Vec<Cookie>,
    /// Host and port of its distribution; EPMD of the node's host knows the port otherwise.
    pub address: Option<(String, u16)>,
    /// The port of EPMD.
    pub epmd_port: u16,
    /// How the connection is secured; `None` for plain TCP.
    pub tls: Option<ClientTls>,
    /// How long connecting may take, and each call.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// EPMD's usual port.
    pub const EPMD_PORT: u16 = 4369;

    /// A node that EPMD knows, on plain TCP, with 10 seconds for each step.
    pub const fn new(node: NodeName, cookie: Cookie) -> Self {
        Self {
            node,
            cookie,
            other_cookies: Vec::new(),
            address: None,
            epmd_port: Self::EPMD_PORT,
            tls: None,
            timeout: Duration::from_secs(10),
        }
    }
}

/// The longest cookie: it is an atom on the other side.
const LONGEST_COOKIE: usize = 255;
/// Where Debian's package of RabbitMQ keeps it.
const OF_RABBITMQ: &str = "/var/lib/rabbitmq/.erlang.cookie";
const HELP: &str = "name the file that holds the node's cookie with --cookie-file FILE, or set \
                    BELLOWS_ERLANG_COOKIE";

/// The secret that the nodes of a cluster share. `Debug` shows `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Cookie {
    text: String,
    /// Where it was found, for messages; empty where it was given by itself.
    source: String,
}

impl Cookie {
    /// Takes the text over, without white space around it.
    pub fn new(text: &str) -> Result<Self, Refused> {
        let text = text.trim();
        if text.is_empty() || text.len() > LONGEST_COOKIE || text.contains(char::is_control) {
            return Err(Refused::new(
                format!("a cookie has 1 to {LONGEST_COOKIE} bytes in one line; this has {}", text.len()),
                "use the text of the node's .erlang.cookie",
            ));
        }
        Ok(Self { text: text.to_owned(), source: String::new() })
    }

    /// Sets its source, such as a file or a variable, for messages.
    pub fn found_in(self, source: impl Into<String>) -> Self {
        Self { source: source.into(), ..self }
    }

    /// Reads a file whose only line is the cookie.
    pub fn read(path: &Path) -> Result<Self, Problem> {
        Self::read_from(path)
            .map_err(|error| Problem::io("read the cookie in", path, &error))?
            .map_err(|refused| Problem::new(format!("{} holds no cookie", path.display()), refused.what, refused.help))
    }

    /// The cookie of the user's own nodes, and this machine's RabbitMQ's: the first found, and another, or an error.
    pub fn find() -> Result<(Self, Vec<Self>), Problem> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let own = home.map(|home| home.join(".erlang.cookie"));
        Self::found_at(own.into_iter().chain([PathBuf::from(OF_RABBITMQ)]))
    }

    fn found_at(paths: impl Iterator<Item = PathBuf>) -> Result<(Self, Vec<Self>), Problem> {
        let (mut found, mut useless, mut absent) = (Vec::<Self>::new(), Vec::new(), Vec::new());
        for path in paths {
            match Self::read_from(&path) {
                Ok(Ok(cookie)) if found.iter().any(|it| it.text == cookie.text) => {}
                Ok(Ok(cookie)) => found.push(cookie),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    absent.push(format!("there is no {}", path.display()));
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    useless.push(format!("{} may not be read", path.display()));
                }
                Ok(Err(_)) | Err(_) => useless.push(format!("{} holds no cookie", path.display())),
            }
        }
        let mut found = found.into_iter();
        match found.next() {
            Some(first) => Ok((first, found.collect())),
            // A file that is there and of no use is the likelier cause.
            None => Err(Problem::new("no Erlang cookie was found", [useless, absent].concat().join(", "), HELP)),
        }
    }

    fn read_from(path: &Path) -> io::Result<Result<Self, Refused>> {
        let mut text = String::new();
        File::open(path)?.take(4 * LONGEST_COOKIE as u64).read_to_string(&mut text)?;
        Ok(Self::new(&text).map(|cookie| cookie.found_in(path.display().to_string())))
    }

    /// The text, for the one place that makes digests of it.
    pub(crate) fn expose(&self) -> &str {
        &self.text
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The longest name of an atom, and so of a node, in characters.
const LONGEST_NAME: usize = 255;

/// The name of a node, such as `rabbit@localhost`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName {
    text: String,
    at: usize,
}

impl NodeName {
    /// The part before the `@`: the name that EPMD knows.
    pub fn name(&self) -> &str {
        self.text.get(..self.at).unwrap_or_default()
    }

    /// The host, as its name or address.
    pub fn host(&self) -> &str {
        self.text.get(self.at + 1..).unwrap_or_default()
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for NodeName {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let refused = |why: &str| {
            Refused::new(
                format!("{text:?} is not a node's name: {why}"),
                "write it as NAME@HOST, such as rabbit@localhost",
            )
        };
        let at = text.find('@').ok_or_else(|| refused("it has no @"))?;
        if at == 0 || at + 1 == text.len() {
            return Err(refused("a part of it is missing"));
        }
        if text.chars().count() > LONGEST_NAME || text.len() > LONGEST_NAME {
            return Err(refused("it is longer than 255 bytes"));
        }
        if text.chars().any(|it| it.is_control() || it.is_whitespace() || it == '/')
            || text.get(at + 1..).is_some_and(|host| host.contains('@'))
        {
            return Err(refused("it has characters that no node's name has"));
        }
        Ok(Self { text: text.to_owned(), at })
    }
}

#[cfg(test)]
mod tests {
    use super::{Cookie, NodeName};

    #[test]
    fn a_cookie_is_one_line_and_is_never_shown() {
        let cookie = Cookie::new(" ABC\n").expect("a cookie");
        assert_eq!(cookie.expose(), "ABC");
        assert_eq!(format!("{cookie:?}"), "***");
        for wrong in ["", "\n", "a\nb", &"x".repeat(256)] {
            let refused = Cookie::new(wrong).expect_err("no cookie");
            assert!(!refused.what.contains("xxx"), "{refused:?}");
        }
    }

    #[test]
    fn a_file_of_no_use_is_told_before_one_that_is_absent() {
        let here = std::env::current_dir().expect("a folder");
        let missing = Cookie::found_at([here.join("no.cookie"), here].into_iter()).expect_err("no cookie");
        assert!(missing.value.contains(" holds no cookie, there is no "), "{missing:?}");
    }

    #[test]
    fn names_have_two_parts() {
        let name: NodeName = "rabbit@localhost".parse().expect("a name");
        assert_eq!((name.name(), name.host()), ("rabbit", "localhost"));
        assert_eq!(name.to_string(), "rabbit@localhost");
        for wrong in ["", "rabbit", "@", "@host", "rabbit@", "a@b@c", "a b@c", "a\n@b"] {
            assert!(wrong.parse::<NodeName>().is_err(), "{wrong:?}");
        }
        assert!(format!("a@{}", "b".repeat(300)).parse::<NodeName>().is_err());
    }
}
