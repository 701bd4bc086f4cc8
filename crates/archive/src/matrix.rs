//! `matrix.json`: comparisons of runs in pairs, one for each combination of some keys' values, each in its folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{is_name, read_json, replace_json};
use crate::writer::sanitised;
use crate::{Comparison, Error, PairedRuns, Quantity, RunsCounted, file};

/// Bytes of a `matrix.json` that are read.
const LARGEST: u64 = 4 << 20;
/// Keys of a matrix that are read: with two values each, seven make more cells than a matrix may have.
const MOST_KEYS: usize = 16;

/// A key that is varied, and its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MatrixKey {
    /// Key as `--over` names it: `load.0.queue-type`.
    pub key: String,
    /// Its values, in the order in which they were given.
    pub values: Vec<String>,
}

/// A combination of values: a comparison of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatrixCell {
    /// Its folder's name; empty where the runs lie in the folder itself.
    pub folder: String,
    /// A value of each key, in the keys' order.
    pub values: Vec<String>,
}

/// Plan of the comparisons of a matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairedMatrix {
    /// Always [`PairedMatrix::SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// Seed of the order of all cells' runs.
    pub seed: u64,
    /// Pairs of each cell.
    pub pairs: u32,
    /// The keys that are varied; none where runs in pairs stand alone.
    pub keys: Vec<MatrixKey>,
    /// A cell for each combination of values, the last key's changing first.
    pub cells: Vec<MatrixCell>,
}

impl PairedMatrix {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.matrix/1";
    /// Cells of one matrix.
    pub const MOST_CELLS: usize = 100;

    /// The cells of some keys; without any there is one, whose runs lie in the folder itself.
    pub fn new(name: &str, seed: u64, pairs: u32, keys: Vec<MatrixKey>) -> Self {
        let mut combinations = vec![Vec::new()];
        for key in &keys {
            let with = |before: Vec<String>| {
                key.values.iter().map(move |value| [before.as_slice(), std::slice::from_ref(value)].concat())
            };
            combinations = combinations.into_iter().flat_map(with).collect();
        }
        let cells = combinations.into_iter().enumerate().map(|(number, values)| MatrixCell {
            folder: match keys.is_empty() {
                true => String::new(),
                false => format!("cell-{}-{}", number + 1, sanitised(&values.join("-"))),
            },
            values,
        });
        let (schema, cells) = (Self::SCHEMA.to_owned(), cells.collect());
        Self { schema, name: name.to_owned(), seed, pairs, cells, keys }
    }

    /// Whether a folder holds a matrix.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(file::MATRIX).symlink_metadata().is_ok_and(|it| it.is_file())
    }

    /// Reads the plan of a folder: a matrix, or runs in pairs that stand alone. An error where it holds neither.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        if !Self::is_in(dir) {
            let alone = PairedRuns::read(dir)?;
            return Ok(Self::new(&alone.name, alone.seed, alone.pairs, Vec::new()));
        }
        let path = dir.join(file::MATRIX);
        let read: Self = read_json(&path, LARGEST)?;
        let is_whole = |cell: &MatrixCell| cell.values.len() == read.keys.len();
        let cause = if read.schema != Self::SCHEMA {
            format!("it is not a {}", Self::SCHEMA)
        } else if read.keys.is_empty()
            || read.keys.len() > MOST_KEYS
            || read.cells.len() > Self::MOST_CELLS
            || read.pairs > PairedRuns::MOST_PAIRS
        {
            "it has more cells or pairs than a matrix may have, or no key".to_owned()
        } else if let Some(cell) = read.cells.iter().find(|it| !is_name(&it.folder)) {
            format!("{:?} is not a folder's name", cell.folder)
        } else if !read.cells.iter().all(is_whole) {
            "a cell has no value for each key".to_owned()
        } else {
            return Ok(read);
        };
        Err(Error::Damaged { path, cause })
    }

    /// Writes the file, at once or not at all.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        replace_json(dir.join(file::MATRIX), self)
    }

    /// The folder of a cell.
    pub fn folder(dir: &Path, cell: &MatrixCell) -> PathBuf {
        if cell.folder.is_empty() { dir.to_owned() } else { dir.join(&cell.folder) }
    }

    /// The folders of all cells.
    pub fn folders(&self, dir: &Path) -> Vec<PathBuf> {
        self.cells.iter().map(|cell| Self::folder(dir, cell)).collect()
    }

    /// Label of a cell: `queue-type=classic, num-destinations=1`; empty where it stands alone.
    pub fn label(keys: &[MatrixKey], values: &[String]) -> String {
        let pairs = short_names(keys).into_iter().zip(values).map(|(key, value)| format!("{key}={value}"));
        pairs.collect::<Vec<_>>().join(", ")
    }
}

/// Short names of keys: their last parts, if all differ.
pub fn short_names(keys: &[MatrixKey]) -> Vec<&str> {
    let last = |key: &'_ MatrixKey| key.key.rfind('.').map_or(0, |dot| dot + 1);
    let short: Vec<&str> = keys.iter().map(|key| key.key.get(last(key)..).unwrap_or(&key.key)).collect();
    let is_alone = |name: &&str| short.iter().filter(|other| *other == name).count() == 1;
    if short.iter().all(is_alone) { short } else { keys.iter().map(|key| key.key.as_str()).collect() }
}

/// Decisions on all cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedMatrix {
    /// Always [`ComparedMatrix::SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// The keys that are varied; none where a comparison stands alone.
    pub keys: Vec<MatrixKey>,
    /// Decisions by cell.
    pub cells: Vec<ComparedCell>,
}

/// Decisions on a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedCell {
    /// Its folder's name.
    pub folder: String,
    /// A value of each key, in the keys' order.
    pub values: Vec<String>,
    /// Comparison, decided together with all cells; `None` where nothing can be decided.
    pub comparison: Option<Comparison>,
    /// Why nothing can be decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

impl ComparedMatrix {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.compared-matrix/1";

    /// A comparison that stands alone.
    pub fn of_one(name: &str, comparison: Comparison) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            name: name.to_owned(),
            keys: Vec::new(),
            cells: vec![ComparedCell { comparison: Some(comparison), ..ComparedCell::default() }],
        }
    }

    /// Reads the comparisons of a folder's cells. An error where it holds no runs in pairs, or nothing was decided.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let plan = PairedMatrix::read(dir)?;
        let mut first = None;
        let mut cells = Vec::new();
        for cell in plan.cells {
            let folder = PairedMatrix::folder(dir, &cell);
            let (comparison, why_not) = match Comparison::read(&folder) {
                Ok(found) => (Some(found), None),
                Err(why) => {
                    let told = match folder.join(file::COMPARISON).exists() {
                        true => why.to_string(),
                        false => "too few of its pairs are complete".to_owned(),
                    };
                    first.get_or_insert(why);
                    (None, Some(told))
                }
            };
            cells.push(ComparedCell { folder: cell.folder, values: cell.values, comparison, why_not });
        }
        match first {
            Some(why) if cells.iter().all(|cell| cell.comparison.is_none()) => Err(why),
            _ => Ok(Self { schema: Self::SCHEMA.to_owned(), name: plan.name, keys: plan.keys, cells }),
        }
    }

    /// The comparison that stands alone; `None` where it is a matrix.
    pub fn alone(&self) -> Option<&Comparison> {
        match self.cells.as_slice() {
            [one] if self.keys.is_empty() => one.comparison.as_ref(),
            _ => None,
        }
    }

    /// Comparisons of the cells that have one.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.cells.iter().filter_map(|it| it.comparison.as_ref())
    }

    /// Notes why the experiment ended before all of its runs were made, if it did.
    pub fn break_off(&mut self, told: Option<String>) {
        let Some(told) = told else { return };
        for of in self.cells.iter_mut().filter_map(|it| it.comparison.as_mut()) {
            of.remarks.push(format!("It failed before all runs were made: {told}."));
            of.broke_off = Some(told.clone());
        }
    }

    /// Whether a figure of a cell changed for the worse.
    pub fn is_worse(&self) -> bool {
        self.comparisons().any(Comparison::is_worse)
    }

    /// Whether a figure of a cell is undecided.
    pub fn is_undecided(&self) -> bool {
        self.cells.iter().any(|cell| cell.comparison.as_ref().is_none_or(Comparison::is_undecided))
    }

    /// Label of a cell.
    pub fn label(&self, cell: &ComparedCell) -> String {
        PairedMatrix::label(&self.keys, &cell.values)
    }

    /// The names of the figures that cells have, each once, and how many of them, which come first, are those that a
    /// reader asks about in the first place: rates, 99th percentiles, the broker's CPU, and messages that came to harm.
    pub fn figures(&self) -> (Vec<&str>, usize) {
        let mut names: Vec<&str> = Vec::new();
        for figure in self.comparisons().flat_map(|it| &it.figures) {
            if !names.contains(&figure.name.as_str()) {
                names.push(&figure.name);
            }
        }
        let is_main = |name: &&str| {
            let has_end = [" rate", " p99"].iter().any(|end| name.ends_with(end));
            let is_cpu = *name == "broker cpu" || Quantity::is_cores(name);
            has_end || is_cpu || *name == RunsCounted::INVALID || Quantity::is_harm(name)
        };
        let (mut main, further): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_main);
        let count = if main.is_empty() { further.len() } else { main.len() };
        main.extend(further);
        (main, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str, values: &[&str]) -> MatrixKey {
        MatrixKey { key: key.into(), values: values.iter().map(|it| (*it).to_owned()).collect() }
    }

    #[test]
    fn cells_are_the_cross_product_and_each_has_a_folder_of_its_own() {
        let keys = vec![
            key("load.0.queue-type", &["classic", "quorum"]),
            key("load.0.destinations", &["1", "[\"a/b\"]", "\"../../x\""]),
        ];
        let matrix = PairedMatrix::new("x", 7, 8, keys);
        let values: Vec<String> = matrix.cells.iter().map(|it| it.values.join(" ")).collect();
        assert_eq!(values.len(), 6);
        assert_eq!((values[0].as_str(), values[3].as_str()), ("classic 1", "quorum 1"));
        let mut folders: Vec<&str> = matrix.cells.iter().map(|it| it.folder.as_str()).collect();
        assert!(folders.iter().all(|it| is_name(it)), "{folders:?}");
        assert_eq!(folders[0], "cell-1-classic-1");
        folders.dedup();
        assert_eq!(folders.len(), 6);
        assert_eq!(PairedMatrix::label(&matrix.keys, &matrix.cells[0].values), "queue-type=classic, destinations=1");
        let alike = [key("load.0.rate", &["1"]), key("load.1.rate", &["2"])];
        assert_eq!(short_names(&alike), ["load.0.rate", "load.1.rate"]);

        let dir = tempfile::tempdir().unwrap();
        assert!(PairedMatrix::read(dir.path()).is_err());
        matrix.write(dir.path()).unwrap();
        assert_eq!(PairedMatrix::read(dir.path()).unwrap(), matrix);
        let mut evil = matrix;
        evil.cells[1].folder = "../x".into();
        evil.write(dir.path()).unwrap();
        testkit::assert_has(PairedMatrix::read(dir.path()).expect_err("a path").to_string(), ["../x"]);
    }

    #[test]
    fn runs_in_pairs_without_a_matrix_are_one_cell() {
        let dir = tempfile::tempdir().unwrap();
        let runs =
            PairedRuns { schema: PairedRuns::SCHEMA.to_owned(), name: "x".into(), pairs: 3, ..PairedRuns::default() };
        runs.write(dir.path()).unwrap();
        let alone = PairedMatrix::read(dir.path()).unwrap();
        assert_eq!(alone.folders(dir.path()), [dir.path()]);
        assert!(ComparedMatrix::read(dir.path()).is_err(), "nothing decided");
        let decided = Comparison { schema: Comparison::SCHEMA.to_owned(), ..Comparison::default() };
        decided.write(dir.path()).unwrap();
        assert_eq!(ComparedMatrix::read(dir.path()).unwrap().alone(), Some(&decided));
    }
}
