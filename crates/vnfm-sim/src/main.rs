//! `vnfm-sim`: runs a simulated world as its own process.
//!
//! It prints its endpoints as one line of JSON, then serves until SIGINT or SIGTERM.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use vnfm_sim::openstack::CloudOptions;
use vnfm_sim::{Options, World};

/// Simulates OpenStack, hosts with SSH, Kubernetes clusters and an NFVO over their real protocols
#[derive(Debug, Parser)]
#[command(version, about)]
struct Arguments {
    /// Directory for `clouds.yaml`, kubeconfigs and certificates; default: a temporary one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Port of the control API on 127.0.0.1; 0 chooses a free one
    #[arg(long, default_value_t = 0)]
    control_port: u16,
    /// Start a Kubernetes cluster with one node
    #[arg(long)]
    cluster: bool,
    /// Time that Nova takes to build a server, in milliseconds
    #[arg(long, default_value_t = 0, value_name = "MS")]
    server_build: u64,
    /// Time that a host takes to boot once its server is ACTIVE, in milliseconds
    #[arg(long, default_value_t = 0, value_name = "MS")]
    boot: u64,
    /// Time that a pod takes to start, in milliseconds
    #[arg(long, default_value_t = 0, value_name = "MS")]
    pod_start: u64,
    /// Lifetime of a Keystone token, in seconds
    #[arg(long, default_value_t = 3600, value_name = "S")]
    token_life: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("VNFM_LOG"))
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let temporary = if arguments.data.is_none() {
        Some(tempfile::tempdir()?)
    } else {
        None
    };
    let data = arguments
        .data
        .or_else(|| temporary.as_ref().map(|folder| folder.path().to_owned()));
    let world = World::start(Options {
        cloud: CloudOptions {
            server_build: Duration::from_millis(arguments.server_build),
            boot: Duration::from_millis(arguments.boot),
            token_life: Duration::from_secs(arguments.token_life),
        },
        pod_start: Duration::from_millis(arguments.pod_start),
        cluster: arguments.cluster.then(|| "standalone".to_owned()),
        control_port: arguments.control_port,
        data,
    })
    .await?;
    println!("{}", serde_json::to_string(world.endpoints())?);
    let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = ended.recv() => {}
    }
    drop(world);
    Ok(())
}
