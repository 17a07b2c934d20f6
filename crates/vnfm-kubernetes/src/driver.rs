//! [`KubernetesDriver`]: implements the port `InfraDriver`.

use crate::apply::{find_ours, namespace_state, resolve_stages};
use crate::attach;
use crate::attachments::unattached;
use crate::autoscaled;
use crate::capabilities;
use crate::catalog::{Catalog, Target};
use crate::chart_tests;
use crate::client::{Session, no_helm};
use crate::clients::Clients;
use crate::cluster_kubeconfigs::kubeconfigs;
use crate::connection::{Connection, Trust};
use crate::connectivity::wait_until_attached;
use crate::converge::{converge, prune_other};
use crate::delete::{Handle, delete_stages};
use crate::errors::{GRANT, MANIFEST, UNEXPECTED};
use crate::heal::wait_until_complete;
use crate::helm_account;
use crate::helm_releases;
use crate::inventory::{inventory, is_incomplete};
use crate::kubeconfig;
use crate::manifests::Plan;
use crate::object::find_metadata;
use crate::object_policy;
use crate::owned::owned;
use crate::package_images;
use crate::plan;
use crate::planned::{
    check_plan, claim_hooks, planned_as, read_plan, recorded_targets, release_names, resolve_plan,
};
use crate::power::started;
use crate::requested;
use crate::resolved::{NamespaceState, ResolvedObject};
use crate::storages::Scope;
use crate::volume_reservation::{Places, hand_over};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use vnfm_core::ports::{
    Allocation, ClusterCapabilities, Convergence, Granted, InfraDriver, Inventory,
    IssuedKubeconfig, Links, Observes, OwnedResource, PortError, Power, Recorded, Release,
    ResourceChange, ResourcePlan, Snapshots, Vim, VimCall, VimReport, Volumes,
};
use vnfm_helm::Helm;
use vnfm_outbound::Destinations;
use vnfm_types::{KeyValuePairs, VimConnectionInfo, VimPolicy};

/// The driver of Kubernetes clusters. Every call uses the VIM's current connection; calls to one cluster share a client.
#[derive(Clone)]
pub struct KubernetesDriver {
    clients: Arc<Clients>,
    helm: Option<Helm>,
}

impl KubernetesDriver {
    /// Creates a driver that connects only to clusters and proxies that `to` allows.
    pub fn new(to: Destinations) -> Self {
        Self {
            clients: Arc::new(Clients::new(to)),
            helm: None,
        }
    }

    /// The same driver, which installs the charts of packages with `helm`. Without one it refuses such packages.
    #[must_use]
    pub fn with_helm(mut self, helm: Helm) -> Self {
        self.helm = Some(helm);
        self
    }
}

#[async_trait]
impl InfraDriver for KubernetesDriver {
    fn vim_types(&self) -> &'static [&'static str] {
        &[vnfm_types::KUBERNETES, "kubernetes", vnfm_types::HELM]
    }

    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError> {
        Connection::read(connection)?.check_certificates()
    }

    fn validate_request(&self, allocation: &Allocation) -> Result<(), PortError> {
        let flavour = &allocation.deployment.flavour_id;
        if allocation.package.vnfd().flavour(flavour).is_none() {
            let text = format!("the VNFD has no flavour `{flavour}`");
            return Err(PortError::new(&MANIFEST, "use the request", text).on("flavourId"));
        }
        let plan = Plan::read(allocation, "0", None)?;
        if !plan.charts.is_empty() && self.helm.is_none() {
            return Err(no_helm());
        }
        check_plan(allocation, &plan)
    }

    fn permit(&self, allocation: &Allocation, policy: &VimPolicy) -> Result<(), PortError> {
        if policy.is_open() {
            return Ok(());
        }
        let plan = Plan::read(allocation, "0", None)?;
        object_policy::permit(&plan, plan.is_named, policy)
    }

    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError> {
        let session = Session::new(vim, &self.clients);
        let version = session.version().await?;
        let identity = find_metadata(&session, &Target::namespace("kube-system")).await;
        let connection = Connection::read(&vim.connection().await?.info)?;
        let mut detail = KeyValuePairs::new();
        detail.insert("version".into(), version.into());
        detail.insert("login".into(), connection.login_kind().into());
        let ends = connection.earliest_expiry();
        if let Some((_, allocation)) = ends {
            detail.insert("expires".into(), allocation.into());
        }
        if connection.trust == Trust::Unverified {
            detail.insert("warning".into(), UNVERIFIED_WARNING.into());
        }
        if let Some(registry) = package_images::check_registry(&session).await? {
            detail.insert("registry".into(), registry.into());
        }
        let identity = match identity {
            Ok(namespace) => namespace.and_then(|metadata| metadata.uid),
            Err(error) if error.code() == &crate::errors::FORBIDDEN => {
                detail.insert("identity".into(), format!("unknown: {error}").into());
                None
            }
            Err(error) => return Err(error),
        };
        Ok(VimReport {
            identity,
            expires_at: ends.map(|(at, _)| at),
            detail,
        })
    }

    async fn capabilities(
        &self,
        vim: &dyn Vim,
        tenant: &str,
    ) -> Result<ClusterCapabilities, PortError> {
        let session = Session::for_tenant(vim, &self.clients, tenant)?;
        capabilities::capabilities(&session.with_helm(self.helm.as_ref())).await
    }

    async fn issue_kubeconfig(
        &self,
        vim: &dyn Vim,
        seconds: u32,
    ) -> Result<IssuedKubeconfig, PortError> {
        kubeconfig::issue(&Session::new(vim, &self.clients), seconds).await
    }

    async fn preview(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
    ) -> Result<Value, PortError> {
        let allocation = change.target;
        check_supported(&allocation.deployment.placement)?;
        let session = self.session_for(cx, allocation)?;
        let notes = capabilities::require(&session, change).await?;
        capabilities::log(cx, &notes);
        let plan = read_plan((cx, &session), allocation, session.namespace().await?).await?;
        check_plan(allocation, &plan)?;
        package_images::check(&session, &plan, allocation).await?;
        let stages = resolve_plan(&session, &plan).await?;
        let state = namespace_state(&session, cx.ownership, &plan.namespace).await?;
        helm_account::permit(&session, &plan, &stages, Some(state)).await?;
        attach::require(&session, &plan).await?;
        helm_account::check_rights(&session, &plan).await?;
        note_unattached(cx, allocation, &plan);
        if state != NamespaceState::Absent {
            for chart in &plan.charts {
                helm_releases::check(cx, &session, &plan.namespace, chart).await?;
            }
        }
        for resolved in stages.iter().flatten() {
            let target = &resolved.target;
            let is_new = state == NamespaceState::Absent
                && target.namespace.as_deref() == Some(&plan.namespace);
            if !is_new && *target != Target::namespace(&plan.namespace) {
                find_ours(&session, cx.ownership, target).await?;
            }
        }
        warn_if_unverified(cx, &session).await?;
        Ok(json!({"namespace": plan.namespace, "objects": plan.items().count()}))
    }

    async fn plan(
        &self,
        cx: &VimCall<'_>,
        change: &ResourceChange<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let what = match *change {
            ResourceChange::Converge(change) => change.target,
            ResourceChange::Release { what, .. } => what,
        };
        let session = self.session_for(cx, what)?;
        match *change {
            ResourceChange::Converge(change) => {
                check_supported(&change.target.deployment.placement)?;
                let notes = capabilities::require(&session, change).await?;
                let before = serde_json::from_value::<Handle>(change.handle().clone()).ok();
                let namespace = match before {
                    Some(handle) => Some(handle.namespace),
                    None => session.namespace().await?,
                };
                let plan = read_plan((cx, &session), change.target, namespace).await?;
                check_plan(change.target, &plan)?;
                package_images::check(&session, &plan, change.target).await?;
                let mut planned = plan::convergence(cx, &session, &plan, change).await?;
                planned.unknown.extend(notes);
                Ok(planned)
            }
            ResourceChange::Release { what, how, .. } => {
                let (namespace, stages) = recorded_targets(cx, &session, what, &how.handle).await?;
                plan::release(cx, &session, (&namespace, &stages), what).await
            }
        }
    }

    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<Recorded, PortError> {
        let (session, allocation) = (self.session_for(cx, change.target)?, change.target);
        let before = serde_json::from_value::<Handle>(change.handle().clone()).ok();
        let previewed = || preview.get("namespace").and_then(Value::as_str);
        let namespace = before.as_ref().map(|handle| handle.namespace.clone());
        let namespace = match namespace.or_else(|| previewed().map(str::to_owned)) {
            None => session.namespace().await?,
            known => known,
        };
        let plan = read_plan((cx, &session), allocation, namespace).await?;
        check_plan(allocation, &plan)?;
        let catalog = Catalog::new(&session, plan.items().map(|item| &item.object));
        let stages = resolve_stages(&plan, &catalog).await?;
        helm_account::permit(&session, &plan, &stages, None).await?;
        for notice in stages.iter().flatten().filter_map(autoscaled::notice) {
            cx.watcher.log("info", "kubernetes", &notice);
        }
        package_images::push(cx, &session, &plan, allocation).await?;
        let before = before.unwrap_or_default();
        let planned = (
            plan.namespace.as_str(),
            stages.as_slice(),
            plan.charts.as_slice(),
        );
        let reused = &allocation.deployment.reused_volumes;
        let places = Places {
            namespace: planned.0,
            stages: planned.1,
        };
        hand_over(cx, &self.session(cx)?, &places, reused).await?;
        let handle = converge(cx, &session, planned, (&before, change)).await?;
        if requested::wants_tests(allocation)? {
            chart_tests::run_all(cx, &session, (planned.0, planned.2)).await?;
        }
        if let Some(before) = change.other {
            let other = planned_as(cx, &session, &started(before), change.handle()).await?;
            let stages = resolve_plan(&session, &other).await?;
            prune_other(cx, &session, &handle, (&stages, &other.charts)).await?;
            let kept = Some((&plan, &*allocation.package));
            package_images::give_up(cx, &session, &before.package, kept).await?;
        }
        let namespaces = namespaces(&stages);
        wait_until_attached(cx, &session, &namespaces, &plan.attachments).await?;
        let inventory = complete_inventory(cx, &session, &catalog, (allocation, &stages)).await?;
        let handle = serde_json::to_value(handle).map_err(|error| unserializable(&error))?;
        let mut metadata = KeyValuePairs::new();
        metadata.insert("namespace".into(), plan.namespace.into());
        Ok(Recorded {
            handle,
            inventory,
            metadata,
            ..Recorded::default()
        })
    }

    async fn release(
        &self,
        cx: &VimCall<'_>,
        allocation: &Allocation,
        how: &Release,
    ) -> Result<(), PortError> {
        let session = self.session_for(cx, allocation)?;
        let (namespace, stages) = recorded_targets(cx, &session, allocation, &how.handle).await?;
        let releases = release_names(allocation, &how.handle);
        if !releases.is_empty() {
            claim_hooks(cx, &session, allocation, &how.handle).await?;
        }
        for release in releases.iter().rev() {
            helm_releases::uninstall(cx, &session, release, &namespace).await?;
        }
        delete_stages(cx, &session, &namespace, &stages, how.grace_seconds).await?;
        package_images::give_up(cx, &session, &allocation.package, None).await
    }

    async fn outputs(&self, cx: &VimCall<'_>) -> Result<KeyValuePairs, PortError> {
        kubeconfigs(cx, &self.session(cx)?).await
    }

    async fn observe(
        &self,
        cx: &VimCall<'_>,
        allocation: &Allocation,
        handle: &Value,
    ) -> Result<Recorded, PortError> {
        let session = self.session_for(cx, allocation)?;
        let (namespace, stages) = recorded_targets(cx, &session, allocation, handle).await?;
        let mut scope = Scope::from_targets(stages.iter().flatten());
        scope.namespaces.insert(namespace.clone());
        let catalog = Catalog::new(&session, std::iter::empty());
        let inventory = inventory(cx, &session, &catalog, allocation, &scope).await?;
        let mut metadata = KeyValuePairs::new();
        metadata.insert("namespace".into(), namespace.into());
        // A lost handle stays lost: release then searches for everything that the package describes.
        Ok(Recorded {
            handle: handle.clone(),
            inventory,
            metadata,
            ..Recorded::default()
        })
    }

    fn changes_ext_connectivity(&self) -> bool {
        true
    }

    fn power(&self) -> Option<&dyn Power> {
        Some(self)
    }

    fn links(&self) -> Option<&dyn Links> {
        Some(self)
    }

    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }

    fn observes(&self) -> Option<&dyn Observes> {
        Some(self)
    }

    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        let session = Session::new(vim, &self.clients);
        let mut owned = owned(&session, installation_id).await?;
        owned.extend(package_images::owned(&session, installation_id).await?);
        Ok(owned)
    }
}

impl KubernetesDriver {
    /// A session with the VIM's own login.
    pub(crate) fn session_of<'a>(&'a self, vim: &'a dyn Vim) -> Session<'a> {
        Session::new(vim, &self.clients)
    }

    /// A session for one operation.
    pub(crate) fn session<'a>(&'a self, cx: &'a VimCall<'a>) -> Result<Session<'a>, PortError> {
        Ok(Session::for_operation(cx, &self.clients)?.with_helm(self.helm.as_ref()))
    }

    /// A session for one operation on this instance.
    pub(crate) fn session_for<'a>(
        &'a self,
        cx: &'a VimCall<'a>,
        what: &Allocation,
    ) -> Result<Session<'a>, PortError> {
        let session = self.session(cx)?;
        Ok(session.with_role(&what.deployment.role_namespaces))
    }
}

const UNVERIFIED_WARNING: &str = "the API server's certificate is not verified (`ssl_ca_cert` is `None`): an attacker on the network can read the credential";

async fn warn_if_unverified(cx: &VimCall<'_>, session: &Session<'_>) -> Result<(), PortError> {
    if !session.is_verified().await? {
        cx.watcher.log(
            "warn",
            "kubernetes",
            &format!("VIM `{}`: {UNVERIFIED_WARNING}", session.vim()),
        );
    }
    Ok(())
}

/// Logs which connection points the pods will not have.
fn note_unattached(cx: &VimCall<'_>, allocation: &Allocation, plan: &Plan) {
    let Some(flavour) = requested::flavour(allocation) else {
        return;
    };
    for cpd in unattached(&flavour, &plan.attachments) {
        let text = format!(
            "connection point `{cpd}` gets no interface: neither the request nor the package names its network"
        );
        cx.watcher.log("warn", "kubernetes", &text);
    }
}

/// The namespaces of the VNF's objects.
pub(crate) fn namespaces(stages: &[Vec<ResolvedObject>]) -> BTreeSet<String> {
    stages
        .iter()
        .flatten()
        .filter_map(|resolved| resolved.target.namespace.clone())
        .collect()
}

/// The inventory, once it is complete. A pod that is drained between the wait and the list is in neither: if one is
/// missing, waits for its successor.
async fn complete_inventory(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    catalog: &Catalog<'_>,
    (allocation, stages): (&Allocation, &[Vec<ResolvedObject>]),
) -> Result<Inventory, PortError> {
    let flavour = requested::flavour(allocation);
    let scope = Scope::from_targets(stages.iter().flatten().map(|resolved| &resolved.target));
    let found = inventory(cx, session, catalog, allocation, &scope).await?;
    let objects = stages
        .iter()
        .flatten()
        .map(|resolved| (&resolved.target, &resolved.item.object));
    if !is_incomplete(&found, flavour.as_deref(), objects) {
        return Ok(found);
    }
    wait_until_complete(cx, session, stages, &[]).await?;
    inventory(cx, session, catalog, allocation, &scope).await
}

pub(crate) fn unserializable(error: &serde_json::Error) -> PortError {
    PortError::new(
        &UNEXPECTED,
        "serialize the objects of the VNF",
        error.to_string(),
    )
}

/// Refuses, by name, what a grant prescribes and a cluster does not support: everything but networks of internal links.
fn check_supported(granted: &Granted) -> Result<(), PortError> {
    let Granted {
        zones,
        flavours,
        images,
        managed_links: _,
        managed_link_ids: _,
        resource_groups,
    } = granted;
    let first = [("zone", zones), ("flavor", flavours), ("image", images)]
        .into_iter()
        .find_map(|(kind, all)| {
            all.iter()
                .next()
                .map(|(of, id)| format!("{kind} `{id}` for `{of}`"))
        });
    let group = resource_groups
        .iter()
        .next()
        .map(|group| format!("resource group `{group}`"));
    match first.or(group) {
        None => Ok(()),
        Some(item) => {
            let detail = format!("it prescribes {item}, which Kubernetes objects do not support");
            Err(PortError::new(&GRANT, "apply the grant", detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check_supported;
    use vnfm_core::ports::Granted;

    #[test]
    fn a_grant_that_a_cluster_cannot_honour_is_refused_by_name() {
        check_supported(&Granted::default()).unwrap();
        let zones = [("compute/web/0".to_owned(), "edge".to_owned())].into();
        let error = check_supported(&Granted {
            zones,
            ..Granted::default()
        })
        .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("zone `edge` for `compute/web/0`"),
            "{error}"
        );
        let resource_groups = ["nfv".to_owned()].into();
        let error = check_supported(&Granted {
            resource_groups,
            ..Granted::default()
        })
        .unwrap_err();
        assert!(
            error.to_string().contains("resource group `nfv`"),
            "{error}"
        );
    }
}
