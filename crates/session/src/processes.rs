//! Other processes of this machine, as `/proc` shows them: who listens on a port, who descends
//! from whom, what a process is called.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;

/// State of a listening socket in `/proc/net/tcp` (`TCP_LISTEN`, include/net/tcp_states.h).
const LISTEN: &str = "0A";

/// One line of `/proc/PID/stat`, as far as it is needed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) command: String,
    pub(crate) parent: u32,
    /// CPU time of children that have ended and were waited for, in ticks.
    pub(crate) children_ticks: u64,
    pub(crate) threads: u32,
    /// Resident memory in pages.
    pub(crate) rss_pages: u64,
}

/// Reads `/proc/PID/stat`; `None` where the process is gone.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name may hold blanks and brackets: it ends at the last `)`. Field numbers as in proc(5).
fn parse_stat(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(')')?;
    let (_, command) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        command: command.to_owned(),
        parent: u32::try_from(field(4)?).ok()?,
        children_ticks: field(16)?.saturating_add(field(17)?),
        threads: u32::try_from(field(20)?).unwrap_or(u32::MAX),
        rss_pages: field(24)?,
    })
}

/// All process numbers.
pub(crate) fn all() -> Vec<u32> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect()
}

/// The processes that descend from `root`, without itself.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all()
        .into_iter()
        .filter_map(|pid| Some((pid, stat(pid)?.parent)))
        .collect();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        tree.extend(
            parents
                .iter()
                .filter(|(_, p)| *p == parent)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    tree.split_off(1)
}

/// The arguments a process was started with; empty where they cannot be read.
pub(crate) fn arguments(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<String> = words.collect();
    words.pop();
    words
}

/// The processes whose executable has this name, else those with it as a word of their command
/// line; without ourselves.
pub(crate) fn named(name: &str) -> Vec<u32> {
    let others: Vec<u32> = all()
        .into_iter()
        .filter(|pid| *pid != std::process::id())
        .collect();
    let by = |matches: &dyn Fn(u32) -> bool| -> Vec<u32> {
        others.iter().copied().filter(|pid| matches(*pid)).collect()
    };
    // The kernel keeps 15 bytes of a name.
    let short: String = name.chars().take(15).collect();
    let executables = by(&|pid| stat(pid).is_some_and(|stat| stat.command == short));
    if !executables.is_empty() {
        return executables;
    }
    by(&|pid| {
        arguments(pid)
            .iter()
            .any(|word| word == name || word.ends_with(&format!("/{name}")))
    })
}

/// The processes that listen on a TCP port of this machine, where we may see them.
pub(crate) fn listening_on(port: u16) -> Vec<u32> {
    let sockets: BTreeSet<u64> = ["tcp", "tcp6"]
        .into_iter()
        .filter_map(|name| fs::read_to_string(format!("/proc/net/{name}")).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    let holds = |pid: &u32| {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        files
            .flatten()
            .filter_map(|file| socket_inode(&file.path()))
            .any(|s| sockets.contains(&s))
    };
    let mut pids: Vec<u32> = all().into_iter().filter(holds).collect();
    // A child that inherited the socket does not serve it.
    let parents: Vec<u32> = pids.clone();
    pids.retain(|pid| stat(*pid).is_none_or(|stat| !parents.contains(&stat.parent)));
    pids
}

/// The ports that a process listens on.
pub(crate) fn listening_ports(pid: u32) -> Vec<u16> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let own: BTreeSet<u64> = files
        .flatten()
        .filter_map(|f| socket_inode(&f.path()))
        .collect();
    let tables = ["tcp", "tcp6"].map(|name| fs::read_to_string(format!("/proc/net/{name}")));
    let sockets = tables.iter().flatten().flat_map(|table| sockets(table));
    let ports: BTreeSet<u16> = sockets
        .filter(|(_, inode)| own.contains(inode))
        .map(|(port, _)| port)
        .collect();
    ports.into_iter().collect()
}

/// `socket:[12345]`, what a file descriptor's link reads.
pub(crate) fn socket_inode(link: &Path) -> Option<u64> {
    let target = fs::read_link(link).ok()?;
    target
        .to_str()?
        .strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

/// Port and inode of the listening sockets in `/proc/net/tcp`:
/// `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …`.
fn sockets(table: &str) -> impl Iterator<Item = (u16, u64)> {
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, port) = fields.get(1)?.rsplit_once(':')?;
        if *fields.get(3)? != LISTEN {
            return None;
        }
        Some((
            u16::from_str_radix(port, 16).ok()?,
            fields.get(9)?.parse().ok()?,
        ))
    })
}

fn listening_inodes(table: &str, port: u16) -> Vec<u64> {
    sockets(table)
        .filter(|(listening, _)| *listening == port)
        .map(|(_, inode)| inode)
        .collect()
}

/// Whether a host name means this machine.
pub(crate) fn is_this_machine(host: &str, port: u16) -> bool {
    let Ok(addresses) = (host, port).to_socket_addrs() else {
        return false;
    };
    let addresses: Vec<SocketAddr> = addresses.collect();
    !addresses.is_empty() && addresses.iter().all(|address| is_own_address(address.ip()))
}

/// An address is ours where a socket can be bound to it.
fn is_own_address(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) if ip.is_loopback() || ip == Ipv4Addr::UNSPECIFIED => true,
        IpAddr::V6(ip) if ip.is_loopback() || ip == Ipv6Addr::UNSPECIFIED => true,
        ip => std::net::UdpSocket::bind((ip, 0)).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_and_blanks_do_not_shift_fields() {
        let line = "42 (a) b (c) S 7 1 1 0 -1 4194560 1 2 3 4 100 200 30 40 20 0 11 0 99 1000 555 \
                    18446744073709551615 1";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat.command, "a) b (c");
        assert_eq!(
            (
                stat.parent,
                stat.children_ticks,
                stat.threads,
                stat.rss_pages
            ),
            (7, 70, 11, 555)
        );
        assert_eq!(parse_stat("42 (cut"), None);
        assert_eq!(parse_stat("42 (cut) S 7"), None);
    }

    #[test]
    fn a_listener_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let me = std::process::id();
        assert_eq!(listening_on(port), [me]);
        assert!(listening_ports(me).contains(&port));
        drop(listener);
        assert_eq!(listening_on(port), Vec::<u32>::new());
    }

    #[test]
    fn children_are_found_until_they_end() {
        let mut child = std::process::Command::new("sleep")
            .arg("5")
            .spawn()
            .unwrap();
        let me = std::process::id();
        assert!(descendants(me).contains(&child.id()));
        // The kernel shows no arguments while the new program is being loaded.
        let loaded = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            arguments(child.id()).last().map(String::as_str) == Some("5")
        });
        assert!(loaded);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(me).contains(&child.id()));
        assert_eq!(stat(child.id()), None);
    }

    #[test]
    fn this_machine_is_told_from_others() {
        assert!(is_this_machine("127.0.0.1", 5672) && is_this_machine("::1", 5672));
        // TEST-NET-1 (RFC 5737) belongs to nobody.
        assert!(!is_this_machine("192.0.2.1", 5672));
    }
}
