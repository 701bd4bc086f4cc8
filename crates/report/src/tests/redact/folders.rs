//! Pages of folders of runs: of comparisons, matrices and their cells, limits and numbers of clients; and of a run
//! beside which pages were requested. Names of queues, virtual hosts, users, hosts and files are in none of them,
//! however they are written.

use std::fs;
use std::path::Path;

use crate::html;
use archive::{
    ComparedFigure, ComparedFrame, ComparedFunctions, ComparedName, ComparedRun, ComparedSide, ComparedSideName,
    ComparedStacks, Comparison, CostChange, Decision, FunctionChange, LeftOut, LimitOutcome, LimitTrial, LimitTrials,
    MatrixKey, PairedMatrix, PairedRun, PairedRuns, RunRecord, RunWriter, ScaleRun, ScaleRuns, ScrapedPage, SeriesName,
    SeriesUnit, SuggestedRate,
};
use serde_json::{Value, json};
use testkit::Random;

use super::{Named, host, own, said, texts_of, write_record};

/// Code, which stays.
const FUNCTION: &str = "rabbit_channel:handle_method/3";

struct Telling {
    named: Named,
    definitions: String,
    probe: String,
}

impl Telling {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let random = &mut random;
        let named = Named::new(random, seed, |random, _| own(random));
        let word = |random: &mut Random| host(random).replace(".corp", "");
        Self {
            named,
            definitions: format!("/srv/{}/{}.json", word(random), word(random)),
            probe: format!("{} page", word(random)),
        }
    }

    /// All names, and the single words of paths and texts.
    fn all(&self) -> Vec<String> {
        let named = self.named.all().into_iter().map(str::to_owned);
        let parts = self.definitions.split(['/', '.']);
        let parts = parts.filter(|it| it.starts_with("zq")).map(str::to_owned);
        let probe = self.probe.split(' ').next().map(str::to_owned);
        named.chain(parts).chain(probe).collect()
    }

    /// The address of a page of the management API, whose names are behind percent signs.
    fn url(&self) -> String {
        let Named { queue, vhost, host, .. } = &self.named;
        let (queue, vhost) = (percent(queue), percent(vhost));
        format!("http://{host}:15672/api/queues/{vhost}/{queue}")
    }

    fn experiment(&self) -> Value {
        let mut experiment = self.named.record().experiment;
        experiment["broker"]["definitions"] = json!(self.definitions);
        experiment["broker"]["vhost"] = json!(self.named.vhost);
        experiment["probe"] = json!([{"name": self.probe, "url": self.url()}]);
        experiment
    }

    fn sentence(&self) -> String {
        let Named { queue, vhost, user, .. } = &self.named;
        let (definitions, url) = (&self.definitions, self.url());
        format!("no queue '{queue}' in vhost '{vhost}' for {user}: {url} of {definitions}")
    }

    fn write_run(&self, folder: &Path, id: &str) {
        let run = folder.join(id);
        fs::create_dir_all(&run).expect("a folder");
        let record = RunRecord { experiment: self.experiment(), id: id.to_owned(), ..self.named.record() };
        write_record(&run, &record);
    }

    fn write_pairs(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("a folder");
        let mut runs = Vec::new();
        for pair in 0..2 {
            for side in [ComparedSideName::A, ComparedSideName::B] {
                let id = format!("2026-{}-{}-{pair}", self.named.queue.replace('/', "_"), side.tag());
                self.write_run(folder, &id);
                runs.push(PairedRun { pair, side, id, spoiled: None, own: false, disturbed: pair == 1 });
            }
        }
        let mut other = self.experiment();
        other["load"][0]["routing-key"] = json!(self.named.user);
        other["broker"]["definitions"] = json!("/dev/null");
        let (schema, name) = (PairedRuns::SCHEMA.to_owned(), self.named.queue.clone());
        let pairs = PairedRuns { schema, name, a: self.experiment(), b: other, runs, ..PairedRuns::default() };
        pairs.write(folder).expect("written");
        self.decided(&pairs).write(folder).expect("written");
    }

    fn decided(&self, pairs: &PairedRuns) -> Comparison {
        let side = |name: ComparedSideName| {
            let own = pairs.runs.iter().filter(|run| run.side == name);
            let run = |run: &PairedRun| ComparedRun { id: run.id.clone(), invalid: false, cautious: false };
            ComparedSide {
                what: format!("RabbitMQ 3.10.8 of {}", self.definitions),
                left_out: own.clone().map(|run| LeftOut { id: run.id.clone(), why: self.sentence() }).collect(),
                runs: own.map(run).collect(),
                ..ComparedSide::default()
            }
        };
        let cost = CostChange { a: 900.0, b: 1_500.0, proven: true, ..CostChange::default() };
        let figure = |name: String| {
            let (a, b, decision) = (vec![1.0, 2.0], vec![2.0, 3.0], Decision::Undecided);
            ComparedFigure { name, a, b, means: (1.4, 2.4), decision, ..ComparedFigure::default() }
        };
        let (function, module) = (FUNCTION.to_owned(), format!("{}/beam.smp", self.definitions));
        let name = ComparedName { function: function.clone(), module: module.clone() };
        let changed = FunctionChange { function, module, own: cost, total: cost, cut: 0.0 };
        let frame = ComparedFrame { a: 900.0, b: 1_500.0, ..ComparedFrame::default() };
        Comparison {
            schema: Comparison::SCHEMA.to_owned(),
            a: side(ComparedSideName::A),
            b: side(ComparedSideName::B),
            paired: true,
            forced: vec![self.sentence()],
            no_functions: Some(self.sentence()),
            figures: vec![figure("broker cpu".to_owned()), figure(format!("{} p50", self.probe))],
            functions: Some(ComparedFunctions {
                broker: cost,
                functions: vec![changed],
                ..ComparedFunctions::default()
            }),
            stacks: Some(ComparedStacks {
                schema: ComparedStacks::SCHEMA.to_owned(),
                broker: cost,
                names: vec![name],
                frames: vec![frame],
                ..ComparedStacks::default()
            }),
            ..Comparison::default()
        }
    }

    fn write_limit(&self, folder: &Path, scale: Option<ScaleRuns>) {
        fs::create_dir_all(folder).expect("a folder");
        let id = format!("2026-{}-1", self.named.queue.replace('/', "_"));
        self.write_run(folder, &id);
        let (why, outcome) = (vec![format!("missed {} p99 < 5ms", self.probe), self.sentence()], LimitOutcome::Missed);
        let trial = LimitTrial { id: id.clone(), rate: 1_000.0, outcome, why, ..LimitTrial::default() };
        let run = ScaleRun { id, clients: 1, throughput: 900.0, ..ScaleRun::default() };
        let scale = scale.map(|of| ScaleRuns { runs: vec![run], ..of });
        let (key, file) = (&self.named.key, &self.definitions);
        let command = format!(
            "bellows run /srv/mine.toml --set broker.definitions={file} --set 'load.0.routing-key={key}' --set \
             load.0.rate=300"
        );
        let trials = LimitTrials {
            schema: LimitTrials::SCHEMA.to_owned(),
            name: self.named.queue.clone(),
            slos: vec![format!("{} p99 < 5ms", self.probe)],
            experiment: self.experiment(),
            trials: if scale.is_some() { vec![] } else { vec![trial] },
            suggested: vec![SuggestedRate { name: "calm".to_owned(), rate: 300.0, command }],
            scale,
            ..LimitTrials::default()
        };
        trials.write(folder).expect("written");
    }

    /// The page with names has them: there is something to take out.
    fn assert_told(&self, page: &str) {
        let mut texts = Vec::new();
        texts_of(&serde_json::from_str(&said(page).0).expect("JSON"), &mut texts);
        for name in [&self.named.queue, &self.named.key, &self.definitions] {
            assert!(texts.iter().any(|it| it.contains(name)), "{name:?}");
        }
    }

    /// The page without names, as data; none is in it, nor in the rest of the file.
    fn redacted(&self, folder: &Path, seed: u64) -> Value {
        let page = html::render_redacted(folder, &[]);
        let page = page.unwrap_or_else(|e| panic!("seed {seed}, {}: {e:?}", folder.display()));
        let (json, summary) = said(&page.html);
        let data: Value = serde_json::from_str(&json).expect("JSON");
        let mut texts = vec![summary, json];
        texts_of(&data, &mut texts);
        for name in self.all() {
            for written in written(&name) {
                let found = texts.iter().find(|it| it.to_lowercase().contains(&written));
                assert!(found.is_none(), "seed {seed}: {written:?} in {found:?}");
            }
        }
        data
    }
}

/// Every spelling of a name: raw, percent-encoded in an address and in a form, in JSON, in HTML.
fn written(name: &str) -> Vec<String> {
    let json = serde_json::to_string(name).expect("JSON");
    let html = name.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let (json, html) = (json.trim_matches('"').to_owned(), html.replace('\'', "&#39;"));
    let (percent, escaped) = (percent(name), name.escape_unicode().to_string());
    let form = percent.replace("%20", "+");
    [name.to_owned(), percent, form, json, html, escaped].map(|it| it.to_lowercase()).into()
}

fn percent(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|it| if plain(it) { char::from(it).to_string() } else { format!("%{it:02X}") }).collect()
}

fn each_seed(check: impl Fn(u64, &Telling, &Path)) {
    let dir = tempfile::tempdir().expect("a folder");
    for seed in testkit::seeds(2) {
        check(seed, &Telling::new(seed), &dir.path().join(seed.to_string()));
    }
}

#[test]
fn a_comparison_with_functions_and_flame_graph_has_no_names() {
    each_seed(|seed, telling, folder| {
        telling.write_pairs(folder);
        let plain = html::render_pairs(folder, &folder.join("report.html"));
        telling.assert_told(&plain.expect("a page"));
        let data = telling.redacted(folder, seed);
        // Code stays, in the table as in the flame graph.
        assert_eq!(data["functions"]["functions"][0]["function"], FUNCTION);
        assert_eq!(data["stacks"]["names"][0]["function"], FUNCTION);
        assert_eq!(data["figures"][0]["name"], "broker cpu");
        // Different values stay different.
        let differ = data["differences"].as_array().expect("differences");
        assert!(differ.len() >= 2 && differ.iter().all(|it| it["a"] != it["b"]), "{differ:?}");
    });
}

#[test]
fn a_matrix_and_each_of_its_cells_have_no_names() {
    each_seed(|seed, telling, folder| {
        fs::create_dir_all(folder).expect("a folder");
        let key = |key: &str, values: [&str; 2]| {
            let values = values.map(str::to_owned).to_vec();
            MatrixKey { key: key.to_owned(), values }
        };
        let Named { key: routed, exchange, .. } = &telling.named;
        let keys = vec![
            key("load.0.routing-key", [routed, exchange]),
            key("broker.definitions", [&telling.definitions, "/dev/null"]),
        ];
        let matrix = PairedMatrix::new(&telling.named.queue, seed, 2, keys);
        matrix.write(folder).expect("written");
        // Of the last cell nothing is decided.
        let cells = matrix.folders(folder);
        let (last, others) = cells.split_last().expect("cells");
        others.iter().for_each(|cell| telling.write_pairs(cell));
        telling.redacted(&others[0], seed);
        fs::create_dir_all(last).expect("a folder");
        let plain = html::render_pairs(folder, &folder.join("report.html"));
        telling.assert_told(&plain.expect("a page"));
        let data = telling.redacted(folder, seed);
        assert_eq!(data["cells"].as_array().map(Vec::len), Some(4));
        // Rows and columns are still told apart, and the same value is the same word.
        let value = |cell: usize, key: usize| data["cells"][cell]["values"][key].clone();
        assert_ne!(value(0, 0), value(2, 0));
        assert_eq!(value(0, 0), value(1, 0));
        assert_eq!(value(0, 0), data["keys"][0]["values"][0]);
        let is_linked = |cell: &Value| cell["page"].as_array().is_some_and(|it| !it.is_empty());
        let cells = data["cells"].as_array().expect("cells");
        assert!(!cells.iter().any(is_linked), "pages of cells have names");
    });
}

#[test]
fn a_limit_and_numbers_of_clients_have_no_names() {
    each_seed(|seed, telling, folder| {
        let [limit, scale] = ["limit", "scale"].map(|it| folder.join(it));
        telling.write_limit(&limit, None);
        let plain = html::render_limit(&limit, &limit.join("report.html"));
        telling.assert_told(&plain.expect("a page"));
        let data = telling.redacted(&limit, seed);
        assert_eq!(data["trials"][0]["rate"], 1_000.0);
        let command = data["suggested"][0]["command"].as_str().expect("a command");
        assert!(command.contains("--set load.0.rate=300"), "{command}");
        let (key, values) = ("load.0.producers".to_owned(), vec![1, 2, 4, 8]);
        telling.write_limit(&scale, Some(ScaleRuns { key, values, ..ScaleRuns::default() }));
        let data = telling.redacted(&scale, seed);
        assert_eq!(data["scale"]["noun"], "producers");
        assert_eq!(data["scale"]["runs"][0]["throughput"], 900.0);
    });
}

#[test]
fn a_run_beside_which_pages_were_requested_has_no_names() {
    each_seed(|seed, telling, folder| {
        let Named { queue, vhost, user, .. } = &telling.named;
        let mut run = RunWriter::create(folder, "x", seed).expect("a folder");
        let folder = run.dir().to_path_buf();
        let series = SeriesName::new(&telling.probe, "rabbitmq_queue_messages", SeriesUnit::Count);
        let series = series.with("queue", queue).with("vhost", vhost).with("user", user);
        for second in 0..3 {
            let value = (series.clone(), f64::from(second) + 5.0);
            run.append_values(f64::from(second), 1.0, [value]);
        }
        drop(run);
        let mut record = telling.named.record();
        record.experiment = telling.experiment();
        let summary = record.summary.as_mut().expect("a summary");
        let (name, url) = (telling.probe.clone(), telling.url());
        summary.scrapes = vec![ScrapedPage { name, url, completed: 3, ..ScrapedPage::default() }];
        write_record(&folder, &record);
        let data = telling.redacted(&folder, seed);
        let page = &data["figures"]["scrapes"][0];
        assert_eq!(page["completed"], 3, "{page}");
        assert!(page["url"].as_str().is_some_and(|it| it.contains("/api/queues/")), "{page}");
    });
}
