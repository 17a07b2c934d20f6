//! An operation is one row: whatever another part of the VNFM needs to know about it, this row says.
//!
//! | derived from the row | where |
//! |---|---|
//! | acceptance: state, support, conditions, parameters, VIM, first transaction | `accept` |
//! | dry run, progress, what a rollback undoes | `plan`, `explain` |
//! | grant request, what the grant may decide | `grant_request`, `grant_check` |
//! | hooks and their parameter schemas | `hook_call`, `accept` |
//! | slot at the VIM | `vim_slot` |
//! | routes, links, command line | server and `vnfmctl` |

use super::op_context::Op;
use super::step::Step;
use super::support::Support;
use crate::context::Context;
use crate::deployment::Deployment;
use crate::json::{self, JsonError};
use crate::overrides::SkipHooks;
use crate::ports::{Change, HookRequest, InstanceRecord, PortError, Replacement, SnapshotRecord};
use crate::query::VisibilityScope;
use crate::refusal::{self, Refusal, Why};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use vnfm_descriptor::Package;
use vnfm_types::{
    ExtVirtualLinkInfo, InstantiationState, LcmOperationState, LcmOperationType,
    ModificationsTriggeredByVnfPkgChange, PlacementConstraint, ResourceChanges, ResourceDefinition,
    VnfInfoModifications,
};

/// An operation: how it begins, its steps, and what its end writes.
pub struct Operation {
    /// Its type; no two operations of an engine have the same.
    pub kind: LcmOperationType,
    /// Task resource below the instance: `heal` for `POST …/vnf_instances/{id}/heal`. `None`: PATCH of the instance.
    pub task: Option<&'static str>,
    /// Its name in the VNFD's `Vnflcm` interface, such as `change_flavour`.
    pub interface_operation: &'static str,
    /// Data type of the request.
    pub body: Body,
    /// The state of the instance in which it may begin.
    pub requires: Requires,
    /// What an instance with resources must have to support it: flavour, VNFD or VIM.
    pub support: Support,
    /// Whether it takes one of the slots at its VIM while it is driven.
    pub uses_vim: bool,
    /// Whether it may begin while the server's disk is low: it ends something rather than adds something.
    pub frees_space: bool,
    /// Whether a caller may skip its hooks (`X-Vnfm-Skip-Hooks`).
    pub skippable_hooks: bool,
    /// Whether `additionalParams` must match the schemas of its hooks when it is requested.
    pub checks_parameters: bool,
    /// What it asks of the NFVO; `None`: it needs no grant.
    pub grant: Option<GrantRule>,
    /// Checks the request and determines what the instance should be afterwards.
    pub target: TargetFn,
    /// Adds to the request of its hooks what only this operation has.
    pub hook_request: fn(&Op, &mut HookRequest) -> Result<(), PortError>,
    /// In the order in which they run.
    pub steps: &'static [Step],
    /// What a final state, or `FAILED_TEMP`, writes in addition.
    pub finish: fn(&Op, LcmOperationState) -> Result<Completion, PortError>,
}

/// The step that terminates the instances on clusters of an instance.
pub(super) const DEPENDANTS: &str = "terminate_dependants";

/// The operation of this type in a table of operations; `None` if it has no such row.
pub fn find(
    operations: &[&'static Operation],
    kind: LcmOperationType,
) -> Option<&'static Operation> {
    let mut all = operations.iter().copied();
    all.find(|operation| operation.kind == kind)
}

/// The state of the instance in which an operation may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requires {
    /// The instance is `NOT_INSTANTIATED`: it has no resources.
    NotInstantiated,
    /// The instance is `INSTANTIATED`: it has resources.
    Instantiated,
    /// The instance may be in either state.
    Nothing,
}

/// What an operation asks of the NFVO, and what the answer may decide.
pub struct GrantRule {
    /// The resources that it adds, removes and updates.
    pub needs: fn(&Op) -> Result<GrantNeeds, PortError>,
    /// What a grant may decide beyond its approval.
    pub decides: GrantDecides,
}

/// The resources that an operation adds, removes and updates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GrantNeeds {
    /// Resources that the operation would create.
    pub add_resources: Vec<ResourceDefinition>,
    /// Resources that the operation would delete.
    pub remove_resources: Vec<ResourceDefinition>,
    /// Resources that stay, but change.
    pub update_resources: Vec<ResourceDefinition>,
    /// Placement rules for the resources to be created.
    pub placement_constraints: Vec<PlacementConstraint>,
    /// The instantiation level, if the operation sets one.
    pub instantiation_level_id: Option<String>,
}

/// What a grant may decide beyond its approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantDecides {
    /// VIM, external links, parameters and placement of the target.
    Placement,
    /// Parameters, links and placement of the target; the VIM stays.
    Flavour,
    /// Parameters, and the zones of resources to be created: everything else stays where it is.
    NewResources,
    /// Parameters only: the VNF stays where it is.
    Parameters,
}

/// The data type of a request: reads a body, and returns it without members that the type does not have.
#[derive(Clone, Copy)]
pub struct Body {
    /// Name in SOL003, such as `HealVnfRequest`.
    pub name: &'static str,
    parse: fn(&[u8]) -> Result<Value, JsonError>,
    read: fn(&Value) -> Result<Value, JsonError>,
}

impl Body {
    /// The data type `T`, which SOL003 calls `name`.
    pub const fn new<T: Serialize + DeserializeOwned>(name: &'static str) -> Self {
        Self {
            name,
            parse: |text| json::parse::<T>(text).and_then(|request| json::to_value(&request)),
            read: |body| json::from_value::<T>(body).and_then(|request| json::to_value(&request)),
        }
    }

    /// The body as the data type has it.
    ///
    /// # Errors
    ///
    /// If a member is missing or of another type.
    pub fn read(&self, body: &Value) -> Result<Value, JsonError> {
        (self.read)(body)
    }

    /// As [`Self::read`], for a text; the error gives line and column.
    ///
    /// # Errors
    ///
    /// As [`Self::read`], or if the text is not JSON.
    pub fn parse(&self, text: &[u8]) -> Result<Value, JsonError> {
        (self.parse)(text)
    }
}

/// Checks a request, and determines what the instance should be afterwards.
pub type TargetFn = for<'a> fn(&'a Requested<'a>) -> BoxFuture<'a, Result<Target, Refusal>>;

/// A request that is being accepted.
pub struct Requested<'a> {
    /// Store, limits and clock of the engine that accepts it.
    pub context: &'a Context,
    /// The instance as it is.
    pub instance: &'a InstanceRecord,
    /// Id of the new occurrence.
    pub op_id: &'a str,
    /// What the caller may use.
    pub scope: &'a VisibilityScope,
    pub(super) body: &'a Value,
    /// Whether the instances on clusters of this one are terminated too.
    pub(super) cascade: bool,
}

impl Requested<'_> {
    /// The request as its type.
    ///
    /// # Errors
    ///
    /// `Unprocessable` if the body has another type than [`Operation::body`].
    pub fn request<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        T::deserialize(self.body).map_err(|_| malformed())
    }

    /// The tenant that owns the instance.
    pub fn tenant(&self) -> &str {
        &self.instance.tenant
    }

    /// The VNF package of the instance.
    ///
    /// # Errors
    ///
    /// If its file cannot be read.
    pub async fn package(&self) -> Result<Arc<Package>, PortError> {
        let packages = &self.context.ports.packages;
        packages
            .package(self.tenant(), &self.instance.vnf_pkg_id)
            .await
    }

    /// The instance stays as it is; the request is stored as it came.
    pub fn unchanged(&self) -> Target {
        Target {
            deployment: self.instance.deployment.clone(),
            body: self.body.clone(),
            changes: Vec::new(),
            replace: Replacement::default(),
            modifies: Vec::new(),
            dependants: Vec::new(),
            retain: Vec::new(),
            snapshot: None,
        }
    }
}

/// The error of a body that does not match its type. It does not quote the body, which may contain a secret.
pub(super) fn malformed() -> Refusal {
    let what = "the body does not have the form that SOL003 defines for this operation";
    Refusal::new(Why::Unprocessable, &refusal::BAD_PARAMETERS, what)
}

/// What an accepted request leads to.
pub struct Target {
    /// What the instance should be once the operation is COMPLETED; `None`: it has no resources then.
    pub deployment: Option<Arc<Deployment>>,
    /// The request to store, with its secrets.
    pub body: Value,
    /// Changes in the transaction that begins the operation.
    pub changes: Vec<Change>,
    /// VNFCs that the operation replaces.
    pub replace: Replacement,
    /// Paths of what it changes about the instance without touching resources, such as `metadata.site`; for its plan.
    pub modifies: Vec<String>,
    /// Instances that the operation terminates first, in this order.
    pub dependants: Vec<Dependant>,
    /// Ids of the storages that outlive the instance.
    pub retain: Vec<String>,
    /// The snapshot that it stores or restores.
    pub snapshot: Option<SnapshotUse>,
}

/// What an operation does with a snapshot.
#[derive(Clone)]
pub enum SnapshotUse {
    /// Stores the state of the instance in the snapshot with this id.
    Create(String),
    /// Returns the instance to the state in this snapshot.
    Revert(Box<SnapshotRecord>),
}

impl SnapshotUse {
    /// `id` of the snapshot.
    pub fn id(&self) -> &str {
        match self {
            Self::Create(id) => id,
            Self::Revert(record) => &record.info.id,
        }
    }
}

/// An instance that is terminated before another one, because it runs on a cluster of that one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Dependant {
    /// `id` of the VNF instance.
    pub id: String,
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Whether an instance still is as the caller last read it (`If-Match`, `If-Unmodified-Since`).
pub type Expected<'a> = &'a (dyn Fn(&InstanceRecord) -> bool + Sync);

/// A request to begin an operation; see [`Engine::begin`](crate::Engine::begin).
pub struct Begin<'a> {
    /// One of [`Engine::operations`](crate::Engine::operations).
    pub operation: &'static Operation,
    /// The request, as [`Operation::body`] defines it.
    pub body: Value,
    /// Hooks to skip, with the reason for the audit log; `None`: none.
    pub skip: Option<SkipHooks>,
    /// Condition on the instance; `None`: unconditional.
    pub expected: Option<Expected<'a>>,
    /// The packages and instances that the caller may use; `None`: all.
    pub scope: Option<&'a VisibilityScope>,
    /// Terminates the instances on clusters of this one first, if all of them are in the scope. False: refuses if there
    /// are any.
    pub cascade: bool,
    /// Whether the VNFM itself begins the operation (`isAutomaticInvocation`).
    pub automatic: bool,
}

impl Begin<'_> {
    /// A request without condition that skips no hook.
    pub const fn new(operation: &'static Operation, body: Value) -> Self {
        Self {
            operation,
            body,
            skip: None,
            expected: None,
            scope: None,
            cascade: false,
            automatic: false,
        }
    }
}

/// What the end of an operation writes, in the transaction of its last state.
#[derive(Default)]
pub struct Completion {
    /// The instance after the operation.
    pub instance: Option<InstanceRecord>,
    /// Changed resources, for the occurrence.
    pub resource_changes: Option<ResourceChanges>,
    /// Attributes that a modification changed, for the occurrence.
    pub changed_info: Option<VnfInfoModifications>,
    /// Attributes that a change of the VNF package changed, for the occurrence.
    pub modifications: Option<ModificationsTriggeredByVnfPkgChange>,
    /// Changed external virtual links, for the occurrence.
    pub changed_ext_connectivity: Vec<ExtVirtualLinkInfo>,
    /// Other rows to write in that transaction.
    pub changes: Vec<Change>,
}

impl Operation {
    /// Refuses an instance in a state in which the operation cannot begin. A busy instance is refused later,
    /// when the operation is written.
    ///
    /// # Errors
    ///
    /// `Conflict`, with the instance's state.
    pub fn can_begin(&self, instance: &InstanceRecord) -> Result<(), Refusal> {
        let state = match (self.requires, instance.vnf.instantiation_state) {
            (Requires::NotInstantiated, InstantiationState::Instantiated) => "already INSTANTIATED",
            (Requires::Instantiated, InstantiationState::NotInstantiated) => "NOT_INSTANTIATED",
            (Requires::Nothing, _)
            | (Requires::NotInstantiated, InstantiationState::NotInstantiated)
            | (Requires::Instantiated, InstantiationState::Instantiated) => return Ok(()),
        };
        let what = format!("VNF instance `{}` is {state}", instance.vnf.id);
        Err(Refusal::new(Why::Conflict, &refusal::WRONG_STATE, what))
    }

    /// Refuses an instance that does not support the operation, whatever the request.
    ///
    /// # Errors
    ///
    /// `NotFound`, with what its flavour, VNFD or VIM lacks; `Unprocessable` if that cannot be found out.
    pub(super) async fn check_support(
        &self,
        context: &Context,
        instance: &InstanceRecord,
    ) -> Result<(), Refusal> {
        let missing = self.support.missing(context, instance).await;
        let Some(missing) = missing.map_err(Refusal::unprocessable)? else {
            return Ok(());
        };
        let what = format!(
            "VNF `{}` does not support the task `{}`: {missing}",
            instance.vnf.id,
            self.task.unwrap_or(self.interface_operation),
        );
        Err(Refusal::new(Why::NotFound, &refusal::NOT_SUPPORTED, what))
    }

    /// True if it can begin on the instance as it is, for a request that asks for something possible.
    pub(crate) async fn is_possible(&self, context: &Context, instance: &InstanceRecord) -> bool {
        instance.active_op.is_none()
            && self.can_begin(instance).is_ok()
            && self.check_support(context, instance).await.is_ok()
    }

    /// True if it can terminate the instances on clusters of its own instance.
    pub fn cascades(&self) -> bool {
        self.steps.iter().any(|step| step.name == DEPENDANTS)
    }

    /// Names of its hooks, in the order in which they run.
    pub fn hooks(&self) -> Vec<&'static str> {
        let hooks = self.steps.iter().filter(|step| step.is_hook());
        hooks.map(|step| step.name).collect()
    }

    /// True if a rollback of an operation that needs the steps that `is_needed` accepts undoes this one: it has an undo, and
    /// no step that runs before it rules out a rollback.
    pub fn is_undone(&self, step: &Step, is_needed: impl Fn(&Step) -> bool) -> bool {
        let upto = self.steps.iter().take_while(|one| one.name != step.name);
        let mut upto = upto.filter(|one| is_needed(one));
        step.has_undo() && upto.all(|one| !one.is_irreversible())
    }
}
