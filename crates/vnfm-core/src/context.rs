//! What operations and steps work with: the ports, the limits, and what this process is doing right now.
//!
//! It imports ports and leaves only. The [`Engine`](crate::Engine) is the facade above: a context, and the operations that
//! it can begin.

use crate::drivers::Drivers;
use crate::exclusive::Exclusion;
use crate::in_progress::InProgress;
use crate::limits::Limits;
use crate::ports::{
    Change, Clock, HostServices, MgmtDrivers, Nfvo, NoInstanceFiles, NoopObserver, Observer,
    Packages, Schemas, Store,
};
use crate::running_ops::RunningOps;
use crate::stored_files::StoredFiles;
use crate::vim_limiter::VimLimiter;
use std::sync::{Arc, PoisonError, RwLock};
use vnfm_types::v1::ApiVersion;

/// The neighbours of an engine; [`EngineParts`](crate::EngineParts) describes each.
pub(crate) struct Ports {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) packages: Arc<dyn Packages>,
    pub(crate) drivers: Drivers,
    pub(crate) mgmt: Arc<dyn MgmtDrivers>,
    pub(crate) host: Arc<dyn HostServices>,
    pub(crate) nfvo: Option<Arc<dyn Nfvo>>,
    pub(crate) schemas: Arc<dyn Schemas>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// What an operation works with. Clones are cheap and share state.
#[derive(Clone)]
pub struct Context {
    pub(crate) ports: Arc<Ports>,
    pub(crate) live: Arc<RunningOps>,
    /// Owner string of the claims of this process.
    pub(crate) owner: Arc<str>,
    pub(crate) observer: Arc<dyn Observer>,
    /// Files that are stored with instances.
    pub(crate) files: Arc<StoredFiles>,
    limits: Arc<RwLock<Limits>>,
    /// Limits concurrent calls per VIM, over all operations.
    pub(crate) call_slots: Arc<VimLimiter>,
    /// Limits concurrent operations per VIM.
    pub(crate) operation_slots: Arc<VimLimiter>,
    /// Steps that run, and the one that runs exclusively.
    pub(crate) exclusion: Arc<Exclusion>,
    /// Whether the suspects of earlier processes are known.
    pub(crate) suspects_loaded: Arc<futures_util::lock::Mutex<bool>>,
    /// The shared virtual links that requests create or delete right now.
    pub(crate) links_in_progress: Arc<InProgress>,
    /// The API version in which operations begin.
    pub(crate) api_version: ApiVersion,
}

impl Context {
    pub(crate) fn new(ports: Ports, limits: Limits) -> Self {
        let files = StoredFiles::new(Arc::new(NoInstanceFiles), ports.store.clone());
        let context = Self {
            ports: Arc::new(ports),
            live: Arc::default(),
            owner: uuid::Uuid::new_v4().to_string().into(),
            observer: Arc::new(NoopObserver),
            files: Arc::new(files),
            limits: Arc::default(),
            call_slots: Arc::default(),
            operation_slots: Arc::default(),
            exclusion: Arc::default(),
            suspects_loaded: Arc::default(),
            links_in_progress: Arc::default(),
            api_version: ApiVersion::default(),
        };
        context.set_limits(limits);
        context
    }

    /// The records, the journal and the outbox.
    pub fn store(&self) -> &dyn Store {
        &*self.ports.store
    }

    /// The limits that apply to what starts now.
    pub fn limits(&self) -> Limits {
        self.limits
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_limits(&self, limits: Limits) {
        self.call_slots.set_max(limits.vim_calls);
        self.operation_slots.set_max(limits.vim_operations);
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// The current time of the engine's clock.
    pub fn now(&self) -> jiff::Timestamp {
        self.ports.clock.now()
    }

    /// Records that this process leaves an operation, or all of them, in order. If that fails, a step
    /// may needlessly run exclusively once.
    pub(crate) async fn orderly_exits(&self, op_id: Option<String>) {
        let change = Change::RecordOrderlyExit {
            process: self.owner.to_string(),
            op_id,
        };
        if let Err(error) = self.store().write(None, vec![change]).await {
            tracing::warn!(%error, "the orderly shutdown of this process was not recorded");
        }
    }
}
