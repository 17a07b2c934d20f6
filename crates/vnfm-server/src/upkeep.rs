//! What keeps a server well over the years: backups, pruning, room on the disk, and recovery after a restore.
//!
//! ```text
//! restored database ──► recovery: reads answer, changes are 503, nothing is driven
//!                       └─ GET recovery (how the VIMs differ) ─ confirm ──► as usual
//! ```

use crate::config;
use crate::probes::Part;
use crate::problem::{Answer, Problem};
use crate::state::App;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use vnfm_core::ports::{Clock, StoreError};
use vnfm_store::{KeyLocation, PackageDir, Pruned, Recovery, Retention, SqliteStore, Statistics};

/// Where [`guard`] lets changes through in recovery.
pub const CONFIRM: &str = "/vnfm/v1/recovery/confirm";
/// The least free bytes where nothing else is configured: room for what is in flight.
const LEAST_FREE: u64 = 128 * 1024 * 1024;
/// How long after its start a server prunes for the first time.
const FIRST_PRUNING: Duration = Duration::from_mins(1);

/// The database and its folder, as their caretaker sees them.
pub struct Upkeep {
    store: Arc<SqliteStore>,
    packages: Arc<PackageDir>,
    data: PathBuf,
    retention: Retention,
    least_free: AtomicU64,
    clock: Arc<dyn Clock>,
    recovery: Option<Recovery>,
    recovering: AtomicBool,
    confirmed: Notify,
}

impl Upkeep {
    /// Of the database in the folder `data`, which is in recovery if its restoration was not confirmed.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn new(
        (store, packages): (Arc<SqliteStore>, Arc<PackageDir>),
        data: &Path,
        (retention, least_free): (Retention, Option<u64>),
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let recovery = store.recovery().await?;
        Ok(Self {
            recovering: AtomicBool::new(recovery.is_some()),
            recovery,
            store,
            packages,
            data: data.to_owned(),
            retention,
            least_free: least_free.unwrap_or(LEAST_FREE).into(),
            clock,
            confirmed: Notify::new(),
        })
    }

    /// What was restored and not confirmed yet.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery
            .as_ref()
            .filter(|_| self.recovering.load(Ordering::SeqCst))
    }

    /// Ends the recovery: operations are taken and driven from now on.
    ///
    /// # Errors
    ///
    /// Where the database does not take it.
    pub async fn confirm(&self) -> Result<(), StoreError> {
        self.store.end_recovery().await?;
        self.recovering.store(false, Ordering::SeqCst);
        self.confirmed.notify_waiters();
        self.confirmed.notify_one();
        Ok(())
    }

    /// Completes once nothing is in recovery.
    pub async fn is_confirmed(&self) {
        while self.recovering.load(Ordering::SeqCst) {
            self.confirmed.notified().await;
        }
    }

    /// A backup, in a file that is gone when it is closed.
    ///
    /// # Errors
    ///
    /// Where the disk does not take it.
    pub async fn backup(&self) -> Answer<tokio::fs::File> {
        let made = self
            .store
            .nameless_backup(&self.packages, &self.data, self.clock.now());
        Ok(tokio::fs::File::from_std(made.await?))
    }

    /// Removes what is older than it is kept, or only counts it; with that, how many parsed packages were forgotten.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn prune(&self, dry_run: bool) -> Result<(Pruned, usize), StoreError> {
        let pruned = self
            .store
            .prune(&self.retention, self.clock.now(), dry_run)
            .await?;
        Ok((pruned, self.packages.forget_idle(dry_run)))
    }

    /// Prunes now and then, for ever; `every` zero hours: never.
    pub async fn prune_every(&self, every: Duration) {
        if every.is_zero() {
            return;
        }
        self.clock.sleep(FIRST_PRUNING).await;
        loop {
            match self.prune(false).await {
                Ok((pruned, packages)) => tracing::info!(?pruned, packages, "pruned"),
                Err(error) => tracing::warn!(%error, "cannot prune"),
            }
            self.clock.sleep(every).await;
        }
    }

    /// Other limits from now on.
    pub fn set_least_free(&self, least_free: Option<u64>) {
        self.least_free
            .store(least_free.unwrap_or(LEAST_FREE), Ordering::SeqCst);
    }

    /// How much there is of what.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn figures(&self) -> Result<Statistics, StoreError> {
        self.store.figures().await
    }

    /// Which of its parts can do their work.
    pub async fn parts(&self) -> Vec<Part> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let database = self.store.probe().await.map_err(|error| text(&error));
        let keys = match self.store.key_place() {
            KeyLocation::File => tokio::fs::read(self.data.join("secrets.key"))
                .await
                .map(drop),
            // They are in memory: who keeps them may be away.
            KeyLocation::Sealer => Ok(()),
        };
        let keys = keys.map_err(|error| text(&error));
        let disk = self
            .room()
            .map_err(|problem| problem.details().detail.clone());
        let recovery = match self.recovery() {
            Some(_) => Err("in recovery, until somebody confirms it".to_owned()),
            None => Ok(()),
        };
        vec![
            ("database", database),
            ("files", self.store.in_place()),
            ("integrity", self.store.integrity()),
            ("keys", keys),
            ("disk", disk),
            ("recovery", recovery),
        ]
    }

    /// Refuses where the disk has less room than what is in flight may need.
    pub(crate) fn room(&self) -> Answer<()> {
        let least_free = self.least_free.load(Ordering::SeqCst);
        let Ok(disk) = rustix::fs::statvfs(&self.data) else {
            return Ok(());
        };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free >= least_free {
            return Ok(());
        }
        let what = format!(
            "the disk of `{}` has {free} bytes left, and nothing new is begun below {least_free}; operations in flight go on; \
             next: make room (`vnfmctl prune`, older backups, packages that are not in use), then try again",
            self.data.display(),
        );
        Err(Problem::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "server.low-disk",
            what,
        ))
    }
}

/// Keeps changes out during recovery, and what is new where the disk is low.
pub async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    match app
        .upkeep
        .as_deref()
        .map_or(Ok(()), |upkeep| upkeep.allows(&request))
    {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Upkeep {
    fn allows(&self, request: &Request) -> Answer<()> {
        let path = request.uri().path();
        if matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        ) {
            return Ok(());
        }
        if let Some(recovery) = self.recovery().filter(|_| path != CONFIRM) {
            let what = format!(
                "the database was restored at {} and shows {}; nothing is changed before somebody has seen how the \
                 VIMs differ",
                recovery.restored_at, recovery.backup_at
            );
            let unavailable = StatusCode::SERVICE_UNAVAILABLE;
            return Err(Problem::new(unavailable, "server.recovery", what)
                .next("`vnfmctl recovery show`, then `vnfmctl recovery confirm`"));
        }
        self.is_sound()?;
        if begins_something(request.method(), path) {
            self.room()
        } else {
            Ok(())
        }
    }
}

impl Upkeep {
    /// Refuses what would be written into a database that is damaged, or that nobody finds any more.
    fn is_sound(&self) -> Answer<()> {
        let refused = |code, what| Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, what);
        self.store.in_place().map_err(|why| {
            let what = format!("{why}: a change would be lost with this process");
            refused("server.files-lost", what)
                .next("bring it back as it was, or stop the server and restore a backup")
        })?;
        self.store.integrity().map_err(|why| {
            refused("server.damaged", format!("the database is damaged: {why}")).next(
                "stop the server, check the disk, then restore a backup (`vnfm-server restore FILE`)",
            )
        })
    }
}

/// False for what ends something, or makes room.
fn begins_something(method: &Method, path: &str) -> bool {
    const ENDS: &[&str] = &[
        "/terminate",
        "/retry",
        "/rollback",
        "/fail",
        "/cancel",
        "/abandon",
        "/prune",
        "/confirm",
        "/check",
    ];
    // A package is disabled before it is deleted.
    let is_change_of_a_package =
        *method == Method::PATCH && path.starts_with("/vnfpkgm/v2/vnf_packages/");
    let makes_room = *method == Method::DELETE || is_change_of_a_package;
    !makes_room && !ENDS.iter().any(|end| path.ends_with(end))
}

/// How long each kind is kept, as configured.
pub fn retention(days: &config::Retention) -> Retention {
    let default = Retention::default();
    let kept = |days: Option<u32>, default| {
        days.map_or(default, |days| Duration::from_hours(24 * u64::from(days)))
    };
    Retention {
        op_occs: kept(days.op_occ_days, default.op_occs),
        journal: kept(days.journal_days, default.journal),
        logs: kept(days.log_days, default.logs),
        outbox: kept(days.outbox_days, default.outbox),
        audit: kept(days.audit_days, default.audit),
    }
}

#[cfg(test)]
mod tests {
    use super::begins_something;
    use axum::http::Method;

    #[test]
    fn what_ends_something_or_makes_room_needs_none() {
        let vnf = "/vnflcm/v2/vnf_instances";
        assert!(begins_something(&Method::POST, vnf));
        assert!(begins_something(
            &Method::POST,
            &format!("{vnf}/i/instantiate")
        ));
        assert!(begins_something(&Method::POST, &format!("{vnf}/i/heal")));
        assert!(begins_something(
            &Method::PUT,
            "/vnfpkgm/v2/vnf_packages/p/package_content"
        ));
        assert!(
            begins_something(&Method::POST, "/vnfm/v1/backup"),
            "it is made on that disk"
        );
        assert!(!begins_something(&Method::DELETE, &format!("{vnf}/i")));
        assert!(!begins_something(
            &Method::POST,
            &format!("{vnf}/i/terminate")
        ));
        assert!(!begins_something(
            &Method::POST,
            "/vnflcm/v2/vnf_lcm_op_occs/o/rollback"
        ));
        assert!(!begins_something(&Method::POST, "/vnfm/v1/prune"));
        let package = "/vnfpkgm/v2/vnf_packages/p";
        assert!(
            !begins_something(&Method::PATCH, package),
            "it is disabled, then deleted"
        );
        assert!(begins_something(&Method::PATCH, &format!("{vnf}/i")));
    }
}
