//! What each command does; one file per noun.

mod op;
mod package;
mod plugin;
mod upkeep;
mod vim;
mod vnf;

use crate::args::{Cli, Command, Secrets};
use crate::client::{Client, Outcome};
use crate::output::{Output, cell, print, tell};
use clap::CommandFactory as _;
use reqwest::Method;
use serde_json::Value;

/// Runs a command.
///
/// # Errors
///
/// As [`crate::client::Failure`] says.
pub async fn run(cli: Cli) -> Outcome<()> {
    let client = Client::new(&cli)?;
    let output = Output(cli.output);
    match cli.command {
        Command::Package(command) => package::run(&client, output, command).await,
        Command::Vim(command) => vim::run(&client, output, command).await,
        Command::Vnf(command) => vnf::run(&client, output, command).await,
        Command::Op(command) => op::run(&client, output, command).await,
        Command::Plugin(command) => plugin::run(&client, output, command).await,
        Command::Secrets(Secrets::Rotate) => rotate(&client, output).await,
        Command::Orphans => orphans(&client, output).await,
        Command::Backup { file } => upkeep::backup(&client, output, &file).await,
        Command::Prune { dry_run } => upkeep::prune(&client, output, dry_run).await,
        Command::Recovery(command) => upkeep::recovery(&client, output, command).await,
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "vnfmctl", &mut script);
            print(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
    }
}

async fn rotate(client: &Client, output: Output) -> Outcome<()> {
    let request = client.request(Method::POST, "/vnfm/v1/secrets/rotate");
    let done: Value = client.json(request).await?;
    output.done(&format!("sealed {} values anew with a new key", done["sealedAnew"]), &done)
}

async fn orphans(client: &Client, output: Output) -> Outcome<()> {
    let found: Value = client.get("/vnfm/v1/orphans").await?;
    let list = |member: &str| found[member].as_array().cloned().unwrap_or_default();
    for silent in list("notAsked") {
        let (vim, why) = (cell(silent.get("vim")), cell(silent.get("why")));
        tell(&format!("VIM {vim} was not asked: {why}"));
    }
    let orphans = list("orphans");
    if orphans.is_empty() {
        return output.done("no orphans", &Value::Array(orphans));
    }
    let columns = [
        ("kind", "/kind"),
        ("name", "/name"),
        ("id", "/id"),
        ("vim", "/vimId"),
        ("vnf", "/vnfInstanceId"),
    ];
    output.list(&orphans, &columns)
}
