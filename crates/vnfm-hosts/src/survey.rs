//! Facts and leases of all hosts of an inventory, read at the same time.

use crate::errors::UNRESPONSIVE;
use crate::facts::Facts;
use crate::host_inventory::{HostInventory, InventoryHost};
use crate::host_lease::{Lease, Leased};
use crate::script::HostState;
use crate::session::Session;
use futures::StreamExt as _;
use futures::stream;
use vnfm_core::ports::{Ownership, PortError};

/// Hosts that are read at the same time.
const MAX_CONCURRENT_HOSTS: usize = 16;

/// A host, and what it answered.
pub(crate) struct SurveyedHost {
    pub(crate) host: InventoryHost,
    /// The error: it does not respond, refuses the login or prints something invalid.
    pub(crate) state: Result<HostState, PortError>,
}

/// All hosts of an inventory.
pub(crate) struct Survey {
    pub(crate) inventory: HostInventory,
    /// In the order of the inventory.
    pub(crate) hosts: Vec<SurveyedHost>,
}

impl Survey {
    /// Reads every host.
    ///
    /// # Errors
    ///
    /// The inventory is invalid, or the deadline has passed. That a host does not respond is no error.
    pub(crate) async fn read(session: &Session<'_>) -> Result<Self, PortError> {
        session.time_left(std::time::Duration::MAX)?;
        let inventory = session.inventory().await?;
        let reads = stream::iter(inventory.hosts.clone()).map(|host| async move {
            let state = session.read(&host).await;
            SurveyedHost { host, state }
        });
        let hosts = reads.buffered(MAX_CONCURRENT_HOSTS).collect().await;
        Ok(Self { inventory, hosts })
    }

    pub(crate) fn host(&self, name: &str) -> Option<&SurveyedHost> {
        self.hosts.iter().find(|one| one.host.name() == name)
    }

    /// Hosts that answer and have no lease.
    pub(crate) fn free(&self) -> impl Iterator<Item = (&InventoryHost, &Facts)> {
        self.hosts.iter().filter_map(|one| {
            let state = one.state.as_ref().ok()?;
            (state.leased == Leased::Free).then_some((&one.host, &state.facts))
        })
    }

    /// Hosts that answer and have a lease, each with the line in the file.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (&InventoryHost, &Lease, &str)> {
        self.hosts
            .iter()
            .filter_map(|one| match &one.state.as_ref().ok()?.leased {
                Leased::By(lease, line) => Some((&one.host, &**lease, line.as_str())),
                Leased::Free | Leased::Unreadable => None,
            })
    }

    /// The leases of an instance.
    pub(crate) fn leases_of<'a>(
        &'a self,
        owner: &'a Ownership,
    ) -> impl Iterator<Item = (&'a InventoryHost, &'a Lease, &'a str)> {
        self.leases().filter(|(_, lease, _)| lease.is_of(owner))
    }

    /// Hosts that do not answer, each with the error.
    pub(crate) fn silent(&self) -> impl Iterator<Item = (&InventoryHost, &PortError)> {
        let silent = |one: &'_ SurveyedHost| one.state.as_ref().err().is_some();
        let silent = self.hosts.iter().filter(move |one| silent(one));
        silent.filter_map(|one| Some((&one.host, one.state.as_ref().err()?)))
    }

    /// An error if no host answers: that of the first host.
    pub(crate) fn require_answer(&self) -> Result<(), PortError> {
        let mut errors = self.silent().map(|(_, error)| error);
        match errors.next() {
            Some(first) if self.hosts.len() == 1 + errors.count() => {
                let all = "no host of the inventory answers";
                Err(first.clone().with_detail(all))
            }
            _ => Ok(()),
        }
    }

    /// An error about a host that must answer and does not.
    pub(crate) fn silence(&self, name: &str) -> PortError {
        if let Some(Err(error)) = self.host(name).map(|one| &one.state) {
            return error.clone();
        }
        let action = format!("reach the host `{name}`");
        PortError::new(&UNRESPONSIVE, action, "it does not respond").on(name)
    }
}
