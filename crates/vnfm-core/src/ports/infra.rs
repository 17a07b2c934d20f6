//! The driver of one kind of VIM: it makes the VIM's resources match a deployment.
//!
//! | operation | is |
//! |---|---|
//! | instantiate | `converge` from nothing to the target |
//! | heal | `converge` from the record to the same deployment, replacing some VNFCs |
//! | another size, flavour, network or package | `converge` from the record to the new target |
//! | its rollback | `converge` from the record to the deployment before |
//! | start, stop | [`Power`], if the driver offers it |
//! | store a state, return to it | [`Snapshots`], if the driver offers it |
//! | terminate | `release` |
//!
//! | rule | mandatory |
//! |---|---|
//! | `check` logs in and changes nothing | yes |
//! | `preview` looks up what only the VIM knows (image, flavor, quota) and changes nothing | yes |
//! | `plan` says what `converge` or `release` would do to each resource, or that it cannot tell, and changes nothing | yes |
//! | what an NFVO prescribes and the driver cannot honour is refused by `preview`, by name | yes |
//! | `converge` is idempotent: it adopts what an earlier, interrupted call created or replaced | yes |
//! | `converge` leaves alone what the target keeps: ids on the VIM and addresses stay | yes |
//! | the inventory lists the VNFCs of a VDU in their order, new ones last; a smaller target removes the last ones | unless the VIM chooses |
//! | what the VIM's policy does not allow is refused before anything is created, by name | yes |
//! | resources are named after the instance and tagged with installation and operation | yes |
//! | a resource with our name but not our tag is never touched | yes |
//! | VNFCs that differ in the target's package change in the batches of [`Convergence::rolling`], each working before the next | if it [`rolls`](InfraDriver::rolls) |
//! | `converge` leaves VNFCs stopped that the target has stopped | if it offers [`Power`] |
//! | `release` of absent resources succeeds; it returns once they are deleted | yes |
//! | a VNFC's `id` changes when it is replaced, and only then | yes |
//! | `observe` changes nothing, and lists what exists in any state | yes |
//! | the connection is fetched from [`Vim::connection`] at each login, never cached | yes |
//! | each call holds a slot ([`Vim::acquire_slot`]), a pause between two calls does not | yes |
//! | waits end at [`VimCall::deadline`], and report their reason through [`Watcher::waiting`] | yes |

use super::{
    Clock, Code, ErrorKind, PortError, Power, Recorded, ResourceChange, ResourcePlan, Rolling,
    Snapshots, VimSlot,
};
use crate::deployment::Deployment;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_descriptor::{Package, PackagePath};
use vnfm_types::{InstantiateVnfRequest, KeyValuePairs, VimConnectionInfo, VimPolicy};

/// A VIM as a driver sees it: the source of the currently valid connection.
#[async_trait]
pub trait Vim: Send + Sync {
    /// Its name in errors: that of the registry, or the key in the request.
    fn name(&self) -> &str;
    /// Its key in the instance's `vimConnectionInfo`, used in resource handles.
    fn connection_id(&self) -> &str;
    /// The current connection with its secrets: a `vim update` takes effect at the next call.
    ///
    /// # Errors
    ///
    /// If the registry cannot be read, or the VIM is no longer registered.
    async fn connection(&self) -> Result<VimLogin, PortError>;

    /// Limits on what instances on it may use.
    fn policy(&self) -> &VimPolicy {
        static OPEN: VimPolicy = VimPolicy::OPEN;
        &OPEN
    }

    /// Whether the caller may read the VIM's responses: true if it is registered, false if the connection came with a request.
    /// An error then contains no more than the status.
    fn exposes_responses(&self) -> bool {
        true
    }

    /// Whether the VIM was in use at the address of this connection before addresses were checked; then it keeps
    /// that address, and no other.
    fn keeps_unchecked_address(&self, connection: &VimConnectionInfo) -> bool {
        let _ = connection;
        false
    }

    /// Waits for a slot; the number of concurrent calls to a VIM is limited. Hold the slot during one call and tell it how
    /// the call ended. `doing` names the action; `watcher` gets the reason for waiting.
    async fn acquire_slot(&self, doing: &str, watcher: Option<&dyn Watcher>) -> VimSlot {
        let _ = (doing, watcher);
        VimSlot::default()
    }
}

/// A connection with its secrets, and a version that tells a driver when it changed.
#[derive(Debug, Clone)]
pub struct VimLogin {
    /// Endpoint and login. `accessInfo` holds secrets: do not print or store it.
    pub info: VimConnectionInfo,
    /// Version of the connection; each change raises it.
    pub version: u64,
}

/// Receives what a driver or a hook is doing; shown to operators and stored in the operation's log.
pub trait Watcher: Send + Sync {
    /// Waiting for `what`, at most until the deadline of the step.
    fn waiting(&self, what: &str);
    /// Progress within the step, 0 to 100, and a sentence.
    fn progress(&self, percent: u8, message: &str);
    /// A log line: level `error`, `warn`, `info` or `debug`, its source, and the text.
    fn log(&self, level: &str, source: &str, text: &str);
}

/// Ignores everything, for calls that nobody follows.
impl Watcher for () {
    fn waiting(&self, _: &str) {}
    fn progress(&self, _: u8, _: &str) {}
    fn log(&self, _: &str, _: &str, _: &str) {}
}

/// The owner of resources; drivers tag everything they create with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ownership {
    /// Id of the database, created with it.
    pub installation_id: String,
    /// Tenant that owns the instance.
    pub tenant: String,
    /// `id` of the VNF instance.
    pub instance_id: String,
    /// `id` of the operation occurrence that creates them.
    pub op_id: String,
}

/// The context of every VIM call of an operation.
pub struct VimCall<'a> {
    /// The VIM to call, with its current login.
    pub vim: &'a dyn Vim,
    /// For tags on created resources.
    pub ownership: &'a Ownership,
    /// Clock for waits and deadlines.
    pub clock: &'a dyn Clock,
    /// Receives the reasons for waiting, and progress.
    pub watcher: &'a dyn Watcher,
    /// Timeout of the step; drivers end their waits by then with an error that names the reason.
    pub deadline: Timestamp,
}

/// The package and desired state of an instance: what drivers work from.
#[derive(Clone)]
pub struct Allocation {
    /// The package: descriptor and files.
    pub package: Arc<Package>,
    /// The desired state, with secrets in clear text.
    pub deployment: Arc<Deployment>,
    /// Display name of the instance; need not be unique.
    pub instance_name: Option<String>,
    /// True if an NFVO has yet to decide about resources: its grant may add what the deployment lacks.
    pub awaits_grant: bool,
    /// Limits on the size of a driver's plan.
    pub budget: Budget,
}

impl Allocation {
    /// The allocation that `request` asks for, with the default budget.
    ///
    /// # Errors
    ///
    /// `Refused` if the VNFD does not define the number of VNFCs of the instantiation level, or does not allow the levels
    /// of `targetScaleLevelInfo`.
    pub fn requested(
        vnf_pkg_id: &str,
        package: Arc<Package>,
        request: InstantiateVnfRequest,
    ) -> Result<Self, PortError> {
        let target_levels = request.target_scale_level_info.clone();
        let mut deployment = Deployment::requested(vnf_pkg_id, request);
        // A step that needs the flavour reports that it is missing.
        if let Some(flavour) = package.vnfd().flavour(&deployment.flavour_id) {
            let refused = |error: &dyn std::fmt::Display| {
                PortError::new(&PACKAGE, "plan the instance", error.to_string())
            };
            let levels = deployment.set_levels(flavour);
            levels.map_err(|error| refused(&error))?;
            let levels = deployment.set_target_levels(flavour, &target_levels);
            levels.map_err(|error| refused(&error))?;
        }
        let deployment = Arc::new(deployment);
        let (instance_name, awaits_grant, budget) = (None, false, Budget::default());
        Ok(Self {
            package,
            deployment,
            instance_name,
            awaits_grant,
            budget,
        })
    }
}

/// Limits on a plan, checked before it is expanded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Number of resources or objects. Default 10 000.
    pub resources: u64,
    /// Size of templates or manifests sent to the VIM, in bytes. Default 32 MiB.
    pub bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            resources: 10_000,
            bytes: 32 << 20,
        }
    }
}

impl Budget {
    /// Refuses a plan that exceeds the budget.
    ///
    /// # Errors
    /// `Refused`, with the number, the limit and its setting.
    pub fn allows(&self, doing: &str, resources: u64, bytes: u64) -> Result<(), PortError> {
        let over = |count: u64, most: u64, what: &str, setting: &str| {
            (count > most).then(|| {
                let text =
                    format!("the plan comes to {count} {what}; `limits.{setting}` is {most}");
                PortError::new(&PLAN_TOO_LARGE, doing, text)
            })
        };
        let found = over(resources, self.resources, "resources", "resources")
            .or_else(|| over(bytes, self.bytes, "bytes", "plan_bytes"));
        found.map_or(Ok(()), Err)
    }
}

pub(crate) const PACKAGE: Code = Code {
    name: "op.package",
    kind: ErrorKind::Refused,
    means: "the VNF package no longer matches what the instance needs",
    next: "onboard the package that the instance was created from",
};

pub(crate) const PLAN_TOO_LARGE: Code = Code {
    name: "plan.too-large",
    kind: ErrorKind::Refused,
    means: "the instance would need more resources, or larger templates, than this server allows",
    next: "choose a smaller instantiation level, or have the VNFD fixed; the operator may raise `limits.resources` and \
           `limits.plan_bytes`",
};

/// The change from what is recorded of an instance to its desired state.
#[derive(Clone)]
pub struct Convergence<'a> {
    /// The record from before this operation, however often it was interrupted. `None`: the instance had no resources.
    pub current: Option<&'a Recorded>,
    /// The state that the instance should have.
    pub target: &'a Allocation,
    /// VNFCs that do not stay, though the target keeps their number.
    pub replace: Replacement,
    /// Another deployment that the resources may partly be of: the one before, or in a rollback the one that was not reached.
    pub other: Option<&'a Allocation>,
    /// The batches in which VNFCs change; `None`: all at once.
    pub rolling: Option<Rolling>,
}

/// The VNFCs to replace, and whether with their volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replacement {
    /// By their `id` in the inventory of [`Convergence::current`].
    pub vnfcs: Vec<String>,
    /// Whether to replace their volumes too.
    pub with_storage: bool,
}

impl<'a> Convergence<'a> {
    /// Creates the resources of `target`.
    pub fn create(target: &'a Allocation) -> Self {
        Self {
            current: None,
            target,
            replace: Replacement::default(),
            other: None,
            rolling: None,
        }
    }

    /// Changes the resources in `current` to those of `target`; creates what is missing.
    pub fn update(current: &'a Recorded, target: &'a Allocation) -> Self {
        Self {
            current: Some(current),
            ..Self::create(target)
        }
    }

    /// Replaces these VNFCs in addition to other changes.
    #[must_use]
    pub fn replacing(self, replace: Replacement) -> Self {
        Self { replace, ..self }
    }

    /// Between this deployment and the target.
    #[must_use]
    pub fn coming_from(self, other: &'a Allocation) -> Self {
        let other = Some(other);
        Self { other, ..self }
    }

    /// In these batches.
    #[must_use]
    pub fn rolling(self, rolling: Option<Rolling>) -> Self {
        Self { rolling, ..self }
    }

    /// True if the target is of another VNFD than [`Self::other`].
    pub fn changes_vnfd(&self) -> bool {
        let id = |one: &Allocation| one.package.vnfd().descriptor_id.clone();
        self.other.is_some_and(|other| id(other) != id(self.target))
    }

    /// VDUs that have another name in the target than in [`Self::other`]: that name by the one there.
    pub fn renamed_vdus(&self) -> BTreeMap<String, String> {
        let Some(other) = self.other else {
            return BTreeMap::new();
        };
        let described = |one: &'a Allocation| (one.package.vnfd(), &*one.deployment.flavour_id);
        let (source, destination) = (described(other), described(self.target));
        let there = PackagePath::between(source, destination.0).ok();
        let back = || PackagePath::between(destination, source.0).ok();
        let path = there.or_else(|| back().map(|back| back.reversed()));
        path.unwrap_or_default().renamed_vdus()
    }

    /// The recorded handle; null if nothing was recorded.
    pub fn handle(&self) -> &'a Value {
        self.current.map_or(&Value::Null, |current| &current.handle)
    }
}

/// What to release, and with how much grace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Release {
    /// The recorded handle; null if `converge` was interrupted.
    pub handle: Value,
    /// Grace period for workloads, in seconds; `None`: the VIM's default.
    pub grace_seconds: Option<u32>,
}

/// What `check` found out about a VIM.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VimReport {
    /// Identifies the VIM across all its addresses: for Kubernetes the UID of `kube-system`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// When the first credential or certificate expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Version and other facts for operators.
    pub detail: KeyValuePairs,
}

/// A resource on a VIM tagged as ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnedResource {
    /// Such as `OS::Heat::Stack` or `Namespace`.
    pub kind: String,
    /// Id of the resource on the VIM.
    pub id: String,
    /// Name of the resource on the VIM.
    pub name: String,
    /// The instance it is tagged with; a shared resource is listed once per instance.
    pub instance_id: Option<String>,
    /// The snapshot that it belongs to; then only that snapshot accounts for it.
    pub snapshot_id: Option<String>,
}

/// The driver of a VIM does not enforce policies.
pub const NO_POLICIES: Code = Code {
    name: "vim.policy-unknown",
    kind: ErrorKind::Refused,
    means: "the VIM has a policy, and its driver enforces none; nothing was created",
    next: "remove the policy from the VIM and do not share it, or use another kind of VIM",
};

/// Manages the resources of instances on one kind of VIM. The rules are at the top of this file.
#[async_trait]
pub trait InfraDriver: Send + Sync {
    /// The VIM types that it serves, the registered spelling first.
    fn vim_types(&self) -> &'static [&'static str];

    /// Checks the members of a connection without connecting: reports missing or unknown ones.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the member that is missing or invalid.
    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError>;

    /// Checks a request against the VNFD without calling the VIM.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the member of the request or the path in the package.
    fn validate_request(&self, allocation: &Allocation) -> Result<(), PortError>;

    /// Checks a request against `policy`, as far as package and request tell, without calling the VIM. `preview` and
    /// `converge` enforce [`Vim::policy`] with what the VIM knows.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the object and the rule; also if the driver does not support policies.
    fn permit(&self, allocation: &Allocation, policy: &VimPolicy) -> Result<(), PortError> {
        let _ = allocation;
        if policy.is_open() {
            return Ok(());
        }
        let what = "the VIM has a policy, or is another tenant's, and this driver enforces none";
        Err(PortError::new(
            &NO_POLICIES,
            "enforce the policy of the VIM",
            what,
        ))
    }

    /// Logs in and identifies the VIM.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is no response, `Refused` if the login is refused.
    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError>;

    /// Looks up what only the VIM knows about `change`. The result is journaled and passed to `converge`.
    ///
    /// # Errors
    ///
    /// `Refused` with the VIM's message if image, flavor, network or quota is missing.
    async fn preview(&self, cx: &VimCall<'_>, change: &Convergence<'_>)
    -> Result<Value, PortError>;

    /// What `change` would do to each resource. Changes nothing; names properties, and never their values.
    ///
    /// # Errors
    ///
    /// As `preview`: what the change needs and the VIM lacks.
    async fn plan(
        &self,
        cx: &VimCall<'_>,
        change: &ResourceChange<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let _ = (cx, change);
        let kind = self.vim_types()[0];
        Ok(ResourcePlan::unknown(format!(
            "the driver of `{kind}` cannot tell what happens to resources"
        )))
    }

    /// Creates, replaces and deletes resources until they match the target, and waits until all of them work. `preview` is
    /// null if the operation has none.
    ///
    /// What the target keeps stays as it is, except for the VNFCs to replace: these get a new id, and keep their addresses
    /// as long as their port stays. Missing resources are recreated.
    ///
    /// # Errors
    ///
    /// With the VIM's message; what was created stays. Calling again continues, a target from before reverses
    /// it, and `release` deletes everything.
    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<Recorded, PortError>;

    /// Deletes the resources and waits until they are deleted. Succeeds if there are none.
    ///
    /// # Errors
    ///
    /// With the VIM's message; calling again continues.
    async fn release(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        how: &Release,
    ) -> Result<(), PortError>;

    /// The instance's current resources, for the record of a failed operation.
    ///
    /// # Errors
    ///
    /// If the VIM does not respond.
    async fn observe(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        handle: &Value,
    ) -> Result<Recorded, PortError>;

    /// Every resource on the VIM tagged with the installation id.
    ///
    /// # Errors
    ///
    /// If the VIM does not respond.
    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError>;

    /// Whether `converge` connects VNFCs to other external virtual links; false: instances on its VIMs do not support
    /// `change_ext_conn`.
    fn changes_ext_connectivity(&self) -> bool {
        false
    }

    /// Whether `converge` can change the VNFCs of this instance in batches ([`Convergence::rolling`]); false: the VIM, or the
    /// package, determines the order.
    fn rolls(&self, what: &Allocation) -> bool {
        let _ = what;
        false
    }

    /// How it starts and stops VNFCs; `None`: it cannot, and instances on its VIMs do not support `operate`.
    fn power(&self) -> Option<&dyn Power> {
        None
    }

    /// How it stores the state of VNFCs and volumes; `None`: it cannot, and instances on its VIMs do not support
    /// `create_snapshot` and `revert_to_snapshot`.
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        None
    }

    /// The server's SSH host public keys (`ssh-ed25519 AAAA…`), if the VIM can tell (console log).
    ///
    /// # Errors
    ///
    /// If the VIM does not respond; an empty list means that it does not know them.
    async fn host_keys(&self, vim: &dyn Vim, server_id: &str) -> Result<Vec<String>, PortError> {
        let _ = (vim, server_id);
        Ok(Vec::new())
    }
}
