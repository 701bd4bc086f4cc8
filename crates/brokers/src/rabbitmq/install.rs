//! Finds RabbitMQ and the Erlang for it.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::super::BrokerError;
use super::checkout::Checkout;
use super::loader::Loader;

/// As RabbitMQ is called in messages, and calls itself.
pub(super) const PRODUCT: &str = "RabbitMQ";

/// Directories with RabbitMQ's own scripts. Under a prefix or root directory, and of the machine.
/// Not `/usr/sbin`: Debian's wrappers there switch to the user `rabbitmq`.
const SCRIPTS_UNDER_ROOT: [&str; 4] = ["sbin", "usr/lib/rabbitmq/bin", "lib/rabbitmq/bin", "opt/rabbitmq/sbin"];
const SCRIPTS_OF_MACHINE: [&str; 2] = ["/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin"];

/// Directories under a root directory that may have `erl` in them. The real places come before
/// those with links, which may be absolute and so lead out of the root directory.
const ERLANG_UNDER_ROOT: [&str; 6] =
    ["usr/lib/erlang/bin", "usr/local/lib/erlang/bin", "opt/erlang/lib/erlang/bin", "lib/erlang/bin", "usr/bin", "bin"];

#[derive(Debug)]
pub(super) struct Installation {
    pub(super) scripts: PathBuf,
    /// Has a directory per application.
    pub(super) plugins: PathBuf,
    /// Its version, such as `3.10.8`.
    pub(super) version: String,
    pub(super) erlang: Erlang,
    /// The checkout of sources that it is, as `make` left it.
    pub(super) checkout: Option<Checkout>,
}

/// An application and those that it needs.
#[derive(Debug, Default)]
struct Applications {
    /// The directories with their compiled modules.
    directories: Vec<PathBuf>,
    /// The names of those that are not there.
    missing: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Erlang {
    /// `PATH` for everything that is to find this `erl`.
    pub(super) path: OsString,
    /// Where Erlang is installed, such as `/usr/lib/erlang`.
    pub(super) root: PathBuf,
    /// Whether it may have been moved since its build: its `erl` has the old place built in and must be replaced.
    pub(super) relocated: bool,
    /// The release of Erlang/OTP, such as `25`.
    pub(super) release: u32,
    pub(super) emulator_directory: PathBuf,
    /// Starts its programs where they need another C library than the machine's.
    pub(super) loader: Option<Loader>,
}

impl Installation {
    /// The one under `root`, or the machine's own.
    pub(super) fn find(root: Option<&Path>) -> Result<Self, BrokerError> {
        if let Some(checkout) = root.and_then(Checkout::at) {
            return Self::of_checkout(checkout);
        }
        let scripts = find_scripts(root)?;
        let home = scripts.parent().unwrap_or(Path::new("/"));
        let plugins = home.join("plugins");
        let version = versions_of(&plugins, "rabbit").pop().ok_or_else(|| {
            let cause = format!("{} is an incomplete RabbitMQ", home.display());
            let help = "install it again, or name another with broker.root";
            BrokerError::config(cause, format!("{} has no rabbit-VERSION in it", plugins.display()), help)
        })?;
        let erlang = Erlang::find(root, &scripts.join("rabbitmq-server"))?;
        Ok(Self { plugins, version: version.trim_end_matches(".ez").to_owned(), erlang, scripts, checkout: None })
    }

    /// An installation among the sources, as `make` left it, with the Erlang in `PATH`, which compiled it.
    fn of_checkout(checkout: Checkout) -> Result<Self, BrokerError> {
        let scripts = checkout.scripts();
        let found = Self {
            version: checkout.version()?,
            plugins: checkout.applications(),
            erlang: Erlang::find(None, &scripts.join("rabbitmq-server"))?,
            scripts,
            checkout: Some(checkout.clone()),
        };
        match found.applications().missing.as_slice() {
            [] => Ok(found),
            missing => {
                let folders = missing.iter().map(|name| format!("deps/{name}/ebin"));
                let folders: Vec<String> = folders.collect();
                Err(checkout.not_made(format!("no compiled application in {}", folders.join(", "))))
            }
        }
    }

    /// Its origin in words, beside the version; empty for a release.
    pub(super) fn origin(&self) -> String {
        let told = |checkout: &Checkout| format!(" {}", checkout.told(&self.module_directories()));
        self.checkout.as_ref().map_or_else(String::new, told)
    }

    /// Refuses plugins that are not there: RabbitMQ would start without them.
    pub(super) fn check_plugins(&self, wanted: &[String]) -> Result<(), BrokerError> {
        let missing = |name: &&String| versions_of(&self.plugins, name).is_empty() && !is_compiled(&self.plugins, name);
        let Some(name) = wanted.iter().find(missing) else { return Ok(()) };
        let mut known: Vec<String> = fs::read_dir(&self.plugins)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|file| match file.split_once('-') {
                Some((name, _)) => Some(name.to_owned()),
                None => is_compiled(&self.plugins, &file).then_some(file),
            })
            .filter(|name| name.starts_with("rabbitmq_"))
            .collect();
        known.sort_unstable();
        known.dedup();
        let cause = format!("broker.plugins: RabbitMQ {} lacks a plugin", self.version);
        let help = format!("use one that it has: {}", known.join(", "));
        Err(BrokerError::config(cause, format!("no {name:?} in {}", self.plugins.display()), help))
    }

    /// Directories with the compiled modules of `rabbit` and of every application that it needs.
    pub(super) fn module_directories(&self) -> Vec<PathBuf> {
        self.applications().directories
    }

    /// `rabbit` and every application that it needs.
    fn applications(&self) -> Applications {
        let libraries = self.erlang.root.join("lib");
        let mut all = Applications::default();
        let mut wanted = vec!["rabbit".to_owned()];
        let mut next = 0;
        while let Some(name) = wanted.get(next).cloned() {
            next += 1;
            let found = [&self.plugins, &libraries].into_iter().find_map(|parent| {
                let version = versions_of(parent, &name).pop();
                let folder = version.map_or(name.clone(), |version| format!("{name}-{version}"));
                let ebin = parent.join(folder).join("ebin");
                let description = fs::read_to_string(ebin.join(format!("{name}.app"))).ok()?;
                Some((ebin, description))
            });
            let Some((ebin, description)) = found else {
                all.missing.push(name);
                continue;
            };
            all.directories.push(ebin);
            for needed in needed_applications(&description) {
                if !wanted.contains(&needed) {
                    wanted.push(needed);
                }
            }
        }
        all
    }
}

impl Erlang {
    fn find(root: Option<&Path>, rabbitmq: &Path) -> Result<Self, BrokerError> {
        let root_directory = root.and_then(|root| root.canonicalize().ok());
        let own = root_directory.as_deref().and_then(|root| {
            ERLANG_UNDER_ROOT
                .into_iter()
                .map(|directory| root.join(directory))
                .find(|directory| real(&directory.join("erl")).is_some_and(|at| at.starts_with(root)))
        });
        let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let search = own.iter().cloned().chain(env::split_paths(&path));
        let Some(erl) = search.map(|directory| directory.join("erl")).find(|erl| erl.is_file()) else {
            return Err(BrokerError::no_erlang(rabbitmq, &path.to_string_lossy()));
        };
        let path = match &own {
            Some(own) => env::join_paths([own.clone()].into_iter().chain(env::split_paths(&path)))
                .map_err(|error| BrokerError::config("PATH cannot be used", error, "correct it"))?,
            None => path,
        };
        let release = real(&erl)
            .and_then(|erl| Some(erl.parent()?.parent()?.to_owned()))
            .and_then(|root| Release::of(&root).map(|release| (root, release)));
        let relocated = own.is_some() && release.is_some();
        let (root, release) = release.map_or_else(|| Release::ask(&erl), Ok)?;
        let emulator_directory = root.join(format!("erts-{}", release.erts)).join("bin");
        let loader = match root_directory.filter(|_| relocated) {
            Some(root) => Loader::find(&root, &emulator_directory.join("beam.smp"))?,
            None => None,
        };
        Ok(Self { path, emulator_directory, loader, root, relocated, release: release.otp })
    }

    /// Whether the emulator has a JIT that can tell `perf` the names of what it compiles, with frame
    /// pointers: OTP 25 or later, and not the interpreter that some processors get.
    pub(super) fn supports_perf(&self) -> bool {
        let map = b"/perf-%i.map";
        self.release >= 25
            && fs::read(self.emulator_directory.join("beam.smp"))
                .is_ok_and(|image| image.windows(map.len()).any(|window| window == map))
    }
}

struct Release {
    otp: u32,
    erts: String,
}

impl Release {
    /// From `releases/start_erl.data`, one line: `13.1.5 25`.
    fn of(root: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(root.join("releases/start_erl.data")).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let erts = words.next()?.to_owned();
        let otp = words.next()?.split('.').next()?.parse().ok()?;
        Some(Self { otp, erts })
    }

    /// By starting it, where `erl` is a script of some version manager.
    fn ask(erl: &Path) -> Result<(PathBuf, Self), BrokerError> {
        let question = "io:format(\"~ts~n~ts ~ts~n\", [code:root_dir(), \
                        erlang:system_info(version), erlang:system_info(otp_release)]), halt().";
        let output = Command::new(erl)
            .args(["+B", "-boot", "start_clean", "-noinput", "-eval", question])
            .output()
            .map_err(BrokerError::io("start", erl))?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().next().map(PathBuf::from).zip(text.lines().nth(1).and_then(Self::parse)).ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            let cause = format!("{} does not print its version", erl.display());
            let help = "add a working Erlang to PATH";
            BrokerError::config(cause, format!("{}, and it says {:?}", output.status, said.trim()), help)
        })
    }
}

fn find_scripts(root: Option<&Path>) -> Result<PathBuf, BrokerError> {
    let mut candidates: Vec<PathBuf> = match root {
        Some(root) => SCRIPTS_UNDER_ROOT.iter().map(|directory| root.join(directory)).collect(),
        None => SCRIPTS_OF_MACHINE.iter().map(PathBuf::from).collect(),
    };
    if root.is_none() {
        // A prefix's own sbin in PATH: its scripts stand together, the wrappers stand alone.
        let path = env::var_os("PATH").unwrap_or_default();
        let real_directories = env::split_paths(&path)
            .filter_map(|directory| Some(real(&directory.join("rabbitmq-server"))?.parent()?.to_owned()))
            .filter(|directory| directory.join("rabbitmq-env").is_file());
        candidates.extend(real_directories);
    }
    let found = candidates
        .iter()
        .filter_map(|directory| real(&directory.join("rabbitmq-server")))
        .filter_map(|script| Some(script.parent()?.to_owned()));
    let found: Vec<PathBuf> = found.collect();
    // Debian's wrapper in `sbin` stands alone.
    let is_whole = |scripts: &&PathBuf| scripts.parent().map(|home| home.join("plugins")).is_some_and(|it| it.is_dir());
    found.iter().find(is_whole).or(found.first()).cloned().ok_or_else(|| {
        let looked_for: Vec<PathBuf> = candidates.iter().map(|at| at.join("rabbitmq-server")).collect();
        let help = "install it (apt-get install rabbitmq-server), or name another with broker.root (`bellows ab`: --b \
                    rabbitmq@DIR)";
        BrokerError::not_installed(PRODUCT, &looked_for, help)
    })
}

/// The file behind all links.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

/// Versions behind `NAME-` in a directory of applications, the latest last.
fn versions_of(directory: &Path, name: &str) -> Vec<String> {
    let mut versions: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            let version = file.strip_prefix(name)?.strip_prefix('-')?;
            version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
        })
        .collect();
    versions.sort_by_key(|version| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u64>>());
    versions
}

/// Whether a folder of applications has this one in a folder without a version, with its description.
fn is_compiled(directory: &Path, name: &str) -> bool {
    let description = directory.join(name).join("ebin").join(format!("{name}.app"));
    description.is_file()
}

/// The names in `{applications, [a, b]}` of an application's description, but for those that may be absent.
fn needed_applications(description: &str) -> Vec<String> {
    let compact: String = description.chars().filter(|c| !c.is_whitespace()).collect();
    let names = |key: &str| -> Vec<String> {
        let found = compact.split_once(&format!("{{{key},["));
        let list = found.and_then(|(_, rest)| rest.split_once(']'));
        let names = list.map_or("", |(list, _)| list).split(',');
        names.filter(|name| !name.is_empty()).map(|name| name.replace('\'', "")).collect()
    };
    let optional = names("optional_applications");
    let mut needed = names("applications");
    needed.retain(|name| !optional.contains(name));
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_read_off_their_description() {
        let text = "{application, 'rabbit', [\n {applications, [kernel,\n  'stdlib', ra]},\n {env, []}]}.";
        assert_eq!(needed_applications(text), ["kernel", "stdlib", "ra"]);
        assert!(needed_applications("{application, x, [{applications, []}]}.").is_empty());
        assert!(needed_applications("garbage").is_empty());
        assert_eq!(needed_applications("{applications, [a, b]}, {optional_applications, [b]}"), ["a"]);
    }

    #[test]
    fn releases_are_read_off_their_line() {
        let release = Release::parse("13.1.5 25\n").unwrap();
        assert_eq!((release.otp, release.erts.as_str()), (25, "13.1.5"));
        assert!(Release::parse("13.1.5").is_none());
        assert!(Release::parse("").is_none());
    }

    #[test]
    fn a_missing_installation_says_where_it_looked_and_what_to_do() {
        let error = Installation::find(Some(Path::new("/nowhere"))).unwrap_err().problem().sentence();
        testkit::assert_has(error, ["/nowhere/sbin/rabbitmq-server", "apt-get install rabbitmq-server"]);
    }
}
