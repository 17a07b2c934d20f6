//! One operation while it is driven: its records, what its steps produced, and the way to its neighbours.

use super::grant::Approved;
use super::step::StepOutput;
use crate::deployment::Deployment;
use crate::engine::Engine;
use crate::live::LiveOp;
use crate::ports::{
    Allocation, Change, Clock, Code, ErrorKind, Fence, InfraDriver, InstanceRecord, JournalRow,
    OpRecord, Ownership, PortError, StepStatus, Vim, VimCall, Watcher,
};
use crate::redact::Redactor;
use crate::vims::AnyVim;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_descriptor::{Flavour, Package};
use vnfm_types::v1::Edition;

/// One operation that is being driven.
pub struct Op {
    pub(crate) engine: Engine,
    /// The occurrence.
    pub record: Arc<OpRecord>,
    /// The instance, as it was when the operation was taken.
    pub instance: InstanceRecord,
    pub(crate) fence: Fence,
    pub(crate) live: Arc<LiveOp>,
    pub(crate) rows: BTreeMap<String, Arc<JournalRow>>,
    /// How the last step ended; stored with what comes next.
    pub(crate) unwritten: Vec<Change>,
    pub(crate) deadline: Timestamp,
    package: Result<Arc<Package>, PortError>,
    ownership: Ownership,
}

impl Op {
    /// Loads everything that the steps need.
    pub(crate) async fn load(
        engine: &Engine,
        tenant: &str,
        fence: Fence,
    ) -> Result<Self, crate::ports::StoreError> {
        let store = engine.store();
        let record = store.op(tenant, &fence.op_id).await?;
        let instance = store.instance(tenant, &record.op.vnf_instance_id).await?;
        let journal = store.journal(&fence.op_id).await?;
        let rows = journal
            .into_iter()
            .map(|row| (row.step.clone(), Arc::new(row)))
            .collect();
        let package = engine
            .parts
            .packages
            .package(tenant, &instance.vnf_pkg_id)
            .await;
        let live = engine.live.begin(&fence.op_id, engine.parts.clock.clone());
        let ownership = Ownership {
            installation_id: store.installation_id().to_owned(),
            tenant: tenant.to_owned(),
            instance_id: instance.vnf.id.clone(),
            op_id: fence.op_id.clone(),
        };
        let deadline = engine.parts.clock.now();
        let engine = engine.clone();
        let unwritten = Vec::new();
        let mut op = Self {
            engine,
            record: Arc::new(record),
            instance,
            fence,
            live,
            rows,
            unwritten,
            deadline,
            package,
            ownership,
        };
        op.tell_levels();
        op.take_grant();
        op.hide_secrets();
        Ok(op)
    }

    /// Sets the levels of an operation that began before they were recorded.
    fn tell_levels(&mut self) {
        let Ok(package) = &self.package else { return };
        let record = Arc::make_mut(&mut self.record);
        for deployment in [&mut record.before, &mut record.target]
            .into_iter()
            .flatten()
        {
            if deployment.vdu_instances.is_empty()
                && let Some(flavour) = package.vnfd().flavour(&deployment.flavour_id)
            {
                // A flavour that does not say how many VNFCs it has is refused when it is planned.
                let _ = Arc::make_mut(deployment).set_levels(flavour);
            }
        }
    }

    /// Applies what the NFVO has approved, if it has, to the target and the request of the operation.
    pub(crate) fn take_grant(&mut self) {
        let Ok(Some(approved)) = self.output::<Approved>() else {
            return;
        };
        approved.apply(Arc::make_mut(&mut self.record));
        self.hide_secrets();
    }

    /// Whatever the operation says from now on does not show a secret of its request.
    fn hide_secrets(&self) {
        let mut found = Redactor::default();
        found.add_well_known(&self.record.request);
        for deployment in [&self.record.before, &self.record.target]
            .into_iter()
            .flatten()
        {
            found.add_well_known(&serde_json::to_value(&**deployment).unwrap_or_default());
        }
        self.live.hide(&found);
    }

    /// Whose.
    pub fn tenant(&self) -> &str {
        &self.record.tenant
    }

    /// Time.
    pub fn clock(&self) -> &dyn Clock {
        &*self.engine.parts.clock
    }

    /// Who hears what it does.
    pub fn watcher(&self) -> &dyn Watcher {
        &*self.live
    }

    /// What an earlier step produced; `None` where it did not run, or not to its end.
    ///
    /// # Errors
    ///
    /// `Broken` where the journal holds another shape.
    pub fn output<T: StepOutput>(&self) -> Result<Option<T>, PortError> {
        let Some(row) = self
            .rows
            .get(T::STEP)
            .filter(|row| row.status != StepStatus::Undone)
        else {
            return Ok(None);
        };
        match row.output.get("data") {
            Some(data) => T::deserialize(data).map(Some).map_err(unreadable(T::STEP)),
            None => Ok(None),
        }
    }

    /// True where a step has begun and was not wholly undone.
    pub fn has_begun(&self, step: &str) -> bool {
        self.rows.get(step).is_some_and(|row| {
            matches!(
                row.status,
                StepStatus::Started | StepStatus::Done | StepStatus::Undoing
            )
        })
    }

    /// True where whoever began the operation left this hook out.
    pub(crate) fn skips(&self, hook: &str) -> bool {
        self.record
            .control
            .skip_hooks
            .iter()
            .any(|name| name == hook)
    }

    /// The version of VNF LCM in which the operation began.
    pub(crate) fn edition(&self) -> Edition {
        self.record.control.api_version
    }

    /// The request of this operation.
    ///
    /// # Errors
    ///
    /// `Broken` where the record holds another shape.
    pub fn request<T: DeserializeOwned>(&self) -> Result<T, PortError> {
        T::deserialize(&*self.record.request).map_err(unreadable("request"))
    }

    /// What the steps work towards: the target, or what the instance still is while it is terminated.
    ///
    /// # Errors
    ///
    /// `Broken` if the operation has neither.
    pub fn deployment(&self) -> Result<&Arc<Deployment>, PortError> {
        let deployment = self.record.target.as_ref().or(self.record.before.as_ref());
        deployment.ok_or_else(|| {
            let doing = "read what the instance should be";
            PortError::new(
                &JOURNAL,
                doing,
                "the operation has neither a target nor a state before it",
            )
        })
    }

    /// The package.
    ///
    /// # Errors
    ///
    /// Where its file cannot be read.
    pub fn package(&self) -> Result<&Arc<Package>, PortError> {
        self.package.as_ref().map_err(Clone::clone)
    }

    /// The flavour of the VNFD that the instance is of.
    ///
    /// # Errors
    ///
    /// Where the package cannot be read or lost the flavour.
    pub fn flavour(&self) -> Result<&Flavour, PortError> {
        let id = self.deployment()?.flavour_id.as_str();
        let vnfd = self.package()?.vnfd();
        vnfd.flavours.get(id).ok_or_else(|| {
            let what = format!("the VNFD `{}` has no flavour `{id}`", vnfd.descriptor_id);
            PortError::new(&PACKAGE, "read the VNF package", what)
        })
    }

    /// What the instance is to be made of.
    ///
    /// # Errors
    ///
    /// Where package or request cannot be read.
    pub fn allocation(&self) -> Result<Allocation, PortError> {
        Ok(Allocation {
            package: self.package()?.clone(),
            deployment: self.deployment()?.clone(),
            instance_name: self.instance.vnf.vnf_instance_name.clone(),
            awaits_grant: false,
            budget: self.engine.limits().plan,
        })
    }

    /// What the instance is to be made of, where that is not too much.
    ///
    /// # Errors
    ///
    /// As [`Op::allocation`], and where the plan comes to more than the server allows.
    pub fn allocation_to_make(&self) -> Result<Allocation, PortError> {
        let allocation = self.allocation()?;
        within_budget(&allocation)?;
        Ok(allocation)
    }

    /// The VIM of the instance, and its driver.
    ///
    /// # Errors
    ///
    /// Where it is no longer in the registry.
    pub async fn vim(&self) -> Result<(AnyVim, Arc<dyn InfraDriver>), PortError> {
        crate::vims::of_connections(
            &self.engine,
            self.tenant(),
            &self.deployment()?.vim_connection_info,
        )
        .await
        .map_err(crate::vims::as_port_error)
    }

    /// A call on `vim` for this operation's step.
    pub fn call<'a>(&'a self, vim: &'a dyn Vim) -> VimCall<'a> {
        VimCall {
            vim,
            ownership: &self.ownership,
            clock: self.clock(),
            watcher: self.watcher(),
            deadline: self.deadline,
        }
    }
}

/// Refuses an instance that is made of too much, by numbers alone: nothing is made of what is counted.
///
/// # Errors
///
/// `Refused` with the limit and its setting.
pub(crate) fn within_budget(what: &Allocation) -> Result<(), PortError> {
    let deployment = &what.deployment;
    let Some(flavour) = what.package.vnfd().flavour(&deployment.flavour_id) else {
        return Ok(()); // a step that needs the flavour reports that it is missing
    };
    let counted = deployment
        .vdu_instances
        .iter()
        .map(|(vdu, count)| (vdu.as_str(), *count));
    what.budget.allows(DOING, flavour.resources(counted), 0)
}

/// What is refused where a plan is too large.
const DOING: &str = "plan the instance";

/// Turns a serde error on `what` into a port error.
pub(crate) fn unreadable(what: &str) -> impl FnOnce(serde_json::Error) -> PortError {
    let what = what.to_owned();
    move |error| {
        PortError::new(
            &JOURNAL,
            format!("read `{what}` of the operation"),
            error.to_string(),
        )
    }
}

/// The journal holds a shape that this binary does not know.
pub(super) const JOURNAL: Code = Code {
    name: "op.journal",
    kind: ErrorKind::Broken,
    means: "the journal or the record of an operation holds a shape that this binary does not know",
    next: "use the binary that wrote it or a newer one, and report it otherwise",
};
/// The package is not as the instance needs it.
pub(crate) const PACKAGE: Code = Code {
    name: "op.package",
    kind: ErrorKind::Refused,
    means: "the VNF package is no longer as the instance needs it",
    next: "onboard the package that the instance was made from",
};
