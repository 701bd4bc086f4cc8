//! Files of definitions, in RabbitMQ's own form: made, exported from a broker, imported into one, and deleted again.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use measure::Problem;
use serde_json::{Map, Value, json};
use ureq::http::Method;

use super::management::{AT_ONCE, Management, escaped};

/// Sections in the order in which they can be imported: each names objects of earlier ones.
const SECTIONS: [&str; 10] = [
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "exchanges",
    "queues",
    "bindings",
];
/// Queues that are made at most: what RabbitMQ has a process each for.
pub const MOST_QUEUES: u32 = 2_000_000;

/// Objects of a broker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    sections: BTreeMap<String, Vec<Value>>,
    /// Everything else that the file says, such as the broker's version.
    others: Map<String, Value>,
}

/// Options for queues to generate.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// How many.
    pub queues: u32,
    /// Their type: `classic`, `quorum`, `stream`.
    pub queue_type: String,
    /// The beginning of their names; a number follows.
    pub prefix: String,
    /// Their virtual host.
    pub vhost: String,
    /// An exchange that is bound to each of them by its name; none where that is `None`.
    pub exchange: Option<String>,
    /// The type of that exchange.
    pub exchange_type: String,
    /// Bindings of each queue to that exchange.
    pub bindings: u32,
}

/// Whether a section's objects may hold passwords.
fn is_secret(section: &str) -> bool {
    section == "users" || section.ends_with("parameters")
}

/// The name within an object that is no text. RabbitMQ 4.0 takes a number, and then cannot delete the object.
fn unnamed(object: &Value) -> Option<&'static str> {
    const NAMES: [&str; 5] = ["name", "vhost", "source", "destination", "routing_key"];
    let is_wrong = |name: &&&str| object.get(**name).is_some_and(|it| !it.is_string());
    NAMES.iter().find(is_wrong).copied()
}

impl Definitions {
    /// Reads a file. Errors: it is no JSON, or no definitions.
    pub fn parse(text: &[u8], name: &str) -> Result<Self, Problem> {
        const HELP: &str = "make one with `bellows topology generate` or `export`, or rabbitmqctl export_definitions";
        let refuse = |why: String| Problem::new(format!("{name} has no definitions of RabbitMQ"), why, HELP);
        let value: Map<String, Value> = serde_json::from_slice(text).map_err(|e| refuse(e.to_string()))?;
        let mut found = Self::default();
        for (key, value) in value {
            let seen = |value: &Value| if is_secret(&key) { crate::redact::BLOT.to_owned() } else { brief(value) };
            match (SECTIONS.contains(&key.as_str()), value) {
                (true, Value::Array(objects)) => {
                    if let Some((object, part)) = objects.iter().find_map(|it| Some((it, unnamed(it)?))) {
                        let seen = seen(object);
                        return Err(refuse(format!("{part} of one of its {key} is not text: {seen}")));
                    }
                    found.sections.insert(key, objects);
                }
                (true, other) => return Err(refuse(format!("{key} is not a list: {}", seen(&other)))),
                (false, other) => {
                    found.others.insert(key, other);
                }
            }
        }
        if found.sections.is_empty() {
            return Err(refuse(format!("it has none of {}", SECTIONS.join(", "))));
        }
        Ok(found)
    }

    /// Makes queues, and bindings where an exchange is named.
    pub fn generate(options: &GenerateOptions) -> Self {
        let vhost = &options.vhost;
        // Called as a load calls its destinations.
        let names = || (0..options.queues).map(move |number| format!("{}{number}", options.prefix));
        let arguments = match options.queue_type.as_str() {
            "classic" => json!({}),
            other => json!({ "x-queue-type": other }),
        };
        let queues = names().map(|name| {
            json!({"name": name, "vhost": vhost, "durable": true, "auto_delete": false,
                "arguments": arguments})
        });
        let mut made = Self::default();
        made.sections.insert("queues".to_owned(), queues.collect());
        if let Some(exchange) = &options.exchange {
            let declared = json!({"name": exchange, "vhost": vhost, "type": options.exchange_type,
                "durable": true, "auto_delete": false, "internal": false, "arguments": {}});
            made.sections.insert("exchanges".to_owned(), vec![declared]);
            let bindings = names().flat_map(|name| {
                (0..options.bindings.max(1)).map(move |number| {
                    let key = match number {
                        0 => name.clone(),
                        number => format!("{name}.{number}"),
                    };
                    // Headers exchanges do not look at routing keys, and without a header all messages match.
                    let arguments = match options.exchange_type.as_str() {
                        "headers" => json!({"x-match": "all", "queue": key}),
                        _ => json!({}),
                    };
                    json!({"source": exchange, "vhost": vhost, "destination": name,
                        "destination_type": "queue", "routing_key": key, "arguments": arguments})
                })
            });
            made.sections.insert("bindings".to_owned(), bindings.collect());
        }
        made
    }

    /// The file, with one object on each line, so that it can be looked at and compared.
    pub fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        let mut first = true;
        out.write_all(b"{")?;
        let mut separate = |out: &mut dyn std::io::Write, key: &str| {
            let comma = if std::mem::take(&mut first) { "\n" } else { ",\n" };
            write!(out, "{comma}{}: ", Value::from(key))
        };
        for (key, value) in &self.others {
            separate(out, key)?;
            write!(out, "{value}")?;
        }
        // Empty ones too: a virtual host without anything in it has definitions.
        let sections = SECTIONS.into_iter();
        let sections = sections.filter_map(|key| Some((key, self.sections.get(key)?)));
        for (key, objects) in sections {
            separate(out, key)?;
            out.write_all(b"[")?;
            for (number, object) in objects.iter().enumerate() {
                let comma = if number == 0 { "\n" } else { ",\n" };
                write!(out, "{comma}  {object}")?;
            }
            out.write_all(b"\n]")?;
        }
        out.write_all(b"\n}\n")
    }

    /// Sections that have objects, in the order in which they can be imported.
    pub fn in_order(&self) -> impl Iterator<Item = (&'static str, &[Value])> {
        SECTIONS.into_iter().filter_map(|section| {
            let objects = self.sections.get(section)?;
            (!objects.is_empty()).then_some((section, objects.as_slice()))
        })
    }

    /// How many objects there are.
    pub fn count(&self) -> u64 {
        self.in_order().map(|(_, objects)| objects.len() as u64).sum()
    }
}

/// The beginning of a value, for a message.
fn brief(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

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
    pub fn export(&self, vhost: Option<&str>) -> Result<Definitions, Problem> {
        self.check_vhost(vhost)?;
        let path = definitions_path(vhost);
        let body = self.ask(&Method::GET, &path, None, "export definitions", MOST_EXPORTED)?;
        Definitions::parse(&body, &self.address(&path))
    }

    /// Imports definitions part by part, and tells how far it is; ends early where `progress` says no, and says how far
    /// it came. Errors: the API refuses a part, or does not answer. What was imported before stays.
    pub fn import(
        &self,
        definitions: &Definitions,
        vhost: Option<&str>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Stage, Problem> {
        self.check_vhost(vhost)?;
        let path = definitions_path(vhost);
        let mut stage = Stage { section: "", done: 0, absent: 0, of: definitions.count() };
        for (section, objects) in definitions.in_order() {
            stage.section = section;
            for part in objects.chunks(TOGETHER) {
                if !progress(stage) {
                    return Ok(stage);
                }
                let part_of = Map::from_iter([(section.to_owned(), Value::from(part.to_vec()))]);
                let body = Value::Object(part_of).to_string();
                self.ask(&Method::POST, &path, Some(body.as_bytes()), &format!("import {section}"), MOST_EXPORTED)?;
                stage.done += part.len() as u64;
            }
        }
        progress(stage);
        Ok(stage)
    }

    /// Deletes the queues, exchanges and policies of definitions, and with them their bindings. Those that are not
    /// there are counted, and no failure; users, virtual hosts and parameters stay. Ends early where `progress` says
    /// no. Errors: the API refuses one, or does not answer. What was deleted before is gone.
    pub fn delete(
        &self,
        definitions: &Definitions,
        vhost: Option<&str>,
        progress: &mut dyn FnMut(Stage) -> bool,
    ) -> Result<Stage, Problem> {
        self.check_vhost(vhost)?;
        let all = ["queues", "exchanges", "policies"]
            .into_iter()
            .map(|section| Ok((section, paths(definitions, section, vhost)?)))
            .collect::<Result<Vec<_>, Problem>>()?;
        let of = all.iter().map(|(_, paths)| paths.len() as u64).sum();
        let mut stage = Stage { section: "", done: 0, absent: 0, of };
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
        let Some(vhost) = vhost else { return Ok(()) };
        let get = |path: &str| self.ask(&Method::GET, path, None, "look for the virtual host", MOST_VHOSTS);
        match get(&format!("/api/vhosts/{}", escaped(vhost))) {
            Ok(_) => return Ok(()),
            Err(error) if !error.not_found => return Err(error.into()),
            Err(_) => {}
        }
        // Any server may have nothing at a path: only RabbitMQ tells which there are.
        let body = get("/api/vhosts?columns=name")?;
        let known = vhost_names(&body);
        let cause = format!("there is no virtual host {vhost:?} at {}", self.address(""));
        let help = "correct --vhost, or make it first: rabbitmqctl add_vhost NAME";
        Err(Problem::new(cause, format!("there is {}", listed(&known)), help))
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
            while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !is_over()) {
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
            let workers: Vec<_> = (0..AT_ONCE.min(paths.len())).map(|_| scope.spawn(work)).collect();
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
    list.iter().filter_map(|it| it.get("name")?.as_str()).map(|name| format!("{name:?}")).collect()
}

/// The first of some names, and how many more there are.
fn listed(names: &[String]) -> String {
    let shown = names.get(..MOST_NAMED.min(names.len())).unwrap_or_default();
    match (names.len(), names.len() - shown.len()) {
        (0, _) => "none that this user may see".to_owned(),
        (_, 0) => shown.join(", "),
        (_, more) => format!("{} and {} more", shown.join(", "), measure::count(more as u64)),
    }
}

fn definitions_path(vhost: Option<&str>) -> String {
    match vhost {
        None => "/api/definitions".to_owned(),
        Some(vhost) => format!("/api/definitions/{}", escaped(vhost)),
    }
}

/// The paths of the objects of a section that can be deleted: the broker's own exchanges cannot.
fn paths(definitions: &Definitions, section: &'static str, vhost: Option<&str>) -> Result<Vec<String>, Problem> {
    let objects = definitions.sections.get(section).into_iter().flatten();
    let mut paths = Vec::new();
    for object in objects {
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let (Some(name), Some(vhost)) = (text("name"), vhost.or_else(|| text("vhost"))) else {
            let cause = format!("an object of {section} has no name or no virtual host");
            return Err(Problem::new(cause, brief(object), "give its virtual host with --vhost, or correct the file"));
        };
        if section == "exchanges" && (name.is_empty() || name.starts_with("amq.")) {
            continue;
        }
        check_path(section, name, vhost).map_err(|cause| {
            let help = "nothing was deleted; delete it otherwise (rabbitmqctl delete_queue, or rabbitmqctl \
                eval), and take it out of the file";
            Problem::new(cause, format!("{name:?} in the virtual host {vhost:?}"), help)
        })?;
        paths.push(format!("/api/{section}/{}/{}", escaped(vhost), escaped(name)));
    }
    Ok(paths)
}

/// Whether the API deletes the very object that has this name; else why not.
fn check_path(section: &str, name: &str, vhost: &str) -> Result<(), String> {
    // Also where they are escaped: the server decodes a path before it takes these out.
    if [name, vhost].iter().any(|part| matches!(*part, "." | "..")) {
        return Err(format!("the management API cannot delete objects that are named . or ..: one of {section}"));
    }
    // Without them it may be the name of another, which would be deleted instead. AMQP deletes no policies.
    if section != "policies" && name.contains(['\r', '\n']) {
        return Err(format!("RabbitMQ cannot delete objects with line breaks in their names: one of {section}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(queues: u32) -> GenerateOptions {
        GenerateOptions {
            queues,
            queue_type: "quorum".to_owned(),
            prefix: "q-".to_owned(),
            vhost: "/".to_owned(),
            exchange: Some("in".to_owned()),
            exchange_type: "topic".to_owned(),
            bindings: 2,
        }
    }

    /// Paths of what a section of these definitions names.
    fn paths_of(told: &Value, section: &'static str, vhost: Option<&str>) -> Result<Vec<String>, Problem> {
        let definitions = Definitions::parse(told.to_string().as_bytes(), "x").unwrap();
        paths(&definitions, section, vhost)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let made = Definitions::generate(&options(11));
        let mut text = Vec::new();
        made.write(&mut text).unwrap();
        assert_eq!(Definitions::parse(&text, "x").unwrap(), made);
        assert_eq!(made.count(), 11 + 1 + 22);
        let sections: Vec<_> = made.in_order().map(|(section, _)| section).collect();
        assert_eq!(sections, ["exchanges", "queues", "bindings"]);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\"name\":\"q-0\"") && text.contains("\"name\":\"q-10\""), "{text}");
        assert!(text.contains("\"routing_key\":\"q-3.1\""), "{text}");
        assert_eq!(text.lines().count(), 2 + 3 * 2 + 34, "an object a line");
        // A binding without a header takes every message of a headers exchange.
        let by_header = Definitions::generate(&GenerateOptions { exchange_type: "headers".to_owned(), ..options(2) });
        let bindings = &by_header.sections["bindings"];
        let header = |binding: &Value| binding["arguments"]["queue"].as_str().map(str::to_owned);
        assert_eq!(bindings.iter().filter_map(header).collect::<Vec<_>>(), ["q-0", "q-0.1", "q-1", "q-1.1"]);
    }

    #[test]
    fn what_is_no_definitions_is_refused_with_a_remedy() {
        for (text, why) in [
            ("[1]", "invalid type"),
            ("{", "EOF"),
            ("{\"a\": 1}", "none of users"),
            ("{\"queues\": {\"a\": 1}}", "queues is not a list: {\"a\":1}"),
        ] {
            let problem = Definitions::parse(text.as_bytes(), "f.json").unwrap_err();
            assert!(problem.value.contains(why), "{problem:?}");
            assert!(problem.cause.contains("f.json"), "{problem:?}");
        }
        let secret = Definitions::parse(b"{\"users\": {\"password\": \"s3cret\"}}", "f.json");
        let told = format!("{:?}", secret.unwrap_err());
        assert!(!told.contains("s3cret"), "{told}");
        let kept = Definitions::parse(b"{\"queues\": [], \"rabbit_version\": \"4.0\"}", "x").unwrap();
        assert_eq!((kept.count(), kept.others.len()), (0, 1));
        let mut text = Vec::new();
        kept.write(&mut text).unwrap();
        assert_eq!(Definitions::parse(&text, "x").unwrap(), kept, "nothing in it");
    }

    #[test]
    fn virtual_hosts_are_named_up_to_a_few() {
        assert_eq!(listed(&vhost_names(br#"[{"name": "/"}, {"name": "a\nb"}, {"x": 1}]"#)), r#""/", "a\nb""#);
        assert_eq!(listed(&vhost_names(b"<html>")), "none that this user may see");
        let many: Vec<String> = (0..10).map(|it| it.to_string()).collect();
        assert_eq!(listed(&many), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }

    #[test]
    fn the_brokers_own_exchanges_are_not_deleted_and_what_no_path_can_name_is_told_before() {
        let told = json!({"exchanges": [{"name": "", "vhost": "/"}, {"name": "amq.topic", "vhost": "/"},
            {"name": "x/y", "vhost": "v"}], "queues": [{"name": "q"}]});
        assert_eq!(paths_of(&told, "exchanges", None).unwrap(), ["/api/exchanges/v/x%2Fy"]);
        assert!(paths_of(&told, "queues", None).is_err());
        assert_eq!(paths_of(&told, "queues", Some("/")).unwrap(), ["/api/queues/%2F/q"]);
        for (name, vhost) in [(".", "/"), ("..", "/"), ("q", "..")] {
            let told = json!({"queues": [{"name": "q", "vhost": "/"}, {"name": name, "vhost": vhost}]});
            let problem = paths_of(&told, "queues", None).unwrap_err();
            assert!(problem.value.contains(name), "{problem:?}");
        }
        for (section, name) in [("queues", "n\nl"), ("queues", "nl\r"), ("exchanges", "\r\n")] {
            let told = json!({section: [{"name": "nl", "vhost": "/"}, {"name": name, "vhost": "/"}]});
            let problem = paths_of(&told, section, None).unwrap_err();
            assert!(problem.cause.contains("line breaks"), "{problem:?}");
        }
        for (section, name, vhost, path) in [
            ("policies", "a\nb", "/", "/api/policies/%2F/a%0Ab"),
            ("queues", "a b?é#", "/", "/api/queues/%2F/a%20b%3F%C3%A9%23"),
            ("queues", "...", ".a", "/api/queues/%2Ea/%2E%2E%2E"),
        ] {
            let told = json!({section: [{"name": name, "vhost": vhost}]});
            assert_eq!(paths_of(&told, section, None).unwrap(), [path]);
        }
    }
}
