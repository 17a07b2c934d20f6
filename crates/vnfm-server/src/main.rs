//! `vnfm-server`: the binary around [`vnfm_server`]. It alone sets the subscriber, the TLS provider and signal
//! handlers. As `vnfm-server plugin-runner` it is the process that one hook of a plugin runs in.

use anyhow::Context as _;
use clap::Parser as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use vnfm::SystemClock;
use vnfm_core::ports::{Clock, PortError};
use vnfm_plugin_host::{Isolation, PluginHost};
use vnfm_server::access::users;
use vnfm_server::compose::Server;
use vnfm_server::config::{self, Command, Config, Differences, Flags, RUNNER_MODE};
use vnfm_server::listener::Descriptors;
use vnfm_server::logs::{self, Logging};
use vnfm_types::Secret;

fn main() -> ExitCode {
    // Hidden from `--help`: nobody starts it by hand.
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

#[expect(
    clippy::print_stderr,
    reason = "why it does not start is for whoever started it"
)]
fn report(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

/// How long threads that read files or run a hook may take to end, once nothing is served any more.
const LAST_THREADS: Duration = Duration::from_secs(2);

fn run() -> anyhow::Result<()> {
    vnfm_plugin_host::return_freed_memory();
    let mut flags = Flags::parse();
    let command = flags.command.take();
    if matches!(command, Some(Command::HashPassword)) {
        return hash_password();
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
    let (logging, traces) = logs::begin(&config)?;
    Descriptors::raise();
    // For half of the cores: the database has threads of its own. docs/performance.md has what that was measured to save.
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2);
    let threads = threads.clamp(1, 4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = match command {
        Some(Command::AcceptLoss) => vnfm_server::data::accept_loss(&config.data, &SystemClock),
        Some(Command::Restore { file }) => runtime.block_on(bring_back(&config, &file)),
        _ => runtime.block_on(serve(config, (flags, logging))),
    };
    runtime.shutdown_timeout(LAST_THREADS);
    traces.end();
    outcome
}

async fn serve(config: Config, (flags, logging): (Flags, Logging)) -> anyhow::Result<()> {
    say_how_hooks_are_kept_apart(config.plugin_host());
    let mut server = Server::start(config).await?;
    if let Some(address) = server.monitoring() {
        tracing::info!(%address, "health and metrics");
    }
    #[expect(clippy::print_stdout, reason = "the one line that scripts wait for")]
    {
        println!("listening on {}", server.url());
    }
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut hang_up = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    notify_systemd("READY=1");
    let parts = server.parts().clone();
    let mut failed = None;
    loop {
        tokio::select! {
            why = parts.failed() => { failed = Some(why); break; }
            _ = terminate.recv() => { tracing::info!("SIGTERM"); break; }
            _ = tokio::signal::ctrl_c() => { tracing::info!("interrupted"); break; }
            _ = hang_up.recv() => reload(&mut server, &flags, &logging),
        }
    }
    notify_systemd("STOPPING=1");
    server.stop().await;
    failed.map_or(Ok(()), |why| Err(anyhow::anyhow!(why)))
}

/// `vnfm-server hash-password`.
fn hash_password() -> anyhow::Result<()> {
    let mut password = String::new();
    std::io::stdin()
        .read_line(&mut password)
        .context("cannot read the password")?;
    let hash = users::hash_password(&Secret::new(password.trim_end_matches(['\r', '\n'])))?;
    #[expect(clippy::print_stdout, reason = "what was asked for")]
    {
        println!("{hash}");
    }
    Ok(())
}

/// `vnfm-server restore FILE`.
async fn bring_back(config: &Config, file: &Path) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let sealer = config.secrets.sealer(&clock)?;
    let restored = vnfm_store::restore_with(file, &config.data, clock.now(), sealer).await?;
    let before = restored.before.map_or_else(String::new, |before| {
        format!(
            "\nthe database that was there is kept as `{}`",
            before.display()
        )
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

/// SIGHUP: reads the configuration again. A broken one changes nothing.
fn reload(server: &mut Server, flags: &Flags, logging: &Logging) {
    let loaded = Config::load(flags.clone()).and_then(|new| {
        logging(&new)?;
        Ok(new)
    });
    match loaded {
        Ok(new) => {
            let Differences { now, at_restart } = server.reload(new);
            tracing::info!(?now, ?at_restart, "the configuration was read again");
        }
        Err(error) => {
            tracing::error!("{error:#}; the configuration stays as it was");
        }
    }
}

/// A process that is started for it finds it out; nobody waits for that.
fn say_how_hooks_are_kept_apart(plugins: vnfm_plugin_host::Config) {
    let finding_out = std::thread::Builder::new().name("isolation".into());
    let found = finding_out.spawn(move || match isolation(plugins) {
        Ok(isolation) => tracing::info!("hooks in processes are kept apart: {isolation}"),
        Err(error) => tracing::warn!("no hook runs in a process: {error}; {}", error.next()),
    });
    if let Err(error) = found {
        tracing::warn!(%error, "cannot find out how hooks are kept apart");
    }
}

/// A process that is started for this says it.
fn isolation(plugins: vnfm_plugin_host::Config) -> Result<Isolation, PortError> {
    PluginHost::new(plugins, Arc::new(SystemClock)).isolation()
}

/// How hooks in processes are kept apart, for whoever asked; the configuration may be right without.
fn isolation_of(flags: Flags) -> Option<String> {
    let config = Config::load(flags).ok()?;
    Some(match isolation(config.plugin_host()) {
        Ok(isolation) => format!("hooks in processes are kept apart: {isolation}"),
        Err(error) => format!("no hook runs in a process: {error}; {}", error.next()),
    })
}

/// `vnfm-server check-config`.
fn check_config(flags: Flags) -> anyhow::Result<()> {
    let hooks = isolation_of(flags.clone());
    let name = flags.config.as_ref().map(|path| path.display().to_string());
    Descriptors::raise();
    let checked = config::check(flags, &config::environment())?;
    #[expect(clippy::print_stderr, reason = "what is wrong is for whoever asked")]
    {
        checked
            .mistakes
            .iter()
            .for_each(|mistake| eprintln!("{mistake}"));
        checked
            .notes
            .iter()
            .chain(&hooks)
            .for_each(|note| eprintln!("note: {note}"));
    }
    let name = name.as_deref().unwrap_or("the configuration");
    match checked.mistakes.len() {
        0 => {}
        1 => anyhow::bail!("{name} has a mistake"),
        many => anyhow::bail!("{name} has {many} mistakes"),
    }
    #[expect(clippy::print_stdout, reason = "what was found is for whoever asked")]
    {
        println!("{name} is right");
        if let Some(connections) = checked.connections {
            println!("{connections}");
        }
    }
    Ok(())
}

/// Tells the service manager, where one started us, how we are (`sd_notify`); without one this does nothing.
fn notify_systemd(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = told(&socket, state) {
        tracing::warn!(%error, "the service manager cannot be told how we are");
    }
}

fn told(socket: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
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
