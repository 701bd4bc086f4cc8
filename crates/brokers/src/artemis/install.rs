//! Finds Artemis and the Java for it.

use std::path::{Path, PathBuf};
use std::{env, fs};

use super::super::BrokerError;

/// As it is called in messages.
pub(super) const PRODUCT: &str = "ActiveMQ Artemis";
/// Where `scripts/setup artemis` puts it, below a checkout's folder.
const OF_CHECKOUT: &str = ".tools/artemis";
/// Where people put it.
const OF_MACHINE: [&str; 3] = [
    "/opt/artemis",
    "/opt/activemq-artemis",
    "/opt/apache-artemis",
];
/// The archive with all that starts it, below an installation.
const BOOT: &str = "lib/artemis-boot.jar";

/// An installation.
#[derive(Debug)]
pub(super) struct ArtemisInstallation {
    /// Has `bin` and `lib`.
    pub(super) home: PathBuf,
    /// Its version, such as `2.40.0`.
    pub(super) version: String,
    /// The program that starts a JVM.
    pub(super) java: PathBuf,
    /// The runtime: `Java 17.0.15`.
    pub(super) runtime: String,
}

impl ArtemisInstallation {
    /// The one at `root`, or the first of those that are usual.
    pub(super) fn find(root: Option<&Path>) -> Result<Self, BrokerError> {
        let home = home(root)?;
        let version = version(&home).ok_or_else(|| {
            BrokerError::config(
                format!("{} is not a whole {PRODUCT}", home.display()),
                "no artemis-server-VERSION.jar in its lib",
                "unpack it again, or name another with broker.root",
            )
        })?;
        let java = java().ok_or(BrokerError::NotInstalled {
            product: "Java",
            looked_for: vec!["$JAVA_HOME/bin/java".into(), "java".into()],
            help: "install it (apt-get install default-jre-headless), or set JAVA_HOME",
        })?;
        let runtime = match java_version(&java) {
            Some(version) => format!("Java {version}"),
            None => "Java".to_owned(),
        };
        Ok(Self {
            home,
            version,
            java,
            runtime,
        })
    }

    /// The archive that a JVM starts it from.
    pub(super) fn boot(&self) -> PathBuf {
        self.home.join(BOOT)
    }
}

/// The folder with the installation's own programs (`artemis`), where there is one.
pub(super) fn programs(root: Option<&Path>) -> Option<PathBuf> {
    home(root).ok().map(|home| home.join("bin"))
}

fn home(root: Option<&Path>) -> Result<PathBuf, BrokerError> {
    let candidates = match root {
        Some(root) => vec![root.to_owned()],
        None => usual(),
    };
    let found = candidates.iter().find(|home| home.join(BOOT).is_file());
    // A broker works in a directory of its own.
    let found = found.and_then(|home| home.canonicalize().ok());
    found.ok_or_else(|| BrokerError::NotInstalled {
        product: PRODUCT,
        help: "fetch it (scripts/setup artemis), or name its folder with broker.root",
        looked_for: candidates.iter().map(|home| home.join(BOOT)).collect(),
    })
}

/// Folders that it is looked for in: the environment's, that of the checkout that we are in or were built in, that of
/// the program on the path, those of the machine.
fn usual() -> Vec<PathBuf> {
    let own = env::current_exe().unwrap_or_default();
    let checkouts = own
        .ancestors()
        .skip(1)
        .map(|folder| folder.join(OF_CHECKOUT));
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).filter_map(|folder| {
        let program = folder.join("artemis").canonicalize().ok()?;
        Some(program.parent()?.parent()?.to_owned())
    });
    env::var_os("ARTEMIS_HOME")
        .map(PathBuf::from)
        .into_iter()
        .chain([PathBuf::from(OF_CHECKOUT)])
        .chain(checkouts)
        .chain(on_path)
        .chain(OF_MACHINE.map(PathBuf::from))
        .collect()
}

/// From the name of its largest part: `artemis-server-2.40.0.jar`.
fn version(home: &Path) -> Option<String> {
    let files = fs::read_dir(home.join("lib")).ok()?.flatten();
    let mut names = files.filter_map(|file| file.file_name().into_string().ok());
    names.find_map(|name| {
        let version = name.strip_prefix("artemis-server-")?.strip_suffix(".jar")?;
        let is_version = version.starts_with(|first: char| first.is_ascii_digit());
        is_version.then(|| version.to_owned())
    })
}

fn java() -> Option<PathBuf> {
    let of_home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = of_home.into_iter().chain(env::split_paths(&path));
    let found = folders.find_map(|folder| folder.join("java").canonicalize().ok());
    found.filter(|java| java.is_file())
}

/// From the file `release` of its installation: `JAVA_VERSION="17.0.15"`.
fn java_version(java: &Path) -> Option<String> {
    let release = java.parent()?.parent()?.join("release");
    let text = fs::read_to_string(release).ok()?;
    let mut lines = text.lines();
    let version = lines.find_map(|line| line.strip_prefix("JAVA_VERSION="))?;
    Some(version.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_broken_installation_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let missing = ArtemisInstallation::find(Some(dir.path())).unwrap_err();
        let missing = missing.problem().sentence();
        assert!(missing.contains("scripts/setup artemis"), "{missing}");
        assert!(missing.contains(BOOT), "{missing}");
        fs::create_dir(dir.path().join("lib")).unwrap();
        fs::write(dir.path().join(BOOT), "").unwrap();
        let broken = ArtemisInstallation::find(Some(dir.path())).unwrap_err();
        let broken = broken.problem().sentence();
        assert!(broken.contains("artemis-server-VERSION.jar"), "{broken}");
        fs::write(dir.path().join("lib/artemis-server-2.40.0.jar"), "").unwrap();
        assert_eq!(version(dir.path()).as_deref(), Some("2.40.0"));
    }
}
