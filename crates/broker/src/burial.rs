//! Dead letters go to where their queues send them, and messages that are too old become some.

use measure::Time;

use crate::dead_letters::{DeadLetter, is_circle, with_death};
use crate::log::Record;
use crate::slots::Key;
use crate::vhost::{RouteCache, VirtualHost};

impl VirtualHost {
    /// Publishes dead letters to where their queues send them, also those that come of that.
    pub(crate) fn forward_dead_letters(&mut self) {
        while let Some(key) = self.burials.pop() {
            let Some(queue) = self.queues.get_mut(key) else {
                continue;
            };
            let Some(letters) = &mut queue.dead_letters else {
                continue;
            };
            let waiting = letters.take(&mut self.memory);
            let target = (letters.exchange.clone(), letters.routing_key.clone());
            let from = queue.name.clone();
            for letter in waiting {
                self.forward(&letter, &from, &target.0, target.1.as_deref());
            }
        }
    }

    fn forward(&mut self, letter: &DeadLetter, from: &str, exchange: &str, key: Option<&str>) {
        let routing_key = key.unwrap_or(&letter.routing_key);
        let Some(properties) = with_death(letter, from) else {
            return;
        };
        let mut route = RouteCache::default();
        // An exchange that is not there takes nothing, as RabbitMQ has it.
        if self
            .route(exchange, routing_key, &properties, &mut route)
            .is_err()
        {
            return;
        }
        let record = Record {
            exchange,
            routing_key,
            properties: &properties,
            body: &letter.body,
        };
        let mut queues = route.queues().to_vec();
        queues.retain(|it| {
            let queue = self.queues.get(*it);
            queue.is_some_and(|queue| !is_circle(&properties, &queue.name))
        });
        self.enqueue(&queues, &record);
    }

    /// Gives up what is too old.
    pub(crate) fn expire(&mut self, now: Time) {
        self.now = now;
        while self.next_expiry().is_some_and(|at| at < now) {
            let Some((_, key)) = self.expiring.pop_first() else {
                break;
            };
            if let Some(queue) = self.queues.get_mut(key) {
                queue.awaited = None;
            }
            self.expire_queue(key);
        }
    }

    /// When a message may expire next; not later than one does.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.expiring.first().map(|(at, _)| *at)
    }

    /// Gives up what is too old in one queue, and waits for what is next.
    #[inline]
    pub(crate) fn expire_queue(&mut self, key: Key) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.expire(self.now, &mut self.memory);
            queue.await_expiry(key, &mut self.expiring);
            if queue.has_new_dead_letters() {
                self.burials.push(key);
            }
        }
    }
}
