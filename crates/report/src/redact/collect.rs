//! Sources of a page's names: the records and views that it is made from, field by field.

use std::path::Path;

use archive::{LimitTrials, PairedMatrix, PairedRuns, RunReader, Topology, read_named_series};
use experiment::TextKind;

use super::experiment::{note_arguments, note_command, note_experiment, note_value};
use super::names::Names;
use crate::view::{ComparisonView, LimitView, MatrixView, ProcessView, RunView};

/// Registered processes of the broker and of Erlang are code; their names begin so.
const CODE: &str = "rabbit,ra_,ra ,osiris,mnesia,kernel,gen_,erl,erts,application,logger,net_,inet,file_server,\
    code_server,ssl,tls,ranch,cowboy,worker_pool,delegate,gm,mirrored,background_gc,vm_memory,disk_monitor,syn,\
    prometheus,khepri,user";

pub(super) fn note_run(names: &mut Names, view: &RunView, dir: &Path) {
    // A queue is often called as the experiment is: what it is first noted as, it stays.
    note_topology(names, &view.topology);
    note_experiment(names, &view.experiment);
    names.add(TextKind::Experiment, &view.name);
    note_command(names, &view.command);
    // Tags that `bellows ab` and `limit` give say nothing of anybody.
    let is_own = |tag: &&String| ["side-", "pair-", "cell-"].iter().any(|it| tag.starts_with(it));
    view.tags.iter().filter(|tag| !is_own(tag)).for_each(|tag| names.add(TextKind::Tag, tag));
    if let Some(remark) = &view.remark {
        names.add(TextKind::Text, remark);
    }
    for page in &view.figures.scrapes {
        names.add(TextKind::Label, &page.name);
        // Brokers of other runs are no names.
        let server = page.foreign_server.as_deref().unwrap_or_default();
        if !["beam.smp", "java"].contains(&server) {
            names.add(TextKind::Process, server);
        }
    }
    view.profiles.iter().flat_map(|it| &it.processes).for_each(|it| note_process(names, it));
    // Unreadable series are on no page either.
    for series in read_named_series(dir).unwrap_or_default() {
        // Bellows' own series name disks, processors and allocators.
        if ["machine", "broker", archive::ERLANG_MEMORY].contains(&series.name.source.as_str()) {
            continue;
        }
        names.add(TextKind::Label, &series.name.source);
        series.name.labels.iter().for_each(|(key, value)| note_label(names, key, value));
    }
    note_workers(names, dir);
    note_machine(names);
}

/// Notes the names of a fleet's workers, which are those of machines, their labels, and the nodes that they recorded.
fn note_workers(names: &mut Names, dir: &Path) {
    // Of a page's own run there is always a record.
    let summary = RunReader::open(dir).ok().and_then(|it| it.record.summary);
    let nodes = summary.iter().flat_map(|it| &it.nodes).filter_map(|it| it.name.as_deref());
    nodes.filter(|it| it.contains('@')).for_each(|it| names.add(TextKind::Node, it));
    for worker in summary.iter().flat_map(|it| &it.workers) {
        names.add(TextKind::Host, &worker.name);
        names.add(TextKind::Host, &worker.host);
        worker.labels.values().for_each(|it| names.add(TextKind::Label, it));
    }
}

/// Notes this machine's name: most reports are made where the run was.
fn note_machine(names: &mut Names) {
    let machine = rustix::system::uname();
    if let Ok(name) = machine.nodename().to_str() {
        names.add(TextKind::Host, name);
        names.add(TextKind::Host, name.split('.').next().unwrap_or(name));
    }
}

fn note_topology(names: &mut Names, topology: &Topology) {
    for queue in &topology.queues {
        names.add(TextKind::Queue, &queue.name);
        names.add(TextKind::VirtualHost, &queue.vhost);
        // A managed cluster's are numbers.
        let nodes = queue.members.iter().chain([&queue.leader]);
        let is_number = |it: &str| it.strip_prefix("node ").is_some_and(|it| it.parse::<u8>().is_ok());
        nodes.filter(|it| !is_number(it)).for_each(|node| names.add(TextKind::Node, node));
        note_arguments(names, &queue.arguments);
    }
    for exchange in &topology.exchanges {
        names.add(TextKind::Exchange, &exchange.name);
        names.add(TextKind::VirtualHost, &exchange.vhost);
    }
    for binding in &topology.bindings {
        names.add(TextKind::Exchange, &binding.source);
        names.add(TextKind::VirtualHost, &binding.vhost);
        let is_exchange = binding.destination_type == "exchange";
        let kind = if is_exchange { TextKind::Exchange } else { TextKind::Queue };
        names.add(kind, &binding.destination);
        names.add(TextKind::RoutingKey, &binding.routing_key);
        note_arguments(names, &binding.arguments);
    }
}

fn note_process(names: &mut Names, process: &ProcessView) {
    let vhost = process.vhost.as_deref().unwrap_or_default();
    names.add(TextKind::VirtualHost, vhost);
    names.add(TextKind::Connection, process.connection.as_deref().unwrap_or_default());
    if process.id.is_empty() {
        return;
    }
    let of = format!(" in {vhost}");
    let label = process.label.strip_suffix(of.as_str()).unwrap_or(&process.label);
    let name = label.strip_prefix(process.role.as_str()).unwrap_or(label).trim();
    if name.is_empty() || name.starts_with('<') {
        return;
    }
    let role = process.role.as_str();
    let is = |words: &str| words.split(' ').any(|word| role.contains(word));
    let kind = match () {
        () if is("queue stream") => TextKind::Queue,
        () if is("exchange") => TextKind::Exchange,
        () if is("connection channel reader writer heartbeat session link") => TextKind::Connection,
        () if CODE.split(',').any(|it| name.starts_with(it)) || name == role => return,
        () => TextKind::Process,
    };
    names.add(kind, name);
}

/// Values of such labels on pages of machines, of RabbitMQ and of Erlang.
const USUAL_VALUES: &str = "user nice system idle iowait irq softirq steal running sleeping blocked stopped zombie \
    ready unacked unconfirmed blocks blocks_size carriers carriers_size blocks_size_max carriers_size_max mbcs sbcs \
    mbcs_pool sbcs_pool classic quorum stream rabbit_classic_queue rabbit_quorum_queue rabbit_stream_queue in out read \
    write receive transmit rx tx processes binary ets code atom other binary_alloc driver_alloc eheap_alloc ets_alloc \
    exec_alloc fix_alloc literal_alloc ll_alloc mseg_alloc sl_alloc std_alloc sys_alloc temp_alloc test_alloc \
    scheduler dirty_cpu_scheduler dirty_io_scheduler aux poll async normal dirty_cpu dirty_io_thread check_io emulator \
    gc port sleep some full";

/// Whether a value of a sorting label is common, and nobody's own.
fn is_usual_value(value: &str) -> bool {
    let is_processor = value.strip_prefix("cpu").is_some_and(|it| it.parse::<u16>().is_ok());
    is_processor || USUAL_VALUES.split_whitespace().any(|it| it == value)
}

fn note_label(names: &mut Names, key: &str, value: &str) {
    if value.parse::<f64>().is_ok() {
        return;
    }
    let kind = match key {
        // Labels of every machine's and every broker's pages.
        "cpu" | "dirty_io" | "mode" | "state" | "usage" | "alloc" | "kind" | "type" | "thread" | "queue_type"
        | "direction" | "op"
            if is_usual_value(value) =>
        {
            return;
        }
        "queue" => TextKind::Queue,
        "exchange" => TextKind::Exchange,
        "vhost" => TextKind::VirtualHost,
        "node" | "rabbitmq_node" => TextKind::Node,
        "instance" | "host" | "peer" => TextKind::Host,
        "user" => TextKind::User,
        "channel" | "connection" => TextKind::Connection,
        _ => TextKind::Label,
    };
    names.add(kind, value);
}

/// Notes the names in a comparison, and in the runs that its folder holds.
pub(super) fn note_comparison(names: &mut Names, view: &ComparisonView, dir: &Path) {
    for difference in &view.differences {
        for value in [&difference.a, &difference.b].into_iter().flatten() {
            note_value(names, &difference.key, value);
        }
    }
    note_pairs(names, dir);
    names.add(TextKind::Experiment, &view.name);
    note_machine(names);
}

fn note_pairs(names: &mut Names, dir: &Path) {
    let Ok(pairs) = PairedRuns::read(dir) else { return };
    names.add(TextKind::Experiment, &pairs.name);
    note_experiment(names, &pairs.a);
    note_experiment(names, &pairs.b);
    // Not the first alone: the sides may have other queues, and so may their runs.
    pairs.runs.iter().for_each(|run| note_record(names, &dir.join(&run.id)));
}

pub(super) fn note_matrix(names: &mut Names, view: &MatrixView, dir: &Path) {
    let matrix = PairedMatrix::read(dir).unwrap_or_default();
    for cell in &matrix.cells {
        matrix.keys.iter().zip(&cell.values).for_each(|(key, value)| note_value(names, &key.key, value));
        note_pairs(names, &dir.join(&cell.folder));
    }
    names.add(TextKind::Experiment, &view.name);
    note_machine(names);
}

pub(super) fn note_limit(names: &mut Names, view: &LimitView, dir: &Path) {
    for rate in &view.suggested {
        let words: Vec<String> = rate.command.split_whitespace().map(str::to_owned).collect();
        note_command(names, &words);
    }
    if let Ok(trials) = LimitTrials::read(dir) {
        note_experiment(names, &trials.experiment);
    }
    let scaled = view.scale.iter().flat_map(|it| &it.runs).map(|it| &it.id);
    view.trials.iter().map(|it| &it.id).chain(scaled).for_each(|id| note_record(names, &dir.join(id)));
    names.add(TextKind::Experiment, &view.name);
    note_machine(names);
}

/// Notes the names in a run's record; one that is gone has none.
fn note_record(names: &mut Names, run: &Path) {
    let Ok(reader) = RunReader::open(run) else { return };
    let record = &reader.record;
    note_topology(names, &record.topology);
    note_experiment(names, &record.experiment);
    names.add(TextKind::Experiment, &record.name);
    note_command(names, &record.command);
}
