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

use crate::args::{Cli, Command, Format, Offline, Online};
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
    if cli.output == Format::Sarif && !matches!(cli.command, Command::Offline(Offline::Lint(_))) {
        return Err(local("only `vnfmctl lint` writes SARIF"));
    }
    match cli.command {
        Command::Offline(command) => offline(output, command),
        Command::Online(command) => {
            let client = Client::new(&cli.connection)?;
            online(&client, output, command).await
        }
    }
}

fn offline(output: Output, command: Offline) -> Outcome<()> {
    match command {
        Offline::Lint(args) => lint::run(output, &args),
        Offline::New(args) => new::run(output, &args),
        Offline::Profile(command) => profile::run(output, command),
        Offline::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "vnfmctl", &mut script);
            print(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
        Offline::Man { dir } => clap_mangen::generate_to(Cli::command(), &dir)
            .map_err(|error| local(format!("cannot write to `{}`: {error}", dir.display()))),
    }
}

async fn online(client: &Client, output: Output, command: Online) -> Outcome<()> {
    match command {
        Online::Package(command) => package::run(client, output, command).await,
        Online::Bundle(command) => bundle::run(client, output, command).await,
        Online::Vim(command) => vim::run(client, output, command).await,
        Online::Vnf(command) => vnf::run(client, output, command).await,
        Online::Cluster(command) => cluster::run(client, output, command).await,
        Online::Op(command) => op::run(client, output, command).await,
        Online::Snapshot(command) => snapshot::run(client, output, command).await,
        Online::Link(command) => link::run(client, output, command).await,
        Online::Volume(command) => volume::run(client, output, command).await,
        Online::Subscription(command) => subscription::run(client, output, command).await,
        Online::Plugin(command) => plugin::run(client, output, command).await,
        Online::Hostkey(command) => hostkey::run(client, output, command).await,
        Online::Secrets(command) => secrets::run(client, output, &command).await,
        Online::Orphans {
            forget: Some(id),
            reason,
        } => forget(client, output, &id, reason.as_deref()).await,
        Online::Orphans { .. } => orphans(client, output).await,
        Online::Audit => audit(client, output).await,
        Online::Events { after, follow } => events::run(client, output, after, follow).await,
        Online::Backup { file } => maintenance::backup(client, output, &file).await,
        Online::Prune { dry_run } => maintenance::prune(client, output, dry_run).await,
        Online::Recovery(command) => maintenance::recovery(client, output, command).await,
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
