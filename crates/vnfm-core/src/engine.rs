//! The engine as an embedder sees it: built from its ports, it accepts requests, and is awaited to drive operations.

mod matching;
mod operations;
mod policies;
mod upgrade;
mod vims;

pub use matching::{PackageMatch, VimMatch};
pub(crate) use vims::CODES;
pub use vims::VimChange;

use crate::context::{Context, Ports};
use crate::drivers::Drivers;
use crate::lcm::{self, Driven, Operation};
use crate::limits::Limits;
use crate::ports::{
    Claim, Clock, HostServices, InstanceFiles, MgmtDrivers, Nfvo, NoSchemas, Observer, Packages,
    Schemas, Store, StoreError,
};
use crate::refusal::Refusal;
use crate::static_plugins::{NoHostServices, StaticPlugins};
use crate::stored_files::StoredFiles;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::Duration;
use vnfm_types::v1::ApiVersion;
use vnfm_types::{AuditEntry, LcmOperationType, LogLine, Progress};

/// The ports and limits of an engine.
pub struct EngineParts {
    /// Stores records, journal and outbox.
    pub store: Arc<dyn Store>,
    /// Reads the VNF packages that were onboarded.
    pub packages: Arc<dyn Packages>,
    /// VIM drivers by the vimTypes they serve.
    pub drivers: Drivers,
    /// Drivers of the vendors' hooks.
    pub mgmt: Arc<dyn MgmtDrivers>,
    /// SSH and HTTP for hooks.
    pub host: Arc<dyn HostServices>,
    /// Grants operations; `None`: a local policy approves all of them.
    pub nfvo: Option<Arc<dyn Nfvo>>,
    /// Validates parameters by JSON Schema.
    pub schemas: Arc<dyn Schemas>,
    /// Source of time; simulated in tests.
    pub clock: Arc<dyn Clock>,
    /// The limits at first; [`Engine::set_limits`] changes them.
    pub limits: Limits,
    /// The operations that it can begin and drive; each type at most once. Default: [`lcm::OPERATIONS`].
    pub operations: &'static [&'static Operation],
}

impl EngineParts {
    /// The three mandatory ports; no drivers, hooks, hosts, NFVO or JSON Schema. Override what you need:
    /// `EngineParts { drivers, ..EngineParts::new(store, packages, clock) }`.
    pub fn new(store: Arc<dyn Store>, packages: Arc<dyn Packages>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            packages,
            drivers: Drivers::default(),
            mgmt: Arc::new(StaticPlugins::default()),
            host: Arc::new(NoHostServices),
            nfvo: None,
            schemas: Arc::new(NoSchemas),
            clock,
            limits: Limits::default(),
            operations: lcm::OPERATIONS,
        }
    }
}

/// The engine. Clones are cheap and share state; two separate engines in one process share nothing.
#[derive(Clone)]
pub struct Engine {
    pub(crate) context: Context,
    operations: &'static [&'static Operation],
}

impl Engine {
    /// An engine with these ports.
    pub fn new(parts: EngineParts) -> Self {
        let ports = Ports {
            store: parts.store,
            packages: parts.packages,
            drivers: parts.drivers,
            mgmt: parts.mgmt,
            host: parts.host,
            nfvo: parts.nfvo,
            schemas: parts.schemas,
            clock: parts.clock,
        };
        Self {
            context: Context::new(ports, parts.limits),
            operations: parts.operations,
        }
    }

    /// Reports metrics to `observer` from now on.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.context.observer = observer;
        self
    }

    /// Stores the files of hooks in `files` from now on; without, hooks cannot store any. [`StoredFiles::count`] counts those
    /// that are there.
    #[must_use]
    pub fn with_files(mut self, files: Arc<dyn InstanceFiles>) -> Self {
        let store = self.context.ports.store.clone();
        self.context.files = Arc::new(StoredFiles::new(files, store));
        self
    }

    /// The files that are stored with instances.
    pub fn files(&self) -> &StoredFiles {
        &self.context.files
    }

    /// For a client of this VNF LCM version: operations begun here link to resources of that
    /// version in their grant request.
    #[must_use]
    pub fn with_api_version(&self, edition: ApiVersion) -> Self {
        let mut engine = self.clone();
        engine.context.api_version = edition;
        engine
    }

    /// The limits that apply now.
    pub fn limits(&self) -> Limits {
        self.context.limits()
    }

    /// Sets limits for everything that starts from now on: a running step keeps its deadline.
    pub fn set_limits(&self, limits: Limits) {
        self.context.set_limits(limits);
    }

    /// The operations given to [`Engine::new`]: routes, links and commands derive from them.
    pub fn operations(&self) -> &'static [&'static Operation] {
        self.operations
    }

    /// The operation of this type; `None` if this engine does not have it.
    pub fn operation(&self, kind: LcmOperationType) -> Option<&'static Operation> {
        lcm::find(self.operations, kind)
    }

    /// The store given to [`Engine::new`].
    pub fn store(&self) -> &dyn Store {
        self.context.store()
    }

    /// The current time of its clock.
    pub fn now(&self) -> jiff::Timestamp {
        self.context.now()
    }

    /// The hook drivers given to [`Engine::new`].
    pub fn mgmt_drivers(&self) -> &dyn MgmtDrivers {
        &*self.context.ports.mgmt
    }

    /// Drives an operation until it ends, stops, or another process takes it over. Await it wherever you like; dropping the
    /// future is equivalent to a crash. `drive(..).await?.completed()?` requires that it succeeded.
    ///
    /// # Errors
    ///
    /// If the database does not respond: the operation stays as it is until it is driven again.
    pub async fn drive(&self, op_id: &str) -> Result<Driven, StoreError> {
        match self.claim(Some(op_id)).await? {
            Some(claim) => lcm::step_runner::drive(&self.context, self.operations, claim).await,
            None => Ok(Driven::elsewhere(op_id)),
        }
    }

    /// Claims an operation that no process drives, if there is one, and returns the future that drives it.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn take_over(
        &self,
    ) -> Result<Option<impl Future<Output = Result<Driven, StoreError>> + Send + 'static>, StoreError>
    {
        let claim = self.claim(None).await?;
        let (context, operations) = (self.context.clone(), self.operations);
        Ok(claim
            .map(|claim| async move { lcm::step_runner::drive(&context, operations, claim).await }))
    }

    /// Claims this operation, or any that no process drives.
    async fn claim(&self, op_id: Option<&str>) -> Result<Option<Claim>, StoreError> {
        let lease = self.limits().lease;
        self.store().claim(&self.context.owner, lease, op_id).await
    }

    /// Stops driving: running steps are dropped and nothing new starts here. Each operation soon ends where its journal has
    /// it, and the process that takes it over continues at once.
    pub fn leave(&self) {
        self.context.live.shut_down();
    }

    /// Drives, concurrently, all operations that no process drives, until they end or stop.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn resume_all(&self) -> Result<(), StoreError> {
        let mut driven = FuturesUnordered::new();
        while let Some(operation) = self.take_over().await? {
            driven.push(operation);
        }
        while let Some(outcome) = driven.next().await {
            outcome?;
        }
        Ok(())
    }

    /// Starts no further step: each driven operation stops once its running step is journaled, and is released for the next
    /// process. For a process that is about to shut down.
    pub fn rest(&self) {
        self.context.live.pause();
    }

    /// Records at the start of a shutdown that this process stops in order: a step that it leaves open, because the step takes
    /// too long or is killed meanwhile, is not held to have killed the process.
    pub async fn announce_shutdown(&self) {
        self.context.orderly_exits(None).await;
    }

    /// Number of operations that this process drives.
    pub fn driven(&self) -> usize {
        self.context.live.count()
    }

    /// What an operation is doing, why it waits, and what each possible action would do.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if the tenant has no such operation.
    pub async fn progress(&self, tenant: &str, op_id: &str) -> Result<Progress, StoreError> {
        lcm::explain::progress(&self.context, self.operations, tenant, op_id).await
    }

    /// Completes when [`Engine::progress`] changes, as far as this process knows; after a second if
    /// another process drives the operation.
    pub async fn changed(&self, op_id: &str) {
        let clock = self.context.ports.clock.clone();
        let tick = clock.sleep(Duration::from_secs(1));
        let change = match self.context.live.get(op_id) {
            Some(live) => live.listen(),
            None => self.context.live.listen(),
        };
        futures_util::future::select(change, tick).await;
    }

    /// Log lines of an operation with a number above `after`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if the tenant has no such operation.
    pub async fn log(
        &self,
        tenant: &str,
        op_id: &str,
        after: u64,
    ) -> Result<Vec<LogLine>, StoreError> {
        self.store().op(tenant, op_id).await?;
        if let Some(live) = self.context.live.get(op_id) {
            live.store_log(self.store(), op_id).await;
        }
        self.store().log(op_id, after).await
    }

    /// Audit entries after number `after`, at most `limit`.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn audit(
        &self,
        tenant: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, Refusal> {
        Ok(self.store().audit(tenant, after, limit).await?)
    }
}
