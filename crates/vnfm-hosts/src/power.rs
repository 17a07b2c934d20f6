//! Switches a host on and off through its BMC.
//!
//! A BMC answers at once and acts within seconds, so the state is read until it is the wanted one.

use crate::errors::POWER;
use crate::host_inventory::{HostInventory, InventoryHost};
use crate::ipmi::Ipmi;
use crate::redfish::Redfish;
use crate::session::Session;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use vnfm_core::ports::{Backoff, PortError, Stop};

/// The power switch of a host.
pub(crate) struct Power<'a> {
    session: Session<'a>,
    host: &'a InventoryHost,
    bmc: Bmc<'a>,
}

/// The protocol of a BMC.
enum Bmc<'a> {
    Redfish(Redfish<'a>),
    Ipmi(Ipmi<'a>),
}

/// The state of a host, as `PowerState` of Redfish spells it; IPMI knows the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum PowerState {
    On,
    Off,
    PoweringOn,
    PoweringOff,
    Paused,
}

/// What a BMC is requested to do, as `ResetType` of Redfish spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Reset {
    On,
    ForceOff,
    GracefulShutdown,
}

impl Reset {
    fn wanted(self) -> PowerState {
        match self {
            Self::On => PowerState::On,
            Self::ForceOff | Self::GracefulShutdown => PowerState::Off,
        }
    }
}

impl<'a> Power<'a> {
    /// The switch of a host; `None`: the inventory has none.
    pub(crate) fn switch_of(
        session: &Session<'a>,
        inventory: &HostInventory,
        host: &'a InventoryHost,
    ) -> Result<Option<Self>, PortError> {
        let entry = &host.entry;
        let bmc = if let Some(url) = &entry.redfish {
            Bmc::Redfish(Redfish::new(*session, inventory, (host, url.as_str()))?)
        } else if let Some(bmc) = &entry.ipmi {
            Bmc::Ipmi(Ipmi::new(*session, host, bmc)?)
        } else {
            return Ok(None);
        };
        let session = *session;
        Ok(Some(Self { session, host, bmc }))
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
        if self.state().await? == wanted {
            return Ok(());
        }
        let action = format!(
            "switch `{wanted:?}` the host `{}` by {}",
            self.host.name(),
            self.bmc.protocol()
        );
        self.session.watcher.waiting(&action);
        match &self.bmc {
            Bmc::Redfish(bmc) => bmc.reset(&action, reset).await?,
            Bmc::Ipmi(bmc) => bmc.reset(&action, reset).await?,
        }
        let Some((clock, deadline)) = self.session.deadline else {
            return Ok(());
        };
        let latest = timeout.and_then(|timeout| clock.now().checked_add(timeout).ok());
        let deadline = latest.map_or(deadline, |latest| latest.min(deadline));
        let interval = self.bmc.poll_interval();
        let mut backoff = Backoff::new(clock, self.session.watcher, deadline, interval);
        loop {
            let state = self.state().await?;
            if state == wanted {
                return Ok(());
            }
            let paused = backoff.pause(&action).await;
            // Without time to read it again, this state is the last one.
            if paused.is_err() || self.session.time_left(interval).is_err() {
                let what = format!("the host is `{state:?}`");
                return Err(PortError::new(&POWER, action, what).on(self.host.name()));
            }
        }
    }

    async fn state(&self) -> Result<PowerState, PortError> {
        let (host, protocol) = (self.host.name(), self.bmc.protocol());
        let action = format!("read the power state of the host `{host}` by {protocol}");
        match &self.bmc {
            Bmc::Redfish(bmc) => bmc.state(&action).await,
            Bmc::Ipmi(bmc) => bmc.state(&action).await,
        }
    }
}

impl Bmc<'_> {
    fn protocol(&self) -> &'static str {
        match self {
            Self::Redfish(_) => "Redfish",
            Self::Ipmi(_) => "IPMI",
        }
    }

    /// About how often the power state is read. Some BMCs fail under more than one IPMI session in 5 s.
    fn poll_interval(&self) -> Duration {
        match self {
            Self::Redfish(_) => Duration::from_secs(2),
            Self::Ipmi(_) => Duration::from_secs(5),
        }
    }
}
