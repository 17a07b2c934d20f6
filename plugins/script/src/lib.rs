//! A MgmtDriver whose hooks are files of the VNF package: shell scripts, Python scripts, Ansible playbooks.
//!
//! ```text
//! artifact ──── its type selects the interpreter                               kind.rs
//! unpack ────── the package's files, into a private folder                     folder.rs
//! hosts ─────── the VNFCs by name, with the login of each                      hosts.rs
//! bridge ────── a socket through which the script calls the VNFM's services    bridge.rs, python/vnfm.py
//! playbook ──── inventory and variables for Ansible                            ansible.rs, python/*.py
//! tacker ────── pickles for scripts that were written for OpenStack Tacker         tacker.rs, python/tacker_launcher.py
//! run ───────── request on standard input, log on standard error               child.rs, log_lines.rs
//! effects ───── standard output, validated against the schema                  effects.rs
//! ```
//!
//! Scripts get no logins: they name a host, and the VNFM logs in. So they need no network, and no secret is on a command
//! line, in the environment or on a disk. The plugin host decides which packages may run scripts.

mod ansible;
mod bridge;
mod child;
mod effects;
mod folder;
mod hosts;
mod kind;
mod log_lines;
mod params;
mod tacker;

use bridge::{Bridge, BridgeState};
use child::{Child, End};
use folder::Folder;
use hosts::Hosts;
use kind::Kind;
use params::Params;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use vnfm_plugin_sdk::Meaning;
use vnfm_plugin_sdk::prelude::{
    Artifact, DriverError, Effects, HookContext, HookRequest, Hooks, MgmtDriver, export_mgmt_driver,
};

/// The plugin's configuration: absolute paths of the interpreters.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Config {
    /// Interpreter of `tosca.artifacts.Implementation.Bash`; `/bin/bash` if absent.
    pub bash: PathBuf,
    /// Interpreter of `tosca.artifacts.Implementation.Python`; `/usr/bin/python3` if absent.
    pub python: PathBuf,
    /// Interpreter of `tosca.artifacts.Implementation.Ansible`; `/usr/bin/ansible-playbook` if absent.
    pub ansible_playbook: PathBuf,
    /// Allows scripts to send HTTP requests through the server, to the networks in its `hooks.networks`.
    pub http: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bash: "/bin/bash".into(),
            python: "/usr/bin/python3".into(),
            ansible_playbook: "/usr/bin/ansible-playbook".into(),
            http: false,
        }
    }
}

/// The driver that runs a package's script as its hook.
#[derive(Debug)]
pub struct Script {
    config: Config,
}

impl MgmtDriver for Script {
    type Config = Config;

    fn new(config: Config) -> Result<Self, DriverError> {
        for program in [&config.bash, &config.python, &config.ansible_playbook] {
            if !program.is_absolute() {
                let detail = format!("`{}` is not an absolute path", program.display());
                return Err(DriverError::new("bad-path", detail));
            }
        }
        Ok(Self { config })
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        let names = OPERATIONS.iter().flat_map(|operation| {
            ["", "_start", "_end"].map(|moment| format!("{operation}{moment}"))
        });
        names.fold(hooks, |hooks, name| hooks.on(&name, Self::run))
    }
}

/// The operations of SOL001's `Vnflcm`; a script may run before and after each.
const OPERATIONS: &[&str] = &[
    "instantiate",
    "scale",
    "scale_to_level",
    "change_flavour",
    "operate",
    "heal",
    "terminate",
    "change_external_connectivity",
    "change_current_package",
    "modify_information",
    "create_snapshot",
    "revert_to_snapshot",
];

impl Script {
    async fn run(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Params>,
    ) -> Result<Effects, DriverError> {
        let (kind, artifact) = find_script(&request)?;
        let hosts = Arc::new(Hosts::from_request(&request)?);
        let folder = Folder::new().map_err(|error| no_folder(&error))?;
        folder.unpack(&cx, &artifact.path).await?;
        let request_json =
            serde_json::to_value(&request).map_err(|error| no_folder(&error.into()))?;
        let state = BridgeState::new(
            cx.clone(),
            hosts.clone(),
            request_json.clone(),
            self.config.http,
        );
        let bridge = Bridge::open(state, &folder.socket()).map_err(|error| no_folder(&error))?;
        let mut command = self.command(kind, &folder)?;
        let launched = tacker::is_used(kind, request.script_protocol);
        if launched {
            command.arg(tacker::launcher(&folder).map_err(|error| no_folder(&error))?);
        }
        command.arg(folder.package().join(&artifact.path));
        if kind == Kind::Ansible {
            ansible::prepare(&mut command, &folder, &hosts).map_err(|error| {
                match error.kind() {
                    std::io::ErrorKind::InvalidInput => {
                        DriverError::new("bad-login", error.to_string())
                    }
                    _ => no_folder(&error),
                }
            })?;
        }
        let request_json = memory_file(&request_json).map_err(|error| no_folder(&error))?;
        cx.info(&format!(
            "running `{}` by `{}`",
            artifact.path,
            self.program(kind).display()
        ));
        let child = Child::spawn(command.stdin(request_json), &cx)
            .map_err(|error| self.no_interpreter(kind, &error))?;
        let end = child.ended().await?;
        drop(bridge);
        result(&cx, (kind, launched), &artifact.path, &end)
    }

    fn program(&self, kind: Kind) -> &Path {
        match kind {
            Kind::Bash => &self.config.bash,
            Kind::Python => &self.config.python,
            Kind::Ansible => &self.config.ansible_playbook,
        }
    }

    /// The command that runs scripts, with a new environment and its files in the private folder.
    fn command(&self, kind: Kind, folder: &Folder) -> Result<Command, DriverError> {
        let program = self.program(kind);
        std::fs::metadata(program).map_err(|error| self.no_interpreter(kind, &error))?;
        let mut command = Command::new(program);
        command.env_clear().current_dir(folder.package());
        command.env("PATH", format!("{}:{PATH}", folder.programs().display()));
        command
            .env("HOME", folder.home())
            .env("TMPDIR", folder.home());
        command
            .env("PYTHONPATH", folder.modules())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("VNFM_SOCKET", folder.socket());
        command.envs([("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8"), ("USER", "vnfm")]);
        Ok(command)
    }

    fn no_interpreter(&self, kind: Kind, error: &std::io::Error) -> DriverError {
        let program = self.program(kind).display();
        let detail = format!(
            "cannot run `{program}`: {error}; install it on the VNFM's host (Debian: {}), or configure another one in \
             `plugins.config.{}.{}`",
            kind.package(),
            env!("CARGO_PKG_NAME"),
            kind.configured_as(),
        );
        DriverError::new("no-interpreter", detail)
    }
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The hook's script: its first artifact of a supported type.
fn find_script(request: &HookRequest<Params>) -> Result<(Kind, &Artifact), DriverError> {
    let found = request
        .artifacts
        .iter()
        .find_map(|artifact| Some((Kind::parse(&artifact.type_)?, artifact)));
    found.ok_or_else(|| {
        let known: Vec<_> =
            request.artifacts.iter().map(|artifact| artifact.type_.as_str()).collect();
        let detail = format!(
            "hook `{}` names no script of the package; it needs an artifact of one of the types {:?}, and has \
            {known:?}",
            request.hook,
            Kind::TYPES,
        );
        DriverError::new("no-script", detail)
    })
}

/// The request in an anonymous file in memory.
fn memory_file(request: &Value) -> std::io::Result<File> {
    let text = request.to_string();
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("hook-request", flags)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn no_folder(error: &std::io::Error) -> DriverError {
    let detail = format!("cannot prepare the script's private folder: {error}");
    DriverError::new("no-folder", detail).retryable()
}

/// The hook's result, from how the script ended.
fn result(
    cx: &HookContext,
    (kind, launched): (Kind, bool),
    path: &str,
    end: &End,
) -> Result<Effects, DriverError> {
    if end.status.success() {
        return effects::read(cx, &end.output).map_err(|error| error.phase(path));
    }
    if end.cancelled {
        return Err(DriverError::cancelled());
    }
    let error = match end.status.code() {
        Some(code) => {
            let cause = tacker::cause(kind, launched, &end.last_lines);
            let (name, what) = cause.unwrap_or(("script-failed", kind.meaning(code)));
            let detail = format!("`{path}` failed with exit code {code}{what}");
            let error = DriverError::new(name, detail).exit_code(code);
            if kind.is_temporary(code) {
                error.retryable()
            } else {
                error
            }
        }
        None => DriverError::new(
            "script-killed",
            format!("`{path}` was killed: {}", end.status),
        ),
    };
    Err(error.phase(path).last_lines(&end.last_lines))
}

/// The error codes of this plugin.
pub const MEANINGS: &[Meaning] = &[
    Meaning::new(
        "no-script",
        "the hook's artifact is not a script, or the package does not contain its file",
        "name a file of the package and one of the types that the message lists",
    ),
    Meaning::new(
        "bad-login",
        "`login` in the parameters or in the VNFD's inputs is malformed; the message names the member",
        "correct it; `docs/how-to/write-a-script-hook.md` shows its members",
    ),
    Meaning::new(
        "bad-path",
        "the configured path of an interpreter is not absolute",
        "correct `plugins.config.mgmt-script`",
    ),
    Meaning::new(
        "no-interpreter",
        "the interpreter is not installed or not executable",
        "install the package that the message names, or configure another program in `plugins.config.mgmt-script`",
    ),
    Meaning::new(
        "no-folder",
        "the script's private folder cannot be created or filled, for example because the disk is full",
        "free space in `plugins.scripts.folder`, then retry",
    ),
    Meaning::new(
        "bad-artifact",
        "a file of the package has a path that leads out of its folder",
        "rename the file",
    ),
    Meaning::new(
        "script-failed",
        "the script failed with an exit code; the message has its last lines",
        "fix what they report; scripts use exit code 75 if a retry may help",
    ),
    Meaning::new(
        "pickled-request",
        "the script reads its request as a pickle, as scripts for OpenStack Tacker do, and its package is not allowed to",
        "review the script, then run `vnfmctl plugin allow --package ID --protocol tacker`; or port it, as \
         `docs/how-to/scripts-for-tacker.md` shows",
    ),
    Meaning::new(
        "script-killed",
        "the script was killed by a signal that the VNFM did not send",
        "check the kernel log for lack of memory; otherwise report it to the script's author",
    ),
    Meaning::new(
        "bad-effects",
        "standard output is not JSON or not valid effects; the message names each wrong member",
        "write only effects to standard output, and log lines to standard error",
    ),
];

export_mgmt_driver!(Script);
