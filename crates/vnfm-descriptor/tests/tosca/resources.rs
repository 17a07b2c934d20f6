//! Servers, storages, links and connection points, in each spelling.

use super::{PLAIN, package, vnfd};
use serde_json::json;
use vnfm_descriptor::{Package, StorageKind};

const RESOURCES: &str = "    server:
      type: tosca.nodes.nfv.Vdu.Compute
      metadata: {flavor: m1.small}
      properties: {name: s, vdu_profile: {min_number_of_instances: 2, max_number_of_instances: 2}, boot_data: {kvp_data: {data: {a: b}}}}
      requirements: [{virtual_storage: {node: disk}}, {virtual_storage: share}]
      artifacts:
        image: {type: tosca.artifacts.nfv.SwImage, file: Files/i.qcow2, properties: {name: i, version: '1', disk_format: qcow2, container_format: bare, checksum: {algorithm: sha-256, hash: '00'}}}
    disk:
      type: tosca.nodes.nfv.Vdu.VirtualBlockStorage
      properties: {virtual_block_storage_data: {size_of_storage: 1500 MB}, per_vnfc_instance: false}
    share:
      type: tosca.nodes.nfv.Vdu.VirtualFileStorage
      properties: {virtual_file_storage_data: {size_of_storage: 2 GiB, file_system_protocol: nfs}}
      requirements: [virtual_link: lan]
    lan:
      type: tosca.nodes.nfv.VnfVirtualLink
      properties:
        connectivity_type: {layer_protocols: [ipv4]}
        externally_managed: allowed
        vl_profile: {virtual_link_protocol_data: [{l2_protocol_data: {mtu: 1400, network_type: vxlan}}, {l3_protocol_data: {ip_version: ipv6, cidr: 'fd00::/64', gateway_ip: 'fd00::1', dhcp_enabled: false, ip_allocation_pools: [{start_ip_address: 'fd00::5', end_ip_address: 'fd00::9'}]}}]}
    port: {type: tosca.nodes.nfv.VduCp, properties: {layer_protocols: [ipv6]}, requirements: [{virtual_binding: server}, {virtual_link: lan}]}
    outside: {type: tosca.nodes.nfv.VnfExtCp, properties: {layer_protocols: [ipv6]}, requirements: [{internal_virtual_link: lan}]}
    vip: {type: tosca.nodes.nfv.VipCp, properties: {layer_protocols: [ipv6], vip_function: load_balance}, requirements: [{target: port}, {virtual_link: lan}]}
  groups: {pair: {type: tosca.groups.nfv.PlacementGroup, members: [server, lan]}}
  policies:
    - apart: {type: tosca.policies.nfv.AntiAffinityRule, properties: {scope: zone}, targets: [pair]}
";

/// A flavour with one of everything.
fn resources() -> Package {
    let text = vnfd(PLAIN, "", RESOURCES).replace("properties: {flavour_id: f}", "properties: {flavour_id: [f]}, requirements: [{virtual_link: [outside, external_virtual_link]}, {virtual_link_1: [port, virtual_link]}]");
    package(&[("a.yaml", &text), ("Files/i.qcow2", "bytes")])
}

#[test]
fn servers_and_storages_are_read_in_both_spellings() {
    let package = resources();
    let flavour = &package.vnfd().flavours["f"];
    let server = &flavour.vdus["server"];
    assert_eq!(
        (server.requested_flavor.as_deref(), server.compute.as_ref()),
        (Some("m1.small"), None)
    );
    assert_eq!(
        (
            server.storages.as_slice(),
            flavour.instances_of("server", None)
        ),
        (&["disk".to_owned(), "share".to_owned()][..], Ok(2))
    );
    let image = server.image.as_ref().unwrap();
    assert_eq!(
        (image.name.as_str(), image.artifact.as_deref()),
        ("i", Some("Files/i.qcow2"))
    );
    assert_eq!(image.checksum.as_ref().unwrap().algorithm, "sha-256");
    assert_eq!(
        flavour.images().map(|(id, _)| id).collect::<Vec<_>>(),
        ["server"]
    );
    let disk = &flavour.storages["disk"];
    assert_eq!(
        (disk.kind, disk.size_gib, disk.per_vnfc_instance),
        (StorageKind::Block, Some(2), false)
    );
    assert_eq!(
        (
            flavour.storages["share"].kind,
            flavour.storages["share"].size_gib
        ),
        (StorageKind::File, Some(2))
    );
}

#[test]
fn links_and_connection_points_are_read() {
    let package = resources();
    let flavour = &package.vnfd().flavours["f"];
    let lan = &flavour.virtual_links["lan"];
    assert_eq!(
        (
            lan.cidr.as_deref(),
            lan.gateway.as_deref(),
            lan.dhcp,
            lan.mtu
        ),
        (Some("fd00::/64"), Some("fd00::1"), Some(false), Some(1400))
    );
    assert_eq!(
        (lan.pools[0].start.as_str(), lan.network_type.as_deref()),
        ("fd00::5", Some("vxlan"))
    );
    let external: Vec<(&str, &[String])> = flavour
        .external_cps
        .iter()
        .map(|cp| (cp.cpd_id.as_str(), cp.requirements.as_slice()))
        .collect();
    assert_eq!(
        external,
        [
            ("port", &["virtual_link_1".to_owned()][..]),
            ("outside", &["virtual_link".to_owned()][..])
        ]
    );
    assert_eq!(
        (
            flavour.cps["vip"].vdu.as_deref(),
            flavour.cps["vip"].external
        ),
        (Some("server"), false)
    );
    assert_eq!(flavour.affinity_rules[0].targets, ["server", "lan"]);
    let json = serde_json::to_value(package.vnfd()).unwrap();
    assert_eq!(
        json["flavours"]["f"]["vdus"]["server"]["boot_data"],
        json!({"kvp_data": {"data": {"a": "b"}}})
    );
}
