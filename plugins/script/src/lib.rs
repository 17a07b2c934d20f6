//! A MgmtDriver whose hooks are files of the VNF package: shell scripts, Python scripts, Ansible playbooks.
//!
//! ```text
//! the hook's artifact ── its type says which interpreter                       kind.rs
//! unpack ────── the package's files, into a private folder                     folder.rs
//! hosts ─────── the VNFCs by name, and how to log in to each                   hosts.rs
//! bridge ────── a socket at which the script asks for the VNFM's services      bridge.rs, python/vnfm.py
//! playbook ──── inventory and variables for Ansible                            ansible.rs, python/*.py
//! run ───────── request in memory on standard input, log on standard error     child.rs, words.rs
//! effects ───── standard output, checked by the schema of effects              effects.rs
//! ```
//!
//! The script holds no login: it names a host, and the VNFM logs in there. So it needs no network, and nothing secret is
//! in an argument, in the environment or on a disk. Who may run scripts at all is the plugin host's to say.

mod ansible;
mod bridge;
mod child;
mod effects;
mod folder;
mod hosts;
mod kind;
mod params;
mod words;

use bridge::{Bridge, Side};
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

/// What the operator configures: the programs that run scripts, by absolute paths.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Config {
    /// Runs `tosca.artifacts.Implementation.Bash`.
    pub bash: PathBuf,
    /// Runs `tosca.artifacts.Implementation.Python`.
    pub python: PathBuf,
    /// Runs `tosca.artifacts.Implementation.Ansible`.
    pub ansible_playbook: PathBuf,
    /// Whether scripts may send HTTP requests through the server, to what `hooks.networks` of its configuration allows.
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

/// The driver.
#[derive(Debug)]
pub struct Script {
    config: Config,
}

impl MgmtDriver for Script {
    type Config = Config;

    fn new(config: Config) -> Result<Self, DriverError> {
        for program in [&config.bash, &config.python, &config.ansible_playbook] {
            if !program.is_absolute() {
                let said = format!("`{}` is no absolute path", program.display());
                return Err(DriverError::new("bad-path", said));
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

/// The operations of SOL001's `Vnflcm`: a script may serve each of them, before and after.
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
        let (kind, artifact) = which(&request)?;
        let hosts = Arc::new(Hosts::of(&request)?);
        let folder = Folder::new().map_err(|error| no_folder(&error))?;
        folder.unpack(&cx, &artifact.path).await?;
        let told = serde_json::to_value(&request).map_err(|error| no_folder(&error.into()))?;
        let side = Side::new(cx.clone(), hosts.clone(), told.clone(), self.config.http);
        let bridge = Bridge::open(side, &folder.socket()).map_err(|error| no_folder(&error))?;
        let mut command = self.command(kind, &artifact.path, &folder)?;
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
        let told = in_memory(&told).map_err(|error| no_folder(&error))?;
        cx.info(&format!(
            "running `{}` by `{}`",
            artifact.path,
            self.program(kind).display()
        ));
        let child = Child::spawn(command.stdin(told), &cx)
            .map_err(|error| self.no_interpreter(kind, &error))?;
        let end = child.ended().await?;
        drop(bridge);
        answer(&cx, kind, &artifact.path, &end)
    }

    fn program(&self, kind: Kind) -> &Path {
        match kind {
            Kind::Bash => &self.config.bash,
            Kind::Python => &self.config.python,
            Kind::Ansible => &self.config.ansible_playbook,
        }
    }

    /// The interpreter with its script: nothing of our environment, its files in the private folder.
    fn command(&self, kind: Kind, path: &str, folder: &Folder) -> Result<Command, DriverError> {
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
        command.arg(folder.package().join(path));
        Ok(command)
    }

    fn no_interpreter(&self, kind: Kind, error: &std::io::Error) -> DriverError {
        let program = self.program(kind).display();
        let said = format!(
            "cannot run `{program}`: {error}; install it on the VNFM's host (Debian: {}), or name another in \
             `plugins.config.{}.{}`",
            kind.package(),
            env!("CARGO_PKG_NAME"),
            kind.configured_as(),
        );
        DriverError::new("no-interpreter", said)
    }
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The script of the hook: its artifact, of a type that is served here.
fn which(request: &HookRequest<Params>) -> Result<(Kind, &Artifact), DriverError> {
    let found = request
        .artifacts
        .iter()
        .find_map(|artifact| Some((Kind::of(&artifact.type_)?, artifact)));
    found.ok_or_else(|| {
        let known: Vec<_> =
            request.artifacts.iter().map(|artifact| artifact.type_.as_str()).collect();
        let said = format!(
            "hook `{}` names no script that lies in the package; it needs an artifact of one of the types {:?}, and \
             has {known:?}",
            request.hook,
            Kind::TYPES,
        );
        DriverError::new("no-script", said)
    })
}

/// The request, in a file that is in memory and has no name.
fn in_memory(request: &Value) -> std::io::Result<File> {
    let text = request.to_string();
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("hook-request", flags)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn no_folder(error: &std::io::Error) -> DriverError {
    let said = format!("cannot prepare a private folder for the script: {error}");
    DriverError::new("no-folder", said).retryable()
}

/// What the end of a script means.
fn answer(cx: &HookContext, kind: Kind, path: &str, end: &End) -> Result<Effects, DriverError> {
    if end.status.success() {
        return effects::read(cx, &end.output).map_err(|error| error.phase(path));
    }
    if end.cancelled {
        return Err(DriverError::cancelled());
    }
    let error = match end.status.code() {
        Some(code) => {
            let said = format!("`{path}` ended with exit code {code}{}", kind.meaning(code));
            let error = DriverError::new("script-failed", said).exit_code(code);
            if kind.is_temporary(code) {
                error.retryable()
            } else {
                error
            }
        }
        None => DriverError::new(
            "script-killed",
            format!("`{path}` was ended: {}", end.status),
        ),
    };
    Err(error.phase(path).last_lines(&end.last_words))
}

/// The codes of the errors of this plugin.
pub const MEANINGS: &[Meaning] = &[
    Meaning::new(
        "no-script",
        "the hook's artifact is no script, or the package does not have its file",
        "name a file of the package, of a type that is served; they are listed",
    ),
    Meaning::new(
        "bad-login",
        "`login` of the parameters, or of the VNFD's inputs, has another shape; the member is named",
        "correct it; the how-to shows what it holds",
    ),
    Meaning::new(
        "bad-path",
        "the configuration names an interpreter by a path that is not absolute",
        "correct `plugins.config.mgmt-script`",
    ),
    Meaning::new(
        "no-interpreter",
        "the program that runs such scripts is not there, or cannot be run",
        "install the package that is named, or name another program in `plugins.config.mgmt-script`",
    ),
    Meaning::new(
        "no-folder",
        "the script's private folder cannot be made or filled, such as on a full disk",
        "make room in `plugins.scripts.folder`, then retry",
    ),
    Meaning::new(
        "bad-artifact",
        "a file of the package has a name that leads out of its folder",
        "give it another name",
    ),
    Meaning::new(
        "script-failed",
        "the script ended with another exit code than 0; its last lines are shown",
        "mend what they say; exit code 75 says that a retry is of use",
    ),
    Meaning::new(
        "script-killed",
        "a signal that was not ours ended the script",
        "see in the kernel's log whether memory was short; report it to whoever wrote the script",
    ),
    Meaning::new(
        "bad-effects",
        "standard output is no JSON, or no effects; each place is named with the shape that it should have",
        "write effects there and nothing else; lines for the log go to standard error",
    ),
];

export_mgmt_driver!(Script);
