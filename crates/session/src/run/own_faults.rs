//! Own faults of a run, and the effects that they explain.

use archive::{FaultOutcome, OwnFault};

/// Time span of a fault's effect: until what it took away was back and confirmed again.
pub(super) fn own_fault(fault: &FaultOutcome) -> Option<OwnFault> {
    let length = match (fault.back_s, fault.asked_s) {
        (Some(back), _) => back.max(fault.first_confirm_s.unwrap_or(0.0)),
        (None, Some(_)) => f64::INFINITY,
        (None, None) if fault.for_good => f64::INFINITY,
        // It took place in a moment, or not at all.
        (None, None) => fault.failed.is_none().then_some(0.0)?,
    };
    Some(OwnFault {
        name: named(fault),
        from_s: fault.t,
        until_s: fault.t + length,
    })
}

/// The fault of the run itself that had a node away at some time between these, in seconds of the run.
pub(super) fn fault_of_node(
    faults: &[FaultOutcome],
    node: usize,
    from: f64,
    until: f64,
) -> Option<OwnFault> {
    let its = |fault: &&FaultOutcome| fault.node.unwrap_or(0) as usize == node;
    let mut its = faults.iter().filter(its).filter_map(own_fault);
    its.find(|it| it.from_s <= until && it.until_s >= from)
}

/// A fault as text: `kill of node 1`.
pub(super) fn named(fault: &FaultOutcome) -> String {
    match fault.node {
        Some(node) => format!("{} of node {node}", fault.kind),
        None => fault.kind.clone(),
    }
}
