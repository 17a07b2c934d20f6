//! HTTP calls to what switches a host, a Redfish service or Ironic: a slot, a time limit and a bounded response for each.

use crate::errors::{POWER, POWER_REFUSED};
use crate::host_inventory::{HostInventory, InventoryHost};
use crate::power_switch::PowerLogin;
use crate::session::Session;
use std::time::Duration;
use vnfm_core::ports::{Code, PortError};
use vnfm_outbound::{
    Client, Method, Policy, RequestBuilder, Response, StatusCode, error_chain, is_forbidden, read,
};

/// Limits of calls to a BMC, which is slower than a cloud and says less.
const POLICY: Policy = Policy {
    body: 1 << 20,
    values: 50_000,
    total: Duration::from_mins(1),
    stalled: Duration::from_mins(1),
};

/// A resource of a power service, with the login for it.
pub(crate) struct PowerApi<'a> {
    session: Session<'a>,
    host: &'a InventoryHost,
    client: Client,
    url: &'a str,
    login: Option<&'a PowerLogin>,
}

impl<'a> PowerApi<'a> {
    pub(crate) fn new(
        session: Session<'a>,
        inventory: &HostInventory,
        host: &'a InventoryHost,
        (url, login): (&'a str, Option<&'a PowerLogin>),
    ) -> Result<Self, PortError> {
        let client = Client::trusting(session.to.clone(), POLICY, &inventory.trust, None);
        let client = client.map_err(|why| {
            let action = format!("call the power switch of the host `{}`", host.name());
            PortError::new(&POWER_REFUSED, action, why).on(host.name())
        })?;
        Ok(Self {
            session,
            host,
            client,
            url: url.trim_end_matches('/'),
            login,
        })
    }

    /// A request for what is at `path` below the resource, with the login.
    pub(crate) fn request(
        &self,
        action: &str,
        (method, path): (Method, &str),
    ) -> Result<RequestBuilder, PortError> {
        let url = format!("{}{path}", self.url);
        let request = self.client.request(method, &url);
        let request = request.map_err(|why| self.refused(action, why.to_string()))?;
        Ok(match self.login {
            Some(login) => request.basic_auth(&login.user, Some(login.password.reveal())),
            None => request,
        })
    }

    /// Sends a request; returns the body of the response.
    ///
    /// # Errors
    ///
    /// [`POWER`] if a repetition may succeed, else [`POWER_REFUSED`].
    pub(crate) async fn send(
        &self,
        action: &str,
        request: RequestBuilder,
    ) -> Result<Vec<u8>, PortError> {
        let body = self.try_send(action, request).await?;
        body.ok_or_else(|| self.failed(action, "it responds 409".to_owned()))
    }

    /// As [`Self::send`]; `None` if the response is 409: something else is being done with the resource.
    pub(crate) async fn try_send(
        &self,
        action: &str,
        request: RequestBuilder,
    ) -> Result<Option<Vec<u8>>, PortError> {
        let limit = self.session.time_left(POLICY.total)?;
        let slot = self
            .session
            .vim
            .acquire_slot(action, Some(self.session.watcher))
            .await;
        let outcome = request.timeout(limit).send().await;
        slot.ended(outcome.is_ok());
        match outcome {
            Ok(response) if response.status() == StatusCode::CONFLICT => Ok(None),
            Ok(response) => self.body(action, response).await.map(Some),
            Err(error) if is_forbidden(&error) => Err(self.refused(action, error_chain(&error))),
            Err(error) => Err(self.failed(action, error_chain(&error))),
        }
    }

    async fn body(&self, action: &str, response: Response) -> Result<Vec<u8>, PortError> {
        let status = response.status();
        let what = format!("it responds {}", status.as_u16());
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(self.failed(action, what));
        }
        if !status.is_success() {
            return Err(self.refused(action, what));
        }
        let bytes = read(response, self.client.policy()).await;
        bytes
            .map(|bytes| bytes.to_vec())
            .map_err(|why| self.failed(action, why.to_string()))
    }

    /// A repetition may succeed.
    pub(crate) fn failed(&self, action: &str, what: String) -> PortError {
        self.error(&POWER, action, what)
    }

    pub(crate) fn refused(&self, action: &str, what: String) -> PortError {
        self.error(&POWER_REFUSED, action, what)
    }

    fn error(&self, code: &'static Code, action: &str, what: String) -> PortError {
        PortError::new(code, action, what).on(self.host.name())
    }

    /// The URL of the system or node, without a slash at its end.
    pub(crate) fn url(&self) -> &str {
        self.url
    }

    /// The text without the password of the login.
    pub(crate) fn without_password(&self, text: &str) -> String {
        match self.login.map(|login| login.password.reveal()) {
            Some(password) if !password.is_empty() => text.replace(password, "…"),
            _ => text.to_owned(),
        }
    }
}
