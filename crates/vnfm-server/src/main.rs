//! `vnfm-server`: the binary around [`vnfm_server`]. It alone sets the subscriber, the TLS provider and signal
//! handlers. As `vnfm-server plugin-runner` it is the process that one hook of a plugin runs in.

use anyhow::Context as _;
use clap::Parser as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use vnfm::SystemClock;
use vnfm_core::ports::Clock as _;
use vnfm_server::compose::Server;
use vnfm_server::config::{Command, Config, Flags, RUNNER_MODE};

fn main() -> ExitCode {
    // Hidden from `--help`: nobody starts it by hand.
    if std::env::args_os().nth(1).is_some_and(|mode| mode == RUNNER_MODE) {
        return vnfm_plugin_host::plugin_runner();
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "why it does not start is for whoever started it")]
fn report(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

/// How long threads that read files or run a hook may take to end, once nothing is served any more.
const LAST_THREADS: Duration = Duration::from_secs(2);

fn run() -> anyhow::Result<()> {
    let mut flags = Flags::parse();
    log(flags.log_json);
    let command = flags.command.take();
    let config = Config::load(flags)?;
    if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
        anyhow::bail!("another TLS provider is installed already");
    }
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).min(4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = match command {
        Some(Command::Restore { file }) => runtime.block_on(bring_back(&config, &file)),
        None => runtime.block_on(serve(config)),
    };
    runtime.shutdown_timeout(LAST_THREADS);
    outcome
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let server = Server::start(config).await?;
    #[expect(clippy::print_stdout, reason = "the one line that scripts wait for")]
    {
        println!("listening on {}", server.url());
    }
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("cannot listen for SIGTERM")?;
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM"),
        _ = tokio::signal::ctrl_c() => tracing::info!("interrupted"),
    }
    server.stop().await;
    Ok(())
}

/// `vnfm-server restore FILE`.
async fn bring_back(config: &Config, file: &Path) -> anyhow::Result<()> {
    let restored = vnfm_store::restore(file, &config.data, SystemClock.now()).await?;
    let before = restored.before.map_or_else(String::new, |before| {
        format!("\nthe database that was there is kept as `{}`", before.display())
    });
    #[expect(clippy::print_stdout, reason = "what was done is for whoever did it")]
    {
        println!(
            "restored installation {} as of {}, with {} packages, into `{}`{before}\nnext: start the server, look at \
             `vnfmctl recovery show`, then `vnfmctl recovery confirm`",
            restored.installation_id,
            restored.backup_at,
            restored.packages,
            config.data.display()
        );
    }
    Ok(())
}

fn log(json: bool) {
    let filter = EnvFilter::try_from_env("VNFM_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json { builder.json().init() } else { builder.init() }
}
