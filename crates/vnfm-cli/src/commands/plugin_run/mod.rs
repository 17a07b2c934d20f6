//! `vnfmctl plugin run FILE HOOK`: runs one hook of a library as the server would, without a server.
//!
//! ```text
//! library ── copied, pinned, loaded by the plugin host; in its own process unless --in-process
//! inventory ─ hosts, real or simulated; secrets from files and the environment     inventory.rs
//! request ── members of the file, and what the server would add                    request.rs
//! run ────── each call of the hook is served and traced                            host.rs, trace.rs
//!            its checkpoints are saved for the next run                            state.rs
//! effects ── to standard output; everything else goes to standard error
//! ```

mod host;
mod inventory;
mod request;
mod state;
mod trace;

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
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;
use trace::Trace;
use vnfm::ports::{Effects, ErrorKind, HookRequest, MgmtDriver, MgmtDrivers as _, PortError};
use vnfm::{Redactor, SystemClock, redact, schema_violations};
use vnfm_descriptor::nearest;
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
    check_hook(&*plugin.driver, &args.hook)?;
    let state = Arc::new(RunState::open(args.checkpoints.as_deref(), &args.hook)?);
    let mut secrets = Redactor::default();
    let attempt = state.begin()?;
    let request = request::build(args, (&inventory, package.as_ref()), attempt, &mut secrets)?;
    check(&*plugin.driver, &request, &mut secrets)?;
    let fault = Fault {
        before: args.fail_at,
        after: args.fail_after,
    };
    let trace = Trace::new(secrets.clone(), args.verbose);
    trace.message("request", &shown(&*plugin.driver, &request)?);
    let state = (state, request.undo);
    let host = Arc::new(Host::new((inventory, package), state, fault, trace));
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
    let failed = |error: std::io::Error| not_loaded(&args.file, &error);
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
    let driver = plugins.resolve(&pin.name.as_str().into())?;
    Ok(Loaded {
        driver,
        _plugins: plugins,
        _folder: folder,
    })
}

/// A library that cannot be read; one that does not exist may be misspelt.
fn not_loaded(library: &Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot load `{}`: {error}", library.display());
    let folder = library.parent().filter(|folder| *folder != Path::new(""));
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok();
    let names: Vec<_> = entries
        .filter(|_| error.kind() == std::io::ErrorKind::NotFound)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "so"))
        .collect();
    let wanted = library.file_name().and_then(|name| name.to_str());
    let near = wanted.and_then(|name| nearest(name, names.iter().map(String::as_str)));
    match near {
        Some(near) => Failure::Hinted {
            message,
            hint: format!("did you mean `{}`?", library.with_file_name(near).display()),
        },
        None => local(message),
    }
}

/// Runs this program as the process of a hook.
fn runner() -> std::io::Result<ProcessConfig> {
    let program = std::env::current_exe()?;
    Ok(ProcessConfig {
        arguments: vec![RUNNER_MODE.to_owned()],
        ..ProcessConfig::with_program(program)
    })
}

/// Refuses a hook that the library does not have, if it has one of a similar name.
fn check_hook(driver: &dyn MgmtDriver, hook: &str) -> Outcome<()> {
    let hooks = &driver.declaration().hooks;
    let near = nearest(hook, hooks.keys().map(String::as_str));
    let near = near.filter(|_| !hooks.contains_key(hook));
    near.map_or(Ok(()), |near| {
        Err(Failure::Hinted {
            message: format!("{} has no hook `{hook}`", driver.id()),
            hint: format!("did you mean `{near}`?"),
        })
    })
}

/// The request as `--verbose` shows it: without the parameters that the hook's schema declares secret.
fn shown(driver: &dyn MgmtDriver, request: &HookRequest) -> Outcome<Value> {
    let mut shown = serde_json::to_value(request).map_err(local)?;
    let hook = driver.declaration().hooks.get(&request.hook);
    let schema = hook.and_then(|hook| hook.parameters.as_ref());
    shown["additionalParams"] =
        redact(&shown["additionalParams"], schema, &mut Redactor::default());
    Ok(shown)
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
