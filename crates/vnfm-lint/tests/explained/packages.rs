//! The packages into which examples are inserted: a web server on virtual machines, the same
//! in containers, an application (ASD).

/// SHA-256 of `test`, `test2` and `3`.
pub(crate) const TEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
pub(crate) const TEST_2: &str = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752";
pub(crate) const TEST_3: &str = "4e07408562bedb8b60ce05c1decfe3ad16b72230967de01f640b7e4729b49fce";

/// `vnfd.yaml`, unless an edit replaces it.
pub(crate) const WEB: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
# more sections
node_types:
  my.nodes.Web:
    derived_from: tosca.nodes.nfv.VNF
    properties:
      descriptor_id: {type: string, default: web}
      descriptor_version: {type: string, default: '1.0'}
      provider: {type: string, default: Us}
      product_name: {type: string, default: Web}
      software_version: {type: string, default: '1.0'}
      vnfm_info: {type: list, entry_schema: {type: string}, default: ['etsivnfm:v3.3.1']}
      flavour_description: {type: string, default: Two pods}
      # more properties
  # more types
topology_template:
  # more of the topology
  substitution_mappings:
    node_type: my.nodes.Web
    properties: {flavour_id: simple}
    requirements: {virtual_link: [port, virtual_link]}
  node_templates:
    VNF:
      type: my.nodes.Web
      # more of the VNF
    web:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: web
        vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}
        sw_image_data: {name: web}
      capabilities: {virtual_compute: {properties: {virtual_cpu: {num_virtual_cpu: 1}, virtual_memory: {virtual_mem_size: 512 MiB}}}}
      # more of web
    port:
      type: tosca.nodes.nfv.VduCp
      properties: {layer_protocols: [ipv4]}
      requirements: [virtual_binding: web]
    # more nodes
  policies:
    - aspects:
        type: tosca.policies.nfv.ScalingAspects
        properties: {aspects: {web: {max_scale_level: 2, step_deltas: [one]}}}
    - steps:
        type: tosca.policies.nfv.VduScalingAspectDeltas
        properties: {aspect: web, deltas: {one: {number_of_instances: 1}}}
        targets: [web]
    - first:
        type: tosca.policies.nfv.VduInitialDelta
        properties: {initial_delta: {number_of_instances: 1}}
        targets: [web]
    - levels:
        type: tosca.policies.nfv.InstantiationLevels
        properties: {levels: {small: {scale_info: {web: {scale_level: 0}}}, large: {scale_info: {web: {scale_level: 2}}}}, default_level: small}
    # more policies
";

/// All policies of the descriptor `WEB`.
pub(crate) const POLICIES: &str = "  policies:
    - aspects:
        type: tosca.policies.nfv.ScalingAspects
        properties: {aspects: {web: {max_scale_level: 2, step_deltas: [one]}}}
    - steps:
        type: tosca.policies.nfv.VduScalingAspectDeltas
        properties: {aspect: web, deltas: {one: {number_of_instances: 1}}}
        targets: [web]
    - first:
        type: tosca.policies.nfv.VduInitialDelta
        properties: {initial_delta: {number_of_instances: 1}}
        targets: [web]
    - levels:
        type: tosca.policies.nfv.InstantiationLevels
        properties: {levels: {small: {scale_info: {web: {scale_level: 0}}}, large: {scale_info: {web: {scale_level: 2}}}}, default_level: small}
";

/// The policies of `WEB` that describe its scaling.
pub(crate) const ASPECT: &str = "    - aspects:
        type: tosca.policies.nfv.ScalingAspects
        properties: {aspects: {web: {max_scale_level: 2, step_deltas: [one]}}}
    - steps:
        type: tosca.policies.nfv.VduScalingAspectDeltas
        properties: {aspect: web, deltas: {one: {number_of_instances: 1}}}
        targets: [web]
";

/// The type of the VNF.
pub(crate) const TYPE: &str = "  my.nodes.Web:
    derived_from: tosca.nodes.nfv.VNF
    properties:
      descriptor_id: {type: string, default: web}
      descriptor_version: {type: string, default: '1.0'}
      provider: {type: string, default: Us}
      product_name: {type: string, default: Web}
      software_version: {type: string, default: '1.0'}
      vnfm_info: {type: list, entry_schema: {type: string}, default: ['etsivnfm:v3.3.1']}
      flavour_description: {type: string, default: Two pods}
";

/// The VDU `web` of `WEB`.
pub(crate) const VDU: &str = "    web:
      type: tosca.nodes.nfv.Vdu.Compute
      properties:
        name: web
        vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}
        sw_image_data: {name: web}
      capabilities: {virtual_compute: {properties: {virtual_cpu: {num_virtual_cpu: 1}, virtual_memory: {virtual_mem_size: 512 MiB}}}}
";

/// The capabilities of the node template `VDU`.
pub(crate) const CAPABILITIES: &str = "capabilities: {virtual_compute: {properties: {virtual_cpu: {num_virtual_cpu: 1}, virtual_memory: {virtual_mem_size: 512 MiB}}}}";

/// A VDU with a single instance.
pub(crate) const DB: &str = "db:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: {name: db, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}, sw_image_data: {name: db}}
      capabilities: {virtual_compute: {properties: {virtual_cpu: {num_virtual_cpu: 1}, virtual_memory: {virtual_mem_size: 512 MiB}}}}";

/// A node template for an internal virtual link.
pub(crate) const NET: &str = "net:
      type: tosca.nodes.nfv.VnfVirtualLink
      properties:
        connectivity_type: {layer_protocols: [ipv4]}
        vl_profile: {virtual_link_protocol_data: [{l3_protocol_data: {ip_version: ipv4, cidr: 10.0.0.0/24}}]}";

/// `vnfd.mf`, to which files are added.
pub(crate) const MANIFEST: &str = "metadata:
vnf_product_name: Web
vnf_provider_id: Us
vnf_package_version: 1.0
vnf_release_date_time: 2026-11-01T10:00:00Z
vnfm_info: etsivnfm:v3.3.1

§
";

/// Content of `TOSCA-Metadata/TOSCA.meta` in the package.
pub(crate) const META: &str = "TOSCA-Meta-File-Version: 1.0
CSAR-Version: 1.1
Created-By: Us
Entry-Definitions: vnfd.yaml
";

/// `vnfd.yaml` of the server in containers.
pub(crate) const PODS: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
node_types:
  my.nodes.Web:
    derived_from: tosca.nodes.nfv.VNF
    properties:
      descriptor_id: {type: string, default: web}
      descriptor_version: {type: string, default: '1.0'}
      provider: {type: string, default: Us}
      product_name: {type: string, default: Web}
      software_version: {type: string, default: '1.0'}
      vnfm_info: {type: list, entry_schema: {type: string}, default: ['etsivnfm:v3.3.1']}
      flavour_description: {type: string, default: Two pods}
topology_template:
  substitution_mappings:
    node_type: my.nodes.Web
    properties: {flavour_id: simple}
  node_templates:
    VNF: {type: my.nodes.Web}
    web:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties:
        name: web
        vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}
      requirements: [container: httpd]
    httpd:
      type: tosca.nodes.nfv.Vdu.OsContainer
      properties: {name: httpd}
      artifacts:
        image: {type: tosca.artifacts.nfv.SwImage, file: 'localhost/busybox:1', properties: {name: busybox, container_format: docker}}
    # more nodes
";

/// The containers of `PODS`.
pub(crate) const UNITS: &str = "    web:
      type: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
      properties:
        name: web
        vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}
      requirements: [container: httpd]
    httpd:
      type: tosca.nodes.nfv.Vdu.OsContainer
      properties: {name: httpd}
      artifacts:
        image: {type: tosca.artifacts.nfv.SwImage, file: 'localhost/busybox:1', properties: {name: busybox, container_format: docker}}
";

/// Content of `Files/kubernetes/order.yaml` in the package.
pub(crate) const ORDER: &str = "variables: {replicas: 1}
manifests:
  - {path: Files/kubernetes/web.yaml, order: 1}
";

/// Content of `Files/kubernetes/web.yaml` in the package.
pub(crate) const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: $replicas
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: httpd, image: 'localhost/busybox:1'}]
";

/// Content of `BaseHOT/simple/top.yaml` in the package.
pub(crate) const HOT: &str = "heat_template_version: 2018-08-31
parameters:
  flavor: {type: string}
  # more parameters
resources:
  web:
    type: OS::Nova::Server
    properties: {flavor: {get_param: flavor}, networks: none}
  # more resources
";

/// A nested template for `HOT`.
pub(crate) const NESTED: &str = "heat_template_version: 2018-08-31
parameters:
  flavor: {type: string}
resources:
  web:
    type: OS::Nova::Server
    properties: {flavor: {get_param: flavor}, networks: none}
";

/// Content of `Files/openstack/parameters.yaml` in the package.
pub(crate) const PARAMETERS: &str = "parameters:
  flavor: vdu.web.flavor
";

/// Content of `vnfd.yaml` for an application service descriptor.
pub(crate) const ASD: &str = "tosca_definitions_version: tosca_simple_yaml_1_2
imports: [asd_types.yaml]
# more sections
topology_template:
  node_templates:
    application:
      type: tosca.nodes.asd
      properties:
        descriptor_id: web
        descriptor_version: '1.0'
        schema_version: '2.0'
        provider: Us
        application_name: Web
        application_version: '1.0'
      artifacts:
        web:
          type: tosca.artifacts.asd.deploymentItem
          file: Files/web.yaml
          properties: {item_id: '1', artifact_type: kubernetes_manifest, deployment_order: 1}
";

/// `vnfd.mf`, which declares the descriptor an ASD.
pub(crate) const ASD_MANIFEST: &str = "metadata:
entry_definition_type: asd
application_name: Web
application_provider: Us
release_date_time: 2026-11-01T10:00:00Z
";
