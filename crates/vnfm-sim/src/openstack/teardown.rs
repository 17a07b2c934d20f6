//! The deleting half of Heat's engine: resources that left the template, replaced ones, stacks.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use serde_json::{Map, Value};

use super::Cloud;
use super::engine::{Run, superseded};
use super::progress::{Failure, set_resource};
use super::records::Resource;
use super::resources;
use super::template::{DELETION_POLICY, EXTERNAL_ID};

/// Whether Heat leaves the resource when it leaves the stack.
fn stays(properties: &Map<String, Value>) -> bool {
    let policy = properties.get(DELETION_POLICY).and_then(Value::as_str);
    properties.contains_key(EXTERNAL_ID)
        || policy.is_some_and(|it| it.eq_ignore_ascii_case("retain"))
}

impl Cloud {
    /// Deletes the replaced instances of a resource; those that cannot be deleted stay recorded for the next attempt.
    pub(super) async fn delete_replaced(
        &self,
        run: &Run,
        (id, name): (&str, &str),
    ) -> Result<(), Failure> {
        loop {
            let next = {
                let state = self.state();
                let resource = state
                    .stacks
                    .get(id)
                    .and_then(|stack| stack.resources.get(name));
                let resource = resource.filter(|it| !stays(&it.properties));
                resource
                    .and_then(|it| Some((it.kind.clone(), it.replaced.first()?.physical.clone())))
            };
            let Some((kind, old)) = next else {
                return Ok(());
            };
            if self.is_superseded(run) {
                return Err(superseded(name));
            }
            self.delete_physical(&kind, &old)
                .await
                .map_err(|why| Failure::new(name, why))?;
            let mut state = self.state();
            let resource = state
                .stacks
                .get_mut(id)
                .and_then(|stack| stack.resources.get_mut(name));
            if let Some(resource) = resource {
                resource.replaced.retain(|one| one.physical != old);
            }
        }
    }

    pub(super) async fn prune(
        self: &Arc<Self>,
        run: &Run,
        id: &str,
        keep: &BTreeSet<String>,
    ) -> Result<(), Failure> {
        loop {
            let level: Vec<String> = {
                let state = self.state();
                let Some(stack) = state.stacks.get(id) else {
                    return Ok(());
                };
                let doomed = || {
                    stack
                        .resources
                        .iter()
                        .filter(|(name, _)| !keep.contains(*name))
                };
                let needed = |name: &String| {
                    doomed().any(|(other, r)| other != name && r.requires.contains(name))
                };
                doomed()
                    .map(|(name, _)| name.clone())
                    .filter(|name| !needed(name))
                    .collect()
            };
            if level.is_empty() {
                return Ok(());
            }
            let removed = join_all(level.iter().map(|name| self.remove(run, id, name))).await;
            removed.into_iter().collect::<Result<(), Failure>>()?;
        }
    }

    pub(super) fn delete_all_resources<'a>(
        self: &'a Arc<Self>,
        run: &'a Run,
        id: String,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move { self.prune(run, &id, &BTreeSet::new()).await })
    }

    pub(super) async fn remove(
        self: &Arc<Self>,
        run: &Run,
        id: &str,
        name: &str,
    ) -> Result<(), Failure> {
        let (subject, resource) = {
            let mut state = self.state();
            set_resource(
                &mut state,
                (id, name),
                "DELETE_IN_PROGRESS",
                "state changed",
            );
            let found = state
                .stacks
                .get(id)
                .and_then(|s| Some((format!("{}/{name}", s.name), s.resources.get(name)?.clone())));
            let Some(found) = found else { return Ok(()) };
            found
        };
        let fault = self.faults.take("heat.resource_delete", &subject);
        let removed = match self.inject(run, name, fault.as_ref()).await {
            Ok(()) => self.delete_resource(run, (id, name), &resource).await,
            suffered => suffered,
        };
        let mut state = self.state();
        match &removed {
            Ok(()) => {
                set_resource(&mut state, (id, name), "DELETE_COMPLETE", "state changed");
                state
                    .stacks
                    .get_mut(id)
                    .and_then(|stack| stack.resources.remove(name));
            }
            Err(failure) => {
                set_resource(&mut state, (id, name), "DELETE_FAILED", &failure.reason());
            }
        }
        removed
    }

    /// Deletes a resource and its replaced instances.
    pub(super) async fn delete_resource(
        self: &Arc<Self>,
        run: &Run,
        (id, name): (&str, &str),
        resource: &Resource,
    ) -> Result<(), Failure> {
        if resource.nested {
            self.delete_all_resources(run, resource.physical.clone())
                .await
                .map_err(|failure| failure.within(name))?;
            self.state().stacks.remove(&resource.physical);
            return Ok(());
        }
        if stays(&resource.properties) {
            return Ok(());
        }
        self.delete_replaced(run, (id, name)).await?;
        self.delete_physical(&resource.kind, &resource.physical)
            .await
            .map_err(|why| Failure::new(name, why))
    }

    pub(super) async fn delete_physical(
        &self,
        kind: &str,
        physical: &str,
    ) -> Result<(), (String, String)> {
        if kind == "OS::Nova::Server" {
            self.hosts.destroy(physical).await;
        }
        resources::delete(&mut self.state(), kind, physical)
    }
}
