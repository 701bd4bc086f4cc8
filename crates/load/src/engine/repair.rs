//! A client that lost its connection, and the way back.
//!
//! ```text
//! Running --lost--> Broken --wait--> Connecting --> SettingUp --> Running
//!                      ^                 |              |
//!                      +------ lost, refused, late -----+
//! ```

use measure::Time;

use super::client::{Client, State, Work};
use super::context::{Context, Tally};
use super::shared::Report;
use crate::{Error, Event, Recovery};

/// How a client comes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    recovery: Recovery,
    /// When to connect again.
    due: Time,
    /// Tries so far, over the whole run.
    attempts: u64,
    /// The load had begun for this client: before, a failure is final.
    has_run: bool,
    /// The broker has granted all that was asked for once: a refusal before is final, too. It may
    /// come later than the load's beginning.
    is_accepted: bool,
    /// Between the loss of the connection and the return.
    under_way: bool,
}

impl Repair {
    pub(super) const fn new(recovery: Recovery) -> Self {
        Self {
            recovery,
            due: Time(0),
            attempts: 0,
            has_run: false,
            is_accepted: false,
            under_way: false,
        }
    }
}

impl Client {
    /// The load has begun for it.
    pub(super) fn may_be_repaired_from_now_on(&mut self) {
        if let Some(repair) = &mut self.recovery {
            repair.has_run = true;
        }
    }

    /// Its set-up is complete.
    pub(super) fn is_accepted(&mut self) {
        if let Some(repair) = &mut self.recovery {
            repair.is_accepted = true;
        }
    }

    /// Takes a failure for the loss of the connection, where it is to be made anew; tells whether
    /// it did. `client` tells it from others.
    pub(crate) fn break_off(
        &mut self,
        client: u64,
        error: &Error,
        reports: &std::sync::mpsc::SyncSender<Report>,
        tally: &mut Tally,
    ) -> bool {
        let is_refusal = matches!(error, Error::Refused { .. });
        let may_return =
            |repair: &&mut Repair| repair.has_run && (repair.is_accepted || !is_refusal);
        let Some(repair) = self.recovery.as_mut().filter(may_return) else {
            return false;
        };
        let now = tally.last_now;
        repair.attempts += 1;
        repair.due = now + repair.recovery.wait(client, repair.attempts);
        if !std::mem::replace(&mut repair.under_way, true) {
            tally.broken += 1;
            tally.lost_connections += 1;
            if tally.broken == 1 {
                let detail = error.to_string();
                // Only informs; what does not fit is dropped.
                let _ = reports.try_send(Report::Event(Event::Lost { at: now, detail }));
            }
        }
        for work in &mut self.works {
            match work {
                Work::Producer(producer) => {
                    let open = producer.restart(now);
                    tally.progress.open = tally.progress.open.saturating_sub(open);
                }
                Work::Consumer(consumer) => consumer.restart(now),
            }
        }
        self.fenced = 0;
        self.hang_up();
        self.turn_to_next(now);
        true
    }

    /// Connects again when it is time; tells when it will be.
    pub(super) fn connect_again(
        &mut self,
        context: &mut Context<'_>,
    ) -> Result<Option<Time>, Error> {
        let now = context.now();
        let due = self.recovery.map_or(now, |repair| repair.due);
        if due > now {
            return Ok(Some(due));
        }
        if let Some(look) = self.waits_for_addresses(now) {
            return Ok(Some(look));
        }
        self.dial_again(now, context.registry)?;
        Ok(None)
    }

    /// Set up: back to work, where the load has begun.
    pub(super) fn resume(&mut self, context: &mut Context<'_>) {
        let Some(repair) = self.recovery.as_mut().filter(|repair| repair.under_way) else {
            return;
        };
        repair.under_way = false;
        self.state = State::Running;
        let tally = &mut *context.tally;
        tally.broken = tally.broken.saturating_sub(1);
        if tally.broken == 0 {
            let at = tally.last_now;
            let _ = context
                .reports
                .try_send(Report::Event(Event::Recovered { at }));
        }
    }
}
