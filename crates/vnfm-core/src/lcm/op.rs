//! One operation while it is driven: its records, what its steps produced, and the way to its neighbours.

use super::grant::{Approved, GRANTED};
use super::step::StepOutput;
use crate::engine::Engine;
use crate::live::LiveOp;
use crate::ports::{
    Allocation, Change, Clock, Code, ErrorKind, Fence, Granted, InfraDriver, InstanceRecord,
    JournalRow, OpRecord, Ownership, PortError, StepStatus, Vim, VimCall, Watcher,
};
use crate::redact::Redactor;
use crate::vims::AnyVim;
use jiff::Timestamp;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use vnfm_descriptor::{Flavour, Package};
use vnfm_types::InstantiateVnfRequest;
use vnfm_types::v1::Edition;

/// Where the record of an operation keeps, beside the standard's members of its request, which hooks are left out.
pub(super) const SKIPPED: &str = "vnfm/skipHooks";
/// Where it keeps that the operation began below `vnflcm/v1`.
pub(super) const BEGAN_IN_V1: &str = "vnfm/v1";

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
    /// The first request, once somebody has asked for it.
    instantiation: OnceLock<Arc<InstantiateVnfRequest>>,
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
        let rows = journal.into_iter().map(|row| (row.step.clone(), Arc::new(row))).collect();
        let package = engine.parts.packages.package(tenant, &instance.vnf_pkg_id).await;
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
            instantiation: OnceLock::new(),
            ownership,
        };
        op.take_grant();
        op.hide_secrets();
        Ok(op)
    }

    /// From now on the operation does what the NFVO has approved, if it has: as if that had been in its request.
    pub(crate) fn take_grant(&mut self) {
        let Ok(Some(approved)) = self.output::<Approved>() else { return };
        approved.put_into(Arc::make_mut(&mut self.record));
        self.instantiation.take();
        self.hide_secrets();
    }

    /// Whatever the operation says from now on does not show a secret of its request.
    fn hide_secrets(&self) {
        let mut found = Redactor::default();
        found.add_well_known(&self.record.request);
        found.add_well_known(&self.instance.request);
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
        let Some(row) = self.rows.get(T::STEP).filter(|row| row.status != StepStatus::Undone)
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
            matches!(row.status, StepStatus::Started | StepStatus::Done | StepStatus::Undoing)
        })
    }

    /// True where whoever began the operation left this hook out.
    pub(crate) fn skips(&self, hook: &str) -> bool {
        let skipped = self.record.request.get(SKIPPED).and_then(Value::as_array);
        skipped.is_some_and(|skipped| skipped.iter().any(|name| name == hook))
    }

    /// The version of VNF LCM in which the operation began.
    pub(crate) fn edition(&self) -> Edition {
        let began_in_v1 = self.record.request.get(BEGAN_IN_V1).and_then(Value::as_bool);
        if began_in_v1 == Some(true) { Edition::V1 } else { Edition::V2 }
    }

    /// The request of this operation.
    ///
    /// # Errors
    ///
    /// `Broken` where the record holds another shape.
    pub fn request<T: DeserializeOwned>(&self) -> Result<T, PortError> {
        T::deserialize(&*self.record.request).map_err(unreadable("request"))
    }

    /// The request that instantiated the VNF, or is doing so.
    ///
    /// # Errors
    ///
    /// `Broken` where the record holds another shape.
    pub fn instantiation(&self) -> Result<&Arc<InstantiateVnfRequest>, PortError> {
        if let Some(known) = self.instantiation.get() {
            return Ok(known);
        }
        let read = InstantiateVnfRequest::deserialize(self.first_request());
        let read = read.map_err(unreadable("request"))?;
        Ok(self.instantiation.get_or_init(|| Arc::new(read)))
    }

    /// The same as it is stored.
    fn first_request(&self) -> &Value {
        match &*self.instance.request {
            Value::Null => &self.record.request,
            request => request,
        }
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
        let id = self.first_request()["flavourId"].as_str().unwrap_or_default();
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
            request: self.instantiation()?.clone(),
            instance_name: self.instance.vnf.vnf_instance_name.clone(),
            granted: self.granted(),
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

    /// What the NFVO has decided about the resources of the instance.
    pub(crate) fn granted(&self) -> Granted {
        let granted = self.first_request().get(GRANTED);
        let granted = granted.and_then(|granted| Granted::deserialize(granted).ok());
        let granted = granted.unwrap_or_default();
        match self.instantiation() {
            Ok(request) => granted.with_links_of(request),
            Err(_) => granted,
        }
    }

    /// The VIM of the instance, and its driver.
    ///
    /// # Errors
    ///
    /// Where it is no longer in the registry.
    pub async fn vim(&self) -> Result<(AnyVim, Arc<dyn InfraDriver>), PortError> {
        crate::vims::of_request(&self.engine, self.tenant(), self.instantiation()?)
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
/// `Refused` with the limit and its setting, or where the VNFD does not say how much it is.
pub(crate) fn within_budget(what: &Allocation) -> Result<(), PortError> {
    const DOING: &str = "plan the instance";
    let Some(flavour) = what.package.vnfd().flavour(&what.request.flavour_id) else {
        return Ok(()); // a step that needs the flavour reports that it is missing
    };
    let level = what.request.instantiation_level_id.as_deref();
    let count = flavour.resources_of(level);
    let count = count.map_err(|error| PortError::new(&PACKAGE, DOING, error.to_string()))?;
    what.budget.allows(DOING, count, 0)
}

/// Turns a serde error on `what` into a port error.
pub(crate) fn unreadable(what: &str) -> impl FnOnce(serde_json::Error) -> PortError {
    let what = what.to_owned();
    move |error| {
        PortError::new(&JOURNAL, format!("read `{what}` of the operation"), error.to_string())
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
pub(super) const PACKAGE: Code = Code {
    name: "op.package",
    kind: ErrorKind::Refused,
    means: "the VNF package is no longer as the instance needs it",
    next: "onboard the package that the instance was made from",
};
