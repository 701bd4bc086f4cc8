//! Sentences about a server in place of a broker: probes alone load any server.

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

/// A sentence of a run that counts `items`: with requests alone it speaks of the server.
pub(super) fn for_items(sentence: String, items: &str) -> String {
    match items {
        "requests" => of_server(&sentence),
        _ => sentence,
    }
}
