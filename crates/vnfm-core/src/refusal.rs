//! Why a request is not accepted, independent of HTTP: the API layer maps [`Why`] to a status.

use crate::ports::{
    BROKEN, CONFLICT, Code, ErrorKind, KEYS_AWAY, KEYS_REFUSED, PortError, StoreError, UNAVAILABLE,
};
use std::fmt;

/// The category of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// The resource does not exist, or belongs to another tenant.
    NotFound,
    /// The resource is not in the state that the request requires.
    Conflict,
    /// The resource changed since the caller read it.
    Stale,
    /// The request is well-formed but cannot be served.
    Unprocessable,
    /// The caller's role does not cover all that the request concerns.
    Forbidden,
    /// A quota of the tenant is exhausted.
    QuotaExceeded,
    /// A neighbour that is needed does not respond.
    Unavailable,
    /// A bug in the VNFM or in a neighbour.
    Broken,
}

/// A request that is not accepted; nothing was changed.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Class of the reason; decides the HTTP status.
    pub why: Why,
    /// The error code, which `docs/errors.md` explains.
    pub code: &'static Code,
    /// What is wrong, and where.
    pub detail: String,
    /// What to do next; `None`: the code's.
    pub hint: Option<String>,
    /// The ids of what blocks the request.
    pub blocked_by: Vec<String>,
    /// The error of a port, if one caused the refusal.
    pub source: Option<Box<PortError>>,
}

impl Refusal {
    /// A refusal with the code's hint.
    pub fn new(why: Why, code: &'static Code, detail: impl Into<String>) -> Self {
        Self {
            why,
            code,
            detail: detail.into(),
            hint: None,
            blocked_by: Vec::new(),
            source: None,
        }
    }

    /// Sets a hint that is more specific than the code's.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names what blocks the request.
    #[must_use]
    pub fn blocked_by(mut self, names: Vec<String>) -> Self {
        self.blocked_by = names;
        self
    }

    /// A request that the descriptor, the registry or a driver refuses (422).
    pub fn unprocessable(error: PortError) -> Self {
        let why = match error.kind() {
            ErrorKind::Unavailable => Why::Unavailable,
            ErrorKind::Broken => Why::Broken,
            _ => Why::Unprocessable,
        };
        let mut refusal = Self::new(why, error.code(), error.to_string());
        refusal.hint = Some(error.next().to_owned());
        refusal.source = Some(Box::new(error));
        refusal
    }

    /// A call that a VIM refuses (422). One that breaks its API is unavailable: this server is not broken.
    pub(crate) fn of_vim(error: PortError) -> Self {
        let refusal = Self::unprocessable(error);
        match refusal.why {
            Why::Broken => Self {
                why: Why::Unavailable,
                ..refusal
            },
            _ => refusal,
        }
    }

    /// The hint, or else the code's.
    pub fn next(&self) -> &str {
        self.hint.as_deref().unwrap_or(self.code.next)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Refusal {}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let (why, code) = match &error {
            StoreError::NotFound { .. } => (Why::NotFound, &NOT_FOUND),
            StoreError::Busy { .. } => (Why::Conflict, &BUSY),
            StoreError::Exists { .. } => (Why::Conflict, &EXISTS),
            StoreError::InUse { .. } => (Why::Conflict, &IN_USE),
            StoreError::VimLeaving { .. } => (Why::Conflict, &RETIRING),
            StoreError::QuotaExceeded { .. } => (Why::QuotaExceeded, &QUOTA),
            StoreError::WrongState { .. } | StoreError::Changed { .. } => {
                (Why::Conflict, &WRONG_STATE)
            }
            StoreError::Unavailable(_) | StoreError::LeaseLost { .. } => {
                (Why::Unavailable, &UNAVAILABLE)
            }
            StoreError::Broken(_) => (Why::Broken, &BROKEN),
            StoreError::Keys {
                kind: ErrorKind::Unavailable,
                ..
            } => (Why::Unavailable, &KEYS_AWAY),
            StoreError::Keys { .. } => (Why::Conflict, &KEYS_REFUSED),
        };
        let refusal = Self::new(why, code, error.to_string());
        match error {
            StoreError::InUse { by, .. } => refusal.blocked_by(by),
            StoreError::Busy { op_id, .. } | StoreError::VimLeaving { op_id, .. } => {
                refusal.blocked_by(vec![op_id])
            }
            _ => refusal,
        }
    }
}

const fn refused(name: &'static str, means: &'static str, next: &'static str) -> Code {
    Code {
        name,
        kind: ErrorKind::Refused,
        means,
        next,
    }
}

pub(crate) const NOT_FOUND: Code = refused(
    "request.not-found",
    "the resource does not exist, or belongs to another tenant",
    "check the list; use the id if the name is not unique",
);
pub(crate) const BUSY: Code = refused(
    "request.busy",
    "the VNF instance has an operation that has not ended",
    "wait for it, or retry, roll back or fail it: `vnfmctl op explain ID`",
);
pub(crate) const EXISTS: Code = refused(
    "request.exists",
    "the name or the id is taken",
    "choose another name, or delete the other first",
);
pub(crate) const IN_USE: Code = refused(
    "request.in-use",
    "live VNF instances or VNF snapshots need it",
    "terminate the listed VNF instances if they are instantiated, and delete them; delete the listed VNF snapshots",
);
pub(crate) const QUOTA: Code = refused(
    "access.quota",
    "the tenant has used up this quota",
    "delete something, or ask the operator of the server for a larger quota",
);
pub(crate) const RETIRING: Code = refused(
    "request.retiring",
    "another operation is deleting the cluster behind the VIM",
    "use another VIM, or wait for that operation to be rolled back",
);
pub(crate) const WRONG_STATE: Code = refused(
    "request.wrong-state",
    "the resource is not in the state that the request requires",
    "`vnfmctl vnf show VNF` or `vnfmctl op explain OP` shows the state; `_links` name what is possible in it",
);
pub(crate) const STALE: Code = refused(
    "request.stale",
    "the resource has changed: `If-Match` or `If-Unmodified-Since` does not hold",
    "read it again, then decide whether to repeat the request",
);
pub(crate) const CALLBACK: Code = refused(
    "request.callback",
    "the callback of a subscription responds incorrectly, or must not be called",
    "make it respond to GET with 204, then subscribe again",
);
pub(crate) const BAD_SUBSCRIPTION: Code = refused(
    "request.bad-subscription",
    "the subscription contradicts itself, or requests something unsupported",
    "omit what the message names",
);
pub(crate) const UNDECLARED: Code = refused(
    "request.undeclared",
    "the VNFD does not declare the attribute to be changed, or declares another type",
    "use an attribute that the message names; metadata need not be declared",
);
pub(crate) const IRREVERSIBLE: Code = refused(
    "request.no-way-back",
    "a step that cannot be undone has begun",
    "retry, which continues forward, or fail the operation",
);
pub(crate) const UNKNOWN_VIM: Code = refused(
    "request.unknown-vim",
    "the request names a VIM that is not in the registry",
    "`vnfmctl vim list` lists those that are; register the VIM first",
);
pub(crate) const BAD_VIM: Code = refused(
    "request.bad-vim",
    "the VIM connection of the request cannot be used",
    "name exactly one registered VIM, of a type that the VNF supports",
);
pub(crate) const UNKNOWN_FLAVOUR: Code = refused(
    "request.unknown-flavour",
    "the VNFD has no such deployment flavour or instantiation level",
    "use one that the message lists",
);
pub(crate) const NO_PACKAGE: Code = refused(
    "request.no-package",
    "no onboarded and enabled VNF package has this VNFD",
    "onboard it: `vnfmctl package onboard PATH`",
);
pub(crate) const DISABLED: Code = refused(
    "request.package-disabled",
    "the VNF package is DISABLED, so it cannot be instantiated",
    "enable it: `vnfmctl package enable ID`; if an NFVO disabled it, enable it there",
);
pub(crate) const PACKAGE_CHANGE: Code = refused(
    "request.package-change",
    "the VNF cannot change to this VNF package",
    "choose a package that the message names, or ask the vendor for one with a VnfPackageChange policy",
);
pub(crate) const BAD_PARAMETERS: Code = refused(
    "request.bad-parameters",
    "`additionalParams` violate the schema that the hook or the VNFD declares",
    "correct the member that the message names",
);
pub(crate) const BAD_POLICY: Code = refused(
    "request.bad-policy",
    "a member of the policy is out of range",
    "use a value within the range that the message names",
);
pub(crate) const BAD_SCHEDULE: Code = refused(
    "request.bad-schedule",
    "the interval of the schedule is out of range",
    "use an interval within the range that the message names",
);
pub(crate) const BAD_SCALE: Code = refused(
    "request.scale",
    "the VNFD or the size of the instance does not allow this scaling",
    "choose an aspect, a number of steps or a level that the message names; the instance shows scaleStatus and \
     maxScaleLevels",
);
pub(crate) const NOT_SUPPORTED: Code = refused(
    "request.not-supported",
    "the VNF does not support this task",
    "use a task that `_links` of the instance offers",
);
pub(crate) const UNKNOWN_VNFC: Code = refused(
    "request.unknown-vnfc",
    "the request names a VNFC that the instance does not have",
    "use an `id` of the instance's `vnfcResourceInfo`; a healed VNFC has a new one",
);
pub(crate) const NO_DRIVER: Code = refused(
    "request.no-mgmt-driver",
    "no loaded MgmtDriver serves a hook that the VNFD names",
    "install and allow the plugin: `vnfmctl plugin allow FILE`, or map its name in `plugins.implementations`",
);
pub(crate) const NO_REASON: Code = refused(
    "request.no-reason",
    "the request overrides what the VNFM would do, without a reason",
    "give a reason: `--reason TEXT`, or the header `X-Vnfm-Reason`",
);
pub(crate) const NO_CASCADE: Code = refused(
    "request.no-cascade",
    "the operation has no other VNF instances to terminate",
    "send `X-Vnfm-Cascade` only with a terminate",
);
pub(crate) const UNKNOWN_HOOK: Code = refused(
    "request.unknown-hook",
    "the operation has no hook with the name to be skipped",
    "use a name that the message lists",
);
pub(crate) const SNAPSHOT_BUSY: Code = refused(
    "snapshot.busy",
    "an operation that has not ended stores the snapshot or reverts to it",
    "wait for the operation, or retry, roll back or fail it: `vnfmctl op explain ID`",
);
pub(crate) const BAD_SNAPSHOT: Code = refused(
    "snapshot.unusable",
    "the snapshot cannot be used for this request",
    "`create_snapshot` needs an empty one: `vnfmctl snapshot create`; `revert_to_snapshot` a complete one of the same VNF \
     instance: `vnfmctl snapshot list`",
);
pub(crate) const LINK_BUSY: Code = refused(
    "link.busy",
    "another request creates or deletes the shared virtual link right now",
    "wait until that request has ended: `vnfmctl link show LINK`",
);
pub(crate) const BAD_LINK: Code = refused(
    "link.unusable",
    "the VIM cannot have a shared virtual link, or the tenant may not create one there",
    "correct the member that the message names, or choose a VIM of your own without a policy: `vnfmctl vim list`",
);
pub(crate) const BAD_VOLUME: Code = refused(
    "volume.unusable",
    "the request creates, retains or uses a volume that the instance, or the VIM, cannot have",
    "correct what the message names: `vnfmctl vnf show VNF` lists the storages of a VNF, `vnfmctl volume list` the retained \
     volumes",
);
pub(crate) const VOLUME_IN_USE: Code = refused(
    "volume.in-use",
    "another VNF instance uses the retained volume, or it is being created or deleted",
    "terminate that instance first, or name another volume: `vnfmctl volume list`",
);
/// All codes of refusals, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[
    &NOT_FOUND,
    &BUSY,
    &EXISTS,
    &IN_USE,
    &RETIRING,
    &QUOTA,
    &WRONG_STATE,
    &STALE,
    &UNDECLARED,
    &CALLBACK,
    &BAD_SUBSCRIPTION,
    &IRREVERSIBLE,
    &UNKNOWN_VIM,
    &BAD_VIM,
    &UNKNOWN_FLAVOUR,
    &NO_PACKAGE,
    &DISABLED,
    &PACKAGE_CHANGE,
    &BAD_PARAMETERS,
    &BAD_POLICY,
    &BAD_SCHEDULE,
    &BAD_SCALE,
    &NOT_SUPPORTED,
    &UNKNOWN_VNFC,
    &NO_DRIVER,
    &NO_REASON,
    &UNKNOWN_HOOK,
    &NO_CASCADE,
    &SNAPSHOT_BUSY,
    &BAD_SNAPSHOT,
    &LINK_BUSY,
    &BAD_LINK,
    &BAD_VOLUME,
    &VOLUME_IN_USE,
    &UNAVAILABLE,
    &CONFLICT,
    &BROKEN,
    &KEYS_AWAY,
    &KEYS_REFUSED,
];
