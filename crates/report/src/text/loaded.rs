//! Sentences about a server in place of a broker: probes alone load any server.

use measure::ScenarioRole;

/// Words for a broker, and for a server in its place. Names never begin so: an article stands before, or `and` behind.
const OF_SERVER: [(&str, &str); 4] = [
    ("the broker", "the server"),
    ("broker (", "server ("),
    ("broker and generator", "server and generator"),
    // A key of experiments on brokers.
    (" (broker.ca)", ""),
];

/// A sentence on the broker as one on the server.
pub(crate) fn of_server(sentence: &str) -> String {
    let all = OF_SERVER.iter();
    all.fold(sentence.to_owned(), |text, (broker, server)| {
        text.replace(broker, server)
    })
}

/// A sentence on the loaded system.
pub(super) fn for_role(sentence: String, role: ScenarioRole) -> String {
    match role {
        ScenarioRole::Server => of_server(&sentence),
        ScenarioRole::Broker | ScenarioRole::Watcher => sentence,
    }
}
