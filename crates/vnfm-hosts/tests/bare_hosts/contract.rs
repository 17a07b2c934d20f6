//! The driver meets the contract of infrastructure drivers, on simulated hosts and on real OpenSSH servers.

use crate::bmc::{self, Bmc};
use crate::sshd::Sshd;
use crate::support::{RealClock, SimulatedHosts, sample, with_forwarders};
use crate::switched;
use serde_json::json;
use std::sync::Arc;
use vnfm_conformance::check;
use vnfm_conformance::infra_driver::{OnVim, RULES, TestBed};
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, Clock, Granted};
use vnfm_hosts::BareHosts;
use vnfm_outbound::Destinations;
use vnfm_types::VimConnectionInfo;

/// The sample with an image that the NFVO prescribes.
fn infeasible() -> Allocation {
    let what = sample();
    let images = [("control".to_owned(), "no-such-image".to_owned())].into();
    let placement = Granted {
        images,
        ..Granted::default()
    };
    let deployment = Deployment {
        placement,
        ..Deployment::clone(&what.deployment)
    };
    Allocation {
        deployment: Arc::new(deployment),
        ..what
    }
}

fn bed(
    login: VimConnectionInfo,
    wrong: VimConnectionInfo,
    resources: impl Fn() -> Vec<String> + Send + Sync + 'static,
) -> Arc<dyn TestBed> {
    let clock: Arc<dyn Clock> = Arc::new(RealClock);
    let driver = BareHosts::new(Destinations::anywhere());
    Arc::new(OnVim {
        wrong_login: Some(wrong),
        infeasible: Some(infeasible()),
        sizes: Some([with_forwarders(1), with_forwarders(2)]),
        ..OnVim::new((driver, clock), login, sample(), resources)
    })
}

/// Simulated hosts with power switches, of which one is free while an instance exists.
async fn simulated() -> Arc<dyn TestBed> {
    let hosts = Arc::new(SimulatedHosts::start(4).await);
    let bmc = Bmc::start(hosts.clone()).await;
    let right = hosts.inventory(|name| json!({"redfish": bmc.system(name)}));
    let right = right
        .access("redfishUsername", bmc::USER)
        .access("redfishPassword", bmc::PASSWORD);
    let wrong = right.clone().access("password", "a wrong password");
    Arc::new(OnVim {
        wrong_login: Some(wrong),
        infeasible: Some(infeasible()),
        sizes: Some([with_forwarders(1), with_forwarders(2)]),
        ..switched::bed(hosts, right)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_meets_the_contract_on_simulated_hosts() {
    check(RULES, simulated).await.unwrap();
}

/// The rules about starting and stopping, for which OpenSSH servers have no power switch.
pub(crate) const POWER_RULES: [&str; 5] = [
    "a_stopped_instance_is_started_again",
    "a_repeated_stop_and_start_changes_nothing",
    "an_interrupted_stop_is_completed_or_reversed",
    "a_single_vnfc_is_stopped",
    "a_change_leaves_a_stopped_instance_stopped",
];

/// Real hosts, of which none is free while an instance is healed, so that it stays where it is.
fn real() -> Arc<dyn TestBed> {
    let hosts: Vec<Sshd> = (0..3).map(|_| Sshd::start().unwrap()).collect();
    let right = Sshd::inventory(&hosts);
    let stranger = Sshd::start().unwrap();
    let wrong = right.clone().access("privateKey", stranger.login_key());
    let wrong = VimConnectionInfo {
        access_info: [
            ("username".to_owned(), wrong.access_info["username"].clone()),
            (
                "privateKey".to_owned(),
                wrong.access_info["privateKey"].clone(),
            ),
        ]
        .into_iter()
        .collect(),
        ..wrong
    };
    bed(right, wrong, move || {
        let leased = hosts.iter().filter(|host| host.lease().is_some());
        leased.map(|host| host.name.clone()).collect()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_meets_the_contract_on_openssh_servers() {
    if Sshd::start().is_none() {
        return;
    }
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    for rule in RULES
        .iter()
        .filter(|rule| !POWER_RULES.contains(&rule.name))
    {
        let outcome = rule.holds(real()).await;
        outcome.unwrap_or_else(|why| panic!("`{}`: {}: {why}", rule.name, rule.says()));
    }
}
