//! What a run consists of: messages, or objects that come and go.

use load::churn::{ChurnKind, ChurnPlan};
use load::{Control, Endpoint, Error, Outcome, Phases, Plan, Requested, Sink};

use crate::judge::Planned;
use crate::{Experiment, calibration};

/// A resolved load of either kind.
#[derive(Debug)]
pub(crate) enum Work {
    Messages(Plan),
    Churn(Box<ChurnPlan>),
}

/// What the sums of a churn need to know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Churning {
    pub(crate) kind: ChurnKind,
    pub(crate) messages: u32,
}

impl Work {
    pub(crate) fn of(
        experiment: &Experiment,
        endpoint: &Endpoint,
        run_id: u32,
    ) -> Result<Self, Error> {
        Ok(match experiment.churn_plan(endpoint)? {
            Some(churn) => Self::Churn(Box::new(churn)),
            None => Self::Messages(experiment.plan(endpoint, run_id)?),
        })
    }

    pub(crate) fn run(&self, control: &Control, sink: &mut dyn Sink) -> Result<Outcome, Error> {
        match self {
            Self::Messages(plan) => load::run(plan, control, sink),
            Self::Churn(plan) => load::churn::run(plan, control, sink),
        }
    }

    pub(crate) fn requested(&self) -> Result<Option<Requested>, Error> {
        match self {
            Self::Messages(plan) => plan.requested(),
            Self::Churn(plan) => plan.requested(),
        }
    }

    pub(crate) fn phases(&self) -> Phases {
        match self {
            Self::Messages(plan) => plan.phases,
            Self::Churn(plan) => plan.phases(),
        }
    }

    pub(crate) fn is_closed_loop(&self) -> bool {
        match self {
            Self::Messages(plan) => plan.is_closed_loop(),
            Self::Churn(_) => false,
        }
    }

    pub(crate) const fn churning(&self) -> Option<Churning> {
        match self {
            Self::Messages(_) => None,
            Self::Churn(plan) => Some(Churning {
                kind: plan.kind,
                messages: plan.messages,
            }),
        }
    }

    /// What the verdict has to know beforehand.
    pub(crate) fn planned(&self) -> Planned {
        match self {
            Self::Messages(plan) => Planned {
                capacity: calibration::kept().and_then(|kept| kept.capacity(plan)),
                ..Planned::of(plan)
            },
            Self::Churn(plan) => Planned {
                in_flight_limit: Some(plan.most_open as u64),
                ..Planned::default()
            },
        }
    }
}
