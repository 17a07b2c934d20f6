//! Neutron, read-only: every collection, filtered by any member, and quotas.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Cloud;
use crate::http::{Reply, Request, Route, Service};

pub(crate) struct Neutron(pub(crate) Arc<Cloud>);

const COLLECTIONS: [(&str, &str); 6] = [
    ("networks", "network"),
    ("subnets", "subnet"),
    ("ports", "port"),
    ("security-groups", "security_group"),
    ("routers", "router"),
    ("floatingips", "floatingip"),
];

impl Service for Neutron {
    fn name(&self) -> &'static str {
        "neutron"
    }

    fn failure(&self, status: u16) -> Reply {
        error(
            status,
            "ServiceUnavailable",
            "The service is temporarily unable to answer.",
        )
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let kind = |name: &str| {
            COLLECTIONS
                .iter()
                .find(|(plural, _)| *plural == name)
                .map(|(_, kind)| *kind)
        };
        Some(match (&request.method, segments.as_slice()) {
            (&Method::GET, []) => Route::new("neutron.versions", "", || {
                Ok(Reply::json(
                    200,
                    &json!({ "versions": [{ "id": "v2.0", "status": "CURRENT", "links": [] }] }),
                ))
            }),
            (&Method::GET, ["v2.0", collection]) => {
                let kind = kind(collection)?;
                Route::new(format!("neutron.{kind}_list"), "", move || {
                    self.list(request, kind)
                })
            }
            (&Method::GET, ["v2.0", collection, id]) => {
                let (kind, id) = (kind(collection)?, (*id).to_owned());
                Route::new(format!("neutron.{kind}_show"), id.clone(), move || {
                    self.0.authenticate(request)?;
                    let state = self.0.state();
                    let found = state
                        .object(kind, &id)
                        .ok_or_else(|| not_found(kind, &id))?;
                    Ok(Reply::json(200, &json!({ kind: found })))
                })
            }
            (&Method::PUT, ["v2.0", "quotas", project]) => {
                Route::new("neutron.quota_update", *project, || {
                    self.0.authenticate(request)?;
                    let body = request.json();
                    for (name, value) in body["quota"].as_object().into_iter().flatten() {
                        self.0.set_quota(name, value.as_i64().unwrap_or(-1));
                    }
                    Ok(Reply::json(200, &body))
                })
            }
            _ => return None,
        })
    }
}

impl Neutron {
    fn list(&self, request: &Request, kind: &str) -> Result<Reply, Reply> {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let plural = if kind == "floatingip" {
            "floatingips".to_owned()
        } else {
            format!("{kind}s")
        };
        let found: Vec<&Value> = state
            .all(kind)
            .filter(|body| fits(body, &request.query))
            .collect();
        Ok(Reply::json(200, &json!({ plural: found })))
    }
}

/// Whether a body passes all filters; a repeated filter matches any of its values.
fn fits(body: &Value, query: &[(String, String)]) -> bool {
    let about_the_answer = [
        "fields",
        "limit",
        "marker",
        "sort_key",
        "sort_dir",
        "page_reverse",
    ];
    let as_text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let same = |name: &str, wanted: &str| match name {
        "fixed_ips" => wanted.split_once('=').is_some_and(|(key, value)| {
            body[name]
                .as_array()
                .into_iter()
                .flatten()
                .any(|ip| ip[key] == value)
        }),
        _ => body
            .get(name)
            .is_some_and(|value| as_text(value).eq_ignore_ascii_case(wanted)),
    };
    query
        .iter()
        .filter(|(name, _)| !about_the_answer.contains(&name.as_str()))
        .all(|(name, _)| {
            query
                .iter()
                .filter(|(other, _)| other == name)
                .any(|(_, wanted)| same(name, wanted))
        })
}

fn not_found(kind: &str, id: &str) -> Reply {
    let (kind, title) = match kind {
        "network" => ("NetworkNotFound", "Network"),
        "subnet" => ("SubnetNotFound", "Subnet"),
        "port" => ("PortNotFound", "Port"),
        "security_group" => ("SecurityGroupNotFound", "Security group"),
        "router" => ("RouterNotFound", "Router"),
        _ => ("FloatingIPNotFound", "Floating IP"),
    };
    error(404, kind, &format!("{title} {id} could not be found."))
}

fn error(status: u16, kind: &str, message: &str) -> Reply {
    Reply::json(
        status,
        &json!({ "NeutronError": { "type": kind, "message": message, "detail": "" } }),
    )
    .with_remark(message)
}
