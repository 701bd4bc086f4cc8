//! The head of a request, and the URL that it is made of.

use std::fmt;

use super::{HttpError, UrlError};
use crate::Secret;

/// Headers that say how a message is framed, or that the head writes itself.
const OWN: [&str; 7] = ["host", "connection", "content-length", "transfer-encoding", "expect", "upgrade", "te"];

/// A request without a body.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// Path and query, percent-encoded.
    pub target: &'a str,
    /// Host and port, as the `Host` header names them.
    pub host: &'a str,
    /// Further headers, names and values.
    pub headers: &'a [(String, String)],
}

impl RequestHead<'_> {
    /// Checks each part and writes the head behind what `output` holds. Where something cannot be written, nothing is.
    /// Errors: [`HttpError::Request`]: a part with characters that could end its line or begin another, or a header
    /// that would change where the message ends.
    pub fn encode(&self, output: &mut Vec<u8>) -> Result<(), HttpError> {
        self.check()?;
        let mut put = |text: &str| output.extend_from_slice(text.as_bytes());
        put(self.method);
        put(" ");
        put(self.target);
        put(" HTTP/1.1\r\nHost: ");
        put(self.host);
        put("\r\n");
        for (name, value) in self.headers {
            put(name);
            put(": ");
            put(value);
            put("\r\n");
        }
        if matches!(self.method, "POST" | "PUT" | "PATCH") {
            put("Content-Length: 0\r\n");
        }
        put("\r\n");
        Ok(())
    }

    /// Checks that each part can be written.
    pub fn check(&self) -> Result<(), HttpError> {
        let is_visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_method = is_token(self.method) && self.method != "CONNECT";
        ensure(is_method, "method", self.method, "use GET, HEAD or another method of letters")?;
        let is_target = self.target.starts_with('/') || self.target == "*";
        let is_target = is_target && is_visible(self.target) && !self.target.contains('#');
        let help = "begin it with /, and write spaces, # and characters beyond ASCII as %XX";
        // It may hold a token.
        ensure(is_target, "target", "what was given", help)?;
        let is_host = !self.host.is_empty() && is_visible(self.host) && !self.host.contains(['/', '@', '?']);
        ensure(is_host, "host", self.host, "give a host name or an address, and a port")?;
        for (name, value) in self.headers {
            ensure(is_token(name), "header name", name, "a header's name has letters, digits and -")?;
            let is_own = OWN.iter().any(|own| own.eq_ignore_ascii_case(name));
            ensure(!is_own, "header", name, "bellows writes it itself, leave it out")?;
            let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
            let is_text = !value.bytes().any(is_control);
            ensure(is_text, "header", name, "its value has no line ends and no control characters")?;
        }
        Ok(())
    }
}

/// Refuses a part of a request unless it `is_fine`.
fn ensure(is_fine: bool, part: &'static str, observed: &str, help: &'static str) -> Result<(), HttpError> {
    let refused = || HttpError::Request { part, observed: observed.chars().take(100).collect(), help };
    if is_fine { Ok(()) } else { Err(refused()) }
}

/// Whether it is a `token` of RFC 9110.
fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}

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
    /// Errors: what cannot be asked, in words that repeat nothing of it.
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
        let (login, address) =
            authority.rsplit_once('@').map_or((None, authority), |(login, address)| (Some(login), address));
        if login.is_none() && target.contains('@') && address.contains(':') {
            let port = address.rsplit(':').next().unwrap_or_default();
            if port.parse::<u16>().is_err() {
                return Err(wrong("write a / in a password as %2F"));
            }
        }
        let default = if is_secured { 443 } else { 80 };
        let (host, port) = split_address(address, default)?;
        if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("spaces and characters beyond ASCII are written as %XX in a path and a query"));
        }
        Ok(Self {
            is_secured,
            host,
            port,
            target: if target.starts_with('/') { target.to_owned() } else { format!("/{target}") },
            login: login.map(decode_login).transpose()?,
        })
    }

    /// Host and port, as the `Host` header names them.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
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
                return Err(wrong("the text in [] is not an IPv6 address"));
            }
            (host, after.strip_prefix(':'))
        }
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    if host.is_empty() || !host.bytes().all(is_letter) {
        return Err(wrong("the host is missing or not a name"));
    }
    let port = match port {
        None | Some("") => default,
        Some(digits) => {
            let port = digits.parse().ok().filter(|port| *port != 0);
            port.ok_or(wrong("the port is not a number from 1 to 65535"))?
        }
    };
    Ok((host.to_owned(), port))
}

fn decode_login(login: &str) -> Result<(String, Secret), UrlError> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let decode = |text| {
        let decoded = measure::percent_decoded(text).and_then(|bytes| String::from_utf8(bytes).ok());
        decoded.ok_or(UrlError { what: "the login has a % without two hexadecimal digits, or is not UTF-8" })
    };
    Ok((decode(user)?, Secret::new(decode(password)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(method: &str, target: &str, header: (&str, &str)) -> Result<String, HttpError> {
        let mut output = Vec::new();
        let headers = [(header.0.to_owned(), header.1.to_owned())];
        let request = RequestHead { method, target, host: "localhost:80", headers: &headers };
        let result = request.encode(&mut output);
        assert_eq!(result.is_err(), output.is_empty(), "all or nothing");
        result.map(|()| String::from_utf8_lossy(&output).into_owned())
    }

    #[test]
    fn a_head_is_written_whole() {
        let head = "GET /a?b=c%20d HTTP/1.1\r\nHost: localhost:80\r\nAccept: */*\r\n\r\n";
        assert_eq!(encoded("GET", "/a?b=c%20d", ("Accept", "*/*")).as_deref(), Ok(head));
        let post = encoded("POST", "/", ("x", "")).unwrap_or_default();
        assert!(post.ends_with("Content-Length: 0\r\n\r\n"), "{post}");
    }

    #[test]
    fn nothing_given_begins_a_line_of_its_own() {
        for (method, target, name, value) in [
            ("GET\r\nx: y", "/", "a", "b"),
            ("GET", "/ HTTP/1.1\r\nx: y\r\n", "a", "b"),
            ("GET", "/ a", "a", "b"),
            ("GET", "http://other/", "a", "b"),
            ("GET", "/ä", "a", "b"),
            ("GET", "/", "a: b\r\nc", "b"),
            ("GET", "/", "a", "b\r\nc: d"),
            ("GET", "/", "a", "b\nc: d"),
            ("GET", "/", "a", "b\0"),
            ("GET", "/", "", "b"),
            ("GET", "/", "content-LENGTH", "5"),
            ("GET", "/", "Transfer-Encoding", "chunked"),
            ("CONNECT", "/", "a", "b"),
        ] {
            let result = encoded(method, target, (name, value));
            assert!(result.is_err(), "{method:?} {target:?} {name:?} {value:?}");
        }
    }

    #[test]
    fn urls_are_taken_apart() {
        let url = HttpUrl::parse("http://me:p%40ss@localhost:15672/api/queues?columns=name#top");
        let url = url.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((url.host.as_str(), url.port), ("localhost", 15672));
        assert_eq!(url.target, "/api/queues?columns=name");
        let (user, password) = url.login.clone().unwrap_or_default();
        assert_eq!((user.as_str(), password.expose()), ("me", "p@ss"));
        assert_eq!(url.to_string(), "http://localhost:15672/api/queues?columns=name");
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
