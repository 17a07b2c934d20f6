//! The engine as an embedder sees it: built from its ports, it accepts requests, and is awaited to drive operations.

use crate::drivers::Drivers;
use crate::exclusive::Exclusion;
use crate::lcm::{self, Operation};
use crate::ports::{
    Budget, Change, Clock, HostServices, MgmtDrivers, Nfvo, NoSchemas, NoopObserver, Observer,
    Packages, Schemas, Store, StoreError,
};
use crate::running_ops::RunningOps;
use crate::static_plugins::{NoHostServices, StaticPlugins};
use crate::vim_limiter::VimLimiter;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use vnfm_types::v1::ApiVersion;
use vnfm_types::{LcmOperationType, LogLine, Progress};

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

/// Timeouts of steps and calls, and concurrency limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Timeout of a step that works on a VIM. Default 30 minutes.
    pub step: Duration,
    /// Timeout of a hook. Default 60 minutes.
    pub hook: Duration,
    /// Timeout of a grant, from the first request to the NFVO's decision. Default 10 minutes.
    pub grant: Duration,
    /// Timeout of one call to the NFVO. Default 30 s.
    pub grant_call: Duration,
    /// How long a process holds an operation without renewing; a crash is noticed after that. Default 10 s.
    pub lease: Duration,
    /// Maximum concurrent calls per VIM, over all operations; 0: unlimited (default).
    pub vim_calls: usize,
    /// Maximum concurrent operations per VIM; 0: unlimited (default).
    pub vim_operations: usize,
    /// Maximum size of the plan of one instance.
    pub plan: Budget,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            step: Duration::from_mins(30),
            hook: Duration::from_hours(1),
            grant: Duration::from_mins(10),
            grant_call: Duration::from_secs(30),
            lease: Duration::from_secs(10),
            vim_calls: 0,
            vim_operations: 0,
            plan: Budget::default(),
        }
    }
}

/// The engine. Clones are cheap and share state; two separate engines in one process share nothing.
#[derive(Clone)]
pub struct Engine {
    pub(crate) parts: Arc<EngineParts>,
    pub(crate) live: Arc<RunningOps>,
    pub(crate) owner: Arc<str>,
    pub(crate) observer: Arc<dyn Observer>,
    limits: Arc<RwLock<Limits>>,
    pub(crate) calls: Arc<VimLimiter>,
    pub(crate) operations: Arc<VimLimiter>,
    /// Steps that run, and the one that runs exclusively.
    pub(crate) exclusion: Arc<Exclusion>,
    /// Whether the suspects of earlier processes are known.
    pub(crate) suspects_loaded: Arc<futures_util::lock::Mutex<bool>>,
    /// The API version in which operations begin.
    pub(crate) api_version: ApiVersion,
}

impl Engine {
    /// An engine with these ports.
    pub fn new(parts: EngineParts) -> Self {
        let limits = parts.limits.clone();
        let engine = Self {
            parts: Arc::new(parts),
            live: Arc::default(),
            owner: uuid::Uuid::new_v4().to_string().into(),
            observer: Arc::new(NoopObserver),
            limits: Arc::default(),
            calls: Arc::default(),
            operations: Arc::default(),
            exclusion: Arc::default(),
            suspects_loaded: Arc::default(),
            api_version: ApiVersion::default(),
        };
        engine.set_limits(limits);
        engine
    }

    /// Reports metrics to `observer` from now on.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// For a client of this VNF LCM version: operations begun here link to resources of that
    /// version in their grant request.
    #[must_use]
    pub fn with_api_version(&self, edition: ApiVersion) -> Self {
        Self {
            api_version: edition,
            ..self.clone()
        }
    }

    /// The limits that apply now.
    pub fn limits(&self) -> Limits {
        self.limits
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Sets limits for everything that starts from now on: a running step keeps its deadline.
    pub fn set_limits(&self, limits: Limits) {
        self.calls.set_max(limits.vim_calls);
        self.operations.set_max(limits.vim_operations);
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// The operations given to [`Engine::new`]: routes, links and commands derive from them.
    pub fn operations(&self) -> &'static [&'static Operation] {
        self.parts.operations
    }

    /// The operation of this type; `None` if this engine does not have it.
    pub fn operation(&self, kind: LcmOperationType) -> Option<&'static Operation> {
        let mut all = self.parts.operations.iter().copied();
        all.find(|operation| operation.kind == kind)
    }

    /// The store given to [`Engine::new`].
    pub fn store(&self) -> &dyn Store {
        &*self.parts.store
    }

    /// The current time of its clock.
    pub fn now(&self) -> jiff::Timestamp {
        self.parts.clock.now()
    }

    /// The hook drivers given to [`Engine::new`].
    pub fn mgmt_drivers(&self) -> &dyn MgmtDrivers {
        &*self.parts.mgmt
    }

    /// Drives an operation until it ends, stops, or another process takes it over. Await it wherever you like; dropping the
    /// future is equivalent to a crash.
    ///
    /// # Errors
    ///
    /// If the database does not respond: the operation stays as it is until it is driven again.
    pub async fn drive(&self, op_id: &str) -> Result<(), StoreError> {
        match self
            .store()
            .claim(&self.owner, self.limits().lease, Some(op_id))
            .await?
        {
            Some(claim) => lcm::runner::drive(self, claim).await,
            None => Ok(()),
        }
    }

    /// Claims an operation that no process drives, if there is one, and returns the future that drives it.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn take_over(
        &self,
    ) -> Result<Option<impl Future<Output = Result<(), StoreError>> + Send + 'static>, StoreError>
    {
        let claim = self
            .store()
            .claim(&self.owner, self.limits().lease, None)
            .await?;
        let engine = self.clone();
        Ok(claim.map(|claim| async move { lcm::runner::drive(&engine, claim).await }))
    }

    /// Stops driving: running steps are dropped and nothing new starts here. Each operation soon ends where its journal has
    /// it, and the process that takes it over continues at once.
    pub fn leave(&self) {
        self.live.shut_down();
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
        self.live.pause();
    }

    /// Records at the start of a shutdown that this process stops in order: a step that it leaves open, because the step takes
    /// too long or is killed meanwhile, is not held to have killed the process.
    pub async fn announce_shutdown(&self) {
        self.orderly_exits(None).await;
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

    /// Number of operations that this process drives.
    pub fn driven(&self) -> usize {
        self.live.count()
    }

    /// What an operation is doing, why it waits, and what each possible action would do.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`] if the tenant has no such operation.
    pub async fn progress(&self, tenant: &str, op_id: &str) -> Result<Progress, StoreError> {
        lcm::explain::progress(self, tenant, op_id).await
    }

    /// Completes when [`Engine::progress`] changes, as far as this process knows; after a second if
    /// another process drives the operation.
    pub async fn changed(&self, op_id: &str) {
        let clock = self.parts.clock.clone();
        let tick = clock.sleep(Duration::from_secs(1));
        let change = match self.live.get(op_id) {
            Some(live) => live.listen(),
            None => self.live.listen(),
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
        if let Some(live) = self.live.get(op_id) {
            live.store_log(self.store(), op_id).await;
        }
        self.store().log(op_id, after).await
    }
}
