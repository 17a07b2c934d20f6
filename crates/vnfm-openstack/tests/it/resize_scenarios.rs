//! Other sizes of an instance, on a simulated and a real cloud: which servers come and go, and what the others keep.

use crate::support::{TestBed, allocation, existing, sample, sample_folder};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver, PortError, Recorded};
use vnfm_descriptor::{Limits, Package};
use vnfm_types::VnfcResourceInfo;

/// The same instance with this many workers.
pub(crate) fn with_workers(allocation: &Allocation, count: u32) -> Allocation {
    let mut other = allocation.clone();
    let deployment = Arc::make_mut(&mut other.deployment);
    *deployment.vdu_instances.get_mut("workerNode").unwrap() = count;
    other
}

pub(crate) async fn resize(
    bed: &TestBed,
    current: &Recorded,
    target: &Allocation,
) -> Result<Recorded, PortError> {
    let change = Convergence::update(current, target);
    let preview = bed.driver.preview(&bed.call(), &change).await?;
    let converged = bed.driver.converge(&bed.call(), &change, &preview).await;
    converged.map(existing)
}

/// Asserts that each VNFC of `few` is in `many`, to the last member: id, addresses, ports.
pub(crate) fn assert_kept(few: &Recorded, many: &Recorded, added: usize) {
    let (few, many) = (
        &few.inventory.vnfc_resource_info,
        &many.inventory.vnfc_resource_info,
    );
    assert!(
        few.iter().all(|vnfc| many.contains(vnfc)),
        "{few:?} in {many:?}"
    );
    assert_eq!(many.len(), few.len() + added);
}

/// Ids of the workers, in the order of the inventory.
fn workers(recorded: &Recorded) -> Vec<&str> {
    let is_worker = |vnfc: &&VnfcResourceInfo| vnfc.vdu_id == "workerNode";
    let all = recorded.inventory.vnfc_resource_info.iter();
    all.filter(is_worker).map(|vnfc| vnfc.id.as_str()).collect()
}

/// Servers are added and removed: those that were announced, which are the last ones, and no others.
pub(crate) async fn the_announced_servers_go(bed: &TestBed, what: &Allocation, most: u32) {
    let first = bed.instantiate(&with_workers(what, 2)).await.unwrap();
    let large = resize(bed, &first, &with_workers(what, most))
        .await
        .unwrap();
    assert_kept(&first, &large, most as usize - 2);
    let small = resize(bed, &large, &with_workers(what, most - 2))
        .await
        .unwrap();
    assert_kept(&small, &large, 2);
    let left = &workers(&large)[..most as usize - 2];
    assert_eq!(workers(&small), left, "the last ones go");
    bed.release(what, small.handle).await.unwrap();
}

/// A change back to the size of the record removes what the record does not name.
pub(crate) async fn a_rollback_removes_what_was_added(bed: &TestBed, what: &Allocation) {
    let before = bed.instantiate(&with_workers(what, 2)).await.unwrap();
    resize(bed, &before, &with_workers(what, 4)).await.unwrap();
    let after = resize(bed, &before, &with_workers(what, 2)).await.unwrap();
    assert_eq!(after, before);
    bed.release(what, after.handle).await.unwrap();
}

/// The sample with a resource for each VNFC.
pub(crate) fn farm(bed: &TestBed) -> Allocation {
    allocation(sample("vnf-per-vnfc"), farm_request(bed))
}

/// The same with an environment: of a type that is a file of the package, and of a parameter's value. The nested template has a
/// file of its folder as user data.
pub(crate) fn farm_with_environment(bed: &TestBed) -> Allocation {
    let folder = tempfile::tempdir().unwrap();
    copy(&sample_folder("vnf-per-vnfc"), folder.path());
    let templates = folder.path().join("BaseHOT/simple");
    let text = fs::read_to_string(templates.join("top.yaml")).unwrap();
    let changed = text
        .replace("type: web.yaml", "type: Farm::Web")
        .replace("cidr: 10.70.0.0/24", "cidr: {get_param: range}")
        .replace(
            "  nfv: {type: json}",
            "  nfv: {type: json}\n  range: {type: string}",
        );
    assert!(
        changed.contains("Farm::Web") && changed.contains("range: {type"),
        "{changed}"
    );
    fs::write(templates.join("top.yaml"), changed).unwrap();
    let nested = templates.join("nested/web.yaml");
    let text = fs::read_to_string(&nested).unwrap();
    let server = "type: OS::Nova::Server\n    properties:\n";
    let with_file = format!("{server}      user_data: {{get_file: boot.sh}}\n");
    let changed = text.replace(server, &with_file);
    assert!(changed.contains("get_file"), "{changed}");
    fs::write(nested, changed).unwrap();
    fs::write(templates.join("nested/boot.sh"), "#!/bin/sh\ntrue\n").unwrap();
    let environment = "parameter_defaults: {range: 10.71.0.0/24}
resource_registry: {'Farm::Web': nested/web.yaml}
";
    fs::write(templates.join("farm.env"), environment).unwrap();
    let package = Package::open(&folder.keep(), &Limits::default());
    let package = package.unwrap_or_else(|findings| panic!("{findings}"));
    allocation(package, farm_request(bed))
}

/// A type of the environment and its values hold for a creation and an update.
pub(crate) async fn an_environment_holds_for_every_size(bed: &TestBed) {
    let farm = farm_with_environment(bed);
    let first = bed.instantiate(&farm).await.unwrap();
    let large = resize(bed, &first, &with_webs(&farm, 3)).await.unwrap();
    assert_kept(&first, &large, 1);
    let database = &large.inventory.vnfc_resource_info[0].vnfc_cp_info[0];
    let ethernet = database.cp_protocol_info[0].ip_over_ethernet.as_ref();
    let address = &ethernet.unwrap().ip_addresses[0].addresses[0];
    assert!(address.starts_with("10.71.0."), "{address}");
    bed.release(&farm, large.handle).await.unwrap();
}

fn farm_request(bed: &TestBed) -> Value {
    json!({
        "flavourId": "simple",
        "extVirtualLinks": [{
            "id": "external",
            "resourceId": bed.network,
            "extCps": [{"cpdId": "webClients", "cpConfig": {"any": {}}}],
        }],
        "additionalParams": {"nfv": {"VDU": {"web": {"name": "web"}, "web-0": {"name": "first-web"}}}},
    })
}

/// The same farm with this many web servers.
pub(crate) fn with_webs(farm: &Allocation, count: u32) -> Allocation {
    let mut other = farm.clone();
    let deployment = Arc::make_mut(&mut other.deployment);
    *deployment.vdu_instances.get_mut("web").unwrap() = count;
    other
}

/// A VNFC is a resource of its own: new ones have the next indices, the highest go first, and a healed one keeps its index.
pub(crate) async fn each_vnfc_is_a_resource(bed: &TestBed, farm: &Allocation) {
    let first = bed.instantiate(farm).await.unwrap();
    assert_eq!(
        vnfcs(&first),
        [
            ("database", None),
            ("web", Some("first-web")),
            ("web", Some("web"))
        ]
    );
    let large = resize(bed, &first, &with_webs(farm, 4)).await.unwrap();
    assert_kept(&first, &large, 2);
    let small = resize(bed, &large, &with_webs(farm, 3)).await.unwrap();
    assert_kept(&small, &large, 1);
    assert_eq!(ids(&small), ids(&large)[..4], "the highest index goes");
    let target = with_webs(farm, 3);
    let healed = bed.heal(&target, &small, &[ids(&small)[1].clone()]).await;
    let healed = healed.unwrap();
    assert_eq!(vnfcs(&healed), vnfcs(&small));
    assert_eq!(
        [&ids(&healed)[..1], &ids(&healed)[2..]],
        [&ids(&small)[..1], &ids(&small)[2..]]
    );
    assert_ne!(ids(&healed)[1], ids(&small)[1]);
    let back = resize(bed, &healed, farm).await.unwrap();
    assert_kept(&back, &healed, 1);
    bed.release(farm, back.handle).await.unwrap();
}

fn ids(recorded: &Recorded) -> Vec<String> {
    let vnfcs = recorded.inventory.vnfc_resource_info.iter();
    vnfcs.map(|vnfc| vnfc.id.clone()).collect()
}

/// The VDU of each VNFC, and of a web server its name.
fn vnfcs(recorded: &Recorded) -> Vec<(&str, Option<&str>)> {
    let vnfcs = recorded.inventory.vnfc_resource_info.iter();
    vnfcs
        .map(|vnfc| {
            let name = vnfc.metadata["name"].as_str();
            let name = name.filter(|_| vnfc.vdu_id == "web");
            (vnfc.vdu_id.as_str(), name)
        })
        .collect()
}

/// The sample with a Base HOT, with its workers in an auto scaling group.
pub(crate) fn auto_scaling(bed: &TestBed) -> Allocation {
    let folder = tempfile::tempdir().unwrap();
    copy(&sample_folder("vnf-a-k8s-cluster-base-hot"), folder.path());
    let path = folder.path().join("BaseHOT/cluster_install/top.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let changed = text
        .replace("OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup")
        .replace(
            "      count: {get_param: worker_count}\n      resource_def:\n",
            "      desired_capacity: {get_param: worker_count}\n      min_size: 0\n      max_size: 20\n      resource:\n",
        );
    assert!(changed.contains("desired_capacity"), "{text}");
    fs::write(&path, changed).unwrap();
    let package = Package::open(&folder.keep(), &Limits::default());
    let package = package.unwrap_or_else(|findings| panic!("{findings}"));
    allocation(package, bed.cluster_request())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
