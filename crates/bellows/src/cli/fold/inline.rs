//! Inlined functions, by `addr2line`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// Addresses whose functions are kept.
const MOST_KNOWN: usize = 1 << 18;

/// A file, and an address in it as the input writes it.
type FileAndAddress = (Vec<u8>, Vec<u8>);

/// Asks `addr2line` once for each address of a file.
pub(super) struct InlinedFunctions {
    /// Add file and line.
    context: bool,
    known: HashMap<FileAndAddress, Option<Vec<u8>>>,
    /// Addresses of functions by file, by `nm`.
    symbols: HashMap<Vec<u8>, Vec<u8>>,
}

impl InlinedFunctions {
    /// Looks whether `addr2line` is there.
    pub(super) fn new(context: bool) -> Result<Self, Failure> {
        let found = Command::new("addr2line").arg("--version").output();
        found.map_err(|error| {
            Failure::failed(
                format!("--inline needs addr2line, which cannot be started: {error}"),
                "install binutils, or leave --inline out",
            )
        })?;
        Ok(Self {
            context,
            known: HashMap::new(),
            symbols: HashMap::new(),
        })
    }

    /// The functions at an address, joined by `;` with the innermost last; `None` where they are not known.
    pub(super) fn at(&mut self, address: &[u8], function: &[u8], module: &[u8]) -> Option<Vec<u8>> {
        let key = (address.to_vec(), module.to_vec());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let told = self.ask(address, function, module);
        let is_known = |told: &Vec<u8>| !matches!(told.as_slice(), b"" | b"??" | b"??:??:0");
        let told = told.filter(is_known);
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
        while let Some(name) = lines.next().filter(|name| !name.is_empty()) {
            let Some(place) = lines.next() else {
                break;
            };
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
        let told = output(command.args(["-i", "-f", "-s", "-C"])).ok()?;
        let first = told.iter().position(|&byte| byte == b'\n')?;
        told.get(first + 1..).map(<[u8]>::to_vec)
    }

    /// The address in the file of `function+0x1c`.
    fn in_file(&mut self, function: &[u8], module: &[u8]) -> Option<Vec<u8>> {
        let text = String::from_utf8_lossy(function);
        let (name, offset) = text.rsplit_once("+0x")?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let symbols = self.symbols.entry(module.to_vec()).or_insert_with(|| {
            let told = output(Command::new("nm").arg(OsStr::from_bytes(module)));
            told.unwrap_or_default()
        });
        let symbols = String::from_utf8_lossy(symbols);
        let start = symbols.lines().find_map(|line| {
            let (address, symbol) = line.split_once(' ')?;
            let (_, symbol) = symbol.split_once(' ')?;
            (symbol == name).then(|| u64::from_str_radix(address, 16).ok())?
        });
        Some(format!("{:#x}", start?.checked_add(offset)?).into_bytes())
    }
}

/// A program's standard output.
fn output(command: &mut Command) -> io::Result<Vec<u8>> {
    let command = command.stdin(Stdio::null()).stderr(Stdio::inherit());
    command.output().map(|it| it.stdout)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A line without ` (discriminator 3)`.
fn without_discriminator(line: &[u8]) -> &[u8] {
    const MARK: &[u8] = b" (discriminator ";
    let at = line.windows(MARK.len()).position(|it| it == MARK);
    at.and_then(|at| line.get(..at)).unwrap_or(line)
}
