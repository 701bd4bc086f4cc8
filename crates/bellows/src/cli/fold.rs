//! `flame --format stackcollapse`: text of `perf script` as folded stacks, as `stackcollapse-perf.pl` writes them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use measure::{Problem, counted};
use stacks::{Beginning, Collapse, CollapseOptions, Inlined, other_than_text, read_problem, unpacked};

use crate::{Failure, output, profile_formats};

/// Options of `bellows flame --format stackcollapse`, by the script's names.
#[derive(Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "With --format stackcollapse, as stackcollapse-perf.pl")]
pub(super) struct CollapseArgs {
    /// Further texts of `perf script`, folded as one
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Add the process id to the command name
    #[arg(long)]
    pid: bool,
    /// Add process and thread id to the command name
    #[arg(long)]
    tid: bool,
    /// Mark kernel functions with _[k]
    #[arg(long)]
    kernel: bool,
    /// Mark JIT-compiled functions with _[j]
    #[arg(long)]
    jit: bool,
    /// --kernel and --jit
    #[arg(long)]
    all: bool,
    /// Show the address of a function without a name
    #[arg(long)]
    addrs: bool,
    /// Add inlined functions, by addr2line (of the package binutils)
    #[arg(long)]
    inline: bool,
    /// Add file and line to the functions of --inline
    #[arg(long, requires = "inline")]
    context: bool,
    /// Read the text of `perf script -F +srcline`, and add file and line
    #[arg(long)]
    srcline: bool,
}

impl CollapseArgs {
    /// The files to fold as one text; without any, standard input.
    pub(super) fn files(&self, first: Option<&str>) -> Vec<PathBuf> {
        let first = PathBuf::from(first.unwrap_or("-"));
        std::iter::once(first).chain(self.files.iter().cloned()).collect()
    }

    /// The folded samples of an event of these files: of the first one where none is named.
    pub(super) fn fold(&self, files: &[PathBuf], event: Option<&str>) -> Result<Vec<u8>, Failure> {
        let mut collapse = Collapse::new(CollapseOptions {
            pid: self.pid,
            tid: self.tid,
            kernel: self.kernel || self.all,
            jit: self.jit || self.all,
            addresses: self.addrs,
            source_lines: self.srcline,
            event: event.map(str::to_owned),
        });
        let mut tool = self.inline.then(|| InlinedFunctions::new(self.context)).transpose()?;
        for file in files {
            read(&mut collapse, file, tool.as_mut())?;
        }
        for note in collapse.notes() {
            output::line_aside(&note);
        }
        if collapse.stacks() == 0 {
            return Err(nothing_folded(collapse.without_stacks()));
        }
        let mut text = Vec::new();
        collapse.write(&mut text)?;
        Ok(text)
    }
}

fn nothing_folded(without_stacks: u64) -> Failure {
    match without_stacks {
        0 => Failure::failed(
            "no sample is in it",
            "give what `perf script` prints, with stacks: `perf record -g` records them",
        ),
        samples => Failure::failed(
            "no sample in it has a stack",
            "record stacks with `perf record -g`; `bellows top` shows the functions of these samples",
        )
        .observed(format!("{} without a stack", counted(samples, "sample"))),
    }
}

/// The failure for a file that is no text of `perf script`, with the command that makes folded text of it.
fn not_a_text(file: &Path, looks: &str, is_profile: bool) -> Failure {
    let name = if file == Path::new("-") { "FILE".into() } else { file.to_string_lossy() };
    let (help, observed) = match is_profile {
        true => {
            (format!("fold it with `bellows flame {name} --format folded -o -`"), format!("it is a profile: {looks}"))
        }
        false => ("give what `perf script` prints".to_owned(), format!("it looks like {looks}")),
    };
    Failure::failed(format!("{} is no text of `perf script`", file.display()), help).observed(observed)
}

fn read(collapse: &mut Collapse, file: &Path, mut tool: Option<&mut InlinedFunctions>) -> Result<(), Failure> {
    let is_stdin = file == Path::new("-");
    if is_stdin && io::stdin().is_terminal() {
        let cause = "nothing comes from a terminal";
        let help = "name a file, or pipe into it: `perf script | bellows flame - --format stackcollapse -o -`";
        return Err(Failure::usage(cause, help));
    }
    let failed = |source: io::Error| read_problem(file, &source);
    let input: Box<dyn Read> = match is_stdin {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(file).map_err(failed)?),
    };
    let (mut input, packed) = unpacked(input).map_err(failed)?;
    let beginning = Beginning {
        bytes: input.fill_buf().map_err(failed)?,
        name: &file.file_name().unwrap_or_default().to_string_lossy(),
        packed,
    };
    if let Some((looks, is_profile)) = other_than_text(&profile_formats::all(), &beginning) {
        return Err(not_a_text(file, looks, is_profile));
    }
    let mut tell;
    let inlined: Option<&mut Inlined<'_>> = match &mut tool {
        Some(tool) => {
            tell = |address: &[u8], function: &[u8], module: &[u8]| tool.at(address, function, module);
            Some(&mut tell)
        }
        None => None,
    };
    let read = collapse.read(input.as_mut(), inlined).map_err(failed)?;
    read.map_err(|why| {
        Failure::Failed(Problem::new(
            format!("{} is not folded", file.display()),
            why,
            "give what `perf script` prints",
        ))
    })
}

/// Addresses whose functions are kept.
const MOST_KNOWN: usize = 1 << 18;

/// A file, and an address in it as the input writes it.
type FileAndAddress = (Vec<u8>, Vec<u8>);

/// Asks `addr2line` once for each address of a file.
struct InlinedFunctions {
    context: bool,
    known: HashMap<FileAndAddress, Option<Vec<u8>>>,
    /// Addresses of functions by file, by `nm`.
    symbols: HashMap<Vec<u8>, Vec<u8>>,
}

impl InlinedFunctions {
    fn new(context: bool) -> Result<Self, Failure> {
        let found = Command::new("addr2line").arg("--version").output();
        found.map_err(|error| {
            let cause = format!("--inline needs addr2line, which cannot be started: {error}");
            Failure::failed(cause, "install binutils, or leave --inline out")
        })?;
        Ok(Self { context, known: HashMap::new(), symbols: HashMap::new() })
    }

    /// The functions at an address, joined by `;` with the innermost last; `None` where they are not known.
    fn at(&mut self, address: &[u8], function: &[u8], module: &[u8]) -> Option<Vec<u8>> {
        let key = (address.to_vec(), module.to_vec());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let told = self.ask(address, function, module);
        let told = told.filter(|told| !matches!(told.as_slice(), b"" | b"??" | b"??:??:0"));
        if self.known.len() < MOST_KNOWN {
            self.known.insert(key, told.clone());
        }
        told
    }

    fn ask(&mut self, address: &[u8], function: &[u8], module: &[u8]) -> Option<Vec<u8>> {
        // A name that begins with a dash would be an option.
        if module.starts_with(b"-") {
            return None;
        }
        let mut told = self.addr2line(address, module)?;
        // An address of memory is none of the file: the function's place in the file helps.
        if contains(&told, b"??\n??:0")
            && let Some(address) = self.in_file(function, module)
        {
            told = self.addr2line(&address, module)?;
        }
        let mut functions: Vec<Vec<u8>> = Vec::new();
        let mut lines = told.split(|&byte| byte == b'\n');
        while let Some(name) = lines.next().filter(|name| !name.is_empty())
            && let Some(place) = lines.next()
        {
            let name = without_discriminator(name);
            functions.push(match self.context {
                true => [name, b":", without_discriminator(place)].concat(),
                false => name.to_vec(),
            });
        }
        functions.reverse();
        Some(functions.join(&b';'))
    }

    /// Output of `addr2line` for an address, without its first line, which repeats the address.
    fn addr2line(&self, address: &[u8], module: &[u8]) -> Option<Vec<u8>> {
        let mut command = Command::new("addr2line");
        command.arg("-a").arg(OsStr::from_bytes(address));
        command.arg("-e").arg(OsStr::from_bytes(module));
        let told = output_of(command.args(["-i", "-f", "-s", "-C"])).ok()?;
        let first = told.iter().position(|&byte| byte == b'\n')?;
        told.get(first + 1..).map(<[u8]>::to_vec)
    }

    /// The address in the file of `function+0x1c`.
    fn in_file(&mut self, function: &[u8], module: &[u8]) -> Option<Vec<u8>> {
        let text = String::from_utf8_lossy(function);
        let (name, offset) = text.rsplit_once("+0x")?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let nm = || output_of(Command::new("nm").arg(OsStr::from_bytes(module))).unwrap_or_default();
        let symbols = self.symbols.entry(module.to_vec()).or_insert_with(nm);
        let symbols = String::from_utf8_lossy(symbols);
        let start = symbols.lines().find_map(|line| {
            let (address, symbol) = line.split_once(' ')?;
            let (_, symbol) = symbol.split_once(' ')?;
            (symbol == name).then(|| u64::from_str_radix(address, 16).ok())?
        });
        Some(format!("{:#x}", start?.checked_add(offset)?).into_bytes())
    }
}

fn output_of(command: &mut Command) -> io::Result<Vec<u8>> {
    command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map(|it| it.stdout)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn without_discriminator(line: &[u8]) -> &[u8] {
    const MARK: &[u8] = b" (discriminator ";
    let at = line.windows(MARK.len()).position(|it| it == MARK);
    at.and_then(|at| line.get(..at)).unwrap_or(line)
}
