//! Completes the records of instances that older versions wrote.

use super::Engine;
use crate::deployment::max_scale_levels;
use crate::ports::{Change, StoreError};
use std::sync::Arc;

impl Engine {
    /// Records the scale levels of `instances`, (tenant, id) each, written by versions without scale levels. Instances whose
    /// package cannot be read, or that change meanwhile, are skipped.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    pub async fn record_levels(&self, instances: Vec<(String, String)>) -> Result<(), StoreError> {
        for (tenant, id) in instances {
            let mut record = self.store().instance(&tenant, &id).await?;
            let package = self
                .context
                .ports
                .packages
                .package(&tenant, &record.vnf_pkg_id)
                .await;
            let (Ok(package), Some(deployment)) = (package, &mut record.deployment) else {
                tracing::warn!(
                    instance_id = id,
                    "scale levels unknown: cannot read the package"
                );
                continue;
            };
            let Some(flavour) = package.vnfd().flavour(&deployment.flavour_id) else {
                continue;
            };
            if let Err(error) = Arc::make_mut(deployment).set_levels(flavour) {
                tracing::warn!(instance_id = id, %error, "scale levels unknown");
                continue;
            }
            if let Some(info) = &mut record.vnf.instantiated_vnf_info {
                info.scale_status = deployment.scale_status();
                info.max_scale_levels = max_scale_levels(flavour);
                info.vnf_state = deployment.vnf_state;
            }
            match self
                .store()
                .write(None, vec![Change::PutInstance(Box::new(record))])
                .await
            {
                Err(StoreError::Changed { .. } | StoreError::NotFound { .. }) => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }
}
