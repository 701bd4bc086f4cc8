//! Where the brokers are, how connections are secured, and how clients log in.

use std::path::PathBuf;

use experiment::{BrokerKind, BrokerSpec, OAuth2Spec};
use load::{Allocation, Auth};
use web::Secret;

use super::values::{Values, bad, split_urls};
use crate::Failure;

/// The addresses of `-h` or `-H`; at least one.
pub(super) fn urls(values: &Values) -> Vec<String> {
    let given = values.text("uris").or(values.text("uri"));
    split_urls(given.unwrap_or("amqp://localhost")).map(str::to_owned).collect()
}

pub(super) fn broker(values: &Values) -> Result<BrokerSpec, Failure> {
    let mut urls = urls(values).into_iter();
    let path = |long: &str| values.text(long).map(PathBuf::from);
    Ok(BrokerSpec {
        kind: BrokerKind::Attach,
        url: urls.next(),
        further_urls: urls.collect(),
        allocation: values.choice("connection-allocation", &ALLOCATIONS)?.unwrap_or(Allocation::Random),
        heartbeat: Some(small(values, "heartbeat")?),
        frame_max: Some(values.whole("framemax", 0)?).filter(|bytes| *bytes > 0),
        nagle: !values.flag("tcp-no-delay", true)?,
        send_buffer: size(values, "tcp-send-buffer-size")?,
        receive_buffer: size(values, "tcp-receive-buffer-size")?,
        ca: path("tls-ca"),
        cert: path("tls-cert"),
        key: path("tls-key"),
        insecure: values.has("tls-insecure"),
        sni: server_name(values)?,
        auth: if values.has("sasl-external") { Auth::External } else { Auth::Plain },
        oauth2: oauth2(values)?,
        ..BrokerSpec::default()
    })
}

const ALLOCATIONS: [(&str, Allocation); 2] = [("random", Allocation::Random), ("round-robin", Allocation::RoundRobin)];

fn small(values: &Values, long: &str) -> Result<u16, Failure> {
    let number = values.whole(long, 0)?;
    u16::try_from(number).map_err(|_| bad(long, &number.to_string(), "65535 or less"))
}

/// 0 and less leave it to the system.
fn size(values: &Values, long: &str) -> Result<Option<usize>, Failure> {
    let bytes = match values.text(long) {
        Some("-1") => 0,
        _ => values.whole(long, 0)?,
    };
    Ok(usize::try_from(bytes).ok().filter(|bytes| *bytes > 0))
}

fn server_name(values: &Values) -> Result<Option<String>, Failure> {
    match values.text("server-name-indication") {
        Some(names) if names.contains(',') => Err(bad("server-name-indication", names, "one name")),
        name => Ok(name.map(str::to_owned)),
    }
}

fn oauth2(values: &Values) -> Result<Option<OAuth2Spec>, Failure> {
    let Some(uri) = values.text("oauth2-token-endpoint") else {
        return match values.text("oauth2-client-id") {
            None => Ok(None),
            Some(id) => Err(bad("oauth2-client-id", id, "-o2uri/--oauth2-token-endpoint too")),
        };
    };
    values.choice("oauth2-grant-type", &[("client_credentials", ())])?;
    let Some(client_id) = values.text("oauth2-client-id") else {
        return Err(bad("oauth2-token-endpoint", uri, "-o2id/--oauth2-client-id too"));
    };
    let parameters = values.list("oauth2-parameters").iter().map(|pair| {
        let (name, value) = pair.split_once('=').ok_or_else(|| bad("oauth2-parameters", pair, "NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    Ok(Some(OAuth2Spec {
        uri: uri.to_owned(),
        client_id: client_id.to_owned(),
        parameters: parameters.collect::<Result<_, Failure>>()?,
        client_secret: values.text("oauth2-client-secret").map(Secret::new),
        ..OAuth2Spec::default()
    }))
}
