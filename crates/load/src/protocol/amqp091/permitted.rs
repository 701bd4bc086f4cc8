//! Features that a broker no longer permits. RabbitMQ removes them in steps: before the last one it refuses them by name,
//! unless its configuration permits them (`deprecated_features.permit.NAME = true`).

use crate::{Destination, Error, Plan, RunEvent};

/// Queues that neither a restart outlives nor one connection owns.
const TRANSIENT: &str = "transient_nonexcl_queues";

/// The plan without the feature for which the broker refused it, and what to tell of that; `None` where it was refused for
/// another reason, or has no such feature.
pub(super) fn permitted(plan: &Plan, refusal: &Error) -> Option<(Plan, RunEvent)> {
    let Error::Refused {
        endpoint, detail, ..
    } = refusal
    else {
        return None;
    };
    if !detail.contains(&format!("`{TRANSIENT}`")) {
        return None;
    }
    let mut plan = plan.clone();
    let groups = plan.groups.iter_mut();
    // Any node of a cluster may be the one that no longer permits it.
    let there = groups.filter(|group| {
        let mut nodes = group.further.iter().chain([&group.endpoint]);
        nodes.any(|node| node.to_string() == *endpoint)
    });
    let made = there.flat_map(|group| group.destinations.iter_mut().map(make_durable));
    let event = RunEvent::NotPermitted {
        feature: TRANSIENT,
        instead: "transient queues are declared durable",
    };
    (made.filter(|it| *it).count() > 0).then_some((plan, event))
}

/// Makes a queue durable that others may use, too; whether it was not.
fn make_durable(destination: &mut Destination) -> bool {
    let options = &mut destination.amqp091;
    let changes = !destination.exclusive && !options.durable;
    options.durable |= changes;
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Group;

    const HERE: &str = "amqp://here";

    fn refusal(detail: &str) -> Error {
        let endpoint: crate::Endpoint = HERE.parse().unwrap();
        Error::Refused {
            endpoint: endpoint.to_string(),
            action: "declare classic queue \"q\"".to_owned(),
            detail: detail.to_owned(),
            help: String::new(),
        }
    }

    #[test]
    fn transient_queues_become_durable_once_where_they_were_refused() {
        let mut own = Destination::queue("own");
        own.exclusive = true;
        let destinations = vec![Destination::queue("q"), own];
        let at = |url: &str| Group::new(url.parse().unwrap(), destinations.clone());
        let plan = Plan {
            groups: vec![at(HERE), at("amqp://elsewhere")],
            ..Plan::default()
        };
        let refused =
            refusal("INTERNAL_ERROR (541), Feature `transient_nonexcl_queues` is deprecated.");
        let (changed, _) = permitted(&plan, &refused).expect("another plan");
        let durable = |plan: &Plan| -> Vec<bool> {
            let all = plan.groups.iter().flat_map(|group| &group.destinations);
            all.map(|it| it.amqp091.durable).collect()
        };
        assert_eq!(durable(&changed), [true, false, false, false]);
        assert!(permitted(&changed, &refused).is_none());
        // A cluster whose second node alone is new.
        let mut mixed = plan.clone();
        mixed.groups[1].further = vec![HERE.parse().unwrap()];
        let (changed, _) = permitted(&mixed, &refused).expect("another plan");
        assert_eq!(durable(&changed), [true, false, true, false]);
        assert!(permitted(&plan, &refusal("INTERNAL_ERROR (541), no disk")).is_none());
    }
}
