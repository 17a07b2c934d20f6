//! What the store keeps: one record per kind of row, each the standard's own type with what SOL003 does not show.
//!
//! What is a [`SecretJson`] is sealed by the adapter before it is written, and nowhere else.

use super::DriverId;
use crate::deployment::Deployment;
use crate::query::Sight;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;
use vnfm_types::v1::Edition;
use vnfm_types::{
    KeyValuePairs, LccnSubscription, PackageOnboardingState, PackageOperationalState,
    PackageUsageState, Vim, VnfInstance, VnfLcmOpOcc, VnfPkgInfo,
};

/// JSON that holds secrets: hidden from `Debug`, sealed by the store, and read as the [`Value`] that it is.
///
/// Clones share it, for as long as none of them is [changed](SecretJson::to_mut).
#[derive(Clone, Default)]
pub struct SecretJson(Option<Arc<Value>>);

impl SecretJson {
    /// To change it; what its clones hold stays.
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
    /// Whose.
    pub tenant: String,
    /// Raised by each write; the `ETag`. A write with another one than the stored is refused.
    pub version: u64,
    /// The package that it was made from.
    pub vnf_pkg_id: String,
    /// The operation that is not ended; set and cleared by [`super::Change::AddOp`] and [`super::Change::PutOp`] alone.
    pub active_op: Option<String>,
    /// As SOL003 shows it, without secrets.
    pub vnf: VnfInstance,
    /// What it should be; `None` while it is NOT_INSTANTIATED, and in lists.
    pub deployment: Option<Arc<Deployment>>,
    /// What the driver wants back at release; null before `allocate`.
    pub handle: Value,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// When it was last written, or became busy or free; by the clock of the database, and set by it alone.
    pub changed_at: Option<Timestamp>,
}

/// An operation occurrence with what SOL003 does not show of it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpRecord {
    /// Whose.
    pub tenant: String,
    /// As SOL003 shows it, without secrets.
    pub op: VnfLcmOpOcc,
    /// The request body with its secrets.
    pub request: SecretJson,
    /// What the instance should be so far; `None` if it was NOT_INSTANTIATED, and in lists.
    pub before: Option<Arc<Deployment>>,
    /// What the instance should be once the operation is COMPLETED; `None` if it is terminated then, and in lists.
    pub target: Option<Arc<Deployment>>,
    /// How it is driven.
    pub control: OpControl,
    /// The first step begun that cannot be undone: from then on there is no rollback.
    pub point_of_no_return: Option<String>,
    /// Raised by each claim; written rows carry it.
    pub epoch: u64,
}

/// How an operation is driven, as its caller chose.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OpControl {
    /// Hooks that are not called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip_hooks: Vec<String>,
    /// The version of VNF LCM in which it began; links in its grant request follow it.
    pub api_version: Edition,
}

/// What the journal keeps of a hook from the moment it is first called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookState {
    /// The `implementation` in the VNFD.
    pub implementation: String,
    /// The plugin that the hook's artifact names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The driver that was called; a retry and the undo call the same one.
    pub driver: DriverId,
    /// True if the driver can undo the hook.
    pub can_undo: bool,
}

/// What the journal says of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepStatus {
    /// Begun; it may have had effects.
    Started,
    /// Succeeded.
    Done,
    /// Not needed here.
    Skipped,
    /// Its opposite is running; it may be half undone.
    Undoing,
    /// Undone.
    Undone,
}

/// A row of the journal: one step of one operation, by name.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalRow {
    /// The operation.
    pub op_id: String,
    /// The step's name; never an index.
    pub step: String,
    /// What is known of it.
    pub status: StepStatus,
    /// How often it was begun, from 1.
    pub attempt: u32,
    /// What it produced: `{"v": version, "data": …}`; may hold secrets.
    pub output: SecretJson,
    /// When it was last begun.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Which processes ran it, and which of them died meanwhile.
    pub lives: Lives,
    /// If the step is a hook that was called: which driver serves it.
    pub hook: Option<HookState>,
}

/// Which processes ran a step, and which of them died while it ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lives {
    /// The process that began it last.
    pub by: String,
    /// The processes that died while it ran, the first one first.
    pub died: Vec<String>,
    /// True while it runs with nothing else running.
    pub alone: bool,
    /// How often a process outlived the time that the step runs alone.
    pub outlived: u32,
    /// True where a process died while it ran alone, so that it is not begun again.
    pub killed: bool,
}

/// A step that has not ended, of an operation that is to be driven; or one that killed a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenStep {
    /// Whose.
    pub tenant: String,
    /// The operation.
    pub op_id: String,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Which processes ran it.
    pub lives: Lives,
}

/// A VIM in the registry.
#[derive(Debug, Clone, PartialEq)]
pub struct VimRecord {
    /// Whose.
    pub tenant: String,
    /// Raised by each write.
    pub version: u64,
    /// As our API shows it, without secrets.
    pub vim: Vim,
    /// `accessInfo`.
    pub access_info: SecretJson,
}

/// A VNF package.
#[derive(Debug, Clone, PartialEq)]
pub struct PackageRecord {
    /// Whose.
    pub tenant: String,
    /// As SOL005 shows it.
    pub info: VnfPkgInfo,
    /// The request by which its content is being fetched, with secrets; null otherwise, and in lists.
    pub fetching: SecretJson,
}

impl PackageRecord {
    /// A package that is onboarded and enabled, as an embedder records one that it has kept itself.
    pub fn onboarded(tenant: &str, id: &str, vnfd_id: &str) -> Self {
        let info = VnfPkgInfo {
            id: id.to_owned(),
            vnfd_id: Some(vnfd_id.to_owned()),
            vnf_provider: None,
            vnf_product_name: None,
            vnf_software_version: None,
            vnfd_version: None,
            checksum: None,
            package_security_option: None,
            signing_certificate: None,
            vnfm_info: Vec::new(),
            software_images: Vec::new(),
            additional_artifacts: Vec::new(),
            onboarding_state: PackageOnboardingState::Onboarded,
            operational_state: PackageOperationalState::Enabled,
            usage_state: PackageUsageState::NotInUse,
            user_defined_data: KeyValuePairs::new(),
            onboarding_failure_details: None,
            warnings: Vec::new(),
            nfvo: None,
            links: None,
        };
        Self {
            tenant: tenant.to_owned(),
            info,
            fetching: SecretJson::default(),
        }
    }
}

/// That an instance lives on a VIM, and on the cluster behind it where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// Whose.
    pub tenant: String,
    /// The instance.
    pub instance_id: String,
    /// Id of the registered VIM; `None` where the connection came inline.
    pub vim_id: Option<String>,
    /// [`super::VimReport::identity`] of the VIM.
    pub identity: Option<String>,
    /// The namespace that the request names, where it names one.
    pub namespace: Option<String>,
}

impl Use {
    /// That an instance lives where its deployment says, as far as that is known: on no VIM and on no cluster yet.
    pub fn of(tenant: &str, instance_id: &str, deployment: &Deployment) -> Self {
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

/// Where an instantiation names its namespace, in `additionalParams`.
const NAMESPACE: &str = "namespace";

/// A subscription to lifecycle changes.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriptionRecord {
    /// Whose.
    pub tenant: String,
    /// As SOL003 shows it.
    pub subscription: LccnSubscription,
    /// How we log in at the callback; null where we do not.
    pub authentication: SecretJson,
    /// Where this server is for the subscriber, without a slash at the end; with `/vnflcm/v1` behind it for one that
    /// subscribed there. See [`Self::api`].
    pub root: String,
    /// Number of the last notification that was sent, was not wanted, or was given up.
    pub sent: u64,
    /// How many were given up.
    pub lost: u64,
    /// What of the tenant's whoever made it sees: of nothing else it is told.
    pub sight: Sight,
}

impl SubscriptionRecord {
    /// The version of the interface that the subscriber speaks.
    pub fn edition(&self) -> Edition {
        if self.root.ends_with(Edition::V1.prefix()) {
            Edition::V1
        } else {
            Edition::V2
        }
    }

    /// How links to resources begin that the subscriber is told of.
    pub fn api(&self) -> String {
        match self.edition() {
            Edition::V1 => self.root.clone(),
            Edition::V2 => format!("{}{}", self.root, Edition::V2.prefix()),
        }
    }
}

/// What subscriptions choose by of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct About {
    /// Its VNFD.
    pub vnfd_id: String,
    /// Its name.
    pub vnf_instance_name: Option<String>,
    /// Who made the VNF.
    pub vnf_provider: String,
    /// Which product it is.
    pub vnf_product_name: String,
    /// The version of the software.
    pub vnf_software_version: String,
    /// The version of the VNFD.
    pub vnfd_version: String,
    /// Where it lives; nowhere where that is empty. Absent in rows of older binaries.
    pub lives: Option<Vec<Home>>,
}

/// Where an instance lives, as far as somebody may be narrowed to that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Home {
    /// Id of the registered VIM; empty where the connection came with a login of its own, or is not known yet.
    pub vim_id: String,
    /// The namespace that the request names, where it names one.
    pub namespace: Option<String>,
}

impl Home {
    /// Every home that a deployment names.
    fn all_of(deployment: &Deployment) -> Vec<Self> {
        let namespace = deployment
            .additional_params
            .get(NAMESPACE)
            .and_then(Value::as_str);
        let namespace = namespace.map(ToOwned::to_owned);
        let connections = deployment.vim_connection_info.values();
        let mut vims: Vec<_> = connections
            .map(|vim| vim.vim_id.as_deref().unwrap_or_default())
            .collect();
        if vims.is_empty() {
            vims.push("");
        }
        let home = |vim: &str| Self {
            vim_id: vim.to_owned(),
            namespace: namespace.clone(),
        };
        vims.into_iter().map(home).collect()
    }
}

impl About {
    /// An instance as it is, or as the operation that is under way is making it.
    pub(crate) fn of(instance: &InstanceRecord, op: Option<&OpRecord>) -> Self {
        let making = op.and_then(|op| op.target.as_ref());
        let lives = instance.deployment.as_ref().or(making);
        let lives = lives
            .map(|deployment| Home::all_of(deployment))
            .unwrap_or_default();
        Self {
            lives: Some(lives),
            ..Self::from(&instance.vnf)
        }
    }
}

impl From<&VnfInstance> for About {
    fn from(vnf: &VnfInstance) -> Self {
        Self {
            lives: None,
            vnfd_id: vnf.vnfd_id.clone(),
            vnf_instance_name: vnf.vnf_instance_name.clone(),
            vnf_provider: vnf.vnf_provider.clone(),
            vnf_product_name: vnf.vnf_product_name.clone(),
            vnf_software_version: vnf.vnf_software_version.clone(),
            vnfd_version: vnf.vnfd_version.clone(),
        }
    }
}

/// A notification to send, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxRow {
    /// Given by the store, rising.
    pub seq: u64,
    /// Whose.
    pub tenant: String,
    /// The instance that it is about.
    pub instance_id: String,
    /// `VnfLcmOperationOccurrenceNotification`, `VnfIdentifierCreationNotification` or
    /// `VnfIdentifierDeletionNotification`.
    pub kind: String,
    /// Its body, without what depends on the subscription.
    pub body: Value,
    /// What subscriptions choose by of the instance as it was then.
    pub about: About,
    /// When it was written.
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
