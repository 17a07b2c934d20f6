//! The part of a plan that the VIM knows: what would happen to each resource.
//!
//! | the operation leads from, to | change |
//! |---|---|
//! | nothing, a deployment | `converge` that creates it |
//! | a deployment, another one | `converge` from the record to it, replacing the VNFCs that the row names |
//! | a deployment, nothing | `release` |
//! | a snapshot of it, or a return to one | what [`Snapshots`] plans |
//!
//! An operation that does not use the VIM changes no resource.

use crate::context::Context;
use crate::deployment::Deployment;
use crate::lcm::{SnapshotUse, Stored, TOO_LATE, Tried, recorded};
use crate::ports::{
    Allocation, Convergence, InfraDriver, Ownership, PortError, Recorded, Release, ResourceAction,
    ResourceChange, ResourcePlan, SnapshotSource, Snapshots, VimCall,
};
use crate::refusal::Refusal;
use crate::vims::{self, VimHandle};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use vnfm_descriptor::Package;
use vnfm_types::InstantiationState;

/// Time limit of a plan; a shorter limit of steps applies, too.
const TIMEOUT: Duration = Duration::from_mins(2);

/// What the operation would do to the resources of its instance.
pub(super) async fn plan(
    context: &Context,
    tried: &Tried,
    [package_before, package]: [Arc<Package>; 2],
) -> Result<ResourcePlan, Refusal> {
    let before = tried.instance.deployment.as_ref();
    let (true, Some(deployment)) = (
        tried.operation.uses_vim,
        tried.target.as_ref().or(before).cloned(),
    ) else {
        return Ok(ResourcePlan::default());
    };
    let connections = &deployment.vim_connection_info;
    if connections.is_empty() && context.ports.nfvo.is_some() {
        let why = "what is created where: the NFVO chooses the VIM in its grant";
        return Ok(ResourcePlan::unknown(why));
    }
    let tenant = &tried.instance.tenant;
    let (vim, driver) = vims::of_connections(context, tenant, connections).await?;
    let what = Allocation {
        package,
        deployment,
        instance_name: tried.instance.vnf.vnf_instance_name.clone(),
        awaits_grant: context.ports.nfvo.is_some(),
        budget: context.limits().plan,
    };
    let other = before.map(|before| Allocation {
        package: package_before,
        deployment: before.clone(),
        ..what.clone()
    });
    let planned = planned(context, tried, (&what, other.as_ref()), (&vim, &*driver)).await;
    let mut planned = planned.map_err(Refusal::of_vim)?;
    if let (Some(before), Some(target)) = (before, &tried.target) {
        note_states(&mut planned, before, target);
    }
    Ok(planned)
}

/// Asks the driver, until the deadline of a plan.
async fn planned(
    context: &Context,
    tried: &Tried,
    (what, other): (&Allocation, Option<&Allocation>),
    (vim, driver): (&VimHandle, &dyn InfraDriver),
) -> Result<ResourcePlan, PortError> {
    let instance = &tried.instance;
    let ownership = Ownership {
        installation_id: context.store().installation_id().to_owned(),
        tenant: instance.tenant.clone(),
        instance_id: instance.vnf.id.clone(),
        op_id: tried.op_id.clone(),
    };
    let (clock, timeout) = (&*context.ports.clock, TIMEOUT.min(context.limits().step));
    let cx = VimCall {
        vim,
        ownership: &ownership,
        clock,
        watcher: &(),
        deadline: clock.now().saturating_add(timeout).unwrap_or_default(),
    };
    let recorded = recorded(instance);
    let planning = async {
        match tried.snapshot.as_ref().zip(driver.snapshots()) {
            Some(used) => of_snapshot(tried, used, (&cx, &recorded), what).await,
            None => of_change(tried, driver, (&cx, &recorded), (what, other)).await,
        }
    };
    let planning = pin!(planning);
    match select(planning, clock.sleep(timeout)).await {
        Either::Left((planned, _)) => planned,
        Either::Right(_) => {
            let action = format!("plan the resources on VIM `{}`", cx.vim.name());
            Err(PortError::new(&TOO_LATE, action, "it did not finish"))
        }
    }
}

/// The plan of a change to another deployment, or to none.
async fn of_change(
    tried: &Tried,
    driver: &dyn InfraDriver,
    (cx, recorded): (&VimCall<'_>, &Recorded),
    (what, other): (&Allocation, Option<&Allocation>),
) -> Result<ResourcePlan, PortError> {
    let instance = &tried.instance;
    let release = Release {
        handle: instance.handle.clone(),
        retained: tried.retain.clone(),
        ..Release::default()
    };
    let has_resources = instance.vnf.instantiation_state == InstantiationState::Instantiated;
    let convergence = if has_resources {
        let change = Convergence::update(recorded, what).replacing(tried.replace.clone());
        match other.filter(|other| is_described_otherwise(what, other)) {
            Some(other) => change.coming_from(other),
            None => change,
        }
    } else {
        Convergence::create(what)
    };
    let change = match tried.target {
        Some(_) => ResourceChange::Converge(&convergence),
        None => ResourceChange::Release {
            what,
            current: recorded,
            how: &release,
        },
    };
    driver.plan(cx, &change).await
}

/// The plan of a snapshot, or of a return to one.
async fn of_snapshot(
    tried: &Tried,
    (used, snapshots): (&SnapshotUse, &dyn Snapshots),
    (cx, current): (&VimCall<'_>, &Recorded),
    what: &Allocation,
) -> Result<ResourcePlan, PortError> {
    match used {
        SnapshotUse::Create(id) => {
            let source = SnapshotSource { id, current, what };
            snapshots.plan_create(cx, &source).await
        }
        SnapshotUse::Revert(record) => {
            let before = tried.instance.deployment.clone();
            let before = Allocation {
                deployment: before.unwrap_or_default(),
                ..what.clone()
            };
            let stored = Stored::from_record(record);
            let reversion = stored.reversion(current, [&before, what]);
            snapshots.plan_revert(cx, &reversion).await
        }
    }
}

/// Whether another VNFD or flavour describes the resources.
fn is_described_otherwise(what: &Allocation, other: &Allocation) -> bool {
    let description = |allocation: &Allocation| {
        let vnfd = allocation.package.vnfd().descriptor_id.clone();
        (vnfd, allocation.deployment.flavour_id.clone())
    };
    description(what) != description(other)
}

/// Notes that VNFCs which stay are started or stopped: drivers plan what exists, not whether it runs.
fn note_states(planned: &mut ResourcePlan, before: &Deployment, target: &Deployment) {
    let differs = |id: &String| before.state_of(id) != target.state_of(id);
    let vnfcs = planned.resources.iter_mut();
    let vnfcs = vnfcs.filter(|one| one.vnfc.as_ref().is_some_and(differs));
    for vnfc in vnfcs.filter(|one| one.action == ResourceAction::Keep) {
        vnfc.action = ResourceAction::Update;
        vnfc.because.push("vnfState".to_owned());
    }
}
