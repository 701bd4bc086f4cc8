//! Several coordinators in one world, each on a thread of the test: one of them runs at a time, in the order of their
//! seats, and time passes when all of them wait.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use measure::Time;

use super::World;

thread_local! {
    static SEAT: Cell<Option<usize>> = const { Cell::new(None) };
}

#[derive(Default)]
pub(super) struct Turns {
    table: Mutex<Table>,
    turned: Condvar,
}

#[derive(Default)]
struct Table {
    /// Until when each waits; `None` of those that have left.
    seats: Vec<Option<Time>>,
    /// How many have come.
    taken: usize,
    turn: usize,
}

impl Table {
    /// Passes the turn on to whoever has the next seat.
    fn pass_on(&mut self, seat: usize) {
        let all = self.seats.len();
        let next = (1..=all).map(|step| (seat + step) % all).find(|next| self.seats[*next].is_some());
        self.turn = next.unwrap_or(all);
    }

    fn is_last(&self, seat: usize) -> bool {
        self.seats.iter().skip(seat + 1).all(Option::is_none)
    }
}

impl Turns {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for<'a>(&'a self, table: MutexGuard<'a, Table>, seat: usize, all: usize) {
        let waits = |table: &mut Table| table.taken < all || table.turn != seat;
        drop(self.turned.wait_while(table, waits).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Leaves its seat when it is dropped, also by a panic.
struct Seated<'a>(&'a Turns, usize);

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        SEAT.set(None);
        let mut table = self.0.table();
        table.seats[self.1] = None;
        table.pass_on(self.1);
        self.0.turned.notify_all();
    }
}

impl World {
    /// Runs a coordinator beside others, of which there are so many in all; nobody begins before all have come.
    pub(crate) fn beside<T>(&self, seat: usize, all: usize, run: impl FnOnce() -> T) -> T {
        let turns = &self.0.turns;
        let mut table = turns.table();
        table.seats.resize(all, Some(self.time()));
        table.taken += 1;
        turns.turned.notify_all();
        turns.wait_for(table, seat, all);
        SEAT.set(Some(seat));
        let _seated = Seated(turns, seat);
        run()
    }

    /// Lets one step happen, or the time go on to `limit`, for a coordinator that waits.
    pub(super) fn let_pass(&self, limit: Time) {
        let Some(seat) = SEAT.get() else { return self.advance(limit) };
        let turns = &self.0.turns;
        let mut table = turns.table();
        table.seats[seat] = Some(limit);
        if table.is_last(seat) {
            let limit = table.seats.iter().flatten().min().copied().unwrap_or(limit);
            drop(table);
            self.advance(limit);
            table = turns.table();
        }
        table.pass_on(seat);
        turns.turned.notify_all();
        turns.wait_for(table, seat, 0);
    }
}
