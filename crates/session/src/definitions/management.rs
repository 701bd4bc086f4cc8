//! RabbitMQ's management API, as far as definitions need it.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use measure::Problem;
use serde_json::{Map, Value};
use ureq::Agent;
use ureq::http::{Method, StatusCode, Uri};

use super::{Definitions, brief};
use crate::Error;
use crate::experiment::Hidden;
use crate::http::{tls, told};

/// Objects of a request: many take long until there is progress, few cost a request each.
const TOGETHER: usize = 500;
/// The longest that a request may take.
const TIMEOUT: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an export: 1,000,000 queues have 200 MB.
const MOST_EXPORTED: u64 = 2 << 30;
/// Bytes of an answer that says what is wrong.
const MOST_SAID: u64 = 500;
/// Requests that delete at the same time.
const AT_ONCE: usize = 8;
/// How often whoever watches a deletion is told.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Where the API is, and who logs in.
#[derive(Clone, Debug)]
pub struct ManagementOptions {
    /// `http://HOST:15672`, perhaps with a path before `/api`.
    pub url: String,
    /// Who logs in.
    pub user: String,
    /// By this password.
    pub password: Hidden,
    /// A file of certificates of authorities; `None`: the machine's own.
    pub ca: Option<PathBuf>,
}

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What is imported or deleted now: `queues`.
    pub section: &'static str,
    /// Objects that are done, of all sections.
    pub done: u64,
    /// Objects of all sections.
    pub of: u64,
}

/// The API of a broker.
#[derive(Debug)]
pub struct Management {
    agent: Agent,
    base: String,
    authorization: Hidden,
}

impl Management {
    /// The API at an address; nothing is asked yet.
    ///
    /// # Errors
    /// The address or the certificates make no sense.
    pub fn new(options: &ManagementOptions) -> Result<Self, Error> {
        use base64::Engine as _;
        let shown = crate::redact::url(&options.url);
        let refuse = |why: &str| {
            let cause = format!("{shown} is no address of a management API");
            Problem::new(cause, why, "write it as http://localhost:15672")
        };
        let uri: Uri = options
            .url
            .trim()
            .parse()
            .map_err(|_| refuse("it is no URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(refuse("it does not begin with http:// or https://").into());
        }
        if uri.authority().is_none_or(|it| it.as_str().contains('@')) {
            return Err(
                refuse("give the user with --user, and the password in BELLOWS_PASSWORD").into(),
            );
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            // A redirection would send the password to somebody else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections_per_host(AT_ONCE)
            .tls_config(tls(options.ca.as_deref())?)
            .user_agent(concat!("bellows/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        let pair = format!("{}:{}", options.user, options.password.expose());
        let pair = base64::engine::general_purpose::STANDARD.encode(pair);
        Ok(Self {
            agent,
            base: options.url.trim().trim_end_matches('/').to_owned(),
            authorization: Hidden::new(format!("Basic {pair}")),
        })
    }

    /// All definitions, or those of a virtual host.
    ///
    /// # Errors
    /// The API refuses, or does not answer.
    pub fn export(&self, vhost: Option<&str>) -> Result<Definitions, Error> {
        let path = definitions_path(vhost);
        let body = self.ask(&Method::GET, &path, None, "export definitions")?;
        Ok(Definitions::parse(&body, &format!("{}{path}", self.base))?)
    }

    /// Imports definitions part by part, and tells how far it is; ends early where `progress` says no, and says how far it
    /// came.
    ///
    /// # Errors
    /// The API refuses a part, or does not answer. What was imported before stays.
    pub fn import(
        &self,
        definitions: &Definitions,
        vhost: Option<&str>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Stage, Error> {
        let path = definitions_path(vhost);
        let mut stage = Stage {
            section: "",
            done: 0,
            of: definitions.count(),
        };
        for (section, objects) in definitions.in_order() {
            stage.section = section;
            for part in objects.chunks(TOGETHER) {
                if !progress(stage) {
                    return Ok(stage);
                }
                let part_of = Map::from_iter([(section.to_owned(), Value::from(part.to_vec()))]);
                let body = Value::Object(part_of).to_string();
                let what = format!("import {section}");
                self.ask(&Method::POST, &path, Some(body.as_bytes()), &what)?;
                stage.done += part.len() as u64;
            }
        }
        progress(stage);
        Ok(stage)
    }

    /// Deletes the queues, exchanges and policies of definitions, and with them their bindings. Those that are not
    /// there are passed over; users, virtual hosts and parameters stay. Ends early where `progress` says no.
    ///
    /// # Errors
    /// The API refuses one, or does not answer. What was deleted before is gone.
    pub fn delete(
        &self,
        definitions: &Definitions,
        vhost: Option<&str>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Stage, Error> {
        let sections = ["queues", "exchanges", "policies"];
        let all: Vec<(&'static str, Vec<String>)> = sections
            .into_iter()
            .map(|section| Ok((section, paths(definitions, section, vhost)?)))
            .collect::<Result<_, Problem>>()?;
        let mut stage = Stage {
            section: "",
            done: 0,
            of: all.iter().map(|(_, paths)| paths.len() as u64).sum(),
        };
        for (section, paths) in &all {
            stage.section = section;
            let deleted = self.delete_all(paths, stage, progress)?;
            stage.done += deleted;
            if deleted < paths.len() as u64 {
                return Ok(stage);
            }
        }
        progress(stage);
        Ok(stage)
    }

    fn delete_all(
        &self,
        paths: &[String],
        before: Stage,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<u64, Error> {
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (stop, failed) = (AtomicBool::new(false), Mutex::new(None));
        let is_over = || stop.load(Ordering::Relaxed);
        let work = || {
            while let Some(path) = paths
                .get(next.fetch_add(1, Ordering::Relaxed))
                .filter(|_| !is_over())
            {
                match self.ask(&Method::DELETE, path, None, "delete an object") {
                    Ok(_) => {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(e) => {
                        stop.store(true, Ordering::Relaxed);
                        if let Ok(mut first) = failed.lock() {
                            first.get_or_insert(e);
                        }
                    }
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE.min(paths.len()))
                .map(|_| scope.spawn(work))
                .collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                let so_far = before.done + done.load(Ordering::Relaxed);
                if !progress(Stage {
                    done: so_far,
                    ..before
                }) {
                    stop.store(true, Ordering::Relaxed);
                }
                thread::sleep(POLL_INTERVAL);
            }
        });
        match failed.into_inner() {
            Ok(Some(error)) => Err(error),
            _ => Ok(done.into_inner()),
        }
    }

    /// The answer to a request.
    fn ask(
        &self,
        method: &Method,
        path: &str,
        body: Option<&[u8]>,
        what: &str,
    ) -> Result<Vec<u8>, Error> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("Authorization", self.authorization.expose())
            .header("Content-Type", "application/json")
            .body(body.unwrap_or_default());
        let request =
            request.map_err(|e| self.problem(what, &e.to_string(), "check the address"))?;
        let answer = self.agent.run(request);
        let mut answer = answer.map_err(|e| {
            self.problem(
                what,
                &told(&e),
                "check that the plugin rabbitmq_management is enabled, and host and port (15672 is usual)",
            )
        })?;
        let status = answer.status();
        let is_gone = *method == Method::DELETE && status == StatusCode::NOT_FOUND;
        let most = if status.is_success() {
            MOST_EXPORTED
        } else {
            MOST_SAID
        };
        let mut read = Vec::new();
        let result = answer
            .body_mut()
            .as_reader()
            .take(most)
            .read_to_end(&mut read);
        if status.is_success() || is_gone {
            result.map_err(|e| self.problem(what, &e.to_string(), "try again"))?;
            return Ok(read);
        }
        let said = String::from_utf8_lossy(&read).replace(char::is_control, " ");
        let said = said.replace(self.authorization.expose(), crate::redact::BLOT);
        Err(self.problem(what, format!("{status} {said}").trim_end(), remedy(status)))
    }

    fn problem(&self, what: &str, why: &str, help: &str) -> Error {
        let url = crate::redact::url(&self.base);
        Problem::new(format!("cannot {what} at {url}"), why, help).into()
    }
}

fn remedy(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => {
            "give --user, and the password in BELLOWS_PASSWORD; the user needs the tag administrator"
        }
        403 => "the user needs the tag administrator",
        404 => {
            "check that this is the port of RabbitMQ's management API, and that the virtual host exists"
        }
        405 => "give the address without a path, such as http://localhost:15672",
        300..=399 => "give the address that it redirects to",
        400 => "correct what RabbitMQ names; an import keeps the parts before this one",
        _ => "see the broker's log",
    }
}

fn definitions_path(vhost: Option<&str>) -> String {
    match vhost {
        None => "/api/definitions".to_owned(),
        Some(vhost) => format!("/api/definitions/{}", escaped(vhost)),
    }
}

/// The paths of the objects of a section that can be deleted: the broker's own exchanges cannot.
fn paths(
    definitions: &Definitions,
    section: &'static str,
    vhost: Option<&str>,
) -> Result<Vec<String>, Problem> {
    let objects = definitions.sections.get(section).into_iter().flatten();
    let mut paths = Vec::new();
    for object in objects {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let (Some(name), Some(vhost)) = (text("name"), vhost.or_else(|| text("vhost"))) else {
            let cause = format!("an object of {section} has no name or no virtual host");
            let help = "give its virtual host with --vhost, or correct the file";
            return Err(Problem::new(cause, brief(object), help));
        };
        if section == "exchanges" && (name.is_empty() || name.starts_with("amq.")) {
            continue;
        }
        paths.push(format!(
            "/api/{section}/{}/{}",
            escaped(vhost),
            escaped(name)
        ));
    }
    Ok(paths)
}

/// A name as a part of a path.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            // A part that is `.` or `..` would be taken for another folder.
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parts_of_paths_whatever_they_hold() {
        assert_eq!(escaped("/"), "%2F");
        assert_eq!(escaped(".."), "%2E%2E");
        assert_eq!(escaped("a b?é#"), "a%20b%3F%C3%A9%23");
        let text =
            br#"{"exchanges": [{"name": "", "vhost": "/"}, {"name": "amq.topic", "vhost": "/"},
            {"name": "x/y", "vhost": "v"}], "queues": [{"name": "q"}]}"#;
        let definitions = Definitions::parse(text, "x").unwrap();
        let exchanges = paths(&definitions, "exchanges", None).unwrap();
        assert_eq!(exchanges, ["/api/exchanges/v/x%2Fy"]);
        assert!(paths(&definitions, "queues", None).is_err());
        let queues = paths(&definitions, "queues", Some("/")).unwrap();
        assert_eq!(queues, ["/api/queues/%2F/q"]);
    }
}
