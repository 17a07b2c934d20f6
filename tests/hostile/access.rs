//! Every route × every role of two tenants and no login × real and unknown ids: foreign resources look like
//! missing ones, forbidden requests are refused, and no path or query causes a server error. The routes come
//! from the server's own table.

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use vnfm_server::Role;
use vnfm_server::reference::{self, RequiredRole};
use vnfm_tests::rng::SeededRng;

use crate::cases::Case;
use crate::catalogue::Document;
use crate::http::{JSON, PATCH, Response, USERS};
use crate::payloads;
use crate::testbed::Testbed;

/// An id that does not exist.
const INVENTED: &str = "00000000-0000-4000-8000-00000000dead";
/// Hostile texts in place of an id, for each route.
const TEXTS: usize = 6;
/// Routes that need no login.
const OPEN: &[&str] = &["/healthz", "/readyz"];

/// One method at one path.
#[derive(Debug, Clone)]
struct Endpoint {
    method: String,
    path: String,
    needs: RequiredRole,
    body: Value,
}

fn endpoints() -> Result<Vec<Endpoint>> {
    let described = Document::read()?.requests();
    let mut all = Vec::new();
    for route in reference::routes(vnfm_core::lcm::OPERATIONS) {
        let (method, path) = (route.method.to_string(), route.path.into_owned());
        let needs = route.role.unwrap_or(RequiredRole::Role(Role::Read));
        let same = described
            .iter()
            .find(|one| one.method == method && one.path == path);
        let endpoint = Endpoint {
            body: same.map_or(Value::Null, |one| one.body.clone()),
            method,
            path,
            needs,
        };
        if endpoint.path.starts_with("/vnflcm/v2/") {
            let path = endpoint.path.replace("/v2/", "/v1/");
            all.push(Endpoint {
                path,
                ..endpoint.clone()
            });
        }
        all.push(endpoint);
    }
    ensure!(
        all.len() > 60,
        "only {} routes: cannot read the server's table",
        all.len()
    );
    Ok(all)
}

/// Each route × each user.
pub(crate) fn cases() -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for endpoint in endpoints()? {
        for user in USERS.iter().map(|(name, _)| *name).chain([""]) {
            let endpoint = endpoint.clone();
            let who = if user.is_empty() { "nobody" } else { user };
            let what = format!("{} {} as {who}", endpoint.method, endpoint.path);
            all.push(Case::new("door", what, move |testbed, _| {
                check_access(testbed, &endpoint, user)
            }));
        }
        let what = format!("{} {} with hostile ids", endpoint.method, endpoint.path);
        all.push(Case::new("door", what, move |testbed, rng| {
            send_hostile_ids(testbed, &endpoint, rng)
        }));
    }
    Ok(all)
}

fn send(testbed: &Testbed, endpoint: &Endpoint, user: &str, path: &str) -> Result<Response> {
    let kind = if endpoint.method == "PATCH" {
        PATCH
    } else {
        JSON
    };
    let body = endpoint.body.to_string();
    let body =
        (endpoint.method != "GET" && !endpoint.body.is_null()).then_some((kind, body.as_bytes()));
    testbed.clients.send(user, (&endpoint.method, path), body)
}

/// The path with ids of `acme`, or with ids that do not exist.
fn filled(testbed: &Testbed, path: &str, real: bool) -> String {
    let mut filled = path.replace("{artifactPath}", "Definitions/vnfd.yaml");
    while let (Some(from), Some(to)) = (filled.find('{'), filled.find('}')) {
        let name = filled[from..=to].to_owned();
        let id = testbed.fixture.ids.get(&name).filter(|_| real);
        filled = filled.replace(&name, id.map_or(INVENTED, String::as_str));
    }
    filled
}

fn role(user: &str) -> Option<Role> {
    match user {
        "olga" | "bob" => Some(Role::Operate),
        "ann" | "beth" | "vera" | "tina" => Some(Role::Admin),
        "rita" => Some(Role::Read),
        _ => None,
    }
}

fn check_access(testbed: &Testbed, endpoint: &Endpoint, user: &str) -> Result<()> {
    let is_change = endpoint.method != "GET";
    let has_id = endpoint.path.contains('{');
    let invented = filled(testbed, &endpoint.path, false);
    if user.is_empty() {
        let answer = send(
            testbed,
            endpoint,
            user,
            &filled(testbed, &endpoint.path, true),
        )?;
        let fine = answer.status == 401 || OPEN.contains(&endpoint.path.as_str());
        ensure!(fine, "nobody gets {}: {}", answer.status, answer.text());
        return Ok(());
    }
    let may = match (role(user), endpoint.needs) {
        (Some(role), RequiredRole::Role(least)) => role >= least,
        (_, RequiredRole::Operator) => user == "root",
        (None, RequiredRole::Role(_)) => true,
    };
    if !may {
        let answer = send(
            testbed,
            endpoint,
            user,
            &filled(testbed, &endpoint.path, true),
        )?;
        ensure!(
            answer.status == 403,
            "{user} gets {}: {}",
            answer.status,
            answer.text()
        );
        return Ok(());
    }
    if is_change && !has_id {
        // Other classes cover allowed creations.
        return Ok(());
    }
    let unknown = send(testbed, endpoint, user, &invented)?;
    if has_id && is_change && unknown.is_success() {
        bail!(
            "a change of a missing resource is {}: {}",
            unknown.status,
            unknown.text()
        );
    }
    let is_stranger = matches!(user, "bob" | "beth" | "vera" | "tina");
    if has_id && is_stranger {
        let path = filled(testbed, &endpoint.path, true);
        let foreign = send(testbed, endpoint, user, &path)?;
        let (foreign, unknown) = (normalized(testbed, &foreign), normalized(testbed, &unknown));
        ensure!(
            foreign == unknown,
            "a foreign resource differs from a missing one: {foreign:?}, {unknown:?}"
        );
    }
    Ok(())
}

/// Status and body, without the ids of the request.
fn normalized(testbed: &Testbed, answer: &Response) -> (u16, String) {
    let mut body = answer.json();
    if let Some(members) = body.as_object_mut() {
        members.remove("traceId");
        members.remove("instance");
    }
    let mut text = if body.is_null() {
        answer.text()
    } else {
        body.to_string()
    };
    for id in testbed.fixture.ids.values() {
        text = text.replace(id.as_str(), INVENTED);
    }
    (answer.status, text)
}

/// Sends hostile texts in place of ids.
fn send_hostile_ids(testbed: &mut Testbed, endpoint: &Endpoint, rng: &mut SeededRng) -> Result<()> {
    for _ in 0..TEXTS {
        let text: String = payloads::text(rng).chars().take(2000).collect();
        let mut path = endpoint.path.clone();
        while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
            path.replace_range(from..=to, &payloads::encoded(&text));
        }
        if path == endpoint.path {
            path = format!("{path}/{}", payloads::encoded(&text));
        }
        let answer = send(testbed, endpoint, "rita", &path)?;
        let is_change = endpoint.method != "GET" && answer.is_success();
        ensure!(!is_change, "a reader changes something: {}", answer.status);
    }
    Ok(())
}

/// Hostile queries of every list.
pub(crate) fn queries(most: usize, rng: &mut SeededRng) -> Result<Vec<Case>> {
    let list_endpoints: Vec<_> = endpoints()?
        .into_iter()
        .filter(|endpoint| {
            endpoint.method == "GET" && !matches!(endpoint.needs, RequiredRole::Operator)
        })
        .filter(|endpoint| endpoint.path.matches('/').count() > 1)
        .collect();
    let mut all = Vec::new();
    for _ in 0..(most / 10).max(40) {
        let endpoint = rng.pick(&list_endpoints).clone();
        let query = payloads::query(rng);
        let short: String = query.chars().take(60).collect();
        let what = format!("GET {}?{short}", endpoint.path);
        all.push(Case::new("query", what, move |testbed, _| {
            let path = format!("{}?{query}", filled(testbed, &endpoint.path, true));
            let path = path.replace("wait_seconds", "wait");
            testbed.clients.send("ann", ("GET", &path), None)?;
            Ok(())
        }));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::endpoints;
    use crate::catalogue::Document;
    use std::collections::BTreeSet;

    #[test]
    fn every_documented_route_is_attacked() {
        let described = Document::read().unwrap().requests();
        let described: BTreeSet<_> = described
            .into_iter()
            .map(|one| format!("{} {}", one.method, one.path))
            .collect();
        let attacked = endpoints().unwrap();
        let attacked: BTreeSet<_> = attacked
            .iter()
            .map(|endpoint| format!("{} {}", endpoint.method, endpoint.path))
            .collect();
        let missing: Vec<_> = described.difference(&attacked).collect();
        assert!(missing.is_empty(), "nobody knocks at {missing:?}");
        let older = |one: &&String| one.contains("/vnflcm/v1/") && !one.ends_with("/api_versions");
        let current = |one: &String| one.replace("/vnflcm/v1/", "/vnflcm/v2/");
        let unknown: Vec<_> = attacked
            .iter()
            .filter(|one| !older(one) && !described.contains(&current(one)))
            .collect();
        assert!(unknown.is_empty(), "the document does not know {unknown:?}");
    }
}
