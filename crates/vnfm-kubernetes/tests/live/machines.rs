//! A VNF of virtual machines on a cluster: KubeVirt, or what stands in for it, runs them.

use crate::heal::{ids, repair};
use crate::kubevirt::{self, KubeVirt, MACHINES};
use crate::support::{World, package_of};
use futures::future::{Either, select};
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::Arc;
use vnfm_core::ports::{
    Allocation, Convergence, InfraDriver as _, PowerChange, Recorded, ResourceChange, Stop,
};
use vnfm_types::VnfOperationalState::{Started, Stopped};

const VNFD: &str = "    db:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties: {name: db, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}, mcio_identification_data: {name: db, type: VirtualMachine}}
    web:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties: {name: web, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}, mcio_identification_data: {name: web, type: VirtualMachineInstanceReplicaSet}}
    dbCP: {type: tosca.nodes.nfv.VduCp, properties: {layer_protocols: [ipv4], order: 0}, requirements: [virtual_binding: db]}
    webCP: {type: tosca.nodes.nfv.VduCp, properties: {layer_protocols: [ipv4], order: 0}, requirements: [virtual_binding: web]}
";
const OBJECTS: &str = "apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: db}
spec:
  runStrategy: Always
  template:
    metadata: {labels: {app: vm}}
    spec:
      domain: {devices: {}, resources: {requests: {memory: 64Mi}}}
      networks: [{name: default, pod: {}}]
---
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceReplicaSet
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      domain: {devices: {}, resources: {requests: {memory: 64Mi}}}
      networks: [{name: default, pod: {}}]
";

/// A machine, and a set of this many machines.
fn machines(count: u32) -> Allocation {
    let vnfd = format!("{}{VNFD}", crate::support::VNF);
    let order = b"manifests: [{path: Files/kubernetes/vms.yaml, order: 1}]\n";
    let files: Vec<(&str, &[u8])> = vec![
        ("Files/kubernetes/order.yaml", order),
        ("Files/kubernetes/vms.yaml", OBJECTS.as_bytes()),
    ];
    let mut what = package_of((&vnfd, files), &json!({}));
    let deployment = Arc::make_mut(&mut what.deployment);
    deployment.vdu_instances.insert("web".into(), count);
    what
}

async fn update(world: &World, current: &Recorded, target: &Allocation) -> Recorded {
    let change = Convergence::update(current, target);
    let updated = world
        .driver
        .converge(&world.cx(60), &change, &Value::Null)
        .await;
    updated.unwrap()
}

/// The VDUs of the VNFCs; each has the address that its machine reports.
fn vdus(recorded: &Recorded) -> Vec<&str> {
    let vnfcs = recorded.inventory.vnfc_resource_info.iter();
    vnfcs
        .map(|vnfc| {
            let protocol = vnfc.vnfc_cp_info[0].cp_protocol_info[0]
                .ip_over_ethernet
                .as_ref();
            let address = &protocol.unwrap().ip_addresses[0].addresses[0];
            assert!(
                address.starts_with("10.0.2."),
                "{address} is not that of a machine"
            );
            assert!(vnfc.metadata["virtualMachineInstance"].is_string());
            vnfc.vdu_id.as_str()
        })
        .collect()
}

/// Halts two machines of the set and the other one, and starts them again.
async fn stopped_and_started(world: &World, running: &Recorded) -> Recorded {
    let power = async |current: &Recorded, state| {
        let mut target = machines(2);
        Arc::make_mut(&mut target.deployment).vnf_state = state;
        let change = PowerChange {
            current,
            target: &target,
            stop: Stop::Forceful,
        };
        let power = world.driver.power().unwrap();
        power.operate(&world.cx(60), &change).await.unwrap()
    };
    let stopped = power(running, Stopped).await;
    assert_eq!(ids(&stopped).len(), 0);
    let (api_version, kind, plural) = MACHINES;
    let db = world.api(api_version, kind, plural, Some(&world.namespace()));
    assert_eq!(
        db.get("db").await.unwrap().data["spec"]["runStrategy"],
        "Halted"
    );
    let started = power(&stopped, Started).await;
    assert_eq!(vdus(&started), ["db", "web", "web"]);
    started
}

/// Replaces a machine while nothing changes the status of its objects, which still state that all machines run.
async fn healed_by_a_late_controller(world: &World, started: &Recorded) -> (Recorded, KubeVirt) {
    let (repair, what) = (repair(started, &[0]), machines(2));
    let change = repair.change(&what);
    let (cx, preview) = (world.cx(60), Value::Null);
    world.seen.waits.lock().unwrap().clear();
    let waiting = pin!(world.seen.wait_for("0 of 1 pods are ready"));
    let converging = world.driver.converge(&cx, &change, &preview);
    let converging = match select(waiting, converging).await {
        Either::Left(((), converging)) => converging,
        Either::Right((ended, _)) => panic!("the machine has no pod yet: {ended:?}"),
    };
    let running = KubeVirt::runs_machines_of(world);
    let healed = converging.await.unwrap();
    assert_eq!(vdus(&healed), ["db", "web", "web"]);
    assert_eq!(ids(&healed).intersection(&ids(started)).count(), 2);
    (healed, running)
}

#[tokio::test]
async fn machines_are_run_scaled_stopped_healed_and_terminated() {
    let Some(world) = World::start().await else {
        return;
    };
    let world = &world;
    kubevirt::install(world).await;
    let running = KubeVirt::runs_machines_of(world);
    let what = machines(1);
    world.driver.validate_request(&what).unwrap();
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_eq!(vdus(&created), ["db", "web"]);
    assert_eq!(
        created.inventory.vnfc_resource_info[0].metadata["virtualMachineInstance"],
        "db"
    );

    let three = machines(3);
    let change = Convergence::update(&created, &three);
    let plan = world
        .driver
        .plan(&world.cx(60), &ResourceChange::Converge(&change))
        .await
        .unwrap();
    let pods = plan.resources.iter().filter(|row| row.kind == "Pod");
    assert_eq!(pods.count(), 4, "{plan:#?}");
    let larger = update(world, &created, &three).await;
    assert_eq!(vdus(&larger), ["db", "web", "web", "web"]);
    assert!(ids(&created).is_subset(&ids(&larger)));
    let smaller = update(world, &larger, &machines(2)).await;
    assert_eq!(vdus(&smaller), ["db", "web", "web"]);

    let started = stopped_and_started(world, &smaller).await;
    drop(running);
    let (healed, running) = healed_by_a_late_controller(world, &started).await;
    world.terminate(&machines(2), healed.handle).await.unwrap();
    world.assert_nothing_left().await;
    drop(running);
    kubevirt::remove(world).await;
}
