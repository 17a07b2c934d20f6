//! Pod Security Standards, level `baseline`: what leads out of a pod, wherever an object describes pods.
//!
//! Whatever has `containers` is read as a pod's spec, in any kind, so that a workload of a custom resource is looked at
//! like a Deployment. <https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline>

use serde_json::{Map, Value};

const LISTS: &[&str] = &["containers", "initContainers", "ephemeralContainers"];
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

/// A pod's spec somewhere in an object, with the way to it.
pub(crate) struct PodSpec<'a> {
    pub(crate) path: String,
    pub(crate) spec: &'a Map<String, Value>,
}

/// Every pod that an object describes.
pub(crate) fn pods(object: &Value) -> Vec<PodSpec<'_>> {
    let mut found = Vec::new();
    if !is_data(object) {
        look(object, "", &mut |path, members| {
            if LISTS
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

/// The member of an object that `baseline` does not allow, as `path: value`.
pub(crate) fn beyond_baseline(object: &Value) -> Option<String> {
    let of_pods = pods(object)
        .into_iter()
        .find_map(|pod| of_pod(pod.spec, &pod.path));
    of_pods.or_else(|| of_annotations(object))
}

/// What `ConfigMap`s and Secrets hold describes nothing.
fn is_data(object: &Value) -> bool {
    let is = |kind: &str| object["apiVersion"] == "v1" && object["kind"] == kind;
    is("ConfigMap") || is("Secret")
}

fn look<'a>(value: &'a Value, path: &str, see: &mut impl FnMut(&str, &'a Map<String, Value>)) {
    match value {
        Value::Object(members) => {
            see(path, members);
            for (name, member) in members {
                look(member, &below(path, name), see);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                look(item, &format!("{path}[{index}]"), see);
            }
        }
        _ => {}
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn said(path: &str, value: &Value) -> String {
    let value = value.to_string();
    let short = if value.len() > 100 { "…" } else { &value };
    format!("{path}: {short}")
}

/// Anything but false, null and absent.
fn on(members: &Map<String, Value>, name: &str, path: &str) -> Option<String> {
    let value = members.get(name)?;
    let off = value.is_null() || *value == Value::Bool(false);
    if off {
        None
    } else {
        Some(said(&below(path, name), value))
    }
}

/// A text that is there and not one of `known`.
fn other(value: Option<&Value>, known: &[&str], path: &str) -> Option<String> {
    let value = value.filter(|value| !value.is_null())?;
    let fits = value.as_str().is_some_and(|text| known.contains(&text));
    if fits { None } else { Some(said(path, value)) }
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

fn of_pod(spec: &Map<String, Value>, path: &str) -> Option<String> {
    let host = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .find_map(|one| on(spec, one, path));
    host.or_else(|| {
        items(spec, "volumes").find_map(|(index, volume)| {
            let path = below(path, &format!("volumes[{index}].hostPath"));
            volume
                .get("hostPath")
                .filter(|one| !one.is_null())
                .map(|one| said(&path, one))
        })
    })
    .or_else(|| of_context(spec.get("securityContext"), &below(path, "securityContext")))
    .or_else(|| {
        LISTS.iter().find_map(|list| {
            items(spec, list).find_map(|(index, container)| {
                of_container(
                    container.as_object()?,
                    &below(path, &format!("{list}[{index}]")),
                )
            })
        })
    })
}

fn of_container(container: &Map<String, Value>, path: &str) -> Option<String> {
    of_context(
        container.get("securityContext"),
        &below(path, "securityContext"),
    )
    .or_else(|| {
        items(container, "ports").find_map(|(index, port)| {
            let taken = port
                .get("hostPort")
                .filter(|one| !one.is_null() && **one != 0)?;
            Some(said(
                &below(path, &format!("ports[{index}].hostPort")),
                taken,
            ))
        })
    })
    .or_else(|| of_probes(container, path))
}

/// Probes and handlers are done by the host's kubelet: to the pod, and to nobody else.
fn of_probes(container: &Map<String, Value>, path: &str) -> Option<String> {
    let probes = [
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ];
    probes.iter().find_map(|probe| {
        let mut found = None;
        look(
            container.get(*probe)?,
            &below(path, probe),
            &mut |path, members| {
                for action in ["httpGet", "tcpSocket"] {
                    let host = members.get(action).and_then(|action| action.get("host"));
                    let path = below(path, &format!("{action}.host"));
                    found = found.take().or_else(|| other(host, &[""], &path));
                }
            },
        );
        found
    })
}

/// The security context of a pod or of a container.
fn of_context(context: Option<&Value>, path: &str) -> Option<String> {
    let context = context?.as_object()?;
    let profile = |name: &str| {
        let kind = context.get(name).and_then(|profile| profile.get("type"));
        other(kind, PROFILES, &below(path, &format!("{name}.type")))
    };
    let windows = context.get("windowsOptions").and_then(Value::as_object);
    on(context, "privileged", path)
        .or_else(|| windows.and_then(|one| on(one, "hostProcess", &below(path, "windowsOptions"))))
        .or_else(|| of_capabilities(context, path))
        .or_else(|| {
            other(
                context.get("procMount"),
                &["Default"],
                &below(path, "procMount"),
            )
        })
        .or_else(|| profile("seccompProfile"))
        .or_else(|| profile("appArmorProfile"))
        .or_else(|| {
            of_selinux(
                context.get("seLinuxOptions")?,
                &below(path, "seLinuxOptions"),
            )
        })
        .or_else(|| {
            items(context, "sysctls").find_map(|(index, sysctl)| {
                let path = below(path, &format!("sysctls[{index}].name"));
                other(sysctl.get("name"), SYSCTLS, &path)
            })
        })
}

fn of_capabilities(context: &Map<String, Value>, path: &str) -> Option<String> {
    let added = context.get("capabilities")?.get("add")?.as_array()?;
    added
        .iter()
        .find_map(|one| other(Some(one), CAPABILITIES, &below(path, "capabilities.add")))
}

fn of_selinux(options: &Value, path: &str) -> Option<String> {
    other(options.get("type"), SELINUX_TYPES, &below(path, "type"))
        .or_else(|| other(options.get("user"), &[""], &below(path, "user")))
        .or_else(|| other(options.get("role"), &[""], &below(path, "role")))
}

/// The older way to say it of `AppArmor` and seccomp.
fn of_annotations(object: &Value) -> Option<String> {
    let mut found = None;
    if is_data(object) {
        return None;
    }
    look(object, "", &mut |path, members| {
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
                found = Some(said(&below(path, &format!("annotations.{name}")), value));
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::beyond_baseline;
    use serde_json::{Value, json};

    /// The object of `kind` whose pods have this spec.
    fn of(kind: &str, spec: &Value) -> Value {
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
        let mut whole = json!({"name": "a", "image": "b"});
        whole
            .as_object_mut()
            .unwrap()
            .extend(container.as_object().unwrap().clone());
        json!({"containers": [whole]})
    }

    fn assert_found(cases: &[(Value, &str)]) {
        for (spec, expected) in cases {
            for kind in KINDS {
                let found = beyond_baseline(&of(kind, spec)).unwrap_or_default();
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
        assert!(beyond_baseline(&old).unwrap().contains("unconfined"));
    }

    #[test]
    fn what_baseline_allows_passes() {
        let spec = json!({"hostNetwork": false, "hostPID": null, "volumes": [{"emptyDir": {}}, {"hostPath": null}],
            "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies"}], "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"securityContext": {"privileged": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                "allowPrivilegeEscalation": true, "runAsUser": 0, "procMount": "Default"},
                "ports": [{"hostPort": 0}], "readinessProbe": {"httpGet": {"path": "/", "port": 80}}}]});
        for kind in KINDS {
            assert_eq!(beyond_baseline(&of(kind, &spec)), None, "{kind}");
        }
        let data = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"containers": [{"securityContext": {"privileged": true}}]}});
        assert_eq!(beyond_baseline(&data), None);
    }
}
