//! Why a request is not accepted, in terms that HTTP does not know: the facade maps [`Why`] to a status.

use crate::ports::{
    BROKEN, CONFLICT, Code, ErrorKind, KEYS_AWAY, KEYS_REFUSED, PortError, StoreError, UNAVAILABLE,
};
use std::fmt;

/// What is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// There is no such resource, or it is another tenant's.
    NotFound,
    /// The resource is not in the state that the request needs.
    Conflict,
    /// The resource is not as whoever asks has seen it.
    Stale,
    /// The request is well-formed and cannot be served as it is.
    Unprocessable,
    /// The tenant has as much as it may have.
    UsedUp,
    /// A neighbour that is needed to answer does not answer.
    Unavailable,
    /// A bug, here or there.
    Broken,
}

/// A request that is not accepted; nothing was changed.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Which kind.
    pub why: Why,
    /// The row of `docs/errors.md`.
    pub code: &'static Code,
    /// What and where.
    pub detail: String,
    /// What to do next; the code's where empty.
    pub hint: Option<String>,
    /// What stands in the way, by name.
    pub blocked_by: Vec<String>,
    /// The port error behind it.
    pub source: Option<Box<PortError>>,
}

impl Refusal {
    /// A refusal with a sentence.
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

    /// Says what to do next, more exactly than the code does.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names what stands in the way.
    #[must_use]
    pub fn blocked_by(mut self, names: Vec<String>) -> Self {
        self.blocked_by = names;
        self
    }

    /// A request that the descriptor or the registry refuses (422).
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

    /// What to do next.
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
            StoreError::Retiring { .. } => (Why::Conflict, &RETIRING),
            StoreError::UsedUp { .. } => (Why::UsedUp, &QUOTA),
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
            StoreError::Busy { op_id, .. } | StoreError::Retiring { op_id, .. } => {
                refusal.blocked_by(vec![op_id])
            }
            _ => refusal,
        }
    }
}

/// One row of the table below.
const fn refused(name: &'static str, means: &'static str, next: &'static str) -> Code {
    Code {
        name,
        kind: ErrorKind::Refused,
        means,
        next,
    }
}

/// `404`.
pub(crate) const NOT_FOUND: Code = refused(
    "request.not-found",
    "there is no such resource, or it belongs to another tenant",
    "look at the list; an id is needed where a name is not unique",
);
/// An operation is not ended.
pub(crate) const BUSY: Code = refused(
    "request.busy",
    "the VNF instance has an operation that is not ended",
    "wait for it, or retry, roll back or fail it: `vnfmctl op explain ID`",
);
/// A name or id is taken.
pub(crate) const EXISTS: Code = refused(
    "request.exists",
    "the name or the id is taken",
    "choose another name, or delete the other first",
);
/// Others use it.
pub(crate) const IN_USE: Code = refused(
    "request.in-use",
    "live VNF instances need it",
    "terminate the VNF instances in the list first",
);
/// A quota.
pub(crate) const QUOTA: Code = refused(
    "access.quota",
    "the tenant has as much as it may have",
    "give something up, or ask whoever looks after the server for more",
);
/// The cluster is being taken away.
pub(crate) const RETIRING: Code = refused(
    "request.retiring",
    "the cluster behind the VIM is being taken away by another operation",
    "use another VIM, or wait for that operation to be rolled back",
);
/// Not in the state that is needed.
pub(crate) const WRONG_STATE: Code = refused(
    "request.wrong-state",
    "the resource is not in the state that the request needs",
    "read it again; its `_links` name what is possible now",
);
/// Changed since it was read.
pub(crate) const STALE: Code = refused(
    "request.stale",
    "the resource is not as `If-Match` or `If-Unmodified-Since` say: somebody changed it",
    "read it again and decide anew",
);
/// The callback of a subscription.
pub(crate) const CALLBACK: Code = refused(
    "request.callback",
    "the callback of a subscription does not answer as it should, or must not be called",
    "let it answer GET with 204, then subscribe again",
);
/// A subscription that cannot be served.
pub(crate) const BAD_SUBSCRIPTION: Code = refused(
    "request.bad-subscription",
    "the subscription contradicts itself, or wants what is not supported",
    "leave out what the message names",
);
/// The VNFD does not declare it.
pub(crate) const UNDECLARED: Code = refused(
    "request.undeclared",
    "the VNFD does not declare what is to be changed, or not of that type",
    "use what the message names; metadata is free",
);
/// Rollback after the point of no return.
pub(crate) const NO_WAY_BACK: Code = refused(
    "request.no-way-back",
    "a step that cannot be undone has begun",
    "retry, which goes forward, or fail the operation",
);
/// The request names a VIM that is not there.
pub(crate) const UNKNOWN_VIM: Code = refused(
    "request.unknown-vim",
    "the request names a VIM that is not in the registry",
    "`vnfmctl vim list` shows those that are; register it first",
);
/// The VIM in the request cannot be used.
pub(crate) const BAD_VIM: Code = refused(
    "request.bad-vim",
    "the VIM connection of the request cannot be used",
    "name exactly one registered VIM, of a type that the VNF can live on",
);
/// The request names a flavour or level that the VNFD has not.
pub(crate) const UNKNOWN_FLAVOUR: Code = refused(
    "request.unknown-flavour",
    "the VNFD has no such deployment flavour or instantiation level",
    "use one of the list in the message",
);
/// The package of the VNFD is not there.
pub(crate) const NO_PACKAGE: Code = refused(
    "request.no-package",
    "no onboarded and enabled VNF package has this VNFD",
    "onboard it: `vnfmctl package onboard PATH`",
);
/// The package was disabled.
pub(crate) const DISABLED: Code = refused(
    "request.package-disabled",
    "the VNF package is DISABLED: nothing more is instantiated from it",
    "enable it: `vnfmctl package enable ID`; one that an NFVO disabled is enabled there",
);
/// The parameters do not fit the schema.
pub(crate) const BAD_PARAMETERS: Code = refused(
    "request.bad-parameters",
    "`additionalParams` do not fit the schema that the hook or the VNFD declares",
    "correct the member that the message names",
);
/// The request names a VNFC that the instance has not.
pub(crate) const UNKNOWN_VNFC: Code = refused(
    "request.unknown-vnfc",
    "the request names a VNFC that the instance does not have",
    "use an `id` of the instance's `vnfcResourceInfo`; a healed VNFC has a new one",
);
/// The hook's driver is not there.
pub(crate) const NO_DRIVER: Code = refused(
    "request.no-mgmt-driver",
    "no loaded MgmtDriver serves a hook that the VNFD names",
    "install and allow the plugin: `vnfmctl plugin allow FILE`, or map its name in `plugins.implementations`",
);
/// An act without a reason.
pub(crate) const NO_REASON: Code = refused(
    "request.no-reason",
    "the request overrides what the VNFM would do and does not say why",
    "say why: `--reason TEXT`, or the header `X-Vnfm-Reason`",
);
/// A hook that is to be skipped is none.
pub(crate) const UNKNOWN_HOOK: Code = refused(
    "request.unknown-hook",
    "the operation has no hook of the name that is to be skipped",
    "use a name of the list in the message",
);
/// All codes of this file, for `docs/errors.md`.
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
    &NO_WAY_BACK,
    &UNKNOWN_VIM,
    &BAD_VIM,
    &UNKNOWN_FLAVOUR,
    &NO_PACKAGE,
    &DISABLED,
    &BAD_PARAMETERS,
    &UNKNOWN_VNFC,
    &NO_DRIVER,
    &NO_REASON,
    &UNKNOWN_HOOK,
    &UNAVAILABLE,
    &CONFLICT,
    &BROKEN,
    &KEYS_AWAY,
    &KEYS_REFUSED,
];
