//! Snapshots of a [`MemoryVim`]: each VNFC has a disk with one text.

use crate::made::size;
use crate::vim::{MemoryVim, planned};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vnfm_core::ports::{
    Code, ErrorKind, InfraDriver as _, PlannedResource, PortError, Recorded, ResourceAction,
    ResourcePlan, Reversion, SnapshotSource, Snapshots, StoredSnapshot, VimCall, counterparts,
};
use vnfm_types::{ResourceHandle, VnfcSnapshotInfo};

pub(crate) const NOT_STORED: Code = Code {
    name: "memory.no-snapshot",
    kind: ErrorKind::Refused,
    means: "the VIM in memory does not have the snapshot any more",
    next: "delete the snapshot, and create another one",
};

/// What was stored of the VNFCs of an instance: the text of each disk, by VNFC.
#[derive(Clone)]
pub(crate) struct StoredDisks {
    pub(crate) installation_id: String,
    pub(crate) instance_id: String,
    pub(crate) disks: BTreeMap<String, String>,
}

#[async_trait]
impl Snapshots for MemoryVim {
    async fn check_source(
        &self,
        cx: &VimCall<'_>,
        _: &SnapshotSource<'_>,
    ) -> Result<(), PortError> {
        self.called(cx.vim).await
    }

    async fn create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<StoredSnapshot, PortError> {
        self.called(cx.vim).await?;
        let whose = cx.ownership;
        let disk = |(id, _): (String, String)| {
            let text = self.disk(&id).unwrap_or_default();
            (id, text)
        };
        let now = StoredDisks {
            installation_id: whose.installation_id.clone(),
            instance_id: whose.instance_id.clone(),
            disks: self.existing(whose).into_iter().map(disk).collect(),
        };
        let mut all = self.stored();
        let stored = all.entry(source.id.to_owned()).or_insert(now);
        let vnfcs = stored.disks.keys();
        let vnfc = |id: &String| VnfcSnapshotInfo {
            id: id.clone(),
            vnfc_instance_id: id.clone(),
            vnfc_resource_info_id: Some(id.clone()),
            compute_snapshot_resource: Some(ResourceHandle {
                vim_connection_id: Some(cx.vim.connection_id().to_owned()),
                resource_id: format!("{}/{id}", source.id),
                ..ResourceHandle::default()
            }),
            ..VnfcSnapshotInfo::default()
        };
        Ok(StoredSnapshot {
            handle: json!(source.id),
            vnfcs: vnfcs.map(vnfc).collect(),
        })
    }

    async fn revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<Recorded, PortError> {
        let change = reversion.convergence();
        let recorded = self.converge(cx, &change, &Value::Null).await?;
        let disks = self.disks_of(reversion.id)?;
        let then = &reversion.then.vnfc_resource_info;
        for (vnfc, stored) in counterparts(then, &recorded.inventory.vnfc_resource_info) {
            if let Some(text) = disks.get(&stored.id) {
                self.write(&vnfc.id, text);
            }
        }
        let deployment = &reversion.target.deployment;
        self.change(cx.ownership, |made| made.set_states(deployment, true));
        Ok(recorded)
    }

    async fn delete(&self, cx: &VimCall<'_>, id: &str, _: &Value) -> Result<(), PortError> {
        self.called(cx.vim).await?;
        let is_ours = |stored: &StoredDisks| stored.installation_id == cx.ownership.installation_id;
        let mut all = self.stored();
        if all.get(id).is_some_and(is_ours) {
            all.remove(id);
        }
        Ok(())
    }

    async fn plan_create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<ResourcePlan, PortError> {
        self.called(cx.vim).await?;
        let mut rows = planned(self.existing(cx.ownership), &size(source.what)?, &[]);
        let image =
            |row: &PlannedResource| PlannedResource::new("Disk", &row.name, ResourceAction::Create);
        let images: Vec<_> = rows.iter().map(image).collect();
        rows.extend(images);
        Ok(ResourcePlan::from_resources(rows))
    }

    async fn plan_revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<ResourcePlan, PortError> {
        self.called(cx.vim).await?;
        self.disks_of(reversion.id)?;
        let mut rows = planned(self.existing(cx.ownership), &size(reversion.target)?, &[]);
        for row in rows
            .iter_mut()
            .filter(|row| row.action == ResourceAction::Keep)
        {
            row.action = ResourceAction::Update;
            row.because.push("vnfSnapshotInfoId".to_owned());
        }
        Ok(ResourcePlan::from_resources(rows))
    }
}

impl MemoryVim {
    /// The disks of a snapshot.
    fn disks_of(&self, id: &str) -> Result<BTreeMap<String, String>, PortError> {
        let stored = self.stored().get(id).map(|stored| stored.disks.clone());
        stored.ok_or_else(|| {
            let what = format!("there is no snapshot `{id}`");
            PortError::new(&NOT_STORED, "find the snapshot", what)
        })
    }
}
