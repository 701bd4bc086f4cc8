//! The metrics of a trace.

use load::scenario::Operations;
use measure::ScenarioRole;

measure::metrics! {
    /// The metrics of a trace.
    pub(super) struct TraceMetrics of "trace" {
        duration: latency() "trace_duration", "call duration",
            "a call of the traced function to its return, waits included";
        calls: counter("calls") "trace_begun", "calls", "calls of the function";
        returned: counter("calls") "trace_completed", "returned", "calls that returned in order";
        raised: counter("calls") "trace_raised", "raised", "calls that an exception ended";
        open: counter("calls") "trace_open", "open at the end",
            "calls whose return was not seen: they have no latency, and may have had the worst";
    }
    at the end: open
}

impl TraceMetrics {
    pub(super) fn scenario(&self) -> &'static str {
        self.duration.info().scenario
    }

    /// Others make the calls: their results are not judged, and none is due at a time.
    pub(super) const fn operations(&self) -> Operations {
        Operations {
            one: "call",
            many: "calls",
            role: ScenarioRole::Watcher,
            begun: self.calls,
            completed: self.returned,
            failed: None,
            scheduled: None,
            latency: self.duration,
        }
    }
}
