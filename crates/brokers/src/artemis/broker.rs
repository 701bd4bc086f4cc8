//! A disposable Artemis as the broker of an experiment.

use load::Endpoint;

use super::super::{
    Broker, BrokerError, Fault, Identity, Processes,
    log::LogFollower,
    managed::{Managed, Waiting, Workspace},
    registration::{Registration, Request},
};
use super::install::{self, ArtemisInstallation, PRODUCT};
use super::setup;
use crate::guardian::{self, clean_leftovers};
use experiment::BrokerKind;

pub(crate) const REGISTRATION: Registration = Registration {
    start: Some((BrokerKind::Artemis, start)),
    product: PRODUCT,
    program: "artemis",
    folders: &[
        ".tools/artemis/bin",
        "/opt/artemis/bin",
        "/opt/activemq-artemis/bin",
        "/opt/apache-artemis/bin",
    ],
    install: "scripts/setup artemis",
    installed: |spec| ArtemisInstallation::find(spec.root.as_deref()).map(drop),
    programs: |spec| install::programs(spec.root.as_deref()),
    ..Registration::NONE
};

/// An Artemis that an experiment has requested. Dropping it ends it.
#[derive(Debug)]
struct Artemis {
    process: Managed,
    identity: Identity,
    endpoint: Endpoint,
}

fn start(request: Request<'_>) -> Result<Box<dyn Broker>, BrokerError> {
    let spec = &request.experiment.broker;
    let cancelled = || request.control.is_stopping();
    let mut waiting = Waiting {
        progress: request.progress,
        cancelled: &cancelled,
    };
    for sentence in clean_leftovers() {
        waiting.step(&sentence);
    }
    let installation = ArtemisInstallation::find(spec.root.as_deref())?;
    let workspace = Workspace::new(PRODUCT, None, setup::NEEDED_SPACE)?;
    let guard = vec![request.bellows_exe.into(), guardian::SUBCOMMAND.into()];
    let (port, launch) = setup::write(&installation, &workspace, &spec.java_args, guard)?;
    let what = format!(
        "starting {PRODUCT} {} on {}",
        installation.version, installation.runtime
    );
    let process = workspace.start(launch, &what, &mut waiting)?;
    Ok(Box::new(Artemis {
        process,
        identity: Identity {
            kind: spec.kind.name(),
            product: PRODUCT,
            version: Some(installation.version),
            runtime: Some(installation.runtime),
        },
        endpoint: Endpoint::new("127.0.0.1", port),
    }))
}

impl Broker for Artemis {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn processes(&self) -> Processes {
        Processes::started(self.process.pid())
    }

    fn inject(&mut self, fault: Fault) -> Result<(), BrokerError> {
        self.process.inject(fault)
    }

    fn starter(&self, _node: usize) -> Option<u32> {
        self.process.starter()
    }

    fn follow_logs(&self) -> Vec<LogFollower> {
        vec![self.process.follow_log()]
    }

    fn logs(&self, lines: usize) -> String {
        self.process.log_tail(lines)
    }

    fn stop(self: Box<Self>) -> Result<(), BrokerError> {
        self.process.stop()
    }
}
