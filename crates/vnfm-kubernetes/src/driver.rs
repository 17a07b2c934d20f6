//! [`KubernetesDriver`]: the port, one short function per method.

use crate::amount;
use crate::apply::{self, How, NamespaceState, Placed, look_for_ours, namespace_state, place};
use crate::catalog::{Catalog, Target};
use crate::client::Session;
use crate::connection::{Connection, Trust};
use crate::delete::{Handle, unmake};
use crate::errors::{GRANT, MANIFEST, UNEXPECTED};
use crate::heal::{heal, wait_whole};
use crate::inventory::{inventory, is_short};
use crate::manifests::Plan;
use crate::names;
use crate::owned::owned;
use crate::policy;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::task::spawn_blocking;
use vnfm_core::ports::{
    Allocated, Allocation, Granted, InfraDriver, Inventory, OwnedResource, PortError, Release,
    Repair, Vim, VimCall, VimReport,
};
use vnfm_outbound::Destinations;
use vnfm_types::{KeyValuePairs, VimConnectionInfo, VimPolicy};

/// The driver of Kubernetes clusters. It holds nothing: every call logs in with what the VIM says then.
#[derive(Debug, Clone)]
pub struct KubernetesDriver {
    to: Destinations,
}

impl KubernetesDriver {
    /// A driver for clusters that are where `to` allows, as are their proxies.
    pub fn new(to: Destinations) -> Self {
        Self { to }
    }
}

#[async_trait]
impl InfraDriver for KubernetesDriver {
    fn vim_types(&self) -> &'static [&'static str] {
        &[vnfm_types::KUBERNETES, "kubernetes"]
    }

    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError> {
        Connection::read(connection)?.client_check()
    }

    fn validate_request(&self, allocation: &Allocation) -> Result<(), PortError> {
        let flavour = &allocation.deployment.flavour_id;
        if allocation.package.vnfd().flavour(flavour).is_none() {
            let text = format!("the VNFD has no flavour `{flavour}`");
            return Err(PortError::new(&MANIFEST, "use the request", text).on("flavourId"));
        }
        checked(allocation, &Plan::read(allocation, "0", None)?)
    }

    fn permit(&self, allocation: &Allocation, policy: &VimPolicy) -> Result<(), PortError> {
        if policy.is_open() {
            return Ok(());
        }
        let plan = Plan::read(allocation, "0", None)?;
        policy::permit(&plan, plan.is_named, policy)
    }

    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError> {
        let session = Session::new(vim, &self.to);
        let version = session
            .call("ask the API server for its version", |client| async move {
                client.apiserver_version().await
            })
            .await?;
        let identity = apply::look(&session, &Target::of_namespace("kube-system")).await;
        let connection = Connection::read(&vim.connection().await?.info)?;
        let mut detail = KeyValuePairs::new();
        detail.insert("version".into(), version.git_version.into());
        detail.insert("login".into(), connection.login_kind().into());
        let ends = connection.ends();
        if let Some((_, what)) = ends {
            detail.insert("expires".into(), what.into());
        }
        if connection.trust == Trust::Unverified {
            detail.insert("warning".into(), UNVERIFIED.into());
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

    async fn prepare(&self, cx: &VimCall<'_>, what: &Allocation) -> Result<Value, PortError> {
        honoured(&what.deployment.placement)?;
        let session = Session::within(cx, &self.to)?;
        let plan = planned(cx, what, session.namespace().await?).await?;
        checked(what, &plan)?;
        let stages = placed(&session, &plan).await?;
        let state = namespace_state(&session, cx.ownership, &plan.namespace).await?;
        policy::permit_placed(&plan, &stages, cx.vim.policy(), Some(state))?;
        for placed in stages.iter().flatten() {
            let target = &placed.target;
            let is_new = state == NamespaceState::Absent
                && target.namespace.as_deref() == Some(&plan.namespace);
            if !is_new && *target != Target::of_namespace(&plan.namespace) {
                look_for_ours(&session, cx.ownership, target).await?;
            }
        }
        warn_if_unverified(cx, &session).await?;
        Ok(json!({"namespace": plan.namespace, "objects": plan.items().count()}))
    }

    async fn allocate(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        prepared: &Value,
    ) -> Result<Allocated, PortError> {
        let session = Session::within(cx, &self.to)?;
        let wanted = prepared
            .get("namespace")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let wanted = if wanted.is_some() {
            wanted
        } else {
            session.namespace().await?
        };
        let plan = planned(cx, what, wanted).await?;
        checked(what, &plan)?;
        let catalog = Catalog::new(&session, plan.items().map(|item| &item.object));
        let stages = place(&plan, &catalog).await?;
        policy::permit_placed(&plan, &stages, cx.vim.policy(), None)?;
        let how = How::default();
        let uids = apply::make(cx, &session, &plan.namespace, &stages, how).await?;
        let inventory = whole(cx, &session, &catalog, (what, &stages)).await?;
        let handle = Handle::of(&plan.namespace, &stages, &uids);
        let handle = serde_json::to_value(handle).map_err(|error| unwritable(&error))?;
        let mut metadata = KeyValuePairs::new();
        metadata.insert("namespace".into(), plan.namespace.into());
        Ok(Allocated {
            handle,
            inventory,
            metadata,
        })
    }

    async fn release(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        how: &Release,
    ) -> Result<(), PortError> {
        let session = Session::within(cx, &self.to)?;
        let (namespace, stages) = match serde_json::from_value::<Handle>(how.handle.clone()) {
            Ok(handle) => (handle.namespace.clone(), handle.reversed()),
            Err(_) => recomputed(cx, &session, what).await?,
        };
        unmake(cx, &session, &namespace, &stages, how.grace_seconds).await
    }

    async fn heal(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        repair: &Repair,
    ) -> Result<Allocated, PortError> {
        let session = Session::within(cx, &self.to)?;
        let handle = serde_json::from_value::<Handle>(repair.handle.clone()).ok();
        let wanted = match &handle {
            Some(handle) => Some(handle.namespace.clone()),
            None => session.namespace().await?,
        };
        let plan = planned(cx, what, wanted).await?;
        checked(what, &plan)?;
        let catalog = Catalog::new(&session, plan.items().map(|item| &item.object));
        let stages = place(&plan, &catalog).await?;
        policy::permit_placed(&plan, &stages, cx.vim.policy(), None)?;
        let before = handle.unwrap_or_default();
        let uids = heal(cx, &session, (&plan.namespace, &stages), (&before, repair)).await?;
        let inventory = whole(cx, &session, &catalog, (what, &stages)).await?;
        let handle = Handle::of(&plan.namespace, &stages, &uids).with(before);
        let handle = serde_json::to_value(handle).map_err(|error| unwritable(&error))?;
        let mut metadata = KeyValuePairs::new();
        metadata.insert("namespace".into(), plan.namespace.into());
        Ok(Allocated {
            handle,
            inventory,
            metadata,
        })
    }

    async fn observe(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        handle: &Value,
    ) -> Result<Allocated, PortError> {
        let session = Session::within(cx, &self.to)?;
        let (namespace, stages) = match serde_json::from_value::<Handle>(handle.clone()) {
            Ok(handle) => (handle.namespace.clone(), handle.reversed()),
            Err(_) => recomputed(cx, &session, what).await?,
        };
        let targets = stages.iter().flatten();
        let mut places: BTreeSet<String> = targets
            .filter_map(|target| target.namespace.clone())
            .collect();
        places.insert(namespace.clone());
        let catalog = Catalog::new(&session, std::iter::empty());
        let flavour = what.package.vnfd().flavour(&what.deployment.flavour_id);
        let inventory = inventory(cx, &session, &catalog, flavour, &places).await?;
        let mut metadata = KeyValuePairs::new();
        metadata.insert("namespace".into(), namespace.into());
        // A handle that is lost stays so: release then looks for everything that the package describes.
        Ok(Allocated {
            handle: handle.clone(),
            inventory,
            metadata,
        })
    }

    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        owned(&Session::new(vim, &self.to), installation_id).await
    }
}

const UNVERIFIED: &str = "the API server's certificate is not verified (`ssl_ca_cert` is `None`): anybody on the way can read the credential";

async fn warn_if_unverified(cx: &VimCall<'_>, session: &Session<'_>) -> Result<(), PortError> {
    if !session.is_verified().await? {
        cx.watcher.log(
            "warn",
            "kubernetes",
            &format!("VIM `{}`: {UNVERIFIED}", session.vim()),
        );
    }
    Ok(())
}

/// The objects of the package. It is a matter of processor time alone, and nobody else is to wait for that.
async fn planned(
    cx: &VimCall<'_>,
    what: &Allocation,
    namespace: Option<String>,
) -> Result<Plan, PortError> {
    let (what, instance) = (what.clone(), cx.ownership.instance_id.clone());
    let planning = spawn_blocking(move || Plan::read(&what, &instance, namespace.as_deref()));
    planning.await.unwrap_or_else(|error| {
        Err(PortError::new(
            &UNEXPECTED,
            "plan the objects",
            error.to_string(),
        ))
    })
}

/// Refuses a plan with a name that no cluster stores, or that comes to more than the budget has.
fn checked(what: &Allocation, plan: &Plan) -> Result<(), PortError> {
    names::check(plan)?;
    amount::check(plan, &what.budget)
}

async fn placed(session: &Session<'_>, plan: &Plan) -> Result<Vec<Vec<Placed>>, PortError> {
    place(
        plan,
        &Catalog::new(session, plan.items().map(|item| &item.object)),
    )
    .await
}

/// The namespaces in which the VNF's objects are.
fn namespaces(stages: &[Vec<Placed>]) -> BTreeSet<String> {
    stages
        .iter()
        .flatten()
        .filter_map(|placed| placed.target.namespace.clone())
        .collect()
}

/// What is there, once all of it is. A pod that somebody drains between the last look and the list is in neither: where
/// the list is short of one, its successor is waited for.
async fn whole(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    catalog: &Catalog<'_>,
    (what, stages): (&Allocation, &[Vec<Placed>]),
) -> Result<Inventory, PortError> {
    let flavour = what.package.vnfd().flavour(&what.deployment.flavour_id);
    let places = namespaces(stages);
    let found = inventory(cx, session, catalog, flavour, &places).await?;
    let objects = stages
        .iter()
        .flatten()
        .map(|placed| (&placed.target, &placed.item.object));
    if !is_short(&found, flavour, objects) {
        return Ok(found);
    }
    wait_whole(cx, session, stages, &[]).await?;
    inventory(cx, session, catalog, flavour, &places).await
}

/// What a lost handle said: the package's objects, last stage first. A kind that is not served has no objects.
async fn recomputed(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    what: &Allocation,
) -> Result<(String, Vec<Vec<Target>>), PortError> {
    let plan = planned(cx, what, session.namespace().await?).await?;
    let catalog = Catalog::new(session, plan.items().map(|item| &item.object));
    let mut stages = Vec::new();
    for stage in plan.stages.iter().rev() {
        let mut targets = Vec::new();
        for item in stage.iter().rev() {
            if let Some(kind) = catalog.find(&item.api_version, &item.kind).await? {
                targets.push(apply::place_one(item, &kind, &plan.namespace).target);
            }
        }
        stages.push(targets);
    }
    Ok((plan.namespace, stages))
}

fn unwritable(error: &serde_json::Error) -> PortError {
    PortError::new(&UNEXPECTED, "write down what was made", error.to_string())
}

/// Of what an NFVO may prescribe a cluster knows nothing: refused by name.
fn honoured(granted: &Granted) -> Result<(), PortError> {
    let Granted {
        zones,
        flavours,
        images,
        managed_links,
        managed_link_ids: _,
        resource_groups,
    } = granted;
    let first = [
        ("zone", zones),
        ("flavor", flavours),
        ("image", images),
        ("network", managed_links),
    ]
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
        Some(what) => {
            let what = format!("it prescribes {what}, which objects of a package do not take");
            Err(PortError::new(&GRANT, "do what the grant prescribes", what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::honoured;
    use vnfm_core::ports::Granted;

    #[test]
    fn what_a_cluster_cannot_do_is_refused_by_name() {
        honoured(&Granted::default()).unwrap();
        let zones = [("compute/web/0".to_owned(), "edge".to_owned())].into();
        let error = honoured(&Granted {
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
        let error = honoured(&Granted {
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
