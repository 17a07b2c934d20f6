//! A VIM in memory: VNFCs are rows, created and deleted at once. For tests, examples, and measuring the engine itself.

use crate::made::{Made, Retained, links, size, storages};
use crate::vim_links::Network;
use crate::vim_snapshots::StoredDisks;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use vnfm_core::ports::{
    Allocation, Clock, Code, Convergence, ErrorKind, InfraDriver, Inventory, Links, OwnedResource,
    Ownership, PlannedResource, PortError, Power, PowerChange, Recorded, Release, ResourceAction,
    ResourceChange, ResourcePlan, Snapshots, Vim, VimCall, VimReport, Volumes,
};
use vnfm_types::{
    ExtVirtualLinkInfo, ResourceHandle, VimConnectionInfo, VimPolicy, VnfcResourceInfo,
};

/// The `vimType` of a [`MemoryVim`].
pub const MEMORY_VIM: &str = "VNFM.MEMORY";

pub(crate) const LOGIN: Code = Code {
    name: "memory.login",
    kind: ErrorKind::Refused,
    means: "the VIM in memory refuses the login",
    next: "set `accessInfo.password` to the one given to `MemoryVim::with_password`",
};
/// The driver and its VIM. Clones share the VIM.
#[derive(Clone, Default)]
pub struct MemoryVim {
    instances: Arc<Mutex<BTreeMap<String, Made>>>,
    /// What snapshots have stored, by their id.
    stored: Arc<Mutex<BTreeMap<String, StoredDisks>>>,
    /// Networks that are shared virtual links, by the id of the link.
    networks: Arc<Mutex<BTreeMap<String, Network>>>,
    /// Retained volumes, by their ids here.
    retained: Arc<Mutex<BTreeMap<String, Retained>>>,
    password: Option<String>,
    takes: Option<(Arc<dyn Clock>, Duration)>,
}

impl MemoryVim {
    /// Requires logins with this `accessInfo.password`.
    #[must_use]
    pub fn with_password(self, password: &str) -> Self {
        Self {
            password: Some(password.to_owned()),
            ..self
        }
    }

    /// Lets each call take this time.
    #[must_use]
    pub fn with_call_duration(self, time: Duration, clock: Arc<dyn Clock>) -> Self {
        Self {
            takes: Some((clock, time)),
            ..self
        }
    }

    /// Ids of all existing VNFCs.
    pub fn vnfcs(&self) -> Vec<String> {
        let instances = self.instances();
        instances
            .values()
            .flat_map(|made| &made.vnfcs)
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Ids of all VNFCs that run.
    pub fn running_vnfcs(&self) -> Vec<String> {
        let instances = self.instances();
        let running = instances.values().flat_map(|made| {
            let ids = made.vnfcs.iter().map(|(id, _)| id);
            ids.filter(|id| !made.stopped.contains(*id))
        });
        running.cloned().collect()
    }

    /// The parts of all snapshots, as `snapshot/VNFC`.
    pub fn snapshots(&self) -> Vec<String> {
        let stored = self.stored();
        let parts = stored
            .iter()
            .flat_map(|(id, stored)| stored.disks.keys().map(move |vnfc| format!("{id}/{vnfc}")));
        parts.collect()
    }

    /// Writes to the disk of a VNFC, as what runs inside does.
    pub fn write(&self, vnfc: &str, text: &str) {
        for made in self.instances().values_mut() {
            if made.vnfcs.iter().any(|(id, _)| id == vnfc) {
                made.disks.insert(vnfc.to_owned(), text.to_owned());
            }
        }
    }

    /// The text on the disk of a VNFC; `None`: nothing was written.
    pub fn disk(&self, vnfc: &str) -> Option<String> {
        let instances = self.instances();
        let mut disks = instances.values().map(|made| &made.disks);
        disks.find_map(|disks| disks.get(vnfc)).cloned()
    }

    pub(crate) fn stored(&self) -> MutexGuard<'_, BTreeMap<String, StoredDisks>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn networks_by_link(&self) -> MutexGuard<'_, BTreeMap<String, Network>> {
        self.networks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn retained(&self) -> MutexGuard<'_, BTreeMap<String, Retained>> {
        self.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what exists of an instance.
    pub(crate) fn change(&self, whose: &Ownership, change: impl FnOnce(&mut Made)) {
        let mut instances = self.instances();
        let made = instances.get_mut(&whose.instance_id);
        if let Some(made) = made.filter(|made| made.installation_id == whose.installation_id) {
            change(made);
        }
    }

    pub(crate) fn instances(&self) -> MutexGuard<'_, BTreeMap<String, Made>> {
        self.instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot and logs in, as each call of a VIM does.
    pub(crate) async fn called(&self, vim: &dyn Vim) -> Result<(), PortError> {
        let turn = vim.acquire_slot("answer", None).await;
        if let Some((clock, time)) = &self.takes {
            clock.sleep(*time).await;
        }
        let login = vim.connection().await?;
        let given = login
            .info
            .access_info
            .get("password")
            .and_then(Value::as_str);
        let is_known = self.password.is_none() || given == self.password.as_deref();
        turn.ended(is_known);
        if is_known {
            return Ok(());
        }
        Err(PortError::new(
            &LOGIN,
            format!("log in at `{}`", vim.name()),
            "the password is wrong",
        ))
    }

    /// The VNFCs of an instance, by id and VDU.
    pub(crate) fn existing(&self, ownership: &Ownership) -> Vec<(String, String)> {
        let instances = self.instances();
        let its = instances.get(&ownership.instance_id);
        let its = its.filter(|made| made.installation_id == ownership.installation_id);
        its.map(|made| made.vnfcs.clone()).unwrap_or_default()
    }

    /// Replaces the VNFCs that another package describes differently, a batch at a time.
    async fn roll(&self, cx: &VimCall<'_>, change: &Convergence<'_>) {
        let rolling = change.rolling.unwrap_or_default();
        let size = match change.rolling {
            Some(rolling) => usize::try_from(rolling.parallel.get()).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let replace = |made: &mut Made| {
            made.installation_id == cx.ownership.installation_id && made.replace_batch(change, size)
        };
        loop {
            let more = {
                let mut instances = self.instances();
                let made = instances.get_mut(&cx.ownership.instance_id);
                made.is_some_and(replace)
            };
            if !more {
                return;
            }
            if !rolling.pause.is_zero() {
                cx.watcher.waiting("the pause between two batches");
                cx.clock.sleep(rolling.pause).await;
            }
        }
    }

    /// Marks the VNFCs that the change replaces because another package describes them differently.
    fn note_outdated(
        &self,
        ownership: &Ownership,
        change: &Convergence<'_>,
        rows: &mut Vec<PlannedResource>,
    ) {
        let instances = self.instances();
        let made = instances.get(&ownership.instance_id);
        let Some(made) = made.filter(|_| change.changes_vnfd()) else {
            return;
        };
        for (position, vdu) in made.outdated(change) {
            let id = &made.vnfcs[position].0;
            // A VDU with another name was planned as one that goes, and one that comes.
            let is_new = |row: &PlannedResource| {
                row.action == ResourceAction::Create && row.vdu.as_deref() == Some(&vdu)
            };
            if let Some(new) = rows.iter().position(is_new) {
                rows.remove(new);
            }
            if let Some(row) = rows.iter_mut().find(|row| row.vnfc.as_ref() == Some(id)) {
                row.action = ResourceAction::Replace;
                row.because = vec!["vnfdId".to_owned()];
            }
        }
    }

    /// The external links of an instance.
    fn links_of(&self, ownership: &Ownership) -> Vec<ExtVirtualLinkInfo> {
        let instances = self.instances();
        let its = instances.get(&ownership.instance_id);
        let its = its.filter(|made| made.installation_id == ownership.installation_id);
        its.map(|made| made.links.clone()).unwrap_or_default()
    }

    fn inventory_of(&self, vim: &dyn Vim, ownership: &Ownership) -> Recorded {
        let info = |((id, vdu), volumes): ((String, String), Vec<String>)| VnfcResourceInfo {
            id: id.clone(),
            vdu_id: vdu,
            storage_resource_ids: volumes,
            compute_resource: ResourceHandle {
                vim_connection_id: Some(vim.connection_id().to_owned()),
                resource_id: id,
                ..ResourceHandle::default()
            },
            ..VnfcResourceInfo::default()
        };
        let instances = self.instances();
        let its = instances.get(&ownership.instance_id);
        let its = its.filter(|made| made.installation_id == ownership.installation_id);
        let all = its.map(|made| made.vnfcs.clone().into_iter().zip(made.volumes_by_vnfc()));
        let vnfc_resource_info = all.into_iter().flatten().map(info).collect();
        let volumes = its.map(|made| made.volumes.clone()).unwrap_or_default();
        drop(instances);
        let inventory = Inventory {
            virtual_storage_resource_info: storages(vim.connection_id(), volumes),
            vnfc_resource_info,
            ext_virtual_link_info: self.links_of(ownership),
            ..Inventory::default()
        };
        Recorded {
            handle: json!(ownership.instance_id),
            inventory,
            ..Recorded::default()
        }
    }
}

/// What a change to this size would do to the existing VNFCs, and which it would add.
pub(crate) fn planned(
    mut existing: Vec<(String, String)>,
    size: &[(&str, usize)],
    replace: &[String],
) -> Vec<PlannedResource> {
    let row = |vdu: &str, id: Option<String>, (action, because): (ResourceAction, &str)| {
        let name = id.as_deref().unwrap_or(vdu);
        let row = PlannedResource::new("Vnfc", name, action).of_vdu(vdu, id);
        row.because(vec![because.to_owned()])
    };
    let mut rows = Vec::new();
    for (vdu, count) in size {
        let size = format!("vduInstances.{vdu}");
        let of_vdu = existing.extract_if(.., |(_, of)| of == vdu);
        let of_vdu: Vec<_> = of_vdu.map(|(id, _)| id).collect();
        let missing = count.saturating_sub(of_vdu.len());
        for (index, id) in of_vdu.into_iter().enumerate() {
            rows.push(if index >= *count {
                row(vdu, Some(id), (ResourceAction::Delete, &size))
            } else if replace.contains(&id) {
                let why = (ResourceAction::Replace, "vnfcInstanceId");
                row(vdu, Some(id), why)
            } else {
                row(vdu, Some(id), (ResourceAction::Keep, "")).because(Vec::new())
            });
        }
        let new = || row(vdu, None, (ResourceAction::Create, &size));
        rows.extend(std::iter::repeat_with(new).take(missing));
    }
    let deleted = (ResourceAction::Delete, "flavourId");
    rows.extend(
        existing
            .into_iter()
            .map(|(id, vdu)| row(&vdu, Some(id), deleted)),
    );
    rows
}

#[async_trait]
impl InfraDriver for MemoryVim {
    fn vim_types(&self) -> &'static [&'static str] {
        &[MEMORY_VIM]
    }

    fn validate(&self, _: &VimConnectionInfo) -> Result<(), PortError> {
        Ok(())
    }

    fn validate_request(&self, what: &Allocation) -> Result<(), PortError> {
        size(what).map(drop)
    }

    /// Its resources have no properties that a policy could restrict.
    fn permit(&self, _: &Allocation, _: &VimPolicy) -> Result<(), PortError> {
        Ok(())
    }

    async fn check(&self, vim: &dyn Vim) -> Result<VimReport, PortError> {
        self.called(vim).await.map(|()| VimReport::default())
    }

    async fn preview(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
    ) -> Result<Value, PortError> {
        self.called(cx.vim).await?;
        size(change.target).map(|_| Value::Null)
    }

    async fn plan(
        &self,
        cx: &VimCall<'_>,
        change: &ResourceChange<'_>,
    ) -> Result<ResourcePlan, PortError> {
        self.called(cx.vim).await?;
        let existing = self.existing(cx.ownership);
        let rows = match change {
            ResourceChange::Release { .. } => planned(existing, &[], &[]),
            ResourceChange::Converge(change) => {
                let mut rows = planned(existing, &size(change.target)?, &change.replace.vnfcs);
                self.note_outdated(cx.ownership, change, &mut rows);
                let reconnects = links(&change.target.deployment) != self.links_of(cx.ownership);
                let stays = |row: &&mut PlannedResource| row.action == ResourceAction::Keep;
                for row in rows.iter_mut().filter(stays).filter(|_| reconnects) {
                    row.action = ResourceAction::Update;
                    row.because.push("extVirtualLinks".to_owned());
                }
                rows
            }
        };
        Ok(ResourcePlan::from_resources(rows))
    }

    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        _: &Value,
    ) -> Result<Recorded, PortError> {
        self.called(cx.vim).await?;
        let (size, whose) = (size(change.target)?, cx.ownership);
        let new = || Made {
            installation_id: whose.installation_id.clone(),
            vnfcs: Vec::new(),
            stopped: BTreeSet::new(),
            links: Vec::new(),
            recipes: BTreeMap::new(),
            disks: BTreeMap::new(),
            volumes: Vec::new(),
            vdu_storages: BTreeMap::new(),
        };
        if change.changes_vnfd() {
            self.roll(cx, change).await;
        }
        let mut instances = self.instances();
        let made = instances
            .entry(whose.instance_id.clone())
            .or_insert_with(new);
        if made.installation_id == whose.installation_id {
            made.replace(&change.replace.vnfcs);
            made.resize(&size);
            made.note_recipes(change.target);
            made.set_volumes(change.target);
            made.links = links(&change.target.deployment);
            made.set_states(&change.target.deployment, false);
        }
        drop(instances);
        Ok(self.inventory_of(cx.vim, whose))
    }

    fn changes_ext_connectivity(&self) -> bool {
        true
    }

    fn rolls(&self, _: &Allocation) -> bool {
        true
    }

    fn power(&self) -> Option<&dyn Power> {
        Some(self)
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

    async fn release(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        _: &Release,
    ) -> Result<(), PortError> {
        self.called(cx.vim).await?;
        let whose = cx.ownership;
        let is_its = |made: &Made| made.installation_id == whose.installation_id;
        let mut instances = self.instances();
        if instances.get(&whose.instance_id).is_some_and(is_its) {
            instances.remove(&whose.instance_id);
        }
        Ok(())
    }

    async fn observe(
        &self,
        cx: &VimCall<'_>,
        _: &Allocation,
        _: &Value,
    ) -> Result<Recorded, PortError> {
        self.called(cx.vim).await?;
        Ok(self.inventory_of(cx.vim, cx.ownership))
    }

    async fn owned(
        &self,
        vim: &dyn Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        self.called(vim).await?;
        let (instances, stored) = (self.instances(), self.stored());
        let ours = instances
            .iter()
            .filter(|(_, made)| made.installation_id == installation_id);
        let each = ours.flat_map(|(instance_id, made)| {
            made.vnfcs.iter().map(move |(id, vdu)| OwnedResource {
                kind: "Vnfc".to_owned(),
                id: id.clone(),
                name: vdu.clone(),
                instance_id: Some(instance_id.clone()),
                snapshot_id: None,
                link_id: None,
                volume_id: None,
            })
        });
        let stored = stored
            .iter()
            .filter(|(_, stored)| stored.installation_id == installation_id);
        let disks = stored.flat_map(|(id, stored)| {
            stored.disks.keys().map(move |vnfc| OwnedResource {
                kind: "Disk".to_owned(),
                id: format!("{id}/{vnfc}"),
                name: vnfc.clone(),
                instance_id: Some(stored.instance_id.clone()),
                snapshot_id: Some(id.clone()),
                link_id: None,
                volume_id: None,
            })
        });
        let apart = self.owned_networks(installation_id).into_iter();
        let apart = apart.chain(self.owned_volumes(installation_id));
        Ok(each.chain(disks).chain(apart).collect())
    }
}

#[async_trait]
impl Power for MemoryVim {
    fn is_per_vnfc(&self) -> bool {
        true
    }

    async fn operate(
        &self,
        cx: &VimCall<'_>,
        change: &PowerChange<'_>,
    ) -> Result<Recorded, PortError> {
        self.called(cx.vim).await?;
        let deployment = &change.target.deployment;
        self.change(cx.ownership, |made| made.set_states(deployment, true));
        Ok(self.inventory_of(cx.vim, cx.ownership))
    }
}
