//! The driver against a real API server with controllers, scheduler and simulated nodes, named by
//! `VNFM_LIVE_KUBECONFIG`. Without one the tests are skipped with a message, and fail if `VNFM_REQUIRE_LIVE=1`.

#[cfg(test)]
mod asd_charts;
#[cfg(test)]
mod attachments;
#[cfg(test)]
mod capabilities;
#[cfg(test)]
mod chart_tests;
#[cfg(test)]
mod charts;
#[cfg(test)]
mod deploy;
#[cfg(test)]
mod empty_volume_scenarios;
#[cfg(test)]
mod empty_volumes;
#[cfg(test)]
mod heal;
#[cfg(test)]
mod helm_account;
#[cfg(test)]
mod images;
#[cfg(test)]
mod kubevirt;
#[cfg(test)]
mod links;
#[cfg(test)]
mod login;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod multus;
#[cfg(test)]
mod named_charts;
#[cfg(test)]
mod networks;
#[cfg(test)]
mod outage;
#[cfg(test)]
mod pending_claims;
#[cfg(test)]
mod pod_events;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod real;
#[cfg(test)]
mod remove;
#[cfg(test)]
mod requested;
#[cfg(test)]
mod retained_volumes;
#[cfg(test)]
#[path = "../../../vnfm-registry/tests/it/running.rs"]
mod running;
#[cfg(test)]
mod scale;
#[cfg(test)]
mod snapshots;
#[cfg(test)]
mod stand_in;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tosca_only;
#[cfg(test)]
mod unbound_claims;
#[cfg(test)]
mod volumes;

use kube::config::Kubeconfig;
use std::sync::Arc;

/// Whether a deleted `hostPath` volume is deleted on the disk: the controllers run on this host.
#[cfg(test)]
const HAS_DISKS: bool = true;

const KUBECONFIG: &str = "VNFM_LIVE_KUBECONFIG";

#[cfg(test)]
async fn cluster() -> Option<(Kubeconfig, support::Keep)> {
    let Ok(path) = std::env::var(KUBECONFIG) else {
        let required = std::env::var("VNFM_REQUIRE_LIVE").is_ok_and(|value| value == "1");
        assert!(
            !required,
            "{KUBECONFIG} names no cluster, and VNFM_REQUIRE_LIVE=1 forbids to skip"
        );
        eprintln!("SKIPPED: {KUBECONFIG} names no cluster");
        return None;
    };
    let read = move || Kubeconfig::read_from(path).expect("the kubeconfig is readable");
    Some((
        tokio::task::spawn_blocking(read).await.expect("it is read"),
        Arc::new(()),
    ))
}
