//! What a flavour of containers deploys without manifests and charts, and what is refused with its position.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fmt::Write as _;
use vnfm_descriptor::{Flavour, Limits, Package, WorkloadKind, codes};

const HEAD: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
data_types:
  my.datatypes.Values:
    derived_from: tosca.datatypes.nfv.VnfcAdditionalConfigurableProperties
    properties:
      greeting: {type: string, required: false}
      list: {type: list, entry_schema: {type: string}, required: false}
      my-key: {type: string, required: false}
  my.datatypes.Properties:
    derived_from: tosca.datatypes.nfv.VnfcConfigurableProperties
    properties:
      additional_vnfc_configurable_properties: {type: my.datatypes.Values}
node_types:
  my.nodes.Unit:
    derived_from: tosca.nodes.nfv.Vdu.OsContainerDeployableUnit
    properties:
      configurable_properties: {type: my.datatypes.Properties, required: false}
      replicas_per_zone: {type: integer, required: false}
  my.nodes.Container:
    derived_from: tosca.nodes.nfv.Vdu.OsContainer
    properties:
      command: {type: list, entry_schema: {type: string}, required: false}
      args: {type: list, entry_schema: {type: string}, required: false}
policy_types:
  my.policies.Scaling:
    derived_from: tosca.policies.Scaling
    properties:
      min_instances: {type: integer, required: false}
      max_instances: {type: integer, required: false}
      target_cpu_utilization_percentage: {type: integer, required: false}
      cooldown: {type: integer, required: false}
topology_template:
  substitution_mappings: {node_type: tosca.nodes.nfv.VNF, properties: {flavour_id: simple}}
  node_templates:
    VNF:
      type: tosca.nodes.nfv.VNF
      properties: {descriptor_id: b1bb0ce7, descriptor_version: '1.0', provider: Us, product_name: Web, software_version: '1.0',
        vnfm_info: [vnfm], flavour_id: simple, flavour_description: one}
    web:
      type: my.nodes.Unit
      properties:
        name: web
        vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 5}
        # more of web
      requirements:
        - container: httpd
        # more requirements
    httpd:
      type: my.nodes.Container
      properties:
        name: httpd
        # more of httpd
      artifacts:
        image: {type: tosca.artifacts.nfv.SwImage, file: 'localhost/busybox:1', properties: {name: busybox, container_format: docker}}
    link:
      type: tosca.nodes.nfv.VnfVirtualLink
      properties:
        connectivity_type: {layer_protocols: [ipv4]}
        vl_profile: {max_bitrate_requirements: {root: 0}, min_bitrate_requirements: {root: 0}}
    # more nodes
";

const CP: &str = "front:
      type: tosca.nodes.nfv.VirtualCp
      properties:
        layer_protocols: [ipv4]
        additionalServiceData:
          - portData: [{name: http, protocol: tcp, port: 8080, portConfigurable: false}]
            serviceData: {host: web.example.com, path: [/a]}
      requirements: [target: web, virtual_link: link]
    # more nodes";

const STORAGE: &str = "data:
      type: tosca.nodes.nfv.Vdu.VirtualBlockStorage
      metadata: {mount_path: /data}
      properties: {virtual_block_storage_data: {size_of_storage: 1 GiB}}
    # more nodes";

/// The edits of [`HEAD`]: a text that it has, and what replaces it. An empty text appends.
fn open(edits: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Package, String> {
    let mut vnfd = HEAD.to_owned();
    for (find, put) in edits {
        assert!(vnfd.contains(find), "no `{find}`");
        vnfd = if find.is_empty() {
            vnfd + put
        } else {
            vnfd.replacen(find, put, 1)
        };
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("vnfd.yaml"), vnfd).unwrap();
    for (path, text) in files {
        let file = folder.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    Package::open(folder.path(), &Limits::default()).map_err(|findings| {
        let mut all = String::new();
        for finding in findings.errors() {
            let _ = writeln!(all, "{finding}");
        }
        all
    })
}

fn flavour(edits: &[(&str, &str)]) -> Flavour {
    let package = open(edits, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    package.vnfd().flavour("simple").unwrap().clone()
}

#[test]
fn the_kind_of_a_workload_is_stated_or_follows_from_its_storages() {
    let kind = |edits: &[(&str, &str)]| flavour(edits).workloads.unwrap().units[0].kind;
    assert_eq!(kind(&[]), WorkloadKind::Deployment);
    let stated = (
        "# more of web",
        "mcio_identification_data: {name: front, type: StatefulSet}",
    );
    assert_eq!(kind(&[stated]), WorkloadKind::StatefulSet);
    let stored = [
        ("# more requirements", "- virtual_storage: data"),
        ("# more nodes", STORAGE),
    ];
    assert_eq!(kind(&stored), WorkloadKind::StatefulSet);
    let unit = &flavour(&stored).workloads.unwrap().units[0];
    let volume = &unit.volumes[0];
    assert_eq!(
        (
            volume.storage.as_str(),
            volume.size_gib,
            volume.mount_path.as_str()
        ),
        ("data", 1, "/data")
    );
    assert_eq!(flavour(&[stated]).workloads.unwrap().units[0].name, "front");
}

#[test]
fn a_service_is_exposed_if_a_vnf_ext_cp_is_on_its_link_or_a_requirement_is_mapped_to_it() {
    let service = |edits: &[(&str, &str)]| flavour(edits).workloads.unwrap().services[0].clone();
    let inside = service(&[("# more nodes", CP)]);
    assert!(!inside.exposed);
    assert_eq!(
        (inside.ports[0].port, inside.routes[0].paths.as_slice()),
        (8080, &["/a".to_owned()][..])
    );
    let outside = "out:
      type: tosca.nodes.nfv.VnfExtCp
      properties: {layer_protocols: [ipv4]}
      requirements: [internal_virtual_link: link]";
    assert!(service(&[("# more nodes", CP), ("# more nodes", outside)]).exposed);
    let mapped =
        "properties: {flavour_id: simple}, requirements: {virtual_link: [front, virtual_link]}}";
    assert!(
        service(&[
            ("# more nodes", CP),
            ("properties: {flavour_id: simple}}", mapped)
        ])
        .exposed
    );
}

#[test]
fn manifests_charts_and_servers_leave_nothing_to_translate() {
    let has = |files: &[(&str, &str)]| {
        let package = open(&[], files).unwrap();
        package
            .vnfd()
            .flavour("simple")
            .unwrap()
            .workloads
            .is_some()
    };
    assert!(has(&[]));
    assert!(has(&[("Files/values.yaml", "page: hello\n")]));
    assert!(!has(&[(
        "Files/web.yaml",
        "apiVersion: v1\nkind: ConfigMap\n"
    )]));
    assert!(!has(&[("Files/web.tgz", "chart")]));
    // What nothing translates is no error then.
    let asks = (
        "# more of web",
        "logical_node: {numa: {logical_node_requirements: {cpus: '2'}}}",
    );
    open(&[asks], &[("Files/web.yaml", "apiVersion: v1\n")]).unwrap();
    let server = "vm:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: {name: vm, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}}";
    assert!(
        flavour(&[asks, ("# more nodes", server)])
            .workloads
            .is_none()
    );
}

/// Edits, the beginning of the finding's position and a part of its message.
type Refusal = (
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

const REFUSALS: &[Refusal] = &[
    (
        &[(
            "# more of web",
            "logical_node: {numa: {logical_node_requirements: {cpus: '2'}}}",
        )],
        "vnfd.yaml:45:9",
        "`logical_node` of `web`",
    ),
    (
        &[("# more of web", "nfvi_constraints: {rack: a}")],
        "vnfd.yaml:45:9",
        "`nfvi_constraints` of `web`",
    ),
    (
        &[("# more of web", "mcio_constraint_params: [node_pool]")],
        "vnfd.yaml:45:9",
        "`mcio_constraint_params`",
    ),
    (
        &[("# more of web", "replicas_per_zone: 2")],
        "vnfd.yaml:45:9",
        "`replicas_per_zone` of `web`",
    ),
    (
        &[(
            "# more of web",
            "mcio_identification_data: {name: 'web/../x', type: Deployment}",
        )],
        "vnfd.yaml:45:42",
        "cannot be the name of the workload",
    ),
    (
        &[("name: web", "name: Web server"), ("    web:", "    Web:")],
        "vnfd.yaml:40:5",
        "`Web` cannot be the name of the workload",
    ),
    (
        &[(
            "# more of web",
            "configurable_properties: {additional_vnfc_configurable_properties: {list: [a]}}",
        )],
        "vnfd.yaml:45",
        "is a list",
    ),
    (
        &[(
            "# more of web",
            "configurable_properties: {additional_vnfc_configurable_properties: {my-key: a}}",
        )],
        "vnfd.yaml:45",
        "`my-key` of `web` cannot be an environment variable",
    ),
    (
        &[(
            "# more of httpd",
            "cpu_pinning_requirements: {virtual_cpu_pinning_policy: static}",
        )],
        "vnfd.yaml:53:9",
        "`cpu_pinning_requirements` of `httpd`",
    ),
    (
        &[(
            "# more of httpd",
            "requested_cpu_resources: 500\n        cpu_resource_limit: 100",
        )],
        "vnfd.yaml:54:29",
        "`cpu_resource_limit` of `httpd` is less",
    ),
    (
        &[(
            "# more of httpd",
            "extended_resource_requests: [{extended_resource: {a: gpu}, amount: 1}]",
        )],
        "vnfd.yaml:53",
        "`gpu` of `httpd` is not the name of an extended resource",
    ),
    (
        &[(
            "# more of httpd",
            "huge_pages_resources: [{hugepage_size: 2 MiB, requested_size: 3 MiB}]",
        )],
        "vnfd.yaml:53",
        "huge pages of `httpd`",
    ),
    (
        &[
            ("name: httpd", "name: HTTP D"),
            ("    httpd:", "    HTTPD:"),
            ("container: httpd", "container: HTTPD"),
        ],
        "vnfd.yaml:49:5",
        "cannot be the name of a container",
    ),
    (
        &[(
            "file: 'localhost/busybox:1'",
            "file: 'https://localhost/busybox:1'",
        )],
        "vnfd.yaml:55",
        "does not refer to an image in a registry",
    ),
    (
        &[("file: 'localhost/busybox:1'", "file: vnfd.yaml")],
        "vnfd.yaml:55",
        "which nodes cannot pull",
    ),
    (
        &[
            (
                "artifacts:\n        image: {type",
                "artifacts:\n        image: {type",
            ),
            (
                "tosca.artifacts.nfv.SwImage, file: 'localhost/busybox:1', properties: {name: busybox, container_format: docker}",
                "tosca.artifacts.File, file: vnfd.yaml",
            ),
        ],
        "vnfd.yaml:49:5",
        "container `httpd` has no image",
    ),
    (
        &[(
            "vl_profile: {max",
            "vl_profile: {qos: {latency: 1 ms, packet_delay_variation: 1 ms}, max",
        )],
        "vnfd.yaml:60",
        "`vl_profile.qos` of `link`",
    ),
    (
        &[
            ("# more requirements", "- virtual_storage: data"),
            ("# more nodes", STORAGE),
            (
                "metadata: {mount_path: /data}",
                "metadata: {mount_path: data}",
            ),
        ],
        "vnfd.yaml:61:5",
        "storage `data` lacks",
    ),
    (
        &[
            ("# more requirements", "- virtual_storage: data"),
            ("# more nodes", STORAGE),
            (
                "size_of_storage: 1 GiB}",
                "size_of_storage: 1 GiB}, per_vnfc_instance: false",
            ),
        ],
        "vnfd.yaml:61:5",
        "cannot share the block storage `data`",
    ),
    (
        &[
            ("# more requirements", "- virtual_storage: data"),
            ("# more nodes", STORAGE),
            (
                "size_of_storage: 1 GiB",
                "size_of_storage: 1 GiB, rdma_enabled: true",
            ),
        ],
        "vnfd.yaml:64",
        "`virtual_block_storage_data.rdma_enabled`",
    ),
    (
        &[
            ("# more requirements", "- virtual_storage: data"),
            ("# more nodes", STORAGE),
            (
                "# more of web",
                "mcio_identification_data: {name: web, type: Deployment}",
            ),
        ],
        "vnfd.yaml:45",
        "cannot give each pod of `web` its own storage",
    ),
    (
        &[("# more nodes", CP), ("    front:", "    Front:")],
        "vnfd.yaml:61:5",
        "`Front` cannot be the name of a Service",
    ),
    (
        &[("# more nodes", CP), ("port: 8080", "port: 0")],
        "vnfd.yaml:66",
        "port `http` of `front` cannot be a port",
    ),
    (
        &[("# more nodes", CP), ("name: http,", "name: 'a: b',")],
        "vnfd.yaml:66",
        "port `a: b` of `front` cannot be a port",
    ),
    (
        &[
            ("# more nodes", CP),
            ("host: web.example.com", "host: 'a b'"),
        ],
        "vnfd.yaml:67",
        "its host is not a domain name",
    ),
    (
        &[
            ("# more nodes", CP),
            ("host: web.example.com", "host: 192.0.2.1"),
        ],
        "vnfd.yaml:67",
        "its host is not a domain name",
    ),
    (
        &[("# more nodes", CP), ("    front:", "    1front:")],
        "vnfd.yaml:61:5",
        "`1front` cannot be the name of a Service",
    ),
    (
        &[("# more nodes", CP), ("path: [/a]", "path: [a]")],
        "vnfd.yaml:67",
        "its paths do not begin with `/`",
    ),
    (
        &[("# more nodes", CP), ("protocol: tcp", "protocol: udp")],
        "vnfd.yaml:67",
        "exactly one TCP port",
    ),
    (
        &[
            ("# more nodes", CP),
            (
                "layer_protocols: [ipv4]\n        additional",
                "layer_protocols: [mpls]\n        additional",
            ),
        ],
        "vnfd.yaml:64:27",
        "layer protocol `mpls` of `front`",
    ),
    (
        &[(
            "# more nodes",
            "out:\n      type: tosca.nodes.nfv.VnfExtCp\n      properties: {layer_protocols: [ipv4]}\n      requirements: [internal_virtual_link: link]",
        )],
        "vnfd.yaml:61:5",
        "`out` makes nothing reachable",
    ),
    (
        &[(
            "# more nodes",
            "objects:\n      type: tosca.nodes.nfv.Vdu.VirtualObjectStorage\n      properties: {virtual_object_storage_data: {max_size_of_storage: 1 GiB}}",
        )],
        "vnfd.yaml:61:5",
        "`objects` is a `tosca.nodes.nfv.Vdu.VirtualObjectStorage`",
    ),
    (
        &[(
            "# more nodes",
            "cp:\n      type: tosca.nodes.nfv.VduCp\n      properties: {layer_protocols: [ipv4], vnic_type: direct}\n      requirements: [virtual_binding: web, virtual_link: link]",
        )],
        "vnfd.yaml:63",
        "`vnic_type` of `cp`",
    ),
    (
        &[(
            "",
            "  policies:\n    - open:\n        type: tosca.policies.nfv.SecurityGroupRule\n        properties: {protocol: tcp}\n        targets: [web]\n",
        )],
        "vnfd.yaml:63:7",
        "policy `open` is a `tosca.policies.nfv.SecurityGroupRule`",
    ),
    (
        &[(
            "",
            "  policies:\n    - apart:\n        type: tosca.policies.nfv.AntiAffinityRule\n        properties: {scope: nfvi_pop}\n        targets: [web]\n",
        )],
        "vnfd.yaml:63:7",
        "scope `nfvi_pop`",
    ),
    (
        &[(
            "",
            "  policies:\n    - auto:\n        type: my.policies.Scaling\n        properties: {min_instances: 1, max_instances: 5, target_cpu_utilization_percentage: 50}\n        targets: [web]\n",
        )],
        "vnfd.yaml:66:19",
        "no `requested_cpu_resources`",
    ),
    (
        &[
            ("# more of httpd", "requested_cpu_resources: 500"),
            (
                "",
                "  policies:\n    - auto:\n        type: my.policies.Scaling\n        properties: {min_instances: 1, max_instances: 9, target_cpu_utilization_percentage: 50, cooldown: 1}\n        targets: [web]\n",
            ),
        ],
        "vnfd.yaml:65",
        "`cooldown` of policy `auto`",
    ),
    (
        &[
            ("# more of httpd", "requested_cpu_resources: 500"),
            (
                "",
                "  policies:\n    - auto:\n        type: my.policies.Scaling\n        properties: {min_instances: 1, max_instances: 9, target_cpu_utilization_percentage: 50}\n        targets: [web]\n",
            ),
        ],
        "vnfd.yaml:66:19",
        "its `vdu_profile` allows fewer",
    ),
];

#[test]
fn what_has_no_translation_is_refused_by_name_and_position() {
    let mut wrong = String::new();
    for (edits, position, message) in REFUSALS {
        let errors = open(edits, &[]).map_or_else(|errors| errors, |_| "nothing".to_owned());
        let code = format!("[{}]", codes::CONTAINERS);
        let is_it = |line: &str| {
            line.starts_with(position) && line.contains(&code) && line.contains(message)
        };
        if !errors.lines().any(is_it) {
            let _ = writeln!(wrong, "{position} {message}: {errors}");
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn what_asks_for_nothing_needs_no_translation() {
    let neutral = [
        ("# more of web", "requested_additional_capabilities: {}"),
        ("# more nodes", STORAGE),
        (
            "# more nodes",
            "cp:\n      type: tosca.nodes.nfv.VduCp\n      properties: {layer_protocols: [ipv4], vnic_type: normal, trunk_mode: false, bitrate_requirement: 0}\n      requirements: [virtual_binding: web, virtual_link: link]",
        ),
        (
            "size_of_storage: 1 GiB",
            "size_of_storage: 1 GiB, rdma_enabled: false",
        ),
    ];
    assert!(flavour(&neutral).workloads.is_some());
}

#[test]
fn the_folder_of_a_chart_is_packed_without_what_its_helmignore_leaves_out() {
    let chart = |rules: &str| {
        let files = [
            (
                "web/Chart.yaml",
                "apiVersion: v2\nname: web\nversion: 1.0.0\n",
            ),
            ("web/templates/web.yaml", "a: 1"),
            ("web/templates/.web.yaml.swp", "rubbish"),
            ("web/ci/broken.yaml", "rubbish"),
            ("web/.helmignore", rules),
        ];
        let package = open(&[], &files).unwrap_or_else(|errors| panic!("{errors}"));
        package.packed_chart("web")
    };
    let packed = chart("# tests\nci/\n").unwrap();
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&*packed));
    let entries = tar.entries().unwrap().map(Result::unwrap);
    let mut paths: Vec<String> = entries
        .map(|entry| entry.path().unwrap().to_string_lossy().into_owned())
        .collect();
    paths.sort();
    let expected = [
        "web/.helmignore",
        "web/Chart.yaml",
        "web/templates/web.yaml",
    ];
    assert_eq!(paths, expected);
    let refused = chart("ci/**\n").unwrap_err().to_string();
    assert!(
        refused.contains("web/.helmignore") && refused.contains("`ci/**`"),
        "{refused}"
    );
}

#[test]
fn of_the_hidden_files_in_a_folder_only_the_helmignore_of_a_chart_is_packed() {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("Charts/web/Chart.yaml", "name: web"),
        ("Charts/web/.helmignore", "ci/"),
        ("Charts/web/.web.swp", "rubbish"),
        ("Charts/web/.git/.helmignore", "rubbish"),
        (".helmignore", "rubbish"),
        (".gitignore", "rubbish"),
    ] {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let packed = vnfm_descriptor::pack(folder.path(), &Limits::default()).unwrap();
    let zip = zip::ZipArchive::new(std::io::Cursor::new(packed)).unwrap();
    let mut paths: Vec<_> = zip.file_names().map(Result::unwrap).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["Charts/web/.helmignore", "Charts/web/Chart.yaml"]);
}
