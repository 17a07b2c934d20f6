//! Pod Security Standards, level `baseline`: finds pods that access their host, in any object that describes pods.
//!
//! Everything with `containers` counts as a pod spec, in any kind, so that custom workloads are checked like Deployments.
//! <https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline>

use serde_json::{Map, Value};

const CONTAINER_LISTS: &[&str] = &["containers", "initContainers", "ephemeralContainers"];
const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];
const SELINUX_TYPES: &[&str] = &[
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];
const PROFILES: &[&str] = &["RuntimeDefault", "Localhost"];

/// A pod spec in an object, with its path.
pub(crate) struct PodSpec<'a> {
    pub(crate) path: String,
    pub(crate) spec: &'a Map<String, Value>,
}

/// Every pod spec in an object.
pub(crate) fn pod_specs(object: &Value) -> Vec<PodSpec<'_>> {
    let mut found = Vec::new();
    if !is_data(object) {
        walk(object, "", &mut |path, members| {
            if CONTAINER_LISTS
                .iter()
                .any(|list| members.get(*list).is_some_and(Value::is_array))
            {
                found.push(PodSpec {
                    path: path.to_owned(),
                    spec: members,
                });
            }
        });
    }
    found
}

/// The first member that `baseline` does not allow, as `path: value`.
pub(crate) fn baseline_violation(object: &Value) -> Option<String> {
    let violation = pod_specs(object)
        .into_iter()
        .find_map(|pod| pod_violation(pod.spec, &pod.path));
    violation.or_else(|| annotation_violation(object))
}

/// `ConfigMap`s and Secrets contain data, not pod specs.
pub(crate) fn is_data(object: &Value) -> bool {
    let is = |kind: &str| object["apiVersion"] == "v1" && object["kind"] == kind;
    is("ConfigMap") || is("Secret")
}

/// Calls `see` with every object in `value` and its path.
pub(crate) fn walk<'a>(
    value: &'a Value,
    path: &str,
    see: &mut impl FnMut(&str, &'a Map<String, Value>),
) {
    match value {
        Value::Object(members) => {
            see(path, members);
            for (name, member) in members {
                walk(member, &member_path(path, name), see);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{path}[{index}]"), see);
            }
        }
        _ => {}
    }
}

fn member_path(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn describe(path: &str, value: &Value) -> String {
    let value = value.to_string();
    let short = if value.len() > 100 { "…" } else { &value };
    format!("{path}: {short}")
}

/// Reports a member unless it is absent, null or false.
fn enabled(members: &Map<String, Value>, name: &str, path: &str) -> Option<String> {
    let value = members.get(name)?;
    let is_off = value.is_null() || *value == Value::Bool(false);
    if is_off {
        None
    } else {
        Some(describe(&member_path(path, name), value))
    }
}

/// Reports a value unless it is absent, null or one of `known`.
fn unless_allowed(value: Option<&Value>, known: &[&str], path: &str) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    let fits = value.as_str().is_some_and(|text| known.contains(&text));
    if fits {
        None
    } else {
        Some(describe(path, value))
    }
}

fn items<'a>(
    members: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = (usize, &'a Value)> {
    members
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
}

fn pod_violation(spec: &Map<String, Value>, path: &str) -> Option<String> {
    let host = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .find_map(|one| enabled(spec, one, path));
    host.or_else(|| {
        items(spec, "volumes").find_map(|(index, volume)| {
            let path = member_path(path, &format!("volumes[{index}].hostPath"));
            volume
                .get("hostPath")
                .filter(|one| !one.is_null())
                .map(|one| describe(&path, one))
        })
    })
    .or_else(|| {
        context_violation(
            spec.get("securityContext"),
            &member_path(path, "securityContext"),
        )
    })
    .or_else(|| {
        CONTAINER_LISTS.iter().find_map(|list| {
            items(spec, list).find_map(|(index, container)| {
                container_violation(
                    container.as_object()?,
                    &member_path(path, &format!("{list}[{index}]")),
                )
            })
        })
    })
}

fn container_violation(container: &Map<String, Value>, path: &str) -> Option<String> {
    context_violation(
        container.get("securityContext"),
        &member_path(path, "securityContext"),
    )
    .or_else(|| {
        items(container, "ports").find_map(|(index, port)| {
            let taken = port
                .get("hostPort")
                .filter(|one| !one.is_null() && **one != 0)?;
            Some(describe(
                &member_path(path, &format!("ports[{index}].hostPort")),
                taken,
            ))
        })
    })
    .or_else(|| probe_violation(container, path))
}

/// The kubelet runs probes and handlers from the host, so they may only target the pod itself.
fn probe_violation(container: &Map<String, Value>, path: &str) -> Option<String> {
    let probes = [
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ];
    probes.iter().find_map(|probe| {
        let mut found = None;
        walk(
            container.get(*probe)?,
            &member_path(path, probe),
            &mut |path, members| {
                for action in ["httpGet", "tcpSocket"] {
                    let host = members.get(action).and_then(|action| action.get("host"));
                    let path = member_path(path, &format!("{action}.host"));
                    found = found.take().or_else(|| unless_allowed(host, &[""], &path));
                }
            },
        );
        found
    })
}

/// Checks the security context of a pod or container.
fn context_violation(context: Option<&Value>, path: &str) -> Option<String> {
    let context = context?.as_object()?;
    let profile = |name: &str| {
        let kind = context.get(name).and_then(|profile| profile.get("type"));
        unless_allowed(kind, PROFILES, &member_path(path, &format!("{name}.type")))
    };
    let windows = context.get("windowsOptions").and_then(Value::as_object);
    enabled(context, "privileged", path)
        .or_else(|| {
            windows
                .and_then(|one| enabled(one, "hostProcess", &member_path(path, "windowsOptions")))
        })
        .or_else(|| capability_violation(context, path))
        .or_else(|| {
            unless_allowed(
                context.get("procMount"),
                &["Default"],
                &member_path(path, "procMount"),
            )
        })
        .or_else(|| profile("seccompProfile"))
        .or_else(|| profile("appArmorProfile"))
        .or_else(|| {
            selinux_violation(
                context.get("seLinuxOptions")?,
                &member_path(path, "seLinuxOptions"),
            )
        })
        .or_else(|| {
            items(context, "sysctls").find_map(|(index, sysctl)| {
                let path = member_path(path, &format!("sysctls[{index}].name"));
                unless_allowed(sysctl.get("name"), SYSCTLS, &path)
            })
        })
}

fn capability_violation(context: &Map<String, Value>, path: &str) -> Option<String> {
    let added = context.get("capabilities")?.get("add")?.as_array()?;
    added.iter().find_map(|one| {
        unless_allowed(
            Some(one),
            CAPABILITIES,
            &member_path(path, "capabilities.add"),
        )
    })
}

fn selinux_violation(options: &Value, path: &str) -> Option<String> {
    unless_allowed(
        options.get("type"),
        SELINUX_TYPES,
        &member_path(path, "type"),
    )
    .or_else(|| unless_allowed(options.get("user"), &[""], &member_path(path, "user")))
    .or_else(|| unless_allowed(options.get("role"), &[""], &member_path(path, "role")))
}

/// Checks the older annotations for `AppArmor` and seccomp.
fn annotation_violation(object: &Value) -> Option<String> {
    let mut found = None;
    if is_data(object) {
        return None;
    }
    walk(object, "", &mut |path, members| {
        for (name, value) in members
            .get("annotations")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let text = value.as_str().unwrap_or_default();
            let apparmor = name.starts_with("container.apparmor.security.beta.kubernetes.io/");
            let seccomp = name.starts_with("seccomp.security.alpha.kubernetes.io/")
                || name.starts_with("container.seccomp.security.alpha.kubernetes.io/");
            let fits = matches!(text, "runtime/default" | "docker/default")
                || text.starts_with("localhost/");
            if (apparmor || seccomp) && !fits && found.is_none() {
                found = Some(describe(
                    &member_path(path, &format!("annotations.{name}")),
                    value,
                ));
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::baseline_violation;
    use serde_json::{Value, json};

    /// An object of `kind` with this pod spec.
    fn workload(kind: &str, spec: &Value) -> Value {
        let template = json!({"metadata": {"labels": {}}, "spec": spec});
        match kind {
            "Pod" => json!({"kind": kind, "spec": spec}),
            "CronJob" => {
                json!({"kind": kind, "spec": {"jobTemplate": {"spec": {"template": template}}}})
            }
            "PodTemplate" => json!({"kind": kind, "template": template}),
            "Rollout" => {
                json!({"apiVersion": "argoproj.io/v1", "kind": kind, "spec": {"canary": [{"template": template}]}})
            }
            _ => json!({"kind": kind, "spec": {"template": template}}),
        }
    }

    const KINDS: &[&str] = &[
        "Pod",
        "Deployment",
        "ReplicaSet",
        "ReplicationController",
        "StatefulSet",
        "DaemonSet",
        "Job",
        "CronJob",
        "PodTemplate",
        "Rollout",
    ];

    fn with(container: &Value) -> Value {
        let mut complete = json!({"name": "a", "image": "b"});
        complete
            .as_object_mut()
            .unwrap()
            .extend(container.as_object().unwrap().clone());
        json!({"containers": [complete]})
    }

    fn assert_found(cases: &[(Value, &str)]) {
        for (spec, expected) in cases {
            for kind in KINDS {
                let found = baseline_violation(&workload(kind, spec)).unwrap_or_default();
                assert!(found.contains(expected), "{kind}: {expected} in {found:?}");
            }
        }
    }

    fn secured(context: &Value) -> Value {
        with(&json!({"securityContext": context}))
    }

    #[test]
    fn pods_that_reach_their_host_are_found_in_every_kind() {
        let none = json!([{"name": "a"}]);
        assert_found(&[
            (
                json!({"containers": none, "hostNetwork": true}),
                "hostNetwork: true",
            ),
            (json!({"containers": none, "hostPID": true}), "hostPID"),
            (json!({"containers": none, "hostIPC": "yes"}), "hostIPC"),
            (
                json!({"containers": none, "volumes": [{"name": "x"}, {"hostPath": {"path": "/"}}]}),
                "volumes[1].hostPath",
            ),
            (
                json!({"containers": [], "initContainers": [{"securityContext": {"privileged": true}}]}),
                "initContainers[0]",
            ),
            (
                json!({"ephemeralContainers": [{"securityContext": {"privileged": true}}]}),
                "ephemeralContainers[0]",
            ),
            (
                json!({"containers": none, "securityContext": {"sysctls": [{"name": "kernel.core_pattern"}]}}),
                "sysctls[0]",
            ),
            (
                json!({"containers": none, "securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
                "seccompProfile",
            ),
            (
                json!({"containers": none, "securityContext": {"windowsOptions": {"hostProcess": true}}}),
                "hostProcess",
            ),
        ]);
    }

    #[test]
    fn containers_that_reach_their_host_are_found_in_every_kind() {
        assert_found(&[
            (secured(&json!({"privileged": true})), "privileged: true"),
            (
                secured(&json!({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}})),
                "\"SYS_ADMIN\"",
            ),
            (
                secured(&json!({"capabilities": {"add": ["ALL"]}})),
                "\"ALL\"",
            ),
            (secured(&json!({"procMount": "Unmasked"})), "procMount"),
            (
                secured(&json!({"appArmorProfile": {"type": "Unconfined"}})),
                "appArmorProfile",
            ),
            (
                secured(&json!({"seLinuxOptions": {"type": "spc_t"}})),
                "spc_t",
            ),
            (
                secured(&json!({"seLinuxOptions": {"user": "system_u"}})),
                "system_u",
            ),
            (
                with(&json!({"ports": [{"containerPort": 1}, {"hostPort": 80}]})),
                "ports[1].hostPort: 80",
            ),
            (
                with(&json!({"livenessProbe": {"httpGet": {"host": "169.254.169.254"}}})),
                "livenessProbe.httpGet.host",
            ),
            (
                with(&json!({"lifecycle": {"preStop": {"tcpSocket": {"host": "10.0.0.1"}}}})),
                "preStop.tcpSocket.host",
            ),
        ]);
        let old = json!({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}},
            "spec": {"containers": [{}]}});
        assert!(baseline_violation(&old).unwrap().contains("unconfined"));
    }

    #[test]
    fn pods_that_baseline_allows_pass() {
        let spec = json!({"hostNetwork": false, "hostPID": null, "volumes": [{"emptyDir": {}}, {"hostPath": null}],
            "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies"}], "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"securityContext": {"privileged": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                "allowPrivilegeEscalation": true, "runAsUser": 0, "procMount": "Default"},
                "ports": [{"hostPort": 0}], "readinessProbe": {"httpGet": {"path": "/", "port": 80}}}]});
        for kind in KINDS {
            assert_eq!(baseline_violation(&workload(kind, &spec)), None, "{kind}");
        }
        let data = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"containers": [{"securityContext": {"privileged": true}}]}});
        assert_eq!(baseline_violation(&data), None);
    }
}
