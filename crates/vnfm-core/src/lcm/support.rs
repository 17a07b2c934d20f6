//! Whether an instance supports an operation at all: what its flavour, its VNFD and its VIM must have. If it does not, the
//! task answers 404 and `_links` do not offer it (SOL003 5.4.5.3.1 and so on).
//!
//! Nothing here calls a VIM: drivers say what they can do.

use crate::context::Context;
use crate::ports::{InfraDriver, InstanceRecord, PortError};
use std::sync::Arc;
use vnfm_descriptor::Vnfd;
use vnfm_types::{InstantiatedVnfInfo, VimConnectionInfo};

/// What an instance must have to support an operation. Each function returns what is missing.
#[derive(Clone, Copy)]
pub enum Support {
    /// Every instance supports it.
    Always,
    /// The flavour that the instance has.
    Flavour(fn(&InstantiatedVnfInfo) -> Option<String>),
    /// The VNFD of the instance.
    Vnfd(fn(&Vnfd) -> Option<String>),
    /// The driver of the VIM on which the instance has its resources.
    Vim(fn(&dyn InfraDriver) -> Option<&'static str>),
}

impl Support {
    /// What an instance with resources lacks; `None`: nothing.
    ///
    /// # Errors
    ///
    /// If its package cannot be read, or its VIM is unknown.
    pub(super) async fn missing(
        self,
        context: &Context,
        instance: &InstanceRecord,
    ) -> Result<Option<String>, PortError> {
        let ports = &context.ports;
        match self {
            Self::Always => Ok(None),
            Self::Flavour(missing) => {
                let info = instance.vnf.instantiated_vnf_info.as_ref();
                Ok(missing(info.unwrap_or(&InstantiatedVnfInfo::default())))
            }
            Self::Vnfd(missing) => {
                let packages = &ports.packages;
                let package = packages.package(&instance.tenant, &instance.vnf_pkg_id);
                Ok(missing(package.await?.vnfd()))
            }
            Self::Vim(missing) => {
                let driver = driver_of(context, instance).await?;
                let kind = driver.vim_types()[0];
                let missing = missing(&*driver);
                Ok(missing.map(|what| format!("VIMs of type `{kind}` {what}")))
            }
        }
    }
}

/// The driver of the VIM on which the instance has its resources.
async fn driver_of(
    context: &Context,
    instance: &InstanceRecord,
) -> Result<Arc<dyn InfraDriver>, PortError> {
    let drivers = &context.ports.drivers;
    let connection = own_connection(instance);
    let vim_id = connection.and_then(|vim| vim.vim_id.as_deref());
    match (connection, vim_id) {
        // Old records name a registered VIM without its type.
        (Some(vim), Some(id)) if vim.vim_type.is_empty() => {
            let record = context.store().vim(&instance.tenant, id).await?;
            drivers.driver(&record.vim.vim_type)
        }
        _ => drivers.driver(connection.map_or("", |vim| &vim.vim_type)),
    }
}

/// The connection through which the VNFCs were created. The others of the instance are of VIMs that its hooks have
/// registered. Lists have no deployment, which would name it.
fn own_connection(instance: &InstanceRecord) -> Option<&VimConnectionInfo> {
    let vnf = &instance.vnf;
    let info = vnf.instantiated_vnf_info.as_ref();
    let mut vnfcs = info.into_iter().flat_map(|info| &info.vnfc_resource_info);
    let named = vnfcs.find_map(|vnfc| vnfc.compute_resource.vim_connection_id.as_ref());
    let named = named.and_then(|key| vnf.vim_connection_info.get(key));
    let is_of_hook = |key: &String, vim: &VimConnectionInfo| vim.vim_id.as_ref() == Some(key);
    let mut all = vnf.vim_connection_info.iter();
    let requested = all.find(|(key, vim)| !is_of_hook(key, vim));
    named
        .or_else(|| requested.map(|(_, vim)| vim))
        .or_else(|| vnf.vim_connection_info.values().next())
        .map(|vim| &**vim)
}
