//! The driver of one kind of VIM.
//!
//! | rule | mandatory |
//! |---|---|
//! | `check` logs in and changes nothing | yes |
//! | `prepare` looks up what only the VIM knows (image, flavor, quota) and changes nothing | yes |
//! | what an NFVO prescribes and it cannot honour is refused by `prepare`, by name | yes |
//! | `allocate` twice is `allocate` once: it adopts what an earlier, interrupted call made | yes |
//! | what the VIM's policy does not allow is refused before anything is made, by name | yes |
//! | what it makes is named by the instance and tagged by installation and operation | yes |
//! | a thing with our name but not our tag is never touched | yes |
//! | `release` of what is not there succeeds; it returns when it is gone | yes |
//! | `heal` twice is `heal` once: what an interrupted call has replaced is not replaced again | yes |
//! | `heal` leaves alone what it was not asked to replace: its ids on the VIM stay | yes |
//! | a VNFC's `id` changes when it is replaced, and only then | yes |
//! | `observe` changes nothing, and lists what exists whatever state it is in | yes |
//! | the connection is asked from [`Vim::connection`] at each login, never kept | yes |
//! | each call is made during a turn ([`Vim::turn`]), a pause between two is not | yes |
//! | waits end at [`VimCall::deadline`] and say what for through [`Watcher::waiting`] | yes |

use super::{Clock, Code, ErrorKind, PortError, Turn};
use crate::deployment::Deployment;
use crate::lcm::PACKAGE;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use vnfm_descriptor::Package;
use vnfm_types::{
    ExtManagedVirtualLinkInfo, ExtVirtualLinkInfo, InstantiateVnfRequest, KeyValuePairs,
    VimConnectionInfo, VimPolicy, VirtualStorageResourceInfo, VnfExtCpInfo,
    VnfVirtualLinkResourceInfo, VnfcResourceInfo,
};

/// A VIM as a driver sees it: a place to ask for the connection that is valid now.
#[async_trait]
pub trait Vim: Send + Sync {
    /// What names it in errors: the registry's name, or the key in the request.
    fn name(&self) -> &str;
    /// Its key in the instance's `vimConnectionInfo`, which resource handles carry.
    fn connection_id(&self) -> &str;
    /// The connection with its secrets, as the registry has it now: a `vim update` shows at the next call.
    ///
    /// # Errors
    ///
    /// Where the registry cannot be read, or the VIM is no longer in it.
    async fn connection(&self) -> Result<VimLogin, PortError>;

    /// What instances on it may be made of.
    fn policy(&self) -> &VimPolicy {
        static OPEN: VimPolicy = VimPolicy::OPEN;
        &OPEN
    }

    /// Whether whoever causes a call may read what the VIM answers: true where it is in the registry, false where the
    /// connection came with a request. An error then says no more than the status.
    fn shows_answers(&self) -> bool {
        true
    }

    /// Whether the VIM was in use at the address of this connection before addresses were checked; then it keeps that
    /// address, and no other.
    fn keeps_address(&self, connection: &VimConnectionInfo) -> bool {
        let _ = connection;
        false
    }

    /// Waits until the VIM may be called: it gets so many calls at a time. What is returned is held during one call
    /// and told how that ended. `doing` says what the call is for; `watcher` hears of a wait.
    async fn turn(&self, doing: &str, watcher: Option<&dyn Watcher>) -> Turn {
        let _ = (doing, watcher);
        Turn::default()
    }
}

/// A connection with its secrets, numbered so that a driver sees when it was changed.
#[derive(Debug, Clone)]
pub struct VimLogin {
    /// Where and who. Its `accessInfo` holds secrets: it is not to be printed or stored.
    pub info: SecretConnection,
    /// Raised by each change.
    pub version: u64,
}

/// [`VimConnectionInfo`] whose `Debug` hides `accessInfo`.
#[derive(Clone, Default, PartialEq)]
pub struct SecretConnection(pub VimConnectionInfo);

impl std::fmt::Debug for SecretConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "SecretConnection({} {:?})",
            self.0.vim_type, self.0.vim_id
        )
    }
}

impl std::ops::Deref for SecretConnection {
    type Target = VimConnectionInfo;
    fn deref(&self) -> &VimConnectionInfo {
        &self.0
    }
}

/// Hears what a driver or a hook is doing; shown to the operator and kept in the operation's log.
pub trait Watcher: Send + Sync {
    /// It waits for `what`, at most until the deadline of the step.
    fn waiting(&self, what: &str);
    /// It got on: 0 to 100 within the step, and a sentence.
    fn progress(&self, percent: u8, message: &str);
    /// A line for the log: level `error`, `warn`, `info` or `debug`, who said it, and what.
    fn log(&self, level: &str, source: &str, text: &str);
}

/// Whose resources these are; drivers write it onto everything that they make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ownership {
    /// Made with the database.
    pub installation_id: String,
    /// Whose instance.
    pub tenant: String,
    /// `VnfInstance.id`.
    pub instance_id: String,
    /// `VnfLcmOpOcc.id`.
    pub op_id: String,
}

/// What every call on a VIM carries.
pub struct VimCall<'a> {
    /// Which VIM.
    pub vim: &'a dyn Vim,
    /// Whose resources.
    pub ownership: &'a Ownership,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Who hears of waits and progress.
    pub watcher: &'a dyn Watcher,
    /// When the call is given up; drivers end their waits by then with an error that says what for.
    pub deadline: Timestamp,
}

/// What an instance is to be made of. The same for `prepare`, `allocate` and `release`.
#[derive(Clone)]
pub struct Allocation {
    /// The VNF package: descriptor and files.
    pub package: Arc<Package>,
    /// What the instance should be, with secrets.
    pub deployment: Arc<Deployment>,
    /// Name of the instance, for people.
    pub instance_name: Option<String>,
    /// True if an NFVO has yet to decide about resources: its grant may bring what the deployment lacks.
    pub awaits_grant: bool,
    /// How much a driver may plan; beyond it the plan is refused by name.
    pub budget: Budget,
}

impl Allocation {
    /// What `request` asks for, of a package, with the default budget.
    ///
    /// # Errors
    ///
    /// `Refused` if the VNFD does not say how many VNFCs the instantiation level comes to.
    pub fn requested(
        vnf_pkg_id: &str,
        package: Arc<Package>,
        request: InstantiateVnfRequest,
    ) -> Result<Self, PortError> {
        let mut deployment = Deployment::requested(vnf_pkg_id, request);
        // A step that needs the flavour reports that it is missing.
        if let Some(flavour) = package.vnfd().flavour(&deployment.flavour_id) {
            let levels = deployment.set_levels(flavour);
            levels.map_err(|error| {
                PortError::new(&PACKAGE, "plan the instance", error.to_string())
            })?;
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

/// How much a plan may come to: it is counted before anything is made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Resources, or objects. Default 10 000.
    pub resources: u64,
    /// Bytes of what is sent to the VIM: templates, or manifests. Default 32 MiB.
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
    /// Refuses a plan that comes to more.
    ///
    /// # Errors
    ///
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

/// The plan is larger than the server allows.
pub(crate) const PLAN_TOO_LARGE: Code = Code {
    name: "plan.too-large",
    kind: ErrorKind::Refused,
    means: "the instance would be made of more resources, or of larger templates, than this server allows",
    next: "choose a smaller instantiation level, or have the VNFD mended; the operator may raise `limits.resources` and \
           `limits.plan_bytes`",
};

/// Resources as SOL003 shows them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inventory {
    /// VNFCs: one per server or pod.
    pub vnfc_resource_info: Vec<VnfcResourceInfo>,
    /// External connection points.
    pub ext_cp_info: Vec<VnfExtCpInfo>,
    /// External virtual links.
    pub ext_virtual_link_info: Vec<ExtVirtualLinkInfo>,
    /// Internal virtual links that others manage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_link_info: Vec<ExtManagedVirtualLinkInfo>,
    /// Internal virtual links.
    pub vnf_virtual_link_resource_info: Vec<VnfVirtualLinkResourceInfo>,
    /// Volumes.
    pub virtual_storage_resource_info: Vec<VirtualStorageResourceInfo>,
}

/// What `allocate` made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Allocated {
    /// What the driver wants back at `release`: stack id, namespace, objects. No secrets.
    pub handle: Value,
    /// What it is, as SOL003 shows it.
    pub inventory: Inventory,
    /// Shown in `instantiatedVnfInfo.metadata`.
    pub metadata: KeyValuePairs,
}

/// How resources are to be released.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Release {
    /// What `allocate` returned; null where it was interrupted before it could.
    pub handle: Value,
    /// Seconds that workloads may take to end by themselves; `None`: the VIM's default.
    pub grace_seconds: Option<u32>,
}

/// What of an instance is to be healed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Repair {
    /// What `allocate` or the last `heal` returned.
    pub handle: Value,
    /// The instance as its record shows it: from before this operation, however often it was interrupted.
    pub inventory: Inventory,
    /// The VNFCs to replace, by their `id` in `inventory`. Never empty unless the instance has none.
    pub vnfcs: Vec<String>,
    /// Their volumes too.
    pub with_storage: bool,
}

/// What `check` found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VimReport {
    /// What identifies the VIM behind all its addresses: for Kubernetes the UID of `kube-system`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// When the credential or the certificate that ends first ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Version and what else an operator likes to see.
    pub detail: KeyValuePairs,
}

/// Something on a VIM that says it is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnedResource {
    /// Such as `OS::Heat::Stack` or `Namespace`.
    pub kind: String,
    /// Identifier on the VIM.
    pub id: String,
    /// Name on the VIM.
    pub name: String,
    /// The instance that it says it belongs to; what several use is there once for each.
    pub instance_id: Option<String>,
}

/// A VIM has a policy that its driver does not know.
pub const NO_POLICIES: Code = Code {
    name: "vim.policy-unknown",
    kind: ErrorKind::Refused,
    means: "the VIM has a policy, and its driver enforces none; nothing was made",
    next: "take the policy off the VIM and do not share it, or use another kind of VIM",
};

/// Creates and destroys the resources of an instance on one kind of VIM. The rules are at the top of the file.
#[async_trait]
pub trait InfraDriver: Send + Sync {
    /// VIM types that it serves, the registered spelling first.
    fn vim_types(&self) -> &'static [&'static str];

    /// Says what is wrong with a connection before anybody calls it: missing or unknown members.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the member.
    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError>;

    /// Says what is wrong with a request as far as the VNFD tells; nothing is called.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the member of the request or the place in the package.
    fn validate_request(&self, allocation: &Allocation) -> Result<(), PortError>;

    /// Says what `policy` does not allow of what a request would make, as far as package and request tell; nothing is
    /// called. `prepare`, `allocate` and `heal` hold to [`Vim::policy`] with what the VIM knows.
    ///
    /// # Errors
    ///
    /// `Refused`, naming the object and the rule; also where the driver knows no policies.
    fn permit(&self, allocation: &Allocation, policy: &VimPolicy) -> Result<(), PortError> {
        let _ = allocation;
        if policy.is_open() {
            return Ok(());
        }
        let what = "the VIM has a policy, or is another tenant's, and this driver enforces none";
        Err(PortError::new(
            &NO_POLICIES,
            "hold to the policy of the VIM",
            what,
        ))
    }

    /// Logs in and looks who is there.
    ///
    /// # Errors
    ///
    /// `Unavailable` where nobody answers, `Refused` where the login is.
    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError>;

    /// Looks up what only the VIM knows. The value is journaled and given to `allocate`.
    ///
    /// # Errors
    ///
    /// `Refused` with the VIM's words where image, flavor, network or quota are not there.
    async fn prepare(&self, cx: &VimCall<'_>, what: &Allocation) -> Result<Value, PortError>;

    /// Makes it so; returns when the resources work.
    ///
    /// # Errors
    ///
    /// With the VIM's words; what was made until then stays for a retry or for `release`.
    async fn allocate(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        prepared: &Value,
    ) -> Result<Allocated, PortError>;

    /// Makes it not so; returns when the resources are gone. Absent resources are a success.
    ///
    /// # Errors
    ///
    /// With the VIM's words; the same call again goes on.
    async fn release(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        how: &Release,
    ) -> Result<(), PortError>;

    /// Replaces the VNFCs that `repair` names and brings back whatever else of the instance is missing; returns when
    /// all of it works. Addresses stay where the port stays.
    ///
    /// # Errors
    ///
    /// With the VIM's words; the same call again goes on.
    async fn heal(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        repair: &Repair,
    ) -> Result<Allocated, PortError>;

    /// What of the instance exists now, for the record of an operation that stopped on its way.
    ///
    /// # Errors
    ///
    /// Where the VIM cannot be asked.
    async fn observe(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        handle: &Value,
    ) -> Result<Allocated, PortError>;

    /// Everything on the VIM that carries the installation id.
    ///
    /// # Errors
    ///
    /// Where the VIM cannot be asked.
    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError>;

    /// The server's SSH host public keys (`ssh-ed25519 AAAA…`), where the VIM can tell (console log).
    ///
    /// # Errors
    ///
    /// Where the VIM cannot be asked; "it does not know" is an empty list.
    async fn host_keys(&self, vim: &dyn Vim, server_id: &str) -> Result<Vec<String>, PortError> {
        let _ = (vim, server_id);
        Ok(Vec::new())
    }
}
