//! Replaces the directory from which Erlang starts its own programs, where those cannot be started as they are: Erlang
//! was moved since it was built, or it needs the dynamic loader of its root directory, or nodes that it starts itself
//! must not look for an EPMD.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::ffi::OsStrExt as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use super::super::BrokerError;
use super::{
    install::Erlang,
    loader::{Loader, interpreter},
};
use crate::guardian::private_file;

/// Directory of programs that the node finds first.
pub(super) const STARTERS: &str = "bin";
/// Directory of links to the loader, each called like the program that is started through it: the kernel names a process
/// after the file that was executed.
const LOADERS: &str = "loaders";

/// Makes the directory `bin` in a node's own: all programs of the emulator's directory, and an `erl` that starts Erlang
/// where it is now. Erlang searches this directory first (`BINDIR`), so it starts its helpers from there, too.
/// Nodes that the node starts - RabbitMQ 4 has one ask the others of the cluster - use `port` and do not listen.
pub(super) fn write(erlang: &Erlang, node: &Path, port: u16) -> Result<(), BrokerError> {
    let directory = node.join(STARTERS);
    fs::create_dir(&directory).map_err(BrokerError::io("create", &directory))?;
    let from = &erlang.emulator_directory;
    let entries = fs::read_dir(from).map_err(BrokerError::io("read", from))?;
    for entry in entries {
        let entry = entry.map_err(BrokerError::io("read", from))?;
        let (name, program) = (entry.file_name(), entry.path());
        let to = directory.join(&name);
        let needs_loader = |_: &&Loader| interpreter(&program).is_some();
        match erlang.loader.as_ref().filter(needs_loader) {
            _ if name == "erl" => {}
            Some(loader) => write_wrapper(loader, &program, &to, node)?,
            None => symlink(&program, &to).map_err(BrokerError::io("create", &to))?,
        }
    }
    write_script(&directory.join("erl"), &erl(erlang, &directory, port))
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

/// Writes a script that starts a program through the loader. It becomes the program: its process keeps number,
/// environment and open files.
fn write_wrapper(
    loader: &Loader,
    program: &Path,
    wrapper: &Path,
    node: &Path,
) -> Result<(), BrokerError> {
    let links = node.join(LOADERS);
    fs::create_dir_all(&links).map_err(BrokerError::io("create", &links))?;
    let link = links.join(program.file_name().unwrap_or_default());
    symlink(&loader.program, &link).map_err(BrokerError::io("create", &link))?;
    let mut text = b"#!/bin/sh\nexec ".to_vec();
    text.extend(quoted(link.as_os_str()));
    text.extend(b" --library-path ");
    text.extend(quoted(&loader.libraries));
    text.push(b' ');
    text.extend(quoted(program.as_os_str()));
    text.extend(b" \"$@\"\n");
    write_script(wrapper, &text)
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
