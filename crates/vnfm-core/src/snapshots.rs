//! VNF snapshots as resources (SOL003 5.4.23, 5.4.24): creation without contents, modification, deletion.
//!
//! ```text
//! create ── empty ── create_snapshot begins ── incomplete ── COMPLETED ──► complete ── revert_to_snapshot
//!             ▲                                    │ │                        │
//!             └───────────── ROLLED_BACK ──────────┘ └─ FAILED: stays so ─────┴── delete: the VIM's resources, then the record
//! ```
//! [`create_snapshot`](crate::lcm::create_snapshot) and [`revert_to_snapshot`](crate::lcm::revert_to_snapshot) are operations.

use crate::engine::Engine;
use crate::lcm::{being_deleted, used_by};
use crate::ports::{Change, Ownership, PortError, SnapshotRecord, VimCall};
use crate::query::VisibilityScope;
use crate::refusal::{self, Refusal, Why};
use crate::vims;
use std::time::Duration;
use vnfm_types::{
    CreateVnfSnapshotInfoRequest, VnfSnapshotInfo, VnfSnapshotInfoModificationRequest,
    VnfSnapshotInfoModifications,
};

/// Time limit of a deletion at the VIM; a shorter limit of steps applies, too.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Whether a snapshot still is as the caller last read it (`If-Match`, `If-Unmodified-Since`).
pub type ExpectedSnapshot<'a> = &'a (dyn Fn(&SnapshotRecord) -> bool + Sync);

impl Engine {
    /// Creates a snapshot without contents, visible in the caller's scope.
    ///
    /// # Errors
    ///
    /// `Unprocessable` if the request has contents: those of a VNF snapshot package are not supported.
    pub async fn create_snapshot_info(
        &self,
        tenant: &str,
        scope: &VisibilityScope,
        request: CreateVnfSnapshotInfoRequest,
    ) -> Result<SnapshotRecord, Refusal> {
        check_without_contents(&request)?;
        let record = SnapshotRecord {
            tenant: tenant.to_owned(),
            info: VnfSnapshotInfo {
                id: uuid::Uuid::new_v4().to_string(),
                vnf_snapshot_pkg_id: request.vnf_snapshot_pkg_id,
                ..VnfSnapshotInfo::default()
            },
            scope: scope.clone(),
            ..SnapshotRecord::default()
        };
        let add = Change::AddSnapshot(Box::new(record.clone()));
        self.store().write(None, vec![add]).await?;
        Ok(self.store().snapshot(tenant, &record.info.id).await?)
    }

    /// Changes which VNF snapshot package belongs to a snapshot; returns the record after that, and what changed.
    ///
    /// # Errors
    ///
    /// As [`Engine::create_snapshot_info`]; `Stale` if it changed; `Conflict` while an operation uses it.
    pub async fn modify_snapshot_info(
        &self,
        tenant: &str,
        id: &str,
        request: VnfSnapshotInfoModificationRequest,
        expected: ExpectedSnapshot<'_>,
    ) -> Result<(SnapshotRecord, VnfSnapshotInfoModifications), Refusal> {
        check_without_contents(&request)?;
        let mut record = self.unused_snapshot(tenant, id, expected).await?;
        if record.deleting {
            return Err(being_deleted(id));
        }
        let mut modified = VnfSnapshotInfoModifications::default();
        if let Some(package) = request.vnf_snapshot_pkg_id {
            modified.vnf_snapshot_pkg_id = Some(package.clone());
            record.info.vnf_snapshot_pkg_id = Some(package);
            let put = Change::PutSnapshot(Box::new(record));
            self.store().write(None, vec![put]).await?;
        }
        Ok((self.store().snapshot(tenant, id).await?, modified))
    }

    /// Deletes a snapshot: first what the VIM has of it, then the record. If the VIM fails, the record stays, and the
    /// deletion can be repeated; nothing else is possible with it then.
    ///
    /// # Errors
    ///
    /// `Stale` if it changed; `Conflict` while an operation uses it, or if the VIM refuses; `Unavailable` if the VIM does not
    /// respond.
    pub async fn delete_snapshot_info(
        &self,
        tenant: &str,
        id: &str,
        expected: ExpectedSnapshot<'_>,
    ) -> Result<(), Refusal> {
        let mut record = self.unused_snapshot(tenant, id, expected).await?;
        if record.deployment.is_some() {
            record.deleting = true;
            record.used_by = None;
            let mark = Change::PutSnapshot(Box::new(record.clone()));
            self.store().write(None, vec![mark]).await?;
            record.version += 1;
            self.delete_stored(&record).await?;
        }
        let remove = Change::RemoveSnapshot {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            version: record.version,
        };
        Ok(self.store().write(None, vec![remove]).await?)
    }

    /// A snapshot that no operation uses.
    async fn unused_snapshot(
        &self,
        tenant: &str,
        id: &str,
        expected: ExpectedSnapshot<'_>,
    ) -> Result<SnapshotRecord, Refusal> {
        let record = self.store().snapshot(tenant, id).await?;
        if !expected(&record) {
            let what = format!("VNF snapshot `{id}` has changed since it was read");
            return Err(Refusal::new(Why::Stale, &refusal::STALE, what));
        }
        match &record.used_by {
            None => Ok(record),
            Some(op_id) => Err(used_by(id, op_id)),
        }
    }

    /// Deletes what the VIM has of a snapshot.
    async fn delete_stored(&self, record: &SnapshotRecord) -> Result<(), Refusal> {
        let Some(deployment) = &record.deployment else {
            return Ok(());
        };
        let (context, tenant) = (&self.context, &record.tenant);
        let connections = &deployment.vim_connection_info;
        let (vim, driver) = vims::of_connections(context, tenant, connections).await?;
        let Some(snapshots) = driver.snapshots() else {
            return Ok(()); // it has stored nothing
        };
        let contents = record.info.vnf_snapshot.as_ref();
        let ownership = Ownership {
            installation_id: self.store().installation_id().to_owned(),
            tenant: tenant.clone(),
            instance_id: contents.map_or_else(String::new, |one| one.vnf_instance_id.clone()),
            op_id: String::new(),
        };
        let (clock, timeout) = (&*context.ports.clock, TIMEOUT.min(context.limits().step));
        let cx = VimCall {
            vim: &vim,
            ownership: &ownership,
            clock,
            watcher: &(),
            deadline: clock.now().saturating_add(timeout).unwrap_or_default(),
        };
        let deleted = snapshots.delete(&cx, &record.info.id, &record.handle);
        deleted.await.map_err(not_deleted)
    }
}

/// 409 if the VIM refuses: the request itself is in order.
fn not_deleted(error: PortError) -> Refusal {
    let refusal = Refusal::of_vim(error);
    let why = match refusal.why {
        Why::Unprocessable => Why::Conflict,
        other => other,
    };
    Refusal { why, ..refusal }
}

/// Refuses contents: only `create_snapshot` stores them.
fn check_without_contents(request: &CreateVnfSnapshotInfoRequest) -> Result<(), Refusal> {
    if request.vnf_snapshot.is_none() {
        return Ok(());
    }
    let what = "vnfSnapshot cannot be set: this VNFM does not extract VNF snapshot packages";
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::BAD_SNAPSHOT,
        what,
    ))
}
