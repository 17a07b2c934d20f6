//! Switches a host on and off through the Redfish service of its BMC (DSP0266: `ComputerSystem.Reset`).
//!
//! A BMC answers at once and acts within seconds, so the state is read until it is the wanted one.

use crate::errors::{POWER, POWER_REFUSED};
use crate::host_inventory::{HostInventory, InventoryHost};
use crate::session::Session;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_core::ports::{Backoff, PortError, Stop};
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
/// About how often the power state is read.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The power switch of a host.
pub(crate) struct Power<'a> {
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
    power_state: String,
}

impl<'a> Power<'a> {
    /// The switch of a host; `None`: the inventory has none.
    pub(crate) fn switch_of(
        session: &Session<'a>,
        inventory: &HostInventory,
        host: &'a InventoryHost,
    ) -> Result<Option<Self>, PortError> {
        let Some(url) = host.entry.redfish.as_deref() else {
            return Ok(None);
        };
        let client = Client::trusting(session.to.clone(), POLICY, &inventory.trust, None);
        let client = client.map_err(|why| {
            let action = format!("call the BMC of the host `{}`", host.name());
            PortError::new(&POWER_REFUSED, action, why).on(host.name())
        })?;
        Ok(Some(Self {
            session: *session,
            host,
            client,
            url: url.trim_end_matches('/'),
            login: host.redfish_login(),
        }))
    }

    /// Switches the host off at once.
    pub(crate) async fn switch_off(&self) -> Result<(), PortError> {
        self.switch("Off", "ForceOff", None).await
    }

    /// Switches the host off, or asks its operating system to shut down first.
    pub(crate) async fn stop(&self, how: Stop) -> Result<(), PortError> {
        if let Stop::Graceful(timeout) = how {
            let graceful = self.switch("Off", "GracefulShutdown", timeout).await;
            match graceful {
                Err(error) if timeout.is_some() && error.is_unavailable() => {}
                ended => return ended,
            }
        }
        self.switch_off().await
    }

    /// Switches the host on; it boots afterwards.
    pub(crate) async fn switch_on(&self) -> Result<(), PortError> {
        self.switch("On", "On", None).await
    }

    /// Requests a reset unless the host has the wanted state, and waits for that, at most for `timeout`.
    async fn switch(
        &self,
        wanted: &str,
        reset: &str,
        timeout: Option<Duration>,
    ) -> Result<(), PortError> {
        if self.state().await? == wanted {
            return Ok(());
        }
        let action = self.action(&format!("switch `{wanted}`"));
        self.session.watcher.waiting(&action);
        let url = format!("{}/Actions/ComputerSystem.Reset", self.url);
        let body = json!({ "ResetType": reset });
        self.call(&action, (Method::POST, &url), Some(&body))
            .await?;
        let Some((clock, deadline)) = self.session.deadline else {
            return Ok(());
        };
        let latest = timeout.and_then(|timeout| clock.now().checked_add(timeout).ok());
        let deadline = latest.map_or(deadline, |latest| latest.min(deadline));
        let mut backoff = Backoff::new(clock, self.session.watcher, deadline, POLL_INTERVAL);
        loop {
            let state = self.state().await?;
            if state == wanted {
                return Ok(());
            }
            if backoff.pause(&action).await.is_err() {
                let what = format!("the host is `{state}`");
                return Err(PortError::new(&POWER, action, what).on(self.host.name()));
            }
        }
    }

    /// `PowerState`: `On`, `Off`, `PoweringOn`, `PoweringOff`.
    async fn state(&self) -> Result<String, PortError> {
        let action = self.action("read the power state");
        let text = self.call(&action, (Method::GET, self.url), None).await?;
        let system = serde_json::from_slice::<ComputerSystem>(&text);
        let state = system.map(|system| system.power_state).unwrap_or_default();
        if ["On", "Off", "PoweringOn", "PoweringOff", "Paused"].contains(&state.as_str()) {
            return Ok(state);
        }
        let what = format!(
            "`{}` is no ComputerSystem with a PowerState",
            without_credentials(self.url)
        );
        Err(PortError::new(&POWER_REFUSED, action, what).on(self.host.name()))
    }

    fn action(&self, what: &str) -> String {
        format!("{what} of the host `{}` by Redfish", self.host.name())
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
