//! The broker's account of the memory that messages take, and its stock of free segments.

/// Capacities of the segments kept for reuse, smallest first. A queue's first segment is small, so that ten thousand
/// queues with one message each fit in 40 MB; the largest makes one allocation serve thousands of small messages.
const CLASSES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];

/// Free segments kept per capacity. Together at most 2.7 MB, which stays in the CPU's caches when
/// consumers keep up with producers.
const SPARE_PER_CLASS: usize = 8;

/// Bytes of one held message besides its body: its place in the list of a channel's unacknowledged deliveries, or among
/// a queue's returned messages.
const BOOKKEEPING_BYTES: u64 = 32;

/// Bytes of a stream's delivery that is not settled: its place in the lists of its channel and its link.
const STREAM_DELIVERY_BYTES: u64 = 64;

/// The memory of all messages of one broker.
#[derive(Debug)]
pub(crate) struct Memory {
    used: u64,
    /// Part of `used` in streams, with their deliveries.
    streams: u64,
    /// Part of `streams` that is deliveries which are not settled.
    stream_deliveries: u64,
    /// Part of `used` in open transactions of AMQP 1.0.
    transactions: u64,
    limit: u64,
    resume: u64,
    blocked: bool,
    spare: [Vec<Vec<u8>>; CLASSES.len()],
}

impl Memory {
    /// An empty account: blocked above `limit` bytes until below `resume` bytes.
    pub(crate) fn new(limit: u64, resume: u64) -> Self {
        Self {
            used: 0,
            streams: 0,
            stream_deliveries: 0,
            transactions: 0,
            limit,
            resume,
            blocked: false,
            spare: Default::default(),
        }
    }

    /// Bytes in use, bookkeeping included.
    #[cfg(test)]
    pub(crate) const fn used(&self) -> u64 {
        self.used
    }

    /// Whether more than the limit is in use.
    pub(crate) const fn is_over(&self) -> bool {
        self.used > self.limit
    }

    /// Whether streams use more than their half. Their messages are never settled, so without a
    /// share of their own they would leave nothing for queues.
    pub(crate) const fn streams_are_over(&self) -> bool {
        self.streams > self.limit / 2
    }

    /// Whether streams may have more deliveries that are not settled: those have a quarter of the streams' half.
    pub(crate) const fn takes_stream_delivery(&self) -> bool {
        self.stream_deliveries < self.limit / 8
    }

    /// Counts a delivery of a stream.
    pub(crate) const fn hold_stream_delivery(&mut self) {
        self.used += STREAM_DELIVERY_BYTES;
        self.streams += STREAM_DELIVERY_BYTES;
        self.stream_deliveries += STREAM_DELIVERY_BYTES;
    }

    /// Counts a delivery of a stream less.
    pub(crate) const fn release_stream_delivery(&mut self) {
        self.used -= STREAM_DELIVERY_BYTES;
        self.streams -= STREAM_DELIVERY_BYTES;
        self.stream_deliveries -= STREAM_DELIVERY_BYTES;
    }

    /// Counts what a stream's log took or gave back, as told by its size before and after.
    pub(crate) const fn note_stream(&mut self, before: u64, after: u64) {
        self.streams = self.streams + after - before;
    }

    /// Whether transactions may have so many bytes more. They have a quarter: memory that nobody consumes must not fill
    /// up, as a publisher that has to wait commits nothing.
    pub(crate) const fn takes_in_transaction(&self, bytes: u64) -> bool {
        self.transactions.saturating_add(bytes) <= self.limit / 4
    }

    /// Counts what a transaction's log took or gave back, as told by its size before and after.
    pub(crate) const fn note_transaction(&mut self, before: u64, after: u64) {
        self.transactions = self.transactions + after - before;
    }

    /// Whether publishers have to wait: set above the limit, cleared below the resume mark.
    pub(crate) fn is_blocked(&mut self) -> bool {
        self.blocked = if self.blocked { self.used > self.resume } else { self.is_over() };
        self.blocked
    }

    /// A buffer for at least `needed` bytes that follows one of `previous` bytes in the same log.
    pub(crate) fn take(&mut self, needed: usize, previous: usize) -> Vec<u8> {
        let wanted = needed.max((previous + 1).min(CLASSES[CLASSES.len() - 1]));
        let class = CLASSES.iter().position(|&c| c >= wanted);
        let buffer = match class {
            Some(class) => self.spare[class].pop().unwrap_or_else(|| Vec::with_capacity(CLASSES[class])),
            None => Vec::with_capacity(needed),
        };
        self.used += buffer.capacity() as u64;
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        self.used -= buffer.capacity() as u64;
        if let Some(class) = CLASSES.iter().position(|&c| c == buffer.capacity())
            && self.spare[class].len() < SPARE_PER_CLASS
        {
            buffer.clear();
            self.spare[class].push(buffer);
        }
    }

    /// Counts `n` more held messages.
    #[inline]
    pub(crate) const fn hold(&mut self, n: u64) {
        self.used += n * BOOKKEEPING_BYTES;
    }

    /// Counts bytes that lie beside queues, such as dead letters on their way.
    pub(crate) const fn keep(&mut self, bytes: u64) {
        self.used += bytes;
    }

    /// Counts these bytes less.
    pub(crate) const fn forget(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    /// Counts `n` held messages less.
    #[inline]
    pub(crate) const fn release(&mut self, n: u64) {
        self.used -= n * BOOKKEEPING_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_grow_and_are_reused() {
        let mut memory = Memory::new(u64::MAX, u64::MAX);
        let mut previous = 0;
        for expected in [4 << 10, 16 << 10, 64 << 10, 256 << 10, 256 << 10] {
            let buffer = memory.take(100, previous);
            assert_eq!(buffer.capacity(), expected);
            previous = buffer.capacity();
            let at = buffer.as_ptr();
            memory.give(buffer);
            let again = memory.take(expected, 0);
            assert_eq!(again.as_ptr(), at, "a spare segment is taken before the allocator's");
            memory.give(again);
        }
        assert_eq!(memory.take(1 << 20, 0).capacity(), 1 << 20);
        assert_eq!(memory.used(), 1 << 20);
    }

    #[test]
    fn blocking_has_hysteresis() {
        let mut memory = Memory::new(320, 160);
        memory.hold(10);
        assert!(!memory.is_blocked(), "the limit itself is allowed");
        memory.hold(1);
        assert!(memory.is_blocked());
        memory.release(5);
        assert!(memory.is_blocked(), "above the resume mark");
        memory.release(1);
        assert!(!memory.is_blocked());
        memory.hold(5);
        assert!(!memory.is_blocked(), "below the limit again");
    }
}
