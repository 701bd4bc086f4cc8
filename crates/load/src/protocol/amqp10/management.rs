//! Queues before and after a load: those of RabbitMQ and the embedded broker go by AMQP 0.9.1, on the same port; those
//! of ActiveMQ Artemis by its management address.
//!
//! A question is a message to `activemq.management`: resource and operation are application properties, the parameters
//! a JSON array. The answer comes to a queue that the broker makes for this link alone.

use measure::Nanos;
use serde_json::{Value, json};
use transport::ConnectOptions;
use wire::amqp10::{
    Amqp10Client, Amqp10Error, Amqp10Event, Attach, Composite, DeliveryState, MessageHead, PropertiesSection, Source,
    Symbol, Target, TransferTemplate, TypedValue,
};
use wire::amqp091::Reader;

use super::address::Dialect;
use super::{AmqpConnection, Answer, LinkConnection, LinkSpec, failure};
use crate::control::Interruption;
use crate::failure::{Stage, one_line};
use crate::protocol::{Admin, Blocking, Connection, ConnectionSpec, Made, Progress, Server};
use crate::{Control, Declare, Destination, DestinationKind, Endpoint, Environment, Error, Group, Protocol, QueueType};

const ADDRESS: &str = "activemq.management";
/// Its only session, and the links there.
const SESSION: u16 = 0;
const QUESTIONS: u32 = 0;
const ANSWERS: u32 = 1;
/// Bytes of the largest answer; a queue's row has some hundred.
const LARGEST_ANSWER: usize = 1 << 20;
/// Characters of a broker's reason that are shown.
const LONGEST_REASON: usize = 1_000;
/// The embedded broker's product name.
const EMBEDDED: &str = "bellows broker";
/// Artemis' product name, as it is shown.
const ARTEMIS: &str = "ActiveMQ Artemis";
const NOT_PERMITTED: &str = "the user may not manage the broker";
const UNREADABLE: &str = "the answer about a queue cannot be read";

#[derive(Debug)]
pub(super) struct ManagementQuestion {
    /// `broker`, or `queue.NAME`.
    resource: String,
    operation: &'static str,
    parameters: String,
}

#[derive(Debug)]
pub(super) enum ManagementReply {
    Done(String),
    Failed(String),
    /// The question itself was refused.
    Untaken,
}

/// A connection's links for questions and answers.
#[derive(Debug, Default)]
pub(super) struct Management {
    reply_to: String,
    /// The number of the question that was sent last.
    number: u64,
    /// Whether it has no answer yet.
    is_waiting: bool,
    /// Waits for credit.
    pub(super) question: Option<ManagementQuestion>,
    pub(super) reply: Option<ManagementReply>,
}

impl Management {
    /// Links that it waits for.
    pub(super) const LINKS: usize = 2;

    /// Begins its session and attaches both links.
    pub(super) fn attach(client: &mut Amqp10Client, name: &str) -> Result<(), Amqp10Error> {
        client.begin(SESSION)?;
        let (mut address, mut nowhere) = (Vec::new(), Vec::new());
        Target { address: TypedValue::Str(ADDRESS), ..Target::default() }.write(&mut address);
        Target::default().write(&mut nowhere);
        let target = |bytes| TypedValue::read(&mut Reader::new(bytes)).unwrap_or_default();
        let both = Attach { snd_settle_mode: Some(1), rcv_settle_mode: Some(0), ..Attach::default() };
        client.attach(
            SESSION,
            &Attach {
                name: &format!("{name} questions"),
                handle: QUESTIONS,
                source: Some(Source::default()),
                target: target(&address),
                initial_delivery_count: Some(0),
                // Whether the user may ask is told in the answer to the message, on which a settled one has no claim.
                snd_settle_mode: Some(0),
                ..both
            },
        )?;
        client.attach(
            SESSION,
            &Attach {
                name: &format!("{name} answers"),
                handle: ANSWERS,
                is_receiver: true,
                source: Some(Source { dynamic: Some(true), ..Source::default() }),
                target: target(&nowhere),
                ..both
            },
        )
    }

    /// Sends the question, where there is one and the broker takes it now.
    pub(super) fn send(&mut self, client: &mut Amqp10Client) -> Result<(), Amqp10Error> {
        if client.credit(SESSION, QUESTIONS, 1) == 0 {
            return Ok(());
        }
        let Some(question) = self.question.take() else { return Ok(()) };
        self.number += 1;
        let number = self.number.to_string();
        let message = MessageHead {
            properties: PropertiesSection {
                reply_to: TypedValue::Str(&self.reply_to),
                correlation_id: TypedValue::Str(&number),
                // It reads parameters from text alone.
                content_type: Some(Symbol("text/plain")),
                ..PropertiesSection::default()
            },
            application_properties: &[
                ("_AMQ_ResourceName", TypedValue::Str(&question.resource)),
                ("_AMQ_OperationName", TypedValue::Str(question.operation)),
            ],
            ..MessageHead::default()
        };
        let template = TransferTemplate::new(SESSION, QUESTIONS, false, &message, client.frame_max())?;
        client.flow(SESSION, ANSWERS, 1, false);
        client.publish(&template, question.parameters.as_bytes(), |_| {});
        self.is_waiting = true;
        Ok(())
    }

    /// The answer that an event is to a step.
    pub(super) fn take(&mut self, event: &Amqp10Event<'_>, endpoint: &Endpoint) -> Result<Option<Answer>, Error> {
        Ok(match event {
            Amqp10Event::Attached { handle, exists: true, address, .. } => {
                if *handle == ANSWERS {
                    address.unwrap_or_default().clone_into(&mut self.reply_to);
                    if self.reply_to.is_empty() {
                        return Err(Error::Refused {
                            endpoint: endpoint.to_string(),
                            action: "manage queues".to_owned(),
                            detail: "the broker names no address for its answers".to_owned(),
                            help: "see the broker's log".into(),
                        });
                    }
                }
                Some(Answer::Attached)
            }
            Amqp10Event::Flow { .. } => Some(Answer::Credit),
            Amqp10Event::Settled {
                state: Some(DeliveryState::Rejected(_) | DeliveryState::Released | DeliveryState::Modified(_)),
                ..
            } if self.is_waiting => {
                self.is_waiting = false;
                self.reply = Some(ManagementReply::Untaken);
                Some(Answer::Fence)
            }
            Amqp10Event::Delivery { message, .. } => {
                let body = message.body.bytes();
                if !self.is_waiting || body.len() > LARGEST_ANSWER {
                    return Err(failure::unasked(endpoint, &format!("answer of {} bytes", body.len())));
                }
                let properties = message.before.properties().unwrap_or_default();
                // Old versions send back no number.
                if properties.correlation_id.as_str().is_some_and(|it| it.parse::<u64>() != Ok(self.number)) {
                    return Ok(None);
                }
                self.is_waiting = false;
                let text = String::from_utf8_lossy(body).into_owned();
                let succeeded = message.before.application_property("_AMQ_OperationSucceeded");
                self.reply = Some(match succeeded == Some(TypedValue::Bool(true)) {
                    true => ManagementReply::Done(text),
                    false => ManagementReply::Failed(text),
                });
                Some(Answer::Fence)
            }
            Amqp10Event::Detached { error, .. } | Amqp10Event::Ended { error, .. } => {
                let stage = Stage::SetUp("manage queues".to_owned());
                return Err(failure::of_closing(endpoint, &stage, error.as_ref()));
            }
            _ => None,
        })
    }
}

type AmqpAdmin<'a, E> = <AmqpConnection as Connection>::Admin<'a, E>;

/// Asks whoever knows about a broker's queues.
pub(crate) enum LinkAdmin<'a, E: Environment> {
    Amqp091(Box<AmqpAdmin<'a, E>>),
    Artemis(Box<ArtemisAdmin<'a, E>>),
}

pub(crate) struct ArtemisAdmin<'a, E: Environment> {
    blocking: Blocking<'a, LinkConnection, E>,
    server: Server,
    /// The user may ask; otherwise there is what the broker makes by itself.
    may_manage: bool,
    /// Destinations must be there, and whether they are is not known.
    is_unsure: bool,
}

impl<'a, E: Environment> Admin<'a, E> for LinkAdmin<'a, E> {
    fn connect(
        environment: &E,
        endpoint: &Endpoint,
        options: ConnectOptions,
        timeout: Nanos,
        control: &'a Control,
    ) -> Result<Self, Interruption> {
        let amqp091 = |options| {
            let admin = AmqpAdmin::connect(environment, endpoint, options, timeout, control);
            admin.map(|it| Self::Amqp091(Box::new(it)))
        };
        // A group of a load over several protocols.
        if endpoint.protocol == Protocol::Amqp091 {
            return amqp091(options);
        }
        let connect = |clients| {
            let spec = ConnectionSpec {
                endpoint: endpoint.clone(),
                name: "bellows set-up".to_owned(),
                timeout,
                resumes: false,
                clients,
            };
            Blocking::<LinkConnection, E>::connect(environment, spec, options.clone(), control)
        };
        let (mut blocking, may_manage) = match connect(vec![LinkSpec::Management]) {
            Err(Interruption::Failed(Error::Refused { .. })) => (connect(Vec::new())?, false),
            connected => (connected?, true),
        };
        let [product, version] = blocking.connection().server.clone();
        if Dialect::of(&product) == Dialect::RabbitMq {
            blocking.close()?;
            return amqp091(options).map_err(|error| match error {
                Interruption::Failed(Error::Protocol { endpoint, detail }) => {
                    failure::without_amqp091(endpoint, detail).into()
                }
                other => other,
            });
        }
        let product = match product.as_str() {
            "apache-activemq-artemis" => ARTEMIS.to_owned(),
            _ => product,
        };
        let most_clients = blocking.connection().most_clients();
        let server = blocking.server([product, version, String::new()], most_clients);
        Ok(Self::Artemis(Box::new(ArtemisAdmin { blocking, server, may_manage, is_unsure: false })))
    }

    fn server(&self) -> &Server {
        match self {
            Self::Amqp091(admin) => admin.server(),
            Self::Artemis(admin) => &admin.server,
        }
    }

    fn prepare(&mut self, group: &Group, made: &mut Vec<Made>) -> Result<(), Interruption> {
        match self {
            Self::Amqp091(admin) => {
                if group.protocol == Protocol::Amqp10 {
                    refuse_topics(group)?;
                    refuse_transactions(group, &admin.server().product)?;
                    refuse_selectors(group, &admin.server().product)?;
                }
                admin.prepare(group, made)
            }
            Self::Artemis(admin) => admin.prepare(group, made),
        }
    }

    fn doubt(&self) -> Option<&'static str> {
        matches!(self, Self::Artemis(admin) if admin.is_unsure).then_some(
            "whether the destinations exist cannot be known here (Artemis tells users with permission manage): the \
             broker may create those that are missing",
        )
    }

    fn purge(&mut self, group: &Group) -> Result<(), Interruption> {
        match self {
            Self::Amqp091(admin) => admin.purge(group),
            Self::Artemis(admin) => queues(group).try_for_each(|queue| admin.purge(&queue.name)),
        }
    }

    fn delete(&mut self, made: &Made) -> Result<(), Interruption> {
        match (self, made) {
            (Self::Amqp091(admin), made) => admin.delete(made),
            (Self::Artemis(admin), Made::Queue(queue)) => admin.delete(queue),
            (Self::Artemis(_), Made::Exchange(_)) => Ok(()),
        }
    }

    fn depth(&mut self, queue: &str) -> Result<Option<(u32, u32)>, Interruption> {
        match self {
            Self::Amqp091(admin) => admin.depth(queue),
            Self::Artemis(admin) => admin.depth(queue),
        }
    }

    fn close(self) -> Result<(), Interruption> {
        match self {
            Self::Amqp091(admin) => admin.close(),
            Self::Artemis(admin) => admin.blocking.close(),
        }
    }
}

fn queues(group: &Group) -> impl Iterator<Item = &Destination> {
    group.own_destinations().map(|(_, it)| it).filter(|it| it.kind == DestinationKind::Queue)
}

/// A queue's own name, where it stands behind that of its address: `ADDRESS::QUEUE`.
fn own(name: &str) -> &str {
    name.split_once("::").map_or(name, |(_, queue)| queue)
}

/// RabbitMQ and the embedded broker have no address of a topic to receive from: it takes a queue, which somebody must
/// declare and bind.
fn refuse_topics(group: &Group) -> Result<(), Error> {
    let is_topic = group.destinations.iter().any(|it| it.kind == DestinationKind::Topic);
    if !is_topic || group.consumer_count() == 0 || group.consumers.subscription.is_some() {
        return Ok(());
    }
    let what = "topics without {subscription}: not over AMQP 1.0 on this broker";
    let help = "give {subscription}, or use AMQP 0.9.1: amqp:// in the URL, and no {protocol}";
    Err(Error::invalid(what, help).about("destination"))
}

/// RabbitMQ has no coordinator of transactions. Of another broker its answer tells whether it has one.
fn refuse_transactions(group: &Group, product: &str) -> Result<(), Error> {
    let asked = [
        (group.producers.guarantee.commit_every(), "commit-every"),
        (group.consumers.commit_every, "consumer-commit-every"),
    ];
    let asked = asked.into_iter().find(|(every, _)| *every > 0 && product == "RabbitMQ");
    let Some((every, key)) = asked else { return Ok(()) };
    let help = format!("leave {{{key}}} out, or use AMQP 0.9.1: amqp:// in the URL, and no {{protocol}}");
    Err(Error::invalid("transactions: RabbitMQ has none over AMQP 1.0", help).observed(every).about(key))
}

/// RabbitMQ selects messages of streams alone, the embedded broker none.
fn refuse_selectors(group: &Group, product: &str) -> Result<(), Error> {
    let is_stream = group.destinations.iter().all(|it| it.amqp091.queue_type == QueueType::Stream);
    let selects = is_stream && product != EMBEDDED;
    if selects || group.consumer_count() == 0 || group.consumers.selector.is_none() {
        return Ok(());
    }
    let what = "selectors of queues: not over AMQP 1.0 on this broker";
    let help = "leave {selector} out, or load a stream of RabbitMQ from 4.2 on ({queue-type}), or ActiveMQ Artemis";
    Err(Error::invalid(what, help).about("selector"))
}

/// Refuses topics whose consumers would share one queue where each is to have all messages.
fn refuse_queues_of_topics(group: &Group) -> Result<(), Error> {
    let mut topics = group.destinations.iter().filter(|it| it.kind == DestinationKind::Topic);
    match topics.find(|it| it.name.contains("::")).filter(|_| group.consumer_count() > 0) {
        None => Ok(()),
        Some(topic) => {
            let what = format!("{topic} names one queue, and a topic's messages go to all of its queues");
            Err(Error::invalid(what, "name the topic without ::, or write queue://")
                .observed(topic)
                .about("destination"))
        }
    }
}

impl<E: Environment> ArtemisAdmin<'_, E> {
    fn prepare(&mut self, group: &Group, made: &mut Vec<Made>) -> Result<(), Interruption> {
        if let Some(key) = group.destinations.iter().find_map(|it| it.amqp091.foreign()) {
            let what = format!("{{{key}}}: {} has none", self.server.product);
            return Err(Error::invalid(what, format!("leave {{{key}}} out, or load RabbitMQ")).about(key).into());
        }
        refuse_queues_of_topics(group)?;
        if let Some((queue, _)) = group.subscription_queues().find(|(queue, _)| queue.contains("::")) {
            let what = format!("{queue:?}: {} takes what stands before :: for an address", self.server.product);
            return Err(Error::invalid(what, "name subscription and topics without ::").about("subscription").into());
        }
        if group.queues.declare == Declare::Never {
            self.require(group)?;
        } else {
            for queue in queues(group) {
                // A user who may not ask has what the broker makes by itself.
                if self.depth(&queue.name)?.is_none() && self.may_manage {
                    // Also where the answer to the declaration is not waited for.
                    made.extend(group.queues.delete.then(|| Made::Queue(queue.name.clone())));
                    let options = &queue.amqp091;
                    self.declare(&queue.name, &queue.name, "ANYCAST", options.durable, options.auto_delete)?;
                }
            }
        }
        let lasts = group.consumers.subscription.as_ref().is_some_and(|it| it.durable);
        for (queue, topic) in group.subscription_queues() {
            // A user who may not ask has the queue that the broker makes for the first link to it, as for queues.
            if self.depth(&queue)?.is_none() && self.may_manage {
                self.declare(&queue, &topic.name, "MULTICAST", lasts, !lasts)?;
            }
        }
        Ok(())
    }

    /// Checks that destinations are there: a link to one that is not would make it. Without an answer it is unsure.
    fn require(&mut self, group: &Group) -> Result<(), Interruption> {
        // An address with a wildcard stands for others, and an exclusive queue is its consumers'.
        let is_named = |it: &&Destination| !it.exclusive && !it.name.contains(['#', '*']);
        for destination in group.destinations.iter().filter(is_named) {
            let asked = match (self.server.product == ARTEMIS && self.may_manage, destination.kind) {
                (false, _) => Ok(None),
                (true, DestinationKind::Queue) => self.depth(&destination.name).map(|it| Some(it.is_some())),
                (true, DestinationKind::Topic) => self.has_address(&destination.name).map(Some),
            };
            let is_there = match asked {
                Err(Interruption::Failed(Error::Refused { .. })) => None,
                asked => asked?.filter(|_| self.may_manage),
            };
            self.is_unsure |= is_there.is_none();
            if is_there == Some(false) {
                return Err(Error::Refused {
                    endpoint: self.server.address.to_string(),
                    action: format!("use {destination}"),
                    detail: "it does not exist".to_owned(),
                    help: "create it first, or let the load declare it".into(),
                }
                .into());
            }
        }
        Ok(())
    }

    fn has_address(&mut self, name: &str) -> Result<bool, Interruption> {
        let name = name.split_once("::").map_or(name, |(address, _)| address);
        let action = format!("look into address {name:?}");
        let text = self.ask(action, "broker".to_owned(), "listAddresses", &page_of(name))?;
        Ok(row(&text, name).map_err(|what| self.unreadable(what))?.is_some())
    }

    fn unreadable(&self, what: &str) -> Interruption {
        Error::Protocol { endpoint: self.server.address.to_string(), detail: what.to_owned() }.into()
    }

    /// Makes a queue of an address, which may go with its last consumer, whatever it holds then.
    fn declare(
        &mut self,
        queue: &str,
        address: &str,
        routing: &str,
        durable: bool,
        auto_delete: bool,
    ) -> Result<(), Interruption> {
        let mut wanted = json!({
            "name": queue, "address": address, "routing-type": routing, "durable": durable, "auto-create-address": true,
        });
        if auto_delete {
            wanted["auto-delete"] = json!(true);
            wanted["auto-delete-message-count"] = json!(-1);
        }
        let parameters = json!([wanted.to_string(), true]);
        self.ask(format!("declare queue {queue:?}"), "broker".to_owned(), "createQueue", &parameters).map(drop)
    }

    fn purge(&mut self, queue: &str) -> Result<(), Interruption> {
        let resource = format!("queue.{}", own(queue));
        self.ask(format!("empty queue {queue:?}"), resource, "removeAllMessages", &json!([])).map(drop)
    }

    fn delete(&mut self, queue: &str) -> Result<(), Interruption> {
        // A user who may not manage is told so: the queue may be there.
        if self.depth(queue)?.is_none() && self.may_manage {
            return Ok(());
        }
        let parameters = json!([own(queue), true, true]);
        self.ask(format!("delete queue {queue:?}"), "broker".to_owned(), "destroyQueue", &parameters).map(drop)
    }

    fn depth(&mut self, queue: &str) -> Result<Option<(u32, u32)>, Interruption> {
        if !self.may_manage {
            return Ok(None);
        }
        let name = own(queue);
        let action = format!("look into queue {queue:?}");
        let text = match self.ask(action, "broker".to_owned(), "listQueues", &page_of(name)) {
            Err(_) if !self.may_manage => return Ok(None),
            answer => answer?,
        };
        // Not taken for a queue that is not there: it would be declared, and deleted when the load does not take place.
        listed(&text, name).map_err(|what| self.unreadable(what))
    }

    fn ask(
        &mut self,
        action: String,
        resource: String,
        operation: &'static str,
        parameters: &Value,
    ) -> Result<String, Interruption> {
        let refused = |detail: String| Error::Refused {
            endpoint: self.server.address.to_string(),
            action: action.clone(),
            detail,
            help: "see the broker's log, and whether the user may manage it (permission manage)".into(),
        };
        if !self.may_manage {
            return Err(refused(NOT_PERMITTED.to_owned()).into());
        }
        let question = ManagementQuestion { resource, operation, parameters: parameters.to_string() };
        self.blocking.connection().ask(&action, question)?;
        let reply = self.blocking.wait_for(|connection, progress| {
            let replied = progress == Progress::Answered;
            replied.then(|| connection.reply()).flatten()
        })?;
        match reply {
            ManagementReply::Done(text) => Ok(text),
            ManagementReply::Failed(text) => {
                Err(refused(one_line(&text.chars().take(LONGEST_REASON).collect::<String>())).into())
            }
            ManagementReply::Untaken => {
                self.may_manage = false;
                Err(refused(NOT_PERMITTED.to_owned()).into())
            }
        }
    }
}

/// Parameters of a question for the one row of this name.
fn page_of(name: &str) -> Value {
    let filter = json!({"field": "name", "operation": "EQUALS", "value": name, "sortField": "", "sortOrder": ""});
    json!([filter.to_string(), 1, 1])
}

/// The row of this name in an answer to `listQueues` or `listAddresses`, an array of one text, which is JSON again.
fn row(answer: &str, name: &str) -> Result<Option<Value>, &'static str> {
    let [text] = serde_json::from_str::<[String; 1]>(answer).map_err(|_| UNREADABLE)?;
    let page: Value = serde_json::from_str(&text).map_err(|_| UNREADABLE)?;
    let rows = page.get("data").and_then(Value::as_array).ok_or(UNREADABLE)?;
    Ok(rows.iter().find(|row| row.get("name").and_then(Value::as_str) == Some(name)).cloned())
}

/// Messages and consumers of a queue in an answer to `listQueues`; `None` where the queue is not there.
fn listed(answer: &str, queue: &str) -> Result<Option<(u32, u32)>, &'static str> {
    let Some(row) = row(answer, queue)? else { return Ok(None) };
    // Numbers are texts in some versions.
    let number = |key| match row.get(key)? {
        Value::String(text) => text.parse::<u64>().ok(),
        value => value.as_u64(),
    };
    let count = |key| number(key).map(|it| u32::try_from(it).unwrap_or(u32::MAX)).ok_or(UNREADABLE);
    Ok(Some((count("messageCount")?, count("consumerCount")?)))
}

#[cfg(test)]
mod tests {
    use wire::amqp10::MessageParts;

    use super::*;

    #[test]
    fn a_queue_is_found_in_what_artemis_lists() {
        let row = r#"{\"name\":\"q\",\"consumerCount\":\"2\",\"messageCount\":\"17\"}"#;
        let answer = format!(r#"["{{\"data\":[{row}],\"count\":1}}"]"#);
        assert_eq!(listed(&answer, "q"), Ok(Some((17, 2))));
        assert_eq!(listed(&answer, "another"), Ok(None));
        assert_eq!(listed(r#"["{\"data\":[]}"]"#, "q"), Ok(None));
        let addresses = r#"["{\"data\":[{\"name\":\"t\",\"queueCount\":0}]}"]"#;
        assert_eq!(["t", "u"].map(|name| super::row(addresses, name).map(|it| it.is_some())), [Ok(true), Ok(false)]);
        for answer in ["", "[]", "[null]", r#"["{}"]"#, r#"["{\"data\":[{\"name\":\"q\"}]}"]"#, "[1, 2]"] {
            assert_eq!(listed(answer, "q"), Err(UNREADABLE), "{answer}");
        }
    }

    #[test]
    fn a_queue_is_asked_for_by_its_own_name() {
        for (name, queue) in [("q", "q"), ("a::q", "q"), ("a::b::c", "b::c"), ("a:b", "a:b")] {
            assert_eq!(own(name), queue);
        }
    }

    /// Gives it a message of the link for answers.
    fn told(management: &mut Management, message: &MessageHead<'_>, body: &str) -> Result<Option<Answer>, Error> {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        bytes.extend([0, 0x53, 0x77, 0xb1]);
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.extend(body.as_bytes());
        let message = MessageParts::read(&bytes).unwrap();
        let event = Amqp10Event::Delivery {
            session: SESSION,
            handle: ANSWERS,
            id: 0,
            settled: true,
            transaction: None,
            message,
        };
        management.take(&event, &"amqp://localhost".parse().unwrap())
    }

    #[test]
    fn only_the_answer_to_the_question_is_taken() {
        let numbered = |number| MessageHead {
            properties: PropertiesSection { correlation_id: TypedValue::Str(number), ..PropertiesSection::default() },
            ..MessageHead::default()
        };
        let mut management = Management { number: 2, ..Management::default() };
        assert!(told(&mut management, &numbered("2"), "[]").is_err(), "nothing was asked");
        management.is_waiting = true;
        assert_eq!(told(&mut management, &numbered("1"), "[]"), Ok(None), "to the question before");
        assert!(told(&mut management, &numbered("2"), &"x".repeat(LARGEST_ANSWER + 1)).is_err());
        assert_eq!(told(&mut management, &numbered("2"), "[1]"), Ok(Some(Answer::Fence)));
        assert!(matches!(management.reply.take(), Some(ManagementReply::Failed(text)) if text == "[1]"));
        assert!(told(&mut management, &numbered("2"), "[1]").is_err(), "twice");
        management.is_waiting = true;
        assert_eq!(told(&mut management, &MessageHead::default(), "[]"), Ok(Some(Answer::Fence)), "no number");
    }

    #[test]
    fn a_refused_question_and_answers_to_nowhere_end_the_wait() {
        let endpoint = "amqp://localhost".parse().unwrap();
        let mut management = Management { is_waiting: true, ..Management::default() };
        let state = Some(DeliveryState::Accepted);
        let taken = Amqp10Event::Settled { session: SESSION, first: 0, last: 0, state };
        assert_eq!(management.take(&taken, &endpoint), Ok(None));
        let state = Some(DeliveryState::Released);
        let refused = Amqp10Event::Settled { session: SESSION, first: 0, last: 0, state };
        assert_eq!(management.take(&refused, &endpoint), Ok(Some(Answer::Fence)));
        assert!(matches!(management.reply, Some(ManagementReply::Untaken)));
        for address in [None, Some("")] {
            let attached = Amqp10Event::Attached {
                session: SESSION,
                handle: ANSWERS,
                exists: true,
                address,
                max_message_size: 0,
                filter: TypedValue::Null,
            };
            assert!(matches!(management.take(&attached, &endpoint), Err(Error::Refused { .. })));
        }
    }

    #[test]
    fn topics_are_refused_where_their_messages_could_not_come() {
        let mut group = Group::new("amqp://localhost".parse().unwrap(), vec![Destination::topic("t")]);
        assert_eq!(refuse_topics(&group), Ok(()), "nobody consumes");
        group.consumers.per_destination = 1;
        let problem = refuse_topics(&group).unwrap_err().problem();
        assert!(problem.help.contains("{subscription}"), "{problem:?}");
        assert_eq!(refuse_queues_of_topics(&group), Ok(()));
        group.destinations[0].amqp091.queue_type = QueueType::Stream;
        group.consumers.selector = Some("a = 1".to_owned());
        assert_eq!(refuse_selectors(&group, "RabbitMQ"), Ok(()), "of a stream");
        assert!(refuse_selectors(&group, EMBEDDED).unwrap_err().problem().help.contains("{queue-type}"));
        group.destinations = vec![Destination::topic("t::q")];
        let problem = refuse_queues_of_topics(&group).unwrap_err().problem();
        assert!(problem.to_string().contains("topic://t::q"), "{problem:?}");
        group.destinations = vec![Destination::queue("t::q")];
        assert!(refuse_selectors(&group, "RabbitMQ").unwrap_err().problem().help.contains("{selector}"));
        assert_eq!((refuse_topics(&group), refuse_queues_of_topics(&group)), (Ok(()), Ok(())));
    }
}
