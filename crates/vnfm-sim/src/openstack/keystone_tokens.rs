//! Tokens as Keystone shows them: user, roles, project and catalog.

use serde_json::{Value, json};
use uuid::Uuid;

use super::state::{State, Token, User};

pub(super) fn roles(admin: bool) -> Value {
    let names: &[&str] = if admin {
        &["admin", "member", "reader"]
    } else {
        &[
            "member",
            "reader",
            "heat_stack_owner",
            "creator",
            "load-balancer_member",
        ]
    };
    names
        .iter()
        .map(|name| json!({ "id": name, "name": name }))
        .collect()
}

fn stamp(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

pub(super) fn show_token(state: &State, user: &User, token: &Token) -> Value {
    let domain = json!({ "id": "default", "name": "Default" });
    let method = if token.by_credential {
        "application_credential"
    } else {
        "password"
    };
    let mut token_body = json!({ "methods": [method], "user": { "id": user.id, "name": user.name, "domain": domain, "password_expires_at": null },
        "audit_ids": [Uuid::new_v4().simple().to_string()], "expires_at": stamp(token.expires), "issued_at": stamp(token.issued) });
    if token.scoped {
        let name = state
            .projects
            .iter()
            .find(|(_, id)| **id == user.project)
            .map(|(name, _)| name.as_str());
        token_body["project"] = json!({ "id": user.project, "name": name, "domain": domain });
        token_body["roles"] = roles(user.admin);
        token_body["is_domain"] = json!(false);
        token_body["catalog"] = catalog(state, user);
    }
    json!({ "token": token_body })
}

pub(super) fn catalog(state: &State, user: &User) -> Value {
    let mut services: Vec<Value> = Vec::new();
    for endpoint in &state.endpoints {
        let url = endpoint
            .url
            .replace("%(tenant_id)s", &user.project)
            .replace("%(project_id)s", &user.project);
        let entry = json!({ "id": endpoint.id, "interface": endpoint.interface, "region": "RegionOne", "region_id": "RegionOne", "url": url });
        match services.iter_mut().find(|s| s["type"] == endpoint.service).and_then(|s| s["endpoints"].as_array_mut()) {
            Some(list) => list.push(entry),
            None => services.push(json!({ "id": endpoint.service, "type": endpoint.service, "name": endpoint.name, "endpoints": [entry] })),
        }
    }
    Value::Array(services)
}
