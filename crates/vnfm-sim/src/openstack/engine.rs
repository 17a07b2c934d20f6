//! Heat's engine: makes a stack what its template says.
//!
//! ```text
//! start ─► converge ─► realize every resource, level by level (a nested stack converges in turn)
//!              │           └► Nova: BUILD ─► ACTIVE ─► a host boots behind the server's address
//!              └─► prune what the template no longer has ─► *_COMPLETE | *_FAILED (| ROLLBACK_COMPLETE)
//! ```
//! A newer request for the same stack supersedes the running one at its next step, as Heat's
//! convergence does. With no delays set nothing waits: a stack of three servers is complete at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Cloud;
use super::functions::{Scope, evaluate, walk};
use super::heat::{Resource, Stack};
use super::resources::{self, Order};
use super::state::{State, new_id, text};
use super::template::{Definition, Surroundings, Template};
use crate::faults::Fault;
use crate::time::{now, pause};

/// What was asked of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Update,
    Delete,
    Check,
}

impl Action {
    fn verb(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Check => "CHECK",
        }
    }
}

/// One request being worked on.
#[derive(Clone)]
struct Run {
    root: String,
    generation: u64,
    verb: &'static str,
}

/// Why a resource failed, as Heat tells it.
#[derive(Debug, Clone)]
struct Failure {
    kind: String,
    path: String,
    message: String,
}

impl Failure {
    fn of(name: &str, (kind, message): (String, String)) -> Self {
        Self { kind, path: name.to_owned(), message }
    }

    fn within(self, name: &str) -> Self {
        Self { path: format!("{name}.resources.{}", self.path), ..self }
    }

    fn reason(&self) -> String {
        format!("{}: resources.{}: {}", self.kind, self.path, self.message)
    }
}

/// What a resource must be.
struct Wanted {
    kind: String,
    properties: Map<String, Value>,
    requires: BTreeSet<String>,
    nested: Option<(Value, Map<String, Value>)>,
}

impl Cloud {
    /// Begins with what was asked of a stack; an older request stops.
    pub(crate) fn start(self: &Arc<Self>, id: &str, action: Action) {
        let run = {
            let mut state = self.state();
            let Some(stack) = state.stacks.get_mut(id) else { return };
            stack.generation += 1;
            let generation = stack.generation;
            set_stack(
                &mut state,
                id,
                action.verb(),
                "IN_PROGRESS",
                &format!("Stack {} started", action.verb()),
            );
            Run { root: id.to_owned(), generation, verb: action.verb() }
        };
        self.superseded.send_modify(|count| *count += 1);
        let cloud = Arc::clone(self);
        tokio::spawn(async move { cloud.work(run, action).await });
    }

    /// Stops what is being done to a stack.
    pub(crate) fn cancel(&self, id: &str) {
        let mut state = self.state();
        let Some(stack) = state.stacks.get_mut(id).filter(|s| s.status == "UPDATE_IN_PROGRESS")
        else {
            return;
        };
        stack.generation += 1;
        set_stack(&mut state, id, "UPDATE", "FAILED", "Stack UPDATE cancelled");
        drop(state);
        self.superseded.send_modify(|count| *count += 1);
    }

    async fn work(self: Arc<Self>, run: Run, action: Action) {
        let turn = self.turn(&run.root);
        let _turn = turn.lock().await;
        if self.is_superseded(&run) {
            return;
        }
        let ended = match action {
            Action::Create | Action::Update => self.converge(&run, run.root.clone()).await,
            Action::Delete => self.dismantle(&run, run.root.clone()).await,
            Action::Check => self.verify(&run.root),
        };
        if self.is_superseded(&run) {
            return;
        }
        let failure = match ended {
            Ok(()) => return self.complete(&run, action),
            Err(failure) => failure,
        };
        let rollback = {
            let mut state = self.state();
            let reason = format!("Resource {} failed: {}", run.verb, failure.reason());
            set_stack(&mut state, &run.root, run.verb, "FAILED", &reason);
            let rollback =
                action == Action::Create && state.stacks.get(&run.root).is_some_and(|s| s.rollback);
            if rollback {
                set_stack(&mut state, &run.root, "ROLLBACK", "IN_PROGRESS", &reason);
            }
            rollback
        };
        if rollback
            && self.dismantle(&run, run.root.clone()).await.is_ok()
            && !self.is_superseded(&run)
        {
            set_stack(
                &mut self.state(),
                &run.root,
                "ROLLBACK",
                "COMPLETE",
                "Stack ROLLBACK completed successfully",
            );
        }
    }

    fn complete(&self, run: &Run, action: Action) {
        let mut state = self.state();
        set_stack(
            &mut state,
            &run.root,
            run.verb,
            "COMPLETE",
            &format!("Stack {} completed successfully", run.verb),
        );
        if let Some(stack) = state.stacks.get_mut(&run.root).filter(|_| action == Action::Delete) {
            stack.deleted = Some(now());
            (stack.parameters, stack.around) = (Map::new(), Surroundings::default());
        }
    }

    // --- making ---

    fn converge<'a>(
        self: &'a Arc<Self>,
        run: &'a Run,
        id: String,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let plan = plan(&self.state(), &id).map_err(|why| Failure::of("", why))?;
            for level in &plan {
                let made = join_all(level.iter().map(|name| self.realize(run, &id, name))).await;
                made.into_iter().collect::<Result<(), Failure>>()?;
            }
            let keep: BTreeSet<String> = plan.into_iter().flatten().collect();
            self.prune(run, &id, &keep).await
        })
    }

    async fn realize(self: &Arc<Self>, run: &Run, id: &str, name: &str) -> Result<(), Failure> {
        let made = self.attempt(run, id, name).await;
        let mut state = self.state();
        if self_is_old(&state, run) {
            return made;
        }
        match &made {
            Ok(()) => set_resource(
                &mut state,
                (id, name),
                &format!("{}_COMPLETE", run.verb),
                "state changed",
            ),
            Err(failure) => set_resource(
                &mut state,
                (id, name),
                &format!("{}_FAILED", run.verb),
                &failure.reason(),
            ),
        }
        made
    }

    async fn attempt(self: &Arc<Self>, run: &Run, id: &str, name: &str) -> Result<(), Failure> {
        let stack_name = self.state().stacks.get(id).map(|s| s.name.clone()).unwrap_or_default();
        let fault = self.faults.take("heat.resource_create", &format!("{stack_name}/{name}"));
        self.suffer(run, name, fault.as_ref()).await?;
        let wanted = want(&self.state(), id, name).map_err(|why| Failure::of(name, why))?;
        let (old, changed) = self.compare(id, name, &wanted);
        if let Some(nested) = &wanted.nested {
            let child = self.nest(id, name, &wanted, nested);
            let ended = self.converge(run, child.clone()).await;
            let (status, reason) = match &ended {
                Ok(()) => ("COMPLETE", format!("Stack {} completed successfully", run.verb)),
                Err(failure) => {
                    ("FAILED", format!("Resource {} failed: {}", run.verb, failure.reason()))
                }
            };
            set_stack(&mut self.state(), &child, run.verb, status, &reason);
            ended.map_err(|failure| failure.within(name))?;
        } else if old.is_none() || changed == Changed::Replace {
            if let Some(old) = old {
                self.unmake(&wanted.kind, &old).await.map_err(|why| Failure::of(name, why))?;
            }
            self.make(run, (id, name), &wanted).await?;
        } else if changed == Changed::InPlace {
            let mut state = self.state();
            resources::change(
                &mut state,
                &wanted.kind,
                old.as_deref().unwrap_or_default(),
                &wanted.properties,
            );
            keep(
                &mut state,
                (id, name),
                &wanted,
                old.as_deref().unwrap_or_default(),
                "UPDATE_IN_PROGRESS",
            );
        }
        match fault {
            Some(Fault::ErrorAfterEffect { .. }) => Err(Failure::of(name, no_valid_host())),
            _ => Ok(()),
        }
    }

    async fn make(
        self: &Arc<Self>,
        run: &Run,
        (id, name): (&str, &str),
        wanted: &Wanted,
    ) -> Result<(), Failure> {
        let physical = {
            let mut state = self.state();
            if self_is_old(&state, run) {
                return Err(superseded(name));
            }
            keep(&mut state, (id, name), wanted, "", &format!("{}_IN_PROGRESS", run.verb));
            let Some(stack) = state.stacks.get(id).cloned() else { return Err(superseded(name)) };
            let order = Order {
                kind: &wanted.kind,
                name: made_name(&stack.name, name),
                project: &stack.project,
                user: &stack.user,
            };
            let made = resources::make(&mut state, &order, &wanted.properties)
                .map_err(|why| Failure::of(name, why))?;
            keep(&mut state, (id, name), wanted, &made, &format!("{}_IN_PROGRESS", run.verb));
            made
        };
        if wanted.kind == "OS::Nova::Server" {
            self.wait(run, name, Some(self.options.server_build)).await?;
            let mut state = self.state();
            if let Some(server) = state.servers.get_mut(&physical) {
                server.status = "ACTIVE".into();
                server.updated = now();
            }
        }
        self.settle_hosts();
        Ok(())
    }

    /// The nested stack of a resource, made or brought up to date; its id.
    fn nest(
        &self,
        id: &str,
        name: &str,
        wanted: &Wanted,
        (template, parameters): &(Value, Map<String, Value>),
    ) -> String {
        let mut state = self.state();
        let Some(parent) = state.stacks.get(id).cloned() else { return String::new() };
        let known = parent
            .resources
            .get(name)
            .map(|r| r.physical.clone())
            .filter(|child| state.stacks.contains_key(child));
        let child = known.unwrap_or_else(|| {
            let stack = Stack {
                id: new_id(),
                name: made_name(&parent.name, name),
                parent: Some((parent.id.clone(), name.to_owned())),
                project: parent.project.clone(),
                user: parent.user.clone(),
                created: now(),
                ..Stack::default()
            };
            let child = stack.id.clone();
            state.stacks.insert(child.clone(), stack);
            child
        });
        if let Some(stack) = state.stacks.get_mut(&child) {
            (stack.template, stack.parameters, stack.around) =
                (template.clone(), parameters.clone(), parent.around.clone());
            stack.status = "CREATE_IN_PROGRESS".into();
        }
        keep(&mut state, (id, name), wanted, &child, "CREATE_IN_PROGRESS");
        child
    }

    fn compare(&self, id: &str, name: &str, wanted: &Wanted) -> (Option<String>, Changed) {
        let state = self.state();
        let Some(resource) = state.stacks.get(id).and_then(|s| s.resources.get(name)) else {
            return (None, Changed::Not);
        };
        let old = Some(resource.physical.clone()).filter(|physical| !physical.is_empty());
        if resource.status.ends_with("_FAILED")
            || resource.kind != wanted.kind
            || resource.status.ends_with("IN_PROGRESS")
        {
            return (old, Changed::Replace);
        }
        let names = resource.properties.keys().chain(wanted.properties.keys());
        let different: BTreeSet<&String> =
            names.filter(|n| resource.properties.get(*n) != wanted.properties.get(*n)).collect();
        let changed = match different {
            none if none.is_empty() => Changed::Not,
            some if some.iter().all(|n| resources::changes_in_place(&wanted.kind, n)) => {
                Changed::InPlace
            }
            _ => Changed::Replace,
        };
        (old, changed)
    }

    // --- unmaking ---

    async fn prune(
        self: &Arc<Self>,
        run: &Run,
        id: &str,
        keep: &BTreeSet<String>,
    ) -> Result<(), Failure> {
        loop {
            let level: Vec<String> = {
                let state = self.state();
                let Some(stack) = state.stacks.get(id) else { return Ok(()) };
                let doomed = || stack.resources.iter().filter(|(name, _)| !keep.contains(*name));
                let needed = |name: &String| {
                    doomed().any(|(other, r)| other != name && r.requires.contains(name))
                };
                doomed().map(|(name, _)| name.clone()).filter(|name| !needed(name)).collect()
            };
            if level.is_empty() {
                return Ok(());
            }
            let removed = join_all(level.iter().map(|name| self.remove(run, id, name))).await;
            removed.into_iter().collect::<Result<(), Failure>>()?;
        }
    }

    fn dismantle<'a>(
        self: &'a Arc<Self>,
        run: &'a Run,
        id: String,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.prune(run, &id, &BTreeSet::new()).await })
    }

    async fn remove(self: &Arc<Self>, run: &Run, id: &str, name: &str) -> Result<(), Failure> {
        let (subject, resource) = {
            let mut state = self.state();
            set_resource(&mut state, (id, name), "DELETE_IN_PROGRESS", "state changed");
            let found = state
                .stacks
                .get(id)
                .and_then(|s| Some((format!("{}/{name}", s.name), s.resources.get(name)?.clone())));
            let Some(found) = found else { return Ok(()) };
            found
        };
        let fault = self.faults.take("heat.resource_delete", &subject);
        self.suffer(run, name, fault.as_ref()).await?;
        let removed = if resource.nested {
            let ended = self.dismantle(run, resource.physical.clone()).await;
            if ended.is_ok() {
                self.state().stacks.remove(&resource.physical);
            }
            ended.map_err(|failure| failure.within(name))
        } else {
            self.unmake(&resource.kind, &resource.physical)
                .await
                .map_err(|why| Failure::of(name, why))
        };
        let mut state = self.state();
        match &removed {
            Ok(()) => {
                set_resource(&mut state, (id, name), "DELETE_COMPLETE", "state changed");
                state.stacks.get_mut(id).and_then(|stack| stack.resources.remove(name));
            }
            Err(failure) => {
                set_resource(&mut state, (id, name), "DELETE_FAILED", &failure.reason())
            }
        }
        removed
    }

    async fn unmake(&self, kind: &str, physical: &str) -> Result<(), (String, String)> {
        if kind == "OS::Nova::Server" {
            self.hosts.destroy(physical).await;
        }
        resources::unmake(&mut self.state(), kind, physical)
    }

    /// `check`: what Heat remembers, held against what there is.
    fn verify(&self, id: &str) -> Result<(), Failure> {
        let mut state = self.state();
        let Some(stack) = state.stacks.get(id).cloned() else { return Ok(()) };
        drop(state);
        let mut first = Ok(());
        for (name, resource) in &stack.resources {
            let found = if resource.nested {
                self.verify(&resource.physical).map_err(|failure| failure.within(name))
            } else if resource.kind == "OS::Nova::Server"
                && !self.state().servers.contains_key(&resource.physical)
            {
                let message =
                    format!("Instance {} could not be found. (HTTP 404)", resource.physical);
                Err(Failure { kind: "NotFound".into(), path: name.clone(), message })
            } else {
                Ok(())
            };
            state = self.state();
            match &found {
                Ok(()) => set_resource(&mut state, (id, name), "CHECK_COMPLETE", "state changed"),
                Err(failure) => {
                    set_resource(&mut state, (id, name), "CHECK_FAILED", &failure.reason())
                }
            }
            drop(state);
            if first.is_ok() {
                first = found;
            }
        }
        first
    }

    // --- waiting and faults ---

    async fn suffer(&self, run: &Run, name: &str, fault: Option<&Fault>) -> Result<(), Failure> {
        match fault {
            None | Some(Fault::ErrorAfterEffect { .. } | Fault::Hang { hang: false }) => Ok(()),
            Some(Fault::Delay { delay_ms }) => {
                self.wait(run, name, Some(Duration::from_millis(*delay_ms))).await
            }
            Some(Fault::Hang { hang: true }) => self.wait(run, name, None).await,
            Some(Fault::Status { .. } | Fault::Drop { .. } | Fault::Exit { .. }) => {
                Err(Failure::of(name, no_valid_host()))
            }
        }
    }

    /// Waits (for ever without a time), but not longer than its run is the stack's newest.
    async fn wait(&self, run: &Run, name: &str, time: Option<Duration>) -> Result<(), Failure> {
        let mut changes = self.superseded.subscribe();
        let old = async {
            while !self.is_superseded(run) {
                if changes.changed().await.is_err() {
                    break;
                }
            }
        };
        let passed = async {
            match time {
                Some(time) => pause(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = passed => Ok(()),
            () = old => Err(superseded(name)),
        }
    }

    fn is_superseded(&self, run: &Run) -> bool {
        self_is_old(&self.state(), run)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    Not,
    InPlace,
    Replace,
}

fn self_is_old(state: &State, run: &Run) -> bool {
    state.stacks.get(&run.root).is_none_or(|stack| stack.generation != run.generation)
}

fn superseded(name: &str) -> Failure {
    Failure::of(name, ("StopIteration".into(), "superseded by a newer request".into()))
}

fn no_valid_host() -> (String, String) {
    let message = "Went to status ERROR due to \"Message: No valid host was found. There are not enough hosts available., Code: 500\"";
    ("ResourceInError".into(), message.into())
}

fn made_name(stack: &str, resource: &str) -> String {
    let random = Uuid::new_v4().simple().to_string();
    format!("{stack}-{resource}-{}", &random[..12])
}

fn set_stack(state: &mut State, id: &str, verb: &str, phase: &str, reason: &str) {
    let Some(stack) = state.stacks.get_mut(id) else { return };
    stack.status = format!("{verb}_{phase}");
    reason.clone_into(&mut stack.reason);
    let (name, status) = (stack.name.clone(), stack.status.clone());
    event(state, id, (&name, id), &status, reason);
}

fn set_resource(state: &mut State, (id, name): (&str, &str), status: &str, reason: &str) {
    let Some(resource) = state.stacks.get_mut(id).and_then(|s| s.resources.get_mut(name)) else {
        return;
    };
    status.clone_into(&mut resource.status);
    reason.clone_into(&mut resource.reason);
    resource.updated = now();
    let physical = resource.physical.clone();
    event(state, id, (name, &physical), status, reason);
}

fn event(state: &mut State, id: &str, (name, physical): (&str, &str), status: &str, reason: &str) {
    state.ticks += 1;
    let n = state.ticks;
    if let Some(stack) = state.stacks.get_mut(id) {
        stack.events.push(json!({ "n": n, "id": new_id(), "event_time": now(), "resource_name": name, "logical_resource_id": name,
            "physical_resource_id": physical, "resource_status": status, "resource_status_reason": reason, "links": [] }));
    }
}

/// Writes down what a resource is, before and after it is made.
fn keep(
    state: &mut State,
    (id, name): (&str, &str),
    wanted: &Wanted,
    physical: &str,
    status: &str,
) {
    let Some(stack) = state.stacks.get_mut(id) else { return };
    let resource = stack
        .resources
        .entry(name.to_owned())
        .or_insert_with(|| Resource { created: now(), ..Resource::default() });
    resource.kind.clone_from(&wanted.kind);
    resource.properties.clone_from(&wanted.properties);
    resource.requires.clone_from(&wanted.requires);
    resource.nested = wanted.nested.is_some();
    physical.clone_into(&mut resource.physical);
    set_resource(state, (id, name), status, "state changed");
}

fn plan(state: &State, id: &str) -> Result<Vec<Vec<String>>, (String, String)> {
    let wrong = |why: super::template::Wrong| (why.kind.to_owned(), why.message);
    let Some(stack) = state.stacks.get(id) else { return Ok(Vec::new()) };
    let template = Template::parse(&stack.template).map_err(wrong)?;
    let made = Made::new(state, stack, &template);
    let mut levels = template.levels().map_err(wrong)?;
    for level in &mut levels {
        level.retain(|name| made.holds(&template.resources[name]));
    }
    Ok(levels)
}

fn want(state: &State, id: &str, name: &str) -> Result<Wanted, (String, String)> {
    let wrong = |why: String| ("StackValidationFailed".to_owned(), why);
    let stack = state.stacks.get(id).ok_or_else(|| wrong("the stack is gone".into()))?;
    let template = Template::parse(&stack.template).map_err(|why| wrong(why.message))?;
    let definition = template
        .resources
        .get(name)
        .cloned()
        .ok_or_else(|| wrong(format!("no resource {name}")))?;
    let made = Made::new(state, stack, &template);
    let mut properties = Map::new();
    for (property, value) in &definition.properties {
        let value = evaluate(value, &made).map_err(|why| wrong(format!("{property}: {why}")))?;
        properties.insert(property.clone(), value);
    }
    let Definition { kind, requires, .. } = definition;
    let nested = match stack.around.template_of(&kind) {
        Some((_, text)) => {
            Some((super::template::document(&text).map_err(wrong)?, properties.clone()))
        }
        None if resources::known(&kind).is_some_and(resources::Known::is_group) => {
            Some((group(state, stack, name, &properties), Map::new()))
        }
        None => None,
    };
    Ok(Wanted { kind, properties, requires, nested })
}

/// The template that a group stands for.
fn group(state: &State, stack: &Stack, name: &str, properties: &Map<String, Value>) -> Value {
    let mut members = Map::new();
    if let Some(definition) = properties.get("resource_def") {
        let count = number(properties.get("count")).unwrap_or(1);
        let index = properties.get("index_var").and_then(Value::as_str).unwrap_or("%index%");
        for n in 0..count {
            let text = definition.to_string().replace(index, &n.to_string());
            members.insert(n.to_string(), serde_json::from_str(&text).unwrap_or_default());
        }
    } else {
        let desired = number(properties.get("desired_capacity"))
            .or_else(|| number(properties.get("min_size")))
            .unwrap_or(0);
        let child = stack.resources.get(name).and_then(|r| state.stacks.get(&r.physical));
        let mut names: Vec<String> =
            child.map(|c| c.resources.keys().cloned().collect()).unwrap_or_default();
        names.truncate(usize::try_from(desired).unwrap_or_default());
        while u64::try_from(names.len()).unwrap_or(u64::MAX) < desired {
            names.push(Uuid::new_v4().simple().to_string()[..12].to_owned());
        }
        let definition = properties.get("resource").cloned().unwrap_or_default();
        members.extend(names.into_iter().map(|name| (name, definition.clone())));
    }
    json!({ "heat_template_version": "2018-08-31", "resources": members })
}

fn number(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

// --- reading ---

/// A stack's outputs as the API shows them.
pub(crate) fn outputs(state: &State, stack: &Stack) -> Vec<Value> {
    let Ok(template) = Template::parse(&stack.template) else { return Vec::new() };
    let made = Made::new(state, stack, &template);
    let show = |(name, output): (&String, &Value)| {
        let description =
            output.get("description").cloned().unwrap_or(json!("No description given"));
        match evaluate(&output["value"], &made) {
            Ok(value) => {
                json!({ "output_key": name, "description": description, "output_value": value })
            }
            Err(why) => {
                json!({ "output_key": name, "description": description, "output_value": null, "output_error": why })
            }
        }
    };
    template.outputs.iter().map(show).collect()
}

/// A stack's parameters as the API shows them: text, and stars where they are hidden.
pub(crate) fn shown_parameters(stack: &Stack) -> Map<String, Value> {
    let Ok(template) = Template::parse(&stack.template) else { return Map::new() };
    let filled = template.fill(&stack.parameters).unwrap_or_default();
    let show = |(name, value): (String, Value)| {
        let hidden = template.parameters.get(&name).is_some_and(|schema| schema["hidden"] == true);
        let shown = match value {
            _ if hidden => "******".to_owned(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        (name, Value::from(shown))
    };
    filled.into_iter().map(show).collect()
}

/// A resource's attributes as the API shows them.
pub(crate) fn attributes(state: &State, resource: &Resource) -> Value {
    if resource.nested {
        return json!({});
    }
    resources::attributes(state, &resource.kind, &resource.physical, &resource.properties)
}

/// A stack as its functions see it.
struct Made<'a> {
    state: &'a State,
    stack: &'a Stack,
    conditions: Map<String, Value>,
    parameters: Map<String, Value>,
}

impl<'a> Made<'a> {
    fn new(state: &'a State, stack: &'a Stack, template: &Template) -> Self {
        let parameters = template.fill(&stack.parameters).unwrap_or_default();
        Self { state, stack, conditions: template.conditions.clone(), parameters }
    }

    fn holds(&self, definition: &Definition) -> bool {
        let Some(condition) = &definition.condition else { return true };
        evaluate(&json!({ "if": [condition, true, false] }), self).is_ok_and(|held| held == true)
    }
}

impl Scope for Made<'_> {
    fn parameter(&self, name: &str) -> Option<Value> {
        match name {
            "OS::stack_name" => Some(json!(self.stack.name)),
            "OS::stack_id" => Some(json!(self.stack.id)),
            "OS::project_id" => Some(json!(self.stack.project)),
            _ => self.parameters.get(name).cloned(),
        }
    }

    fn reference(&self, name: &str) -> Result<Value, String> {
        Ok(self.stack.resources.get(name).map_or(Value::Null, |resource| json!(resource.physical)))
    }

    fn attribute(&self, resource: &str, path: &[Value]) -> Result<Value, String> {
        let Some(found) = self.stack.resources.get(resource) else { return Ok(Value::Null) };
        attribute(self.state, found, path).ok_or_else(|| {
            let name =
                path.first().map_or(String::new(), |p| p.as_str().unwrap_or_default().to_owned());
            format!("The Referenced Attribute ({resource} {name}) is incorrect.")
        })
    }

    fn file(&self, name: &str) -> Option<String> {
        self.stack.around.files.get(name).and_then(Value::as_str).map(str::to_owned)
    }

    fn condition(&self, name: &str) -> Option<Value> {
        self.conditions.get(name).cloned()
    }
}

fn attribute(state: &State, resource: &Resource, path: &[Value]) -> Option<Value> {
    if !resource.nested {
        let all = attributes(state, resource);
        if let Some(name) = path.first().and_then(Value::as_str)
            && !all.is_null()
            && all.get(name).is_none()
        {
            return None;
        }
        return Some(walk(&all, path));
    }
    let child = state.stacks.get(&resource.physical)?;
    let (first, rest) = path.split_first()?;
    let first = first.as_str().unwrap_or_default();
    if let Some(member) = first.strip_prefix("resource.") {
        let member = child.resources.get(member)?;
        return if rest.is_empty() {
            Some(json!(member.physical))
        } else {
            attribute(state, member, rest)
        };
    }
    if !resources::known(&resource.kind).is_some_and(resources::Known::is_group) {
        let (key, rest) = if first == "outputs" {
            (rest.first()?.as_str()?, rest.get(1..)?)
        } else {
            (first, rest)
        };
        let output = outputs(state, child).into_iter().find(|o| text(o, "output_key") == key)?;
        return Some(walk(&output["output_value"], rest));
    }
    let members = || child.resources.iter();
    let of_each = |path: &[Value]| {
        members()
            .map(|(name, m)| (name.clone(), attribute(state, m, path).unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    Some(match first {
        "refs" => walk(&members().map(|(_, m)| json!(m.physical)).collect(), rest),
        "refs_map" => walk(
            &Value::Object(members().map(|(n, m)| (n.clone(), json!(m.physical))).collect()),
            rest,
        ),
        "current_size" => json!(child.resources.len()),
        "outputs" | "attributes" => Value::Object(of_each(rest).into_iter().collect()),
        "outputs_list" => of_each(rest).into_iter().map(|(_, value)| value).collect(),
        _ => of_each(path).into_iter().map(|(_, value)| value).collect(),
    })
}
