//! Orphans: resources on a VIM with our installation id that no instance, snapshot, shared link or retained volume accounts
//! for; and VIMs that cannot be queried any more, on which an abandoned instance may have left something.
//!
//! Somebody waits for the response: VIMs are queried eight at a time, each for at most 20 s.

use crate::engine::Engine;
use crate::ports::{Code, ErrorKind, PortError, StoreError, VimRecord};
use crate::query::Query;
use crate::refusal::Refusal;
use crate::restore_check::may_have_resources;
use crate::vims::VimHandle;
use futures_util::future::{Either, select};
use futures_util::stream::{self, StreamExt as _};
use std::collections::BTreeSet;
use std::time::Duration;
use vnfm_types::{Orphan, Tombstone};

/// How long a VIM may take to list our resources.
const LIST_TIME: Duration = Duration::from_secs(20);
/// VIMs that are queried at the same time.
const MAX_QUERIED: usize = 8;

const TOO_SLOW: Code = Code {
    name: "vim.list-time",
    kind: ErrorKind::Unavailable,
    means: "a VIM did not list our resources within 20 s; they are not among the orphans",
    next: "check the services of the VIM and repeat the request",
};
pub(crate) const CODES: &[&Code] = &[&TOO_SLOW];

impl Engine {
    /// Queries every registered VIM for our resources. Returns those that no instance accounts for, and the VIMs that could
    /// not be queried, as (name, reason).
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn orphans(
        &self,
        tenant: &str,
    ) -> Result<(Vec<Orphan>, Vec<(String, String)>), Refusal> {
        let instances = self.store().instances(tenant, &Query::default()).await?;
        let (mut living, others) = self.other_tenants(tenant).await?;
        living.extend(
            instances
                .into_iter()
                .filter(may_have_resources)
                .map(|record| record.vnf.id),
        );
        let tombstones = self.store().tombstones(tenant).await?;
        let ours = tombstones
            .iter()
            .map(|tombstone| tombstone.vnf_instance_id.clone())
            .collect();
        let owners = Owners {
            snapshots: self.all_snapshots().await?,
            links: self.all_links().await?,
            volumes: self.all_volumes().await?,
            living,
            ours,
            others,
        };
        let registered = self.store().vims(tenant).await?;
        let (mut orphans, mut unreachable) =
            (Vec::new(), unreachable_vims(&tombstones, &registered));
        for (record, found) in self.resources_on_all(registered).await {
            let own = record.tenant == tenant;
            match found {
                Ok(found) => orphans.extend(owners.orphans(found, own)),
                Err(why) => unreachable.push((record.vim.name.clone(), why.to_string())),
            }
        }
        for orphan in &mut orphans {
            let is_its =
                |t: &&Tombstone| Some(&t.vnf_instance_id) == orphan.vnf_instance_id.as_ref();
            orphan.abandoned_at = tombstones.iter().find(is_its).map(|tombstone| tombstone.at);
        }
        Ok((orphans, unreachable))
    }

    /// The ids of all snapshots of all tenants.
    pub(crate) async fn all_snapshots(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut all = BTreeSet::new();
        for tenant in self.store().tenants().await? {
            let own = self.store().snapshots(&tenant, &Query::default()).await?;
            all.extend(own.into_iter().map(|record| record.info.id));
        }
        Ok(all)
    }

    /// The ids of all shared virtual links of all tenants.
    pub(crate) async fn all_links(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut all = BTreeSet::new();
        for tenant in self.store().tenants().await? {
            let own = self.store().links(&tenant, &Query::default()).await?;
            all.extend(own.into_iter().map(|record| record.link.id));
        }
        Ok(all)
    }

    /// The ids of all retained volumes of all tenants.
    pub(crate) async fn all_volumes(&self) -> Result<BTreeSet<String>, StoreError> {
        let mut all = BTreeSet::new();
        for tenant in self.store().tenants().await? {
            let own = self.store().volumes(&tenant, &Query::default()).await?;
            all.extend(own.into_iter().map(|record| record.volume.id));
        }
        Ok(all)
    }

    /// The instances of other tenants: those that account for resources, and those that were abandoned.
    pub(crate) async fn other_tenants(
        &self,
        tenant: &str,
    ) -> Result<(BTreeSet<String>, BTreeSet<String>), StoreError> {
        let (mut living, mut abandoned) = (BTreeSet::new(), BTreeSet::new());
        for other in self
            .store()
            .tenants()
            .await?
            .into_iter()
            .filter(|other| other != tenant)
        {
            let instances = self.store().instances(&other, &Query::default()).await?;
            living.extend(
                instances
                    .into_iter()
                    .filter(may_have_resources)
                    .map(|record| record.vnf.id),
            );
            let tombstones = self.store().tombstones(&other).await?;
            abandoned.extend(
                tombstones
                    .into_iter()
                    .map(|tombstone| tombstone.vnf_instance_id),
            );
        }
        Ok((living, abandoned))
    }

    /// Our resources on each VIM, orphans or not, in the order of the VIMs.
    pub(crate) async fn resources_on_all(
        &self,
        vims: Vec<VimRecord>,
    ) -> Vec<(VimRecord, Result<Vec<Orphan>, PortError>)> {
        let query = |record: VimRecord| async move {
            let found = self.resources_on(&record).await;
            (record, found)
        };
        let queried = stream::iter(vims).map(query).buffered(MAX_QUERIED);
        queried.collect().await
    }

    async fn resources_on(&self, record: &VimRecord) -> Result<Vec<Orphan>, PortError> {
        let driver = self.context.ports.drivers.driver(&record.vim.vim_type)?;
        let vim = VimHandle::registered(&self.context, record, &record.tenant, &record.vim.id);
        let listed = driver.owned(&vim, self.store().installation_id());
        let expired = self.context.ports.clock.sleep(LIST_TIME);
        let owned = match select(listed, expired).await {
            Either::Left((owned, _)) => owned?,
            Either::Right(_) => {
                let detail = format!("no complete answer within {} s", LIST_TIME.as_secs());
                let late = PortError::new(&TOO_SLOW, "list our resources", detail);
                return Err(late.on(&record.vim.name));
            }
        };
        let orphan = |resource: crate::ports::OwnedResource| Orphan {
            vim_id: record.vim.id.clone(),
            kind: resource.kind,
            id: resource.id,
            name: resource.name,
            vnf_instance_id: resource.instance_id,
            vnf_snapshot_info_id: resource.snapshot_id,
            link_id: resource.link_id,
            volume_id: resource.volume_id,
            abandoned_at: None,
        };
        Ok(owned.into_iter().map(orphan).collect())
    }
}

/// The instances that may own resources on a VIM, as one tenant sees them.
struct Owners {
    /// The snapshots of all tenants: their resources are not orphans, whether or not their instance exists.
    snapshots: BTreeSet<String>,
    /// The shared virtual links of all tenants, likewise.
    links: BTreeSet<String>,
    /// The retained volumes of all tenants, likewise.
    volumes: BTreeSet<String>,
    /// Live instances of all tenants: their resources are not orphans.
    living: BTreeSet<String>,
    /// Instances that this tenant abandoned.
    ours: BTreeSet<String>,
    /// Instances that other tenants abandoned. They do not account for anything: otherwise a resource shared by two tenants
    /// that both abandoned it would have no owner.
    others: BTreeSet<String>,
}

impl Owners {
    /// The orphans that the tenant may see, on a VIM that is its `own` or only shared with it.
    fn orphans(&self, found: Vec<Orphan>, own: bool) -> Vec<Orphan> {
        // On a shared VIM, unowned resources are shown to the VIM's owner only; what other tenants abandoned is shown to them.
        let is_visible = |orphan: &Orphan| {
            let id = orphan.vnf_instance_id.as_ref();
            let is_of = |instances: &BTreeSet<String>| id.is_some_and(|id| instances.contains(id));
            is_of(&self.ours) || (own && !is_of(&self.others))
        };
        orphaned(
            found,
            |id| self.living.contains(id),
            [&self.snapshots, &self.links, &self.volumes],
        )
        .into_iter()
        .filter(is_visible)
        .collect()
    }
}

/// Resources that no known instance accounts for. A shared resource (an image) is listed once per user; one known user
/// suffices to account for it. A resource of a snapshot, a shared link or a retained volume is accounted
/// for by that alone.
pub(crate) fn orphaned(
    found: Vec<Orphan>,
    known: impl Fn(&String) -> bool,
    [snapshots, links, volumes]: [&BTreeSet<String>; 3],
) -> Vec<Orphan> {
    let resource_key = |orphan: &Orphan| (orphan.kind.clone(), orphan.id.clone());
    let explains = |orphan: &&Orphan| {
        let apart = [
            (&orphan.vnf_snapshot_info_id, snapshots),
            (&orphan.link_id, links),
            (&orphan.volume_id, volumes),
        ];
        let mut apart = apart.into_iter();
        match apart.find_map(|(id, records)| id.as_ref().map(|id| records.contains(id))) {
            Some(is_recorded) => is_recorded,
            None => orphan.vnf_instance_id.as_ref().is_some_and(&known),
        }
    };
    let explained: BTreeSet<_> = found.iter().filter(explains).map(resource_key).collect();
    found
        .into_iter()
        .filter(|orphan| !explained.contains(&resource_key(orphan)))
        .collect()
}

/// VIMs of abandoned instances that are not registered, with what may be left there.
fn unreachable_vims(tombstones: &[Tombstone], registered: &[VimRecord]) -> Vec<(String, String)> {
    let mut unreachable = Vec::new();
    for tombstone in tombstones {
        let known = |id: &String| registered.iter().any(|record| &record.vim.id == id);
        for vim in tombstone
            .vims
            .iter()
            .filter(|vim| !vim.vim_id.as_ref().is_some_and(known))
        {
            let at = vim
                .endpoint
                .as_ref()
                .map(|at| format!(" at {at}"))
                .unwrap_or_default();
            let id = vim.vim_id.as_deref().unwrap_or("none");
            let name = tombstone
                .vnf_instance_name
                .as_deref()
                .unwrap_or("without a name");
            let why = format!(
                "the VIM{at} (id {id}) is not in the registry; VNF instance {name} ({}) was abandoned on it at {}: {}; \
                 once nothing of it is left: `vnfmctl orphans --forget {} --reason TEXT`",
                tombstone.vnf_instance_id,
                tombstone.at,
                tombstone.reason,
                tombstone.vnf_instance_id
            );
            unreachable.push((vim.name.clone(), why));
        }
    }
    unreachable
}

#[cfg(test)]
mod tests {
    use super::{Owners, orphaned};
    use std::collections::BTreeSet;
    use vnfm_types::Orphan;

    fn none() -> BTreeSet<String> {
        BTreeSet::new()
    }

    fn orphan(id: &str, instance: &str) -> Orphan {
        Orphan {
            vim_id: "v".into(),
            kind: "image".into(),
            id: id.into(),
            name: "n".into(),
            vnf_instance_id: Some(instance.into()),
            vnf_snapshot_info_id: None,
            link_id: None,
            volume_id: None,
            abandoned_at: None,
        }
    }

    #[test]
    fn a_shared_resource_is_accounted_for_by_any_of_its_users() {
        let found = vec![
            orphan("1", "gone"),
            orphan("1", "here"),
            orphan("2", "gone"),
            orphan("2", "lost"),
        ];
        let left = orphaned(found, |id| id == "here", [&none(), &none(), &none()]);
        assert_eq!(left, [orphan("2", "gone"), orphan("2", "lost")]);
    }

    #[test]
    fn what_a_snapshot_has_stored_is_accounted_for_by_it_alone() {
        let stored = |id: &str, instance: &str, snapshot: &str| Orphan {
            vnf_snapshot_info_id: Some(snapshot.into()),
            ..orphan(id, instance)
        };
        let found = vec![
            stored("1", "gone", "kept"),
            stored("2", "here", "kept"),
            stored("3", "here", "deleted"),
        ];
        let snapshots = BTreeSet::from(["kept".to_owned()]);
        let left = orphaned(found, |id| id == "here", [&snapshots, &none(), &none()]);
        assert_eq!(left, [stored("3", "here", "deleted")]);
    }

    #[test]
    fn the_network_of_a_shared_link_is_accounted_for_by_it_alone() {
        let network = |id: &str, link: &str| Orphan {
            vnf_instance_id: None,
            link_id: Some(link.into()),
            ..orphan(id, "")
        };
        let found = vec![network("1", "known"), network("2", "deleted")];
        let links = BTreeSet::from(["known".to_owned()]);
        let left = orphaned(found, |_| true, [&none(), &links, &none()]);
        assert_eq!(left, [network("2", "deleted")]);
    }

    #[test]
    fn a_retained_volume_is_accounted_for_by_its_record_alone() {
        let volume = |id: &str, volume: &str| Orphan {
            volume_id: Some(volume.into()),
            ..orphan(id, "here")
        };
        let found = vec![volume("1", "known"), volume("2", "deleted")];
        let volumes = BTreeSet::from(["known".to_owned()]);
        let left = orphaned(found, |_| true, [&none(), &none(), &volumes]);
        assert_eq!(left, [volume("2", "deleted")]);
    }

    #[test]
    fn a_resource_that_two_tenants_abandoned_is_an_orphan_of_each() {
        let one = |id: &str| BTreeSet::from([id.to_owned()]);
        let visible_orphans = |ours: &str, others: &str, own: bool| {
            let owners = Owners {
                snapshots: BTreeSet::new(),
                links: BTreeSet::new(),
                volumes: BTreeSet::new(),
                living: one("here"),
                ours: one(ours),
                others: one(others),
            };
            let found = [
                ("1", "x"),
                ("1", "y"),
                ("2", "x"),
                ("2", "y"),
                ("2", "here"),
            ];
            let more = [("3", "y"), ("4", "lost")];
            let found = found
                .into_iter()
                .chain(more)
                .map(|(id, instance)| orphan(id, instance));
            owners.orphans(found.collect(), own)
        };
        // The VIM belongs to X, and Y also lives on it.
        assert_eq!(
            visible_orphans("x", "y", true),
            [orphan("1", "x"), orphan("4", "lost")]
        );
        assert_eq!(
            visible_orphans("y", "x", false),
            [orphan("1", "y"), orphan("3", "y")]
        );
    }
}
