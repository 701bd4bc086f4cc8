//! Bodies of this run's producers other than filler.

use std::ops::Range;
use std::sync::Arc;

use measure::Time;

use crate::Bodies;
use crate::protocol::Connection;
use plan::payload::{self, Header};

/// The bodies that producers send as they are.
#[derive(Debug)]
pub(crate) struct Known {
    /// By the numbers of their producers.
    pub(crate) groups: Vec<(Range<u32>, Arc<Bodies>)>,
}

impl Known {
    /// Whether a body is what was sent.
    pub(super) fn is_whole(&self, header: &Header, body: &[u8]) -> bool {
        // A trace header is always a full header, which alone has a run.
        let ours = header.run.and_then(|_| {
            let groups = self.groups.iter();
            groups
                .clone()
                .find(|(ids, _)| ids.contains(&header.producer))
        });
        match ours {
            Some((_, bodies)) => body == bodies.content(header.sequence),
            None => payload::is_whole(body),
        }
    }
}

/// The header of a body that stays as it is.
#[inline]
pub(super) fn read_trace_header<C: Connection>(
    properties: &[u8],
    body: &[u8],
    now: Time,
) -> Option<Header> {
    payload::read_trace_header(C::trace_header(properties)?, body.len(), now).ok()
}
