//! Hostile values: every member of every documented request, every parameter of the samples, and names that
//! are printed on a terminal.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vnfm_tests::rng::SeededRng;

use crate::cases::Case;
use crate::catalogue::{Document, DocumentedRequest, Sample, leaves};
use crate::http::{JSON, PATCH, Response};
use crate::neighbours::{Learnt, vim_of};
use crate::payloads;
use crate::testbed::Testbed;
use crate::{check, lifecycle};

/// How long an operation may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Hostile values for each member of a request.
const VALUES: usize = 3;
/// Commands of `vnfmctl` that print names chosen by tenants.
const PRINTING_COMMANDS: &[&[&str]] = &[
    &["vnf", "list"],
    &["package", "list"],
    &["events"],
    &["vnf", "show", "@"],
    &["vim", "list"],
    &["orphans"],
];

/// Every member of every body, replaced.
pub(crate) fn bodies(learnt: &Learnt) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for mut request in Document::read()?.requests() {
        if request.body.is_null() || request.path.starts_with("/vnfm/v1/nfvo") {
            continue;
        }
        if request.path.ends_with("/instantiate")
            && let Some((sample, _)) = learnt.samples.first()
        {
            let own = sample.request("instantiate", "@VIM@");
            merge(&mut request.body, own);
        }
        // A VIM that exists, and a type of volumes that it has: the values get as far as its driver.
        for (member, own) in [("vimId", "@VIM@"), ("volumeType", "__DEFAULT__")] {
            if let Some(slot) = request.body.get_mut(member) {
                *slot = json!(own);
            }
        }
        for pointer in leaves(&request.body, true) {
            for _ in 0..VALUES {
                let what = format!("{} {} `{pointer}`", request.method, request.path);
                let (request, pointer) = (request.clone(), pointer.clone());
                let act = move |testbed: &mut Testbed, rng: &mut SeededRng| {
                    send_hostile_body(testbed, (&request, &pointer), rng)
                };
                all.push(Case::new("value", what, act));
            }
        }
    }
    Ok(all)
}

/// Replaces the example's members by those of a sample's request.
fn merge(example: &mut Value, own: Value) {
    let (Some(example), Value::Object(own)) = (example.as_object_mut(), own) else {
        return;
    };
    example.retain(|name, _| name == "additionalParams");
    example.extend(own);
}

/// Whether a member is secret.
fn is_secret(pointer: &str) -> bool {
    ["accessInfo", "authentication", "assword", "params"]
        .iter()
        .any(|part| pointer.contains(part))
        && !pointer.contains("additionalParams")
}

fn send_hostile_body(
    testbed: &mut Testbed,
    (request, pointer): (&DocumentedRequest, &str),
    rng: &mut SeededRng,
) -> Result<()> {
    let value = if is_secret(pointer) && rng.below(2) == 0 {
        json!(payloads::SECRET)
    } else {
        payloads::value(rng)
    };
    let mut body: Value = serde_json::from_str(
        &request
            .body
            .to_string()
            .replace("@VIM@", &testbed.fixture.cloud),
    )?;
    if let Some(slot) = body.pointer_mut(pointer) {
        *slot = value;
    }
    let vnfd = testbed.samples[0].1.clone();
    let instance = lifecycle::create(testbed, "ann", &vnfd)?;
    let package = testbed.create("ann", "/vnfpkgm/v2/vnf_packages", &json!({}))?;
    let mut path = request.path.replace("{vnfInstanceId}", &instance);
    path = path.replace("{vnfPkgId}", &package);
    for (name, id) in &testbed.fixture.ids {
        path = path.replace(name.as_str(), id);
    }
    let kind = if request.method == "PATCH" {
        PATCH
    } else {
        JSON
    };
    let text = body.to_string();
    let answer = testbed.clients.send(
        "ann",
        (&request.method, &path),
        Some((kind, text.as_bytes())),
    )?;
    clean_up(testbed, &path, &answer, rng)?;
    lifecycle::remove(testbed, "ann", &instance, rng)?;
    let path = format!("/vnfpkgm/v2/vnf_packages/{package}");
    let deleted = testbed.clients.send("ann", ("DELETE", &path), None)?;
    ensure!(
        deleted.is_success(),
        "cannot delete a package without content: {}",
        deleted.text()
    );
    Ok(())
}

/// Removes what a request has created.
fn clean_up(
    testbed: &mut Testbed,
    path: &str,
    answer: &Response,
    rng: &mut SeededRng,
) -> Result<()> {
    let Some(id) = answer.created_id() else {
        return Ok(());
    };
    if answer.status == 202 {
        lifecycle::wait_for_end(testbed, "ann", &id, TIMEOUT)?;
    } else if answer.status == 201 && path.ends_with("/vnf_instances") {
        lifecycle::remove(testbed, "ann", &id, rng)?;
    } else if answer.status == 201 {
        let deleted = testbed
            .clients
            .send("ann", ("DELETE", &format!("{path}/{id}")), None)?;
        ensure!(
            deleted.is_success(),
            "cannot delete what was created: {} {}",
            deleted.status,
            deleted.text()
        );
    }
    Ok(())
}

/// Every variable of the samples × every payload, and texts of their requests, in complete operations.
pub(crate) fn parameters(learnt: &Learnt, most: usize, rng: &mut SeededRng) -> Vec<Case> {
    let mut all = Vec::new();
    for (sample, vnfd) in learnt
        .samples
        .iter()
        .filter(|(sample, _)| sample.is_kubernetes())
    {
        for name in sample.variables() {
            let pointer = format!("/additionalParams/{name}");
            for text in payloads::all() {
                let user = *rng.pick(&["olga", "nina"]);
                all.push(parameter((sample, vnfd), pointer.clone(), user, Some(text)));
            }
        }
    }
    for _ in 0..(most / 16).max(40) {
        let (sample, vnfd) = rng.pick(&learnt.samples);
        let pointers = leaves(&sample.request("instantiate", "@VIM@"), false);
        all.push(parameter(
            (sample, vnfd),
            rng.pick(&pointers).clone(),
            "olga",
            None,
        ));
    }
    all
}

fn parameter(
    (sample, vnfd): (&Sample, &str),
    pointer: String,
    user: &'static str,
    text: Option<String>,
) -> Case {
    let (sample, vnfd) = (sample.clone(), vnfd.to_owned());
    let short: String = text
        .as_deref()
        .unwrap_or("hostile")
        .chars()
        .take(40)
        .collect();
    let what = format!("{} `{pointer}` as {user}: {short:?}", sample.name);
    Case::new("parameter", what, move |testbed, rng| {
        let text = text.clone().unwrap_or_else(|| payloads::text(rng));
        let vim = vim_of(testbed, &sample);
        let mut request = sample.request("instantiate", &vim);
        if user == "nina" {
            request["additionalParams"]["namespace"] = json!("web");
        }
        set_pointer(&mut request, &pointer, json!(text));
        let namespace = request["additionalParams"]["namespace"]
            .as_str()
            .unwrap_or_default();
        let namespace = if is_label(namespace) {
            namespace.to_owned()
        } else {
            String::new()
        };
        let instance = lifecycle::create(testbed, user, &vnfd)?;
        let steps = [("instantiate".to_owned(), request)];
        let states = lifecycle::run_operations(testbed, (user, &instance), &steps, TIMEOUT)?;
        let outside = check::own_namespace(testbed, &instance, &namespace);
        let deleted = lifecycle::remove(testbed, user, &instance, rng);
        outside.map_err(|error| error.context(format!("{states:?}")))?;
        deleted
    })
}

/// Whether a request may name this namespace.
fn is_label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with("kube-")
        && text
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || one == '-')
}

/// Sets the value at a pointer, creating missing members.
fn set_pointer(value: &mut Value, pointer: &str, new: Value) {
    let mut slot = value;
    for part in pointer.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        slot = match name.parse::<usize>() {
            Ok(number) if slot.is_array() => &mut slot[number],
            _ => &mut slot[name],
        };
    }
    *slot = new;
}

/// Hostile names in the output of `vnfmctl`.
pub(crate) fn terminal_output() -> Vec<Case> {
    let mut all = Vec::new();
    for words in PRINTING_COMMANDS {
        for name in [
            "\u{1b}]0;owned\u{7}\u{1b}[2J",
            "\u{9b}31m\u{85}",
            "\u{202e}exe\u{2066}\r",
        ] {
            let what = format!("vnfmctl {} with {name:?}", words.join(" "));
            all.push(Case::new("terminal", what, move |testbed, rng| {
                let body = json!({"vnfdId": testbed.samples[0].1, "vnfInstanceName": name,
                    "vnfInstanceDescription": name});
                let instance = testbed.create("olga", "/vnflcm/v2/vnf_instances", &body)?;
                let after = testbed.fixture.events.to_string();
                let mut words: Vec<_> = words
                    .iter()
                    .map(|word| word.replace('@', &instance))
                    .collect();
                if words[0] == "events" {
                    words.extend(["--after".into(), after]);
                }
                let words: Vec<_> = words.iter().map(String::as_str).collect();
                let output = testbed
                    .vnfmctl("olga", &words)
                    .unwrap_or_else(|why| why.to_string());
                lifecycle::remove(testbed, "olga", &instance, rng)?;
                let raw = output.chars().find(|one| is_unescaped(*one));
                ensure!(raw.is_none(), "vnfmctl prints {raw:?} as it is: {output:?}");
                Ok(())
            }));
        }
    }
    all
}

/// Whether a character is a control or bidirectional one, which must be escaped.
fn is_unescaped(one: char) -> bool {
    let is_control = one.is_control() && !matches!(one, '\n' | '\t');
    is_control || matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
