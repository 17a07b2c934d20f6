//! The Redfish service of a BMC (DSP0266): the state of a `ComputerSystem`, and its action `Reset`.

use crate::errors::{POWER, POWER_REFUSED};
use crate::host_inventory::{HostInventory, InventoryHost};
use crate::power::{PowerState, Reset};
use crate::session::Session;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_core::ports::PortError;
use vnfm_outbound::{
    Client, Method, Policy, RequestBuilder, error_chain, is_forbidden, read, without_credentials,
};
use vnfm_types::Secret;

/// Limits of calls to a BMC, which is slower than a cloud and says less.
const POLICY: Policy = Policy {
    body: 1 << 20,
    values: 50_000,
    total: Duration::from_mins(1),
    stalled: Duration::from_mins(1),
};

/// A system at a Redfish service.
pub(crate) struct Redfish<'a> {
    session: Session<'a>,
    host: &'a InventoryHost,
    client: Client,
    url: &'a str,
    login: Option<(&'a str, &'a Secret)>,
}

/// The members of a `ComputerSystem` that matter.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ComputerSystem {
    power_state: PowerState,
}

impl<'a> Redfish<'a> {
    pub(crate) fn new(
        session: Session<'a>,
        inventory: &HostInventory,
        (host, url): (&'a InventoryHost, &'a str),
    ) -> Result<Self, PortError> {
        let client = Client::trusting(session.to.clone(), POLICY, &inventory.trust, None);
        let client = client.map_err(|why| {
            let action = format!("call the BMC of the host `{}`", host.name());
            PortError::new(&POWER_REFUSED, action, why).on(host.name())
        })?;
        Ok(Self {
            session,
            host,
            client,
            url: url.trim_end_matches('/'),
            login: host.redfish_login(),
        })
    }

    pub(crate) async fn reset(&self, action: &str, reset: Reset) -> Result<(), PortError> {
        let url = format!("{}/Actions/ComputerSystem.Reset", self.url);
        let body = json!({ "ResetType": reset });
        let called = self.call(action, (Method::POST, &url), Some(&body)).await;
        called.map(drop)
    }

    pub(crate) async fn state(&self, action: &str) -> Result<PowerState, PortError> {
        let text = self.call(action, (Method::GET, self.url), None).await?;
        let system = serde_json::from_slice::<ComputerSystem>(&text);
        system.map(|system| system.power_state).map_err(|_| {
            let what = format!(
                "`{}` is no ComputerSystem with a PowerState",
                without_credentials(self.url)
            );
            PortError::new(&POWER_REFUSED, action, what).on(self.host.name())
        })
    }

    async fn call(
        &self,
        action: &str,
        (method, url): (Method, &str),
        body: Option<&Value>,
    ) -> Result<Vec<u8>, PortError> {
        let limit = self.session.time_left(POLICY.total)?;
        let refused =
            |what: String| PortError::new(&POWER_REFUSED, action, what).on(self.host.name());
        let failed = |what: String| PortError::new(&POWER, action, what).on(self.host.name());
        let request = self
            .client
            .request(method, url)
            .map_err(|why| refused(why.to_string()))?;
        let request = self.with_login(request).timeout(limit);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let slot = self
            .session
            .vim
            .acquire_slot(action, Some(self.session.watcher))
            .await;
        let outcome = request.send().await;
        slot.ended(outcome.is_ok());
        let response = outcome.map_err(|error| {
            let what = error_chain(&error);
            if is_forbidden(&error) {
                refused(what)
            } else {
                failed(what)
            }
        })?;
        let status = response.status();
        if status.is_server_error() || status.as_u16() == 429 {
            return Err(failed(format!("it responds {}", status.as_u16())));
        }
        if !status.is_success() {
            return Err(refused(format!("it responds {}", status.as_u16())));
        }
        let text = read(response, self.client.policy()).await;
        text.map(|bytes| bytes.to_vec())
            .map_err(|why| failed(why.to_string()))
    }

    fn with_login(&self, request: RequestBuilder) -> RequestBuilder {
        match self.login {
            Some((user, password)) => request.basic_auth(user, Some(password.reveal())),
            None => request,
        }
    }
}
