//! A short conversation beside the load: declares, empties and deletes queues on a connection of its own.

use measure::Nanos;
use transport::ConnectOptions;
use wire::amqp091::FieldTable;

use super::AmqpConnection;
use super::assignment::declared_queue;
use super::properties::arguments;
use super::request::{Answer, ChannelSpec, Question, Queue, Request, Role};
use crate::control::Interruption;
use crate::protocol::routing::binding;
use crate::protocol::{Admin, Blocking, ConnectionSpec, Made, Progress, Server};
use crate::{
    Control, Declare, Destination, DestinationKind, Endpoint, Environment, Exchange, Group, QueueHandling, QueueType,
};
use plan::publishes_to;

pub(crate) struct AmqpAdmin<'a, E: Environment> {
    blocking: Blocking<'a, AmqpConnection, E>,
    server: Server,
}

impl<'a, E: Environment> Admin<'a, E> for AmqpAdmin<'a, E> {
    fn connect(
        environment: &E,
        endpoint: &Endpoint,
        options: ConnectOptions,
        timeout: Nanos,
        control: &'a Control,
    ) -> Result<Self, Interruption> {
        let spec = ConnectionSpec {
            endpoint: endpoint.clone(),
            name: "bellows set-up".to_owned(),
            timeout,
            resumes: false,
            clients: vec![ChannelSpec { role: Role::Requests, declaration: None }],
        };
        let mut blocking: Blocking<'a, AmqpConnection, E> = Blocking::connect(environment, spec, options, control)?;
        request(&mut blocking, Request::open_channel())?;
        let connection = blocking.connection();
        let names = ["product", "version", "cluster_name"].map(|name| connection.server_property(name));
        let most_clients = connection.most_clients();
        let server = blocking.server(names, most_clients);
        Ok(Self { blocking, server })
    }

    fn server(&self) -> &Server {
        &self.server
    }

    fn prepare(&mut self, group: &Group, made: &mut Vec<Made>) -> Result<(), Interruption> {
        let declare = group.queues.declare;
        let mut exchanges: Vec<&str> = Vec::new();
        for (_, destination) in group.own_destinations() {
            let exchange = destination.amqp091.exchange.as_ref();
            if let Some(exchange) = exchange.filter(|it| it.is_declared())
                && declare != Declare::Never
                && !exchanges.contains(&exchange.name.as_str())
            {
                exchanges.push(&exchange.name);
                self.declare_exchange(exchange, group.queues, made)?;
            }
            let is_queue = destination.kind != DestinationKind::Topic && !destination.exclusive;
            if is_queue && declare != Declare::Never {
                self.declare_queue(destination, group.queues, made)?;
                self.bind(destination)?;
            }
        }
        if group.queues.purge {
            purged(group).try_for_each(|queue| self.check_purge(group, queue))?;
        }
        self.subscribe(group)
    }

    fn purge(&mut self, group: &Group) -> Result<(), Interruption> {
        purged(group).try_for_each(|queue| self.purge_queue(queue))
    }

    fn delete(&mut self, made: &Made) -> Result<(), Interruption> {
        let request = match made {
            Made::Queue(name) => Request::delete_queue(name),
            Made::Exchange(name) => {
                let exchange = name.clone();
                Request::new(format!("delete {made}"), Question::DeleteExchange { exchange })
            }
        };
        self.request(request).map(drop)
    }

    fn depth(&mut self, queue: &str) -> Result<Option<(u32, u32)>, Interruption> {
        Ok(match self.request(Request::look_into(queue))? {
            Answer::Declared { messages, consumers, .. } => Some((messages, consumers)),
            _ => None,
        })
    }

    fn close(self) -> Result<(), Interruption> {
        self.blocking.close()
    }
}

impl<E: Environment> AmqpAdmin<'_, E> {
    /// Makes the queues behind a group's subscriptions, and binds them.
    fn subscribe(&mut self, group: &Group) -> Result<(), Interruption> {
        let subscription = group.consumers.subscription.as_ref();
        let lasts = subscription.is_some_and(|it| it.durable);
        for (queue, topic) in group.subscription_queues() {
            let (exchange, key) = publishes_to(topic);
            let action = format!("subscribe {queue:?} to {topic}");
            let bind = Request::bind(action, &queue, exchange, key);
            let action = format!("declare subscription {queue:?}");
            let queue = Queue {
                name: queue,
                durable: lasts || topic.amqp091.durable,
                auto_delete: !lasts,
                exclusive: false,
                arguments: arguments(topic)?,
            };
            self.request(Request::declare_queue(action, queue))?;
            self.request(bind)?;
        }
        Ok(())
    }

    fn declare_exchange(
        &mut self,
        exchange: &Exchange,
        handling: QueueHandling,
        made: &mut Vec<Made>,
    ) -> Result<(), Interruption> {
        let action = format!("declare {} exchange {:?}", exchange.kind, exchange.name);
        let request = |passive| {
            let exchange = exchange.clone();
            Request::new(action.clone(), Question::DeclareExchange { exchange, passive })
        };
        // It goes with its last binding, and has none where the load ends before its queues are there.
        let deletes = handling.delete && exchange.auto_delete;
        self.declare(handling.declare, request, deletes.then(|| Made::Exchange(exchange.name.clone())), made)
    }

    fn declare_queue(
        &mut self,
        destination: &Destination,
        handling: QueueHandling,
        made: &mut Vec<Made>,
    ) -> Result<(), Interruption> {
        let queue = declared_queue(destination, false)?;
        let kind = destination.amqp091.queue_type.name();
        let action = format!("declare {kind} queue {:?}", destination.name);
        let request = |passive| Request::new(action.clone(), Question::DeclareQueue { queue: queue.clone(), passive });
        let deleted = handling.delete.then(|| Made::Queue(destination.name.clone()));
        self.declare(handling.declare, request, deleted, made)
    }

    /// Declares by a request that may be passive, or finds that it is there already and equal; what it is, where it is
    /// to be deleted, goes to `made` if it was not there.
    fn declare(
        &mut self,
        declare: Declare,
        request: impl Fn(bool) -> Request,
        deleted: Option<Made>,
        made: &mut Vec<Made>,
    ) -> Result<(), Interruption> {
        let takes_any = declare == Declare::IfMissing;
        if takes_any || deleted.is_some() {
            if self.request(request(true))? == Answer::Missing {
                // Also where the answer to the declaration is not waited for.
                made.extend(deleted);
            } else if takes_any {
                return Ok(());
            }
        }
        self.request(request(false)).map(drop)
    }

    fn bind(&mut self, destination: &Destination) -> Result<(), Interruption> {
        let Some(key) = binding(destination) else { return Ok(()) };
        let (exchange, _) = publishes_to(destination);
        let queue = &destination.name;
        let action = format!("bind queue {queue:?} to exchange {exchange:?}");
        self.request(Request::bind(action, queue, exchange, key)).map(drop)
    }

    /// Finds out, before any queue is emptied, whether this one may be, and consumed from: where others consume from
    /// it, one of them may be exclusive, and a subscription is the only way to know.
    fn check_purge(&mut self, group: &Group, queue: &str) -> Result<(), Interruption> {
        match self.depth(queue)? {
            None => return self.purge_queue(queue),
            Some((_, 0)) => return Ok(()),
            Some(_) if group.consumer_count() == 0 || group.consumers.poll.is_some() => return Ok(()),
            Some(_) => {}
        }
        // At most one message comes, and goes back with the channel.
        let prefetch = Question::Prefetch { count: 1, whole: false };
        let consume = Question::Consume { queue: queue.to_owned(), no_ack: false, arguments: FieldTable::new() };
        self.request(Request::new("limit the prefetch to 1", prefetch))?;
        self.request(Request::new(format!("consume from {queue:?}"), consume))?;
        self.request(Request::close_channel())?;
        self.request(Request::open_channel()).map(drop)
    }

    fn purge_queue(&mut self, queue: &str) -> Result<(), Interruption> {
        let purge = Question::Purge { queue: queue.to_owned() };
        self.request(Request::new(format!("empty queue {queue:?}"), purge)).map(drop)
    }

    fn request(&mut self, question: Request) -> Result<Answer, Interruption> {
        request(&mut self.blocking, question)
    }
}

fn request<E: Environment>(
    blocking: &mut Blocking<'_, AmqpConnection, E>,
    question: Request,
) -> Result<Answer, Interruption> {
    blocking.connection().ask(0, question)?;
    let answer = blocking.wait_for(
        |connection, progress| {
            if progress == Progress::Answered { connection.answer() } else { None }
        },
    )?;
    if answer == Answer::Missing {
        // The broker has closed the channel.
        request(blocking, Request::open_channel())?;
    }
    Ok(answer)
}

/// The queues of a group that can be emptied.
fn purged(group: &Group) -> impl Iterator<Item = &str> {
    let shared = |it: &&Destination| it.kind == DestinationKind::Queue && !it.exclusive;
    let destinations = group.consumed_destinations().map(|(_, it)| it).filter(shared);
    destinations.filter(|it| it.amqp091.queue_type != QueueType::Stream).map(|it| it.name.as_str())
}
