//! `vnfmctl vnf TASK …`, from the rows of the operations: an operation with options of its own keeps them, any other gets
//! `vnfmctl vnf TASK ID [--request FILE]`. Completion of `--skip-hook` offers the hooks of the row.

use super::{SkipHooks, Vnf};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use vnfm::lcm::{OPERATIONS, Operation};

/// What `vnfmctl vnf` does: a command of its own, or any operation of the engine.
#[derive(Debug)]
pub enum VnfCommand {
    /// A command with options of its own.
    Typed(Vnf),
    /// An operation whose only option is its request.
    Task(Named, Task),
    /// What one of these operations would do.
    Plan(Box<Self>),
}

/// An operation, printed by its name.
#[derive(Clone, Copy)]
pub struct Named(pub &'static Operation);

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(command_name(self.0))
    }
}

/// An operation on an instance.
#[derive(Debug, Args)]
pub struct Task {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// Request body as JSON or YAML (default: an empty object)
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
    /// Hooks to skip, and why
    #[command(flatten)]
    pub skip: SkipHooks,
    /// Watch until the operation finishes
    #[arg(long)]
    pub watch: bool,
}

impl Subcommand for VnfCommand {
    fn augment_subcommands(command: Command) -> Command {
        with_operations(Vnf::augment_subcommands(command), OPERATIONS)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        with_operations(Vnf::augment_subcommands_for_update(command), OPERATIONS)
    }

    fn has_subcommand(name: &str) -> bool {
        Vnf::has_subcommand(name) || operation(OPERATIONS, name).is_some()
    }
}

impl FromArgMatches for VnfCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        parse(matches, OPERATIONS)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The operation's task; the modification has none in the standard.
pub(crate) fn command_name(operation: &Operation) -> &'static str {
    operation.task.unwrap_or("modify")
}

fn operation(operations: &[&'static Operation], name: &str) -> Option<&'static Operation> {
    let mut all = operations.iter().copied();
    all.find(|operation| command_name(operation) == name)
}

/// Adds the operations without options of their own, and the names of hooks to all.
fn with_operations(command: Command, operations: &[&'static Operation]) -> Command {
    let missing = operations
        .iter()
        .filter(|operation| !Vnf::has_subcommand(command_name(operation)));
    let command = missing.fold(command, |command, operation| {
        let request = operation.body.name;
        let about = format!("Request the task of this name; the request is a `{request}`");
        let task = Command::new(command_name(operation)).about(about);
        command.subcommand(Task::augment_args(task))
    });
    command.mut_subcommands(|one| match operation(operations, one.get_name()) {
        Some(operation) => with_hooks(one, operation).arg(plan_option()),
        None => one,
    })
}

/// Any operation can be planned.
fn plan_option() -> Arg {
    Arg::new(PLAN)
        .long(PLAN)
        .action(ArgAction::SetTrue)
        .conflicts_with("watch")
        .help("Show what would happen, without changing anything; exit code 9 if something would change, else 0")
}

const PLAN: &str = "plan";

/// Offers the operation's hooks for `--skip-hook`, and hides the options from operations that run all of them.
fn with_hooks(command: Command, operation: &Operation) -> Command {
    let hide = !operation.skippable_hooks;
    command.mut_args(|arg| match arg.get_id().as_str() {
        "hooks" => {
            let hooks = arg.value_parser(HookName(operation.hooks()));
            hooks.hide_possible_values(true).hide(hide)
        }
        "reason" => arg.hide(hide),
        _ => arg,
    })
}

fn parse(matches: &ArgMatches, operations: &[&'static Operation]) -> Result<VnfCommand, Error> {
    let command = parse_command(matches, operations)?;
    let options = matches.subcommand().map(|(_, options)| options);
    let plans = options.and_then(|options| options.try_get_one::<bool>(PLAN).ok().flatten());
    Ok(match plans {
        Some(true) => VnfCommand::Plan(Box::new(command)),
        _ => command,
    })
}

fn parse_command(
    matches: &ArgMatches,
    operations: &[&'static Operation],
) -> Result<VnfCommand, Error> {
    let other = matches
        .subcommand()
        .filter(|(name, _)| !Vnf::has_subcommand(name))
        .and_then(|(name, options)| Some((operation(operations, name)?, options)));
    match other {
        Some((operation, options)) => {
            Task::from_arg_matches(options).map(|task| VnfCommand::Task(Named(operation), task))
        }
        None => Vnf::from_arg_matches(matches).map(VnfCommand::Typed),
    }
}

/// The name of a hook. Shells offer those of the operation; the server decides about others.
#[derive(Clone)]
struct HookName(Vec<&'static str>);

impl TypedValueParser for HookName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().copied().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Named, VnfCommand, operation, parse, with_operations};
    use crate::args::Vnf;
    use clap::builder::PossibleValue;
    use clap::{Command, Subcommand as _};
    use vnfm::lcm::{OPERATIONS, Operation, heal};

    /// An operation without options of its own.
    const REHEARSE: Operation = Operation {
        task: Some("rehearse"),
        ..heal::OPERATION
    };

    fn command(operations: &[&'static Operation]) -> Command {
        with_operations(Vnf::augment_subcommands(Command::new("vnf")), operations)
    }

    #[test]
    fn an_operation_without_options_of_its_own_gets_a_command() {
        let operations: &[&'static Operation] = &[&REHEARSE];
        let args = ["vnf", "rehearse", "web", "--request", "acts.yaml"];
        let matches = command(operations).try_get_matches_from(args).unwrap();
        match parse(&matches, operations).unwrap() {
            VnfCommand::Task(Named(operation), task) => {
                assert_eq!(operation.task, Some("rehearse"));
                assert_eq!(task.vnf, "web");
                assert_eq!(task.request.unwrap().to_str(), Some("acts.yaml"));
            }
            other => panic!("{other:?}"),
        }
        assert!(command(OPERATIONS).try_get_matches_from(args).is_err());
    }

    #[test]
    fn every_operation_can_be_planned_and_nothing_else() {
        let operations: &[&'static Operation] = &[&REHEARSE];
        let planned = ["vnf", "rehearse", "web", "--plan"];
        let matches = command(operations).try_get_matches_from(planned).unwrap();
        match parse(&matches, operations).unwrap() {
            VnfCommand::Plan(planned) => assert!(matches!(*planned, VnfCommand::Task(..))),
            other => panic!("{other:?}"),
        }
        let watched = ["vnf", "rehearse", "web", "--plan", "--watch"];
        assert!(command(operations).try_get_matches_from(watched).is_err());
        for one in command(OPERATIONS).get_subcommands() {
            let name = one.get_name();
            let is_operation = operation(OPERATIONS, name).is_some();
            let has_plan = one.get_arguments().any(|arg| arg.get_id() == super::PLAN);
            assert_eq!(has_plan, is_operation, "{name}");
        }
    }

    #[test]
    fn operations_whose_request_is_a_file_have_no_options_of_their_own() {
        let commands = command(OPERATIONS);
        let names = commands.get_subcommands().map(Command::get_name);
        let generic: Vec<_> = names.filter(|name| !Vnf::has_subcommand(name)).collect();
        assert_eq!(
            generic,
            ["change_flavour", "change_ext_conn", "change_vnfpkg"]
        );
    }

    #[test]
    fn completion_offers_the_hooks_of_the_operation() {
        let commands = command(OPERATIONS);
        for (task, expected) in [
            ("heal", ["heal_start", "heal_end"]),
            ("terminate", ["terminate_start", "terminate_end"]),
        ] {
            let found = commands.find_subcommand(task).unwrap();
            let mut arguments = found.get_arguments();
            let hooks = arguments.find(|arg| arg.get_id() == "hooks").unwrap();
            let names = hooks.get_possible_values();
            let names: Vec<_> = names.iter().map(PossibleValue::get_name).collect();
            assert_eq!(names, expected, "{task}");
        }
        // The server decides about names that are not among them.
        let args = [
            "vnf",
            "heal",
            "web",
            "--skip-hook",
            "later_hook",
            "--reason",
            "a test",
        ];
        assert!(commands.try_get_matches_from(args).is_ok());
    }
}
