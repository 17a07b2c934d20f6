//! Hosts with power switches: hosts that are off serve when they are needed, and dead ones are switched off before they are
//! replaced.

use crate::bmc::{Bmc, PASSWORD, Sushy, USER};
use crate::support::{SimulatedHosts, Site, hosts_of, owner, sample, stopped, with_forwarders};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{ErrorKind, Stop};
use vnfm_types::VimConnectionInfo;

fn with_login(info: VimConnectionInfo) -> VimConnectionInfo {
    info.access("redfishUsername", USER)
        .access("redfishPassword", PASSWORD)
}

/// Simulated hosts that all have a power switch.
async fn switchable(count: u8) -> (Arc<SimulatedHosts>, Bmc, Site) {
    let hosts = Arc::new(SimulatedHosts::start(count).await);
    let bmc = Bmc::start(hosts.clone()).await;
    let info = hosts.inventory(|name| json!({"redfish": bmc.system(name)}));
    let site = Site::new(with_login(info));
    (hosts, bmc, site)
}

fn resets(bmc: &Bmc) -> Vec<String> {
    let calls = bmc.calls.lock().unwrap();
    let posts = calls.iter().filter(|call| call.starts_with("POST"));
    posts
        .map(|call| call.split("/Systems/").nth(1).unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_are_off_are_switched_on_when_they_are_needed() {
    let (hosts, bmc, site) = switchable(4).await;
    hosts
        .names
        .iter()
        .for_each(|name| hosts.world.hosts().power_off(name));
    let owner = owner();
    site.preview(&owner, &sample()).await.unwrap();
    let record = site.create(&owner, &sample()).await.unwrap();
    assert_eq!(hosts_of(&record).len(), 2);
    assert_eq!(
        resets(&bmc).len(),
        2,
        "no more hosts than needed: {:?}",
        resets(&bmc)
    );
    // A host of the VNF that went off is switched on, and remains the VNFC that it was.
    hosts.world.hosts().power_off(&hosts_of(&record)[0]);
    let same = site.update(&owner, (&sample(), &record)).await.unwrap();
    assert_eq!(same.handle, record.handle);
    hosts.world.hosts().power_off(&hosts_of(&record)[1]);
    site.release(&owner, record.handle).await.unwrap();
    assert!(
        hosts.leased().is_empty(),
        "a host that was off is wiped, too"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_host_is_switched_off_before_another_takes_its_place() {
    let (hosts, bmc, site) = switchable(3).await;
    let (owner, what) = (owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    let silent = hosts_of(&record)[1].clone();
    // It runs, and nobody can log in: its network is cut.
    let right = site.info.lock().unwrap().clone();
    let mut entries = right.interface_info["hosts"].clone();
    for entry in entries.as_array_mut().unwrap() {
        if entry["name"] == json!(silent) {
            entry["sshPort"] = json!(1);
        }
    }
    *site.info.lock().unwrap() = right.interface("hosts", entries);
    let vnfc = record.inventory.vnfc_resource_info[1].id.clone();
    let healed = site.heal(&owner, (&what, &record), &vnfc).await.unwrap();
    assert!(!hosts_of(&healed).contains(&silent));
    let off = format!("{silent}/Actions/ComputerSystem.Reset {{\"ResetType\":\"ForceOff\"}}");
    assert_eq!(resets(&bmc), [off]);
    assert!(!hosts.world.hosts().running().contains(&silent));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_another_host_a_dead_one_is_power_cycled_wiped_and_leased_again() {
    let (hosts, bmc, site) = switchable(2).await;
    let (owner, what) = (owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    let dead = hosts_of(&record)[1].clone();
    hosts.world.hosts().power_off(&dead);
    let vnfc = record.inventory.vnfc_resource_info[1].id.clone();
    let healed = site.heal(&owner, (&what, &record), &vnfc).await.unwrap();
    assert_eq!(hosts_of(&healed), hosts_of(&record));
    assert_ne!(healed.inventory.vnfc_resource_info[1].id, vnfc);
    let on = format!("{dead}/Actions/ComputerSystem.Reset {{\"ResetType\":\"On\"}}");
    assert_eq!(resets(&bmc), [on]);
    assert_eq!(
        hosts.lease(&dead)["vnfc"],
        json!(healed.inventory.vnfc_resource_info[1].id)
    );
    let error = site
        .update(&owner, (&with_forwarders(2), &healed))
        .await
        .unwrap_err();
    assert_eq!(error.name(), "hosts.none-free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bmc_that_refuses_the_login_is_named_without_the_password() {
    let (hosts, _bmc, site) = switchable(2).await;
    let wrong = site
        .info
        .lock()
        .unwrap()
        .clone()
        .access("redfishPassword", "a wrong one");
    *site.info.lock().unwrap() = wrong;
    hosts.world.hosts().power_off("node-1");
    let error = site.create(&owner(), &sample()).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Refused, "hosts.power-refused"),
        "{text}"
    );
    assert!(text.contains("node-1") && text.contains("401"), "{text}");
    assert!(!text.contains("a wrong one"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_switched_off_through_the_real_emulator() {
    let Some(sushy) = Sushy::start("On").await else {
        return;
    };
    let hosts = SimulatedHosts::start(3).await;
    let info = hosts.inventory(|_| json!({"redfish": sushy.system}));
    let (site, owner, what) = (Site::new(with_login(info)), owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    hosts.world.hosts().power_off(&hosts_of(&record)[1]);
    let vnfc = record.inventory.vnfc_resource_info[1].id.clone();
    site.heal(&owner, (&what, &record), &vnfc).await.unwrap();
    assert_eq!(sushy.power_state().await.as_deref(), Some("Off"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_switched_on_through_the_real_emulator() {
    let Some(sushy) = Sushy::start("Off").await else {
        return;
    };
    let hosts = Arc::new(SimulatedHosts::start(2).await);
    let system = sushy.system.clone();
    let info = hosts.inventory(|name| match name {
        "node-2" => json!({"redfish": system}),
        _ => json!({}),
    });
    let site = Site::new(with_login(info));
    hosts.world.hosts().power_off("node-2");
    // The host boots when the emulator says that it is on.
    let boots = async {
        let mut pace = tokio::time::interval(Duration::from_millis(100));
        while sushy.power_state().await.as_deref() != Some("On") {
            pace.tick().await;
        }
        hosts.world.hosts().power_on("node-2").await.unwrap();
    };
    let (owner, what) = (owner(), sample());
    let (record, ()) = tokio::join!(site.create(&owner, &what), boots);
    assert_eq!(hosts_of(&record.unwrap()).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_stop_asks_the_host_to_shut_down() {
    let (hosts, bmc, site) = switchable(2).await;
    let (owner, what) = (owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    let stop = Stop::Graceful(Some(Duration::from_secs(5)));
    let stopped = site
        .operate(&owner, (&stopped(&what), &record), stop)
        .await
        .unwrap();
    assert!(hosts.world.hosts().running().is_empty());
    let graceful = |call: &String| call.ends_with("{\"ResetType\":\"GracefulShutdown\"}");
    assert!(resets(&bmc).iter().all(graceful), "{:?}", resets(&bmc));
    let started = site
        .operate(&owner, (&what, &stopped), Stop::Forceful)
        .await
        .unwrap();
    assert_eq!(started.inventory, record.inventory);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_switch_is_not_stopped_and_can_be_started() {
    let hosts = SimulatedHosts::start(2).await;
    let (site, owner, what) = (hosts.site(), owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    let same = site
        .operate(&owner, (&what, &record), Stop::Forceful)
        .await
        .unwrap();
    assert_eq!(same.inventory, record.inventory);
    let error = site
        .operate(&owner, (&stopped(&what), &record), Stop::Forceful)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.name()),
        (ErrorKind::Refused, "hosts.no-switch")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_vnf_that_is_stopped_is_off_again() {
    let (hosts, _bmc, site) = switchable(3).await;
    let (owner, what) = (owner(), sample());
    let record = site.create(&owner, &what).await.unwrap();
    site.operate(&owner, (&stopped(&what), &record), Stop::Forceful)
        .await
        .unwrap();
    let error = site
        .create(&crate::support::owner(), &what)
        .await
        .unwrap_err();
    assert_eq!(error.name(), "hosts.none-free", "{error}");
    let running = hosts.world.hosts().running();
    assert!(
        hosts_of(&record).iter().all(|host| !running.contains(host)),
        "{running:?}"
    );
}
