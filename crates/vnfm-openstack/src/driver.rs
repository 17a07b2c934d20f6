//! The [`InfraDriver`]: the steps of each method of the port.
//!
//! ```text
//! preview    blueprint ─ what the cloud has of it (prepare) ─ template ─ allowed by the VIM's policy?
//! converge   own stack? ─┬─ of this deployment ─ replace servers (update) ───────────────────┬─ inventory
//!                        ├─ of another ── images (glance) ─ template ─ change it, in batches │
//!                        │                  if that is requested (rolling, update) ──────────┤
//!                        └─ none ──────── images (glance) ─ template ─ create it (stacks) ───┘
//! plan       own stack? ─ compare it with the deployment (plan)
//! observe    own stack? ─ inventory, in whatever state the stack is
//! power      start and stop servers (power); converge stops those that should not run
//! snapshots  images of servers, snapshots of volumes, and the return to them (snapshots, restore, cinder)
//! links      networks that no stack contains (links)
//! volumes    volumes that outlive their stack, and come into another (volumes)
//! credentials  logins for programs inside the instance (application_credentials)
//! release    its application credentials ─ what their users created (leftovers) ─ own stack? ─ delete, wait (retry a few
//!            times) ─ volumes of these users ─ images
//! ```

use crate::access::Access;
use crate::blueprint::{self, Blueprint};
use crate::check::check;
use crate::errors::UNEXPECTED;
use crate::heat::{self, StackTemplate, stack_name};
use crate::image_body::Image;
use crate::instance_template::{expected, template, template_on_thread};
use crate::keystone_login::{Cloud, Sessions};
use crate::package_images::{earlier_packages, noting_images, packages_with_images};
use crate::power::PowerSwitch;
use crate::prepare::{prepare, present};
use crate::recorded_stack::{read_recorded, recorded};
use crate::resolved::{Resolved, known};
use crate::rolling_update::{has_own_template, roll, rolls};
use crate::stacks::{Programs, RETAG_HINT, complete, delete, foreign};
use crate::unplaced_zones::UnplacedZones;
use crate::update::{Updated, update_stack};
use crate::zone_reselection::{is_allowed, note_zones, try_other_zones, with_zones_so_far};
use crate::{
    application_credentials, glance, inventory, leftovers, links, nova, plan, policy,
    retained_volumes, snapshots, user_data,
};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{
    Allocation, Clock, Convergence, Credentials, InfraDriver, Links, OwnedResource, PortError,
    Power, PowerChange, Recorded, Release, ResourceChange, ResourcePlan, Snapshots, Stop, Vim,
    VimCall, VimReport, Volumes,
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
    unplaced_zones: UnplacedZones,
}

impl OpenStack {
    /// A driver without logins. It calls only addresses that `to` allows: endpoints of clouds, those in their catalogs,
    /// and proxies. `clock` serves calls that bring none.
    pub fn new(clock: Arc<dyn Clock>, to: Destinations) -> Self {
        Self {
            sessions: Sessions::new(to),
            images: glance::ImageLocks::default(),
            clock,
            unplaced_zones: UnplacedZones::default(),
        }
    }

    /// Decides what happens with granted zones that no parameter of a package's template accepts.
    #[must_use]
    pub fn with_unplaced_zones(self, unplaced_zones: UnplacedZones) -> Self {
        Self {
            unplaced_zones,
            ..self
        }
    }

    pub(crate) fn cloud<'a>(&'a self, cx: &VimCall<'a>) -> Cloud<'a> {
        let (watcher, deadline) = (Some(cx.watcher), cx.deadline);
        Cloud {
            sessions: &self.sessions,
            vim: cx.vim,
            clock: cx.clock,
            watcher,
            deadline,
            unplaced_zones: self.unplaced_zones,
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
            unplaced_zones: self.unplaced_zones,
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
        check(&Blueprint::read(allocation, "instance")?)
    }

    fn permit(&self, allocation: &Allocation, policy: &VimPolicy) -> Result<(), PortError> {
        if policy.is_open() {
            return Ok(());
        }
        let blueprint = Blueprint::read(allocation, "instance")?;
        let expected = expected(&blueprint)?;
        policy::permit(&blueprint, &expected, policy)
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
        let cloud = self.cloud(cx);
        let target = with_zones_so_far(&cloud, change).await?;
        let change = &change.clone().with_target(&target);
        let blueprint = Blueprint::read(&target, &cx.ownership.instance_id)?;
        let user_data = user_data::own(&blueprint).filter(|_| blueprint.base_hot.is_some());
        if let Some(user_data) = user_data {
            let text = format!("{user_data} is not run: the package's mapping fills the template");
            cx.watcher.log("info", "openstack", &text);
        }
        let resolved = prepare(&cloud, &blueprint, change).await?;
        policy::permit(
            &blueprint,
            &template(&blueprint, &resolved)?,
            cx.vim.policy(),
        )?;
        serde_json::to_value(resolved)
            .map_err(|error| PortError::new(&UNEXPECTED, "store the resolution", error.to_string()))
    }

    async fn plan(
        &self,
        cx: &VimCall<'_>,
        change: &ResourceChange<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let cloud = self.cloud(cx);
        match *change {
            ResourceChange::Converge(change) => plan::convergence(cx, &cloud, change).await,
            ResourceChange::Release { what, current, how } => {
                plan::release(cx, &cloud, &Convergence::update(current, what), how).await
            }
        }
    }

    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<Recorded, PortError> {
        let recorded = Box::pin(self.converged(cx, change, preview)).await?;
        let recorded = noting_images(recorded, &earlier_packages(change));
        let switch = PowerSwitch {
            cx,
            cloud: &self.cloud(cx),
            deployment: &change.target.deployment,
            stop: Stop::Forceful,
        };
        switch.set_stopped(&recorded.inventory).await?;
        Ok(recorded)
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
        let known = known(&Convergence::update(&Recorded::default(), allocation));
        let blueprint = Blueprint::read(allocation, &cx.ownership.instance_id)?;
        let mut resolved = present(&cloud, &blueprint, known).await?;
        let contents = inventory::read_stack(&cloud, &stack).await?;
        let mut found = recorded(cx, &blueprint, (&stack, &resolved), &contents);
        if allocation.deployment.resolved.is_null() && is_allowed(&cloud).await? {
            note_zones(&mut found, allocation, &mut resolved);
        }
        let uploaded = packages_with_images(&allocation.package, handle);
        Ok(noting_images(found, &uploaded))
    }

    async fn release(
        &self,
        cx: &VimCall<'_>,
        allocation: &Allocation,
        release: &Release,
    ) -> Result<(), PortError> {
        let cloud = self.cloud(cx);
        let name = stack_name(&cx.ownership.instance_id);
        let deployment = &allocation.deployment;
        let programs = application_credentials::revoke_all(cx, &cloud, deployment).await?;
        if programs == Programs::HadLogin {
            leftovers::remove(cx, &cloud).await?;
        }
        match heat::find(&cloud, &name).await? {
            None => {}
            Some(stack) if stack.belongs_to(&cx.ownership.installation_id) => {
                snapshots::check_releasable(cx, &cloud, allocation).await?;
                delete(cx, &cloud, &stack, programs).await?;
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
        if programs == Programs::HadLogin {
            leftovers::remove(cx, &cloud).await?;
            leftovers::remove_volumes(cx, &cloud).await?;
        }
        let packages = packages_with_images(&allocation.package, &release.handle);
        if !packages.is_empty() {
            let mut locks = Vec::new();
            for sha256 in &packages {
                locks.push(self.images.lock(&cloud, sha256).await?);
            }
            glance::release_images(&cloud, cx.ownership).await?;
        }
        Ok(())
    }

    fn changes_ext_connectivity(&self) -> bool {
        true
    }

    fn rolls(&self, what: &Allocation) -> bool {
        !has_own_template(what)
    }

    fn power(&self) -> Option<&dyn Power> {
        Some(self)
    }

    fn credentials(&self) -> Option<&dyn Credentials> {
        Some(self)
    }

    async fn outputs(&self, cx: &VimCall<'_>) -> Result<KeyValuePairs, PortError> {
        let cloud = self.cloud(cx);
        let found = heat::find(&cloud, &stack_name(&cx.ownership.instance_id)).await?;
        match found.filter(|stack| stack.belongs_to(&cx.ownership.installation_id)) {
            Some(stack) => heat::outputs(&cloud, &stack).await,
            None => Ok(KeyValuePairs::new()),
        }
    }

    fn links(&self) -> Option<&dyn Links> {
        Some(self)
    }

    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
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
            snapshot_id: None,
            link_id: None,
            volume_id: None,
            id: stack.id,
            name: stack.name,
        });
        let images = glance::owned(&cloud, installation_id).await?;
        let stored = snapshots::owned(&cloud, installation_id).await?;
        let images = images.iter().flat_map(glance::uses);
        let networks = links::owned(&cloud, installation_id).await?;
        let volumes = retained_volumes::owned(&cloud, installation_id).await?;
        let credentials = application_credentials::owned(&cloud, installation_id).await?;
        let apart = stored
            .into_iter()
            .chain(networks)
            .chain(volumes)
            .chain(credentials);
        Ok(stacks.chain(images).chain(apart).collect())
    }

    async fn host_keys(&self, vim: &dyn Vim, server_id: &str) -> Result<Vec<String>, PortError> {
        let console = nova::console(&self.short_lived_cloud(vim), server_id).await?;
        Ok(nova::host_keys_in(&console))
    }
}

impl OpenStack {
    /// The stack of the target, with its servers as Heat leaves them.
    pub(crate) async fn converged(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<Recorded, PortError> {
        let (cloud, instance) = (self.cloud(cx), &cx.ownership.instance_id);
        let target = with_zones_so_far(&cloud, change).await?;
        let change = &change.clone().with_target(&target);
        let blueprint = &Blueprint::read(&target, instance)?;
        let existing = match change.current {
            Some(_) => update_stack(cx, &cloud, change, None).await?,
            None => Updated::Missing,
        };
        if let Updated::Complete(stack) = existing {
            let resolved = present(&cloud, blueprint, known(change)).await?;
            return read_recorded(cx, &cloud, blueprint, (&stack, &resolved)).await;
        }
        let from = match existing {
            Updated::Outdated => change.clone(),
            _ => Convergence::create(change.target),
        };
        let (template, mut resolved) = self.resolve(cx, blueprint, &from, preview).await?;
        let existing = match existing {
            Updated::Outdated => {
                if let Some(rolling) = change.rolling.filter(|_| rolls(change)) {
                    Box::pin(roll(cx, &cloud, (change, rolling), &template)).await?;
                }
                Box::pin(update_stack(cx, &cloud, change, Some(&template))).await
            }
            missing => Ok(missing),
        };
        let reached = match existing {
            Ok(Updated::Complete(stack)) => Ok(*stack),
            Ok(_) => {
                if change.current.is_some() {
                    let text = "the stack no longer exists: recreating it";
                    cx.watcher.log("warn", "openstack", text);
                }
                Box::pin(complete(cx, &cloud, &template)).await
            }
            Err(error) => Err(error),
        };
        let stack = match reached {
            Ok(stack) => stack,
            Err(failed) => {
                Box::pin(try_other_zones(cx, &cloud, change, &mut resolved, failed)).await?
            }
        };
        let mut recorded = read_recorded(cx, &cloud, blueprint, (&stack, &resolved)).await?;
        if change.current.is_none() && is_allowed(&cloud).await? {
            note_zones(&mut recorded, change.target, &mut resolved);
        }
        Ok(recorded)
    }

    /// The template of the target, with what it was filled from; the images it needs exist when this returns.
    async fn resolve(
        &self,
        cx: &VimCall<'_>,
        blueprint: &Blueprint<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<(StackTemplate, Resolved), PortError> {
        let cloud = self.cloud(cx);
        let mut resolved: Resolved = match serde_json::from_value(preview.clone()) {
            Ok(resolved) => resolved,
            Err(_) => prepare(&cloud, blueprint, change).await?,
        };
        policy::permit(blueprint, &template(blueprint, &resolved)?, cx.vim.policy())?;
        self.upload_images(cx, blueprint, &mut resolved).await?;
        let template = template_on_thread(blueprint, change.target, &resolved).await?;
        Ok((template, resolved))
    }

    /// Uploads the package's images that the cloud lacks; their ids go into `resolved`.
    async fn upload_images(
        &self,
        cx: &VimCall<'_>,
        blueprint: &Blueprint<'_>,
        resolved: &mut Resolved,
    ) -> Result<(), PortError> {
        let (cloud, package) = (&self.cloud(cx), blueprint.package);
        let mut lock = None;
        for (owner, image) in blueprint.flavour.images() {
            let Some(found) = resolved
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
                lock = Some(self.images.lock(cloud, package.sha256()).await?);
            }
            let size = package.size(path);
            let size =
                size.map_err(|error| blueprint::package(format!("image `{path}`: {error}")))?;
            let file = Image {
                package: package.clone(),
                path: path.clone(),
                size,
            };
            found.id = Some(glance::use_image(cloud, cx.ownership, image, file).await?);
        }
        Ok(())
    }
}

#[async_trait]
impl Power for OpenStack {
    fn is_per_vnfc(&self) -> bool {
        true
    }

    async fn operate(
        &self,
        cx: &VimCall<'_>,
        change: &PowerChange<'_>,
    ) -> Result<Recorded, PortError> {
        let switch = PowerSwitch {
            cx,
            cloud: &self.cloud(cx),
            deployment: &change.target.deployment,
            stop: change.stop,
        };
        switch.set_all(&change.current.inventory).await?;
        Ok(change.current.clone())
    }
}
