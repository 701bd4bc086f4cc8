//! The process that serves our connections: seen as soon as there is one; before, the process on the broker's port is
//! presumed. Several may share a port, and a port may be forwarded.

use linux::processes;
use linux::sockets::Server;
use measure::Nanos;
use stacks::ProfileHeader;

use super::profiling::Profiling;
use super::recording::Recording;

/// Why there is no profile, and the remedy.
const NAME_IT: &str = "name the broker's own process (--pid, broker.pid) if it runs here";

impl Recording<'_> {
    /// Watches the process at the other end of our connection, where the broker is not known, not the one on its port.
    pub(super) fn look_who_serves(&mut self) {
        // A broker that was started for the run, or that has already said what it is.
        if !self.context.broker.kind.is_empty() {
            return;
        }
        let presumed = self.context.listener.found;
        let served = match self.usage.server() {
            Server::Unknown => return,
            Server::Elsewhere => None,
            Server::Processes(pids) => match (pids.as_slice(), presumed) {
                (pids, Some(presumed)) if pids.iter().any(|pid| related(*pid, presumed)) => return,
                ([one], _) => Some(*one),
                _ => None,
            },
        };
        if served == presumed {
            return;
        }
        self.context.listener.found = served;
        if self.context.listener.given.is_none() {
            self.leave_broker();
            self.context.broker.pid = served;
            match served {
                Some(pid) => self.watch(pid),
                None => self.watch_nobody(presumed),
            }
        }
    }

    pub(super) fn connected(&mut self, product: &str, version: &str) {
        self.look_who_serves();
        if let Some((pid, name)) = self.context.listener.proxy(product) {
            self.behind(pid, name, product);
        }
        let broker = &mut self.context.broker;
        if broker.kind.is_empty() && !product.is_empty() {
            broker.kind = product.to_lowercase();
            broker.version = Some(version.to_owned()).filter(|version| !version.is_empty());
            self.record.versions.broker = Some(format!("{product} {version}").trim_end().to_owned());
        }
    }

    /// The process that listens on the port is not the broker, and is not watched in its place.
    fn behind(&mut self, pid: u32, proxy: String, product: &str) {
        if self.tcp.proxy.is_some() {
            return;
        }
        let mut text = format!("{proxy} passes connections on to {product}");
        if self.context.listener.given.is_none() {
            text += "; name the broker's own process (--pid, broker.pid) if it runs here";
            self.leave_broker();
            self.give_up_profile();
            self.context.broker.pid = None;
            self.context.shared_machine = false;
        }
        self.note(&text);
        self.tcp.proxy = Some((pid, proxy));
    }

    /// The process that was taken for the broker is not it, nor is its CPU time the broker's.
    fn leave_broker(&mut self) {
        self.usage.leave();
        self.readings.broker = None;
    }

    fn watch(&mut self, pid: u32) {
        self.usage.follow(pid);
        self.blocks.watch(pid);
        self.context.shared_machine = true;
        let name = processes::stat(pid).map_or_else(String::new, |stat| stat.command);
        self.note(&format!("process {pid} ({name}) serves our connections"));
        let options = self.context.profile.as_slice();
        let Some(writer) = self.writer.as_ref().filter(|_| !options.is_empty()) else { return };
        // It would be written to the same file.
        self.profiling.abandon();
        let header = ProfileHeader::new(self.context.origin, self.record.origin_unix_ns);
        let profiling = Profiling::attach(options, pid, &header, writer.dir(), 0);
        self.profiling = profiling.unwrap_or_else(|e| Profiling::unavailable(&e.to_string()));
        if self.context.phases.warmup == Nanos::ZERO {
            self.profiling.start();
        }
    }

    fn watch_nobody(&mut self, presumed: Option<u32>) {
        let Some(pid) = presumed else { return };
        self.context.shared_machine = false;
        self.note(&format!(
            "process {pid} listens on the broker's port, but our connections go to another, hidden \
             process; {NAME_IT}"
        ));
        self.give_up_profile();
    }

    /// The profile would be that of another process than the broker.
    pub(super) fn give_up_profile(&mut self) {
        self.blocks.stop();
        if self.profiling.abandon() {
            self.profiling = Profiling::unavailable(&format!(
                "the process that listens on the broker's port is not the broker; {NAME_IT}"
            ));
        }
    }
}

/// Whether one process is the other or descends from it: a server may fork for its connections.
fn related(one: u32, other: u32) -> bool {
    one == other || processes::descendants(one).contains(&other) || processes::descendants(other).contains(&one)
}

#[cfg(test)]
mod tests;
