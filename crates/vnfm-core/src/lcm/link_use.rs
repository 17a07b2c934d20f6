//! Which shared virtual links an instance uses: those whose networks are external or externally managed links of its
//! deployment. A link that is used cannot be deleted.
//!
//! ```text
//! take_links ── before resources are connected: the links of the deployment before and of the target count as used
//! give_back_links ── at the end: only those of the target; none after a termination
//! ```
//! A link is named by its `resourceId` on the VIM, or by the name of its network. A plan does
//! not know the networks that only a grant will name.

use super::Op;
use super::step::{Ends, Output, Step, silent};
use crate::deployment::Deployment;
use crate::ports::{Change, LinkRecord, StoreError, registered_vim};
use crate::query::Query;
use std::collections::BTreeSet;
use vnfm_types::LcmOperationState::Processing;
use vnfm_types::LinkState;

/// Counts the links as used; a rollback returns to those of the deployment before.
pub(super) const TAKE: Step = Step::new("take_links", Processing, |op| silent(take(op)))
    .undone_by(|op| silent(return_to_before(op)))
    .only_if(names_links);

/// Gives back what the target does not use; a rollback takes it again.
pub(super) const GIVE_BACK: Step =
    Step::new("give_back_links", Processing, |op| silent(give_back(op)))
        .undone_by(|op| silent(take(op)))
        .only_if(names_links);

fn names_links(ends: &Ends<'_>) -> bool {
    let mut both = [ends.before, ends.target].into_iter();
    both.any(|deployment| networks(deployment).next().is_some())
}

async fn take(op: &Op) -> Output<()> {
    let (before, target) = (op.record.before.as_deref(), op.record.target.as_deref());
    set(op, before.into_iter().chain(target)).await
}

async fn return_to_before(op: &Op) -> Output<()> {
    set(op, op.record.before.as_deref().into_iter()).await
}

async fn give_back(op: &Op) -> Output<()> {
    set(op, op.record.target.as_deref().into_iter()).await
}

/// From now on the instance uses the links of these deployments, and no others.
async fn set<'d>(op: &Op, deployments: impl Iterator<Item = &'d Deployment>) -> Output<()> {
    let mut links = BTreeSet::new();
    for deployment in deployments {
        for network in networks(deployment) {
            links.extend(links_of(op, deployment, network).await?);
        }
    }
    let uses = Change::SetLinkUses {
        tenant: op.tenant().to_owned(),
        instance_id: op.instance.vnf.id.clone(),
        links: links.into_iter().collect(),
    };
    Ok(op
        .context
        .store()
        .write(Some(&op.fence), vec![uses])
        .await?)
}

/// The networks of a deployment that the VNFM does not create for it.
fn networks(deployment: &Deployment) -> impl Iterator<Item = &str> {
    let external = deployment
        .ext_virtual_links
        .iter()
        .map(|link| link.resource_id.as_str());
    let managed = deployment.ext_managed_virtual_links.iter();
    let managed = managed.map(|link| link.resource_id.as_str());
    external.chain(managed)
}

/// The ids of the shared virtual links that a network of the deployment is.
async fn links_of(
    op: &Op,
    deployment: &Deployment,
    network: &str,
) -> Result<Vec<String>, StoreError> {
    let (store, tenant) = (op.context.store(), op.tenant());
    let vim = registered_vim(Some(deployment));
    let namespace = deployment
        .additional_params
        .get("namespace")
        .and_then(|name| name.as_str());
    let name = network.rsplit('/').next().unwrap_or(network);
    let is_it = |record: &LinkRecord| {
        let link = &record.link;
        let is_id = link.resource_id.as_deref() == Some(network);
        let is_near = link.spec.namespace.is_none() || link.spec.namespace.as_deref() == namespace;
        let is_name = link.spec.name == network && is_near;
        let exists = link.state != LinkState::Creating;
        exists && vim.as_ref() == Some(&link.spec.vim_id) && (is_id || is_name)
    };
    let mut found = store
        .links(tenant, &Query::only("resourceId", network))
        .await?;
    found.extend(store.links(tenant, &Query::only("name", name)).await?);
    found.retain(is_it);
    Ok(found.into_iter().map(|record| record.link.id).collect())
}
