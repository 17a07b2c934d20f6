//! Error codes of this driver, and the conversion of client errors. No text here ever contains a credential.
//!
//! | the API server returns | error | kind |
//! |---|---|---|
//! | nothing | [`UNREACHABLE`], or [`CERTIFICATE`] where TLS failed | Unavailable, Refused |
//! | 401 | [`LOGIN_REFUSED`] | Refused |
//! | 403 | [`QUOTA`] if it mentions one, else [`FORBIDDEN`] | Refused |
//! | any status, from an admission webhook or policy | [`DENIED`] | Refused |
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
    next: "have the operator add the address to `vims.networks` in the server's configuration, then retry",
};
/// The response is too large.
pub const ANSWER: Code = Code {
    name: "kubernetes.answer-too-large",
    kind: ErrorKind::Refused,
    means: "the API server's response exceeds the size limit; it was discarded",
    next: "check that the endpoint is the cluster's API server, then retry",
};
/// No response: the connection failed or timed out.
pub const UNREACHABLE: Code = Code {
    name: "kubernetes.unreachable",
    kind: ErrorKind::Unavailable,
    means: "the API server does not respond",
    next: "check that the cluster runs and that this server can reach its endpoint",
};
/// The TLS handshake failed on the certificate.
pub const CERTIFICATE: Code = Code {
    name: "kubernetes.certificate",
    kind: ErrorKind::Refused,
    means: "the API server's certificate was not issued by a CA in `ssl_ca_cert`",
    next: "compare `ssl_ca_cert` with the cluster's own CA certificate, and the endpoint with the names in its certificate",
};
/// Status 401: the credential is not known.
pub const LOGIN_REFUSED: Code = Code {
    name: "kubernetes.login-refused",
    kind: ErrorKind::Refused,
    means: "the API server does not know the token or the client certificate, or it has expired",
    next: "set a valid credential with `vnfmctl vim update`",
};
/// Status 403: the account lacks a permission.
pub const FORBIDDEN: Code = Code {
    name: "kubernetes.forbidden",
    kind: ErrorKind::Refused,
    means: "the account lacks a permission",
    next: "grant the account the named permission by a Role or ClusterRole",
};
/// Status 403 with a quota as the reason.
pub const QUOTA: Code = Code {
    name: "kubernetes.quota",
    kind: ErrorKind::Refused,
    means: "a `ResourceQuota` or `LimitRange` of the namespace is exceeded",
    next: "raise the quota or request less, then retry",
};
/// An admission webhook or policy.
pub const DENIED: Code = Code {
    name: "kubernetes.denied",
    kind: ErrorKind::Refused,
    means: "an admission webhook or policy of the cluster denied the request",
    next: "ask the owner of the named webhook or policy to allow the object, or correct the manifest, then retry",
};
/// Statuses 400 and 422: the object is invalid.
pub const REJECTED: Code = Code {
    name: "kubernetes.rejected",
    kind: ErrorKind::Refused,
    means: "the API server rejected the object",
    next: "correct the manifest in the package, or the variables in the request",
};
/// Statuses 429 and 5xx: overloaded or failing.
pub const SERVER: Code = Code {
    name: "kubernetes.server-error",
    kind: ErrorKind::Unavailable,
    means: "the API server is overloaded or failing",
    next: "check the control plane, then retry",
};
/// The package has no order file, or a manifest is invalid.
pub const MANIFEST: Code = Code {
    name: "kubernetes.manifest-invalid",
    kind: ErrorKind::Refused,
    means: "a manifest or the order file of the package cannot be used",
    next: "correct the package at the named location and onboard it again",
};
/// The grant prescribes something that Kubernetes objects do not support.
pub const GRANT: Code = Code {
    name: "kubernetes.grant",
    kind: ErrorKind::Refused,
    means: "the NFVO's grant prescribes something that a cluster does not support; nothing was created",
    next: "have the NFVO grant the request without it",
};
/// The request connects a connection point as pods cannot be connected.
pub const LINK: Code = Code {
    name: "kubernetes.link-invalid",
    kind: ErrorKind::Refused,
    means: "the request connects a virtual link or connection point in a way that pods do not support; nothing was changed",
    next: "correct the named member of `extVirtualLinks` or `extManagedVirtualLinks`",
};
/// The cluster has no such network.
pub const NETWORK: Code = Code {
    name: "kubernetes.no-network",
    kind: ErrorKind::Refused,
    means: "the cluster does not have the NetworkAttachmentDefinition that a virtual link names; nothing was changed",
    next: "create it, or correct `resourceId` of the link: `NAMESPACE/NAME`, or `NAME` in the namespace of the VNF",
};
/// The cluster lacks what the ASD requires.
pub const CAPABILITIES: Code = Code {
    name: "kubernetes.capabilities",
    kind: ErrorKind::Refused,
    means: "the cluster lacks what the ASD of the package requires; nothing was created",
    next: "choose a cluster that `vnfmctl package match PACKAGE --all` lists as fitting, or add what is missing to this one",
};
/// The VIM names no registry for the images of the package.
pub const NO_REGISTRY: Code = Code {
    name: "kubernetes.no-registry",
    kind: ErrorKind::Refused,
    means: "workloads use container images of the package, and the VIM's connection names no registry for them; nothing was created",
    next: "add `interfaceInfo.registry`, and `accessInfo.registry_username` and `registry_password` if it has a login, with `vnfmctl vim update`, then retry",
};
/// The registry does not accept an image.
pub const REGISTRY: Code = Code {
    name: "kubernetes.registry",
    kind: ErrorKind::Refused,
    means: "the VIM's registry refused a container image of the package, or leads elsewhere",
    next: "correct the `registry` members of the VIM's connection with `vnfmctl vim update`, or the permissions of its user, then retry",
};
/// The registry does not respond.
pub const REGISTRY_UNAVAILABLE: Code = Code {
    name: "kubernetes.registry-unavailable",
    kind: ErrorKind::Unavailable,
    means: "the VIM's registry does not respond or is failing",
    next: "check that the registry runs and that this server can reach it, then retry; images that are there are not pushed again",
};
/// Helm cannot be run.
pub const HELM: Code = Code {
    name: "kubernetes.helm",
    kind: ErrorKind::Refused,
    means: "helm, which installs the charts of packages, is not configured or cannot be used",
    next: "set `helm.binary`, and `helm.sha256` if it is pinned, in the server's configuration to a Helm 3 or 4; `vnfmctl check-config` tests it",
};
/// Helm reports an error about a chart.
pub const CHART: Code = Code {
    name: "kubernetes.chart-invalid",
    kind: ErrorKind::Refused,
    means: "a chart of the package cannot be rendered, installed or uninstalled",
    next: "correct the chart in the package, or the parameters in the request that are its values, then retry",
};
/// A test of a chart failed.
pub const TEST_FAILED: Code = Code {
    name: "kubernetes.test-failed",
    kind: ErrorKind::Refused,
    means: "a test of a chart failed, which the request asked for by `helm_test`",
    next: "correct what the last lines of its pod report, then retry or roll back",
};
/// Helm did not finish.
pub const HELM_LATE: Code = Code {
    name: "kubernetes.helm-late",
    kind: ErrorKind::Unavailable,
    means: "helm did not finish in time and was ended",
    next: "check which hook of the chart does not complete, and that the API server responds, then retry",
};
/// A declared variable has no value.
pub const VARIABLE: Code = Code {
    name: "kubernetes.variable-missing",
    kind: ErrorKind::Refused,
    means: "a variable of the order file has neither a value in the request nor a default",
    next: "give it in the request's `additionalParams`",
};
/// A value has the wrong type for its variable.
pub const VALUE: Code = Code {
    name: "kubernetes.value-unfit",
    kind: ErrorKind::Refused,
    means: "a value in the request does not have the type of its variable",
    next: "give the named variable a value of the expected type",
};
/// A parameter of the request that names parts of the package cannot be used.
pub const PARAMETER: Code = Code {
    name: "kubernetes.parameter-invalid",
    kind: ErrorKind::Refused,
    means: "a parameter of the request has the wrong form, or names something that the package does not have",
    next: "correct the named parameter in the request's `additionalParams`",
};
/// The policy of the VIM or of the caller's role forbids an object.
pub const POLICY: Code = Code {
    name: "kubernetes.policy",
    kind: ErrorKind::Refused,
    means: "the policy of the VIM, or of the caller's role, does not allow an object of the package; nothing was created",
    next: "remove it from the package, or ask the owner of the VIM to allow it: `vnfmctl vim update VIM --policy FILE`",
};
/// A shared virtual link cannot be created as requested.
pub const SHARED_LINK: Code = Code {
    name: "kubernetes.link",
    kind: ErrorKind::Refused,
    means: "a member of the shared virtual link is missing, invalid, or not for Kubernetes; nothing was created",
    next: "correct the member that the message names",
};
/// A volume cannot be retained, used or deleted.
pub const VOLUME: Code = Code {
    name: "kubernetes.volume",
    kind: ErrorKind::Refused,
    means: "a `PersistentVolume` cannot be created, retained, used or deleted as it is",
    next: "correct what the message names, or leave the volume out; `kubectl describe pv` shows who has it",
};
/// The cluster does not serve a kind.
pub const KIND: Code = Code {
    name: "kubernetes.kind-unknown",
    kind: ErrorKind::Refused,
    means: "the cluster does not serve a kind that the package uses",
    next: "install the operator that provides it, or put its CustomResourceDefinition into the package with a lower `order`",
};
/// The object exists but is not ours.
pub const FOREIGN: Code = Code {
    name: "kubernetes.foreign-object",
    kind: ErrorKind::Refused,
    means: "an object of that name exists and does not belong to this instance; it was not changed",
    next: "use another namespace or name, or delete the object if it is no longer needed",
};
/// 409, usually because of another field manager.
pub const CONFLICT: Code = Code {
    name: "kubernetes.conflict",
    kind: ErrorKind::Refused,
    means: "another field manager owns a field of the object, or changed it at the same time",
    next: "have the other manager give up the field, or remove it from the manifest",
};
/// The namespace is being deleted.
pub const TERMINATING: Code = Code {
    name: "kubernetes.namespace-terminating",
    kind: ErrorKind::Unavailable,
    means: "the namespace is being deleted",
    next: "wait until it is deleted, or use another one",
};
/// The deadline passed while objects were not ready.
pub const NOT_READY: Code = Code {
    name: "kubernetes.not-ready",
    kind: ErrorKind::Refused,
    means: "objects were applied but were not ready in time",
    next: "check what the named object or pod is waiting for, then retry",
};
/// A pod hangs in Terminating.
pub const HANGING: Code = Code {
    name: "kubernetes.pod-hangs",
    kind: ErrorKind::Refused,
    means: "a pod was deleted, but its node does not respond, so the pod may still be running",
    next: "make sure that the node is off, then delete it or taint it `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`, and retry",
};
/// The status of an object reports a permanent failure.
pub const FAILED: Code = Code {
    name: "kubernetes.workload-failed",
    kind: ErrorKind::Refused,
    means: "a workload reports that it failed",
    next: "check the named object and its events, then retry or roll back",
};
/// An object was deleted while we waited for it.
pub const VANISHED: Code = Code {
    name: "kubernetes.object-vanished",
    kind: ErrorKind::Unavailable,
    means: "an object was deleted while we waited for it",
    next: "retry: it is recreated",
};
/// A finalizer blocks a deletion.
pub const FINALIZER: Code = Code {
    name: "kubernetes.finalizer",
    kind: ErrorKind::Refused,
    means: "an object is marked for deletion, but a finalizer blocks it",
    next: "restore the controller that handles the finalizer, or remove the finalizer by hand, then retry",
};
/// A deletion did not complete, for no reason that the API server reports.
pub const STILL_THERE: Code = Code {
    name: "kubernetes.still-there",
    kind: ErrorKind::Unavailable,
    means: "deleted objects still existed at the deadline",
    next: "check what still uses them, then retry",
};
/// The cluster has no volume snapshots.
pub const NO_SNAPSHOTS: Code = Code {
    name: "kubernetes.snapshots-not-served",
    kind: ErrorKind::Refused,
    means: "the VNF has claims, and the cluster does not serve `snapshot.storage.k8s.io/v1`; nothing was stored",
    next: "install the CSI snapshot controller and its CustomResourceDefinitions on the cluster, then request it again",
};
/// A claim of which no snapshot can be taken.
pub const NOT_STORABLE: Code = Code {
    name: "kubernetes.claim-not-storable",
    kind: ErrorKind::Refused,
    means: "the data of a claim cannot be stored; nothing was stored",
    next: "correct what the error names, such as a missing VolumeSnapshotClass, then request it again",
};
/// A `VolumeSnapshot` was not ready in time.
pub const SNAPSHOT_FAILED: Code = Code {
    name: "kubernetes.snapshot-failed",
    kind: ErrorKind::Refused,
    means: "a VolumeSnapshot reports an error, or was not ready in time",
    next: "check the named VolumeSnapshot, and the cluster's snapshot controller and CSI driver, then retry or roll back",
};
/// A part of a snapshot no longer exists.
pub const SNAPSHOT_GONE: Code = Code {
    name: "kubernetes.snapshot-gone",
    kind: ErrorKind::Refused,
    means: "the cluster no longer has what a VNF snapshot refers to; nothing was changed",
    next: "use another VNF snapshot, and delete this one",
};
/// A response that violates the API.
pub const UNEXPECTED: Code = Code {
    name: "kubernetes.unexpected",
    kind: ErrorKind::Broken,
    means: "the API server sent a response that violates its API",
    next: "report a bug with the text of the error",
};

/// All error codes of this driver, for `docs/errors.md`.
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
    &CAPABILITIES,
    &LINK,
    &NETWORK,
    &NO_REGISTRY,
    &REGISTRY,
    &REGISTRY_UNAVAILABLE,
    &VARIABLE,
    &HELM,
    &CHART,
    &TEST_FAILED,
    &HELM_LATE,
    &VALUE,
    &PARAMETER,
    &POLICY,
    &SHARED_LINK,
    &VOLUME,
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
    &NO_SNAPSHOTS,
    &NOT_STORABLE,
    &SNAPSHOT_FAILED,
    &SNAPSHOT_GONE,
    &UNEXPECTED,
];

/// The HTTP status of an error; 0 without a response.
pub(crate) fn status(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

/// Whether a retry may succeed soon: there was no response, or the API server is overloaded or failing.
pub(crate) fn is_transient(error: &kube::Error) -> bool {
    let converted = port_error("", error);
    converted.code() == &UNREACHABLE || converted.code() == &SERVER
}

/// The server's `Retry-After`, if any.
pub(crate) fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else {
        return None;
    };
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

/// Converts a client error; the code follows the table at the top.
pub(crate) fn port_error(action: &str, error: &kube::Error) -> PortError {
    match error {
        kube::Error::Api(status) => {
            let text = if status.message.is_empty() {
                &status.reason
            } else {
                &status.message
            };
            PortError::new(code_for(status.code, text), action, text.clone())
        }
        kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) | kube::Error::HttpError(_) => {
            PortError::new(&UNEXPECTED, action, root_cause(error))
        }
        _ if is_forbidden(error) => {
            let detail = "its endpoint resolves to no allowed address";
            PortError::new(&ADDRESS, action, detail)
        }
        _ if is_too_large(error) => PortError::new(&ANSWER, action, root_cause(error)),
        _ => {
            let text = root_cause(error);
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
            PortError::new(code, action, text)
        }
    }
}

/// Omits what the server returned, for a connection from a request: otherwise a caller could probe addresses with it.
pub(crate) fn without_response(converted: PortError, error: &kube::Error) -> PortError {
    let detail = match error {
        kube::Error::Api(status) => format!("it responds with status {}", status.code),
        _ if converted.code() == &UNREACHABLE => "no response".to_owned(),
        _ if converted.code() == &UNEXPECTED => "it does not respond like an API server".to_owned(),
        _ => return converted,
    };
    PortError::new(converted.code(), converted.action(), detail)
}

/// Whether the response was cut off at the size limit.
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

fn code_for(status: u16, text: &str) -> &'static Code {
    match status {
        401 => &LOGIN_REFUSED,
        403 if text.contains("exceeded quota") || text.contains("failed quota") => &QUOTA,
        400..=499 if is_denied(text) => &DENIED,
        403 if text.contains("is being terminated") => &TERMINATING,
        403 => &FORBIDDEN,
        409 => &CONFLICT,
        // The API server responds to an unknown field in an applied object with 500.
        500 if text.contains("typed patch object") => &REJECTED,
        429 | 500..=599 => &SERVER,
        _ => &REJECTED,
    }
}

/// Whether an admission webhook (`admission webhook "x" denied the request: …`) or policy denied the request.
fn is_denied(text: &str) -> bool {
    text.contains("denied the request") || text.contains("denied request: ")
}

/// The text of the innermost cause; the outer errors only repeat it.
fn root_cause(error: &dyn std::error::Error) -> String {
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
    fn each_status_maps_to_its_error_code() {
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
            let converted = port_error("apply it", &error);
            assert_eq!((converted.name(), converted.detail()), (name, text));
        }
    }

    #[test]
    fn code_names_are_unique_and_have_our_prefix() {
        let mut names: Vec<&str> = CODES.iter().map(|code| code.name).collect();
        assert!(names.iter().all(|name| name.starts_with("kubernetes.")));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CODES.len());
    }
}
