//! Ports that a node is told to listen on beside AMQP: those that `broker.config` names, and those that plugins have
//! where it names none. One that somebody else has is known before the node is started, and named with its key.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use linux::{processes, sockets};

use super::super::{
    BrokerError,
    managed::{Waiting, free_ports},
};
use super::Config;
use crate::guardian::clean_leftovers;
use experiment::MOST_NODES;

/// Tries with other ports, where somebody took one before a node did.
const ATTEMPTS: u32 = 3;
/// Plugins that listen, each with the key of its port and the port where that is not set.
const LISTENING: [(&str, &str, u16); 7] = [
    ("rabbitmq_management", "management.tcp.port", 15_672),
    ("rabbitmq_prometheus", "prometheus.tcp.port", 15_692),
    ("rabbitmq_mqtt", "mqtt.listeners.tcp.default", 1_883),
    ("rabbitmq_stomp", "stomp.listeners.tcp.default", 61_613),
    ("rabbitmq_stream", "stream.listeners.tcp.default", 5_552),
    ("rabbitmq_web_mqtt", "web_mqtt.tcp.port", 15_675),
    ("rabbitmq_web_stomp", "web_stomp.tcp.port", 15_674),
];

#[derive(Clone, Debug, PartialEq, Eq)]
struct ListenerPort {
    /// The key of `rabbitmq.conf`.
    key: String,
    /// Where; `None` for all addresses.
    ip: Option<IpAddr>,
    port: u16,
    /// A plugin has it because nothing else is said.
    is_usual: bool,
}

/// Gives plugins free ports in place of their usual ones where those are taken, and each of several nodes its own.
pub(super) fn evade(config: &mut Config, nodes: u32) -> Result<(), BrokerError> {
    const MOST: usize = LISTENING.len() * MOST_NODES as usize;
    let usual = listener_ports(config).into_iter();
    let usual: Vec<ListenerPort> = usual.filter(|it| it.is_usual).collect();
    let mut free = free_ports::<MOST>()?.into_iter();
    for listener in usual {
        if nodes > 1 && !listener.is_of_first_node() {
            config.of_nodes.resize_with(config.of_nodes.len().max(nodes as usize), BTreeMap::new);
            for (own, port) in config.of_nodes.iter_mut().zip(&mut free) {
                own.insert(listener.key.clone(), port.to_string());
            }
        } else if listener.is_taken()
            && let Some(port) = free.next()
        {
            config.settings.insert(listener.key, port.to_string());
        }
    }
    Ok(())
}

/// Removes what earlier nodes left, and starts: again where somebody took a port meanwhile that was free.
pub(super) fn start_on_free<T>(
    config: &Config,
    waiting: &mut Waiting<'_>,
    start: impl Fn(&mut Waiting<'_>) -> Result<T, BrokerError>,
) -> Result<T, BrokerError> {
    for sentence in clean_leftovers() {
        waiting.step(&sentence);
    }
    for _ in 1..ATTEMPTS {
        match start(waiting) {
            Err(BrokerError::Exited(exited)) if exited.log.contains("eaddrinuse") => {}
            result => return result,
        }
        // One that the settings name would be taken again.
        check(config)?;
        waiting.step("a free port was taken meanwhile; trying others");
    }
    start(waiting)
}

/// Refuses a port that somebody else listens on.
/// Errors: [`BrokerError::Config`] with the port, its key, and who has it.
pub(super) fn check(config: &Config) -> Result<(), BrokerError> {
    listener_ports(config).iter().find(|it| it.is_taken()).map_or(Ok(()), |taken| Err(taken.refused()))
}

/// Refuses ports that each of several nodes would listen on. Errors: [`BrokerError::Config`] with the port and its key.
pub(super) fn check_shared(config: &Config, nodes: u32) -> Result<(), BrokerError> {
    let mut shared = listener_ports(config).into_iter();
    let shared = shared.find(|it| !it.is_of_first_node());
    match shared.filter(|_| nodes > 1) {
        None => Ok(()),
        Some(ListenerPort { key, port, .. }) => Err(BrokerError::config(
            format!("port {port} of broker.config.{key} is a single port for {nodes} nodes"),
            format!("broker.nodes is {nodes}"),
            "use one node, or leave the port out: each node then gets a free port",
        )),
    }
}

/// Where a node with this configuration listens beside AMQP, a text for each: `management 127.0.0.1:15672`.
pub(super) fn listening(config: &Config) -> Vec<String> {
    let texts = listener_ports(config).into_iter().filter(|it| !it.key.starts_with("listeners.")).map(|it| {
        let plugin = it.key.split('.').next().unwrap_or_default();
        let ip = it.ip.filter(|ip| !ip.is_unspecified());
        let ip = ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let scheme = match (plugin, it.key.contains(".ssl.")) {
            ("management" | "prometheus", false) => "http://",
            ("management" | "prometheus", true) => "https://",
            _ => "",
        };
        format!("{plugin} {scheme}{}", SocketAddr::new(ip, it.port))
    });
    texts.collect()
}

/// Listeners by settings and plugins; in a cluster, without those that each node has for itself.
fn listener_ports(config: &Config) -> Vec<ListenerPort> {
    let settings = &config.settings;
    let named = settings.iter().filter_map(|(key, value)| {
        let (ip, port) = address(key, value)?;
        let beside = key.strip_suffix("port").map(|table| format!("{table}ip"));
        let beside = beside.and_then(|key| settings.get(&key)?.trim().parse().ok());
        Some(ListenerPort { key: key.clone(), ip: ip.or(beside), port, is_usual: false })
    });
    let mut all: Vec<ListenerPort> = named.collect();
    for (plugin, key, port) in LISTENING {
        let table = key.split('.').next().unwrap_or(key);
        let is_on = config.plugins.iter().any(|it| it == plugin);
        let of_nodes = config.of_nodes.iter().flat_map(BTreeMap::keys);
        let is_named = (settings.keys().chain(of_nodes)).any(|it| is_listener_of(it, table));
        if is_on && !is_named {
            all.push(ListenerPort {
                key: key.to_owned(),
                ip: settings.get(&format!("{table}.tcp.ip")).and_then(|ip| ip.trim().parse().ok()),
                port,
                is_usual: true,
            });
        }
    }
    all
}

/// Whether a key says where a plugin listens, `none` included.
fn is_listener_of(key: &str, table: &str) -> bool {
    let rest = key.strip_prefix(table).and_then(|it| it.strip_prefix('.'));
    rest.is_some_and(|rest| is_port(rest) || rest.starts_with("listeners.tcp"))
}

/// Whether a key below a plugin's table holds its port.
fn is_port(rest: &str) -> bool {
    ["tcp.port", "ssl.port", "listener.port"].contains(&rest)
}

/// The port that a setting names, and the address where the value holds that too: `15672`, `127.0.0.1:1883`.
fn address(key: &str, value: &str) -> Option<(Option<IpAddr>, u16)> {
    let (_, rest) = key.split_once('.')?;
    let is_listener = rest.starts_with("listeners.tcp.") || rest.starts_with("listeners.ssl.");
    if !is_port(rest) && !is_listener {
        return None;
    }
    let value = value.trim();
    if let Ok(address) = value.parse::<SocketAddr>() {
        return Some((Some(address.ip()), address.port()));
    }
    Some((None, value.parse().ok()?)).filter(|(_, port)| *port > 0)
}

impl ListenerPort {
    /// Whether the first node of several has it alone, as it has the management API.
    fn is_of_first_node(&self) -> bool {
        self.key.starts_with("management.")
    }

    /// The addresses that RabbitMQ would listen on: all of both families where none is named.
    fn addresses(&self) -> Vec<SocketAddr> {
        let all = || vec![IpAddr::from(Ipv6Addr::UNSPECIFIED), Ipv4Addr::UNSPECIFIED.into()];
        self.ip.map_or_else(all, |ip| vec![ip]).into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect()
    }

    /// Whether nobody else could listen there now. Other machines' addresses and privileged ports are RabbitMQ's.
    fn is_taken(&self) -> bool {
        let mut tried = self.addresses().into_iter().map(TcpListener::bind);
        tried.any(|it| it.is_err_and(|error| error.kind() == ErrorKind::AddrInUse))
    }

    fn refused(&self) -> BrokerError {
        let Self { key, port, .. } = self;
        let cause = format!("port {port} of broker.config.{key} is taken");
        let local = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
        let local = local.map(|ip| SocketAddr::new(ip, *port));
        let named = self.ip.filter(|ip| !ip.is_unspecified());
        let at = named.map_or_else(|| local.to_vec(), |ip| vec![SocketAddr::new(ip, *port)]);
        let owner = sockets::listening_on(&at).into_iter().next();
        let by = match owner.and_then(|pid| Some((pid, processes::stat(pid)?.command))) {
            Some((pid, name)) => format!("by {name}, process {pid}"),
            None => "by another program".to_owned(),
        };
        BrokerError::config(cause, by, format!("stop that program, or use a free port: broker.config.{key} = N"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(plugins: &[&str], settings: &[(&str, &str)]) -> Config {
        let settings = settings.iter();
        Config {
            plugins: plugins.iter().map(|it| (*it).to_owned()).collect(),
            settings: settings.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Config::default()
        }
    }

    fn found(config: &Config) -> Vec<(String, Option<String>, u16)> {
        let all = listener_ports(config).into_iter();
        all.map(|it| (it.key, it.ip.map(|ip| ip.to_string()), it.port)).collect()
    }

    #[test]
    fn ports_of_settings_and_plugins_are_found() {
        let some = |key: &str, ip: Option<&str>, port| (key.to_owned(), ip.map(str::to_owned), port);
        let settings = [
            ("management.tcp.ip", "127.0.0.1"),
            ("management.tcp.port", "15680"),
            ("mqtt.listeners.tcp.1", "127.0.0.2:1884"),
            ("mqtt.listeners.ssl.default", "8883"),
            ("channel_max", "100"),
            ("stream.listeners.tcp", "none"),
            ("web_stomp.tcp.port", "nonsense"),
        ];
        let plugins = ["rabbitmq_management", "rabbitmq_mqtt", "rabbitmq_stream", "rabbitmq_prometheus"];
        assert_eq!(
            found(&config(&plugins, &settings)),
            [
                some("management.tcp.port", Some("127.0.0.1"), 15_680),
                some("mqtt.listeners.ssl.default", None, 8_883),
                some("mqtt.listeners.tcp.1", Some("127.0.0.2"), 1_884),
                some("prometheus.tcp.port", None, 15_692),
            ]
        );
        assert_eq!(found(&Config::default()), []);
        assert_eq!(
            listening(&config(&plugins, &settings)),
            [
                "management http://127.0.0.1:15680",
                "mqtt 127.0.0.1:8883",
                "mqtt 127.0.0.2:1884",
                "prometheus http://127.0.0.1:15692",
            ]
        );
    }

    #[test]
    fn a_port_that_somebody_has_is_named_with_its_key_and_its_owner() {
        for listen in ["127.0.0.1:0", "0.0.0.0:0"] {
            let listener = TcpListener::bind(listen).unwrap();
            let port = listener.local_addr().unwrap().port().to_string();
            for ip in [None, Some(("prometheus.tcp.ip", "127.0.0.1"))] {
                let mut settings = vec![("prometheus.tcp.port", port.as_str())];
                settings.extend(ip);
                let refused = check(&config(&[], &settings)).unwrap_err().problem();
                let cause = format!("port {port} of broker.config.prometheus.tcp.port is taken");
                assert_eq!(refused.cause, cause);
                assert!(refused.value.ends_with(&format!("process {}", std::process::id())), "{refused:?}");
                assert!(refused.help.contains("broker.config.prometheus.tcp.port = N"));
            }
            drop(listener);
            check(&config(&[], &[("prometheus.tcp.port", &port)])).unwrap();
        }
    }

    #[test]
    fn plugins_have_other_ports_where_somebody_has_theirs() {
        let plugins = LISTENING.map(|(plugin, ..)| plugin);
        // Others may have them already.
        let listeners = LISTENING.map(|(_, _, port)| TcpListener::bind(("127.0.0.1", port)));
        let settings = [("management.tcp.ip", "127.0.0.1")];
        let mut evading = config(&plugins, &settings);
        evade(&mut evading, 1).unwrap();
        for (_, key, port) in LISTENING {
            assert_ne!(evading.settings[key], port.to_string(), "{key}");
        }
        check(&evading).unwrap();
        // Each node of a cluster has its own, but for the management API, which the first has.
        let mut evading = config(&plugins, &settings);
        evade(&mut evading, 3).unwrap();
        check(&evading).unwrap();
        check_shared(&evading, 3).unwrap();
        let mut own: Vec<&String> = evading.of_nodes.iter().flat_map(BTreeMap::values).collect();
        let all = own.len();
        own.sort();
        own.dedup();
        assert_eq!([all, own.len()], [3 * (LISTENING.len() - 1); 2]);
        assert!(evading.settings.contains_key("management.tcp.port"));
        drop(listeners);
        // One that is named is refused, and one that is free is kept.
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let mut named = config(&[plugins[0]], &[("management.tcp.port", &port)]);
        evade(&mut named, 1).unwrap();
        assert!(check(&named).is_err());
    }

    #[test]
    fn nodes_cannot_share_a_port() {
        let settings = [("management.tcp.port", "15680"), ("prometheus.tcp.port", "15693")];
        let refused = check_shared(&config(&[], &settings), 3).unwrap_err();
        assert!(refused.to_string().contains("15693"), "{refused}");
        check_shared(&config(&[], &settings), 1).unwrap();
        check_shared(&config(&["rabbitmq_management"], &settings[..1]), 3).unwrap();
        assert!(check_shared(&config(&["rabbitmq_prometheus"], &[]), 2).is_err());
    }
}
