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
//! | logins for programs inside VNFs | [`Credentials`], if the driver offers it |
//! | networks that outlive instances | [`Links`], if the driver offers it |
//! | volumes that outlive instances | [`Volumes`], if the driver offers it |
//! | nothing: the VIM itself, or someone else, changes VNFCs | [`Observes`], if the driver offers it; then `observe` |
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
//! | `converge` connects VNFCs to the external links of the target, and lists these with their ports | if it [`changes_ext_connectivity`](InfraDriver::changes_ext_connectivity) |
//! | `converge` leaves VNFCs stopped that the target has stopped | if it offers [`Power`] |
//! | `release` of absent resources succeeds; it returns once they are deleted | yes |
//! | a VNFC's `id` changes when it is replaced, and only then | yes |
//! | `observe` changes nothing, and lists what exists in any state | yes |
//! | the connection is fetched from [`Vim::connection`] at each login, never cached | yes |
//! | each call holds a slot ([`Vim::acquire_slot`]), a pause between two calls does not | yes |
//! | waits end at [`VimCall::deadline`], and report their reason through [`Watcher::waiting`](super::Watcher::waiting) | yes |

use super::{
    Allocation, ClusterCapabilities, Code, Convergence, Credentials, ErrorKind, IssuedKubeconfig,
    Links, Observes, PortError, Power, Recorded, Release, ResourceChange, ResourcePlan, Snapshots,
    Vim, VimCall, VimReport, Volumes,
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vnfm_types::{KeyValuePairs, VimConnectionInfo, VimPolicy};

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
    /// The shared virtual link that it is; then only that link accounts for it.
    pub link_id: Option<String>,
    /// The retained volume that it is; then only that volume accounts for it.
    pub volume_id: Option<String>,
}

/// The driver of a VIM does not enforce policies.
pub const NO_POLICIES: Code = Code {
    name: "vim.policy-unknown",
    kind: ErrorKind::Refused,
    means: "the VIM has a policy, and its driver enforces none; nothing was created",
    next: "remove the policy from the VIM and do not share it, or use another kind of VIM",
};

/// The VIM is no Kubernetes cluster.
pub const NO_CAPABILITIES: Code = Code {
    name: "vim.no-cluster",
    kind: ErrorKind::Refused,
    means: "what only a Kubernetes cluster has was requested of a VIM that is no Kubernetes cluster",
    next: "name a VIM of the type `ETSINFV.KUBERNETES.V_1`; `vnfmctl vim list` shows the types",
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

    /// What the cluster offers, as far as `tenant` may read it; bounded, and changes nothing.
    ///
    /// # Errors
    ///
    /// `Refused` if the VIM is no Kubernetes cluster; `Unavailable` if there is no response. What the login may not read is
    /// no error, but unknown.
    async fn capabilities(
        &self,
        vim: &dyn Vim,
        tenant: &str,
    ) -> Result<ClusterCapabilities, PortError> {
        let _ = tenant;
        let kind = self.vim_types()[0];
        let detail = format!("it is of the type `{kind}`, and only Kubernetes clusters have them");
        let action = "read the capabilities of the cluster";
        Err(PortError::new(&NO_CAPABILITIES, action, detail).on(vim.name()))
    }

    /// A kubeconfig with all rights on the cluster, which expires after `seconds` (600 or more), or earlier if the API
    /// server limits it.
    ///
    /// # Errors
    ///
    /// `Refused` if the VIM is no Kubernetes cluster, or its login may not issue one; `Unavailable` if there is no response.
    async fn issue_kubeconfig(
        &self,
        vim: &dyn Vim,
        seconds: u32,
    ) -> Result<IssuedKubeconfig, PortError> {
        let _ = seconds;
        let kind = self.vim_types()[0];
        let detail = format!("it is of the type `{kind}`, and only Kubernetes clusters have one");
        Err(PortError::new(&NO_CAPABILITIES, "issue a kubeconfig", detail).on(vim.name()))
    }

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

    /// The instance's current resources, for the record of a failed operation or after changes outside of operations.
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

    /// How it creates and deletes shared virtual links; `None`: it cannot.
    fn links(&self) -> Option<&dyn Links> {
        None
    }

    /// How it retains volumes and deletes them; `None`: it cannot.
    fn volumes(&self) -> Option<&dyn Volumes> {
        None
    }

    /// How it creates logins for programs inside VNFs; `None`: it cannot, and hooks get none.
    fn credentials(&self) -> Option<&dyn Credentials> {
        None
    }

    /// The outputs of the instance's template, by name; empty if it has none, or the VIM knows no outputs. May contain secrets.
    ///
    /// # Errors
    ///
    /// If the VIM does not respond.
    async fn outputs(&self, cx: &VimCall<'_>) -> Result<KeyValuePairs, PortError> {
        let _ = cx;
        Ok(KeyValuePairs::new())
    }

    /// How it tells which instances change outside of operations; `None`: it cannot, and records follow only operations.
    fn observes(&self) -> Option<&dyn Observes> {
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
