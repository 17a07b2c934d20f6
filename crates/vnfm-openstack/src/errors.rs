//! The error codes of this driver; no error ever contains a credential.
//!
//! [`refusal`] interprets statuses and error texts of the services; [`stack_failure`] interprets Heat's reason for a
//! stack that failed later. Both are tested against texts of a real cloud.

use crate::response::Reply;
use serde_json::Value;
use vnfm_core::ports::ErrorKind::{Broken, Refused, Unavailable};
use vnfm_core::ports::{Code, ErrorKind, PortError};

const fn code(
    name: &'static str,
    kind: ErrorKind,
    means: &'static str,
    next: &'static str,
) -> Code {
    Code {
        name,
        kind,
        means,
        next,
    }
}

pub(crate) const ADDRESS: Code = code(
    "openstack.address",
    Refused,
    "the cloud is at an address that this server must not call",
    "ask the operator to add the address to `vims.networks` in the server's configuration, then retry",
);
pub(crate) const ANSWER: Code = code(
    "openstack.answer-too-large",
    Refused,
    "the cloud's response exceeds the size limit; nothing of it was used",
    "check that the endpoint in the message is the cloud's, then retry",
);
pub(crate) const UNREACHABLE: Code = code(
    "openstack.unreachable",
    Unavailable,
    "a service of the cloud does not answer",
    "check the endpoint of the VIM and that the cloud is up, then retry",
);
pub(crate) const FAILING: Code = code(
    "openstack.failing",
    Unavailable,
    "a service of the cloud responds with an internal error",
    "look for the request id in the service's log, then retry",
);
pub(crate) const CERTIFICATE: Code = code(
    "openstack.certificate",
    Refused,
    "the server's certificate is not trusted",
    "register the VIM with its CA in `interfaceInfo.trustedCertificates`",
);
pub(crate) const LINK: Code = code(
    "openstack.link",
    Refused,
    "a member of the shared virtual link is missing, invalid, or not for OpenStack; nothing was created",
    "correct the member that the message names",
);
pub(crate) const LOGIN_REFUSED: Code = code(
    "openstack.login-refused",
    Refused,
    "Keystone rejects the password or the application credential, or the user has no role in the project",
    "correct the login with `vnfmctl vim update`, then retry",
);
pub(crate) const FORBIDDEN: Code = code(
    "openstack.forbidden",
    Refused,
    "the user has no role that allows the call",
    "ask the cloud's administrator for the role (Heat usually wants `heat_stack_owner` or `member`)",
);
pub(crate) const QUOTA: Code = code(
    "openstack.quota",
    Refused,
    "the project's quota is too small",
    "free resources of the project or ask for a higher quota, then retry",
);
pub(crate) const NOT_FOUND: Code = code(
    "openstack.not-found",
    Refused,
    "the cloud does not have the requested resource",
    "check names and ids in the request and in the package",
);
pub(crate) const REJECTED: Code = code(
    "openstack.rejected",
    Refused,
    "a service of the cloud did not accept the call",
    "read its message: it names what is wrong in the request or in the package",
);
pub(crate) const NO_ENDPOINT: Code = code(
    "openstack.no-endpoint",
    Refused,
    "the catalog has no endpoint of the service in the region and interface of the VIM",
    "set `accessInfo.region` and `accessInfo.interface` of the VIM to values in the catalog",
);
pub(crate) const UNEXPECTED: Code = code(
    "openstack.unexpected-answer",
    Broken,
    "the service's response does not match its API",
    "check that the endpoint is the service's and not a web page; if so, report it with the request id",
);
pub(crate) const CONNECTION: Code = code(
    "openstack.connection-incomplete",
    Refused,
    "the VIM's connection information lacks or misspells a member",
    "correct the named member",
);
pub(crate) const REQUEST: Code = code(
    "openstack.request-incomplete",
    Refused,
    "the request lacks a value that the descriptor leaves open",
    "correct the named member of the request",
);
pub(crate) const PACKAGE: Code = code(
    "openstack.package",
    Refused,
    "the package describes something that OpenStack cannot provide",
    "correct the package at the named location",
);
pub(crate) const NO_FLAVOR: Code = code(
    "openstack.no-flavor",
    Refused,
    "the cloud has no flavor that fits the VDU",
    "create a flavor that fits, or name one in the descriptor",
);
pub(crate) const NO_IMAGE: Code = code(
    "openstack.no-image",
    Refused,
    "the cloud has no image of the name in the VDU, and the package contains none",
    "upload the image under that name, or put it into the package",
);
pub(crate) const GRANT: Code = code(
    "openstack.grant",
    Refused,
    "the NFVO's grant prescribes something that this cloud cannot follow; nothing was created",
    "let the NFVO grant without it, or provide it on the cloud",
);
pub(crate) const NO_NETWORK: Code = code(
    "openstack.no-network",
    Refused,
    "the cloud has no network, subnet or port of the name or id in the request",
    "correct `extVirtualLinks[].resourceId`: the id or the name of a network that the project sees",
);
pub(crate) const SERVER_LOST: Code = code(
    "openstack.server-lost",
    Refused,
    "a server that is to be started or stopped is in ERROR, or no longer exists",
    "heal its VNFC, or roll back; `vnfmctl vnf show VNF` lists the VNFCs",
);
pub(crate) const NOT_STORABLE: Code = code(
    "openstack.not-storable",
    Refused,
    "a server cannot be stored or restored in its present state",
    "read the message: heal the VNFC, or wait until the server is ACTIVE or SHUTOFF; servers that boot from a volume cannot \
     be stored",
);
pub(crate) const SNAPSHOT_GONE: Code = code(
    "openstack.snapshot-gone",
    Refused,
    "the cloud no longer has what the snapshot refers to",
    "delete the snapshot, and create another one",
);
pub(crate) const NOT_LATEST: Code = code(
    "openstack.later-snapshot",
    Refused,
    "a volume returns only to its latest snapshot, and it has a later one",
    "delete the later snapshots first, the latest one first",
);
pub(crate) const VOLUME_LOST: Code = code(
    "openstack.volume-lost",
    Refused,
    "a volume that is to be restored is in error, or no longer exists",
    "heal its VNFC with its volumes, then retry",
);
pub(crate) const VOLUME_LATE: Code = code(
    "openstack.volume-late",
    Unavailable,
    "Cinder did not create or delete the volume in time",
    "look at the volume with `openstack volume show`; `vnfmctl volume delete` continues, whatever its state",
);
pub(crate) const VOLUME_NOT_CREATED: Code = code(
    "openstack.volume-not-created",
    Refused,
    "Cinder accepted the request for an empty volume, but could not create it; it is deleted again",
    "read Cinder's message, and request another size or type: `openstack volume type list`",
);
pub(crate) const VOLUME_NESTED: Code = code(
    "openstack.volume-nested",
    Refused,
    "the volume is in a nested stack, of which all members have one template, so it cannot be retained alone; nothing was changed",
    "leave out its storage in `additionalParams.vnfm_retain_volumes`",
);
pub(crate) const VOLUME_FOREIGN: Code = code(
    "openstack.volume-foreign",
    Refused,
    "the volume does not carry the metadata of the retained volume; it was not touched",
    "delete the volume with `openstack volume delete` if nothing needs it; then delete the retained volume again",
);
pub(crate) const VOLUME_STUCK: Code = code(
    "openstack.volume-stuck",
    Refused,
    "Cinder does not delete the volume, as something uses it, it has snapshots, or an earlier deletion failed",
    "remove what the message names, such as attachments and snapshots, then delete the retained volume again",
);
pub(crate) const SNAPSHOT_STUCK: Code = code(
    "openstack.snapshot-stuck",
    Refused,
    "Cinder has failed to delete a volume snapshot, and does not try again",
    "ask the cloud's administrator to reset the state of the volume snapshot (`openstack volume snapshot set --state error`), \
     then retry",
);
pub(crate) const HAS_SNAPSHOTS: Code = code(
    "openstack.volume-has-snapshots",
    Refused,
    "Cinder deletes no volume that has snapshots; nothing was deleted",
    "delete the VNF snapshots of the instance (`vnfmctl snapshot delete`), then retry",
);
pub(crate) const PARAMETER: Code = code(
    "base-hot.parameter-missing",
    Refused,
    "a parameter of the Base HOT has no value",
    "add the line to the package's parameter mapping, or give the parameter a default",
);
pub(crate) const STACK_FAILED: Code = code(
    "heat.stack-failed",
    Refused,
    "Heat gave up on the stack",
    "remove the cause that Heat names, then retry or roll back",
);
pub(crate) const STACK_FAILED_FOR_NOW: Code = code(
    "heat.stack-failed-for-now",
    Unavailable,
    "Heat gave up on the stack because a service did not answer",
    "retry: a failed creation is deleted and repeated, a failed update is repeated",
);
pub(crate) const STACK_FOREIGN: Code = code(
    "heat.stack-foreign",
    Refused,
    "a stack has our stack's name but not our tag; it was not touched",
    "find out who owns it, then rename or delete it, or create the instance again to get another id",
);
pub(crate) const STACK_SLOW: Code = code(
    "heat.deadline",
    Unavailable,
    "Heat did not finish in time",
    "look at the stack's events; a retry continues to wait for the same stack",
);
pub(crate) const STACK_STAYS: Code = code(
    "heat.delete-failed",
    Refused,
    "Heat failed to delete the stack several times",
    "remove the resource that Heat names by hand, then retry",
);
pub(crate) const APPLICATION_CREDENTIAL: Code = code(
    "heat.application-credential",
    Refused,
    "Heat cannot create stacks with this application credential: it needs a trust, which Keystone does not let one create",
    "register the VIM with user name and password (`vnfmctl vim update`)",
);
pub(crate) const CREDENTIAL_FOREIGN: Code = code(
    "openstack.credential-foreign",
    Refused,
    "an application credential has the name of ours but not our description; it was not touched",
    "find out who owns it, then delete it (`openstack application credential delete`) and retry",
);
pub(crate) const CREDENTIALS_HIDDEN: Code = code(
    "openstack.credentials-hidden",
    Refused,
    "Keystone does not list the application credentials of the VIM's user, so that logins of programs inside the VNF cannot be found and revoked; nothing was created or deleted",
    "let the VIM's user list them (`identity:list_application_credentials`), or register the VIM with the user who created them (`vnfmctl vim update`), then retry",
);
pub(crate) const LEFTOVERS: Code = code(
    "openstack.leftovers",
    Unavailable,
    "what programs inside the VNF created on the cloud is not deleted yet",
    "look at the resource that the message names; a retry continues",
);
pub(crate) const NO_KEY: Code = code(
    "barbican.no-key",
    Refused,
    "Barbican does not have the key that seals the secrets of this database, or does not show it to this user",
    "log in as the user and to the project that it was kept with, or bring back a database that was sealed with another key",
);
pub(crate) const POLICY: Code = code(
    "openstack.policy",
    Refused,
    "the policy of the VIM does not allow a resource of the template; nothing was made",
    "leave it out of the package, or ask the owner of the VIM to allow it: `vnfmctl vim update VIM --policy FILE`",
);

/// Every code of this crate, for `docs/errors.md`.
pub const CODES: &[&Code] = &[
    &ADDRESS,
    &ANSWER,
    &UNREACHABLE,
    &FAILING,
    &CERTIFICATE,
    &LOGIN_REFUSED,
    &FORBIDDEN,
    &QUOTA,
    &NOT_FOUND,
    &REJECTED,
    &NO_ENDPOINT,
    &UNEXPECTED,
    &CONNECTION,
    &CREDENTIAL_FOREIGN,
    &CREDENTIALS_HIDDEN,
    &LEFTOVERS,
    &REQUEST,
    &PACKAGE,
    &NO_FLAVOR,
    &NO_IMAGE,
    &NO_NETWORK,
    &GRANT,
    &PARAMETER,
    &POLICY,
    &STACK_FAILED,
    &STACK_FAILED_FOR_NOW,
    &STACK_FOREIGN,
    &STACK_SLOW,
    &STACK_STAYS,
    &SERVER_LOST,
    &NOT_STORABLE,
    &SNAPSHOT_GONE,
    &NOT_LATEST,
    &VOLUME_LOST,
    &SNAPSHOT_STUCK,
    &HAS_SNAPSHOTS,
    &VOLUME_LATE,
    &VOLUME_NOT_CREATED,
    &VOLUME_NESTED,
    &VOLUME_FOREIGN,
    &VOLUME_STUCK,
    &LINK,
    &APPLICATION_CREDENTIAL,
    &NO_KEY,
];

/// The error for a response whose status is not accepted.
pub(crate) fn refusal(action: &str, reply: &Reply) -> PortError {
    let message = message(reply);
    let text = if reply.is_exposed {
        format!("{} ({})", message, reply.status)
    } else {
        format!("it responds {}", reply.status)
    };
    let code = match reply.status {
        401 => &LOGIN_REFUSED,
        403 | 409 | 413 if mentions_quota(&message) => &QUOTA,
        403 => &FORBIDDEN,
        404 => &NOT_FOUND,
        400..=428 => &REJECTED,
        429 | 500..=599 => &FAILING,
        _ => &UNEXPECTED,
    };
    PortError::new(code, action, text).request(reply.request_id.clone())
}

/// The error for a failed stack; `reason` is its `stack_status_reason`.
pub(crate) fn stack_failure(action: &str, status: &str, reason: &str) -> PortError {
    let code = if mentions_quota(reason) {
        &QUOTA
    } else if may_pass(reason) {
        &STACK_FAILED_FOR_NOW
    } else {
        &STACK_FAILED
    };
    let mut error = PortError::new(
        code,
        action,
        format!("the stack went to {status}: {reason}"),
    )
    .request(request_in(reason));
    if let Some(resource) = resource_in(reason) {
        error = error.on(resource);
    }
    if reason.contains("have snapshots") {
        error = error.hint("Cinder deletes no volume that has snapshots: delete the VNF snapshots of the instance, then retry");
    }
    if is_without_host(reason) {
        error = error.hint("the cloud has no room for the server: use a smaller flavor, relax the affinity rules or free hosts, then retry");
    }
    error
}

/// Whether Nova found no host for a server.
pub(crate) fn is_without_host(reason: &str) -> bool {
    // The second is what the first becomes where two servers race for the last host.
    reason.contains("No valid host was found") || reason.contains("Exhausted all hosts available")
}

/// The service's error message, from any of the shapes that the services use.
pub(crate) fn message(reply: &Reply) -> String {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let body = &reply.body;
    let found = body
        .pointer("/error/message")
        .and_then(text)
        .or_else(|| body.pointer("/NeutronError/message").and_then(text))
        .or_else(|| body.get("message").and_then(text))
        .or_else(|| body.get("explanation").and_then(text))
        .or_else(|| body.get("faultstring").and_then(text))
        .or_else(|| body.get("description").and_then(text))
        .or_else(|| {
            body.as_object()?
                .values()
                .find_map(|inner| inner.get("message").and_then(text))
        });
    let found = found.unwrap_or_else(|| without_markup(&reply.text));
    let found = found.split_whitespace().collect::<Vec<_>>().join(" ");
    if found.is_empty() {
        "it gave no reason".into()
    } else {
        truncate(&found, 1000)
    }
}

/// The type of a Heat error, such as `RemoteError`.
pub(crate) fn heat_type(reply: &Reply) -> Option<&str> {
    reply.body.pointer("/error/type").and_then(Value::as_str)
}

fn mentions_quota(text: &str) -> bool {
    // The last two are Cinder's, for the size and for the number of volumes.
    const WORDS: &[&str] = &[
        "quota exceeded",
        "overquota",
        "quotaexceeded",
        "exceeds allowed gigabytes quota",
        "exceeded for quota",
    ];
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|words| text.contains(words))
}

/// Whether the cause of a failed stack may have passed at the next attempt.
fn may_pass(reason: &str) -> bool {
    const PASSING: &[&str] = &[
        "(HTTP 500)",
        "(HTTP 502)",
        "(HTTP 503)",
        "(HTTP 504)",
        "MessagingTimeout",
        "ConnectFailure",
        "ConnectTimeout",
        "ConnectionRefused",
        "temporarily unavailable",
        "Service Unavailable",
        "Unable to establish connection",
    ];
    PASSING.iter().any(|known| reason.contains(known))
}

/// The innermost resource in a reason: `resources.workers.resources.0` is `workers.0`.
fn resource_in(reason: &str) -> Option<String> {
    let at = reason.find("resources.")?;
    let path = reason[at..].split([':', ' ', '"']).next()?;
    let names: Vec<&str> = path
        .split('.')
        .filter(|part| !part.is_empty() && *part != "resources")
        .collect();
    (!names.is_empty()).then(|| names.join("."))
}

/// Finds `(Request-ID: req-…)` in a reason.
fn request_in(reason: &str) -> Option<String> {
    let rest = reason.split("Request-ID: ").nth(1)?;
    let id: String = rest
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    (!id.is_empty()).then_some(id)
}

fn without_markup(text: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                plain.push(' ');
            }
            _ if !inside => plain.push(c),
            _ => {}
        }
    }
    plain
}

pub(crate) fn truncate(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{} …", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reply(status: u16, body: Value) -> Reply {
        Reply {
            status,
            request_id: Some("req-1".into()),
            text: body.to_string(),
            body,
            subject_token: None,
            is_exposed: true,
        }
    }

    #[test]
    fn every_code_has_a_name_of_its_own() {
        let mut names: Vec<&str> = CODES.iter().map(|code| code.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(
            CODES
                .iter()
                .all(|code| !code.means.is_empty() && !code.next.is_empty())
        );
    }

    fn heat(code: u16, kind: &str, message: &str) -> Reply {
        let error = json!({"type": kind, "message": message, "traceback": null});
        reply(
            code,
            json!({"code": code, "title": "t", "explanation": "e", "error": error}),
        )
    }

    /// A response of Nova or Neutron: one member, with the message in it.
    fn wrapped(code: u16, member: &str, message: &str) -> Reply {
        reply(code, json!({ member: {"code": code, "message": message} }))
    }

    #[test]
    fn error_responses_of_heat_become_codes() {
        const FLAVOR: &str = "Property error: : resources.s.properties.flavor: : Error validating value 'no-such': No Flavor matching {'name': 'no-such'}. (HTTP 404)";
        check_codes([
            (
                heat(400, "StackValidationFailed", FLAVOR),
                "openstack.rejected",
                FLAVOR,
            ),
            (
                heat(409, "StackExists", "The Stack (dup) already exists."),
                "openstack.rejected",
                "(dup)",
            ),
            (
                heat(
                    404,
                    "EntityNotFound",
                    "The Stack (no-such) could not be found.",
                ),
                "openstack.not-found",
                "no-such",
            ),
            (
                heat(500, "MessagingTimeout", "Timed out waiting for a reply"),
                "openstack.failing",
                "Timed out",
            ),
        ]);
    }

    #[test]
    fn error_responses_of_other_services_become_codes() {
        const USED: &str =
            "Quota exceeded for instances: Requested 1, but already used 8 of 8 instances";
        const BY_POLICY: &str =
            "Policy doesn't allow os_compute_api:servers:create to be performed.";
        const STATE: &str = "Cannot 'start' instance x while it is in vm_state active";
        const LOGIN: &str = "The request you have made requires authentication.";
        const KEYSTONE: &str = "The Keystone service is temporarily unavailable.";
        check_codes([
            (
                wrapped(401, "error", LOGIN),
                "openstack.login-refused",
                LOGIN,
            ),
            (
                wrapped(409, "conflictingRequest", STATE),
                "openstack.rejected",
                STATE,
            ),
            (
                wrapped(
                    409,
                    "NeutronError",
                    "Quota exceeded for resources: ['network'].",
                ),
                "openstack.quota",
                "['network']",
            ),
            (wrapped(403, "forbidden", USED), "openstack.quota", USED),
            (
                wrapped(403, "forbidden", BY_POLICY),
                "openstack.forbidden",
                BY_POLICY,
            ),
            (
                reply(503, json!({ "message": KEYSTONE })),
                "openstack.failing",
                KEYSTONE,
            ),
        ]);
    }

    /// Checks for each reply the expected code and a part of the error's text.
    fn check_codes<const N: usize>(table: [(Reply, &str, &str); N]) {
        for (reply, code, text) in table {
            let error = refusal("create stack `s`", &reply);
            assert_eq!(error.name(), code, "{error}");
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(error.request_id(), Some("req-1"));
        }
    }

    #[test]
    fn an_html_error_page_is_reduced_to_its_text() {
        let mut page = reply(404, Value::Null);
        page.text =
            "<html><head><title>404</title></head><body><h1>Not  Found</h1></body></html>".into();
        assert_eq!(message(&page), "404 Not Found");
    }

    #[test]
    fn a_stack_failure_names_its_code_resource_and_request_id() {
        let table = [
            (
                "Resource CREATE failed: Forbidden: resources.s3: Quota exceeded for instances: Requested 1, but already used 8 of 8 instances (HTTP 403) (Request-ID: req-77e5b80a-1b2c)",
                "openstack.quota",
                Some("s3"),
                Some("req-77e5b80a-1b2c"),
            ),
            (
                "Resource CREATE failed: OverQuotaClient: resources.n1: Quota exceeded for resources: ['network'].",
                "openstack.quota",
                Some("n1"),
                None,
            ),
            (
                "Resource CREATE failed: ResourceInError: resources.s1: Went to status ERROR due to \"Message: No valid host was found. There are not enough hosts available., Code: 500\"",
                "heat.stack-failed",
                Some("s1"),
                None,
            ),
            (
                "Resource CREATE failed: NotFound: resources.workers.resources.0.resources.server: Instance could not be found",
                "heat.stack-failed",
                Some("workers.0.server"),
                None,
            ),
            (
                "Resource CREATE failed: ServiceUnavailable: resources.p: The server is currently unavailable. (HTTP 503)",
                "heat.stack-failed-for-now",
                Some("p"),
                None,
            ),
            ("Create timed out", "heat.stack-failed", None, None),
        ];
        for (reason, code, resource, request) in table {
            let error = stack_failure("create stack `s`", "CREATE_FAILED", reason);
            assert_eq!(
                (error.name(), error.resource(), error.request_id()),
                (code, resource, request)
            );
            assert!(error.detail().contains(reason), "{error}");
        }
        for reason in [
            "No valid host was found",
            "Exhausted all hosts available for retrying",
        ] {
            let no_capacity = stack_failure("create stack `s`", "CREATE_FAILED", reason);
            assert!(no_capacity.next().contains("no room"));
        }
        let kept = "Resource DELETE failed: BadRequest: resources.v: Invalid volume: Volume status must be available and must \
             not be attached or have snapshots. (HTTP 400)";
        let kept = stack_failure("update stack `s`", "UPDATE_FAILED", kept);
        assert!(kept.next().contains("delete the VNF snapshots"), "{kept}");
    }
}
