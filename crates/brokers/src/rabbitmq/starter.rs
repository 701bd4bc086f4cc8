//! Replaces the directory from which Erlang starts its own programs, where those cannot be started as they are: Erlang
//! was moved since it was built, or it needs the dynamic loader of its root directory, or nodes that it starts itself
//! must not look for an EPMD.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    io::ErrorKind,
    os::unix::ffi::OsStrExt as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use super::super::BrokerError;
use super::{
    install::Erlang,
    loader::{Loader, interpreter},
};
use crate::guardian::private_file;

/// Directory of programs that the node finds first.
pub(super) const STARTERS: &str = "bin";
/// Directory of Erlang's applications that have programs of their own.
const APPLICATIONS: &str = "lib";
/// Directory of links to the loader, each called like the program that is started through it: the kernel names a
/// process after the file that was executed.
const LOADERS: &str = "loaders";

/// Makes the directory `bin` in a node's own: all programs of the emulator's directory, and an `erl` that starts Erlang
/// where it is now. Erlang searches this directory first (`BINDIR`), so it starts its helpers from there, too.
/// Nodes that the node starts - RabbitMQ 4 has one ask the others of the cluster - use `port` and do not listen.
/// Returns what `ERL_LIBS` has to name, so that applications find the programs that need the loader.
pub(super) fn write(
    erlang: &Erlang,
    node: &Path,
    port: u16,
) -> Result<Option<PathBuf>, BrokerError> {
    let starters = Starters {
        node,
        loader: erlang.loader.as_ref(),
    };
    let directory = node.join(STARTERS);
    starters.copy(&erlang.emulator_directory, &directory, &["erl"])?;
    write_script(&directory.join("erl"), &erl(erlang, &directory, port))?;
    starters.copy_applications(&erlang.root.join("lib"))
}

/// Where programs are replaced by scripts that start them.
struct Starters<'a> {
    /// The node's own directory.
    node: &'a Path,
    loader: Option<&'a Loader>,
}

impl Starters<'_> {
    /// Makes a directory with all that `from` has, but some: links, and scripts for programs that need the loader.
    fn copy(&self, from: &Path, to: &Path, but: &[&str]) -> Result<(), BrokerError> {
        fs::create_dir_all(to).map_err(BrokerError::io("create", to))?;
        for entry in fs::read_dir(from).map_err(BrokerError::io("read", from))? {
            let entry = entry.map_err(BrokerError::io("read", from))?;
            let (name, original) = (entry.file_name(), entry.path());
            if but.iter().any(|it| name == *it) {
                continue;
            }
            let to = to.join(name);
            match self.loader.filter(|_| interpreter(&original).is_some()) {
                Some(loader) => self.write_wrapper(loader, &original, &to)?,
                None => symlink(&original, &to).map_err(BrokerError::io("create", &to))?,
            }
        }
        Ok(())
    }

    /// Does so for every application with programs in its `priv/bin`, as `os_mon` has.
    fn copy_applications(&self, libraries: &Path) -> Result<Option<PathBuf>, BrokerError> {
        if self.loader.is_none() {
            return Ok(None);
        }
        let mut made = None;
        for entry in fs::read_dir(libraries).into_iter().flatten().flatten() {
            let from = entry.path();
            let (private, programs) = (from.join("priv"), from.join("priv/bin"));
            let mut files = fs::read_dir(&programs).into_iter().flatten().flatten();
            if !files.any(|file| interpreter(&file.path()).is_some()) {
                continue;
            }
            let directory = self.node.join(APPLICATIONS);
            let to = directory.join(entry.file_name());
            self.copy(&from, &to, &["priv"])?;
            self.copy(&private, &to.join("priv"), &["bin"])?;
            self.copy(&programs, &to.join("priv/bin"), &[])?;
            made = Some(directory);
        }
        Ok(made)
    }

    /// Writes a script that starts a program through the loader. It becomes the program: its process keeps number,
    /// environment and open files.
    fn write_wrapper(
        &self,
        loader: &Loader,
        program: &Path,
        wrapper: &Path,
    ) -> Result<(), BrokerError> {
        let links = self.node.join(LOADERS);
        fs::create_dir_all(&links).map_err(BrokerError::io("create", &links))?;
        let link = links.join(program.file_name().unwrap_or_default());
        match symlink(&loader.program, &link) {
            // Another application has a program of this name.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(BrokerError::io("create", &link))?,
        }
        let mut text = b"#!/bin/sh\nexec ".to_vec();
        text.extend(quoted(link.as_os_str()));
        text.extend(b" --library-path ");
        text.extend(quoted(&loader.libraries));
        text.push(b' ');
        text.extend(quoted(program.as_os_str()));
        text.extend(b" \"$@\"\n");
        write_script(wrapper, &text)
    }
}

/// The text of `erl`. A node of its own from the start is told about an EPMD; one that is not is somebody's helper.
fn erl(erlang: &Erlang, directory: &Path, port: u16) -> Vec<u8> {
    let mut text = b"#!/bin/sh\nROOTDIR=".to_vec();
    text.extend(quoted(erlang.root.as_os_str()));
    text.extend(b" BINDIR=");
    text.extend(quoted(directory.as_os_str()));
    text.extend(b" EMU=beam PROGNAME=erl\nexport ROOTDIR BINDIR EMU PROGNAME\ncase \" $* \" in\n");
    text.extend(b"*' -start_epmd '*) ;;\n");
    let helper = format!("-start_epmd false -erl_epmd_port {port} -dist_listen false");
    text.extend(format!("*) set -- \"$@\" {helper} ;;\nesac\n").into_bytes());
    text.extend(b"exec \"$BINDIR/erlexec\" \"$@\"\n");
    text
}

fn write_script(path: &Path, text: &[u8]) -> Result<(), BrokerError> {
    private_file(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
        .map_err(BrokerError::io("protect", path))
}

/// One word of a shell.
fn quoted(text: &OsStr) -> Vec<u8> {
    let mut word = vec![b'\''];
    for &byte in text.as_bytes() {
        match byte {
            b'\'' => word.extend(br"'\''"),
            other => word.push(other),
        }
    }
    word.push(b'\'');
    word
}
