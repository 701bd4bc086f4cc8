//! Options that are not called like the key of an experiment that they set.

use experiment::OptionNames;

/// Option names of `client`, `producer`, `consumer`, `churn`, `probe` and `artemis perf`.
pub(super) const OPTION_NAMES: OptionNames = &[
    ("load.0.url", "--consumer-url"),
    ("ack", "--ack-every"),
    ("arguments", "--queue-args"),
    ("commit-every", "--commit-interval"),
    ("consumer-commit-every", "--commit-interval"),
    ("destination", "DESTINATION"),
    ("destinations", "DESTINATION"),
    ("declare", "--no-declare"),
    ("ledger", "--no-ledger"),
    ("oauth2.client-id", "--oauth2-client-id"),
    ("oauth2.uri", "--oauth2-uri"),
    ("phases.measure", "--duration"),
    ("probe.0.url", "URL"),
    ("producer-connections", "--shared-connections"),
    ("subscription", "--shared"),
];
