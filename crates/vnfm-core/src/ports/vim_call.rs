//! What a driver works on: the VIM of a call and its limits, the deployment that is wanted, and the change that leads to it.

use super::{Clock, Code, ErrorKind, PortError, Recorded, Rolling, VimSlot};
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

    /// The same change to this target.
    #[must_use]
    pub fn with_target(self, target: &'a Allocation) -> Self {
        Self { target, ..self }
    }

    /// Between this deployment and the target.
    #[must_use]
    pub fn coming_from(self, other: &'a Allocation) -> Self {
        let other = Some(other);
        Self { other, ..self }
    }

    /// Changes VNFCs in these batches; `None`: all at once, or as the VIM decides.
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
    /// Ids of the storages that were, or for a plan will be, retained.
    pub retained: Vec<String>,
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
