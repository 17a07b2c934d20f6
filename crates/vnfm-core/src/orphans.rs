//! Orphans: what carries our installation id on a VIM, and no instance explains; and where an abandoned instance may
//! have left something on a VIM that cannot be asked any more.

use crate::engine::Engine;
use crate::ports::{StoreError, VimRecord};
use crate::query::Query;
use crate::recovery::is_explained;
use crate::refusal::Refusal;
use crate::vims::AnyVim;
use std::collections::BTreeSet;
use vnfm_types::{Orphan, Tombstone};

impl Engine {
    /// Asks every VIM of the registry for what is ours, and returns what no instance explains, with the VIMs that
    /// could not be asked and why.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn orphans(
        &self,
        tenant: &str,
    ) -> Result<(Vec<Orphan>, Vec<(String, String)>), Refusal> {
        let instances = self.store().instances(tenant, &Query::default()).await?;
        let (mut living, others) = self.of_others(tenant).await?;
        living.extend(
            instances
                .into_iter()
                .filter(is_explained)
                .map(|record| record.vnf.id),
        );
        let tombstones = self.store().tombstones(tenant).await?;
        let ours = tombstones
            .iter()
            .map(|tombstone| tombstone.vnf_instance_id.clone())
            .collect();
        let owners = Owners {
            living,
            ours,
            others,
        };
        let registered = self.store().vims(tenant).await?;
        let (mut orphans, mut silent) = (Vec::new(), not_asked(&tombstones, &registered));
        for record in registered {
            let own = record.tenant == tenant;
            match self.ours_on(&record).await {
                Ok(found) => orphans.extend(owners.orphans(found, own)),
                Err(why) => silent.push((record.vim.name.clone(), why.to_string())),
            }
        }
        for orphan in &mut orphans {
            let of = |t: &&Tombstone| Some(&t.vnf_instance_id) == orphan.vnf_instance_id.as_ref();
            orphan.abandoned_at = tombstones.iter().find(of).map(|tombstone| tombstone.at);
        }
        Ok((orphans, silent))
    }

    /// The instances of other tenants: those that explain what is on a VIM, and those that they abandoned.
    pub(crate) async fn of_others(
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
                    .filter(is_explained)
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

    /// What is ours on a VIM, explained or not.
    pub(crate) async fn ours_on(
        &self,
        record: &VimRecord,
    ) -> Result<Vec<Orphan>, crate::ports::PortError> {
        let driver = self.parts.drivers.driver(&record.vim.vim_type)?;
        let vim = AnyVim::registered(self, record, (&record.tenant, &record.vim.id));
        let owned = driver.owned(&vim, self.store().installation_id()).await?;
        let orphan = |resource: crate::ports::OwnedResource| Orphan {
            vim_id: record.vim.id.clone(),
            kind: resource.kind,
            id: resource.id,
            name: resource.name,
            vnf_instance_id: resource.instance_id,
            abandoned_at: None,
        };
        Ok(owned.into_iter().map(orphan).collect())
    }
}

/// The instances that things on a VIM may belong to, as one tenant sees them.
struct Owners {
    /// Those that live, whosever they are: what is theirs is no orphan.
    living: BTreeSet<String>,
    /// Those that the tenant abandoned.
    ours: BTreeSet<String>,
    /// Those that other tenants abandoned. They explain nothing: else what two tenants used and both abandoned would
    /// be nobody's.
    others: BTreeSet<String>,
}

impl Owners {
    /// What of this the tenant is told, on a VIM that is its `own` or only shared with it.
    fn orphans(&self, found: Vec<Orphan>, own: bool) -> Vec<Orphan> {
        // What nobody explains on a VIM that is only shared with us is its owner's to see; what others
        // abandoned is theirs.
        let told = |orphan: &Orphan| {
            let id = orphan.vnf_instance_id.as_ref();
            let is_of = |instances: &BTreeSet<String>| id.is_some_and(|id| instances.contains(id));
            is_of(&self.ours) || (own && !is_of(&self.others))
        };
        unexplained(found, |id| self.living.contains(id))
            .into_iter()
            .filter(told)
            .collect()
    }
}

/// What of this no instance explains. What several use, such as an image, is there once for each: who is known among them
/// explains it.
pub(crate) fn unexplained(found: Vec<Orphan>, known: impl Fn(&String) -> bool) -> Vec<Orphan> {
    let thing = |orphan: &Orphan| (orphan.kind.clone(), orphan.id.clone());
    let explains = |orphan: &&Orphan| orphan.vnf_instance_id.as_ref().is_some_and(&known);
    let explained: BTreeSet<_> = found.iter().filter(explains).map(thing).collect();
    found
        .into_iter()
        .filter(|orphan| !explained.contains(&thing(orphan)))
        .collect()
}

/// The VIMs of abandoned instances that are not in the registry, with what may be there.
fn not_asked(tombstones: &[Tombstone], registered: &[VimRecord]) -> Vec<(String, String)> {
    let mut silent = Vec::new();
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
                "the VIM{at} (id {id}) is not in the registry; VNF instance {name} ({}) was abandoned on it on {}: {}; \
                 once nothing of it is left: `vnfmctl orphans --forget {} --reason TEXT`",
                tombstone.vnf_instance_id,
                tombstone.at,
                tombstone.reason,
                tombstone.vnf_instance_id
            );
            silent.push((vim.name.clone(), why));
        }
    }
    silent
}

#[cfg(test)]
mod tests {
    use super::{Owners, unexplained};
    use std::collections::BTreeSet;
    use vnfm_types::Orphan;

    fn of(id: &str, instance: &str) -> Orphan {
        Orphan {
            vim_id: "v".into(),
            kind: "image".into(),
            id: id.into(),
            name: "n".into(),
            vnf_instance_id: Some(instance.into()),
            abandoned_at: None,
        }
    }

    #[test]
    fn what_several_use_is_explained_by_one_of_them() {
        let found = vec![
            of("1", "gone"),
            of("1", "here"),
            of("2", "gone"),
            of("2", "lost"),
        ];
        let left = unexplained(found, |id| id == "here");
        assert_eq!(left, [of("2", "gone"), of("2", "lost")]);
    }

    #[test]
    fn what_two_tenants_abandoned_is_an_orphan_of_each() {
        let one = |id: &str| BTreeSet::from([id.to_owned()]);
        let seen_by = |ours: &str, others: &str, own: bool| {
            let owners = Owners {
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
                .map(|(id, instance)| of(id, instance));
            owners.orphans(found.collect(), own)
        };
        // The VIM belongs to X, and Y lives on it, too.
        assert_eq!(seen_by("x", "y", true), [of("1", "x"), of("4", "lost")]);
        assert_eq!(seen_by("y", "x", false), [of("1", "y"), of("3", "y")]);
    }
}
