//! Heat's engine: brings a stack's resources to the state that its template describes.
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

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use serde_json::{Map, Value};

use super::Cloud;
use super::action::Action;
use super::new_resource::{NewResource, Properties};
use super::progress::{
    Failure, generated_name, no_valid_host, record_resource, set_resource, set_stack,
};
use super::records::{Replaced, Resource, Stack};
use super::resources;
use super::scope::{DesiredResource, desired, plan};
use super::servers;
use super::state::{State, new_id};
use super::template::Environment;
use crate::faults::Fault;
use crate::time::{now, pause};

/// A request that the engine works on.
#[derive(Clone)]
pub(super) struct Run {
    root: String,
    generation: u64,
    verb: &'static str,
}

impl Cloud {
    /// Starts a request: immediately, unless a fault delays an update.
    pub(crate) fn start(self: &Arc<Self>, id: &str, action: Action) {
        let name = self
            .state()
            .stacks
            .get(id)
            .map(|stack| stack.name.clone())
            .unwrap_or_default();
        let held = (action == Action::Update).then(|| self.faults.take("heat.stack_begin", &name));
        let cleared = self.faults.cleared();
        let later = match held.flatten() {
            Some(Fault::Delay { delay_ms }) => pause(Duration::from_millis(delay_ms)).boxed(),
            Some(Fault::Hang { hang: true }) => cleared.boxed(),
            _ => return self.begin(id, action),
        };
        let (cloud, id) = (Arc::clone(self), id.to_owned());
        tokio::spawn(async move {
            later.await;
            cloud.begin(&id, action);
        });
    }

    /// Starts a request; it supersedes an older one.
    fn begin(self: &Arc<Self>, id: &str, action: Action) {
        let run = {
            let mut state = self.state();
            let Some(stack) = state.stacks.get_mut(id) else {
                return;
            };
            stack.generation += 1;
            let generation = stack.generation;
            if action == Action::Update {
                stack.updated = Some(now());
            }
            set_stack(
                &mut state,
                id,
                action.verb(),
                "IN_PROGRESS",
                &format!("Stack {} started", action.verb()),
            );
            Run {
                root: id.to_owned(),
                generation,
                verb: action.verb(),
            }
        };
        self.superseded.send_modify(|count| *count += 1);
        let cloud = Arc::clone(self);
        tokio::spawn(async move { cloud.work(run, action).await });
    }

    /// Cancels the update of a stack, if one is running.
    pub(crate) fn cancel(&self, id: &str) {
        let mut state = self.state();
        let Some(stack) = state
            .stacks
            .get_mut(id)
            .filter(|s| s.status == "UPDATE_IN_PROGRESS")
        else {
            return;
        };
        stack.generation += 1;
        set_stack(&mut state, id, "UPDATE", "FAILED", "Stack UPDATE cancelled");
        drop(state);
        self.superseded.send_modify(|count| *count += 1);
    }

    async fn work(self: Arc<Self>, run: Run, action: Action) {
        let lock = self.stack_lock(&run.root);
        let _guard = lock.lock().await;
        if self.is_superseded(&run) {
            return;
        }
        let ended = match action {
            Action::Create | Action::Update => self.converge(&run, run.root.clone()).await,
            Action::Delete => self.delete_all_resources(&run, run.root.clone()).await,
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
            && self
                .delete_all_resources(&run, run.root.clone())
                .await
                .is_ok()
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
        if let Some(stack) = state
            .stacks
            .get_mut(&run.root)
            .filter(|_| action == Action::Delete)
        {
            stack.deleted = Some(now());
            (stack.parameters, stack.environment) = (Map::new(), Environment::default());
        }
    }

    fn converge<'a>(
        self: &'a Arc<Self>,
        run: &'a Run,
        id: String,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let plan = plan(&self.state(), &id).map_err(|why| Failure::new("", why))?;
            for level in &plan {
                let results = join_all(level.iter().map(|name| self.realize(run, &id, name))).await;
                results.into_iter().collect::<Result<(), Failure>>()?;
            }
            for name in plan.iter().rev().flatten() {
                self.delete_replaced(run, (&id, name)).await?;
            }
            let keep: BTreeSet<String> = plan.into_iter().flatten().collect();
            self.prune(run, &id, &keep).await
        })
    }

    async fn realize(self: &Arc<Self>, run: &Run, id: &str, name: &str) -> Result<(), Failure> {
        let result = self.try_realize(run, id, name).await;
        let mut state = self.state();
        if is_outdated(&state, run) {
            return result;
        }
        match &result {
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
        result
    }

    async fn try_realize(self: &Arc<Self>, run: &Run, id: &str, name: &str) -> Result<(), Failure> {
        let stack_name = self
            .state()
            .stacks
            .get(id)
            .map(|s| s.name.clone())
            .unwrap_or_default();
        let fault = self
            .faults
            .take("heat.resource_create", &format!("{stack_name}/{name}"));
        self.inject(run, name, fault.as_ref()).await?;
        let wanted = desired(&self.state(), id, name).map_err(|why| Failure::new(name, why))?;
        if run.verb == "UPDATE" {
            let mut state = self.state();
            let stack = state.stacks.get_mut(id);
            let resource = stack.and_then(|stack| stack.resources.get_mut(name));
            resource.into_iter().for_each(Resource::readopt);
        }
        let (old, changed) = self.compare(id, name, &wanted);
        if let Some(nested) = &wanted.nested {
            let child = self.prepare_nested(id, name, &wanted, nested);
            let ended = self.converge(run, child.clone()).await;
            let (status, reason) = match &ended {
                Ok(()) => (
                    "COMPLETE",
                    format!("Stack {} completed successfully", run.verb),
                ),
                Err(failure) => (
                    "FAILED",
                    format!("Resource {} failed: {}", run.verb, failure.reason()),
                ),
            };
            set_stack(&mut self.state(), &child, run.verb, status, &reason);
            ended.map_err(|failure| failure.within(name))?;
        } else if old.is_none() || changed == Changed::Replace {
            self.replace(run, (id, name), &wanted, old).await?;
        } else if changed == Changed::InPlace {
            let old = old.as_deref().unwrap_or_default();
            {
                let mut state = self.state();
                resources::update_in_place(&mut state, &wanted.kind, old, &wanted.properties);
                record_resource(&mut state, (id, name), &wanted, old, "UPDATE_IN_PROGRESS");
            }
            if wanted.kind == "OS::Nova::Server" {
                self.rebuild(run, (id, name), &wanted.properties).await?;
            }
        }
        match fault {
            Some(Fault::ErrorAfterEffect { .. }) => Err(Failure::new(name, no_valid_host())),
            _ => Ok(()),
        }
    }

    /// Rebuilds a server whose image changed: its disk is new, its id and ports stay. The books tell how many servers of
    /// the stack were ACTIVE meanwhile.
    async fn rebuild(
        self: &Arc<Self>,
        run: &Run,
        (id, name): (&str, &str),
        properties: &Properties,
    ) -> Result<(), Failure> {
        let (physical, server, active) = {
            let mut state = self.state();
            let resources = state.stacks.get(id).map(|stack| &stack.resources);
            let all = resources.into_iter().flat_map(|all| all.iter());
            let servers: Vec<_> = all
                .filter(|(_, one)| one.kind == "OS::Nova::Server")
                .map(|(name, one)| (name.clone(), one.physical.clone()))
                .collect();
            let physical = servers.iter().find(|(of, _)| of == name);
            let physical = physical.map(|(_, id)| id.clone()).unwrap_or_default();
            let Some(server) = servers::begin_rebuild(&mut state, &physical, properties) else {
                return Ok(());
            };
            let is_active = |(_, id): &&(String, String)| {
                state
                    .servers
                    .get(id)
                    .is_some_and(|one| one.status == "ACTIVE")
            };
            (
                physical.clone(),
                server,
                servers.iter().filter(is_active).count(),
            )
        };
        let detail = format!("{active} servers of the stack are ACTIVE");
        self.books
            .record("openstack", "nova.server_rebuild", &server, (0, detail));
        self.hosts.destroy(&physical).await;
        self.wait(run, name, Some(self.options.server_build))
            .await?;
        if let Some(server) = self.state().servers.get_mut(&physical) {
            server.status = "ACTIVE".into();
        }
        self.boot_hosts();
        Ok(())
    }

    /// Creates a resource. As in Heat, the old ones are deleted once all new ones exist, dependents first.
    async fn replace(
        self: &Arc<Self>,
        run: &Run,
        (id, name): (&str, &str),
        wanted: &DesiredResource,
        old: Option<String>,
    ) -> Result<(), Failure> {
        if let Some(old) = old {
            if wanted.kind == "OS::Cinder::VolumeAttachment" {
                self.delete_physical(&wanted.kind, &old)
                    .await
                    .map_err(|why| Failure::new(name, why))?;
            } else {
                let mut state = self.state();
                servers::prepare_for_replace(&mut state, &wanted.kind, &old);
                let resource = state
                    .stacks
                    .get_mut(id)
                    .and_then(|s| s.resources.get_mut(name));
                if let Some(resource) = resource {
                    resource.replaced.push(Replaced {
                        physical: old,
                        properties: resource.properties.clone(),
                        is_healthy: resource.status.ends_with("_COMPLETE"),
                    });
                }
            }
        }
        self.create(run, (id, name), wanted).await
    }

    async fn create(
        self: &Arc<Self>,
        run: &Run,
        (id, name): (&str, &str),
        wanted: &DesiredResource,
    ) -> Result<(), Failure> {
        let physical = {
            let mut state = self.state();
            if is_outdated(&state, run) {
                return Err(superseded(name));
            }
            record_resource(
                &mut state,
                (id, name),
                wanted,
                "",
                &format!("{}_IN_PROGRESS", run.verb),
            );
            let Some(stack) = state.stacks.get(id).cloned() else {
                return Err(superseded(name));
            };
            let order = NewResource {
                kind: &wanted.kind,
                name: generated_name(&stack.name, name),
                project: &stack.project,
                user: &stack.user,
            };
            let physical = resources::create(&mut state, &order, &wanted.properties)
                .map_err(|why| Failure::new(name, why))?;
            record_resource(
                &mut state,
                (id, name),
                wanted,
                &physical,
                &format!("{}_IN_PROGRESS", run.verb),
            );
            physical
        };
        if wanted.kind == "OS::Nova::Server" {
            self.wait(run, name, Some(self.options.server_build))
                .await?;
            let mut state = self.state();
            let zone = state.servers.get(&physical).map(|server| &server.zone);
            let is_full = zone.is_some_and(|zone| state.full_zones.contains(zone));
            if let Some(server) = state.servers.get_mut(&physical) {
                server.status = if is_full { "ERROR" } else { "ACTIVE" }.into();
                server.updated = now();
            }
            if is_full {
                servers::detach_ports(&mut state, &physical);
                return Err(Failure::new(name, no_valid_host()));
            }
        }
        self.boot_hosts();
        Ok(())
    }

    /// Creates or updates the record of a resource's nested stack; returns its id.
    fn prepare_nested(
        &self,
        id: &str,
        name: &str,
        wanted: &DesiredResource,
        (template, parameters): &(Value, Map<String, Value>),
    ) -> String {
        let mut state = self.state();
        let Some(parent) = state.stacks.get(id).cloned() else {
            return String::new();
        };
        let known = parent
            .resources
            .get(name)
            .map(|r| r.physical.clone())
            .filter(|child| state.stacks.contains_key(child));
        let child = known.unwrap_or_else(|| {
            let stack = Stack {
                id: new_id(),
                name: generated_name(&parent.name, name),
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
            (stack.template, stack.parameters, stack.environment) = (
                template.clone(),
                parameters.clone(),
                parent.environment.clone(),
            );
            stack.status = "CREATE_IN_PROGRESS".into();
        }
        record_resource(&mut state, (id, name), wanted, &child, "CREATE_IN_PROGRESS");
        child
    }

    fn compare(&self, id: &str, name: &str, wanted: &DesiredResource) -> (Option<String>, Changed) {
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
        let different: BTreeSet<&String> = names
            .filter(|n| resource.properties.get(*n) != wanted.properties.get(*n))
            .collect();
        let changed = match different {
            none if none.is_empty() => Changed::Not,
            some if some
                .iter()
                .all(|n| super::types::changes_in_place(&wanted.kind, n)) =>
            {
                Changed::InPlace
            }
            _ => Changed::Replace,
        };
        (old, changed)
    }

    pub(super) fn is_superseded(&self, run: &Run) -> bool {
        is_outdated(&self.state(), run)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Changed {
    Not,
    InPlace,
    Replace,
}

fn is_outdated(state: &State, run: &Run) -> bool {
    let stack = state.stacks.get(&run.root);
    stack.is_none_or(|stack| stack.generation != run.generation)
}

pub(super) fn superseded(name: &str) -> Failure {
    let why = "superseded by a newer request";
    Failure::new(name, ("StopIteration".into(), why.into()))
}
