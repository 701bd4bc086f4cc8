//! `[[load]]` with `kind = "command"`: other programs as the load.

use measure::Problem;

use super::error::wrong;
use super::flat_table::given;
use super::{Experiment, LoadKind, LoadSpec};

impl Experiment {
    /// Whether programs are the load, in place of messages.
    pub fn has_commands(&self) -> bool {
        self.load.iter().any(|load| load.kind == LoadKind::Command)
    }

    /// Checks that programs are given where they are the load, and only there, and that it can reach its broker.
    pub(super) fn check_commands(&self) -> Result<(), Problem> {
        for (index, load) in self.load.iter().enumerate() {
            check_command(&format!("load.{index}"), load)?;
        }
        let programs = |load: &LoadSpec| load.kind == LoadKind::Command;
        let messages = self.load.iter().position(|load| !programs(load));
        if let (true, Some(index)) = (self.has_commands(), messages) {
            let why = " is \"messages\", and another load's is \"command\": a run has one of the two";
            return Err(wrong(format!("load.{index}.kind"), why, "make two experiments of them"));
        }
        Ok(())
    }
}

fn check_command(place: &str, load: &LoadSpec) -> Result<(), Problem> {
    match (load.kind, load.command.first()) {
        (LoadKind::Messages, Some(_)) => {
            let help = "set kind = \"command\", or leave it out";
            Err(wrong(format!("{place}.command"), " has no effect on a load of messages", help))
        }
        (LoadKind::Command, None) => {
            let help = "give a program and its arguments, such as [\"artemis\", \"perf\", \"client\", \"queue://q\"]";
            Err(wrong(format!("{place}.command"), " is missing", help))
        }
        (LoadKind::Command, Some(_)) => check_alone(place, load),
        (LoadKind::Messages, None) => Ok(()),
    }
}

/// Checks for keys of messages, which a program does not read.
fn check_alone(place: &str, load: &LoadSpec) -> Result<(), Problem> {
    // Of messages all keys are written.
    let load = LoadSpec { kind: LoadKind::Messages, command: Vec::new(), ..load.clone() };
    given(&load).keys().next().map_or(Ok(()), |key| {
        let help = "say it to the program, in its command";
        Err(wrong(format!("{place}.{key}"), " has no effect on kind = \"command\"", help))
    })
}

#[cfg(test)]
mod tests {
    use crate::spec_tests::{read, refused};

    /// A report listed the size of messages and other keys of messages.
    #[test]
    fn a_program_has_no_keys_of_messages() {
        let experiment = read("[[load]]\nkind = 'command'\ncommand = ['true']\n");
        let load = serde_json::json!([{"kind": "command", "command": ["true"]}]);
        assert_eq!(experiment.to_json()["load"], load);
        assert_eq!(read(&experiment.to_toml()).load, experiment.load);
    }

    #[test]
    fn programs_and_messages_are_told_apart() {
        let command = "[[load]]\nkind = 'command'\ncommand = ['true']\n";
        assert_eq!(refused(command), "");
        assert_eq!(refused(&format!("broker.kind = 'artemis'\n{command}")), "");
        for [text, part] in testkit::table(include_str!("../tests/data/no-commands.txt")) {
            testkit::assert_has(refused(text), [part]);
        }
    }
}
