//! The manual pages of both programs: one for each command, which mentions each of its options.

use clap::{Command, CommandFactory as _};
use std::path::Path;
use vnfm_cli::args::Cli;
use vnfm_server::program::Flags;
use vnfm_tests::programs::program;

#[test]
fn every_command_of_vnfmctl_has_a_manual_page_with_all_its_options() {
    let checked = check_pages("vnfmctl", Cli::command());
    assert!(checked > 50, "only {checked} pages");
}

#[test]
fn every_command_of_the_server_has_a_manual_page_with_all_its_options() {
    let checked = check_pages("vnfm-server", Flags::command());
    assert!(checked > 4, "only {checked} pages");
}

/// Lets a program write its pages, and checks them all; returns how many there are.
fn check_pages(name: &str, command: Command) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let mut man = std::process::Command::new(program(name));
    let status = man.arg("man").arg(folder.path()).status();
    assert!(status.unwrap().success());
    let mut root = command.disable_help_subcommand(true);
    root.build();
    let checked = check(name, &root, folder.path());
    let written = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(written, checked, "pages");
    checked
}

/// Checks the page of a command and those of its subcommands; returns how many there are.
fn check(name: &str, command: &Command, folder: &Path) -> usize {
    let page = std::fs::read_to_string(folder.join(format!("{name}.1")));
    let page = page
        .unwrap_or_else(|error| panic!("no page {name}.1: {error}"))
        .replace("\\-", "-");
    for option in command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set())
    {
        let flag = option.get_long().map(|long| format!("--{long}"));
        let text = flag.unwrap_or_else(|| {
            let names = option.get_value_names().unwrap_or_default();
            names
                .first()
                .map_or(option.get_id().as_str(), |name| name.as_str())
                .to_owned()
        });
        assert!(
            page.to_uppercase().contains(&text.to_uppercase()),
            "{name}.1 does not mention {text}"
        );
    }
    let inner = command.get_subcommands();
    let inner = inner.filter(|inner| !inner.is_hide_set());
    1 + inner
        .map(|inner| check(&format!("{name}-{}", inner.get_name()), inner, folder))
        .sum::<usize>()
}
