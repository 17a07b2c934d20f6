//! What the tests of all power switches have in common.

use crate::support::{RealClock, SimulatedHosts, Site, hosts_of, owner, sample, stopped};
use std::sync::Arc;
use std::time::Duration;
use vnfm_conformance::infra_driver::OnVim;
use vnfm_core::ports::{Clock, PortError, Stop};
use vnfm_hosts::BareHosts;
use vnfm_outbound::Destinations;
use vnfm_types::VimConnectionInfo;

/// Simulated hosts with power switches, for the contract of infrastructure drivers.
pub(crate) fn bed(hosts: Arc<SimulatedHosts>, info: VimConnectionInfo) -> OnVim<BareHosts> {
    let clock: Arc<dyn Clock> = Arc::new(RealClock);
    let driver = BareHosts::new(Destinations::anywhere());
    let there = hosts.clone();
    OnVim {
        running: Box::new(move || there.world.hosts().running()),
        ..OnVim::new((driver, clock), info, sample(), move || hosts.leased())
    }
}

/// Two simulated hosts that are off.
pub(crate) async fn two_that_are_off() -> Arc<SimulatedHosts> {
    let hosts = Arc::new(SimulatedHosts::start(2).await);
    for name in &hosts.names {
        hosts.world.hosts().power_off(name);
    }
    hosts
}

/// Creates the sample, stops it, and starts it again; what was logged.
pub(crate) async fn on_soft_off_and_on(hosts: &SimulatedHosts, site: &Site) -> String {
    let (owner, what) = (owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    assert_eq!(hosts_of(&record).len(), 2);
    let stop = Stop::Graceful(Some(Duration::from_secs(20)));
    let off = site
        .operate(&owner, (&stopped(&what), &record), stop)
        .await
        .unwrap();
    assert!(hosts.world.hosts().running().is_empty());
    let again = site
        .operate(&owner, (&what, &off), Stop::Forceful)
        .await
        .unwrap();
    assert_eq!(again.inventory, record.inventory);
    site.log.lock().unwrap().join("\n")
}

/// Creates the sample although a host is off; the error, which has no password.
pub(crate) async fn refusal(hosts: &SimulatedHosts, site: Site, password: &str) -> PortError {
    hosts.world.hosts().power_off("node-1");
    let error = site.create(&owner(), &sample()).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("node-1") && !text.contains(password),
        "{text}"
    );
    error
}
