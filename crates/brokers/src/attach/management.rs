//! The management API of a broker that runs already: who logs in, and what it is asked for.

use std::time::{Duration, Instant};

use archive::Topology;
use load::Endpoint;
use measure::Problem;

use crate::BrokerError;
use crate::answer::{NoAnswer, wait_for};
use crate::rabbitmq::control;
use experiment::BrokerSpec;
use web::Secret;
use web::management::{LoginRemedy, Management, ManagementOptions, TIMEOUT};

/// Holds the password of the user of the management API alone.
const OWN_PASSWORD: &str = "BELLOWS_MANAGEMENT_PASSWORD";
/// Holds it where the first is not set; on a command line this may be that of the broker's user.
const PASSWORD: &str = "BELLOWS_PASSWORD";
const REMEDY: LoginRemedy = LoginRemedy {
    login: "set broker.management-user (--management-user), and its password in BELLOWS_MANAGEMENT_PASSWORD",
    tag: "monitoring",
};
/// The longest that the API may take to take a login.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the management API is, and who logs in there.
#[derive(Debug)]
pub(super) struct ManagementLogin {
    /// All but the login.
    options: ManagementOptions,
    /// User and password where they are its own; `None`: those of the broker, whose password may be a token that is
    /// renewed.
    own: Option<(String, Secret)>,
}

impl ManagementLogin {
    /// As the experiment says it; `None` where it names no API.
    ///
    /// # Errors
    /// There is no password for its user.
    pub(super) fn new(spec: &BrokerSpec, endpoint: &Endpoint) -> Result<Option<Self>, Problem> {
        let Some(url) = &spec.management else {
            return Ok(None);
        };
        let user = spec.management_user.as_ref().unwrap_or(&endpoint.user);
        let is_brokers = *user == endpoint.user;
        let own = match set(OWN_PASSWORD) {
            // A token is of the broker's user, and no password takes its place.
            Some(_) if is_brokers && spec.oauth2.is_some() => None,
            Some(password) => Some((user.clone(), password)),
            None if is_brokers => None,
            None => Some((user.clone(), password(user)?)),
        };
        Ok(Some(Self {
            options: ManagementOptions {
                url: url.clone(),
                user: String::new(),
                password: Secret::new(""),
                ca: spec.ca.clone(),
                insecure: spec.insecure,
                remedy: REMEDY,
                timeout: TIMEOUT,
                busy: "the node is busy: try again when it is less so",
            },
            own,
        }))
    }

    /// The API with the login as it is now.
    pub(super) fn options(&self, endpoint: &Endpoint) -> ManagementOptions {
        let of_broker = || (endpoint.user.clone(), Secret::new(endpoint.password()));
        let (user, password) = self.own.clone().unwrap_or_else(of_broker);
        ManagementOptions {
            user,
            password,
            ..self.options.clone()
        }
    }
}

/// A variable of the environment, if it is set.
fn set(variable: &str) -> Option<Secret> {
    let set = std::env::var(variable).ok();
    set.filter(|it| !it.is_empty()).map(Secret::new)
}

/// The password of a user who is not the broker's, where there is none for the API alone.
fn password(user: &str) -> Result<Secret, Problem> {
    match set(PASSWORD) {
        Some(password) => Ok(password),
        None if user == "guest" => Ok(Secret::new("guest")),
        None => {
            let cause = "there is no password for the user of the management API";
            let help = format!("set {OWN_PASSWORD} or {PASSWORD}");
            Err(Problem::new(cause, user, help))
        }
    }
}

/// Logs in once, so that a wrong password is known before the load and not after it.
///
/// # Errors
/// Why the API is of no use, with the remedy.
pub(super) fn check(
    options: &ManagementOptions,
    control: &load::Control,
) -> Result<(), BrokerError> {
    let api = Management::new(options)?;
    let deadline = Instant::now() + CHECK_TIMEOUT;
    let cancelled = || control.is_stopping();
    let why = match wait_for(CHECK_TIMEOUT, &cancelled, move || api.check(deadline)) {
        Ok(Err(error)) if error.timed_out => NoAnswer::TimedOut,
        Ok(checked) => return Ok(checked.map_err(|it| it.problem)?),
        Err(why) => why,
    };
    let why = match why {
        NoAnswer::Cancelled => return Err(BrokerError::Cancelled),
        NoAnswer::TimedOut => format!("no answer within {} s", CHECK_TIMEOUT.as_secs()),
        NoAnswer::Failed(why) => why,
    };
    let url = web::redact::url(&options.url);
    let cause = format!("cannot log in to the management API at {url}");
    let help =
        "check host and port, and whether the broker is too busy; or leave out broker.management";
    Err(Problem::new(cause, why, help).into())
}

/// Queues, exchanges and bindings.
///
/// # Errors
/// [`BrokerError::Control`], also where the API does not answer within 20 s, or before `cancelled`.
pub(super) fn topology(
    options: &ManagementOptions,
    cancelled: &dyn Fn() -> bool,
) -> Result<Topology, BrokerError> {
    let deadline = Instant::now() + control::TIMEOUT;
    let why = match Management::new(options) {
        Err(error) => NoAnswer::Failed(error.to_string()),
        Ok(api) => match wait_for(control::TIMEOUT, cancelled, move || api.topology(deadline)) {
            Ok(Ok(topology)) => return Ok(topology),
            Ok(Err(error)) if error.timed_out => NoAnswer::TimedOut,
            Ok(Err(error)) => NoAnswer::Failed(error.problem.sentence()),
            Err(why) => why,
        },
    };
    Err(BrokerError::unanswered(
        control::OBJECTS,
        control::TIMEOUT,
        &why,
    ))
}
