//! What the store writes: one [`Change`] is one statement with its condition.

use super::records::registered_vim;
use super::{
    HostPin, InstanceRecord, JournalRow, LinkRecord, OpRecord, OutboxRow, PackageRecord,
    PinnedHost, QuotaResource, ScheduleRecord, SecretJson, SnapshotRecord, SubscriptionRecord,
    VimRecord, VimUse, VolumeRecord,
};
use crate::deployment::Deployment;
use serde_json::Value;
use std::sync::Arc;
use vnfm_types::{AuditEntry, LcmOperationState, OnFailure, Tombstone, VnfSnapshot, VolumeState};

/// One conditional write. The first one whose condition fails rolls back the entire list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Adds an instance; its id must be new.
    AddInstance(Box<InstanceRecord>),
    /// Replaces an instance; refused unless the stored version is `version`. `active_op` and
    /// `on_failure` are not written.
    PutInstance(Box<InstanceRecord>),
    /// Sets what happens when a step of the instance's operations fails, also while one of them runs. Does not raise
    /// the version of the instance.
    SetOnFailure {
        /// Tenant that owns the instance.
        tenant: String,
        /// `id` of the VNF instance.
        id: String,
        /// `None`: as configured for the tenant.
        on_failure: Option<OnFailure>,
    },
    /// Removes an instance; refused while it is `INSTANTIATED` or has an active operation.
    RemoveInstance {
        /// Tenant that owns the instance.
        tenant: String,
        /// `id` of the VNF instance.
        id: String,
    },
    /// A new operation that becomes the instance's active one; refused while there is another.
    AddOp(Box<OpRecord>),
    /// Replaces an operation; refused unless its state is `from`. A stored point of no return stays. A final state frees
    /// the instance; the operation then retains where the instance lived, which decides who may see it.
    PutOp {
        /// New contents. `epoch` is not written.
        record: Arc<OpRecord>,
        /// The state expected in the store.
        from: LcmOperationState,
    },
    /// A hook rules out a rollback; refused unless the operation is `PROCESSING`. The first step that did so stays.
    RuleOutRollback {
        /// `id` of the operation occurrence.
        op_id: String,
        /// The step that the hook runs in.
        step: String,
    },
    /// Asks the driving process to stop; refused where the operation is not driven.
    Cancel {
        /// Must be in a driven state.
        op_id: String,
        /// Whether the running step finishes first.
        mode: vnfm_types::CancelMode,
    },
    /// Inserts or replaces the journal row of a step.
    Journal(Arc<JournalRow>),
    /// A process shuts down in order, or lost the lease of one operation: the steps it leaves open are not held to have
    /// killed it. Entries may be pruned after a month.
    RecordOrderlyExit {
        /// Owner string of its claims.
        process: String,
        /// `None`: everything that the process drives.
        op_id: Option<String>,
    },
    /// Data that a hook saves to survive a crash; sealed.
    Checkpoint {
        /// `id` of the operation occurrence.
        op_id: String,
        /// The step that the hook runs in.
        step: String,
        /// Key that the hook chose.
        key: String,
        /// Value under that key; it may be a secret.
        value: SecretJson,
    },
    /// Deletes the checkpoints of a step that was undone.
    RemoveCheckpoints {
        /// `id` of the operation occurrence.
        op_id: String,
        /// The step that the hook runs in.
        step: String,
    },
    /// Records that an instance lives on a VIM; refused while the cluster behind it is being deleted.
    AddUse(VimUse),
    /// Removes all uses of an instance, also those of shared virtual links; its active operation retains where it lived, which decides who may see it.
    RemoveUses {
        /// `id` of the VNF instance.
        instance_id: String,
    },
    /// Marks the VIMs that `instance_id` registered as leaving; refused while live instances use them, except `besides`.
    MarkVimsLeaving {
        /// Tenant that owns the instance.
        tenant: String,
        /// The instance whose registered VIMs leave.
        instance_id: String,
        /// The operation that deletes them.
        op_id: String,
        /// Ids of instances that the operation terminates, too.
        besides: Vec<String>,
    },
    /// Removes the marks of [`Change::MarkVimsLeaving`].
    UnmarkVimsLeaving {
        /// The operation that set them.
        op_id: String,
    },
    /// A new VIM; refused where the name or the id is taken.
    AddVim(Box<VimRecord>),
    /// Replaces a VIM; refused unless the stored version is `version`.
    PutVim(Box<VimRecord>),
    /// Removes a VIM; refused while instances use it. Succeeds if it does not exist.
    RemoveVim {
        /// Tenant that registered the VIM.
        tenant: String,
        /// Id of the VIM in the registry.
        id: String,
        /// Removes it even if instances use it.
        force: bool,
    },
    /// Adds a package; its id must be new.
    AddPackage(Box<PackageRecord>),
    /// Replaces a package; refused if its `vnfdId` belongs to another one.
    PutPackage(Box<PackageRecord>),
    /// Removes a package; refused while instances created from it exist.
    RemovePackage {
        /// Tenant that onboarded the package.
        tenant: String,
        /// `id` of the VNF package.
        id: String,
    },
    /// Adds a notification; the store assigns `seq`.
    Outbox(Box<OutboxRow>),
    /// Adds a snapshot; its id must be new.
    AddSnapshot(Box<SnapshotRecord>),
    /// Replaces a snapshot; refused unless the stored version is `version`, and while an operation uses it that is not
    /// `used_by`. `scope` is not written.
    PutSnapshot(Box<SnapshotRecord>),
    /// Writes what an operation stored in a snapshot; refused unless that operation uses it.
    FillSnapshot(Box<SnapshotContents>),
    /// Removes a snapshot; refused unless the stored version is this, and while an operation uses it.
    RemoveSnapshot {
        /// Tenant that owns the snapshot.
        tenant: String,
        /// `id` of the "Individual VNF snapshot" resource.
        id: String,
        /// The version that was read.
        version: u64,
    },
    /// Adds a shared virtual link; its id and its name must be new.
    AddLink(Box<LinkRecord>),
    /// Replaces a shared virtual link; refused unless the stored version is `version`. The state `DELETING` is refused while
    /// instances use it. `used_by` is not written.
    PutLink(Box<LinkRecord>),
    /// Removes a shared virtual link; refused while instances use it. Succeeds if it does not exist.
    RemoveLink {
        /// Tenant that owns the link.
        tenant: String,
        /// Id of the link.
        id: String,
    },
    /// Sets which shared virtual links an instance uses; refused unless each of them is `AVAILABLE`.
    SetLinkUses {
        /// Tenant that owns the instance and the links.
        tenant: String,
        /// `id` of the VNF instance.
        instance_id: String,
        /// Ids of all links that it uses from now on.
        links: Vec<String>,
    },
    /// Sets the schedule of an instance, in the place of the one that it has; refused unless the instance exists.
    SetSchedule(Box<ScheduleRecord>),
    /// Replaces a schedule; refused unless the stored version is `version`.
    PutSchedule(Box<ScheduleRecord>),
    /// Removes the schedule of an instance; refused if it has none.
    RemoveSchedule {
        /// Tenant that owns the instance.
        tenant: String,
        /// `id` of the VNF instance.
        instance_id: String,
    },
    /// Adds a retained volume; succeeds if it exists.
    AddVolume(Box<VolumeRecord>),
    /// Replaces a retained volume that is `CREATING`; refused in any other state, as its deletion has then begun.
    FinishVolume(Box<VolumeRecord>),
    /// Sets the state of a retained volume; refused while an instance uses it.
    SetVolumeState {
        /// Tenant that owns the volume.
        tenant: String,
        /// Id of the volume.
        id: String,
        /// Its state from now on.
        state: VolumeState,
    },
    /// Removes a retained volume; refused while another instance than `used_by` uses it. Succeeds if it does not exist.
    RemoveVolume {
        /// Tenant that owns the volume.
        tenant: String,
        /// Id of the volume.
        id: String,
        /// The instance whose use ends with it.
        used_by: Option<String>,
    },
    /// Sets which retained volumes an instance uses; refused unless each of them is `AVAILABLE` and no other instance uses it.
    SetVolumeUses {
        /// Tenant that owns the instance and the volumes.
        tenant: String,
        /// `id` of the VNF instance.
        instance_id: String,
        /// Ids of all volumes that it uses from now on.
        volumes: Vec<String>,
    },
    /// A new subscription; the store sets `sent` so that it gets no earlier notifications.
    AddSubscription(Box<SubscriptionRecord>),
    /// Removes a subscription; its pending notifications are not sent.
    RemoveSubscription {
        /// Tenant that owns the subscription.
        tenant: String,
        /// `id` of the subscription, a UUID.
        id: String,
    },
    /// Advances a subscription to a notification; succeeds if the subscription does not exist.
    AdvanceSubscription {
        /// Tenant that owns the subscription.
        tenant: String,
        /// `id` of the subscription, a UUID.
        id: String,
        /// Number of the last notification that needs no further delivery.
        seq: u64,
        /// Notifications given up since the last advance.
        lost: u64,
    },
    /// Adds an audit entry; the store assigns `seq`.
    Audit {
        /// The tenant in whose audit log it appears.
        tenant: String,
        /// Who did what, to what, and why.
        entry: Box<AuditEntry>,
    },
    /// Revokes the lease of an active operation; refused while the lease is valid.
    RevokeLease {
        /// The instance whose active operation it is.
        instance_id: String,
        /// `id` of the operation occurrence.
        op_id: String,
        /// Revokes it even if the lease is valid.
        force: bool,
    },
    /// Removes an instance in any state, and its uses of VIMs; refused while it has an active operation or other instances
    /// live on a VIM that it registered.
    Abandon {
        /// Tenant that owns the instance.
        tenant: String,
        /// `id` of the VNF instance.
        id: String,
        /// Removes it even if others live on a VIM that it registered.
        force: bool,
    },
    /// Adds the tombstone of an abandoned instance.
    AddTombstone {
        /// Tenant that owns the instance.
        tenant: String,
        /// What may be left of it, and where.
        tombstone: Box<Tombstone>,
    },
    /// Deletes the tombstone of an abandoned instance: nothing of it is left.
    RemoveTombstone {
        /// Tenant that owns the instance.
        tenant: String,
        /// `id` of the VNF instance.
        instance_id: String,
    },
    /// Pins the key of a host until its instance or its VIM is deleted.
    PinHostKey {
        /// The host, by tenant, VIM and server.
        pin: Box<HostPin>,
        /// The public key in OpenSSH's form: `ssh-ed25519 AAAA…`.
        key: String,
    },
    /// Reserves part of a tenant's quota until it is released or the store is opened again. Replaces a
    /// reservation with the same id.
    Reserve {
        /// The tenant whose quota counts.
        tenant: String,
        /// Id of the reservation, chosen by the caller.
        id: String,
        /// The kind of resource that is set aside.
        what: QuotaResource,
        /// Total amount of the reservation.
        amount: u64,
    },
    /// Releases a reservation; succeeds if it does not exist.
    Release {
        /// Id of the reservation, chosen by the caller.
        id: String,
    },
    /// Records the size of a package.
    PackageSize {
        /// The tenant whose quota counts.
        tenant: String,
        /// Id of the package, unique within the tenant.
        id: String,
        /// Size of all its files in bytes.
        bytes: u64,
    },
    /// Refuses if the tenant has more than `most`, counting the changes before this one in the list.
    CheckQuota {
        /// The tenant whose quota counts.
        tenant: String,
        /// The kind of resource that is counted.
        what: QuotaResource,
        /// Upper bound of the usage, inclusive.
        most: u64,
        /// The amount that these changes add, for the error message.
        adds: u64,
    },
    /// Deletes a pinned key: the next key that the host presents is trusted.
    RemoveHostKey(PinnedHost),
}

/// What an operation stores in a snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SnapshotContents {
    /// Tenant that owns the snapshot.
    pub tenant: String,
    /// `id` of the "Individual VNF snapshot" resource.
    pub id: String,
    /// The operation that uses it.
    pub op_id: String,
    /// The contents as SOL003 shows them; `None`: the snapshot becomes empty.
    pub snapshot: Option<Box<VnfSnapshot>>,
    /// The deployment of the instance at that time.
    pub deployment: Option<Arc<Deployment>>,
    /// The driver's data about the stored resources.
    pub handle: Value,
}

impl SnapshotContents {
    /// The registered VIM that has its resources; `None`: it is empty, or has an inline connection.
    pub fn vim_id(&self) -> Option<String> {
        registered_vim(self.deployment.as_deref())
    }
}
