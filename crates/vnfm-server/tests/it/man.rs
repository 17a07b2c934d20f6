//! The manual pages: one for each command, which mentions each of its options.

use clap::{Command, CommandFactory as _};
use std::path::Path;
use vnfm_server::program::Flags;

#[test]
fn every_command_has_a_manual_page_with_all_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_vnfm-server"))
        .arg("man")
        .arg(folder.path())
        .status();
    assert!(status.unwrap().success());
    let mut root = Flags::command().disable_help_subcommand(true);
    root.build();
    let checked = check("vnfm-server", &root, folder.path());
    let written = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(written, checked, "pages");
    assert!(checked > 4, "only {checked} pages");
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
