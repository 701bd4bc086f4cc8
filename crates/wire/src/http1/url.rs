//! URLs of `http` and `https`.

use std::fmt;

use super::UrlError;
use crate::Secret;

/// A URL, taken apart. It prints without its login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// The scheme is `https`.
    pub is_secured: bool,
    /// Host name or address; IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path and query, percent-encoded, beginning with `/`.
    pub target: String,
    /// User and password, decoded.
    pub login: Option<(String, Secret)>,
}

impl HttpUrl {
    /// Takes a URL apart. The login ends at the last `@` before the path; a fragment is left out.
    ///
    /// # Errors
    /// What cannot be asked, in words that repeat nothing of it.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        let wrong = |what| UrlError { what };
        let url = url.split('#').next().unwrap_or_default();
        let (scheme, rest) = url.split_once("://").ok_or(wrong("there is no scheme"))?;
        let is_secured = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(wrong("the scheme is neither http nor https")),
        };
        let path = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(path);
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => (Some(login), address),
            None => (None, authority),
        };
        if login.is_none() && target.contains('@') && address.contains(':') {
            let port = address.rsplit(':').next().unwrap_or_default();
            if port.parse::<u16>().is_err() {
                return Err(wrong("write a / in a password as %2F"));
            }
        }
        let default = if is_secured { 443 } else { 80 };
        let (host, port) = split_address(address, default)?;
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong(
                "spaces and characters beyond ASCII are written as %XX in a path and a query",
            ));
        }
        Ok(Self {
            is_secured,
            host,
            port,
            target: if target.starts_with('/') {
                target.to_owned()
            } else {
                format!("/{target}")
            },
            login: login.map(decode_login).transpose()?,
        })
    }

    /// Host and port, as the `Host` header names them.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match (self.is_secured, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secured { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
    }
}

fn split_address(address: &str, default: u16) -> Result<(String, u16), UrlError> {
    let wrong = |what| UrlError { what };
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(wrong("a [ without its ]"))?;
            let is_address = host.parse::<core::net::Ipv6Addr>().is_ok();
            if !is_address || !(after.is_empty() || after.starts_with(':')) {
                return Err(wrong("what stands in [] is no IPv6 address"));
            }
            (host, after.strip_prefix(':'))
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let is_letter =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    if host.is_empty() || !host.bytes().all(is_letter) {
        return Err(wrong("there is no host, or one that is no name"));
    }
    let port = match port {
        None | Some("") => default,
        Some(digits) => {
            let port = digits.parse().ok().filter(|port| *port != 0);
            port.ok_or(wrong("the port is no number from 1 to 65535"))?
        }
    };
    Ok((host.to_owned(), port))
}

fn decode_login(login: &str) -> Result<(String, Secret), UrlError> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let decode = |text| {
        decode_percent(text).ok_or(UrlError {
            what: "the login has a % that two hexadecimal digits do not follow, or is no UTF-8",
        })
    };
    Ok((decode(user)?, Secret::new(decode(password)?)))
}

fn decode_percent(text: &str) -> Option<String> {
    String::from_utf8(measure::percent_decoded(text)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let url = HttpUrl::parse("http://me:p%40ss@localhost:15672/api/queues?columns=name#top");
        let url = url.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((url.host.as_str(), url.port), ("localhost", 15672));
        assert_eq!(url.target, "/api/queues?columns=name");
        let (user, password) = url.login.clone().unwrap_or_default();
        assert_eq!((user.as_str(), password.expose()), ("me", "p@ss"));
        let shown = "http://localhost:15672/api/queues?columns=name";
        assert_eq!(url.to_string(), shown);
        assert!(!format!("{url:?}").contains("p@ss"));
        let six = HttpUrl::parse("https://[::1]?x").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((six.port, six.target.as_str()), (443, "/?x"));
        assert_eq!(six.authority(), "[::1]");
    }

    #[test]
    fn what_is_no_url_is_refused_without_repeating_it() {
        for url in [
            "localhost",
            "ftp://a/",
            "http://",
            "http://a:0/",
            "http://a:70000/",
            "http://me:hunter2/x@host/",
            "http://me:hunter2%zz@host/",
            "http://a b/",
            "http://a/b c",
            "http://[::1/",
            "http://a\r\nb/",
        ] {
            match HttpUrl::parse(url) {
                Ok(taken) => panic!("{url} became {taken}"),
                Err(error) => assert!(!error.to_string().contains("hunter2"), "{error}"),
            }
        }
    }
}
