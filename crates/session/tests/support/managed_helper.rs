//! The program that `tests/all/managed.rs` starts: the guardian, and an owner to be killed.

use std::{env, ffi::OsString, process::ExitCode, thread, time::Duration};

use brokers::guardian;
use brokers::rabbitmq::{Config, RabbitMq};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    match &arguments[..] {
        [first, rest @ ..] if first == guardian::SUBCOMMAND => ExitCode::from(guardian::main(rest)),
        [first, parent] if first == "own" => own(parent),
        _ => ExitCode::from(2),
    }
}

/// Owns a node with its directory in `parent` until it is killed. Prints events line by line.
fn own(parent: &OsString) -> ExitCode {
    let config = Config { parent_directory: Some(parent.into()), ..Config::default() };
    match RabbitMq::start(&config, &mut |step| println!("{step:?}"), &|| false) {
        Ok(broker) => {
            println!("ready {}", broker.pid());
            thread::sleep(Duration::from_secs(300));
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("failed {error}");
            ExitCode::FAILURE
        }
    }
}
