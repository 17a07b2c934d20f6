//! Hooks: from the VNFD's `Vnflcm` interface to a MgmtDriver's call, and the host services that it may ask for.
//!
//! A hook is an ordinary journaled step. What it wants changed it returns as [`Effects`]; the engine applies them.

use crate::engine::Engine;
use crate::lcm::{self, Op};
use crate::live::LiveOp;
use crate::ports::{
    Change, Code, CommandOutput, Effects, ErrorKind, Fence, HookDependent, HookHost, HookInstance,
    HookRequest, HookVim, HttpRequest, InfraDriver, Inventory, MgmtDriver, PortError, RemoteFile,
    SecretJson, SshCommand, SshTarget, VimRecord, Watcher as _,
};
use crate::redact::{Redactor, redact};
use crate::refusal::{self, Refusal, Why};
use crate::vims::AnyVim;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vnfm_descriptor::{Hook, Package};
use vnfm_types::KeyValuePairs;

/// What a request asks of the hooks.
pub(crate) struct Asked<'a> {
    /// Whose hooks.
    pub(crate) package: &'a Package,
    /// Of which flavour.
    pub(crate) flavour: &'a str,
    /// Such as `instantiate`.
    pub(crate) operation: &'static str,
    /// What the hooks will be given.
    pub(crate) params: &'a KeyValuePairs,
}

/// Finds the MgmtDriver of every hook that the flavour names, checks the parameters by the schemas of the
/// operation's hooks, and returns the request's `body` as it may be shown.
///
/// # Errors
///
/// `Unprocessable`, naming the hook or the member.
pub(crate) fn check_parameters(
    engine: &Engine,
    asked: &Asked<'_>,
    body: &Value,
) -> Result<Value, Refusal> {
    let mut shown = redact(body, None, &mut Redactor::default());
    let flavour = asked.package.vnfd().flavours.get(asked.flavour);
    let Some(flavour) = flavour else { return Ok(shown) };
    let params = Value::Object(asked.params.clone());
    if let Some(schema) = flavour.additional_params_schema(asked.operation) {
        fits(schema, &params, "the VNFD's interface")?;
    }
    for hook in flavour.hooks() {
        let driver = driver_of(engine, hook).map_err(no_driver)?;
        let declared = driver.declaration().hooks.get(&hook.operation);
        let Some(schema) = declared.and_then(|hook| hook.parameters.as_ref()) else { continue };
        if hook.operation.split('_').next() == Some(asked.operation) {
            let name = format!("hook `{}` of `{}`", hook.operation, driver.declaration().name);
            fits(schema, &params, &name)?;
            let redacted =
                redact(&shown["additionalParams"], Some(schema), &mut Redactor::default());
            if !redacted.is_null() {
                shown["additionalParams"] = redacted;
            }
        }
    }
    Ok(shown)
}

fn no_driver(error: PortError) -> Refusal {
    let refusal = Refusal::unprocessable(error);
    Refusal { code: &refusal::NO_DRIVER, ..refusal }
}

/// All places where `params` do not fit `schema`, at once.
fn fits(schema: &Value, params: &Value, whose: &str) -> Result<(), Refusal> {
    let validator = jsonschema::validator_for(schema).map_err(|error| {
        let what = format!("the schema of {whose} is no JSON Schema: {error}");
        Refusal::new(Why::Broken, &SCHEMA, what)
    })?;
    let places: Vec<_> = validator
        .iter_errors(params)
        .map(|error| {
            let place = error.instance_path().to_string().replace('/', ".");
            format!("additionalParams{place}: {}", masked(&error))
        })
        .collect();
    if places.is_empty() {
        return Ok(());
    }
    let what = format!("additionalParams do not fit {whose}: {}", places.join("; "));
    Err(Refusal::new(Why::Unprocessable, &refusal::BAD_PARAMETERS, what))
}

/// The message without the value itself, which may be a secret.
fn masked(error: &jsonschema::ValidationError<'_>) -> String {
    error.masked_with("the value").to_string()
}

fn driver_of(engine: &Engine, hook: &Hook) -> Result<Arc<dyn MgmtDriver>, PortError> {
    let plugin = hook.artifact.as_ref().and_then(|artifact| artifact.plugin());
    let driver = engine.parts.mgmt.find(&hook.implementation, plugin)?;
    if driver.declaration().hooks.contains_key(&hook.operation) {
        return Ok(driver);
    }
    let says = driver.declaration();
    let what = format!("`{}` {} does not implement it", says.name, says.version);
    Err(PortError::new(&UNDECLARED, format!("run hook `{}`", hook.operation), what))
}

/// Runs the hook `name` of `op`.
///
/// # Errors
///
/// What the hook says, or what kept it from running.
pub(crate) async fn run(op: &Op, name: &str, inventory: &Inventory) -> Result<Effects, PortError> {
    let Some(hook) = op.flavour()?.hook(name) else { return Ok(Effects::default()) };
    let driver = driver_of(&op.engine, hook)?;
    let request = request(op, hook, inventory).await?;
    if let Some(schema) = driver.declaration().hooks.get(name).and_then(|h| h.parameters.as_ref()) {
        let mut found = Redactor::default();
        redact(&Value::Object(request.additional_params.clone()), Some(schema), &mut found);
        op.live.hide(&found);
    }
    let (vim, infra) = op.vim().await?;
    let host = Host {
        engine: op.engine.clone(),
        live: op.live.clone(),
        fence: op.fence.clone(),
        instance_id: op.instance.vnf.id.clone(),
        step: name.to_owned(),
        package: op.package()?.clone(),
        vim,
        infra,
    };
    let effects = driver.call(request, Arc::new(host)).await?;
    for vim in &effects.register_vims {
        let mut found = Redactor::default();
        found.add(&Value::Object(vim.access_info.clone()));
        op.live.hide(&found);
    }
    Ok(effects)
}

async fn request(op: &Op, hook: &Hook, inventory: &Inventory) -> Result<HookRequest, PortError> {
    let vnf = &op.instance.vnf;
    let mut params = op.instantiation()?.additional_params;
    let own: Value = op.request()?;
    if let Some(own) = own.get("additionalParams").and_then(Value::as_object) {
        override_with(&mut params, own);
    }
    let mut vims = op.engine.store().vims(op.tenant()).await?;
    vims.retain(|record| record.vim.registered_by.as_deref() == Some(vnf.id.as_str()));
    let dependents = dependents(op, &vims).await?;
    Ok(HookRequest {
        schema_version: 1,
        operation: op.record.op.operation,
        hook: hook.operation.clone(),
        instance: HookInstance {
            id: vnf.id.clone(),
            vnf_instance_name: vnf.vnf_instance_name.clone(),
            vnfd_id: vnf.vnfd_id.clone(),
            vnf_provider: vnf.vnf_provider.clone(),
            vnf_product_name: vnf.vnf_product_name.clone(),
            vnf_software_version: vnf.vnf_software_version.clone(),
            vnfd_version: vnf.vnfd_version.clone(),
            metadata: vnf.metadata.clone(),
        },
        inventory: inventory.clone(),
        additional_params: params,
        inputs: serde_json::to_value(&hook.inputs)
            .ok()
            .and_then(|inputs| inputs.as_object().cloned())
            .unwrap_or_default(),
        dependents,
        vims: vims
            .into_iter()
            .map(|r| HookVim { id: r.vim.id, name: r.vim.name, vim_type: r.vim.vim_type })
            .collect(),
        heal: lcm::heal::told(op)?,
        artifacts: hook.artifact.iter().filter_map(in_package).collect(),
        deadline: op.deadline,
        attempt: op.rows.get(&hook.operation).map_or(1, |row| row.attempt),
    })
}

/// The live VNF instances on `vims`, which `op`'s instance registered.
async fn dependents(op: &Op, vims: &[VimRecord]) -> Result<Vec<HookDependent>, PortError> {
    let store = op.engine.store();
    let mut found = BTreeMap::new();
    for record in vims {
        for lives in store.uses(op.tenant(), &record.vim.id).await? {
            if lives.instance_id != op.instance.vnf.id && !found.contains_key(&lives.instance_id) {
                let name = store.instance(op.tenant(), &lives.instance_id).await?;
                found.insert(lives.instance_id, name.vnf.vnf_instance_name);
            }
        }
    }
    let dependent = |(id, vnf_instance_name)| HookDependent { id, vnf_instance_name };
    Ok(found.into_iter().map(dependent).collect())
}

/// Puts `own` over `params`: objects member by member, all else whole; a null takes away (RFC 7396).
pub(crate) fn override_with(params: &mut KeyValuePairs, own: &KeyValuePairs) {
    for (name, value) in own {
        match (params.get_mut(name), value) {
            (_, Value::Null) => drop(params.remove(name)),
            (Some(Value::Object(old)), Value::Object(new)) => override_with(old, new),
            _ => drop(params.insert(name.clone(), value.clone())),
        }
    }
}

/// An artifact that the package brings; one that names an installed plugin brings no file.
fn in_package(artifact: &vnfm_descriptor::Artifact) -> Option<Value> {
    let path = artifact.file.as_ref()?;
    Some(json!({"name": artifact.name, "path": path, "type": artifact.kind}))
}

/// The engine's side of one running hook.
struct Host {
    engine: Engine,
    live: Arc<LiveOp>,
    fence: Fence,
    instance_id: String,
    step: String,
    package: Arc<Package>,
    vim: AnyVim,
    infra: Arc<dyn InfraDriver>,
}

#[async_trait]
impl HookHost for Host {
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError> {
        match service {
            "ssh.run" => self.ssh_run(parse(service, request)?).await,
            "ssh.put" => self.ssh_put(parse(service, request)?).await,
            "ssh.wait" => self.ssh_wait(parse(service, request)?).await,
            "http" => self.http(parse(service, request)?).await,
            "artifact.list" => Ok(json!({"paths": self.package.paths().collect::<Vec<_>>()})),
            "artifact.read" => self.artifact(&parse(service, request)?),
            "progress" => Ok(self.progress(&parse(service, request)?)),
            "waiting" => Ok(self.waiting(&parse(service, request)?)),
            "checkpoint.get" => self.recall(parse(service, request)?).await,
            "checkpoint.put" => self.remember(parse(service, request)?).await,
            "sleep" => Ok(self.sleep(&parse(service, request)?).await),
            "cancelled" => Ok(json!({"cancelled": self.live.cancel_mode().is_some()})),
            other => {
                let what = format!("there is no host service `{other}`");
                Err(PortError::new(&SERVICE, "serve a hook", what))
            }
        }
    }

    fn log(&self, level: &str, text: &str) {
        self.live.log(level, &self.step, text);
    }
}

#[derive(Deserialize)]
struct Run {
    host: SshTarget,
    #[serde(flatten)]
    command: SshCommand,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Put {
    host: SshTarget,
    path: String,
    #[serde(default = "private")]
    mode: String,
    #[serde(default)]
    sudo: bool,
    content_base64: Option<String>,
    artifact: Option<String>,
}

fn private() -> String {
    "0600".to_owned()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WaitFor {
    host: SshTarget,
    deadline_seconds: u32,
}

#[derive(Deserialize)]
struct Path {
    path: String,
}

#[derive(Deserialize)]
struct Percent {
    percent: u8,
    message: String,
}

#[derive(Deserialize)]
struct Reason {
    #[serde(rename = "for")]
    what: String,
}

#[derive(Deserialize)]
struct Key {
    key: String,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
struct Pause {
    seconds: f64,
}

/// How much of what a failed command says is kept.
const LAST_LINES: usize = 40;
/// The longest pause that a hook can ask for in one call.
const LONGEST_PAUSE: f64 = 3600.0;

impl Host {
    async fn ssh_run(&self, run: Run) -> Result<Value, PortError> {
        self.pin(&run.host).await?;
        let source = format!("{} {}", self.step, run.host.address);
        self.live.log("debug", &source, &format!("$ {}", run.command.command));
        let output = self.engine.parts.host.ssh_run(&run.host, &run.command).await?;
        self.log_output(&source, &output);
        to_value(&output)
    }

    /// What a command that worked says may be a secret that nobody has told us of, such as a new token: only the end
    /// of what a failed one says is kept.
    fn log_output(&self, source: &str, output: &CommandOutput) {
        if output.exit_code == 0 {
            return;
        }
        for text in [&output.stdout, &output.stderr] {
            let lines: Vec<_> = text.lines().collect();
            let last = lines.len().saturating_sub(LAST_LINES);
            lines[last..].iter().for_each(|line| self.live.log("info", source, line));
        }
        self.live.log("info", source, &format!("exit code {}", output.exit_code));
    }

    async fn ssh_put(&self, put: Put) -> Result<Value, PortError> {
        self.pin(&put.host).await?;
        let content = match (put.content_base64, put.artifact) {
            (Some(text), None) => {
                BASE64.decode(text).map_err(|e| wrong("ssh.put", e.to_string()))?
            }
            (None, Some(path)) => self.read(&path)?,
            _ => return Err(wrong("ssh.put", "needs one of contentBase64 and artifact".into())),
        };
        let file = RemoteFile { path: put.path, mode: put.mode, sudo: put.sudo, content };
        self.engine.parts.host.ssh_put(&put.host, &file).await?;
        Ok(json!({}))
    }

    async fn ssh_wait(&self, wait: WaitFor) -> Result<Value, PortError> {
        self.pin(&wait.host).await?;
        self.live.waiting(&format!("a login at {}@{}", wait.host.username, wait.host.address));
        self.engine.parts.host.ssh_wait(&wait.host, wait.deadline_seconds).await?;
        Ok(json!({}))
    }

    /// Pins the host's key as its console log shows it, before anybody logs in for the first time.
    async fn pin(&self, target: &SshTarget) -> Result<(), PortError> {
        let store = self.engine.store();
        if store.host_key(&target.server_id).await?.is_some() {
            return Ok(());
        }
        let keys = self.infra.host_keys(&self.vim, &target.server_id).await.unwrap_or_default();
        if keys.is_empty() {
            return Ok(());
        }
        let change = Change::PinHostKey {
            instance_id: self.instance_id.clone(),
            server_id: target.server_id.clone(),
            key: keys.join("\n"),
        };
        Ok(store.write(Some(&self.fence), vec![change]).await?)
    }

    async fn http(&self, request: HttpRequest) -> Result<Value, PortError> {
        to_value(&self.engine.parts.host.http(&request).await?)
    }

    fn artifact(&self, wanted: &Path) -> Result<Value, PortError> {
        Ok(json!({"contentBase64": BASE64.encode(self.read(&wanted.path)?)}))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, PortError> {
        self.package.read(path).map_err(|error| {
            PortError::new(&ARTIFACT, format!("read `{path}` of the package"), error.to_string())
        })
    }

    fn progress(&self, seen: &Percent) -> Value {
        self.live.progress(seen.percent, &seen.message);
        self.live.log("info", &self.step, &seen.message);
        json!({})
    }

    fn waiting(&self, reason: &Reason) -> Value {
        self.live.waiting(&reason.what);
        json!({})
    }

    async fn recall(&self, wanted: Key) -> Result<Value, PortError> {
        let store = self.engine.store();
        let found = store.checkpoint(&self.fence.op_id, &self.step, &wanted.key).await?;
        Ok(json!({"value": found.map(|value| value.0)}))
    }

    async fn remember(&self, new: Key) -> Result<Value, PortError> {
        let change = Change::Checkpoint {
            op_id: self.fence.op_id.clone(),
            step: self.step.clone(),
            key: new.key,
            value: SecretJson(new.value),
        };
        self.engine.store().write(Some(&self.fence), vec![change]).await?;
        Ok(json!({}))
    }

    async fn sleep(&self, pause: &Pause) -> Value {
        let seconds = pause.seconds.clamp(0.0, LONGEST_PAUSE);
        self.engine.parts.clock.sleep(Duration::from_secs_f64(seconds)).await;
        json!({})
    }
}

fn parse<T: DeserializeOwned>(service: &str, request: Value) -> Result<T, PortError> {
    serde_json::from_value(request).map_err(|error| wrong(service, error.to_string()))
}

fn wrong(service: &str, what: String) -> PortError {
    PortError::new(&SERVICE, format!("serve `{service}` to a hook"), what)
}

fn to_value<T: serde::Serialize>(value: &T) -> Result<Value, PortError> {
    serde_json::to_value(value).map_err(|error| wrong("answer", error.to_string()))
}

/// A driver's schema is no JSON Schema.
const SCHEMA: Code = Code {
    name: "hook.schema",
    kind: ErrorKind::Broken,
    means: "a MgmtDriver or the VNFD declares a parameter schema that is no JSON Schema",
    next: "report it to whoever wrote the plugin or the VNFD",
};
/// The driver does not implement the hook.
const UNDECLARED: Code = Code {
    name: "hook.undeclared",
    kind: ErrorKind::Refused,
    means: "the VNFD names a hook that its MgmtDriver does not implement",
    next: "use a version of the plugin that does, or take the hook out of the VNFD",
};
/// A host service was asked for in the wrong way.
const SERVICE: Code = Code {
    name: "hook.service",
    kind: ErrorKind::Refused,
    means: "a hook asked for a host service that is not there, or in the wrong shape",
    next: "report it to whoever wrote the plugin",
};
/// The package has no such file.
const ARTIFACT: Code = Code {
    name: "hook.artifact",
    kind: ErrorKind::Refused,
    means: "a hook asked for a file that is not in the VNF package",
    next: "put it into the package, or correct the parameter that names it",
};

pub(crate) const CODES: &[&Code] = &[&SCHEMA, &UNDECLARED, &SERVICE, &ARTIFACT];
