//! A node of Ironic, which switches the host through its own driver: its power states, and their change
//! (Bare Metal API, "Node management").
//!
//! A change is accepted with 202 and made in the background: the node is locked and has a `target_power_state` until it
//! ends. If it fails, `last_error` has the reason, and the state is the old one.

use crate::power_api::PowerApi;
use crate::power_state::{PowerReport, PowerState, Reset};
use crate::session::quoted;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;
use vnfm_core::ports::PortError;
use vnfm_outbound::{Method, RequestBuilder, without_credentials};

/// The version of the API that introduced `soft power off`, and its header.
const VERSION: (&str, &str) = ("X-OpenStack-Ironic-API-Version", "1.27");
const ON: &str = "power on";
const OFF: &str = "power off";
const SOFT_OFF: &str = "soft power off";

/// A node, at its URL in the Bare Metal API.
pub(crate) struct Ironic<'a>(pub(crate) PowerApi<'a>);

/// The members of a node that matter.
#[derive(Deserialize)]
struct Node {
    /// `null` until Ironic has read it.
    power_state: Option<String>,
    /// While a change goes on.
    target_power_state: Option<String>,
    last_error: Option<String>,
}

impl Ironic<'_> {
    /// Requests a change; a host that is asked to shut down has `timeout` for it, or as long as Ironic is configured to wait.
    /// `false`: the node is locked.
    pub(crate) async fn reset(
        &self,
        action: &str,
        (reset, timeout): (Reset, Option<Duration>),
    ) -> Result<bool, PortError> {
        let mut body = match reset {
            Reset::On => json!({ "target": ON }),
            Reset::ForceOff => json!({ "target": OFF }),
            Reset::GracefulShutdown => json!({ "target": SOFT_OFF }),
        };
        if let Some(timeout) = timeout {
            body["timeout"] = json!(timeout.as_secs().max(1));
        }
        let request = self.request(action, (Method::PUT, "/states/power"))?;
        let accepted = self.0.try_send(action, request.json(&body)).await?;
        Ok(accepted.is_some())
    }

    pub(crate) async fn report(&self, action: &str) -> Result<PowerReport, PortError> {
        let request = self.request(action, (Method::GET, ""))?;
        let body = self.0.send(action, request).await?;
        let node: Node = serde_json::from_slice(&body).map_err(|_| {
            let url = without_credentials(self.0.url());
            let what = format!("`{url}` is no node with a `power_state`");
            self.0.refused(action, what)
        })?;
        let state = match (&node.power_state, &node.target_power_state) {
            (_, Some(target)) if target == OFF || target == SOFT_OFF => PowerState::PoweringOff,
            (_, Some(_)) => PowerState::PoweringOn,
            (Some(state), None) if state == ON => PowerState::On,
            (Some(state), None) if state == OFF => PowerState::Off,
            (Some(state), None) => {
                let what = format!("Ironic reports the power state `{}`", quoted(state));
                return Err(self.0.failed(action, what));
            }
            (None, None) => {
                let what = "Ironic has not read the power state of the node yet; `baremetal node manage` makes it";
                return Err(self.0.refused(action, what.to_owned()));
            }
        };
        let is_changing = node.target_power_state.is_some();
        let failure = node.last_error.filter(|_| !is_changing);
        let failure =
            failure.map(|why| format!("Ironic: {}", quoted(&self.0.without_password(&why))));
        Ok(PowerReport { state, failure })
    }

    fn request(&self, action: &str, what: (Method, &str)) -> Result<RequestBuilder, PortError> {
        let request = self.0.request(action, what)?;
        Ok(request.header(VERSION.0, VERSION.1))
    }
}
