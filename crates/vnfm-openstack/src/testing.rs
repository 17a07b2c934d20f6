//! Packages and requests for unit tests.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vnfm_core::ports::Allocation;
use vnfm_descriptor::{Limits, Package};

/// A package with one VNFD and nothing else.
pub(crate) fn package(vnfd: &str) -> Package {
    package_of(&[("vnfd.yaml", vnfd)])
}

/// A package of these files; `vnfd.yaml` is its entry.
pub(crate) fn package_of(files: &[(&str, &str)]) -> Package {
    let folder = tempfile::tempdir().unwrap();
    let meta = "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: us\nEntry-Definitions: vnfd.yaml\n";
    for (path, text) in files.iter().chain([&("TOSCA-Metadata/TOSCA.meta", meta)]) {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    open(folder.path())
}

/// A package from the folder `vnfd-samples`.
pub(crate) fn sample(name: &str) -> Package {
    let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
    open(&samples.join(name))
}

fn open(folder: &Path) -> Package {
    Package::open(folder, &Limits::default()).unwrap_or_else(|findings| panic!("{findings}"))
}

/// A VNFD with one VDU `server` that needs these resources.
pub(crate) fn vnfd(vcpus: u32, memory: &str, disk: &str) -> String {
    vnfd_with(&format!(
        "
    server:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: server
        description: one
        vdu_profile: {{min_number_of_instances: 1, max_number_of_instances: 1}}
        sw_image_data: {{name: small-image, version: '1', container_format: bare, disk_format: qcow2, min_disk: 1 GiB, size: 1 MiB}}
      capabilities:
        virtual_compute:
          properties:
            virtual_cpu: {{num_virtual_cpu: {vcpus}}}
            virtual_memory: {{virtual_mem_size: {memory}}}
            virtual_local_storage: [{{size_of_storage: {disk}}}]
"
    ))
}

/// A VNFD with these node templates besides the VNF's; its flavour is `simple`.
pub(crate) fn vnfd_with(nodes: &str) -> String {
    format!(
        "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
node_types:
  test.Vnf:
    derived_from: tosca.nodes.nfv.VNF
    properties:
      descriptor_id: {{type: string, default: 5a7c1a0e-0f3f-4a59-8f5b-1f6f0a6d2b11}}
      descriptor_version: {{type: string, default: '1.0'}}
      provider: {{type: string, default: us}}
      product_name: {{type: string, default: test}}
      software_version: {{type: string, default: '1.0'}}
      vnfm_info: {{type: list, entry_schema: {{type: string}}, default: [vnfm]}}
      flavour_id: {{type: string, default: simple}}
      flavour_description: {{type: string, default: simple}}
topology_template:
  substitution_mappings:
    node_type: test.Vnf
    properties: {{flavour_id: simple}}
  node_templates:
    VNF:
      type: test.Vnf
      properties: {{flavour_description: simple}}
{}",
        nodes.trim_start_matches('\n')
    )
}

/// A request for an instance of a package.
pub(crate) fn new_allocation(package: Package, request: Value) -> Allocation {
    let request = serde_json::from_value(request).unwrap();
    let allocation = Allocation::requested("package", Arc::new(package), request).unwrap();
    Allocation {
        instance_name: Some("one".into()),
        ..allocation
    }
}

/// The samples' request: both external CPs on one network.
pub(crate) fn cluster_request() -> Value {
    json!({
        "flavourId": "cluster_install",
        "extVirtualLinks": [{
            "id": "external",
            "resourceId": "provider",
            "extCps": [
                {"cpdId": "masterNodeExternalCP", "cpConfig": {"master": {}}},
                {"cpdId": "workerNodeExternalCP", "cpConfig": {"worker": {}}},
            ],
        }],
    })
}

/// The request of the sample with a resource for each VNFC.
pub(crate) fn farm_request() -> Value {
    json!({
        "flavourId": "simple",
        "extVirtualLinks": [{
            "id": "external",
            "resourceId": "provider",
            "extCps": [{"cpdId": "webClients", "cpConfig": {"any": {}}}],
        }],
        "additionalParams": {"nfv": {"VDU": {"web": {"name": "web"}, "web-0": {"name": "first-web"}}}},
    })
}
