//! Every route × every role of two tenants and nobody × real and invented ids: what is not one's own is as if it were
//! not there, what one may not do is refused, and nothing that one can put into a path or a query is an error of the
//! server. The routes are those of the server's own table.

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use vnfm_server::access::Role;
use vnfm_server::access::roles::{NEEDS, Needs};
use vnfm_tests::rng::Dice;

use crate::cases::Case;
use crate::catalogue::Document;
use crate::payloads;
use crate::testbed::Ground;
use crate::http::{Answer, JSON, PATCH, USERS};

/// An id that nothing has.
const INVENTED: &str = "00000000-0000-4000-8000-00000000dead";
/// Texts in the place of an id, for each route.
const TEXTS: usize = 6;
/// What anybody is told.
const OPEN: &[&str] = &["/healthz", "/readyz"];

/// One method at one path.
#[derive(Debug, Clone)]
struct Door {
    method: String,
    path: String,
    needs: Needs,
    body: Value,
}

fn doors() -> Result<Vec<Door>> {
    let described = Document::read()?.requests();
    let mut all = Vec::new();
    for (path, methods) in NEEDS {
        for (method, needs) in *methods {
            let method = method.to_uppercase();
            let same = described
                .iter()
                .find(|one| one.method == method && one.path == *path);
            let body = same.map_or(Value::Null, |one| one.body.clone());
            let path = (*path).to_owned();
            if path.starts_with("/vnflcm/v2/") {
                let older = path.replace("/v2/", "/v1/");
                let body = body.clone();
                all.push(Door {
                    method: method.clone(),
                    path: older,
                    needs: *needs,
                    body,
                });
            }
            all.push(Door {
                method,
                path,
                needs: *needs,
                body,
            });
        }
    }
    ensure!(
        all.len() > 60,
        "only {} routes: the server's table is not read",
        all.len()
    );
    Ok(all)
}

/// Each route × each user.
pub(crate) fn cases() -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for door in doors()? {
        for user in USERS.iter().map(|(name, _)| *name).chain([""]) {
            let door = door.clone();
            let who = if user.is_empty() { "nobody" } else { user };
            let what = format!("{} {} as {who}", door.method, door.path);
            all.push(Case::new("door", what, move |ground, _| {
                knock(ground, &door, user)
            }));
        }
        let what = format!("{} {} with hostile ids", door.method, door.path);
        all.push(Case::new("door", what, move |ground, dice| {
            odd(ground, &door, dice)
        }));
    }
    Ok(all)
}

fn send(ground: &Ground, door: &Door, user: &str, path: &str) -> Result<Answer> {
    let kind = if door.method == "PATCH" { PATCH } else { JSON };
    let body = door.body.to_string();
    let body = (door.method != "GET" && !door.body.is_null()).then_some((kind, body.as_bytes()));
    ground.clients.send(user, (&door.method, path), body)
}

/// The path with ids of `acme`, or with one that nothing has.
fn filled(ground: &Ground, path: &str, real: bool) -> String {
    let mut filled = path.replace("{artifactPath}", "Definitions/vnfd.yaml");
    while let (Some(from), Some(to)) = (filled.find('{'), filled.find('}')) {
        let name = filled[from..=to].to_owned();
        let id = ground.fixture.ids.get(&name).filter(|_| real);
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

fn knock(ground: &Ground, door: &Door, user: &str) -> Result<()> {
    let is_change = door.method != "GET";
    let has_id = door.path.contains('{');
    let invented = filled(ground, &door.path, false);
    if user.is_empty() {
        let answer = send(ground, door, user, &filled(ground, &door.path, true))?;
        let fine = answer.status == 401 || OPEN.contains(&door.path.as_str());
        ensure!(fine, "nobody gets {}: {}", answer.status, answer.text());
        return Ok(());
    }
    let may = match (role(user), door.needs) {
        (Some(role), Needs::Role(least)) => role >= least,
        (_, Needs::Operator) => user == "root",
        (None, Needs::Role(_)) => true,
    };
    if !may {
        let answer = send(ground, door, user, &filled(ground, &door.path, true))?;
        ensure!(
            answer.status == 403,
            "{user} gets {}: {}",
            answer.status,
            answer.text()
        );
        return Ok(());
    }
    if is_change && !has_id {
        // What somebody may make, the other classes make.
        return Ok(());
    }
    let unknown = send(ground, door, user, &invented)?;
    if has_id && is_change && unknown.is_success() {
        bail!(
            "a change of what is not there is {}: {}",
            unknown.status,
            unknown.text()
        );
    }
    let is_stranger = matches!(user, "bob" | "beth" | "vera" | "tina");
    if has_id && is_stranger {
        let path = filled(ground, &door.path, true);
        let foreign = send(ground, door, user, &path)?;
        let (foreign, unknown) = (plain(ground, &foreign), plain(ground, &unknown));
        ensure!(
            foreign == unknown,
            "what another tenant has is told apart from nothing: {foreign:?}, {unknown:?}"
        );
    }
    Ok(())
}

/// An answer without the ids that the request named.
fn plain(ground: &Ground, answer: &Answer) -> (u16, String) {
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
    for id in ground.fixture.ids.values() {
        text = text.replace(id.as_str(), INVENTED);
    }
    (answer.status, text)
}

/// Hostile texts where an id stands.
fn odd(ground: &mut Ground, door: &Door, dice: &mut Dice) -> Result<()> {
    for _ in 0..TEXTS {
        let text: String = payloads::text(dice).chars().take(2000).collect();
        let mut path = door.path.clone();
        while let (Some(from), Some(to)) = (path.find('{'), path.find('}')) {
            path.replace_range(from..=to, &payloads::encoded(&text));
        }
        if path == door.path {
            path = format!("{path}/{}", payloads::encoded(&text));
        }
        let answer = send(ground, door, "rita", &path)?;
        let is_change = door.method != "GET" && answer.is_success();
        ensure!(!is_change, "a reader changes something: {}", answer.status);
    }
    Ok(())
}

/// Queries of every list.
pub(crate) fn queries(most: usize, dice: &mut Dice) -> Result<Vec<Case>> {
    let lists: Vec<_> = doors()?
        .into_iter()
        .filter(|door| door.method == "GET" && !matches!(door.needs, Needs::Operator))
        .filter(|door| door.path.matches('/').count() > 1)
        .collect();
    let mut all = Vec::new();
    for _ in 0..(most / 10).max(40) {
        let door = dice.pick(&lists).clone();
        let query = payloads::query(dice);
        let shown: String = query.chars().take(60).collect();
        let what = format!("GET {}?{shown}", door.path);
        all.push(Case::new("query", what, move |ground, _| {
            let path = format!("{}?{query}", filled(ground, &door.path, true));
            let path = path.replace("wait_seconds", "wait");
            ground.clients.send("ann", ("GET", &path), None)?;
            Ok(())
        }));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::doors;
    use crate::catalogue::Document;
    use std::collections::BTreeSet;

    #[test]
    fn every_documented_route_is_attacked() {
        let described = Document::read().unwrap().requests();
        let described: BTreeSet<_> = described
            .into_iter()
            .map(|one| format!("{} {}", one.method, one.path))
            .collect();
        let attacked = doors().unwrap();
        let attacked: BTreeSet<_> = attacked
            .iter()
            .map(|door| format!("{} {}", door.method, door.path))
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
