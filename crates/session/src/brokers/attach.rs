//! Where a running broker is, and how to log in there.

use load::Endpoint;

use crate::experiment::BrokerSpec;
use crate::{Error, Experiment, oauth2};

/// The way to a running broker. Dropping it ends the renewal of its access token.
#[derive(Debug)]
pub struct Attached {
    /// Where, with TLS and login as asked for.
    pub endpoint: Endpoint,
    _renewal: Option<oauth2::Renewal>,
}

/// Resolves the way to a broker that runs already, and gets the first access token where one is
/// asked for.
///
/// # Errors
/// Where the table makes no sense, or there is no token.
pub fn attach(spec: &BrokerSpec) -> Result<Attached, Error> {
    let experiment = Experiment {
        broker: spec.clone(),
        ..Experiment::default()
    };
    experiment.check_broker()?;
    let mut endpoint = experiment.endpoint()?;
    let renewal = oauth2::log_in(spec, &mut endpoint)?;
    Ok(Attached {
        endpoint,
        _renewal: renewal,
    })
}
