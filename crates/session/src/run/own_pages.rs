//! Pages that a run serves itself, for its probes to ask.

use std::time::Duration;

use erlang::queues::{MOST_QUEUES, QueueRequest, QueueSort};
use measure::{Clock, Nanos, Problem, counted};

use super::companion::{Collected, Companion, LoadEnd, Unread};
use crate::Error;
use crate::queue_page::{QueuePage, pages_of};
use brokers::Broker;
use experiment::{Experiment, OwnPage, ProbedAddresses};
use web::page_server::PageServer;

/// The pages that a run serves, until this is dropped, which also removes everything from the broker's node.
#[derive(Debug, Default)]
pub(super) struct OwnPages(Vec<Served>);

#[derive(Debug)]
struct Served {
    kind: OwnPage,
    page: QueuePage,
    server: PageServer,
}

impl OwnPages {
    /// Serves the pages of the experiment's probes.
    pub(super) fn start(experiment: &Experiment, broker: &dyn Broker) -> Result<Self, Error> {
        let kinds = experiment.own_pages().into_iter();
        let pages = kinds.map(|kind| match kind {
            OwnPage::Queues => serve_queues_of(broker),
        });
        Ok(Self(pages.collect::<Result<_, _>>()?))
    }

    /// Addresses of pages and APIs that are known only now.
    pub(super) fn addresses(&self, broker: &dyn Broker) -> ProbedAddresses {
        let pages = self.0.iter();
        let address = |it: &Served| (it.kind, format!("http://{}", it.server.address()));
        ProbedAddresses { management: broker.management(), pages: pages.map(address).collect() }
    }

    /// Ends the pages, and reports the cost of each, or what prevented it.
    fn close(&mut self) -> Collected {
        let mut said = Collected::default();
        for Served { page, server, .. } in std::mem::take(&mut self.0) {
            drop(server);
            let (cost, asked) = (page.cost(), Clock.now());
            match page.close() {
                Ok(()) => said.notes.push(format!(
                    "page of queues: {}; the node was asked {}, which took it {}",
                    counted(cost.requests, "request"),
                    counted(cost.reads + cost.failures, "time"),
                    Nanos(cost.node_us * 1_000),
                )),
                Err(error) => said.unread.push(Unread {
                    asked,
                    at: Clock.now(),
                    node: Some(0),
                    what: "page of queues: its cost is unknown".to_owned(),
                    otherwise: format!("page of queues: {}", error.problem().sentence()),
                }),
            }
        }
        said
    }
}

impl Companion for OwnPages {
    fn finish(&mut self, _: &mut LoadEnd<'_>) -> Collected {
        self.close()
    }
}

impl Drop for OwnPages {
    fn drop(&mut self) {
        // Where the run broke off nobody asks what they cost.
        let _ = self.close();
    }
}

fn serve_queues_of(broker: &dyn Broker) -> Result<Served, Error> {
    let node = broker.erlang()?.ok_or_else(|| {
        Problem::new("the page of queues needs the broker's Erlang node", "", "name it with broker.node")
    })?;
    let request = QueueRequest { vhost: None, sort: QueueSort::Ready, limit: MOST_QUEUES, fresh: None };
    // Each request of a probe asks the node: that is what it measures.
    let page = QueuePage::open(node, request, Duration::ZERO).map_err(|error| error.problem())?;
    let server = PageServer::start("127.0.0.1:0", pages_of(&page)).map_err(|error| {
        Problem::new("cannot serve the page of queues", error, "check whether 127.0.0.1 has free ports")
    })?;
    Ok(Served { kind: OwnPage::Queues, page, server })
}
