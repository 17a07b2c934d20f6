//! What the engine needs from its environment: one small trait per neighbour.
//!
//! | port | neighbour | adapter |
//! |---|---|---|
//! | [`InfraDriver`] | a VIM | `vnfm-openstack`, `vnfm-kubernetes`, `vnfm-hosts` |
//! | [`MgmtDriver`], [`MgmtDrivers`] | the VNF vendor's hooks | `vnfm-plugin-host` |
//! | [`HostServices`] | SSH and HTTP for hooks | `vnfm-ssh` and an HTTP client, at the composition root |
//! | [`Store`] | the database | `vnfm-store` |
//! | [`StoreAdmin`], [`Backups`], [`SealingKeys`], [`UnfinishedWork`] | the care of the database | `vnfm-store` |
//! | [`Packages`] | onboarded VNF packages | `vnfm-store` |
//! | [`InstanceFiles`] | files that are stored with an instance | `vnfm-store` |
//! | [`SecretSealer`] | the provider of the keys that seal secrets | `vnfm-openstack`: Barbican |
//! | [`Nfvo`] | the NFVO that grants operations | `vnfm-nfvo` |
//! | [`Subscribers`] | the receivers of lifecycle notifications | `vnfm-nfvo` |
//! | [`Schemas`] | JSON Schema | `vnfm-schema` |
//! | [`Clock`] | time | the composition root; simulated in tests |
//!
//! No trait here depends on HTTP, SQL or a runtime; every error is a [`PortError`].

mod backoff;
mod change;
mod clock;
mod cluster;
mod credentials;
mod error;
mod event_scope;
mod files;
mod host;
mod infra;
mod inventory;
mod links;
mod mgmt;
mod nfvo;
mod observer;
mod observes;
mod packages;
mod pins;
mod power;
mod quota;
mod records;
mod resource_plan;
mod rolling;
mod schedules;
mod schemas;
mod sealer;
mod service;
mod snapshots;
mod store;
mod store_admin;
mod store_codes;
mod subscribers;
mod usage;
mod vim_call;
mod vim_slot;
mod volumes;
pub(crate) use files::NO_FILES;
pub(crate) use records::{merge, registered_vim};
pub(crate) use service::SERVICE;
pub(crate) use store_codes::{BROKEN, CONFLICT, KEYS_AWAY, KEYS_REFUSED, UNAVAILABLE};
pub(crate) use vim_call::{PACKAGE, PLAN_TOO_LARGE};
pub(crate) use volumes::{names, without_own_params};

pub use backoff::{Backoff, Expired};
pub use change::{Change, SnapshotContents};
pub use clock::{Clock, Waited};
pub use cluster::{ClusterCapabilities, IssuedKubeconfig, NodeCapabilities, Observed};
pub use credentials::{AccessRule, Credential, CredentialRequest, Credentials, HookSecret};
pub use error::{Code, ErrorKind, PortError};
pub use event_scope::{EventScope, InstanceLocation};
pub use files::{InstanceFiles, MAX_FILE_BYTES, NoInstanceFiles, is_file_name};
pub use host::{
    CommandOutput, Content, FileCopy, FileTransfer, HookFile, HostServices, HttpRequest,
    HttpResponse, PinnedTarget, RemoteFile, Source, SshCommand, SshTarget,
};
pub use infra::{InfraDriver, NO_CAPABILITIES, NO_POLICIES, OwnedResource};
pub use inventory::{Inventory, Recorded};
pub use links::Links;
pub use mgmt::{
    Declaration, DriverId, DriverVersion, Effects, HookArtifact, HookConnectivity, HookDeclaration,
    HookDependent, HookDriverRef, HookFlavourChange, HookHeal, HookHost, HookInstance,
    HookInstantiation, HookOperate, HookPackageChange, HookRequest, HookScale, HookScriptRef,
    HookSnapshot, HookVim, MgmtDriver, MgmtDrivers, NewVim, REPLACED, ScriptProtocol, replaced,
};
pub use nfvo::{GrantOutcome, Granted, Nfvo, compute_id, link_id, port_id, storage_id};
pub(crate) use observer::NoopObserver;
pub use observer::{CallEnd, Observer};
pub use observes::{Observes, VimEvent};
pub use packages::Packages;
pub use pins::{HostPin, PinnedHost, PinnedKey};
pub use power::{Power, PowerChange, Stop};
pub use quota::{QuotaLimits, QuotaResource};
pub use records::{
    HookState, InstanceRecord, JournalRow, LinkRecord, OpControl, OpRecord, OpenStep, OutboxRow,
    PackageRecord, ProcessHistory, SecretJson, SnapshotRecord, StepRetry, StepStatus,
    SubscriptionRecord, VimRecord, VimUse, VolumeRecord,
};
pub use resource_plan::{PlannedResource, ResourceAction, ResourceChange, ResourcePlan};
pub use rolling::{ROLLING_PARAM, Rolling};
pub use schedules::{ScheduleRecord, Schedules};
pub use schemas::{NoSchemas, Schemas};
pub use sealer::SecretSealer;
pub use service::{HookCall, files_of, remote_file, wrong_call};
pub use snapshots::{Reversion, SnapshotSource, Snapshots, StoredSnapshot, counterparts};
pub use store::{ChangeCounters, Claim, Fence, Store, StoreError};
pub use store_admin::{
    Backups, KeyLocation, Pruned, Recovery, Retention, SealedBy, SealingKeys, Statistics,
    StoreAdmin, UnfinishedWork, VimExpiry,
};
pub use subscribers::{Callback, Subscribers};
pub use usage::Usage;
pub use vim_call::{
    Allocation, Budget, Convergence, Ownership, Release, Replacement, Vim, VimCall, VimLogin,
    VimReport, Watcher,
};
pub(crate) use vim_slot::SlotCall;
pub use vim_slot::VimSlot;
pub use volumes::{FoundVolume, RETAIN_PARAM, REUSE_PARAM, Volumes};
