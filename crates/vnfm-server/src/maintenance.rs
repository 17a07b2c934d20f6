//! Maintenance: backups, pruning, disk space, and recovery after a restore.
//!
//! ```text
//! restored database ──► recovery: reads work, changes get 503, operations do not run
//!                       └─ GET recovery (how the VIMs differ) ─ confirm ──► normal operation
//! ```

use crate::problem::{HandlerResult, Problem};
use crate::route_match::{Effect, Matched};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use vnfm_core::ports::{
    Backups, Clock, KeyLocation, Pruned, Recovery, Retention, SealingKeys, Statistics, StoreAdmin,
    StoreError,
};
use vnfm_store::PackageDir;

/// Default minimum of free bytes, for operations in progress.
pub(crate) const MIN_FREE_BYTES: u64 = 128 * 1024 * 1024;
/// Delay of the first pruning after the start.
const FIRST_PRUNE_DELAY: Duration = Duration::from_mins(1);

/// How long finished operations, their logs and audit entries are retained.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Retention")]
pub(crate) struct RetentionDays {
    /// Days to keep finished operation occurrences; the last one of an instance is always kept. Default: 365.
    pub op_occ_days: Option<u32>,
    /// Days to keep journals of finished operations. Default: 90.
    pub journal_days: Option<u32>,
    /// Days to keep logs of finished operations. Default: 30.
    pub log_days: Option<u32>,
    /// Days to keep notifications. Default: 30.
    pub outbox_days: Option<u32>,
    /// Days to keep audit entries. Default: 365.
    pub audit_days: Option<u32>,
    /// Hours between two prunings; 0 disables pruning. Default: 24.
    pub every_hours: Option<u32>,
}

impl RetentionDays {
    /// How long each kind of data is kept.
    pub(crate) fn retention(&self) -> Retention {
        let default = Retention::default();
        let retention = |days: Option<u32>, default| {
            days.map_or(default, |days| Duration::from_hours(24 * u64::from(days)))
        };
        Retention {
            op_occs: retention(self.op_occ_days, default.op_occs),
            journal: retention(self.journal_days, default.journal),
            logs: retention(self.log_days, default.logs),
            outbox: retention(self.outbox_days, default.outbox),
            audit: retention(self.audit_days, default.audit),
        }
    }
}

/// A component of the server, and its error.
pub(crate) type Part = (&'static str, Result<(), String>);

/// The ports of the database that maintenance uses.
pub(crate) struct MaintenancePorts {
    /// Retention, statistics, health and recovery.
    pub admin: Arc<dyn StoreAdmin>,
    /// The keys that seal its secrets.
    pub keys: Arc<dyn SealingKeys>,
    /// Backups of it, of the packages and of the stored files.
    pub backups: Arc<dyn Backups>,
    /// The packages that the database refers to.
    pub packages: Arc<PackageDir>,
}

/// Maintenance of the database and its folder.
pub(crate) struct Maintenance {
    ports: MaintenancePorts,
    data: PathBuf,
    retention: Retention,
    min_free: AtomicU64,
    clock: Arc<dyn Clock>,
    recovery: Option<Recovery>,
    recovering: AtomicBool,
    confirmed: Notify,
}

impl Maintenance {
    /// For the database in the folder `data`; in recovery if a restore is not confirmed yet.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub(crate) async fn new(
        ports: MaintenancePorts,
        data: &Path,
        (retention, min_free): (Retention, Option<u64>),
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let recovery = ports.admin.recovery().await?;
        Ok(Self {
            recovering: AtomicBool::new(recovery.is_some()),
            recovery,
            ports,
            data: data.to_owned(),
            retention,
            min_free: min_free.unwrap_or(MIN_FREE_BYTES).into(),
            clock,
            confirmed: Notify::new(),
        })
    }

    /// The restore that is not confirmed yet.
    pub(crate) fn recovery(&self) -> Option<&Recovery> {
        self.recovery
            .as_ref()
            .filter(|_| self.recovering.load(Ordering::SeqCst))
    }

    /// Ends the recovery: operations are accepted and driven again.
    ///
    /// # Errors
    ///
    /// If the database cannot be written.
    pub(crate) async fn confirm(&self) -> Result<(), StoreError> {
        self.ports.admin.end_recovery().await?;
        self.recovering.store(false, Ordering::SeqCst);
        self.confirmed.notify_waiters();
        self.confirmed.notify_one();
        Ok(())
    }

    /// Completes when the database is not in recovery.
    pub(crate) async fn recovery_confirmed(&self) {
        while self.recovering.load(Ordering::SeqCst) {
            self.confirmed.notified().await;
        }
    }

    /// Creates a backup in an unlinked file, which disappears when it is closed.
    ///
    /// # Errors
    ///
    /// If the disk cannot be written.
    pub(crate) async fn backup(&self) -> HandlerResult<tokio::fs::File> {
        let backups = &self.ports.backups;
        let backup = backups.unnamed_backup(&self.data, self.clock.now());
        Ok(tokio::fs::File::from_std(backup.await?))
    }

    /// Removes data older than its retention, or only counts it; also returns the number of
    /// parsed packages dropped from memory.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub(crate) async fn prune(&self, dry_run: bool) -> Result<(Pruned, usize), StoreError> {
        let pruned = self
            .ports
            .admin
            .prune(&self.retention, self.clock.now(), dry_run)
            .await?;
        Ok((pruned, self.ports.packages.drop_unused(dry_run)))
    }

    /// Prunes at an interval; an interval of zero disables pruning.
    pub(crate) async fn prune_every(&self, interval: Duration) {
        if interval.is_zero() {
            return;
        }
        self.clock.sleep(FIRST_PRUNE_DELAY).await;
        loop {
            match self.prune(false).await {
                Ok((pruned, packages)) => tracing::info!(?pruned, packages, "pruned"),
                Err(error) => tracing::warn!(%error, "cannot prune"),
            }
            self.clock.sleep(interval).await;
        }
    }

    /// Changes the minimum of free bytes.
    pub(crate) fn set_min_free(&self, min_free: Option<u64>) {
        self.min_free
            .store(min_free.unwrap_or(MIN_FREE_BYTES), Ordering::SeqCst);
    }

    /// Numbers of objects and sizes.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub(crate) async fn statistics(&self) -> Result<Statistics, StoreError> {
        self.ports.admin.statistics().await
    }

    /// The state of each component.
    pub(crate) async fn health(&self) -> Vec<Part> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let database = self.ports.admin.probe().await.map_err(|error| text(&error));
        let keys = match self.ports.keys.key_location() {
            KeyLocation::File => tokio::fs::read(self.data.join("secrets.key"))
                .await
                .map(drop),
            // The keys are in memory; the key provider may be unreachable meanwhile.
            KeyLocation::Sealer => Ok(()),
        };
        let keys = keys.map_err(|error| text(&error));
        let disk = self
            .check_disk()
            .map_err(|problem| problem.details().detail.clone());
        let recovery = match self.recovery() {
            Some(_) => Err("in recovery until it is confirmed".to_owned()),
            None => Ok(()),
        };
        vec![
            ("database", database),
            ("files", self.ports.admin.check_open_files()),
            ("integrity", self.ports.admin.integrity()),
            ("keys", keys),
            ("disk", disk),
            ("recovery", recovery),
        ]
    }

    /// Fails if the disk has less free space than operations in progress may need.
    pub(crate) fn check_disk(&self) -> HandlerResult<()> {
        let min_free = self.min_free.load(Ordering::SeqCst);
        let Ok(disk) = rustix::fs::statvfs(&self.data) else {
            return Ok(());
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= min_free {
            return Ok(());
        }
        let what = format!(
            "the disk of `{}` has {free} bytes left; below {min_free}, nothing new is started; operations in progress continue; \
             hint: free space (`vnfmctl prune`, delete old backups and unused packages), then try again",
            self.data.display(),
        );
        Err(Problem::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "server.low-disk",
            what,
        ))
    }
}

/// Rejects changes during recovery, and new work if the disk is low.
pub(crate) async fn guard(
    State(maintenance): State<Option<Arc<Maintenance>>>,
    request: Request,
    next: Next,
) -> Response {
    match maintenance.map_or(Ok(()), |maintenance| maintenance.check(&request)) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Maintenance {
    fn check(&self, request: &Request) -> HandlerResult<()> {
        if matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        ) {
            return Ok(());
        }
        let route = Matched::from_extensions(request.extensions()).and_then(Matched::route);
        let effect = route.map_or(Effect::Adds, |route| route.effect);
        if effect == Effect::Plans {
            return Ok(());
        }
        if let Some(recovery) = self.recovery().filter(|_| effect != Effect::EndsRecovery) {
            let detail = format!(
                "the database was restored at {} from a backup of {}; changes are refused until an operator has checked how the \
                 VIMs differ and confirmed the recovery",
                recovery.restored_at, recovery.backup_at
            );
            let unavailable = StatusCode::SERVICE_UNAVAILABLE;
            return Err(Problem::new(unavailable, "server.recovery", detail)
                .hint("`vnfmctl recovery show`, then `vnfmctl recovery confirm`"));
        }
        self.check_database()?;
        match effect {
            Effect::Adds => self.check_disk(),
            Effect::Reads | Effect::Plans | Effect::Frees | Effect::EndsRecovery => Ok(()),
        }
    }
}

impl Maintenance {
    /// Rejects changes if the database is damaged, or its files were removed or replaced.
    fn check_database(&self) -> HandlerResult<()> {
        let unavailable =
            |code, detail| Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail);
        self.ports.admin.check_open_files().map_err(|error| {
            let detail = format!("{error}: changes would be lost");
            unavailable("server.files-lost", detail)
                .hint("restore the files, or stop the server and restore a backup")
        })?;
        self.ports.admin.integrity().map_err(|error| {
            unavailable("server.damaged", format!("the database is damaged: {error}")).hint(
                "stop the server, check the disk, then restore a backup (`vnfm-server restore FILE`)",
            )
        })
    }
}
