//! The ways in which a cluster fails, named, and what becomes of the client's own errors. No text here ever
//! holds a credential.
//!
//! | the API server says | error | kind |
//! |---|---|---|
//! | nothing | [`UNREACHABLE`], or [`CERTIFICATE`] where TLS failed | Unavailable, Refused |
//! | 401 | [`LOGIN_REFUSED`] | Refused |
//! | 403 | [`QUOTA`] where it speaks of one, else [`FORBIDDEN`] | Refused |
//! | any, in a webhook's or a policy's words | [`DENIED`] | Refused |
//! | 409 | [`CONFLICT`] | Refused |
//! | 429, 5xx | [`SERVER`] (an unknown field: [`REJECTED`]) | Unavailable |
//! | any other | [`REJECTED`] | Refused |

use std::time::Duration;
use vnfm_core::ports::{Code, ErrorKind, PortError};
use vnfm_outbound::{ReadError, is_forbidden};

/// The connection data cannot be used.
pub const CONNECTION: Code = Code {
    name: "kubernetes.connection-invalid",
    kind: ErrorKind::Refused,
    means: "the connection data of the VIM cannot be used",
    next: "correct the member that is named with `vnfmctl vim update`",
};
/// The address must not be called.
pub const ADDRESS: Code = Code {
    name: "kubernetes.address",
    kind: ErrorKind::Refused,
    means: "the cluster is at an address that this server must not call",
    next: "have whoever runs the server name the address in `vims.networks` of its configuration, then retry",
};
/// The answer is too large.
pub const ANSWER: Code = Code {
    name: "kubernetes.answer-too-large",
    kind: ErrorKind::Refused,
    means: "the API server's answer is larger than any that is read; nothing of it was used",
    next: "see whether the endpoint is the cluster's, then retry",
};
/// Nobody answers.
pub const UNREACHABLE: Code = Code {
    name: "kubernetes.unreachable",
    kind: ErrorKind::Unavailable,
    means: "the API server does not answer",
    next: "check that the cluster runs and that its endpoint can be reached from here",
};
/// TLS failed.
pub const CERTIFICATE: Code = Code {
    name: "kubernetes.certificate",
    kind: ErrorKind::Refused,
    means: "the API server's certificate is not one that `ssl_ca_cert` vouches for",
    next: "compare `ssl_ca_cert` with the cluster's own CA certificate, and the endpoint with the names in its certificate",
};
/// 401.
pub const LOGIN_REFUSED: Code = Code {
    name: "kubernetes.login-refused",
    kind: ErrorKind::Refused,
    means: "the API server does not know the token or the client certificate, or it has expired",
    next: "bring a valid one with `vnfmctl vim update`",
};
/// 403.
pub const FORBIDDEN: Code = Code {
    name: "kubernetes.forbidden",
    kind: ErrorKind::Refused,
    means: "the login may not do that",
    next: "give the account the right that is named, by a Role or ClusterRole",
};
/// 403 by a `ResourceQuota`.
pub const QUOTA: Code = Code {
    name: "kubernetes.quota",
    kind: ErrorKind::Refused,
    means: "a `ResourceQuota` or `LimitRange` of the namespace does not let it in",
    next: "raise the quota or ask for less, then retry",
};
/// An admission webhook or policy.
pub const DENIED: Code = Code {
    name: "kubernetes.denied",
    kind: ErrorKind::Refused,
    means: "an admission webhook or policy of the cluster does not let it in",
    next: "ask whoever runs the one that is named to let it in, or correct the manifest, then retry",
};
/// 400, 422.
pub const REJECTED: Code = Code {
    name: "kubernetes.rejected",
    kind: ErrorKind::Refused,
    means: "the API server does not take the object",
    next: "correct the manifest in the package, or the variables in the request",
};
/// 429, 5xx.
pub const SERVER: Code = Code {
    name: "kubernetes.server-error",
    kind: ErrorKind::Unavailable,
    means: "the API server is overloaded or in trouble",
    next: "look at the control plane, then retry",
};
/// The package has no order file, or a manifest is not one.
pub const MANIFEST: Code = Code {
    name: "kubernetes.manifest-invalid",
    kind: ErrorKind::Refused,
    means: "a manifest or the order file of the package cannot be used",
    next: "correct the package at the place that is named and onboard it anew",
};
/// The NFVO prescribes what objects of a package do not take.
pub const GRANT: Code = Code {
    name: "kubernetes.grant",
    kind: ErrorKind::Refused,
    means: "the NFVO's grant prescribes something that is not possible on a cluster; nothing was made",
    next: "let the NFVO grant without it",
};
/// A declared variable has no value.
pub const VARIABLE: Code = Code {
    name: "kubernetes.variable-missing",
    kind: ErrorKind::Refused,
    means: "a variable of the order file has neither a value in the request nor a default",
    next: "give it in the request's `additionalParams`",
};
/// A value does not fit where its variable stands.
pub const VALUE: Code = Code {
    name: "kubernetes.value-unfit",
    kind: ErrorKind::Refused,
    means: "a value in the request is not of the type that its variable takes",
    next: "give the variable that is named a value of the type in the message",
};
/// The policy of the VIM.
pub const POLICY: Code = Code {
    name: "kubernetes.policy",
    kind: ErrorKind::Refused,
    means: "the policy of the VIM, or of the caller's role, does not allow an object of the package; nothing was made",
    next: "leave it out of the package, or ask the owner of the VIM to allow it: `vnfmctl vim update VIM --policy FILE`",
};
/// The cluster does not serve a kind.
pub const KIND: Code = Code {
    name: "kubernetes.kind-unknown",
    kind: ErrorKind::Refused,
    means: "the cluster does not serve a kind that the package uses",
    next: "install what serves it, or put its CustomResourceDefinition into the package with a lower `order`",
};
/// Somebody else's object.
pub const FOREIGN: Code = Code {
    name: "kubernetes.foreign-object",
    kind: ErrorKind::Refused,
    means: "an object of that name exists and is not this instance's; it was not touched",
    next: "use another namespace or name, or remove the object if nobody needs it",
};
/// Another field manager.
pub const CONFLICT: Code = Code {
    name: "kubernetes.conflict",
    kind: ErrorKind::Refused,
    means: "somebody else manages a field of the object, or changed it at the same time",
    next: "let the other manager give the field up, or leave it out of the manifest",
};
/// The namespace is going away.
pub const TERMINATING: Code = Code {
    name: "kubernetes.namespace-terminating",
    kind: ErrorKind::Unavailable,
    means: "the namespace is being deleted",
    next: "wait until it is gone, or use another one",
};
/// The deadline passed while objects were not ready.
pub const NOT_READY: Code = Code {
    name: "kubernetes.not-ready",
    kind: ErrorKind::Refused,
    means: "objects were applied but were not ready in time",
    next: "look at what the object or pod that is named waits for, then retry",
};
/// A pod hangs in Terminating.
pub const HANGING: Code = Code {
    name: "kubernetes.pod-hangs",
    kind: ErrorKind::Refused,
    means: "a pod was deleted, but the node that it is on does not answer, and whether it still runs there is not known",
    next: "make sure that the node is off, then delete it or taint it `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`, and retry",
};
/// An object says that it failed for good.
pub const FAILED: Code = Code {
    name: "kubernetes.workload-failed",
    kind: ErrorKind::Refused,
    means: "a workload says that it failed",
    next: "look at the object that is named and its events, then retry or roll back",
};
/// Somebody deleted it while we waited.
pub const VANISHED: Code = Code {
    name: "kubernetes.object-vanished",
    kind: ErrorKind::Unavailable,
    means: "somebody deleted an object while we waited for it",
    next: "retry: it is made again",
};
/// A finalizer holds it.
pub const FINALIZER: Code = Code {
    name: "kubernetes.finalizer",
    kind: ErrorKind::Refused,
    means: "an object is marked for deletion, but a finalizer holds it",
    next: "bring back the controller that serves the finalizer, or remove the finalizer by hand, then retry",
};
/// Still there, for no reason that the API server tells.
pub const STILL_THERE: Code = Code {
    name: "kubernetes.still-there",
    kind: ErrorKind::Unavailable,
    means: "objects were deleted but were not gone in time",
    next: "look at what still runs there, then retry",
};
/// Something that is not as the API describes it.
pub const UNEXPECTED: Code = Code {
    name: "kubernetes.unexpected",
    kind: ErrorKind::Broken,
    means: "the API server answered in a way that its API does not describe",
    next: "report it with the text of the error",
};

/// Every way in which this driver fails, for `docs/errors.md`.
pub const CODES: &[&Code] = &[
    &CONNECTION,
    &ADDRESS,
    &ANSWER,
    &UNREACHABLE,
    &CERTIFICATE,
    &LOGIN_REFUSED,
    &FORBIDDEN,
    &QUOTA,
    &DENIED,
    &REJECTED,
    &SERVER,
    &MANIFEST,
    &GRANT,
    &VARIABLE,
    &VALUE,
    &POLICY,
    &KIND,
    &FOREIGN,
    &CONFLICT,
    &TERMINATING,
    &NOT_READY,
    &HANGING,
    &FAILED,
    &VANISHED,
    &FINALIZER,
    &STILL_THERE,
    &UNEXPECTED,
];

/// The HTTP status of an error, 0 where the API server did not answer.
pub(crate) fn status(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// Whether the same call may succeed in a moment: nobody answered, or the API server is overloaded or in trouble.
pub(crate) fn may_pass(error: &kube::Error) -> bool {
    let told = told("", error);
    told.code() == &UNREACHABLE || told.code() == &SERVER
}

/// How long the API server asks to wait before the next try.
pub(crate) fn asked_to_wait(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// Puts the client's error into the driver's words.
pub(crate) fn told(doing: &str, error: &kube::Error) -> PortError {
    match error {
        kube::Error::Api(status) => {
            let text = if status.message.is_empty() {
                &status.reason
            } else {
                &status.message
            };
            PortError::new(code_of(status.code, text), doing, text.clone())
        }
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => {
            PortError::new(&UNEXPECTED, doing, chain(error))
        }
        _ if is_forbidden(error) => {
            let what = "the name of its endpoint leads to no address that is allowed";
            PortError::new(&ADDRESS, doing, what)
        }
        _ if is_too_large(error) => PortError::new(&ANSWER, doing, chain(error)),
        _ => {
            let text = chain(error);
            let tls = [
                "certificate",
                "UnknownIssuer",
                "NotValidForName",
                "BadSignature",
            ];
            let code = if tls.iter().any(|word| text.contains(word)) {
                &CERTIFICATE
            } else {
                &UNREACHABLE
            };
            PortError::new(code, doing, text)
        }
    }
}

/// The same for somebody who brought the connection with a request: what answers there, and how, is not told.
pub(crate) fn hidden(told: PortError, error: &kube::Error) -> PortError {
    let what = match error {
        kube::Error::Api(status) => format!("it answers {}", status.code),
        _ if told.code() == &UNREACHABLE => "no answer".to_owned(),
        _ if told.code() == &UNEXPECTED => "it answers otherwise than an API server".to_owned(),
        _ => return told,
    };
    PortError::new(told.code(), told.action(), what)
}

/// Whether the answer ended at the limit of its size.
fn is_too_large(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<ReadError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn code_of(status: u16, text: &str) -> &'static Code {
    match status {
        401 => &LOGIN_REFUSED,
        403 if text.contains("exceeded quota") || text.contains("failed quota") => &QUOTA,
        400..=499 if is_denied(text) => &DENIED,
        403 if text.contains("is being terminated") => &TERMINATING,
        403 => &FORBIDDEN,
        409 => &CONFLICT,
        // An unknown field in an applied object is a 500 to the API server.
        500 if text.contains("typed patch object") => &REJECTED,
        429 | 500..=599 => &SERVER,
        _ => &REJECTED,
    }
}

/// Whether a webhook (`admission webhook "x" denied the request: …`) or a policy said no.
fn is_denied(text: &str) -> bool {
    text.contains("denied the request") || text.contains("denied request: ")
}

/// The innermost cause, which is what says something: the layers above repeat it or add nothing.
fn chain(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    #[test]
    fn each_status_has_its_error() {
        for (status, text, name) in [
            (401, "Unauthorized", "kubernetes.login-refused"),
            (
                403,
                "pods \"x\" is forbidden: exceeded quota: small, requested: pods=1",
                "kubernetes.quota",
            ),
            (
                403,
                "configmaps \"x\" is forbidden: unable to create new content in namespace a because it is being terminated",
                "kubernetes.namespace-terminating",
            ),
            (
                403,
                "admission webhook \"policy.example.com\" denied the request: no",
                "kubernetes.denied",
            ),
            (
                422,
                "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                "kubernetes.denied",
            ),
            (
                403,
                "deployments.apps is forbidden: User \"x\" cannot list",
                "kubernetes.forbidden",
            ),
            (409, "Apply failed with 1 conflict", "kubernetes.conflict"),
            (
                422,
                "Deployment.apps \"x\" is invalid",
                "kubernetes.rejected",
            ),
            (
                500,
                "failed to create typed patch object (a/page; /v1, Kind=ConfigMap): .dta: field not declared in schema",
                "kubernetes.rejected",
            ),
            (429, "too many requests", "kubernetes.server-error"),
            (503, "etcd is not there", "kubernetes.server-error"),
        ] {
            let error = kube::Error::Api(Box::new(Status::failure(text, "").with_code(status)));
            let told = told("apply it", &error);
            assert_eq!((told.name(), told.detail()), (name, text));
        }
    }

    #[test]
    fn names_are_unique_and_ours() {
        let mut names: Vec<&str> = CODES.iter().map(|code| code.name).collect();
        assert!(names.iter().all(|name| name.starts_with("kubernetes.")));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CODES.len());
    }
}
