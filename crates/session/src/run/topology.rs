//! The broker's topology, read when sending has ended and clients are still connected: a second later its
//! consumers are gone, and a second earlier the question would disturb what is measured.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};

use archive::Topology;

use crate::brokers::{Broker, BrokerError};

/// Takes the counts of messages from a later reading, where the queue is still there: in the drain they shrink.
pub(crate) fn count_again(topology: &mut Topology, later: &Topology) {
    for queue in &mut topology.queues {
        let found = later.queues.iter().find(|it| it.name == queue.name);
        if let Some(found) = found {
            queue.messages = found.messages;
        }
    }
}

/// Reads the topology of a broker on a thread of its own.
pub(crate) struct TopologyReader<'scope> {
    thread: ScopedJoinHandle<'scope, Option<Result<Topology, BrokerError>>>,
}

impl<'scope> TopologyReader<'scope> {
    /// Waits on a thread for whoever has the sender to say that sending has ended. Until it has read the
    /// topology, the load's clients stay connected.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        broker: &'env mut dyn Broker,
        control: &'env load::Control,
    ) -> (Self, Sender<()>) {
        let (tell, ended): (_, Receiver<()>) = channel();
        control.hold();
        let thread = scope.spawn(move || {
            let read = ended.recv().ok().map(|()| broker.topology());
            control.release();
            read
        });
        (Self { thread }, tell)
    }

    /// What it has read; `None` where sending never ended.
    pub(crate) fn finish(self) -> Option<Result<Topology, BrokerError>> {
        // A panic there is a bug, and shows on standard error.
        self.thread.join().ok().flatten()
    }
}
