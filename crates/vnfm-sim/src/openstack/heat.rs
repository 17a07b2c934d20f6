//! Heat's stack API: create, list, show, update, delete, actions.
//!
//! Validation is synchronous; the engine (`engine.rs`) does everything else while the API
//! reports its progress. Heat's quirks are reproduced because drivers meet them: a stack by name is a 302,
//! filtering by both `name` and `tags` is a 500, a PATCH that does not repeat the tags removes them.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Cloud;
use super::action::Action;
use super::preview::check;
use super::records::Stack;
use super::scope;
use super::stack_requests::{environment, is_stack_name, merged, tags};
use super::state::{new_id, text};
use super::template::{TemplateError, document};
use crate::http::{Reply, Request, Route, Service};
use crate::time::now;

pub(crate) struct Heat(pub(crate) Arc<Cloud>);

pub(super) type Answer = Result<Reply, Reply>;

impl Service for Heat {
    fn name(&self) -> &'static str {
        "heat"
    }

    fn failure(&self, status: u16) -> Reply {
        error(
            status,
            "Error",
            "The service is temporarily unable to answer",
        )
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        if segments.is_empty() {
            return Some(Route::new("heat.versions", "", || Ok(versions())));
        }
        let ["v1", project, rest @ ..] = segments.as_slice() else {
            return None;
        };
        let project = (*project).to_owned();
        self.stacks(request, &project, rest)
            .or_else(|| self.part_routes(request, &project, rest))
    }
}

impl Heat {
    /// The routes of stacks; those of their parts are in `stacks.rs`.
    fn stacks<'a>(
        &'a self,
        request: &'a Request,
        project: &str,
        rest: &[&str],
    ) -> Option<Route<'a>> {
        let project = project.to_owned();
        let name = |n: usize| rest.get(n).map(|s| (*s).to_owned()).unwrap_or_default();
        let (one, two) = (name(1), name(2));
        let subject = if two.is_empty() {
            one.clone()
        } else {
            format!("{one}/{two}")
        };
        let route = match (&request.method, rest) {
            (&Method::POST, ["stacks"]) => {
                let subject = text(&request.json(), "stack_name").to_owned();
                Route::new("heat.stack_create", subject, move || {
                    self.create(request, &project)
                })
            }
            (&Method::GET, ["stacks"]) => {
                Route::new("heat.stack_list", "", move || self.list(request, &project))
            }
            (&Method::POST, ["validate"]) => Route::new("heat.validate", "", move || {
                self.validate(request, &project)
            }),
            (&Method::POST, ["stacks", "preview"]) => {
                Route::new("heat.stack_preview", "", move || self.preview(request))
            }
            (&Method::GET, ["resource_types", kind]) => {
                let kind = (*kind).to_owned();
                Route::new("heat.resource_type", kind.clone(), move || {
                    self.resource_type(request, &kind)
                })
            }
            (&Method::GET, ["stacks", _]) => Route::new("heat.stack_find", subject, move || {
                self.redirect(request, &project, &one)
            }),
            (&Method::DELETE, ["stacks", _]) => {
                Route::new("heat.stack_delete", subject, move || {
                    self.delete(request, &project, (&one, ""))
                })
            }
            (&Method::GET, ["stacks", _, _]) => Route::new("heat.stack_show", subject, move || {
                self.show(request, &project, (&one, &two))
            }),
            (&Method::PUT | &Method::PATCH, ["stacks", _, _]) => {
                Route::new("heat.stack_update", subject, move || {
                    self.update(request, &project, (&one, &two))
                })
            }
            (&Method::DELETE, ["stacks", _, _]) => {
                Route::new("heat.stack_delete", subject, move || {
                    self.delete(request, &project, (&one, &two))
                })
            }
            (&Method::POST, ["stacks", _, _, "actions"]) => {
                Route::new("heat.stack_action", subject, move || {
                    self.act(request, &project, (&one, &two))
                })
            }
            _ => return None,
        };
        Some(route)
    }

    fn create(&self, request: &Request, project: &str) -> Answer {
        let who = self.0.authenticate(request)?;
        let body = request.json();
        let name = text(&body, "stack_name");
        if !is_stack_name(name) {
            let message = format!(
                "Invalid stack name {name} must contain only alphanumeric or \"_-.\" characters, must start with alpha and must be 255 characters or less."
            );
            return Err(error(400, "StackValidationFailed", &message));
        }
        if body.get("template").is_none_or(Value::is_null) {
            return Err(error(400, "HTTPBadRequest", "No template specified"));
        }
        let mut state = self.0.state();
        let exists = |s: &Stack| {
            s.parent.is_none()
                && s.name == name
                && s.project == project
                && s.status != "DELETE_COMPLETE"
        };
        if state.stacks.values().any(exists) {
            return Err(error(
                409,
                "StackExists",
                &format!("The Stack ({name}) already exists."),
            ));
        }
        let (around, parameters) = environment(&body)?;
        check(&state, &body["template"], &parameters, &around)
            .map_err(|wrong| self.refuse(&wrong))?;
        if who.by_credential {
            return Err(error(500, "RemoteError", REFUSES_CREDENTIALS));
        }
        let id = new_id();
        let stack = Stack {
            id: id.clone(),
            name: name.to_owned(),
            template: document(&body["template"]).unwrap_or_default(),
            environment: around,
            parameters,
            tags: tags(&body),
            rollback: body.get("disable_rollback").and_then(Value::as_bool) == Some(false),
            timeout_mins: body.get("timeout_mins").cloned().unwrap_or_default(),
            project: project.to_owned(),
            user: who.user.clone(),
            created: now(),
            ..Stack::default()
        };
        state.stacks.insert(id.clone(), stack);
        drop(state);
        self.0.start(&id, Action::Create);
        let href = self.href(project, name, &id);
        Ok(Reply::json(
            201,
            &json!({ "stack": { "id": id, "links": [{ "href": href, "rel": "self" }] } }),
        )
        .with_header("location", href))
    }

    fn list(&self, request: &Request, project: &str) -> Answer {
        self.0.authenticate(request)?;
        if request.param("name").is_some() && request.param("tags").is_some() {
            return Err(error(
                500,
                "RemoteError",
                "Remote error: InvalidRequestError Can't determine which FROM clause to join from, there are multiple FROMS which can join to this entity.",
            ));
        }
        let param_values = |name: &str| {
            request
                .query
                .iter()
                .filter(|(k, _)| k == name)
                .map(|(_, v)| v.clone())
                .collect::<Vec<_>>()
        };
        let (names, ids, statuses) = (
            param_values("name"),
            param_values("id"),
            param_values("status"),
        );
        let wanted: Vec<String> = param_values("tags")
            .iter()
            .flat_map(|t| t.split(','))
            .map(str::to_owned)
            .collect();
        let with_deleted = request
            .param("show_deleted")
            .is_some_and(|v| v.eq_ignore_ascii_case("true"));
        let limit = request
            .param("limit")
            .and_then(|l| l.parse().ok())
            .unwrap_or(usize::MAX);
        let any =
            |list: &[String], value: &str| list.is_empty() || list.iter().any(|item| item == value);
        let state = self.0.state();
        let mut stacks: Vec<&Stack> = (state.stacks.values())
            .filter(|s| {
                s.parent.is_none()
                    && s.project == project
                    && (with_deleted || s.status != "DELETE_COMPLETE")
            })
            .filter(|s| any(&names, &s.name) && any(&ids, &s.id) && any(&statuses, &s.status))
            .filter(|s| wanted.iter().all(|tag| s.tags.contains(tag)))
            .collect();
        stacks.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        if let Some(marker) = request.param("marker") {
            let after = stacks
                .iter()
                .position(|s| s.id == marker)
                .map_or(0, |n| n + 1);
            stacks.drain(..after);
        }
        let summaries: Vec<Value> = stacks
            .into_iter()
            .take(limit)
            .map(|s| self.summary(s))
            .collect();
        Ok(Reply::json(200, &json!({ "stacks": summaries })))
    }

    fn validate(&self, request: &Request, _project: &str) -> Answer {
        self.0.authenticate(request)?;
        let body = request.json();
        let (around, parameters) = environment(&body)?;
        check(&self.0.state(), &body["template"], &parameters, &around)
            .map_err(|wrong| self.refuse(&wrong))?;
        let template = document(&body["template"]).unwrap_or_default();
        Ok(Reply::json(
            200,
            &json!({ "Description": template["description"], "Parameters": template["parameters"] }),
        ))
    }

    fn redirect(&self, request: &Request, project: &str, name: &str) -> Answer {
        let id = self.find(request, project, (name, ""))?;
        let name = self
            .0
            .state()
            .stacks
            .get(&id)
            .map(|s| s.name.clone())
            .unwrap_or_default();
        let href = self.href(project, &name, &id);
        let body = json!({ "message": format!("The resource was found at <a href=\"{href}\">{href}</a>;<br />\nyou should be redirected automatically.\n\n"), "code": "302 Found", "title": "Found" });
        Ok(Reply::json(302, &body).with_header("location", href))
    }

    fn show(&self, request: &Request, project: &str, at: (&str, &str)) -> Answer {
        let id = self.find(request, project, at)?;
        let state = self.0.state();
        let stack = &state.stacks[&id];
        let mut body = self.summary(stack);
        let mut parameters = scope::visible_parameters(stack);
        parameters.insert("OS::stack_id".into(), json!(stack.id));
        parameters.insert("OS::stack_name".into(), json!(stack.name));
        parameters.insert("OS::project_id".into(), json!(stack.project));
        body["parameters"] = Value::Object(parameters);
        body["outputs"] = scope::outputs(&state, stack).into();
        body["disable_rollback"] = json!(!stack.rollback);
        body["timeout_mins"] = stack.timeout_mins.clone();
        body["capabilities"] = json!([]);
        body["notification_topics"] = json!([]);
        body["template_description"] = json!(
            document(&stack.template)
                .ok()
                .and_then(|t| t["description"].as_str().map(str::to_owned))
                .unwrap_or_else(|| "No description".into())
        );
        Ok(Reply::json(200, &json!({ "stack": body })))
    }

    fn update(&self, request: &Request, project: &str, at: (&str, &str)) -> Answer {
        let who = self.0.authenticate(request)?;
        let id = self.find(request, project, at)?;
        let body = request.json();
        let patch = request.method == Method::PATCH;
        if !patch && body.get("template").is_none_or(Value::is_null) {
            return Err(error(400, "HTTPBadRequest", "No template specified"));
        }
        let (mut around, mut parameters) = environment(&body)?;
        let mut state = self.0.state();
        let mut stack = state
            .stacks
            .get(&id)
            .cloned()
            .ok_or_else(|| not_found(at.0))?;
        if patch {
            around.files = merged(&stack.environment.files, around.files);
            around.registry = merged(&stack.environment.registry, around.registry);
            let declared = |name: &String| {
                document(&stack.template).is_ok_and(|t| !t["parameters"][name].is_null())
            };
            parameters.retain(|name, _| declared(name));
            parameters = merged(&stack.parameters, parameters);
        }
        if let Some(template) = body.get("template").filter(|t| !t.is_null()) {
            stack.template = document(template).map_err(|why| {
                error(
                    400,
                    "StackValidationFailed",
                    &format!("Template format error: {why}"),
                )
            })?;
        }
        check(&state, &stack.template, &parameters, &around)
            .map_err(|wrong| self.refuse(&wrong))?;
        if who.by_credential {
            return Err(error(500, "RemoteError", REFUSES_CREDENTIALS));
        }
        (stack.environment, stack.parameters, stack.tags) = (around, parameters, tags(&body));
        state.stacks.insert(id.clone(), stack);
        drop(state);
        self.0.start(&id, Action::Update);
        Ok(Reply::empty(202))
    }

    fn delete(&self, request: &Request, project: &str, at: (&str, &str)) -> Answer {
        let id = self.find(request, project, at)?;
        if self
            .0
            .state()
            .stacks
            .get(&id)
            .is_some_and(|s| s.status == "DELETE_COMPLETE")
        {
            return Err(not_found(at.0));
        }
        self.0.start(&id, Action::Delete);
        Ok(Reply::empty(204))
    }

    fn act(&self, request: &Request, project: &str, at: (&str, &str)) -> Answer {
        let id = self.find(request, project, at)?;
        let body = request.json();
        let action = body
            .as_object()
            .and_then(|map| map.keys().next())
            .map_or("", String::as_str);
        match action {
            "check" => self.0.start(&id, Action::Check),
            "cancel_without_rollback" => self.0.cancel(&id),
            other => {
                self.0
                    .books
                    .record_violation(format!("heat: the stack action `{other}` is not modelled"));
                return Err(error(
                    501,
                    "NotImplemented",
                    &format!("the stack action `{other}` is not modelled"),
                ));
            }
        }
        Ok(Reply::json(200, &Value::Null))
    }

    /// Authenticates the request and finds a stack by name, id, or both; nested ones by id.
    pub(super) fn find(
        &self,
        request: &Request,
        project: &str,
        (name, id): (&str, &str),
    ) -> Result<String, Reply> {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let fits = |s: &&Stack| {
            if id.is_empty() {
                s.id == name || (s.name == name && s.parent.is_none())
            } else {
                s.id == id && s.name == name
            }
        };
        let mut found: Vec<&Stack> = state
            .stacks
            .values()
            .filter(|s| s.project == project)
            .filter(fits)
            .collect();
        found.sort_by_key(|s| s.status == "DELETE_COMPLETE");
        found
            .first()
            .map(|s| s.id.clone())
            .ok_or_else(|| not_found(name))
    }

    pub(super) fn refuse(&self, wrong: &TemplateError) -> Reply {
        if wrong.message.contains("not modelled by the simulated") {
            self.0
                .books
                .record_violation(format!("heat: {}", wrong.message));
            return error(501, "NotImplemented", &wrong.message);
        }
        error(400, wrong.kind, &wrong.message)
    }

    pub(super) fn href(&self, project: &str, name: &str, id: &str) -> String {
        format!(
            "{}/v1/{project}/stacks/{name}/{id}",
            self.0.address("orchestration")
        )
    }

    fn summary(&self, stack: &Stack) -> Value {
        let href = self.href(&stack.project, &stack.name, &stack.id);
        json!({ "id": stack.id, "stack_name": stack.name, "stack_status": stack.status, "stack_status_reason": stack.reason,
            "creation_time": stack.created, "updated_time": stack.updated, "deletion_time": stack.deleted,
            "description": "", "stack_owner": null, "stack_user_project_id": stack.project, "project": stack.project,
            "parent": stack.parent.as_ref().map(|(id, _)| id), "tags": if stack.tags.is_empty() { Value::Null } else { json!(stack.tags) },
            "links": [{ "href": href, "rel": "self" }] })
    }
}

const REFUSES_CREDENTIALS: &str =
    "Remote error: Forbidden Delegated tokens cannot manage trusts. (HTTP 403)";

fn not_found(name: &str) -> Reply {
    error(
        404,
        "EntityNotFound",
        &format!("The Stack ({name}) could not be found."),
    )
}

fn versions() -> Reply {
    Reply::json(
        300,
        &json!({ "versions": [{ "id": "v1.0", "status": "CURRENT", "links": [{ "rel": "self", "href": "/v1/" }] }] }),
    )
}

/// An error in Heat's format.
pub(crate) fn error(status: u16, kind: &str, message: &str) -> Reply {
    let (title, explanation) = match status {
        400 => (
            "Bad Request",
            "The server could not comply with the request since it is either malformed or otherwise incorrect.",
        ),
        401 => (
            "Unauthorized",
            "This server could not verify that you are authorized to access the document you requested.",
        ),
        404 => ("Not Found", "The resource could not be found."),
        409 => (
            "Conflict",
            "There was a conflict when trying to complete your request.",
        ),
        500 => (
            "Internal Server Error",
            "The server has either erred or is incapable of performing the requested operation.",
        ),
        503 => (
            "Service Unavailable",
            "The server is currently unavailable. Please try again at a later time.",
        ),
        _ => ("Error", "The request was not served."),
    };
    let body = json!({ "code": status, "title": title, "explanation": explanation,
        "error": { "type": kind, "message": message, "traceback": null } });
    Reply::json(status, &body).with_remark(message)
}
