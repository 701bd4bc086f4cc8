//! The head of a request.

use super::HttpError;

/// Headers that say how a message is framed, or that the head writes itself.
const OWN: [&str; 7] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "expect",
    "upgrade",
    "te",
];

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
    ///
    /// # Errors
    /// [`HttpError::Request`]: a part with characters that could end its line or begin another, or a header
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
    ///
    /// # Errors
    /// As [`RequestHead::encode`].
    pub fn check(&self) -> Result<(), HttpError> {
        let is_visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token(self.method) || self.method == "CONNECT" {
            let help = "take GET, HEAD or another method of letters";
            return Err(refused("method", self.method, help));
        }
        let is_target = self.target.starts_with('/') || self.target == "*";
        if !is_target || !is_visible(self.target) || self.target.contains('#') {
            // It may hold a token.
            let help = "begin it with /, and write spaces, # and characters beyond ASCII as %XX";
            return Err(refused("target", "what was given", help));
        }
        if self.host.is_empty() || !is_visible(self.host) || self.host.contains(['/', '@', '?']) {
            let help = "give a host name or an address, and a port";
            return Err(refused("host", self.host, help));
        }
        for (name, value) in self.headers {
            if !is_token(name) {
                let help = "a header's name has letters, digits and -";
                return Err(refused("header name", name, help));
            }
            if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                let help = "bellows writes it itself, leave it out";
                return Err(refused("header", name, help));
            }
            let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
            if value.bytes().any(is_control) {
                let help = "its value has no line ends and no control characters";
                return Err(refused("header", name, help));
            }
        }
        Ok(())
    }
}

fn refused(part: &'static str, observed: &str, help: &'static str) -> HttpError {
    HttpError::Request {
        part,
        observed: observed.chars().take(100).collect(),
        help,
    }
}

/// Whether it is a `token` of RFC 9110.
fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(method: &str, target: &str, header: (&str, &str)) -> Result<String, HttpError> {
        let mut output = Vec::new();
        let headers = [(header.0.to_owned(), header.1.to_owned())];
        let request = RequestHead {
            method,
            target,
            host: "localhost:80",
            headers: &headers,
        };
        let result = request.encode(&mut output);
        assert_eq!(result.is_err(), output.is_empty(), "all or nothing");
        result.map(|()| String::from_utf8_lossy(&output).into_owned())
    }

    #[test]
    fn a_head_is_written_whole() {
        assert_eq!(
            encoded("GET", "/a?b=c%20d", ("Accept", "*/*")).as_deref(),
            Ok("GET /a?b=c%20d HTTP/1.1\r\nHost: localhost:80\r\nAccept: */*\r\n\r\n")
        );
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
}
