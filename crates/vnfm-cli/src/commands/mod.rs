//! The commands, one file per noun.

mod bundle;
mod cluster;
mod cluster_backups;
mod described;
mod download;
mod events;
mod graph;
mod hostkey;
mod inventory;
mod link;
mod lint;
mod maintenance;
mod mapping;
mod matching;
mod new;
mod op;
mod package;
mod package_files;
mod plan;
mod plugin;
mod plugin_run;
mod policy;
mod profile;
mod render;
mod request;
mod scaling;
mod secret_input;
mod secrets;
mod snapshot;
mod subscription;
mod vim;
mod vnf;
mod volume;

pub use lint::{Linted, file_path};

use crate::args::{Cli, Command, Format};
use crate::client::{Client, Outcome, local, segment};
use crate::output::{Output, cell, print, tell};
use clap::CommandFactory as _;
use reqwest::Method;
use serde_json::{Value, json};

/// Runs the command of a parsed command line.
///
/// # Errors
///
/// Those of the command; [`crate::client::Failure`] determines the exit code.
pub async fn run(cli: Cli) -> Outcome<()> {
    let output = Output(cli.output);
    let cli = match cli {
        // Needs no server, so a broken current profile can be fixed.
        Cli {
            command: Command::Profile(command),
            ..
        } => return profile::run(output, command),
        cli => cli,
    };
    let client = Client::new(&cli)?;
    if cli.output == Format::Sarif && !matches!(cli.command, Command::Lint(_)) {
        return Err(local("only `vnfmctl lint` writes SARIF"));
    }
    match cli.command {
        Command::Lint(args) => lint::run(output, &args),
        Command::New(args) => new::run(output, &args),
        Command::Package(command) => package::run(&client, output, command).await,
        Command::Bundle(command) => bundle::run(&client, output, command).await,
        Command::Vim(command) => vim::run(&client, output, command).await,
        Command::Vnf(command) => vnf::run(&client, output, command).await,
        Command::Cluster(command) => cluster::run(&client, output, command).await,
        Command::Op(command) => op::run(&client, output, command).await,
        Command::Snapshot(command) => snapshot::run(&client, output, command).await,
        Command::Link(command) => link::run(&client, output, command).await,
        Command::Volume(command) => volume::run(&client, output, command).await,
        Command::Subscription(command) => subscription::run(&client, output, command).await,
        Command::Plugin(command) => plugin::run(&client, output, command).await,
        Command::Profile(command) => profile::run(output, command),
        Command::Hostkey(command) => hostkey::run(&client, output, command).await,
        Command::Secrets(command) => secrets::run(&client, output, &command).await,
        Command::Orphans {
            forget: Some(id),
            reason,
        } => forget(&client, output, &id, reason.as_deref()).await,
        Command::Orphans { .. } => orphans(&client, output).await,
        Command::Audit => audit(&client, output).await,
        Command::Events { after, follow } => events::run(&client, output, after, follow).await,
        Command::Backup { file } => maintenance::backup(&client, output, &file).await,
        Command::Prune { dry_run } => maintenance::prune(&client, output, dry_run).await,
        Command::Recovery(command) => maintenance::recovery(&client, output, command).await,
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "vnfmctl", &mut script);
            print(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
        Command::Man { dir } => clap_mangen::generate_to(Cli::command(), &dir)
            .map_err(|error| local(format!("cannot write to `{}`: {error}", dir.display()))),
    }
}

/// Prints all entries, oldest first.
async fn audit(client: &Client, output: Output) -> Outcome<()> {
    let mut all: Vec<Value> = Vec::new();
    loop {
        let after = all
            .last()
            .map_or(0, |entry| entry["seq"].as_u64().unwrap_or_default());
        let page: Vec<Value> = client.get(&format!("/vnfm/v1/audit?after={after}")).await?;
        if page.is_empty() {
            break;
        }
        all.extend(page);
    }
    let columns = [
        ("at", "/at"),
        ("who", "/who"),
        ("what", "/what"),
        ("name", "/name"),
        ("id", "/target"),
        ("reason", "/reason"),
        ("from", "/from"),
        ("answer", "/status"),
    ];
    output.list(&all, &columns)
}

async fn forget(client: &Client, output: Output, id: &str, reason: Option<&str>) -> Outcome<()> {
    let path = format!("/vnfm/v1/orphans/{}", segment(id));
    let request = client.request(Method::DELETE, &path);
    client.send(client.with_audit(request, reason)?).await?;
    output.done(
        &format!("forgot the abandoned VNF instance {id}"),
        &json!({"id": id}),
    )
}

async fn orphans(client: &Client, output: Output) -> Outcome<()> {
    let found: Value = client.get("/vnfm/v1/orphans").await?;
    let list = |member: &str| found[member].as_array().cloned().unwrap_or_default();
    for skipped in list("notAsked") {
        let (vim, reason) = (cell(skipped.get("vim")), cell(skipped.get("why")));
        tell(&format!("VIM {vim} could not be queried: {reason}"));
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
        ("snapshot", "/vnfSnapshotInfoId"),
        ("link", "/linkId"),
        ("volume", "/volumeId"),
        ("abandoned", "/abandonedAt"),
    ];
    output.list(&orphans, &columns)
}
