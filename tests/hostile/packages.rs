//! Hostile packages: texts, numbers, objects and archives.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use uuid::Uuid;
use vnfm_tests::rng::SeededRng;

use crate::cases::Case;
use crate::catalogue::{Sample, archive};
use crate::neighbours::{Learnt, vim_of};
use crate::payloads::{self, INJECTED_NAME};
use crate::testbed::Testbed;
use crate::{check, lifecycle};

/// How long an operation may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A number that exceeds every limit.
const MANY: &str = "100000000";

/// A scalar: file, start and end.
type Scalar = (String, usize, usize);

/// The values after `name: ` in YAML files.
fn scalars(sample: &Sample) -> Vec<Scalar> {
    let mut all = Vec::new();
    for (name, bytes) in &sample.files {
        let is_yaml = [".yaml", ".yml"].iter().any(|end| name.ends_with(end));
        let Ok(text) = std::str::from_utf8(bytes) else {
            continue;
        };
        if !is_yaml {
            continue;
        }
        for (at, _) in text.match_indices(": ") {
            let from = at + 2;
            let rest = &text[from..];
            let length = rest.find(['\n', ',', '}', ']', '#']).unwrap_or(rest.len());
            let value = rest[..length].trim_end();
            if !value.is_empty() && !value.starts_with(['{', '[', '|', '>', '&']) {
                all.push((name.clone(), from, from + value.len()));
            }
        }
    }
    all
}

/// The sample with another `vnfdId`, so that both can be onboarded.
pub(crate) fn renamed(sample: &Sample, vnfd: &str) -> (Sample, String) {
    let new = Uuid::new_v4().to_string();
    let mut sample = sample.clone();
    for bytes in sample.files.values_mut() {
        if let Ok(text) = std::str::from_utf8(bytes) {
            *bytes = text.replace(vnfd, &new).into_bytes();
        }
    }
    (sample, new)
}

/// Onboards and instantiates a package, checks the objects, and removes everything.
fn play(
    testbed: &mut Testbed,
    user: &str,
    (sample, archive): (&Sample, &[u8]),
    rng: &mut SeededRng,
) -> Result<()> {
    let Ok((package, vnfd)) = testbed.onboard(user, archive)? else {
        return Ok(());
    };
    let vim = vim_of(testbed, sample);
    let mut request = sample.request("instantiate", &vim);
    if user == "nina" {
        request["additionalParams"]["namespace"] = json!("web");
    }
    let instance = lifecycle::create(testbed, user, &vnfd);
    let mut outside = Ok(());
    if let Ok(instance) = &instance {
        let steps = [("instantiate".to_owned(), request)];
        lifecycle::run_operations(testbed, (user, instance), &steps, TIMEOUT)?;
        outside = check::own_namespace(testbed, instance, if user == "nina" { "web" } else { "" });
        lifecycle::remove(testbed, user, instance, rng)?;
    }
    let path = format!("/vnfpkgm/v2/vnf_packages/{package}");
    let disable = json!({"operationalState": "DISABLED"});
    testbed.clients.json(user, ("PATCH", &path), &disable)?;
    let deleted = testbed.clients.send(user, ("DELETE", &path), None)?;
    ensure!(
        deleted.is_success(),
        "cannot delete a package: {} {}",
        deleted.status,
        deleted.text()
    );
    outside
}

/// A user with a VIM for the sample; on the shared cluster one of another tenant.
fn user_for(sample: &Sample) -> &'static str {
    if sample.is_kubernetes() {
        "bob"
    } else {
        "olga"
    }
}

/// Replaces one scalar of a package, and all numbers of one kind together, because one alone may exceed another's limit.
pub(crate) fn mutations(learnt: &Learnt, most: usize, rng: &mut SeededRng) -> Vec<Case> {
    let mut all = Vec::new();
    for (sample, vnfd) in &learnt.samples {
        let mut kinds: BTreeMap<String, Vec<Scalar>> = BTreeMap::new();
        for scalar in scalars(sample) {
            let bytes = &sample.files[&scalar.0];
            if bytes[scalar.1..scalar.2].iter().all(u8::is_ascii_digit) {
                let kind = last_word(&bytes[..scalar.1]);
                kinds.entry(kind).or_default().push(scalar.clone());
                all.push(mutation("bomb", (sample, vnfd), vec![scalar], Some(MANY)));
            }
        }
        for scalars in kinds.into_values().filter(|scalars| scalars.len() > 1) {
            all.push(mutation("bomb", (sample, vnfd), scalars, Some(MANY)));
        }
    }
    for _ in 0..(most / 8).max(60) {
        let (sample, vnfd) = rng.pick(&learnt.samples);
        let scalars = scalars(sample);
        let scalar = rng.pick(&scalars).clone();
        all.push(mutation("package", (sample, vnfd), vec![scalar], None));
    }
    all
}

/// The last word of the name before a value: `instances` of `max_number_of_instances: `.
fn last_word(before: &[u8]) -> String {
    let text = String::from_utf8_lossy(before);
    let name = text.trim_end_matches([' ', ':']);
    name.rsplit(|one: char| !one.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn mutation(
    class: &'static str,
    (sample, vnfd): (&Sample, &str),
    mut scalars: Vec<Scalar>,
    put: Option<&'static str>,
) -> Case {
    let (file, from, to) = &scalars[0];
    let old = String::from_utf8_lossy(&sample.files[file][*from..*to]).into_owned();
    let others = scalars.len() - 1;
    let new = put.unwrap_or("hostile");
    let what = format!(
        "{} {file}:{from} `{old}`, {others} like it: {new}",
        sample.name
    );
    let (sample, vnfd) = (sample.clone(), vnfd.to_owned());
    // Backwards, so that the remaining offsets stay valid.
    scalars.sort_by_key(|(file, from, _)| (file.clone(), std::cmp::Reverse(*from)));
    Case::new(class, what, move |testbed, rng| {
        let mut sample = sample.clone();
        let new = match put {
            Some(number) => number.to_owned(),
            None => json!(payloads::text(rng)).to_string(),
        };
        for (file, from, to) in &scalars {
            if let Some(bytes) = sample.files.get_mut(file) {
                bytes.splice(*from..*to, new.bytes());
            }
        }
        let (sample, _) = renamed(&sample, &vnfd);
        play(
            testbed,
            user_for(&sample),
            (&sample, &sample.archive()?),
            rng,
        )
    })
}

/// Objects that a tenant must not create on a shared cluster.
pub(crate) fn objects(learnt: &Learnt) -> Vec<Case> {
    let mut all = Vec::new();
    let charts = learnt
        .samples
        .iter()
        .filter(|(sample, _)| manifest(sample).is_some());
    for (sample, vnfd) in charts {
        for (name, object) in forbidden() {
            for user in ["bob", "olga", "nina"] {
                let what = format!("{name} in `{}` as {user}", sample.name);
                let (sample, vnfd, object) = (sample.clone(), vnfd.clone(), object.clone());
                all.push(Case::new("object", what, move |testbed, rng| {
                    object_case(testbed, user, (&sample, &vnfd, &object), rng)
                }));
            }
        }
    }
    all
}

fn object_case(
    testbed: &mut Testbed,
    user: &str,
    (sample, vnfd, object): (&Sample, &str, &Value),
    rng: &mut SeededRng,
) -> Result<()> {
    let (mut sample, _) = renamed(sample, vnfd);
    let Some(name) = manifest(&sample) else {
        return Ok(());
    };
    if let Some(bytes) = sample.files.get_mut(&name) {
        bytes.extend_from_slice(format!("\n---\n{object}\n").as_bytes());
    }
    let archive = sample.archive()?;
    // A user limited to a namespace cannot onboard: another user of the tenant does.
    let onboards = if user == "nina" { "olga" } else { user };
    let Ok((package, vnfd)) = testbed.onboard(onboards, &archive)? else {
        return Ok(());
    };
    let mut request = sample.request("instantiate", &vim_of(testbed, &sample));
    if user == "nina" {
        request["additionalParams"]["namespace"] = json!("web");
    }
    let instance = lifecycle::create(testbed, user, &vnfd)?;
    let steps = [("instantiate".to_owned(), request)];
    let states = lifecycle::run_operations(testbed, (user, &instance), &steps, TIMEOUT)?;
    let outside = check::own_namespace(testbed, &instance, if user == "nina" { "web" } else { "" });
    lifecycle::remove(testbed, user, &instance, rng)?;
    let path = format!("/vnfpkgm/v2/vnf_packages/{package}");
    testbed.clients.json(
        onboards,
        ("PATCH", &path),
        &json!({"operationalState": "DISABLED"}),
    )?;
    testbed.clients.send(onboards, ("DELETE", &path), None)?;
    outside?;
    let done = states.first().is_some_and(|state| state == "COMPLETED");
    ensure!(
        !done,
        "a forbidden object was created for `{user}`: {object}"
    );
    Ok(())
}

/// The last manifest of a sample.
fn manifest(sample: &Sample) -> Option<String> {
    let order = sample.files.get("Files/kubernetes/order.yaml")?;
    let order: Value = serde_yaml::from_slice(order).ok()?;
    order["manifests"].as_array()?.last()?["path"]
        .as_str()
        .map(str::to_owned)
}

/// Forbidden objects and their names.
fn forbidden() -> Vec<(String, Value)> {
    let meta = |namespace: &str| match namespace {
        "" => json!({"name": INJECTED_NAME}),
        namespace => json!({"name": INJECTED_NAME, "namespace": namespace}),
    };
    let mut all = Vec::new();
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let subjects = json!([{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}]);
    let mut add = |name: String, object: Value| all.push((name, object));
    add(
        "ClusterRoleBinding".into(),
        json!({"apiVersion": rbac, "kind": "ClusterRoleBinding",
        "metadata": meta(""), "roleRef": role, "subjects": subjects}),
    );
    add(
        "ClusterRole".into(),
        json!({"apiVersion": rbac, "kind": "ClusterRole", "metadata": meta(""),
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
    );
    add(
        "Namespace".into(),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta("")}),
    );
    for namespace in ["kube-system", "default", "kube-public", "web-of-others"] {
        add(
            format!("ConfigMap in {namespace}"),
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": meta(namespace), "data": {"a": "b"}}),
        );
        add(
            format!("Secret in {namespace}"),
            json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": meta(namespace), "stringData": {"a": "b"}}),
        );
    }
    let specs = [
        ("hostNetwork", json!({"hostNetwork": true})),
        ("hostPID", json!({"hostPID": true})),
        ("hostIPC", json!({"hostIPC": true})),
        (
            "hostPath",
            json!({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}),
        ),
        (
            "privileged",
            json!({"container": {"securityContext": {"privileged": true}}}),
        ),
        (
            "capabilities",
            json!({"container": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}}),
        ),
        (
            "hostPort",
            json!({"container": {"ports": [{"containerPort": 80, "hostPort": 80}]}}),
        ),
    ];
    for (name, spec) in specs {
        add(name.to_owned(), deployment(&spec));
    }
    all
}

/// A Deployment whose pod spec has these members; those of `container` belong to its container.
fn deployment(spec: &Value) -> Value {
    let mut pod = json!({"containers": [{"name": "a", "image": "localhost/busybox:1"}]});
    for (name, value) in spec.as_object().into_iter().flatten() {
        if name != "container" {
            pod[name] = value.clone();
        }
    }
    for (name, value) in spec["container"].as_object().into_iter().flatten() {
        pod["containers"][0][name] = value.clone();
    }
    let labels = json!({"app": INJECTED_NAME});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": INJECTED_NAME}, "spec": {
        "replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod}}})
}

/// Archives that are malformed or malicious.
pub(crate) fn archives(learnt: &Learnt) -> Vec<Case> {
    let mut all = Vec::new();
    let Some((sample, vnfd)) = learnt.samples.first().cloned() else {
        return all;
    };
    let mut odd = |what: &str, refused: bool, make: fn(&Sample) -> Result<Vec<u8>>| {
        let (sample, vnfd) = (sample.clone(), vnfd.clone());
        all.push(Case::new(
            "archive",
            what.to_owned(),
            move |testbed, rng| {
                let (sample, _) = renamed(&sample, &vnfd);
                let bytes = make(&sample)?;
                if refused {
                    let taken = testbed.onboard("olga", &bytes)?;
                    ensure!(taken.is_err(), "the archive was accepted");
                    return Ok(());
                }
                play(testbed, "olga", (&sample, &bytes), rng)
            },
        ));
    };
    odd("bytes before the archive", true, |sample| {
        Ok([b"#!/bin/sh\nexit\n".to_vec(), sample.archive()?].concat())
    });
    odd("bytes behind the archive", true, |sample| {
        Ok([sample.archive()?, b"more".to_vec()].concat())
    });
    odd("cut", true, |sample| {
        let bytes = sample.archive()?;
        Ok(bytes[..bytes.len() / 2].to_vec())
    });
    odd("no archive", true, |_| Ok(vec![0; 4096]));
    odd("a path that leads outside", true, |sample| {
        with(sample, &[("../../outside", b"x")])
    });
    odd("an absolute path", true, |sample| {
        with(sample, &[("/tmp/hostile", b"x")])
    });
    odd("one name in two spellings", true, |sample| {
        with(sample, &[("Files/\u{e9}", b"x"), ("Files/e\u{301}", b"y")])
    });
    odd("a gigabyte of zeros", true, |sample| {
        let zeros = vec![0; 1 << 30];
        with(sample, &[("Files/zeros", &zeros)])
    });
    odd("many small files", true, |sample| {
        let names: Vec<_> = (0..100_000).map(|n| format!("Files/{n}")).collect();
        let more: Vec<_> = names
            .iter()
            .map(|name| (name.as_str(), b"x".as_slice()))
            .collect();
        with(sample, &more)
    });
    all
}

fn with(sample: &Sample, more: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let files: BTreeMap<&str, &[u8]> = sample
        .files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    archive(files.into_iter().chain(more.iter().copied()))
}
