//! How the nodes of a cluster find each other on one machine, without an EPMD: each has an address of its own on the
//! loopback interface, which is the host in its name, and all listen on the same port there.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use super::super::BrokerError;
use crate::guardian::random_hex;

/// Where the addresses of nodes behind a relay begin: the relay has those that their names lead to.
const BEHIND_RELAY: u8 = 100;

/// Tries with other addresses, where somebody listens there.
const ATTEMPTS: u32 = 20;

/// The addresses and the secret of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Network {
    /// The first two numbers behind 127.
    network: [u8; 2],
    port: u16,
    cookie: String,
    /// Whether the addresses in the names are a relay's.
    is_relayed: bool,
}

impl Network {
    /// Looks for addresses and a port that nobody uses.
    pub(super) fn find(size: u32, is_relayed: bool) -> Result<Self, BrokerError> {
        let cookie = random_hex(20)?;
        let mut attempt = 0;
        loop {
            let random = random_hex(2)?;
            let number = |from: usize| u8::from_str_radix(random.get(from..from + 2)?, 16).ok();
            let network = [
                64 + number(0).unwrap_or_default() % 128,
                number(2).unwrap_or_default(),
            ];
            let mut found = Self {
                network,
                port: 0,
                cookie: cookie.clone(),
                is_relayed,
            };
            attempt += 1;
            match found.free_port(size) {
                Ok(port) => {
                    found.port = port;
                    return Ok(found);
                }
                Err(error) if attempt == ATTEMPTS => {
                    let address = found.address(0).to_string();
                    return Err(BrokerError::io("find a free port on", address)(error));
                }
                Err(_) => {}
            }
        }
    }

    /// A port that is free on all addresses.
    fn free_port(&self, size: u32) -> std::io::Result<u16> {
        let listener = TcpListener::bind((self.address(0), 0))?;
        let port = listener.local_addr()?.port();
        let named = (1..size).map(|number| self.address(number));
        let behind = (0..size).map(|number| self.listening(number));
        let others = named.chain(behind.filter(|_| self.is_relayed));
        let taken: Result<Vec<_>, _> = others
            .map(|address| TcpListener::bind((address, port)))
            .collect();
        taken.map(|_| port)
    }

    /// The host in a node's name.
    fn address(&self, number: u32) -> Ipv4Addr {
        let [second, third] = self.network;
        Ipv4Addr::new(127, second, third, number as u8 + 1)
    }

    /// Where the node itself listens.
    fn listening(&self, number: u32) -> Ipv4Addr {
        let [second, third, fourth] = match self.address(number).octets() {
            [_, second, third, fourth] if self.is_relayed => [second, third, fourth + BEHIND_RELAY],
            [_, second, third, fourth] => [second, third, fourth],
        };
        Ipv4Addr::new(127, second, third, fourth)
    }

    /// Where a relay listens for a node, and where that node listens itself; both in the order of the nodes.
    pub(super) fn relayed(&self, size: u32) -> Vec<[SocketAddrV4; 2]> {
        let pair = |number| {
            [self.address(number), self.listening(number)]
                .map(|ip| SocketAddrV4::new(ip, self.port))
        };
        (0..size).map(pair).collect()
    }

    /// The places in it of nodes with these names.
    pub(super) fn members(&self, names: &[&str]) -> Vec<Membership> {
        let number = |index: usize| u32::try_from(index).unwrap_or_default();
        let all = names.iter().enumerate();
        let full: Vec<String> = all
            .map(|(index, name)| format!("{name}@{}", self.address(number(index))))
            .collect();
        (0..full.len())
            .map(|index| Membership {
                names: full.clone(),
                index,
                listens_on: SocketAddrV4::new(self.listening(number(index)), self.port),
                cookie: self.cookie.clone(),
                is_relayed: self.is_relayed,
            })
            .collect()
    }
}

/// A node's place in a cluster.
#[derive(Clone, Debug)]
pub(super) struct Membership {
    /// The names of all nodes.
    names: Vec<String>,
    /// Which of them it is.
    index: usize,
    listens_on: SocketAddrV4,
    cookie: String,
    is_relayed: bool,
}

impl Membership {
    /// The node's name.
    pub(super) fn name(&self) -> String {
        self.names.get(self.index).cloned().unwrap_or_default()
    }

    /// Where its distribution listens.
    pub(super) fn listens_on(&self) -> SocketAddrV4 {
        self.listens_on
    }

    /// The secret of all nodes.
    pub(super) fn cookie(&self) -> String {
        self.cookie.clone()
    }

    /// Settings of Erlang's kernel. Behind a relay a node is known by the address that it connects from.
    pub(super) fn kernel_settings(&self) -> String {
        let address = self.listens_on.ip().to_string().replace('.', ",");
        let mut text = format!("{{inet_dist_use_interface, {{{address}}}}}");
        if self.is_relayed {
            text += &format!(", {{inet_dist_connect_options, [{{ip, {{{address}}}}}]}}");
        }
        text
    }

    /// Settings of RabbitMQ: all nodes, so that each finds the others while it starts.
    pub(super) fn rabbit_settings(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| format!("'{name}'")).collect();
        format!(
            "{{cluster_nodes, {{[{}], disc}}}},\n           ",
            names.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_addresses_of_their_own_and_a_relay_has_those_of_their_names() {
        let network = Network::find(3, true).unwrap();
        let members = network.members(&["a", "b", "c"]);
        let relayed = network.relayed(3);
        for (member, [named, listening]) in members.iter().zip(&relayed) {
            assert!(member.name().ends_with(&format!("@{}", named.ip())));
            assert_eq!(member.listens_on(), *listening);
            assert_ne!(named, listening);
            assert!(named.ip().is_loopback() && listening.ip().is_loopback());
            assert!(member.rabbit_settings().contains(&members[2].name()));
            assert!(
                member
                    .kernel_settings()
                    .contains("inet_dist_connect_options")
            );
        }
        let alone = Network::find(2, false).unwrap();
        assert!(alone.relayed(2).iter().all(|[named, own]| named == own));
    }
}
