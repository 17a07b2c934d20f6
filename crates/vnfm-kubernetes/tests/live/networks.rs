//! Networks of pods: what a VNF with several connection points does on a cluster where Multus, or what stands in for it,
//! attaches pods. The tests of a tier run these parts on its cluster.

use crate::heal::ids;
use crate::support::{World, package, package_of, sample_of};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{
    Allocation, Convergence, InfraDriver as _, PortError, Recorded, ResourceAction, ResourceChange,
};
use vnfm_types::{CpProtocolInfo, VimPolicy};

const DEFINITIONS: (&str, &str, &str) = (
    "k8s.cni.cncf.io/v1",
    "NetworkAttachmentDefinition",
    "network-attachment-definitions",
);
const DEPLOYMENTS: (&str, &str, &str) = ("apps/v1", "Deployment", "deployments");
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// A namespace of the cluster's administrator with networks, for one instance.
pub(crate) struct Networks<'w> {
    world: &'w World,
    pub(crate) namespace: String,
}

impl<'w> Networks<'w> {
    pub(crate) async fn make(world: &'w World) -> Self {
        let namespace = format!("networks-{}", world.owner.instance_id);
        world.make_namespace(&namespace).await;
        let networks = Self { world, namespace };
        networks.add("data-1", json!({})).await;
        networks.add("data-2", json!({})).await;
        networks
    }

    pub(crate) async fn add(&self, name: &str, annotations: Value) {
        let (api_version, kind, plural) = DEFINITIONS;
        let api = self
            .world
            .api(api_version, kind, plural, Some(&self.namespace));
        let config = json!({"cniVersion": "1.0.0", "type": "bridge", "bridge": name,
            "ipam": {"type": "host-local", "subnet": "10.91.0.0/24"}});
        let network = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "annotations": annotations}, "spec": {"config": config.to_string()}});
        self.world.make(&api, network).await;
    }

    pub(crate) fn name(&self, network: &str) -> String {
        format!("{}/{network}", self.namespace)
    }

    /// The sample with its external link on this network, and this number of pods.
    pub(crate) fn router(&self, network: &str, count: u32) -> Allocation {
        let mut what = sample_of("cnf-networks", "instantiate.json");
        let deployment = Arc::make_mut(&mut what.deployment);
        deployment.ext_virtual_links[0].resource_id = self.name(network);
        deployment.vdu_instances.insert("router".into(), count);
        what
    }

    /// Terminates the instance; the networks are not its own.
    pub(crate) async fn end(self, what: &Allocation, handle: Value) {
        self.world.terminate(what, handle).await.unwrap();
        self.world.assert_nothing_left().await;
        let (api_version, kind, plural) = DEFINITIONS;
        let api = self
            .world
            .api(api_version, kind, plural, Some(&self.namespace));
        assert!(api.get_opt("data-1").await.unwrap().is_some());
        self.world
            .clean(&self.world.namespaces(), &self.namespace)
            .await;
    }
}

/// The change of an instance from one target to another.
pub(crate) async fn change(
    world: &World,
    current: &Recorded,
    (from, to): (&Allocation, &Allocation),
) -> Result<Recorded, PortError> {
    let change = Convergence::update(current, to).coming_from(from);
    let found = world.driver.preview(&world.cx(60), &change).await?;
    world.driver.converge(&world.cx(60), &change, &found).await
}

/// Connection points of the first VNFC, with their interfaces.
fn cps(recorded: &Recorded) -> Vec<(&str, &str)> {
    let cps = recorded.inventory.vnfc_resource_info[0].vnfc_cp_info.iter();
    let with_interface = cps.map(|cp| {
        let interface = cp.metadata.get("interface").and_then(Value::as_str);
        (cp.cpd_id.as_str(), interface.unwrap_or("eth0"))
    });
    with_interface.collect()
}

fn addresses(protocol: &[CpProtocolInfo]) -> Vec<String> {
    let ethernet = protocol
        .iter()
        .filter_map(|one| one.ip_over_ethernet.as_ref());
    let groups = ethernet.flat_map(|ethernet| &ethernet.ip_addresses);
    groups.flat_map(|group| group.addresses.clone()).collect()
}

/// Asserts that each of `count` VNFCs has its address on the external network, on a port of that link.
pub(crate) fn assert_on(recorded: &Recorded, network: &str, count: usize) {
    let inventory = &recorded.inventory;
    assert_eq!(inventory.vnfc_resource_info.len(), count);
    let link = &inventory.ext_virtual_link_info[0];
    assert_eq!(
        (link.id.as_str(), link.resource_handle.resource_id.as_str()),
        ("data", network)
    );
    assert_eq!(
        (link.ext_link_ports.len(), inventory.ext_cp_info.len()),
        (count, count)
    );
    assert_eq!(link.current_vnf_ext_cp_data[0].cpd_id, "dataCP");
    for vnfc in &inventory.vnfc_resource_info {
        let cp = vnfc.vnfc_cp_info.iter().find(|cp| cp.cpd_id == "dataCP");
        let cp = cp.expect("it is attached");
        let mut external = inventory.ext_cp_info.iter();
        let external = external.find(|external| Some(&external.id) == cp.vnf_ext_cp_id.as_ref());
        let external = external.expect("its external CP");
        assert_eq!(external.cp_config_id, "any");
        assert_eq!(external.associated_vnfc_cp_id.as_ref(), Some(&cp.id));
        let found = addresses(&external.cp_protocol_info);
        assert!(
            found.len() == 1 && found == addresses(&cp.cp_protocol_info),
            "{found:?}"
        );
        let port = link.ext_link_ports.iter();
        let port = port.filter(|port| Some(&port.id) == external.ext_link_port_id.as_ref());
        let handles: Vec<&str> = port
            .map(|port| port.resource_handle.resource_id.as_str())
            .collect();
        assert_eq!(
            handles,
            [format!("{}/net2", vnfc.compute_resource.resource_id)]
        );
        assert_eq!(cp.metadata["network"], network);
    }
}

/// Several connection points with their addresses, another network and back, a scaling in between.
pub(crate) async fn pods_are_connected_and_change_their_network_there_and_back(world: &World) {
    let networks = Networks::make(world).await;
    let what = networks.router("data-1", 2);
    world.driver.validate_request(&what).unwrap();
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_eq!(
        cps(&created),
        [("podCP", "eth0"), ("syncCP", "net1"), ("dataCP", "net2")]
    );
    assert_on(&created, &networks.name("data-1"), 2);
    let internal = &created.inventory.vnf_virtual_link_resource_info[0];
    assert_eq!(
        (
            internal.vnf_virtual_link_desc_id.as_str(),
            internal.network_resource.resource_id.as_str(),
            internal.vnf_link_ports.len()
        ),
        ("sync", &*format!("{}/sync", world.namespace()), 2)
    );
    let again = change(world, &created, (&what, &what)).await.unwrap();
    assert_eq!(again.inventory, created.inventory, "nothing changes");

    let other = networks.router("data-2", 2);
    let convergence = Convergence::update(&created, &other).coming_from(&what);
    let planned = ResourceChange::Converge(&convergence);
    let planned = world.driver.plan(&world.cx(60), &planned).await.unwrap();
    let replaced = planned.resources.iter().filter(|row| {
        let mut because = row.because.iter();
        row.kind == "Pod"
            && row.action == ResourceAction::Replace
            && because.any(|path| path.contains(NETWORKS))
    });
    assert_eq!(replaced.count(), 2, "{planned:#?}");

    let moved = change(world, &created, (&what, &other)).await.unwrap();
    assert_on(&moved, &networks.name("data-2"), 2);
    assert!(ids(&moved).is_disjoint(&ids(&created)), "pods are replaced");
    let larger = networks.router("data-2", 3);
    let larger_now = change(world, &moved, (&other, &larger)).await.unwrap();
    assert_on(&larger_now, &networks.name("data-2"), 3);
    assert!(ids(&moved).is_subset(&ids(&larger_now)));
    let back = change(world, &larger_now, (&larger, &what)).await.unwrap();
    assert_on(&back, &networks.name("data-1"), 2);
    networks.end(&what, back.handle).await;
}

/// What only the cluster knows is refused before anything is created or changed.
pub(crate) async fn a_network_that_does_not_exist_is_refused_by_name(world: &World) {
    let networks = Networks::make(world).await;
    let missing = networks.router("none", 1);
    let error = world.instantiate(&missing, 60).await.unwrap_err();
    assert_eq!(error.name(), "kubernetes.no-network", "{error}");
    assert!(
        error.to_string().contains(&networks.name("none")),
        "{error}"
    );
    assert!(!world.has_any().await, "nothing was created");

    let what = networks.router("data-1", 1);
    let created = world.instantiate(&what, 60).await.unwrap();
    let error = change(world, &created, (&what, &missing))
        .await
        .unwrap_err();
    assert_eq!(error.name(), "kubernetes.no-network", "{error}");
    let cx = world.cx(60);
    let convergence = Convergence::update(&created, &missing).coming_from(&what);
    let planned = world
        .driver
        .plan(&cx, &ResourceChange::Converge(&convergence))
        .await;
    assert_eq!(planned.unwrap_err().name(), "kubernetes.no-network");
    let found = world
        .driver
        .observe(&cx, &what, &created.handle)
        .await
        .unwrap();
    assert_eq!(found.inventory, created.inventory);
    networks.end(&what, created.handle).await;
}

/// A network of a namespace that the policy of the VIM excludes: by the request, and by a manifest.
pub(crate) async fn a_network_of_an_excluded_namespace_is_refused(world: &mut World) {
    let namespace = world.namespace();
    world.vim.policy = VimPolicy {
        namespaces: Some(vec![namespace]),
        ..VimPolicy::OPEN
    };
    let networks = Networks::make(world).await;
    let what = networks.router("data-1", 1);
    let annotation = networks.name("data-1");
    let manifest = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}, annotations: {{{NETWORKS}: '{annotation}'}}}}\n    spec: {{containers: [{{name: web, image: 'localhost/busybox:1'}}]}}\n"
    );
    for what in [what, package(&[(1, &manifest)], "", json!({}))] {
        let early = world.driver.permit(&what, &world.vim.policy).unwrap_err();
        let late = world.instantiate(&what, 60).await.unwrap_err();
        for error in [early, late] {
            assert_eq!(error.name(), "kubernetes.policy", "{error}");
            assert!(error.to_string().contains(&annotation), "{error}");
        }
    }
    assert!(!world.has_any().await);
    world.clean(&world.namespaces(), &networks.namespace).await;
}

/// A fixed address becomes the pod's, if there is one pod.
pub(crate) async fn a_fixed_address_is_for_one_pod(world: &World) {
    let networks = Networks::make(world).await;
    let fixed = |count: u32| {
        let mut what = networks.router("data-1", count);
        let config = json!({"cpProtocolData": [{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {
            "macAddress": "02:11:22:33:44:55",
            "ipAddresses": [{"type": "IPV4", "fixedAddresses": ["10.91.0.77/24"]}]}}]});
        let deployment = Arc::make_mut(&mut what.deployment);
        let configs = &mut deployment.ext_virtual_links[0].ext_cps[0].cp_config;
        configs.insert("any".into(), Some(serde_json::from_value(config).unwrap()));
        what
    };
    let error = world.driver.validate_request(&fixed(2)).unwrap_err();
    assert_eq!(error.name(), "kubernetes.link-invalid");
    assert!(error.to_string().contains("`dataCP`"), "{error}");
    let what = fixed(1);
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_on(&created, &networks.name("data-1"), 1);
    let protocol = &created.inventory.ext_cp_info[0].cp_protocol_info;
    assert_eq!(addresses(protocol), ["10.91.0.77"]);
    let ethernet = protocol[0].ip_over_ethernet.as_ref().unwrap();
    assert_eq!(ethernet.mac_address.as_deref(), Some("02:11:22:33:44:55"));
    assert_eq!(ethernet.ip_addresses[0].is_dynamic, Some(false));
    networks.end(&what, created.handle).await;
}

/// A network with a resource: the pods request a device of it.
pub(crate) async fn pods_request_the_devices_of_their_networks(world: &World, resource: &str) {
    let networks = Networks::make(world).await;
    let annotations = json!({"k8s.v1.cni.cncf.io/resourceName": resource});
    networks.add("fast", annotations).await;
    let what = networks.router("fast", 1);
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_on(&created, &networks.name("fast"), 1);
    let (api_version, kind, plural) = DEPLOYMENTS;
    let api = world.api(api_version, kind, plural, Some(&world.namespace()));
    let router = api.get("router").await.unwrap();
    let resources = &router.data["spec"]["template"]["spec"]["containers"][0]["resources"];
    for list in ["requests", "limits"] {
        assert_eq!(resources[list][resource], "1", "{resources}");
    }
    assert_eq!(
        resources["requests"]["cpu"], "20m",
        "those of the manifest stay"
    );
    let cp = &created.inventory.ext_cp_info[0];
    assert!(cp.metadata["pciAddress"].is_string(), "{cp:?}");
    networks.end(&what, created.handle).await;
}

const ASD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [oran_asd_types_v02.00.00.yaml]
topology_template:
  node_templates:
    app:
      type: tosca.nodes.asd.Asd
      properties: {asdId: a7, asdInvariantId: i7, asdVersion: '1', asdProvider: Us, asdApplicationName: Web, asdApplicationSwVersion: '1',
        asdExtCpd: [{id: n6, virtualLinkRequirement: [core], resourceMapping: 'web:web'}, {id: page, virtualLinkRequirement: [oam], resourceMapping: front}]}
      artifacts:
        web: {type: tosca.artifacts.asd.DeploymentItem, file: web.yaml, properties: {deploymentItemId: '1', artifactType: kubernetes_manifest}}
";

/// The external connection points of an ASD: a workload on a network, and a Service.
pub(crate) async fn connection_points_of_an_asd_are_attached_and_read_back(world: &World) {
    let networks = Networks::make(world).await;
    let objects = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec: {terminationGracePeriodSeconds: 1, containers: [{name: web, image: 'localhost/busybox:1'}]}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: front}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n";
    let on = |cpd: &str, network: &str| {
        let mut what = package_of((ASD, vec![("web.yaml", objects.as_bytes())]), &json!({}));
        let link = json!({"id": "core", "resourceId": networks.name(network), "extCps": [{"cpdId": cpd, "cpConfig": {"a": {}}}]});
        let deployment = Arc::make_mut(&mut what.deployment);
        deployment.ext_virtual_links = vec![serde_json::from_value(link).unwrap()];
        what
    };
    for (cpd, expected) in [("n7", "`n7`"), ("page", "`front`")] {
        let error = world
            .driver
            .validate_request(&on(cpd, "data-1"))
            .unwrap_err();
        assert_eq!(error.name(), "kubernetes.link-invalid");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let what = on("n6", "data-1");
    let created = world.instantiate(&what, 60).await.unwrap();
    let assert_n6 = |recorded: &Recorded, network: &str| {
        let inventory = &recorded.inventory;
        let cps = &inventory.ext_cp_info;
        let names: Vec<&str> = cps.iter().map(|cp| cp.cpd_id.as_str()).collect();
        assert_eq!(names, ["n6", "page"]);
        assert_eq!(
            (
                cps[0].metadata["network"].as_str(),
                addresses(&cps[0].cp_protocol_info).len()
            ),
            (Some(network), 1)
        );
        let vnfc = &inventory.vnfc_resource_info[0];
        let own: Vec<&str> = vnfc
            .vnfc_cp_info
            .iter()
            .map(|cp| cp.cpd_id.as_str())
            .collect();
        assert_eq!(own, ["n6", "page"]);
        assert_eq!(
            cps[1].associated_vnfc_cp_id.as_ref(),
            Some(&vnfc.vnfc_cp_info[1].id)
        );
        assert_eq!(inventory.ext_virtual_link_info[0].ext_link_ports.len(), 1);
    };
    assert_n6(&created, &networks.name("data-1"));
    let other = on("n6", "data-2");
    let moved = change(world, &created, (&what, &other)).await.unwrap();
    assert_n6(&moved, &networks.name("data-2"));
    networks.end(&other, moved.handle).await;
}
