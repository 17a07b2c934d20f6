//! The records of the store: one per kind of row, each with the standard's own type and what SOL003 does not show.
//!
//! Every [`SecretJson`] is sealed by the store adapter before it is written, and nowhere else.

use super::event_scope::NAMESPACE;
use super::{DriverId, EventScope, InstanceLocation};
use crate::deployment::Deployment;
use crate::query::VisibilityScope;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;
use vnfm_types::v1::ApiVersion;
use vnfm_types::{
    KeyValuePairs, LccnSubscription, OnFailure, PackageOnboardingState, PackageOperationalState,
    RetainedVolume, SharedLink, Vim, VnfInstance, VnfLcmOpOcc, VnfPkgInfo, VnfSnapshotInfo,
};

/// JSON that holds secrets: hidden from `Debug`, sealed by the store, readable as a [`Value`].
///
/// Clones share the value until one of them is [changed](SecretJson::to_mut).
#[derive(Clone, Default)]
pub struct SecretJson(Option<Arc<Value>>);

impl SecretJson {
    /// Mutable access; clones keep the old value.
    pub fn to_mut(&mut self) -> &mut Value {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}

impl From<Value> for SecretJson {
    fn from(value: Value) -> Self {
        Self(Some(value).filter(|value| !value.is_null()).map(Arc::new))
    }
}

impl Deref for SecretJson {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.0.as_deref().unwrap_or(&Value::Null)
    }
}

impl PartialEq for SecretJson {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl std::fmt::Debug for SecretJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

/// A VNF instance with what SOL003 does not show of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InstanceRecord {
    /// Tenant that owns the instance.
    pub tenant: String,
    /// Raised by each write; the `ETag`. A write with another version than the stored one is refused.
    pub version: u64,
    /// The package that it was created from, or has changed to.
    pub vnf_pkg_id: String,
    /// The operation that has not ended; set and cleared by [`super::Change::AddOp`] and [`super::Change::PutOp`] only.
    pub active_op: Option<String>,
    /// The SOL003 resource, without secrets.
    pub vnf: VnfInstance,
    /// Desired state; `None` while the instance is NOT_INSTANTIATED, and in lists.
    pub deployment: Option<Arc<Deployment>>,
    /// The driver's data for `release`; null before `allocate`.
    pub handle: Value,
    /// What happens when a step of its operations fails; `None`: as configured for its tenant. Written by
    /// [`super::Change::SetOnFailure`] only.
    pub on_failure: Option<OnFailure>,
    /// `None` for instances of older versions.
    pub created_at: Option<Timestamp>,
    /// When it was last written, or became busy or free; set by the database, from its clock.
    pub changed_at: Option<Timestamp>,
}

/// An operation occurrence with what SOL003 does not show of it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpRecord {
    /// Tenant that owns the instance.
    pub tenant: String,
    /// The SOL003 resource, without secrets.
    pub op: VnfLcmOpOcc,
    /// The request body with its secrets.
    pub request: SecretJson,
    /// The instance's deployment before the operation; `None` if it was NOT_INSTANTIATED, and in lists.
    pub before: Option<Arc<Deployment>>,
    /// Its deployment once the operation is COMPLETED; `None` if it is terminated then, and in lists.
    pub target: Option<Arc<Deployment>>,
    /// Options that the caller chose.
    pub control: OpControl,
    /// The first irreversible step that has begun, or hook that has ruled out a rollback.
    pub point_of_no_return: Option<String>,
    /// Raised by each claim; written rows carry it.
    pub epoch: u64,
}

impl OpRecord {
    /// The package that the operation changes its instance to; `None`: the instance stays with its own.
    pub fn next_package(&self) -> Option<&str> {
        let (before, target) = (self.before.as_deref()?, self.target.as_deref()?);
        let is_other = target.leaves_package(&before.vnf_pkg_id);
        is_other.then_some(&*target.vnf_pkg_id)
    }
}

/// How an operation is driven, as its caller chose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OpControl {
    /// Names of hooks to skip.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip_hooks: Vec<String>,
    /// Whether the instances on clusters of this one are terminated first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cascade: bool,
    /// Ids of the storages that outlive a terminated instance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retain: Vec<String>,
    /// The VNF LCM version of the request; links in the grant request follow it.
    pub api_version: ApiVersion,
}

/// What the journal stores about a hook once it was called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookState {
    /// Name of the `implementation` in the VNFD.
    pub implementation: String,
    /// The plugin that the hook's artifact names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The driver that was called; retries and the undo call the same one.
    pub driver: DriverId,
    /// True if the driver can undo the hook.
    pub can_undo: bool,
}

/// The state of a step in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// Begun; it may have had effects.
    Started,
    /// Completed; its output is in the journal.
    Done,
    /// Not needed, or skipped as requested.
    Skipped,
    /// Its undo is running; it may be half undone.
    Undoing,
    /// Its effects were reverted; a retry runs it again.
    Undone,
}

/// A row of the journal: one step of one operation, by name.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalRow {
    /// `id` of the operation occurrence.
    pub op_id: String,
    /// The step's name; never an index.
    pub step: String,
    /// State that the step has reached.
    pub status: StepStatus,
    /// How often it was started, from 1.
    pub attempt: u32,
    /// Its output, `{"v": version, "data": …}`; may hold secrets.
    pub output: SecretJson,
    /// Start of the last attempt.
    pub started_at: Timestamp,
    /// `None` while it runs, or if its process died.
    pub ended_at: Option<Timestamp>,
    /// Which processes ran it, and which of them died meanwhile.
    pub lives: ProcessHistory,
    /// Which driver serves the hook; `None` unless the step is a hook that was called.
    pub hook: Option<HookState>,
    /// Set while a failed step is to be repeated, and while its repetition runs.
    pub retry: Option<StepRetry>,
}

/// The failures of a step that is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepRetry {
    /// How often it has failed.
    pub failures: u32,
    /// When it failed for the first time.
    pub first_failed_at: Timestamp,
    /// When it is started again.
    pub next_at: Timestamp,
    /// Why it failed the last time, without secrets.
    pub last_error: String,
}

/// Which processes ran a step, and which of them died while it ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessHistory {
    /// Owner string of the process that started it last.
    pub by: String,
    /// The processes that died while it ran, oldest first.
    pub died: Vec<String>,
    /// True while it runs exclusively.
    pub alone: bool,
    /// How often a process survived the time that the step ran exclusively.
    pub outlived: u32,
    /// True if a process died while it ran exclusively, so that it is not started again.
    pub killed: bool,
}

/// A step without an end, of an operation that has to be driven; or a step that killed a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenStep {
    /// Tenant that owns the operation.
    pub tenant: String,
    /// `id` of the operation occurrence.
    pub op_id: String,
    /// `None` unless it killed a process.
    pub ended_at: Option<Timestamp>,
    /// The processes that ran it, from its journal row.
    pub lives: ProcessHistory,
}

/// A VIM in the registry.
#[derive(Debug, Clone, PartialEq)]
pub struct VimRecord {
    /// Tenant that registered the VIM.
    pub tenant: String,
    /// Version of the record; each write raises it.
    pub version: u64,
    /// As our API shows it, without secrets.
    pub vim: Vim,
    /// `accessInfo`: the login, with its secrets.
    pub access_info: SecretJson,
}

/// A VNF package, onboarded or on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct PackageRecord {
    /// Tenant that onboarded the package.
    pub tenant: String,
    /// The package as the SOL005 resource, without links.
    pub info: VnfPkgInfo,
    /// The request by which its content is being fetched, with secrets; null otherwise, and in lists.
    pub fetching: SecretJson,
}

impl PackageRecord {
    /// A package that is onboarded and enabled, for embedders that store packages themselves.
    pub fn onboarded(tenant: &str, id: &str, vnfd_id: &str) -> Self {
        let info = VnfPkgInfo {
            vnfd_id: Some(vnfd_id.to_owned()),
            onboarding_state: PackageOnboardingState::Onboarded,
            operational_state: PackageOperationalState::Enabled,
            ..VnfPkgInfo::created(id)
        };
        Self {
            tenant: tenant.to_owned(),
            info,
            fetching: SecretJson::default(),
        }
    }
}

/// Records that an instance lives on a VIM, and on the cluster behind it if that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VimUse {
    /// Tenant that owns the instance.
    pub tenant: String,
    /// `id` of the VNF instance.
    pub instance_id: String,
    /// Id of the registered VIM; `None` for an inline connection.
    pub vim_id: Option<String>,
    /// Identity of the VIM, from [`super::VimReport::identity`].
    pub identity: Option<String>,
    /// The namespace named in the request, if any.
    pub namespace: Option<String>,
}

impl VimUse {
    /// The use that a deployment implies, with VIM and cluster still unknown.
    pub fn for_deployment(tenant: &str, instance_id: &str, deployment: &Deployment) -> Self {
        let namespace = deployment
            .additional_params
            .get(NAMESPACE)
            .and_then(Value::as_str);
        Self {
            tenant: tenant.to_owned(),
            instance_id: instance_id.to_owned(),
            vim_id: None,
            identity: None,
            namespace: namespace.map(ToOwned::to_owned),
        }
    }
}

/// A VNF snapshot with what SOL003 does not show of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SnapshotRecord {
    /// Tenant that owns the snapshot.
    pub tenant: String,
    /// Raised by each write; the `ETag`. A write with another version than the stored one is refused.
    pub version: u64,
    /// The SOL003 resource, without links.
    pub info: VnfSnapshotInfo,
    /// The deployment of the instance at that time; `None`: the snapshot has no contents, or this is a list.
    pub deployment: Option<Arc<Deployment>>,
    /// The driver's data about the stored resources.
    pub handle: Value,
    /// The operation that stores it or reverts to it; `None` once that has ended.
    pub used_by: Option<String>,
    /// True once its deletion has begun: nothing else is possible then.
    pub deleting: bool,
    /// The visibility scope of its creator.
    pub scope: VisibilityScope,
    /// When it was last written; set by the database, from its clock.
    pub changed_at: Option<Timestamp>,
}

impl SnapshotRecord {
    /// The registered VIM that has its resources; `None`: it has no contents, or an inline connection.
    pub fn vim_id(&self) -> Option<String> {
        registered_vim(self.deployment.as_deref())
    }
}

/// A shared virtual link.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LinkRecord {
    /// Tenant that owns the link.
    pub tenant: String,
    /// Raised by each write. A write with another version than the stored one is refused.
    pub version: u64,
    /// The link as our API shows it.
    pub link: SharedLink,
}

/// A retained volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Tenant that owns the volume.
    pub tenant: String,
    /// The volume as our API shows it.
    pub volume: RetainedVolume,
}

/// The registered VIM of a deployment.
pub(crate) fn registered_vim(deployment: Option<&Deployment>) -> Option<String> {
    let places = deployment.map(InstanceLocation::all_of).unwrap_or_default();
    let mut vims = places.into_iter().map(|place| place.vim_id);
    vims.find(|id| !id.is_empty())
}

/// A subscription to lifecycle changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriptionRecord {
    /// Tenant that owns the subscription.
    pub tenant: String,
    /// The subscription as the SOL003 resource, without links.
    pub subscription: LccnSubscription,
    /// How we log in at the callback; null if no login is needed.
    pub authentication: SecretJson,
    /// Base URL of this server as the subscriber reaches it, without a trailing slash; with `/vnflcm/v1` appended if it
    /// subscribed to that version. See [`Self::api`].
    pub root: String,
    /// Number of the last notification that was sent, did not match, or was given up.
    pub sent: u64,
    /// Number of notifications given up.
    pub lost: u64,
    /// The visibility scope of the subscription's creator; other events are not sent.
    pub scope: VisibilityScope,
}

impl SubscriptionRecord {
    /// The API version in which the subscriber subscribed.
    pub fn api_version(&self) -> ApiVersion {
        if self.root.ends_with(ApiVersion::V1.prefix()) {
            ApiVersion::V1
        } else {
            ApiVersion::V2
        }
    }

    /// Prefix of the links in its notifications.
    pub fn api(&self) -> String {
        match self.api_version() {
            ApiVersion::V1 => self.root.clone(),
            ApiVersion::V2 => format!("{}{}", self.root, ApiVersion::V2.prefix()),
        }
    }
}

impl EventScope {
    /// The scope of an instance as it is, or as the running operation is about to change it.
    pub(crate) fn for_instance(instance: &InstanceRecord, op: Option<&OpRecord>) -> Self {
        let making = op.and_then(|op| op.target.as_ref());
        let lives = instance.deployment.as_ref().or(making);
        let lives = lives
            .map(|deployment| InstanceLocation::all_of(deployment))
            .unwrap_or_default();
        Self {
            lives: Some(lives),
            ..Self::from(&instance.vnf)
        }
    }
}

/// A notification that waits for delivery to its subscribers.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// Assigned by the store; rising.
    pub seq: u64,
    /// Tenant that owns the instance.
    pub tenant: String,
    /// `id` of the instance that it is about.
    pub instance_id: String,
    /// `VnfLcmOperationOccurrenceNotification`, `VnfIdentifierCreationNotification` or
    /// `VnfIdentifierDeletionNotification`; or `VnfcResourcesChanged`, which is not of SOL003.
    pub kind: String,
    /// Its body, without the members that depend on the subscription.
    pub body: Value,
    /// What subscription filters match, as of the time of writing.
    pub about: EventScope,
    /// Time at which it was written to the outbox.
    pub at: Timestamp,
}

/// Metadata merged into an instance: a null deletes a member (RFC 7396).
pub(crate) fn merge(into: &mut KeyValuePairs, from: &KeyValuePairs) {
    for (key, value) in from {
        match value {
            Value::Null => {
                into.remove(key);
            }
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}
