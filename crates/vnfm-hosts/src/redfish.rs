//! The Redfish service of a BMC (DSP0266): the state of a `ComputerSystem`, and its action `Reset`.

use crate::power_api::PowerApi;
use crate::power_state::{PowerState, Reset};
use serde::Deserialize;
use serde_json::json;
use vnfm_core::ports::PortError;
use vnfm_outbound::{Method, without_credentials};

/// A system at a Redfish service.
pub(crate) struct Redfish<'a>(pub(crate) PowerApi<'a>);

/// The members of a `ComputerSystem` that matter.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ComputerSystem {
    power_state: PowerState,
}

impl Redfish<'_> {
    pub(crate) async fn reset(&self, action: &str, reset: Reset) -> Result<(), PortError> {
        let path = "/Actions/ComputerSystem.Reset";
        let request = self.0.request(action, (Method::POST, path))?;
        let request = request.json(&json!({ "ResetType": reset }));
        self.0.send(action, request).await.map(drop)
    }

    pub(crate) async fn state(&self, action: &str) -> Result<PowerState, PortError> {
        let request = self.0.request(action, (Method::GET, ""))?;
        let body = self.0.send(action, request).await?;
        let system = serde_json::from_slice::<ComputerSystem>(&body);
        system.map(|system| system.power_state).map_err(|_| {
            let url = without_credentials(self.0.url());
            let what = format!("`{url}` is no ComputerSystem with a PowerState");
            self.0.refused(action, what)
        })
    }
}
