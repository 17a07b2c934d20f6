//! One operation while it is driven: its records, the outputs of its steps, and access to its neighbours.

use super::changes;
use super::operation::Operation;
use super::step::{HookOf, Step, StepOutput};
use crate::context::Context;
use crate::deployment::Deployment;
use crate::hooks::{CredentialSecrets, HookCredentials};
use crate::ports::{
    Allocation, Change, Clock, Code, Effects, ErrorKind, Fence, InfraDriver, InstanceRecord,
    Inventory, JournalRow, OpRecord, Ownership, PACKAGE, PortError, StepStatus, Vim, VimCall,
    Watcher,
};
use crate::running_ops::RunningOp;
use crate::vims::VimHandle;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_descriptor::{Flavour, Hook, Package};
use vnfm_types::v1::ApiVersion;

/// One operation that is being driven.
pub struct Op {
    pub(crate) context: Context,
    /// The row of the operation.
    pub operation: &'static Operation,
    /// The occurrence with its request and target.
    pub record: Arc<OpRecord>,
    /// The instance as it was when this process claimed the operation.
    pub instance: InstanceRecord,
    pub(crate) fence: Fence,
    pub(crate) live: Arc<RunningOp>,
    pub(crate) rows: BTreeMap<String, Arc<JournalRow>>,
    /// Journal rows and other changes of the last step; written in the next transaction.
    pub(crate) unwritten: Vec<Change>,
    pub(crate) deadline: Timestamp,
    pub(super) package: Result<Arc<Package>, PortError>,
    /// The same as `package` unless the operation changes the package.
    pub(super) package_before: Result<Arc<Package>, PortError>,
    pub(super) ownership: Ownership,
}

impl Op {
    /// The tenant that owns the instance.
    pub fn tenant(&self) -> &str {
        &self.record.tenant
    }

    /// The engine's clock; drivers and hooks use no other.
    pub fn clock(&self) -> &dyn Clock {
        &*self.context.ports.clock
    }

    /// Receives progress, waits and log lines of the operation.
    pub fn watcher(&self) -> &dyn Watcher {
        &*self.live
    }

    /// The output of an earlier step; `None` if it did not run to completion, or was undone.
    ///
    /// # Errors
    ///
    /// `Broken` if the journal holds another format.
    pub fn output<T: StepOutput>(&self) -> Result<Option<T>, PortError> {
        self.output_of(T::STEP)
    }

    /// The output of the undo of a step; `None` if it was not undone, or its undo has no output.
    ///
    /// # Errors
    ///
    /// `Broken` if the journal holds another format.
    pub fn undo_output<T: StepOutput>(&self) -> Result<Option<T>, PortError> {
        self.parsed(T::STEP, |status| status == StepStatus::Undone)
    }

    fn output_of<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, PortError> {
        self.parsed(step, |status| status != StepStatus::Undone)
    }

    fn parsed<T: DeserializeOwned>(
        &self,
        step: &str,
        counts: impl Fn(StepStatus) -> bool,
    ) -> Result<Option<T>, PortError> {
        let row = self.rows.get(step).filter(|row| counts(row.status));
        match row.and_then(|row| row.output.get("data")) {
            Some(data) => T::deserialize(data).map(Some).map_err(unreadable(step)),
            None => Ok(None),
        }
    }

    /// What the hooks that have run want changed, in the order of the steps.
    ///
    /// # Errors
    ///
    /// Those of [`Op::output`]: a stored output is invalid.
    pub fn hook_effects(&self) -> Result<Vec<Effects>, PortError> {
        let hooks = self.operation.hooks().into_iter();
        hooks
            .filter_map(|step| self.output_of(step).transpose())
            .collect()
    }

    /// The logins that the hooks that have run requested.
    pub(super) fn hook_credentials(&self) -> impl Iterator<Item = HookCredentials> + '_ {
        let hooks = self.operation.hooks().into_iter();
        hooks.filter_map(|step| self.output_of(step).ok()?)
    }

    /// The logins from before the operation, and those that its hooks have requested until now.
    ///
    /// # Errors
    ///
    /// Those of [`Op::deployment_before`].
    pub(super) fn earlier_credentials(&self) -> Result<CredentialSecrets, PortError> {
        let mut earlier = self.deployment_before()?.credentials.clone();
        earlier.extend(self.hook_credentials().flat_map(|hook| hook.credentials));
        Ok(earlier)
    }

    /// The resources of the instance as they were when this process claimed the operation.
    pub fn inventory(&self) -> Inventory {
        changes::inventory(&self.instance)
    }

    /// True if a step has begun and was not completely undone.
    pub fn has_begun(&self, step: &str) -> bool {
        self.rows.get(step).is_some_and(|row| {
            matches!(
                row.status,
                StepStatus::Started | StepStatus::Done | StepStatus::Undoing
            )
        })
    }

    /// True if a step has run to completion, and was not undone.
    pub(crate) fn is_done(&self, step: &str) -> bool {
        let row = self.rows.get(step);
        row.is_some_and(|row| row.status == StepStatus::Done)
    }

    /// True if the caller asked to skip this hook.
    pub(crate) fn skips(&self, hook: &str) -> bool {
        self.record
            .control
            .skip_hooks
            .iter()
            .any(|name| name == hook)
    }

    /// The VNF LCM API version in which the operation was requested.
    pub(crate) fn api_version(&self) -> ApiVersion {
        self.record.control.api_version
    }

    /// The request body of this operation.
    ///
    /// # Errors
    ///
    /// `Broken` if the record holds another format.
    pub fn request<T: DeserializeOwned>(&self) -> Result<T, PortError> {
        T::deserialize(&*self.record.request).map_err(unreadable("request"))
    }

    /// The desired state that the steps work towards: the target, or the current one while it is being terminated.
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

    /// The VNF package of the instance; in an operation that changes it, the new one.
    ///
    /// # Errors
    ///
    /// If its file cannot be read.
    pub fn package(&self) -> Result<&Arc<Package>, PortError> {
        self.package.as_ref().map_err(Clone::clone)
    }

    /// The VNF package that the instance had before the operation.
    ///
    /// # Errors
    ///
    /// If its file cannot be read.
    pub fn package_before(&self) -> Result<&Arc<Package>, PortError> {
        self.package_before.as_ref().map_err(Clone::clone)
    }

    /// True if the operation changes the package of the instance.
    pub fn changes_package(&self) -> bool {
        let target = self.record.target.as_deref();
        target.is_some_and(|target| target.leaves_package(&self.instance.vnf_pkg_id))
    }

    /// The instance's flavour in the VNFD; in an operation that changes it, the new one.
    ///
    /// # Errors
    ///
    /// If the package cannot be read or no longer has the flavour.
    pub fn flavour(&self) -> Result<&Flavour, PortError> {
        flavour_in(self.package()?, self.deployment()?)
    }

    /// The package whose hook this step runs.
    ///
    /// # Errors
    ///
    /// As [`Op::package`].
    pub(super) fn package_of_hook(&self, step: &str) -> Result<&Arc<Package>, PortError> {
        match self.hook_of(step) {
            HookOf::Before => self.package_before(),
            HookOf::Target => self.package(),
        }
    }

    /// The flavour whose hook this step runs.
    ///
    /// # Errors
    ///
    /// As [`Op::flavour`].
    pub(super) fn flavour_of_hook(&self, step: &str) -> Result<&Flavour, PortError> {
        let before = self.record.before.as_ref();
        match (self.hook_of(step), before) {
            (HookOf::Before, Some(before)) => flavour_in(self.package_before()?, before),
            _ => self.flavour(),
        }
    }

    /// The hook that this step runs; `None` if its VNFD names none.
    ///
    /// # Errors
    ///
    /// As [`Op::flavour`].
    pub(super) fn hook(&self, step: &str) -> Result<Option<&Hook>, PortError> {
        self.flavour_of_hook(step).map(|flavour| flavour.hook(step))
    }

    /// The deployment whose plugins serve the hook of this step; `None`: those that are installed.
    pub(super) fn deployment_of_hook(&self, step: &str) -> Option<&Deployment> {
        match self.hook_of(step) {
            HookOf::Target if self.changes_package() => self.record.target.as_deref(),
            HookOf::Target | HookOf::Before => self.record.before.as_deref(),
        }
    }

    /// The package whose hook this step runs.
    pub(super) fn hook_of(&self, step: &str) -> HookOf {
        let mut steps = self.operation.steps.iter();
        let step = steps.find(|one| one.name == step);
        step.map_or(HookOf::Target, Step::hook_of)
    }

    /// The desired state before the operation, to which an undo returns; of an instance that had none, the target.
    ///
    /// # Errors
    ///
    /// As [`Op::deployment`].
    pub fn deployment_before(&self) -> Result<&Arc<Deployment>, PortError> {
        self.record
            .before
            .as_ref()
            .map_or_else(|| self.deployment(), Ok)
    }

    /// The package and deployment that drivers work from.
    ///
    /// # Errors
    ///
    /// If package or request cannot be read.
    pub fn allocation(&self) -> Result<Allocation, PortError> {
        Ok(Allocation {
            package: self.package()?.clone(),
            deployment: self.deployment()?.clone(),
            instance_name: self.instance.vnf.vnf_instance_name.clone(),
            awaits_grant: false,
            budget: self.context.limits().plan,
        })
    }

    /// As [`Op::allocation`], checked against the size limits.
    ///
    /// # Errors
    ///
    /// As [`Op::allocation`]; also if the plan exceeds what the server allows.
    pub fn allocation_to_make(&self) -> Result<Allocation, PortError> {
        let allocation = self.allocation()?;
        check_budget(&allocation)?;
        Ok(allocation)
    }

    /// The VIM of the instance, and its driver.
    ///
    /// # Errors
    ///
    /// If it is no longer in the registry.
    pub async fn vim(&self) -> Result<(VimHandle, Arc<dyn InfraDriver>), PortError> {
        crate::vims::of_connections(
            &self.context,
            self.tenant(),
            &self.deployment()?.vim_connection_info,
        )
        .await
        .map_err(crate::vims::as_port_error)
    }

    /// Logs in to the VIM of the instance.
    ///
    /// # Errors
    ///
    /// As [`Op::vim`]; the driver's error if the VIM does not respond or refuses the login.
    pub async fn reach_vim(&self) -> Result<(), PortError> {
        let (vim, driver) = self.vim().await?;
        driver.check(&vim).await.map(|_| ())
    }

    /// The context of a driver call for the current step.
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

/// The flavour of a deployment in its package.
fn flavour_in<'p>(package: &'p Package, deployment: &Deployment) -> Result<&'p Flavour, PortError> {
    let (id, vnfd) = (deployment.flavour_id.as_str(), package.vnfd());
    vnfd.flavours.get(id).ok_or_else(|| {
        let what = format!("the VNFD `{}` has no flavour `{id}`", vnfd.descriptor_id);
        PortError::new(&PACKAGE, "read the VNF package", what)
    })
}

/// Refuses a deployment with too many resources. It only counts: nothing is expanded or created.
///
/// # Errors
///
/// `Refused` with the limit and its setting.
pub(crate) fn check_budget(what: &Allocation) -> Result<(), PortError> {
    let deployment = &what.deployment;
    let Some(flavour) = what.package.vnfd().flavour(&deployment.flavour_id) else {
        return Ok(()); // a step that needs the flavour reports that it is missing
    };
    let counted = deployment
        .vdu_instances
        .iter()
        .map(|(vdu, count)| (vdu.as_str(), *count));
    what.budget.allows(ACTION, flavour.resources(counted), 0)
}

const ACTION: &str = "plan the instance";

/// Maps a serde error on `what` to a port error.
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

pub(super) const JOURNAL: Code = Code {
    name: "op.journal",
    kind: ErrorKind::Broken,
    means: "the journal or the record of an operation holds a shape that this binary does not know",
    next: "use the binary that wrote it or a newer one; if that does not help, report it",
};
