//! The contract of infrastructure drivers on a real cloud. Calls are interrupted at fewer points than in the simulated world,
//! which is faster; the rules are the same.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use vnfm::SystemClock;
use vnfm_conformance::infra_driver::{Disks, OnVim, RULES, TestBed};
use vnfm_conformance::{Broken, Rule};
use vnfm_openstack::OpenStack;
use vnfm_outbound::Destinations;
use vnfm_types::{LinkSpec, LinkSubnet, OPENSTACK, VimConnectionInfo, VolumeSpec};

use crate::cloud::Cloud;
use crate::contracts::{first_vdu_with_image, sample, sizes, with_image};

/// At how many points a call is interrupted.
pub const MAX_INTERRUPTIONS: usize = 2;
/// Rules that need a sample with volumes.
const WITH_VOLUMES: &[&str] = &[
    "an_instance_returns_to_a_stored_state",
    "a_snapshot_outlives_its_instance",
    "an_interrupted_snapshot_is_completed_or_deleted",
    "an_interrupted_return_is_completed",
];
/// Rules that create more than one instance, replace or interrupt something, or repeat what another rule does once: on a
/// cloud they take minutes.
const LONG: &[&str] = &[
    "a_plan_of_what_exists_keeps_everything",
    "what_a_plan_says_of_another_size_happens",
    "a_repeated_creation_of_a_snapshot_stores_nothing_more",
    "an_interrupted_snapshot_is_completed_or_deleted",
    "an_interrupted_return_is_completed",
    "what_a_plan_says_of_a_snapshot_happens",
    "an_interrupted_creation_is_adopted",
    "a_partial_creation_is_released_without_a_handle",
    "an_interrupted_release_is_completed",
    "only_the_named_vnfcs_are_replaced",
    "a_repeated_replacement_replaces_nothing_more",
    "an_interrupted_replacement_is_completed",
    "a_change_of_size_keeps_the_other_vnfcs",
    "an_interrupted_change_of_size_is_completed",
    "an_interrupted_change_of_size_is_reversed",
    "a_repeated_stop_and_start_changes_nothing",
    "an_interrupted_stop_is_completed_or_reversed",
    "a_single_vnfc_is_stopped",
    "a_change_leaves_a_stopped_instance_stopped",
    "a_call_ends_at_its_deadline",
    "an_observation_changes_nothing",
    "each_call_holds_a_slot",
    "no_secret_is_revealed",
    "resources_of_another_installation_are_not_touched",
];

/// Tests these rules, and prints how long each took.
///
/// # Errors
/// Every rule that the driver broke, with the reason.
pub async fn check<F: Future<Output = Arc<dyn TestBed>>>(
    rules: impl Iterator<Item = &'static Rule<Arc<dyn TestBed>>>,
    fresh: impl Fn(&'static Rule<Arc<dyn TestBed>>) -> F,
) -> Result<(), Vec<Broken>> {
    let mut broken = Vec::new();
    for rule in rules {
        let began = std::time::Instant::now();
        let tried = vnfm_conformance::check(std::slice::from_ref(rule), || fresh(rule)).await;
        eprintln!("{:>6.1} s  {}", began.elapsed().as_secs_f64(), rule.name);
        broken.extend(tried.err());
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(broken)
    }
}

/// The volumes of servers, as the disks of their VNFCs: the stack's Cinder keeps each in a file.
fn volumes(clouds: &Path) -> Disks {
    let folder = clouds.parent().unwrap().join("state/cinder/volumes");
    let files = move |cloud: &Cloud, server: &str| -> Vec<PathBuf> {
        let volumes = cloud.volumes_of(server).into_iter();
        let files = volumes.map(|id| folder.join(format!("volume-{id}")));
        files.collect()
    };
    let (reader, writer) = (Cloud::login(clouds), Cloud::login(clouds));
    let to_read = files.clone();
    Disks {
        read: Box::new(move |server| {
            let file = to_read(&reader, server).into_iter().next()?;
            Some(std::fs::read_to_string(file).unwrap())
        }),
        write: Box::new(move |server, text| {
            for file in files(&writer, server) {
                std::fs::write(file, text).unwrap();
            }
        }),
    }
}

/// A network of its own that outlives instances.
fn link() -> LinkSpec {
    let subnet = |cidr: &str| LinkSubnet {
        cidr: cidr.into(),
        // No agent creates a port at a time of its own.
        dhcp_enabled: Some(false),
        ..LinkSubnet::default()
    };
    LinkSpec {
        name: "shared-by-rules".into(),
        subnets: vec![subnet("10.77.0.0/24"), subnet("fd00:77::/64")],
        ..LinkSpec::default()
    }
}

/// A volume of the cloud's default type.
fn volume() -> VolumeSpec {
    VolumeSpec {
        virtual_storage_desc_id: "data".into(),
        size_gib: 1,
        ..VolumeSpec::default()
    }
}

fn openstack(clouds: &Path, has_volumes: bool) -> Arc<dyn TestBed> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let file: Value = serde_yaml::from_str(&std::fs::read_to_string(clouds).unwrap()).unwrap();
    let cloud = &file["clouds"]["nfv"];
    let auth = &cloud["auth"];
    let login = |password: Value| {
        VimConnectionInfo::new(OPENSTACK)
            .interface("endpoint", auth["auth_url"].clone())
            .access("username", auth["username"].clone())
            .access("password", password)
            .access("project", auth["project_name"].clone())
            .access("userDomain", auth["user_domain_id"].clone())
            .access("projectDomain", auth["project_domain_id"].clone())
            .access("region", cloud["region_name"].clone())
    };
    let past = Cloud::login(clouds);
    let running = Cloud::login(clouds);
    let network = past.network();
    let fill = |request: &str| {
        request
            .replace("@NETWORK_ID@", &network)
            .replace("@VIM_ID@", "vim")
    };
    let small = if has_volumes {
        "vnf-ha-pair"
    } else {
        "vnf-script-hooks"
    };
    let what = sample(small, fill);
    let levels = sample("vnf-levels", |request| {
        fill(request).replace("\"town\"", "\"trial\"")
    });
    let driver = OpenStack::new(Arc::new(SystemClock), Destinations::anywhere());
    let infeasible = with_image(&what, &first_vdu_with_image(&what));
    let right = login(auth["password"].clone());
    Arc::new(OnVim {
        wrong_login: Some(login("a wrong password".into())),
        infeasible: Some(infeasible),
        sizes: Some(sizes(&levels, "web")),
        max_interruptions: MAX_INTERRUPTIONS,
        link: Some(link()),
        volume: Some(volume()),
        disks: has_volumes.then(|| volumes(clouds)),
        snapshots_hold_volumes: has_volumes,
        running: Box::new(move || {
            let all = running.list("compute", "/servers?status=ACTIVE", "servers");
            let ids = all.iter().filter_map(|one| one["id"].as_str());
            ids.map(ToOwned::to_owned).collect()
        }),
        ..OnVim::new((driver, Arc::new(SystemClock)), right, what, move || {
            past.inventory(Path::new("/nowhere")).into_iter().collect()
        })
    })
}

/// Tests the rules on the cloud that take long there, or the others.
///
/// # Errors
/// Every rule that the driver broke, with the reason.
pub async fn check_on_cloud(clouds: &Path, long: bool) -> Result<(), Vec<Broken>> {
    let past = Cloud::login(clouds);
    let before = past.inventory(Path::new("/nowhere"));
    let rules = RULES
        .iter()
        .filter(|rule| LONG.contains(&rule.name) == long);
    let fresh =
        |rule: &'static Rule<_>| async { openstack(clouds, WITH_VOLUMES.contains(&rule.name)) };
    let outcome = check(rules, fresh).await;
    if outcome.is_err() {
        past.delete_stacks(&before);
    }
    outcome
}
