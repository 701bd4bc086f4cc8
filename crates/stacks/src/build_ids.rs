//! Builds of files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which build files are of, where that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Builds(BTreeMap<String, String>);

impl Builds {
    /// Notes a file's build. One that is of several builds is of none that could be compared.
    pub fn add(&mut self, file: &str, build: &str) {
        let known = self.0.entry(file.to_owned());
        let known = known.or_insert_with(|| build.to_owned());
        if known != build {
            known.clear();
        }
    }

    /// Notes those of another profile.
    pub fn add_all(&mut self, other: &Self) {
        other
            .0
            .iter()
            .for_each(|(file, build)| self.add(file, build));
    }

    /// The build of a file.
    #[must_use]
    pub fn of(&self, file: &str) -> Option<&str> {
        let build = self.0.get(file).map(String::as_str);
        build.filter(|it| !it.is_empty())
    }

    /// Whether none is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Builds by names without versions.
    #[must_use]
    pub fn without_versions(&self) -> Self {
        let mut all = Self::default();
        let builds = self.0.iter();
        builds.for_each(|(file, build)| all.add(without_version(file), build));
        all
    }
}

/// A library's name without its version: `libcrypto.so` of `libcrypto.so.3`.
pub(super) fn without_version(module: &str) -> &str {
    let end = module
        .find(".so.")
        .map_or(module.len(), |at| at + ".so".len());
    module.get(..end).unwrap_or(module)
}
