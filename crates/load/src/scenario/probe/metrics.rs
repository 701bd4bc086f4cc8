//! The metrics of a probe.
//!
//! ```text
//! due        sent                       first byte       last byte
//!  |-- wait ---|------- first byte --------|---- body -----|
//!              | connect, secure, if new   |
//!              |------------- from send -------------------|
//!  |--------------------- response ------------------------|
//! ```
//!
//! `response` counts from the time that the request was due, and so is free of coordinated omission.

use measure::ScenarioRole;

use crate::scenario::operations::OperationMetrics;

measure::metrics! {
    /// The metrics of a probe.
    pub(super) struct ProbeMetrics of "probe" {
        response: latency() "probe_response", "response", "due time to the response's last byte; what has none counts \
            with the time that it waited: until its time-out, or the run's end";
        from_send: latency() "probe_from_send", "from send", "actual send time to the response's last byte";
        wait: part() "probe_wait", "wait", "due time to the actual send time";
        first_byte: part() "probe_first_byte", "first byte",
            "actual send time to the response's first byte; includes connecting, where that was needed";
        body: part() "probe_body", "body", "the response's first byte to its last";
        connect: latency() "probe_connect", "connect", "the TCP connection, where a new one was needed";
        secure: latency() "probe_secure", "secure", "the TLS handshake of a new connection";
        begun: counter("requests") "probe_begun", "begun", "requests that were sent";
        completed: counter("requests") "probe_completed", "completed", "responses with a status of 200 to 399";
        failed: counter("requests") "probe_failed", "failed", "requests without such a response";
        late: counter("requests") "probe_late", "late", "requests that were sent over 1 ms after they were due";
        in_flight: peak("requests") "probe_in_flight", "in flight", "most requests in flight at the same time";
        in_flight_at_end: counter("requests") "probe_in_flight_at_end", "in flight at the end",
            "requests that had neither answer nor time-out when the run ended";
        status_4xx: counter("requests") "probe_status_4xx", "status 4xx", "responses with a status of 400 to 499";
        status_5xx: counter("requests") "probe_status_5xx", "status 5xx", "responses with a status of 500 and more";
        timed_out: counter("requests") "probe_timed_out", "timed out",
            "requests without a whole response within the time-out";
        bytes: counter("bytes") "probe_bytes", "bytes", "bytes that were received, heads included";
        not_begun: counter("requests") "probe_not_begun", "not begun", "requests that were due and found no room \
            before the end: they count with the time that they had waited by then";
    }
    at the end: in_flight_at_end, not_begun
}

impl ProbeMetrics {
    pub(super) fn operations(&self) -> OperationMetrics {
        OperationMetrics {
            scenario: self.begun.info().scenario,
            words: ["request", "requests"],
            role: ScenarioRole::Server,
            begun: self.begun,
            completed: self.completed,
            failed: self.failed,
            late: self.late,
            in_flight: self.in_flight,
            not_begun: self.not_begun,
            in_flight_at_end: Some(self.in_flight_at_end),
            wait: self.wait,
            latency: self.response,
            opened: None,
        }
    }
}
