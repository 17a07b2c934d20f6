//! The `vnfm-server` binary around [`vnfm_server`]. Only it sets the log subscriber, the TLS provider and signal
//! handlers. Started as `vnfm-server plugin-runner`, it is the process that runs one hook of a plugin.

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use vnfm::SystemClock;
use vnfm_core::ports::{Clock, PortError};
use vnfm_plugin_host::{Isolation, PluginHost};
use vnfm_server::program::{
    self, Command, Config, Descriptors, Differences, Flags, Logging, RUNNER_MODE, Server,
};
use vnfm_types::Secret;

fn main() -> ExitCode {
    // Not in `--help`: the server starts it, not a user.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|mode| mode == RUNNER_MODE)
    {
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

#[expect(clippy::print_stderr, reason = "errors go to standard error")]
fn report(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

/// How long threads that read files or run a hook may take to finish after the server stopped.
const THREAD_GRACE: Duration = Duration::from_secs(2);

fn run() -> anyhow::Result<()> {
    vnfm_plugin_host::return_freed_memory();
    let mut flags = Flags::parse();
    let command = flags.command.take();
    match &command {
        Some(Command::HashPassword) => return hash_password(),
        Some(Command::Man { dir }) => {
            return clap_mangen::generate_to(Flags::command(), dir)
                .with_context(|| format!("cannot write to `{}`", dir.display()));
        }
        _ => {}
    }
    if rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .is_err()
    {
        anyhow::bail!("another TLS provider is installed already");
    }
    if let Some(Command::CheckConfig { file }) = command {
        flags.config = file.or(flags.config);
        return check_config(flags);
    }
    let config = Config::load(flags.clone())?;
    let (logging, traces) =
        program::begin_logging(&config.log, config.monitoring.traces.as_deref())?;
    Descriptors::raise();
    // Half of the cores: the database has its own threads. docs/performance.md has the measurement.
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2);
    let threads = threads.clamp(1, 4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = match command {
        Some(Command::AcceptLoss) => program::accept_loss(&config.data, &SystemClock),
        Some(Command::Restore { file }) => runtime.block_on(restore(&config, &file)),
        _ => runtime.block_on(serve(config, (flags, logging))),
    };
    runtime.shutdown_timeout(THREAD_GRACE);
    traces.end();
    outcome
}

async fn serve(config: Config, (flags, logging): (Flags, Logging)) -> anyhow::Result<()> {
    log_hook_isolation(config.plugin_host());
    let mut server = Server::start(config).await?;
    if let Some(address) = server.monitoring() {
        tracing::info!(%address, "health and metrics");
    }
    #[expect(clippy::print_stdout, reason = "scripts wait for this line")]
    {
        println!("listening on {}", server.url());
    }
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut hang_up = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    notify_systemd("READY=1");
    let supervisor = server.supervisor().clone();
    let mut failed = None;
    loop {
        tokio::select! {
            reason = supervisor.failed() => { failed = Some(reason); break; }
            _ = terminate.recv() => { tracing::info!("SIGTERM"); break; }
            _ = tokio::signal::ctrl_c() => { tracing::info!("interrupted"); break; }
            _ = hang_up.recv() => reload(&mut server, &flags, &logging),
        }
    }
    notify_systemd("STOPPING=1");
    server.stop().await;
    failed.map_or(Ok(()), |reason| Err(anyhow::anyhow!(reason)))
}

/// `vnfm-server hash-password`: reads a password, and prints its hash.
fn hash_password() -> anyhow::Result<()> {
    let mut password = String::new();
    std::io::stdin()
        .read_line(&mut password)
        .context("cannot read the password")?;
    let hash = program::hash_password(&Secret::new(password.trim_end_matches(['\r', '\n'])))?;
    #[expect(clippy::print_stdout, reason = "output of the command")]
    {
        println!("{hash}");
    }
    Ok(())
}

/// `vnfm-server restore FILE`: keeps the previous database and stored files under other names.
async fn restore(config: &Config, file: &Path) -> anyhow::Result<()> {
    let restored =
        program::restore(config, file, &(Arc::new(SystemClock) as Arc<dyn Clock>)).await?;
    let previous: String = [
        ("the previous database is", restored.before),
        ("the previous stored files are", restored.files_before),
    ]
    .into_iter()
    .filter_map(|(what, kept)| Some(format!("\n{what} kept as `{}`", kept?.display())))
    .collect();
    #[expect(clippy::print_stdout, reason = "output of the command")]
    {
        println!(
            "restored installation {} as of {}, with {} packages and {} stored files, into `{}`{previous}\nnext: start the server, check \
             `vnfmctl recovery show`, then `vnfmctl recovery confirm`",
            restored.installation_id,
            restored.backup_at,
            restored.packages,
            restored.files,
            config.data.display()
        );
    }
    Ok(())
}

/// SIGHUP: reloads the configuration. If it is invalid, nothing changes.
fn reload(server: &mut Server, flags: &Flags, logging: &Logging) {
    let loaded = Config::load(flags.clone()).and_then(|new| {
        logging(&new.log)?;
        Ok(new)
    });
    match loaded {
        Ok(new) => {
            let Differences { now, at_restart } = server.reload(new);
            tracing::info!(?now, ?at_restart, "reloaded the configuration");
        }
        Err(error) => {
            tracing::error!("{error:#}; keeping the current configuration");
        }
    }
}

/// Finding out takes a process; nothing waits for it.
fn log_hook_isolation(plugins: vnfm_plugin_host::Config) {
    let thread = std::thread::Builder::new().name("isolation".into());
    let started = thread.spawn(move || match isolation(plugins) {
        Ok(isolation) => tracing::info!("isolation of hooks in processes: {isolation}"),
        Err(error) => tracing::warn!("cannot run hooks in processes: {error}; {}", error.next()),
    });
    if let Err(error) = started {
        tracing::warn!(%error, "cannot determine the isolation of hooks");
    }
}

/// Starts a process to find out.
fn isolation(plugins: vnfm_plugin_host::Config) -> Result<Isolation, PortError> {
    PluginHost::new(plugins, Arc::new(SystemClock)).isolation()
}

/// The isolation of hooks in processes, as a note; absent if the configuration is invalid.
fn isolation_note(flags: Flags) -> Option<String> {
    let config = Config::load(flags).ok()?;
    Some(match isolation(config.plugin_host()) {
        Ok(isolation) => format!("isolation of hooks in processes: {isolation}"),
        Err(error) => format!("cannot run hooks in processes: {error}; {}", error.next()),
    })
}

/// The version of the configured helm program, or why it cannot be used.
fn helm_note(flags: Flags) -> Option<String> {
    let config = Config::load(flags).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().ok()?;
    Some(match runtime.block_on(config.helm_version())? {
        Ok(version) => format!("charts are installed with helm: {version}"),
        Err(error) => format!("cannot install charts: {error:#}"),
    })
}

/// `vnfm-server check-config`: prints every mistake, and notes on the rest.
fn check_config(flags: Flags) -> anyhow::Result<()> {
    let hooks = isolation_note(flags.clone());
    let helm = helm_note(flags.clone());
    let name = flags.config.as_ref().map(|path| path.display().to_string());
    Descriptors::raise();
    let checked = program::check(flags, &program::environment())?;
    #[expect(clippy::print_stderr, reason = "output of the command")]
    {
        checked
            .mistakes
            .iter()
            .for_each(|mistake| eprintln!("{mistake}"));
        checked
            .notes
            .iter()
            .chain(&hooks)
            .chain(&helm)
            .for_each(|note| eprintln!("note: {note}"));
    }
    let name = name.as_deref().unwrap_or("the configuration");
    match checked.mistakes.len() {
        0 => {}
        1 => anyhow::bail!("{name} has 1 mistake"),
        many => anyhow::bail!("{name} has {many} mistakes"),
    }
    #[expect(clippy::print_stdout, reason = "output of the command")]
    {
        println!("{name} is valid");
        if let Some(connections) = checked.connections {
            println!("{connections}");
        }
    }
    Ok(())
}

/// Reports the state to systemd (`sd_notify`); does nothing without it.
fn notify_systemd(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send_to_systemd(&socket, state) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

fn send_to_systemd(socket: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(state.as_bytes(), &address)
        .map(drop)
}
