//! Heat's API below a stack: resources, events, outputs, template.

use http::Method;
use serde_json::{Value, json};

use super::heat::{Answer, Heat, error};
use super::records::{Resource, Stack};
use super::scope;
use super::state::{State, text};
use super::template::document;
use crate::http::{Reply, Request, Route};

impl Heat {
    /// The routes below a stack.
    pub(super) fn part_routes<'a>(
        &'a self,
        request: &'a Request,
        project: &str,
        rest: &[&str],
    ) -> Option<Route<'a>> {
        let project = project.to_owned();
        let ["stacks", one, two, rest @ ..] = rest else {
            return None;
        };
        let (one, two) = ((*one).to_owned(), (*two).to_owned());
        let subject = format!("{one}/{two}");
        let route = match (&request.method, rest) {
            (&Method::GET, ["resources"]) => Route::new("heat.resource_list", subject, move || {
                let id = self.find(request, &project, (&one, &two))?;
                let state = self.0.state();
                let depth = request
                    .param("nested_depth")
                    .and_then(|d| d.parse().ok())
                    .unwrap_or(0);
                Ok(Reply::json(
                    200,
                    &json!({ "resources": self.resources(&state, &id, depth) }),
                ))
            }),
            (&Method::GET, ["resources", resource]) => {
                let resource = (*resource).to_owned();
                Route::new(
                    "heat.resource_show",
                    format!("{subject}/{resource}"),
                    move || self.resource(request, &project, (&one, &two, &resource)),
                )
            }
            (&Method::PATCH, ["resources", resource]) => {
                let resource = (*resource).to_owned();
                Route::new(
                    "heat.resource_mark",
                    format!("{subject}/{resource}"),
                    move || self.mark(request, &project, (&one, &two, &resource)),
                )
            }
            (&Method::GET, ["events"]) => Route::new("heat.event_list", subject, move || {
                self.events(request, &project, (&one, &two))
            }),
            (&Method::GET, [part @ ("template" | "environment" | "files" | "outputs")]) => {
                let part = (*part).to_owned();
                Route::new(format!("heat.stack_{part}"), subject, move || {
                    self.part(request, &project, (&one, &two, &part))
                })
            }
            (&Method::GET, ["outputs", key]) => {
                let key = (*key).to_owned();
                Route::new("heat.output_show", format!("{subject}/{key}"), move || {
                    self.output(request, &project, (&one, &two, &key))
                })
            }
            _ => return None,
        };
        Some(route)
    }

    fn resources(&self, state: &State, id: &str, depth: u32) -> Vec<Value> {
        let Some(stack) = state.stacks.get(id) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for (name, resource) in &stack.resources {
            all.push(self.resource_body(state, stack, (name, resource)));
            if resource.nested && depth > 0 {
                all.extend(self.resources(state, &resource.physical, depth - 1));
            }
        }
        all
    }

    fn resource_body(
        &self,
        state: &State,
        stack: &Stack,
        (name, resource): (&str, &Resource),
    ) -> Value {
        let href = self.href(&stack.project, &stack.name, &stack.id);
        let mut links = vec![
            json!({ "href": format!("{href}/resources/{name}"), "rel": "self" }),
            json!({ "href": href, "rel": "stack" }),
        ];
        if resource.nested && !resource.physical.is_empty() {
            let nested = state
                .stacks
                .get(&resource.physical)
                .map_or(name, |nested| nested.name.as_str());
            links.push(json!({ "href": self.href(&stack.project, nested, &resource.physical), "rel": "nested" }));
        }
        let required_by: Vec<&String> = stack
            .resources
            .iter()
            .filter(|(_, r)| r.requires.contains(name))
            .map(|(n, _)| n)
            .collect();
        let mut body = json!({ "resource_name": name, "logical_resource_id": name, "resource_type": resource.kind,
            "physical_resource_id": resource.physical, "resource_status": resource.status,
            "resource_status_reason": resource.reason, "creation_time": resource.created,
            "updated_time": resource.updated, "required_by": required_by, "links": links });
        if let Some((_, parent)) = &stack.parent {
            body["parent_resource"] = json!(parent);
        }
        body
    }

    fn resource(
        &self,
        request: &Request,
        project: &str,
        (one, two, name): (&str, &str, &str),
    ) -> Answer {
        let id = self.find(request, project, (one, two))?;
        let state = self.0.state();
        let stack = &state.stacks[&id];
        let resource = stack
            .resources
            .get(name)
            .ok_or_else(|| no_resource(name, one))?;
        let mut body = self.resource_body(&state, stack, (name, resource));
        body["attributes"] = scope::attributes(&state, resource);
        body["description"] = json!("");
        Ok(Reply::json(200, &json!({ "resource": body })))
    }

    fn mark(
        &self,
        request: &Request,
        project: &str,
        (one, two, name): (&str, &str, &str),
    ) -> Answer {
        let id = self.find(request, project, (one, two))?;
        let body = request.json();
        let mut state = self.0.state();
        let resource = state
            .stacks
            .get_mut(&id)
            .and_then(|s| s.resources.get_mut(name))
            .ok_or_else(|| no_resource(name, one))?;
        if body["mark_unhealthy"] == true {
            resource.status = "CHECK_FAILED".into();
            text(&body, "resource_status_reason").clone_into(&mut resource.reason);
        } else {
            resource.status = "CHECK_COMPLETE".into();
        }
        Ok(Reply::json(200, &Value::Null))
    }

    fn events(&self, request: &Request, project: &str, at: (&str, &str)) -> Answer {
        let id = self.find(request, project, at)?;
        let state = self.0.state();
        let nested = request.param("nested_depth").is_some_and(|d| d != "0");
        let mut events: Vec<Value> = Vec::new();
        for stack in state.stacks.values() {
            if stack.id == id || (nested && root_of(&state, &stack.id) == id) {
                events.extend(stack.events.iter().cloned());
            }
        }
        events.sort_by_key(|event| event["n"].as_u64());
        if request.param("sort_dir") == Some("desc") {
            events.reverse();
        }
        events.truncate(
            request
                .param("limit")
                .and_then(|l| l.parse().ok())
                .unwrap_or(usize::MAX),
        );
        events
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .for_each(|event| _ = event.remove("n"));
        Ok(Reply::json(200, &json!({ "events": events })))
    }

    fn part(
        &self,
        request: &Request,
        project: &str,
        (one, two, part): (&str, &str, &str),
    ) -> Answer {
        let id = self.find(request, project, (one, two))?;
        let state = self.0.state();
        let stack = &state.stacks[&id];
        let body = match part {
            "template" => document(&stack.template).unwrap_or_default(),
            "files" => Value::Object(stack.environment.files.clone()),
            "environment" => {
                json!({ "parameters": scope::visible_parameters(stack), "resource_registry": stack.environment.registry })
            }
            _ => {
                let outputs = scope::outputs(&state, stack);
                let keys = outputs.iter().map(
                    |o| json!({ "output_key": o["output_key"], "description": o["description"] }),
                );
                json!({ "outputs": keys.collect::<Vec<_>>() })
            }
        };
        Ok(Reply::json(200, &body))
    }

    fn output(
        &self,
        request: &Request,
        project: &str,
        (one, two, key): (&str, &str, &str),
    ) -> Answer {
        let id = self.find(request, project, (one, two))?;
        let state = self.0.state();
        let output = scope::outputs(&state, &state.stacks[&id])
            .into_iter()
            .find(|o| o["output_key"] == key);
        let output = output.ok_or_else(|| {
            error(
                404,
                "NotFound",
                &format!("Specified output key {key} not found."),
            )
        })?;
        Ok(Reply::json(200, &json!({ "output": output })))
    }
}

/// The id of the root of a nested stack.
fn root_of(state: &State, id: &str) -> String {
    let mut at = id.to_owned();
    while let Some((parent, _)) = state.stacks.get(&at).and_then(|s| s.parent.clone()) {
        at = parent;
    }
    at
}

fn no_resource(name: &str, stack: &str) -> Reply {
    error(
        404,
        "ResourceNotFound",
        &format!("The Resource ({name}) could not be found in Stack {stack}."),
    )
}
