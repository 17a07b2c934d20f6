//! What is written: one [`Change`] is one statement with the condition under which it holds.

use super::{
    Counted, HostPin, InstanceRecord, JournalRow, OpRecord, OutboxRow, PackageRecord, PinnedHost,
    SecretJson, SubscriptionRecord, Use, VimRecord,
};
use std::sync::Arc;
use vnfm_types::{AuditEntry, LcmOperationState, Tombstone};

/// One conditional write. The first whose condition fails undoes the whole list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A new instance.
    AddInstance(Box<InstanceRecord>),
    /// An instance as it is now; refused where its version is no longer `version`. `active_op` is not written.
    PutInstance(Box<InstanceRecord>),
    /// Removes an instance; refused while it is `INSTANTIATED` or has an active operation.
    RemoveInstance {
        /// Whose.
        tenant: String,
        /// Which.
        id: String,
    },
    /// A new operation that becomes the instance's active one; refused while there is another.
    AddOp(Box<OpRecord>),
    /// An operation as it is now; refused where its state is no longer `from`. A final state frees the
    /// instance; the operation keeps where that lives then, for what is seen of it.
    PutOp {
        /// As it is to be. `epoch` is not written.
        record: Arc<OpRecord>,
        /// As it has to be until now.
        from: LcmOperationState,
    },
    /// Asks the driving process to stop; refused where the operation is not driven.
    Cancel {
        /// Which operation.
        op_id: String,
        /// How.
        mode: vnfm_types::CancelMode,
    },
    /// What the journal says of a step now.
    Journal(Arc<JournalRow>),
    /// That a process stops in order, or that it lost the lease of one operation: the steps that it leaves open are not
    /// steps in which it died. What was noted a month before may be forgotten.
    LeftInOrder {
        /// The process, as its claims name it.
        process: String,
        /// The operation; `None`: everything that it drives.
        op_id: Option<String>,
    },
    /// What a hook remembers across a crash; sealed.
    Checkpoint {
        /// The operation.
        op_id: String,
        /// The step that the hook runs in.
        step: String,
        /// The hook's own key.
        key: String,
        /// Its value.
        value: SecretJson,
    },
    /// Forgets what the hook of a step remembers: it was undone.
    ForgetCheckpoints {
        /// The operation.
        op_id: String,
        /// The step that the hook runs in.
        step: String,
    },
    /// That an instance lives on a VIM; refused where something is taking the cluster behind it away.
    AddUse(Use),
    /// That it no longer does; its active operation keeps where it did, for what is seen of it.
    RemoveUses {
        /// The instance.
        instance_id: String,
    },
    /// That `op_id` takes away what `instance_id` registered; refused while live instances use it.
    Retire {
        /// Whose.
        tenant: String,
        /// The instance whose registered VIMs go.
        instance_id: String,
        /// The operation that takes them away.
        op_id: String,
    },
    /// That it no longer does.
    Unretire {
        /// The operation.
        op_id: String,
    },
    /// A new VIM; refused where the name or the id is taken.
    AddVim(Box<VimRecord>),
    /// A VIM as it is now; refused where its version is no longer `version`.
    PutVim(Box<VimRecord>),
    /// Removes a VIM; refused while instances use it. An absent one is a success.
    RemoveVim {
        /// Whose.
        tenant: String,
        /// Which.
        id: String,
        /// Removes it although instances use it.
        force: bool,
    },
    /// A new package.
    AddPackage(Box<PackageRecord>),
    /// A package as it is now; refused where its `vnfdId` belongs to another one.
    PutPackage(Box<PackageRecord>),
    /// Removes a package; refused while instances were made from it.
    RemovePackage {
        /// Whose.
        tenant: String,
        /// Which.
        id: String,
    },
    /// A notification; `seq` is given by the store.
    Outbox(Box<OutboxRow>),
    /// A new subscription; `sent` is given by the store: what was written so far is not for it.
    AddSubscription(Box<SubscriptionRecord>),
    /// Removes a subscription.
    RemoveSubscription {
        /// Whose.
        tenant: String,
        /// Which.
        id: String,
    },
    /// That a subscription needs nothing any more up to a notification; an absent one is a success.
    Sent {
        /// Whose.
        tenant: String,
        /// The subscription.
        id: String,
        /// Number of the notification.
        seq: u64,
        /// How many of them were given up since the last time.
        lost: u64,
    },
    /// An entry of the audit; `seq` is given by the store.
    Audit {
        /// Whose.
        tenant: String,
        /// The entry.
        entry: Box<AuditEntry>,
    },
    /// Takes an operation that is not ended from whoever drives it; refused while somebody holds its lease.
    FenceOff {
        /// The instance whose active operation it is.
        instance_id: String,
        /// The operation.
        op_id: String,
        /// Takes it although somebody holds its lease.
        force: bool,
    },
    /// Removes an instance in whatever state, and that it lives anywhere; refused while it has an active operation or
    /// others live on a VIM that it registered.
    Abandon {
        /// Whose.
        tenant: String,
        /// Which.
        id: String,
        /// Removes it although others live on what it registered.
        force: bool,
    },
    /// What is kept of an instance that was abandoned.
    Bury {
        /// Whose.
        tenant: String,
        /// What.
        tombstone: Box<Tombstone>,
    },
    /// That nothing of an abandoned instance is left.
    Forget {
        /// Whose.
        tenant: String,
        /// The instance.
        instance_id: String,
    },
    /// The host key of a host, kept until its instance or its VIM is gone.
    PinHostKey {
        /// The host, by tenant, VIM and server.
        pin: Box<HostPin>,
        /// The key, `ssh-ed25519 AAAA…`.
        key: String,
    },
    /// Reserves part of a tenant's quota until it is released or the store is opened again. Replaces a reservation
    /// with the same id.
    Reserve {
        /// The tenant whose quota counts.
        tenant: String,
        /// Id of the reservation, chosen by the caller.
        id: String,
        /// What is set aside.
        what: Counted,
        /// How much in all.
        amount: u64,
    },
    /// Releases a reservation; succeeds if it does not exist.
    Release {
        /// Id of the reservation, chosen by the caller.
        id: String,
    },
    /// How many bytes the files of a package have.
    PackageSize {
        /// The tenant whose quota counts.
        tenant: String,
        /// Id of the package, unique within the tenant.
        id: String,
        /// All its files together.
        bytes: u64,
    },
    /// Refused where the tenant has more than `most`, the changes before this one in the list included.
    Within {
        /// The tenant whose quota counts.
        tenant: String,
        /// The kind of resource that is counted.
        what: Counted,
        /// How much there may be.
        most: u64,
        /// How much of it these changes add, for the refusal.
        adds: u64,
    },
    /// That the next key which a host shows is trusted.
    ForgetHostKey(PinnedHost),
}
