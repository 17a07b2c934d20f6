//! Orphans: what carries our installation id on a VIM, and no instance explains.

use crate::engine::Engine;
use crate::ports::{InstanceFilter, VimRecord};
use crate::recovery::is_explained;
use crate::refusal::Refusal;
use crate::vims::AnyVim;
use std::collections::BTreeSet;
use vnfm_types::Orphan;

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
        let instances = self.store().instances(tenant, &InstanceFilter::default()).await?;
        let explained: BTreeSet<_> =
            instances.into_iter().filter(is_explained).map(|record| record.vnf.id).collect();
        let (mut orphans, mut silent) = (Vec::new(), Vec::new());
        for record in self.store().vims(tenant).await? {
            match self.ours_on(&record).await {
                Ok(found) => orphans.extend(found.into_iter().filter(|orphan| {
                    orphan.vnf_instance_id.as_ref().is_none_or(|id| !explained.contains(id))
                })),
                Err(why) => silent.push((record.vim.name.clone(), why.to_string())),
            }
        }
        Ok((orphans, silent))
    }

    /// What is ours on a VIM, explained or not.
    pub(crate) async fn ours_on(
        &self,
        record: &VimRecord,
    ) -> Result<Vec<Orphan>, crate::ports::PortError> {
        let driver = self.parts.drivers.driver(&record.vim.vim_type)?;
        let vim = AnyVim::registered(self, record, &record.vim.id);
        let owned = driver.owned(&vim, self.store().installation_id()).await?;
        let orphan = |resource: crate::ports::OwnedResource| Orphan {
            vim_id: record.vim.id.clone(),
            kind: resource.kind,
            id: resource.id,
            name: resource.name,
            vnf_instance_id: resource.instance_id,
        };
        Ok(owned.into_iter().map(orphan).collect())
    }
}
