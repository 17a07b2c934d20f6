//! Switches a host on and off, through its BMC or through Ironic.
//!
//! Both answer at once and act within seconds, so the state is read until it is the wanted one.

use crate::errors::POWER;
use crate::host_inventory::{HostInventory, InventoryHost};
use crate::ipmi::Ipmi;
use crate::ironic::Ironic;
use crate::power_api::PowerApi;
use crate::power_state::{PowerReport, Reset};
use crate::power_switch::PowerSwitch;
use crate::redfish::Redfish;
use crate::session::Session;
use std::time::Duration;
use vnfm_core::ports::{Backoff, PortError, Stop};

/// The power switch of a host.
pub(crate) struct Power<'a> {
    session: Session<'a>,
    host: &'a InventoryHost,
    /// How errors and the log call it.
    name: &'static str,
    by: Protocol<'a>,
}

/// How a host is switched.
enum Protocol<'a> {
    Redfish(Redfish<'a>),
    Ipmi(Ipmi<'a>),
    Ironic(Ironic<'a>),
}

impl<'a> Power<'a> {
    /// The switch of a host; `None`: the inventory has none.
    pub(crate) fn switch_of(
        session: &Session<'a>,
        inventory: &HostInventory,
        host: &'a InventoryHost,
    ) -> Result<Option<Self>, PortError> {
        let Some(switch) = &host.switch else {
            return Ok(None);
        };
        let api = |url, login| PowerApi::new(*session, inventory, host, (url, login));
        let by = match switch {
            PowerSwitch::Redfish(url, login) => {
                Protocol::Redfish(Redfish(api(url, login.as_ref())?))
            }
            PowerSwitch::Ironic(url, login) => Protocol::Ironic(Ironic(api(url, login.as_ref())?)),
            PowerSwitch::Ipmi(bmc, login) => {
                Protocol::Ipmi(Ipmi::new(*session, host, (bmc, login)))
            }
        };
        let name = switch.name();
        let session = *session;
        Ok(Some(Self {
            session,
            host,
            name,
            by,
        }))
    }

    /// Switches the host off at once.
    pub(crate) async fn switch_off(&self) -> Result<(), PortError> {
        self.switch(Reset::ForceOff, None).await
    }

    /// Switches the host off, or asks its operating system to shut down first.
    pub(crate) async fn stop(&self, how: Stop) -> Result<(), PortError> {
        if let Stop::Graceful(timeout) = how {
            let graceful = self.switch(Reset::GracefulShutdown, timeout).await;
            match graceful {
                Err(error) if timeout.is_some() && error.is_unavailable() => {}
                ended => return ended,
            }
        }
        self.switch_off().await
    }

    /// Switches the host on; it boots afterwards.
    pub(crate) async fn switch_on(&self) -> Result<(), PortError> {
        self.switch(Reset::On, None).await
    }

    /// Requests a reset unless the host has the wanted state, and waits for that, at most for `timeout`.
    async fn switch(&self, reset: Reset, timeout: Option<Duration>) -> Result<(), PortError> {
        let wanted = reset.wanted();
        let action = format!(
            "switch `{wanted:?}` the host `{}` by {}",
            self.host.name(),
            self.name
        );
        let Some((clock, deadline)) = self.session.deadline else {
            return self.request(&action, (reset, timeout)).await.map(drop);
        };
        let latest = timeout.and_then(|timeout| clock.now().checked_add(timeout).ok());
        let deadline = latest.map_or(deadline, |latest| latest.min(deadline));
        let interval = self.by.poll_interval();
        let mut backoff = Backoff::new(clock, self.session.watcher, deadline, interval);
        let failed = |what| PortError::new(&POWER, &action, what).on(self.host.name());
        let mut is_requested = false;
        loop {
            let PowerReport { state, failure } = self.report().await?;
            if state == wanted {
                return Ok(());
            }
            if !is_requested {
                is_requested = self.request(&action, (reset, timeout)).await?;
            } else if let Some(why) = failure {
                return Err(failed(why));
            }
            let paused = backoff.pause(&action).await;
            // Without time to read it again, this state is the last one.
            if paused.is_err() || self.session.time_left(interval).is_err() {
                return Err(failed(format!("the host is `{state:?}`")));
            }
        }
    }

    /// Requests a reset. `false`: something else is being done with the host, and the request must be repeated.
    async fn request(
        &self,
        action: &str,
        (reset, timeout): (Reset, Option<Duration>),
    ) -> Result<bool, PortError> {
        self.session.watcher.waiting(action);
        match &self.by {
            Protocol::Redfish(bmc) => bmc.reset(action, reset).await.map(|()| true),
            Protocol::Ipmi(bmc) => bmc.reset(action, reset).await.map(|()| true),
            Protocol::Ironic(node) => node.reset(action, (reset, timeout)).await,
        }
    }

    async fn report(&self) -> Result<PowerReport, PortError> {
        let (host, protocol) = (self.host.name(), self.name);
        let action = format!("read the power state of the host `{host}` by {protocol}");
        match &self.by {
            Protocol::Redfish(bmc) => bmc.state(&action).await.map(PowerReport::from),
            Protocol::Ipmi(bmc) => bmc.state(&action).await.map(PowerReport::from),
            Protocol::Ironic(node) => node.report(&action).await,
        }
    }
}

impl Protocol<'_> {
    /// About how often the power state is read. Some BMCs fail under more than one IPMI session in 5 s.
    fn poll_interval(&self) -> Duration {
        match self {
            Self::Redfish(_) | Self::Ironic(_) => Duration::from_secs(2),
            Self::Ipmi(_) => Duration::from_secs(5),
        }
    }
}
