//! Definitions are exported, imported and deleted by RabbitMQ's management API.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use measure::Problem;
use serde_json::{Map, Value};
use ureq::http::Method;

use super::{Definitions, brief};
use crate::management::{AT_ONCE, Management, escaped};

/// Objects of a request: many take long until there is progress, few cost a request each.
const TOGETHER: usize = 500;
/// Bytes of an export: 1,000,000 queues have 200 MB.
const MOST_EXPORTED: u64 = 2 << 30;
/// Bytes of a list of virtual hosts.
const MOST_VHOSTS: u64 = 16 << 20;
/// Virtual hosts that are named where one is not there.
const MOST_NAMED: usize = 8;
/// How often whoever watches a deletion is told.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How far something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The section that is imported or deleted now: `queues`.
    pub section: &'static str,
    /// Objects that are done, of all sections.
    pub done: u64,
    /// Objects among them that were not there to be deleted.
    pub absent: u64,
    /// Objects of all sections.
    pub of: u64,
}

impl Management {
    /// All definitions, or those of a virtual host.
    ///
    /// # Errors
    /// The API refuses, or does not answer.
    pub fn export(&self, vhost: Option<&str>) -> Result<Definitions, Problem> {
        self.check_vhost(vhost)?;
        let path = definitions_path(vhost);
        let body = self.ask(
            &Method::GET,
            &path,
            None,
            "export definitions",
            MOST_EXPORTED,
        )?;
        Definitions::parse(&body, &self.address(&path))
    }

    /// Imports definitions part by part, and tells how far it is; ends early where `progress` says no, and says how far
    /// it came.
    ///
    /// # Errors
    /// The API refuses a part, or does not answer. What was imported before stays.
    pub fn import(
        &self,
        definitions: &Definitions,
        vhost: Option<&str>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Stage, Problem> {
        self.check_vhost(vhost)?;
        let path = definitions_path(vhost);
        let mut stage = Stage {
            section: "",
            done: 0,
            absent: 0,
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
                self.ask(
                    &Method::POST,
                    &path,
                    Some(body.as_bytes()),
                    &what,
                    MOST_EXPORTED,
                )?;
                stage.done += part.len() as u64;
            }
        }
        progress(stage);
        Ok(stage)
    }

    /// Deletes the queues, exchanges and policies of definitions, and with them their bindings. Those that are not
    /// there are counted, and no failure; users, virtual hosts and parameters stay. Ends early where `progress` says
    /// no.
    ///
    /// # Errors
    /// The API refuses one, or does not answer. What was deleted before is gone.
    pub fn delete(
        &self,
        definitions: &Definitions,
        vhost: Option<&str>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Stage, Problem> {
        self.check_vhost(vhost)?;
        let sections = ["queues", "exchanges", "policies"];
        let all: Vec<(&'static str, Vec<String>)> = sections
            .into_iter()
            .map(|section| Ok((section, paths(definitions, section, vhost)?)))
            .collect::<Result<_, Problem>>()?;
        let mut stage = Stage {
            section: "",
            done: 0,
            absent: 0,
            of: all.iter().map(|(_, paths)| paths.len() as u64).sum(),
        };
        for (section, paths) in &all {
            stage.section = section;
            let before = stage.done;
            stage = self.delete_all(paths, stage, progress)?;
            if stage.done - before < paths.len() as u64 {
                return Ok(stage);
            }
        }
        progress(stage);
        Ok(stage)
    }

    /// Whether a virtual host that was named is there: in one that is not, nothing is found.
    fn check_vhost(&self, vhost: Option<&str>) -> Result<(), Problem> {
        let Some(vhost) = vhost else {
            return Ok(());
        };
        let get = |path: &str| {
            let what = "look for the virtual host";
            self.ask(&Method::GET, path, None, what, MOST_VHOSTS)
        };
        match get(&format!("/api/vhosts/{}", escaped(vhost))) {
            Ok(_) => return Ok(()),
            Err(error) if !error.not_found => return Err(error.into()),
            Err(_) => {}
        }
        // Any server may have nothing at a path: only RabbitMQ tells which there are.
        let body = get("/api/vhosts?columns=name")?;
        let known = vhost_names(&body);
        Err(Problem::new(
            format!("there is no virtual host {vhost:?} at {}", self.address("")),
            format!("there is {}", listed(&known)),
            "correct --vhost, or make it first: rabbitmqctl add_vhost NAME",
        ))
    }

    fn delete_all(
        &self,
        paths: &[String],
        before: Stage,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Stage, Problem> {
        let next = AtomicUsize::new(0);
        let (done, absent) = (AtomicU64::new(0), AtomicU64::new(0));
        let (stop, failed) = (AtomicBool::new(false), Mutex::new(None));
        let is_over = || stop.load(Ordering::Relaxed);
        let work = || {
            while let Some(path) = paths
                .get(next.fetch_add(1, Ordering::Relaxed))
                .filter(|_| !is_over())
            {
                match self.delete_one(path) {
                    Ok(was_there) => {
                        absent.fetch_add((!was_there).into(), Ordering::Relaxed);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(e) => {
                        stop.store(true, Ordering::Relaxed);
                        if let Ok(mut first) = failed.lock() {
                            first.get_or_insert(Problem::from(e));
                        }
                    }
                }
            }
        };
        let so_far = || Stage {
            done: before.done + done.load(Ordering::Relaxed),
            absent: before.absent + absent.load(Ordering::Relaxed),
            ..before
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..AT_ONCE.min(paths.len()))
                .map(|_| scope.spawn(work))
                .collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                if !progress(so_far()) {
                    stop.store(true, Ordering::Relaxed);
                }
                thread::sleep(POLL_INTERVAL);
            }
        });
        match failed.into_inner() {
            Ok(Some(error)) => Err(error),
            _ => Ok(so_far()),
        }
    }
}

/// The names in a list of virtual hosts.
fn vhost_names(body: &[u8]) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_slice(body).unwrap_or_default();
    let names = list.iter().filter_map(|it| it.get("name")?.as_str());
    names.map(|name| format!("{name:?}")).collect()
}

/// The first of some names, and how many more there are.
fn listed(names: &[String]) -> String {
    let shown = names.get(..MOST_NAMED.min(names.len())).unwrap_or_default();
    match (names.len(), names.len() - shown.len()) {
        (0, _) => "none that this user may see".to_owned(),
        (_, 0) => shown.join(", "),
        (_, more) => format!(
            "{} and {} more",
            shown.join(", "),
            measure::count(more as u64)
        ),
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
        check_path(section, name, vhost).map_err(|cause| {
            let help = "nothing was deleted; delete it in another way (rabbitmqctl delete_queue, or rabbitmqctl eval), and take it out of the file";
            Problem::new(cause, format!("{name:?} in the virtual host {vhost:?}"), help)
        })?;
        paths.push(format!(
            "/api/{section}/{}/{}",
            escaped(vhost),
            escaped(name)
        ));
    }
    Ok(paths)
}

/// Whether the API deletes the very object that has this name; else why not.
fn check_path(section: &str, name: &str, vhost: &str) -> Result<(), String> {
    // Also where they are escaped: the server decodes a path before it takes these out.
    if [name, vhost].iter().any(|part| matches!(*part, "." | "..")) {
        return Err(format!(
            "the management API cannot delete objects that are named . or ..: one of {section}"
        ));
    }
    // Without them it may be the name of another, which would be deleted in its place. Policies are not deleted by
    // AMQP.
    if section != "policies" && name.contains(['\r', '\n']) {
        return Err(format!(
            "RabbitMQ takes line breaks out of the names of what it deletes: one of {section} has such a name"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn virtual_hosts_are_named_up_to_a_few() {
        let body = br#"[{"name": "/"}, {"name": "a\nb"}, {"x": 1}]"#;
        assert_eq!(listed(&vhost_names(body)), r#""/", "a\nb""#);
        assert_eq!(
            listed(&vhost_names(b"<html>")),
            "none that this user may see"
        );
        let many: Vec<String> = (0..10).map(|it| it.to_string()).collect();
        assert_eq!(listed(&many), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }

    #[test]
    fn the_brokers_own_exchanges_are_not_deleted() {
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

    #[test]
    fn what_no_path_can_name_is_told_before_anything_is_deleted() {
        for (name, vhost) in [(".", "/"), ("..", "/"), ("q", "..")] {
            let text =
                json!({"queues": [{"name": "q", "vhost": "/"}, {"name": name, "vhost": vhost}]});
            let definitions = Definitions::parse(text.to_string().as_bytes(), "x").unwrap();
            let problem = paths(&definitions, "queues", None).unwrap_err();
            assert!(problem.value.contains(name), "{problem:?}");
        }
        for (section, name) in [
            ("queues", "n\nl"),
            ("queues", "nl\r"),
            ("exchanges", "\r\n"),
        ] {
            let text =
                json!({section: [{"name": "nl", "vhost": "/"}, {"name": name, "vhost": "/"}]});
            let definitions = Definitions::parse(text.to_string().as_bytes(), "x").unwrap();
            let problem = paths(&definitions, section, None).unwrap_err();
            assert!(problem.cause.contains("line breaks"), "{problem:?}");
        }
        let text = br#"{"policies": [{"name": "a\nb", "vhost": "/"}]}"#;
        let definitions = Definitions::parse(text, "x").unwrap();
        let policies = paths(&definitions, "policies", None).unwrap();
        assert_eq!(policies, ["/api/policies/%2F/a%0Ab"]);
        let text = br#"{"queues": [{"name": "...", "vhost": ".a"}]}"#;
        let definitions = Definitions::parse(text, "x").unwrap();
        let queues = paths(&definitions, "queues", None).unwrap();
        assert_eq!(queues, ["/api/queues/%2Ea/%2E%2E%2E"]);
    }
}
