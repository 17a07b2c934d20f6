//! Shared virtual links of a [`MemoryVim`]: each is a network by the id of its link.

use crate::vim::MemoryVim;
use async_trait::async_trait;
use vnfm_core::ports::{Links, OwnedResource, PortError, VimCall};
use vnfm_types::{LinkSpec, SharedLink};

/// A network, by the id of its link.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) installation_id: String,
    pub(crate) name: String,
}

#[async_trait]
impl Links for MemoryVim {
    fn validate_link(&self, _: &LinkSpec) -> Result<(), PortError> {
        Ok(())
    }

    async fn create_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<String, PortError> {
        self.called(cx.vim).await?;
        let network = Network {
            installation_id: cx.ownership.installation_id.clone(),
            name: link.spec.name.clone(),
        };
        self.networks_by_link()
            .entry(link.id.clone())
            .or_insert(network);
        Ok(network_id(&link.id))
    }

    async fn delete_link(&self, cx: &VimCall<'_>, link: &SharedLink) -> Result<(), PortError> {
        self.called(cx.vim).await?;
        self.networks_by_link().remove(&link.id);
        Ok(())
    }
}

fn network_id(link: &str) -> String {
    format!("network-{link}")
}

impl MemoryVim {
    /// Ids of all networks that are shared virtual links.
    pub fn networks(&self) -> Vec<String> {
        self.networks_by_link()
            .keys()
            .map(|link| network_id(link))
            .collect()
    }

    pub(crate) fn owned_networks(&self, installation_id: &str) -> Vec<OwnedResource> {
        let networks = self.networks_by_link();
        let ours = networks
            .iter()
            .filter(|(_, one)| one.installation_id == installation_id);
        ours.map(|(link, network)| OwnedResource {
            kind: "Network".to_owned(),
            id: network_id(link),
            name: network.name.clone(),
            instance_id: None,
            snapshot_id: None,
            link_id: Some(link.clone()),
            volume_id: None,
        })
        .collect()
    }
}
