//! The engine for one tenant, whose id is given once.

use crate::engine::{Engine, VimChange};
use crate::lcm::{Begin, Expected};
use crate::plan::Plan;
use crate::ports::{InstanceRecord, StoreError};
use crate::refusal::Refusal;
use vnfm_types::{
    CancelMode, CreateVnfRequest, HealVnfRequest, InstantiateVnfRequest, LogLine, Progress,
    TerminateVnfRequest, Vim, VnfInfoModificationRequest,
};

/// The engine for one tenant: [`Engine::tenant`].
#[derive(Clone)]
pub struct Tenant {
    engine: Engine,
    id: String,
}

impl Engine {
    /// The engine for one tenant; saves repeating its id in each call.
    pub fn tenant(&self, id: impl Into<String>) -> Tenant {
        Tenant {
            engine: self.clone(),
            id: id.into(),
        }
    }
}

impl Tenant {
    /// The tenant's id, as given.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The record of an instance.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if the tenant has no such instance.
    pub async fn instance(&self, id: &str) -> Result<InstanceRecord, StoreError> {
        self.engine.store().instance(&self.id, id).await
    }
}

macro_rules! of_engine {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)+) => {
        impl Tenant {$(
            #[doc = concat!("[`Engine::", stringify!($name), "`] for this tenant.\n\n# Errors\n\nThose of that method.")]
            pub async fn $name(&self, $($argument: $type),*) -> $result {
                self.engine.$name(&self.id, $($argument),*).await
            }
        )+}
    };
}

of_engine! {
    create(request: CreateVnfRequest) -> Result<InstanceRecord, Refusal>;
    delete(instance: &str) -> Result<(), Refusal>;
    begin(instance: &str, begin: Begin<'_>) -> Result<String, Refusal>;
    plan(instance: &str, begin: Begin<'_>) -> Result<Plan, Refusal>;
    instantiate(instance: &str, request: InstantiateVnfRequest) -> Result<String, Refusal>;
    heal(instance: &str, request: HealVnfRequest) -> Result<String, Refusal>;
    modify(instance: &str, request: VnfInfoModificationRequest, expected: Expected<'_>) -> Result<String, Refusal>;
    terminate(instance: &str, request: TerminateVnfRequest) -> Result<String, Refusal>;
    retry(op: &str) -> Result<(), Refusal>;
    rollback(op: &str) -> Result<(), Refusal>;
    fail(op: &str) -> Result<(), Refusal>;
    cancel(op: &str, mode: CancelMode) -> Result<(), Refusal>;
    progress(op: &str) -> Result<Progress, StoreError>;
    log(op: &str, after: u64) -> Result<Vec<LogLine>, StoreError>;
    register_vim(new: VimChange) -> Result<Vim, Refusal>;
    update_vim(id_or_name: &str, change: VimChange) -> Result<Vim, Refusal>;
    vims() -> Result<Vec<Vim>, Refusal>;
}
