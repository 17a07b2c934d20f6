//! The engine as an embedder sees it: built from its ports, asked to accept requests, awaited to drive them.

use crate::drivers::Drivers;
use crate::lcm;
use crate::linked::{Linked, NoHosts};
use crate::live::Live;
use crate::ports::{
    Budget, Change, Clock, HostServices, MgmtDrivers, Nfvo, NoSchemas, Nobody, Observer, Packages,
    Schemas, Store, StoreError,
};
use crate::solitude::Solitude;
use crate::turns::Turns;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use vnfm_types::v1::Edition;
use vnfm_types::{LogLine, Progress};

/// What an engine is made of.
pub struct EngineParts {
    /// The database.
    pub store: Arc<dyn Store>,
    /// Onboarded packages.
    pub packages: Arc<dyn Packages>,
    /// Drivers by vimType.
    pub drivers: Drivers,
    /// The vendors' hooks.
    pub mgmt: Arc<dyn MgmtDrivers>,
    /// SSH and HTTP for hooks.
    pub host: Arc<dyn HostServices>,
    /// Whoever grants operations; `None`: a local policy approves all of them.
    pub nfvo: Option<Arc<dyn Nfvo>>,
    /// JSON Schema: what checks parameters.
    pub schemas: Arc<dyn Schemas>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Limits, as they are at first.
    pub limits: Limits,
}

impl EngineParts {
    /// The three that every engine needs; without drivers, hooks, a way to hosts, an NFVO and JSON Schema. What of it
    /// is wanted is put over it: `EngineParts { drivers, ..EngineParts::new(store, packages, clock) }`.
    pub fn new(store: Arc<dyn Store>, packages: Arc<dyn Packages>, clock: Arc<dyn Clock>) -> Self {
        Self {
            store,
            packages,
            drivers: Drivers::default(),
            mgmt: Arc::new(Linked::default()),
            host: Arc::new(NoHosts),
            nfvo: None,
            schemas: Arc::new(NoSchemas),
            clock,
            limits: Limits::default(),
        }
    }
}

/// Limits: how long something may take before it is given up, and how much a VIM gets at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// A step that works on a VIM. Default 30 minutes.
    pub step: Duration,
    /// A hook. Default 60 minutes.
    pub hook: Duration,
    /// A grant, from the first request for it to the NFVO's decision. Default 10 minutes.
    pub grant: Duration,
    /// One call to the NFVO. Default 30 s.
    pub grant_call: Duration,
    /// How long a process keeps an operation without saying so again; a crash is noticed after that. Default 10 s.
    pub lease: Duration,
    /// Calls that one VIM gets at a time, all operations together; 0: any number, which is the default.
    pub vim_calls: usize,
    /// Operations that work on one VIM at a time; 0: any number, which is the default.
    pub vim_operations: usize,
    /// How much the plan of one instance may come to.
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

/// The engine. Cloning it is cheap; two engines in one process do not meet.
#[derive(Clone)]
pub struct Engine {
    pub(crate) parts: Arc<EngineParts>,
    pub(crate) live: Arc<Live>,
    pub(crate) owner: Arc<str>,
    pub(crate) observer: Arc<dyn Observer>,
    limits: Arc<RwLock<Limits>>,
    /// Calls to VIMs.
    pub(crate) calls: Arc<Turns>,
    /// Operations on VIMs.
    pub(crate) operations: Arc<Turns>,
    /// Which steps run, and which run alone.
    pub(crate) solitude: Arc<Solitude>,
    /// Whether it knows which steps are suspects of earlier processes.
    pub(crate) learned: Arc<futures_util::lock::Mutex<bool>>,
    /// What it accepts is undone as soon as it was.
    pub(crate) is_trial: bool,
    /// The version of the interface in which operations begin.
    pub(crate) edition: Edition,
}

impl Engine {
    /// An engine over `parts`.
    pub fn new(parts: EngineParts) -> Self {
        let limits = parts.limits.clone();
        let engine = Self {
            parts: Arc::new(parts),
            live: Arc::default(),
            owner: uuid::Uuid::new_v4().to_string().into(),
            observer: Arc::new(Nobody),
            limits: Arc::default(),
            calls: Arc::default(),
            operations: Arc::default(),
            solitude: Arc::default(),
            learned: Arc::default(),
            is_trial: false,
            edition: Edition::default(),
        };
        engine.set_limits(limits);
        engine
    }

    /// The same engine, with somebody who counts what it does from now on.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// The same engine, for a client that speaks this version of VNF LCM: what begins here links into that version when
    /// the NFVO is asked for a grant, however the operation goes on.
    #[must_use]
    pub fn in_edition(&self, edition: Edition) -> Self {
        Self {
            edition,
            ..self.clone()
        }
    }

    /// The same engine, which accepts and writes nothing.
    pub(crate) fn for_trial(&self) -> Self {
        Self {
            is_trial: true,
            ..self.clone()
        }
    }

    /// The limits as they are now.
    pub fn limits(&self) -> Limits {
        self.limits
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Other limits from now on, for whatever begins: a step that runs keeps its time.
    pub fn set_limits(&self, limits: Limits) {
        self.calls.limit(limits.vim_calls);
        self.operations.limit(limits.vim_operations);
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// The database that it works on.
    pub fn store(&self) -> &dyn Store {
        &*self.parts.store
    }

    /// The time as its clock has it.
    pub fn now(&self) -> jiff::Timestamp {
        self.parts.clock.now()
    }

    /// The hooks' drivers that it finds.
    pub fn mgmt_drivers(&self) -> &dyn MgmtDrivers {
        &*self.parts.mgmt
    }

    /// Drives an operation until it ends, stops, or another process has it. Await it where you like; dropping
    /// the future means what a crash means.
    ///
    /// # Errors
    ///
    /// Where the database does not answer: the operation stays as it is until somebody drives it again.
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

    /// Takes one operation that nobody drives, if there is one, and gives the future that drives it.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
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

    /// Stops driving: running steps are dropped and nothing new is begun here. What is driven ends soon, each
    /// operation where its journal has it, and whoever takes it over goes on at once.
    pub fn leave(&self) {
        self.live.leave();
    }

    /// Drives everything that nobody drives, side by side, until it has ended or stopped.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
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

    /// Begins no further step: each operation that is driven stops once its running step is in the journal, and is
    /// given back, for whoever drives it next. For a process that is about to end.
    pub fn rest(&self) {
        self.live.rest();
    }

    /// Notes in the database that this process stops in order, as soon as it begins to: a step that it leaves without an
    /// end, because it takes too long or is killed meanwhile, is not held to have killed it.
    pub async fn begin_to_stop(&self) {
        self.left_in_order(None).await;
    }

    /// Notes that this process leaves an operation, or all of them, in order. Where that cannot be written, a step may
    /// run alone once without need.
    pub(crate) async fn left_in_order(&self, op_id: Option<String>) {
        let change = Change::LeftInOrder {
            process: self.owner.to_string(),
            op_id,
        };
        if let Err(error) = self.store().write(None, vec![change]).await {
            tracing::warn!(%error, "that this process stops in order was not noted");
        }
    }

    /// How many operations this process drives.
    pub fn driven(&self) -> usize {
        self.live.count()
    }

    /// What an operation does, why it waits, and what each way on would do.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    pub async fn progress(&self, tenant: &str, op_id: &str) -> Result<Progress, StoreError> {
        lcm::explain::progress(self, tenant, op_id).await
    }

    /// Completes at the next change of what [`Engine::progress`] says, as far as this process knows; where
    /// another one drives the operation, after a second.
    pub async fn changed(&self, op_id: &str) {
        let clock = self.parts.clock.clone();
        let tick = clock.sleep(Duration::from_secs(1));
        let change = match self.live.of(op_id) {
            Some(live) => live.listen(),
            None => self.live.listen(),
        };
        futures_util::future::select(change, tick).await;
    }

    /// Lines of an operation's log after number `after`.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotFound`].
    pub async fn log(
        &self,
        tenant: &str,
        op_id: &str,
        after: u64,
    ) -> Result<Vec<LogLine>, StoreError> {
        self.store().op(tenant, op_id).await?;
        if let Some(live) = self.live.of(op_id) {
            live.store_log(self.store(), op_id).await;
        }
        self.store().log(op_id, after).await
    }
}
