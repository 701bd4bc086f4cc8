//! A process of ours.

use std::sync::Arc;
use std::time::Duration;

use erl_dist::term::Term;

use crate::error::Error;
use crate::link::{Link, MailboxId, deadline};

/// A process of ours, to which those of the node send. It is bounded: 65,536 messages wait in it, and 256 MB in all
/// mailboxes of a connection, counted as they are in memory; more are dropped and counted. Who monitors its pid learns when it is dropped. It keeps the connection open.
#[derive(Debug)]
pub struct Mailbox {
    link: Arc<Link>,
    id: MailboxId,
}

impl Mailbox {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        let id = link.shared.enter();
        Self { link, id }
    }

    /// Its address.
    #[must_use]
    pub fn pid(&self) -> Term {
        Term::from(self.link.shared.pid(self.id))
    }

    /// The next message; `None` when the time is over.
    ///
    /// # Errors
    /// The connection is no more, or the message is not decoded.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Term>, Error> {
        match self.link.shared.receive(self.id, deadline(timeout))? {
            None => Ok(None),
            Some(Ok(term)) => Ok(Some(term)),
            Some(Err(source)) => Err(Error::Term {
                node: self.link.shared.node.clone(),
                what: "a message of it".into(),
                source,
            }),
        }
    }

    /// Messages that had no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.link.shared.dropped(self.id)
    }

    pub(crate) fn raw_pid(&self) -> erl_dist::term::Pid {
        self.link.shared.pid(self.id)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.link.shared.leave(self.id);
    }
}
