//! The [`InfraDriver`]: the steps of each method of the port.
//!
//! ```text
//! allocate   images, shared by the instances of a package (glance) ─ stack, complete (stacks) ─ inventory
//! heal       own stack? ─┬─ exists ── replace the requested servers (heal) ─ inventory
//!                        └─ missing ─ prepare, as allocate
//! observe    own stack? ─ inventory, in whatever state the stack is
//! release    own stack? ─ delete, wait (retry a few times) ─ images
//! ```

use crate::access::Access;
use crate::errors::UNEXPECTED;
use crate::heat::{self, Blueprint, Stack, stack_name};
use crate::image_body::Image;
use crate::plan::{flavour, has_base_hot};
use crate::prepare::{Prepared, existing_networks, prepare};
use crate::session::{Cloud, Sessions};
use crate::stacks::{RETAG_HINT, complete, delete, foreign};
use crate::waiting::Waiter;
use crate::{base_hot, glance, heal, hot, inventory, nova, plan, policy};
use async_trait::async_trait;
use futures::TryFutureExt as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use vnfm_core::ports::{
    Allocation, Clock, Convergence, InfraDriver, OwnedResource, PortError, Recorded, Release, Vim,
    VimCall, VimReport, Waited,
};
use vnfm_outbound::Destinations;
use vnfm_types::{KeyValuePairs, OPENSTACK, VimConnectionInfo, VimPolicy};

/// The timeout of calls that have no deadline of their own.
const CALL_TIMEOUT: SignedDuration = SignedDuration::from_secs(90);

/// The OpenStack driver. Clones of an `Arc` of it share their logins.
pub struct OpenStack {
    sessions: Sessions,
    images: glance::ImageLocks,
    clock: Arc<dyn Clock>,
}

impl OpenStack {
    /// A driver without logins. It calls only addresses that `to` allows: endpoints of clouds, those in their catalogs,
    /// and proxies. `clock` serves calls that bring none.
    pub fn new(clock: Arc<dyn Clock>, to: Destinations) -> Self {
        Self {
            sessions: Sessions::new(to),
            images: glance::ImageLocks::default(),
            clock,
        }
    }

    fn cloud<'a>(&'a self, cx: &VimCall<'a>) -> Cloud<'a> {
        let (watcher, deadline) = (Some(cx.watcher), cx.deadline);
        Cloud {
            sessions: &self.sessions,
            vim: cx.vim,
            clock: cx.clock,
            watcher,
            deadline,
        }
    }

    fn short_lived_cloud<'a>(&'a self, vim: &'a dyn Vim) -> Cloud<'a> {
        let now = self.clock.now();
        let deadline = now.saturating_add(CALL_TIMEOUT).unwrap_or(Timestamp::MAX);
        let clock = self.clock.as_ref();
        Cloud {
            sessions: &self.sessions,
            vim,
            clock,
            watcher: None,
            deadline,
        }
    }
}

impl std::fmt::Debug for OpenStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenStack")
    }
}

#[async_trait]
impl InfraDriver for OpenStack {
    fn vim_types(&self) -> &'static [&'static str] {
        &[OPENSTACK, "openstack"]
    }

    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError> {
        Access::try_from(connection).map(drop)
    }

    fn validate_request(&self, allocation: &Allocation) -> Result<(), PortError> {
        plan::check(allocation)
    }

    fn permit(&self, allocation: &Allocation, policy: &VimPolicy) -> Result<(), PortError> {
        if policy.is_open() {
            return Ok(());
        }
        let expected = if has_base_hot(allocation) {
            base_hot::expected(allocation)?
        } else {
            hot::blueprint(allocation, &Prepared::default(), "instance")?
        };
        policy::permit(allocation, &expected, policy)
    }

    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError> {
        let cloud = self.short_lived_cloud(vim);
        heat::ping(&cloud).await?;
        let (session, _) = cloud.session().await?;
        let mut detail = KeyValuePairs::new();
        detail.insert("projectId".into(), json!(session.project));
        detail.insert("services".into(), json!(session.services()));
        detail.insert("tokenExpiresAt".into(), json!(session.expires_at));
        Ok(VimReport {
            identity: None,
            expires_at: None,
            detail,
        })
    }

    async fn preview(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
    ) -> Result<Value, PortError> {
        let allocation = change.target;
        let prepared = prepare(&self.cloud(cx), allocation).await?;
        let expected = blueprint(allocation, &prepared, &cx.ownership.instance_id)?;
        policy::permit(allocation, &expected, cx.vim.policy())?;
        serde_json::to_value(prepared).map_err(|error| {
            PortError::new(&UNEXPECTED, "store what was prepared", error.to_string())
        })
    }

    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<Recorded, PortError> {
        let (cloud, allocation) = (self.cloud(cx), change.target);
        if change.current.is_some() {
            if let Some(stack) = heal::heal(cx, &cloud, change).await? {
                let prepared = existing_networks(&cloud, allocation).await?;
                return read_allocated(cx, &cloud, allocation, (&stack, &prepared)).await;
            }
            let text = "the stack no longer exists: recreating it";
            cx.watcher.log("warn", "openstack", text);
        }
        let prepared: Prepared = match serde_json::from_value(preview.clone()) {
            Ok(prepared) => prepared,
            Err(_) => prepare(&cloud, allocation).await?,
        };
        let stack = self
            .ensure_stack(cx, &cloud, allocation, prepared.clone())
            .await?;
        read_allocated(cx, &cloud, allocation, (&stack, &prepared)).await
    }

    async fn observe(
        &self,
        cx: &VimCall<'_>,
        allocation: &Allocation,
        handle: &Value,
    ) -> Result<Recorded, PortError> {
        let cloud = self.cloud(cx);
        let name = stack_name(&cx.ownership.instance_id);
        let Some(stack) = heat::find(&cloud, &name).await? else {
            return Ok(Recorded::default());
        };
        if !stack.belongs_to(&cx.ownership.installation_id)
            && handle.get("stackId") != Some(&json!(stack.id))
        {
            return Ok(Recorded::default());
        }
        let prepared = existing_networks(&cloud, allocation).await?;
        let contents = inventory::read_stack(&cloud, &stack).await?;
        allocated(cx, allocation, (&stack, &prepared), &contents)
    }

    async fn release(
        &self,
        cx: &VimCall<'_>,
        allocation: &Allocation,
        release: &Release,
    ) -> Result<(), PortError> {
        let cloud = self.cloud(cx);
        let name = stack_name(&cx.ownership.instance_id);
        match heat::find(&cloud, &name).await? {
            None => {}
            Some(stack) if stack.belongs_to(&cx.ownership.installation_id) => {
                delete(cx, &cloud, &stack).await?;
            }
            // It was ours once, so leaving it there silently would leave an orphan.
            Some(stack) if release.handle.get("stackId") == Some(&json!(stack.id)) => {
                return Err(foreign("delete", &stack, cx.ownership).hint(RETAG_HINT));
            }
            Some(stack) => {
                let text = format!(
                    "stack `{}` ({}) is not ours and was left alone",
                    stack.name, stack.id
                );
                cx.watcher.log("warn", "openstack", &text);
            }
        }
        if has_package_images(allocation)? {
            let _lock = self.images.lock(&cloud, &allocation.package).await?;
            glance::release_images(&cloud, cx.ownership).await?;
        }
        Ok(())
    }

    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        let cloud = self.short_lived_cloud(vim);
        let instance = |name: &str| name.strip_prefix("vnf-").map(str::to_owned);
        let stacks = heat::owned(&cloud, installation_id).await?;
        let stacks = stacks.into_iter().map(|stack| OwnedResource {
            kind: "OS::Heat::Stack".into(),
            instance_id: instance(&stack.name),
            id: stack.id,
            name: stack.name,
        });
        let images = glance::owned(&cloud, installation_id).await?;
        Ok(stacks.chain(images.iter().flat_map(uses)).collect())
    }

    async fn host_keys(&self, vim: &dyn Vim, server_id: &str) -> Result<Vec<String>, PortError> {
        let console = nova::console(&self.short_lived_cloud(vim), server_id).await?;
        Ok(nova::host_keys_in(&console))
    }
}

impl OpenStack {
    /// Ensures that the instance's stack and the images it needs exist, and returns the complete stack.
    async fn ensure_stack(
        &self,
        cx: &VimCall<'_>,
        cloud: &Cloud<'_>,
        allocation: &Allocation,
        mut prepared: Prepared,
    ) -> Result<Stack, PortError> {
        let expected = blueprint(allocation, &prepared, &cx.ownership.instance_id)?;
        policy::permit(allocation, &expected, cx.vim.policy())?;
        self.upload_images(cx, cloud, allocation, &mut prepared)
            .await?;
        let (allocation, planned) = (allocation.clone(), prepared.clone());
        let instance = cx.ownership.instance_id.clone();
        // Planning is pure computation; on its own thread it does not delay other tasks.
        let planning = spawn_blocking(move || blueprint(&allocation, &planned, &instance));
        let planned = planning
            .await
            .unwrap_or_else(|error| Err(plan::planning_failed(&error)));
        Box::pin(complete(cx, cloud, &planned?)).await
    }

    /// Uploads the package's images that the cloud lacks; their ids go into `prepared`.
    async fn upload_images(
        &self,
        cx: &VimCall<'_>,
        cloud: &Cloud<'_>,
        allocation: &Allocation,
        prepared: &mut Prepared,
    ) -> Result<(), PortError> {
        let mut lock = None;
        for (owner, image) in flavour(allocation)?.images() {
            let Some(found) = prepared
                .images
                .get_mut(owner)
                .filter(|found| found.id.is_none())
            else {
                continue;
            };
            let Some(path) = &image.artifact else {
                continue;
            };
            cx.watcher
                .waiting(&format!("image `{}` is uploaded", image.name));
            if lock.is_none() {
                lock = Some(self.images.lock(cloud, &allocation.package).await?);
            }
            let size = allocation.package.size(path);
            let size = size.map_err(|error| plan::package(format!("image `{path}`: {error}")))?;
            let file = Image {
                package: allocation.package.clone(),
                path: path.clone(),
                size,
            };
            found.id = Some(glance::use_image(cloud, cx.ownership, image, file).await?);
        }
        Ok(())
    }
}

/// An image, once per instance that uses it.
fn uses(image: &glance::Image) -> Vec<OwnedResource> {
    let owned_by = |instance_id: Option<&str>| OwnedResource {
        kind: "OS::Glance::Image".into(),
        id: image.id.clone(),
        name: image.name.clone().unwrap_or_default(),
        instance_id: instance_id.map(str::to_owned),
    };
    let all: Vec<_> = image.users().map(|user| owned_by(Some(user))).collect();
    if all.is_empty() {
        vec![owned_by(None)]
    } else {
        all
    }
}

fn has_package_images(allocation: &Allocation) -> Result<bool, PortError> {
    Ok(flavour(allocation)?
        .images()
        .any(|(_, image)| image.artifact.is_some()))
}

/// Reads the inventory of a stack, waiting for services that are unavailable.
async fn read_allocated(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    allocation: &Allocation,
    (stack, prepared): (&Stack, &Prepared),
) -> Result<Recorded, PortError> {
    let action = format!("read the resources of stack `{}`", stack.name);
    let mut waiter = Waiter::new(cx, &action);
    let contents = loop {
        let read = inventory::read_stack(cloud, stack).map_ok(Waited::Done);
        match waiter.attempt(read).await? {
            Waited::Done(contents) => break contents,
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    };
    allocated(cx, allocation, (stack, prepared), &contents)
}

fn allocated(
    cx: &VimCall<'_>,
    allocation: &Allocation,
    (stack, prepared): (&Stack, &Prepared),
    contents: &inventory::StackContents,
) -> Result<Recorded, PortError> {
    let context = inventory::Context {
        allocation,
        prepared,
        vim: cx.vim.connection_id(),
    };
    let mut metadata = KeyValuePairs::new();
    metadata.insert("stackId".into(), json!(stack.id));
    metadata.insert("stackName".into(), json!(stack.name));
    Ok(Recorded {
        handle: json!({"stackId": stack.id, "stackName": stack.name}),
        inventory: inventory::inventory(contents, context)?,
        metadata,
    })
}

fn blueprint(
    allocation: &Allocation,
    prepared: &Prepared,
    instance: &str,
) -> Result<Blueprint, PortError> {
    let blueprint = if has_base_hot(allocation) {
        base_hot::blueprint(allocation, prepared, instance)?
    } else {
        hot::blueprint(allocation, prepared, instance)?
    };
    plan::within_budget(allocation, &blueprint)?;
    Ok(blueprint)
}
