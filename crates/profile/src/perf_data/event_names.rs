//! Names of events that a recording does not name itself, as `perf` calls them.

use perf_event_open_sys::bindings as b;

const HARDWARE: &str = "cycles instructions cache-references cache-misses branches branch-misses bus-cycles stalled-cycles-frontend \
    stalled-cycles-backend ref-cycles";
const SOFTWARE: &str = "cpu-clock task-clock page-faults context-switches cpu-migrations minor-faults major-faults alignment-faults \
    emulation-faults dummy";

/// The event of a `perf_event_attr`'s type and config.
pub(super) fn name_of(kind: u32, config: u64) -> String {
    let names = match kind {
        b::PERF_TYPE_HARDWARE => HARDWARE,
        b::PERF_TYPE_SOFTWARE => SOFTWARE,
        _ => "",
    };
    let place = usize::try_from(config).ok();
    let known = place.and_then(|at| names.split_whitespace().nth(at));
    known.map_or_else(|| format!("event {kind}/{config:#x}"), str::to_owned)
}
