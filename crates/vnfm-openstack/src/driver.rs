//! The [`InfraDriver`]: each method of the port as a short story.
//!
//! ```text
//! allocate   images, shared by the instances of a package (glance) ─ stack, complete (stacks) ─ inventory
//! heal       own stack? ─┬─ there ─ the servers meant replaced (repair) ─ inventory
//!                        └─ gone ── prepare, as allocate
//! observe    own stack? ─ inventory, whatever state it is in
//! release    own stack? ─ delete, wait (again, a few times) ─ images
//! ```

use crate::access::Access;
use crate::heat::{self, Blueprint, Stack, stack_name};
use crate::image_body::Image;
use crate::patience::patiently;
use crate::plan::{flavour, has_base_hot};
use crate::prepare::{Prepared, networks_seen, prepare};
use crate::session::{Cloud, Sessions};
use crate::stacks::{complete, deleted, foreign};
use crate::{base_hot, glance, hot, inventory, nova, plan, policy, repair};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use vnfm_core::ports::{
    Allocated, Allocation, Clock, InfraDriver, OwnedResource, PortError, Release, Repair, Vim,
    VimCall, VimReport, Waited,
};
use vnfm_outbound::Destinations;
use vnfm_types::{KeyValuePairs, OPENSTACK, VimConnectionInfo, VimPolicy};

/// How long calls without a deadline of their own may take.
const SHORT: SignedDuration = SignedDuration::from_secs(90);

/// The driver of OpenStack; clones of an `Arc` of it share logins.
pub struct OpenStack {
    sessions: Sessions,
    images: glance::Turns,
    clock: Arc<dyn Clock>,
}

impl OpenStack {
    /// A driver without any login yet, for clouds that are where `to` allows: their endpoints, those of their catalogs, and
    /// proxies. `clock` serves the calls that bring none.
    pub fn new(clock: Arc<dyn Clock>, to: Destinations) -> Self {
        Self {
            sessions: Sessions::new(to),
            images: glance::Turns::default(),
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

    fn briefly<'a>(&'a self, vim: &'a dyn Vim) -> Cloud<'a> {
        let now = self.clock.now();
        let deadline = now.saturating_add(SHORT).unwrap_or(Timestamp::MAX);
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
        let cloud = self.briefly(vim);
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

    async fn prepare(&self, cx: &VimCall<'_>, what: &Allocation) -> Result<Value, PortError> {
        let prepared = prepare(&self.cloud(cx), what).await?;
        let expected = blueprint(what, &prepared, &cx.ownership.instance_id)?;
        policy::permit(what, &expected, cx.vim.policy())?;
        Ok(serde_json::to_value(prepared).unwrap_or_default())
    }

    async fn allocate(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        prepared: &Value,
    ) -> Result<Allocated, PortError> {
        let cloud = self.cloud(cx);
        let prepared: Prepared = match serde_json::from_value(prepared.clone()) {
            Ok(prepared) => prepared,
            Err(_) => prepare(&cloud, what).await?,
        };
        let stack = self.stack_of(cx, &cloud, what, prepared.clone()).await?;
        shown(cx, &cloud, what, (&stack, &prepared)).await
    }

    async fn heal(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        how: &Repair,
    ) -> Result<Allocated, PortError> {
        let cloud = self.cloud(cx);
        let stack = if let Some(stack) = repair::repaired(cx, &cloud, how).await? {
            stack
        } else {
            // Nothing is left of it, so everything is missing.
            let text = "the stack is gone: making it again";
            cx.watcher.log("warn", "openstack", text);
            let prepared = prepare(&cloud, what).await?;
            self.stack_of(cx, &cloud, what, prepared).await?
        };
        let prepared = networks_seen(&cloud, what).await?;
        shown(cx, &cloud, what, (&stack, &prepared)).await
    }

    async fn observe(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        handle: &Value,
    ) -> Result<Allocated, PortError> {
        let cloud = self.cloud(cx);
        let name = stack_name(&cx.ownership.instance_id);
        let Some(stack) = heat::find(&cloud, &name).await? else {
            return Ok(Allocated::default());
        };
        if !stack.is_of(&cx.ownership.installation_id)
            && handle.get("stackId") != Some(&json!(stack.id))
        {
            return Ok(Allocated::default());
        }
        let prepared = networks_seen(&cloud, what).await?;
        let seen = inventory::look(&cloud, &stack).await?;
        allocated(cx, what, (&stack, &prepared), &seen)
    }

    async fn release(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        how: &Release,
    ) -> Result<(), PortError> {
        let cloud = self.cloud(cx);
        let name = stack_name(&cx.ownership.instance_id);
        match heat::find(&cloud, &name).await? {
            None => {}
            Some(stack) if stack.is_of(&cx.ownership.installation_id) => {
                deleted(cx, &cloud, &stack).await?;
            }
            // It was ours once, so leaving it there silently would leave an orphan.
            Some(stack) if how.handle.get("stackId") == Some(&json!(stack.id)) => {
                return Err(foreign("delete", &stack, cx.ownership).hint(
                    "the stack has lost its tags: tag it again (`openstack stack update --existing --tags …`), then retry",
                ));
            }
            Some(stack) => {
                let text = format!(
                    "stack `{}` ({}) is not ours and was left alone",
                    stack.name, stack.id
                );
                cx.watcher.log("warn", "openstack", &text);
            }
        }
        if brings_images(what)? {
            let _turn = self.images.take(&cloud, &what.package).await?;
            glance::ended(&cloud, cx.ownership).await?;
        }
        Ok(())
    }

    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        let cloud = self.briefly(vim);
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
        let console = nova::console(&self.briefly(vim), server_id).await?;
        Ok(nova::host_keys_in(&console))
    }
}

impl OpenStack {
    /// The instance's stack, complete, with the images that it needs.
    async fn stack_of(
        &self,
        cx: &VimCall<'_>,
        cloud: &Cloud<'_>,
        what: &Allocation,
        mut prepared: Prepared,
    ) -> Result<Stack, PortError> {
        let expected = blueprint(what, &prepared, &cx.ownership.instance_id)?;
        policy::permit(what, &expected, cx.vim.policy())?;
        self.bring_images(cx, cloud, what, &mut prepared).await?;
        let (what, planned) = (what.clone(), prepared.clone());
        let instance = cx.ownership.instance_id.clone();
        // It is a matter of processor time alone, and nobody else is to wait for that.
        let planning = spawn_blocking(move || blueprint(&what, &planned, &instance));
        let planned = planning
            .await
            .unwrap_or_else(|error| Err(plan::unplanned(&error)));
        complete(cx, cloud, &planned?).await
    }

    /// Sees to it that the cloud has what the package brings; the ids go into `prepared`.
    async fn bring_images(
        &self,
        cx: &VimCall<'_>,
        cloud: &Cloud<'_>,
        what: &Allocation,
        prepared: &mut Prepared,
    ) -> Result<(), PortError> {
        let mut turn = None;
        for (owner, image) in flavour(what)?.images() {
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
            if turn.is_none() {
                turn = Some(self.images.take(cloud, &what.package).await?);
            }
            let size = what.package.size(path);
            let size = size.map_err(|error| plan::package(format!("image `{path}`: {error}")))?;
            let file = Image {
                package: what.package.clone(),
                path: path.clone(),
                size,
            };
            found.id = Some(glance::used(cloud, cx.ownership, image, file).await?);
        }
        Ok(())
    }
}

/// An image, once for each instance that uses it.
fn uses(image: &glance::Image) -> Vec<OwnedResource> {
    let of = |instance_id: Option<&str>| OwnedResource {
        kind: "OS::Glance::Image".into(),
        id: image.id.clone(),
        name: image.name.clone().unwrap_or_default(),
        instance_id: instance_id.map(str::to_owned),
    };
    let all: Vec<_> = image.users().map(|user| of(Some(user))).collect();
    if all.is_empty() { vec![of(None)] } else { all }
}

/// Whether the package has images of its own.
fn brings_images(what: &Allocation) -> Result<bool, PortError> {
    Ok(flavour(what)?
        .images()
        .any(|(_, image)| image.artifact.is_some()))
}

/// What a stack that works holds.
async fn shown(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    what: &Allocation,
    (stack, prepared): (&Stack, &Prepared),
) -> Result<Allocated, PortError> {
    let seen = patiently(
        cx,
        &format!("read what stack `{}` holds", stack.name),
        || async { inventory::look(cloud, stack).await.map(Waited::Done) },
    )
    .await?;
    allocated(cx, what, (stack, prepared), &seen)
}

fn allocated(
    cx: &VimCall<'_>,
    what: &Allocation,
    (stack, prepared): (&Stack, &Prepared),
    seen: &inventory::Seen,
) -> Result<Allocated, PortError> {
    let against = inventory::Against {
        what,
        prepared,
        vim: cx.vim.connection_id(),
    };
    let mut metadata = KeyValuePairs::new();
    metadata.insert("stackId".into(), json!(stack.id));
    metadata.insert("stackName".into(), json!(stack.name));
    Ok(Allocated {
        handle: json!({"stackId": stack.id, "stackName": stack.name}),
        inventory: inventory::inventory(seen, against)?,
        metadata,
    })
}

fn blueprint(
    what: &Allocation,
    prepared: &Prepared,
    instance: &str,
) -> Result<Blueprint, PortError> {
    let made = if has_base_hot(what) {
        base_hot::blueprint(what, prepared, instance)?
    } else {
        hot::blueprint(what, prepared, instance)?
    };
    plan::within_budget(what, &made)?;
    Ok(made)
}
