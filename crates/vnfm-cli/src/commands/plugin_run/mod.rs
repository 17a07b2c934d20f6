//! `vnfmctl plugin run FILE HOOK`: runs one hook of a library as the server would, without a server.
//!
//! ```text
//! library ── copied, pinned, loaded by the plugin host; in its own process unless --in-process
//! inventory ─ hosts, real or simulated; secrets from files and the environment     inventory.rs
//! request ── members of the file, and what the server would add                    request.rs
//! run ────── each call of the hook is served and traced                            host.rs
//!            its checkpoints are saved for the next run                            state.rs
//! effects ── to standard output; everything else goes to standard error
//! ```

mod host;
mod inventory;
mod request;
mod state;

use crate::RUNNER_MODE;
use crate::args::Run;
use crate::client::{Failure, Outcome, local};
use crate::output::{Output, tell};
use host::{Fault, Host};
use inventory::Inventory;
use serde_json::Value;
use state::RunState;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;
use vnfm::ports::{Effects, ErrorKind, HookRequest, MgmtDriver, MgmtDrivers as _, PortError};
use vnfm::{Redactor, SystemClock, redact, schema_violations};
use vnfm_plugin_host::{Config, PluginConfig, PluginHost, ProcessConfig, Runner};

pub(super) async fn run(output: Output, args: &Run) -> Outcome<()> {
    let inventory = Inventory::read(&args.hosts)?;
    let opened = args
        .package
        .as_deref()
        .map(super::package::open)
        .transpose()?;
    let (package, _file) = opened.map(|opened| (opened.package, opened.local)).unzip();
    let plugin = load(args)?;
    let state = Arc::new(RunState::open(args.checkpoints.as_deref(), &args.hook)?);
    let mut secrets = Redactor::default();
    let attempt = state.begin()?;
    let request = request::build(args, (&inventory, package.as_ref()), attempt, &mut secrets)?;
    check(&*plugin.driver, &request, &mut secrets)?;
    let fault = Fault {
        before: args.fail_at,
        after: args.fail_after,
    };
    let host = Arc::new(Host::new(
        (inventory, package),
        state,
        fault,
        secrets.clone(),
    ));
    let (name, begun) = (plugin.driver.id(), Instant::now());
    tell(&format!(
        "hook `{}` of {name}, attempt {}",
        args.hook, request.attempt
    ));
    let outcome = until_it_ends(&*plugin.driver, request, &host).await?;
    let summary = format!(
        "{} calls in {:.3} s",
        host.calls(),
        begun.elapsed().as_secs_f64()
    );
    match outcome {
        Ok(effects) => {
            tell(&format!("done, {summary}; effects:"));
            output.value(&redacted(&effects, &secrets)?)
        }
        Err(error) => {
            host.unanswered()
                .iter()
                .for_each(|call| tell(&format!("not finished: {call}")));
            Err(failure(&error, &summary, &secrets))
        }
    }
}

/// A loaded plugin, with the host and the folder that must outlive it.
struct Loaded {
    driver: Arc<dyn MgmtDriver>,
    _plugins: PluginHost,
    _folder: TempDir,
}

/// Loads the library as the server does: a copy pinned by its hash.
fn load(args: &Run) -> Outcome<Loaded> {
    let failed =
        |error: std::io::Error| local(format!("cannot load `{}`: {error}", args.file.display()));
    let folder = tempfile::Builder::new()
        .prefix("vnfmctl-plugin-")
        .tempdir()
        .map_err(failed)?;
    let file = args
        .file
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("plugin.so");
    let copy = folder.path().join(file);
    std::fs::copy(&args.file, &copy).map_err(failed)?;
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o644)).map_err(failed)?;
    let process = if args.in_process {
        None
    } else {
        Some(runner().map_err(failed)?)
    };
    let runner = if args.in_process {
        Runner::InProcess
    } else {
        Runner::Process
    };
    let mut config = Config {
        dir: folder.path().to_owned(),
        process,
        ..Config::default()
    };
    let pin = PluginHost::new(config.clone(), Arc::new(SystemClock)).allow(file)?;
    let plugin_config = args
        .config
        .as_deref()
        .map(request::read)
        .transpose()?
        .unwrap_or_default();
    // With --in-process, being able to debug matters more than isolating scripts from the network.
    config.scripts.network = args.in_process;
    config.plugins = BTreeMap::from([(
        pin.name.clone(),
        PluginConfig {
            config: plugin_config,
            runner,
        },
    )]);
    let plugins = PluginHost::new(config, Arc::new(SystemClock));
    let driver = plugins.find(&pin.name, None)?;
    Ok(Loaded {
        driver,
        _plugins: plugins,
        _folder: folder,
    })
}

/// Runs this program as the process of a hook.
fn runner() -> std::io::Result<ProcessConfig> {
    let program = std::env::current_exe()?;
    Ok(ProcessConfig {
        arguments: vec![RUNNER_MODE.to_owned()],
        ..ProcessConfig::with_program(program)
    })
}

/// Makes the server's checks of a request, and registers secret parameters with `secrets`.
fn check(driver: &dyn MgmtDriver, request: &HookRequest, secrets: &mut Redactor) -> Outcome<()> {
    let Some(hook) = driver.declaration().hooks.get(&request.hook) else {
        return Ok(());
    };
    if request.undo && !hook.undo {
        return Err(local(format!("hook `{}` has no undo", request.hook)));
    }
    let params = Value::Object(request.additional_params.clone());
    let Some(schema) = &hook.parameters else {
        return Ok(());
    };
    redact(&params, Some(schema), secrets);
    let mismatches = schema_violations(schema, &params, "additionalParams").map_err(|error| {
        local(format!(
            "the hook's parameter schema is not a valid JSON Schema: {error}"
        ))
    })?;
    if mismatches.is_empty() {
        return Ok(());
    }
    Err(Failure::Hinted {
        message: format!(
            "the parameters do not match the hook's schema: {}",
            mismatches.join("; ")
        ),
        hint: "fix the --request file; `vnfmctl -o json plugin inspect` shows the schema".into(),
    })
}

/// Runs the hook. The first interrupt cancels its operation, the second kills it.
async fn until_it_ends(
    driver: &dyn MgmtDriver,
    request: HookRequest,
    host: &Arc<Host>,
) -> Outcome<Result<Effects, PortError>> {
    let mut running = pin!(driver.call(request, host.clone()));
    loop {
        tokio::select! {
            outcome = &mut running => return Ok(outcome),
            interrupt = tokio::signal::ctrl_c() => {
                interrupt.map_err(local)?;
                if host.cancel() {
                    return Err(local("the hook was killed; its checkpoints are saved"));
                }
                tell("cancelling: the hook stops at its next check; interrupt again to kill it");
            }
        }
    }
}

/// The effects as JSON, without secrets.
fn redacted(effects: &Effects, secrets: &Redactor) -> Outcome<Value> {
    let effects = serde_json::to_value(effects).map_err(local)?;
    let hidden = redact(&effects, None, &mut Redactor::default()).to_string();
    serde_json::from_str(&secrets.clean(&hidden)).map_err(local)
}

fn failure(error: &PortError, summary: &str, secrets: &Redactor) -> Failure {
    let code = match error.kind() {
        ErrorKind::Unavailable => 7,
        ErrorKind::Broken => 8,
        _ => 1,
    };
    let message = format!("{} ({summary}): {error}", error.name());
    Failure::Hook {
        message: secrets.clean(&message),
        hint: error.next().to_owned(),
        code,
    }
}
