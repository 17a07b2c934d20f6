//! The port `Snapshots` of the driver: stores and returns the state of servers and volumes.

use crate::driver::OpenStack;
use crate::power::PowerSwitch;
use crate::{plan, restore, snapshots};
use async_trait::async_trait;
use serde_json::Value;
use vnfm_core::ports::{
    Convergence, PortError, Recorded, ResourcePlan, Reversion, SnapshotSource, Snapshots, Stop,
    StoredSnapshot, VimCall,
};

#[async_trait]
impl Snapshots for OpenStack {
    async fn check_source(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<(), PortError> {
        snapshots::check(&self.cloud(cx), &source.current.inventory).await
    }

    async fn create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<StoredSnapshot, PortError> {
        let vnfcs = snapshots::create(cx, &self.cloud(cx), source).await?;
        let handle = Value::Null;
        Ok(StoredSnapshot { handle, vnfcs })
    }

    async fn revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<Recorded, PortError> {
        let cloud = self.cloud(cx);
        restore::check_stored(&cloud, reversion).await?;
        let change = reversion.convergence();
        let recorded = Box::pin(self.converged(cx, &change, &Value::Null)).await?;
        let restored = restore::restored(reversion, &recorded.inventory);
        restore::restore(cx, &cloud, &restored).await?;
        let switch = PowerSwitch {
            cx,
            cloud: &cloud,
            deployment: &reversion.target.deployment,
            stop: Stop::Forceful,
        };
        switch.set_all(&recorded.inventory).await?;
        Ok(recorded)
    }

    async fn delete(&self, cx: &VimCall<'_>, id: &str, _: &Value) -> Result<(), PortError> {
        snapshots::delete(cx, &self.cloud(cx), id).await
    }

    async fn plan_create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let cloud = self.cloud(cx);
        let unchanged = Convergence::update(source.current, source.what);
        let mut planned = plan::convergence(cx, &cloud, &unchanged).await?;
        let stored = snapshots::planned(cx, &cloud, &source.current.inventory).await?;
        planned.resources.extend(stored);
        Ok(planned)
    }

    async fn plan_revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<ResourcePlan, PortError> {
        let cloud = self.cloud(cx);
        restore::check_stored(&cloud, reversion).await?;
        let change = reversion.convergence();
        let mut planned = plan::convergence(cx, &cloud, &change).await?;
        restore::mark_restored(&mut planned.resources);
        Ok(planned)
    }
}
