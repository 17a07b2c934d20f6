//! Where in a package the examples of each code stand, in the order of the codes' explanations.

use super::packages::{
    ASD, ASD_MANIFEST, ASPECT, CAPABILITIES, DB, DEPLOYMENT, HOT, MANIFEST, META, NESTED, NET,
    ORDER, PARAMETERS, PODS, POLICIES, TYPE, VDU, WEB,
};
use super::{Edit, NAMED, Place, each, same};
use vnfm_descriptor::codes;

/// What no lines in a package can show, with what shows it.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    (codes::ZIP, "archives: hostile.rs"),
    (codes::ZIP_PATH, "archives: hostile.rs"),
    (codes::ZIP_SYMLINK, "archives: hostile.rs"),
    (codes::ZIP_ENCRYPTED, "archives: hostile.rs"),
    (codes::ZIP_BOMB, "archives: hostile.rs"),
    (codes::IO, "a path without a package: lint.rs"),
    (
        codes::SIGNATURE,
        "the server's configuration mends it: vnfd-samples/broken/signed",
    ),
    (
        codes::SIGNATURE_WRONG,
        "needs cryptography: the tests of vnfmctl",
    ),
    (
        codes::SIGNATURE_GAP,
        "needs cryptography: the tests of vnfmctl",
    ),
];

const VNFD: &str = "vnfd.yaml";
const MF: &str = "vnfd.mf";
const TOSCA_META: &str = "TOSCA-Metadata/TOSCA.meta";
const ORDER_YAML: &str = "Files/kubernetes/order.yaml";
const WEB_YAML: &str = "Files/kubernetes/web.yaml";
const TOP: &str = "BaseHOT/simple/top.yaml";
const PARAMETERS_YAML: &str = "Files/openstack/parameters.yaml";
const CONFIG_MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: more}}\n";
const TYPES: &str = "tosca_definitions_version: tosca_simple_yaml_1_3\n";
const ETSI: &str = "tosca_definitions_version: tosca_simple_yaml_1_3\nimports: [etsi_nfv_sol001_vnfd_types.yaml]\n";

const A_TYPES: Edit = ("types.yaml", "", ETSI);
const PODS_VNFD: Edit = (VNFD, "", PODS);
const PODS_ORDER: Edit = (ORDER_YAML, "", ORDER);
const PODS_WEB: Edit = (WEB_YAML, "", DEPLOYMENT);
const HOT_TOP: Edit = (TOP, "", HOT);
const HOT_PARAMETERS: Edit = (PARAMETERS_YAML, "", PARAMETERS);
const SCRIPT: Edit = ("Scripts/install.sh", "", "#!/bin/sh\n");
const A_META: Edit = (TOSCA_META, "", META);
const A_DB: Edit = (VNFD, "# more nodes", DB);

/// The packages before an example stands in them.
pub(crate) const AROUND: &[(&str, &[Edit])] = &[
    ("machines", &[(MF, "", MANIFEST), A_META, A_DB]),
    ("containers", &[PODS_VNFD, PODS_ORDER, PODS_WEB]),
    (
        "a template",
        &[
            HOT_TOP,
            HOT_PARAMETERS,
            ("BaseHOT/simple/nested/worker.yaml", "", NESTED),
        ],
    ),
    (
        "an application",
        &[
            (VNFD, "", ASD),
            (MF, "", ASD_MANIFEST),
            ("Files/web.yaml", "", CONFIG_MAP),
        ],
    ),
    ("a network", &[(VNFD, "# more nodes", NET)]),
];

const ANCHORED: &str = "dsl_definitions:\n  base: &base {cpu: 1}\n  §";
const DEFINED: &[Edit] = &[(VNFD, "# more sections", "dsl_definitions:\n  §")];
const CONSTRAINED: Edit = (
    VNFD,
    "# more properties",
    "size:\n        type: PLACE\n        required: false\n        §",
);

const IMPORTED: &[Edit] = &[
    A_META,
    (VNFD, "imports: [etsi_nfv_sol001_vnfd_types.yaml]", "§"),
    A_TYPES,
];

pub(crate) const PLACES: &[Place] = &[
    same(codes::ZIP_DUPLICATE, &[(NAMED, "", TYPES)]),
    // SOL004's own files.
    same(
        codes::ENTRY,
        &[
            A_META,
            (TOSCA_META, "Entry-Definitions: vnfd.yaml", "§"),
            ("Definitions/vnfd.yaml", "", WEB),
        ],
    ),
    same(
        codes::META,
        &[(TOSCA_META, "", "§\n"), ("Definitions/vnfd.yaml", "", WEB)],
    ),
    same(
        codes::META_KEY,
        &[
            (TOSCA_META, "", "§\nEntry-Definitions: vnfd.yaml\n"),
            ("vnf.mf", "", MANIFEST),
            ("vnf.mf", "§", ""),
        ],
    ),
    same(
        codes::META_FILE,
        &[
            A_META,
            (TOSCA_META, "1.0\n", "1.0\n§\n"),
            ("Licenses/LICENSE", "", "ours"),
        ],
    ),
    same(
        codes::MANIFEST,
        &[(MF, "", MANIFEST), ("Files/x", "", "test")],
    ),
    same(codes::MANIFEST_NONE, &[(NAMED, "", ""), (VNFD, "", WEB)]),
    same(
        codes::MANIFEST_HASH,
        &[
            (MF, "", MANIFEST),
            (MF, "§", "Source: Files/x\nAlgorithm: SHA-256\n§"),
            ("Files/x", "", "test"),
        ],
    ),
    same(
        codes::MANIFEST_METADATA,
        &[(MF, "", "§\n\nSource: vnfd.yaml\n")],
    ),
    same(
        codes::MANIFEST_DATE,
        &[
            (MF, "", MANIFEST),
            (MF, "§", ""),
            (MF, "vnf_release_date_time: 2026-11-01T10:00:00Z", "§"),
        ],
    ),
    same(
        codes::MANIFEST_DIFFERS,
        &[
            (MF, "", MANIFEST),
            (MF, "§", ""),
            (MF, "vnf_product_name: Web", "§"),
        ],
    ),
    same(
        codes::MANIFEST_LINE,
        &[(MF, "", MANIFEST), ("Definitions/vnfd.yaml", "", TYPES)],
    ),
    same(
        codes::MANIFEST_TWICE,
        &[(MF, "", MANIFEST), ("a.yaml", "", TYPES), A_META],
    ),
    same(
        codes::MANIFEST_HASHES,
        &[
            (MF, "", MANIFEST),
            ("Files/a", "", "test"),
            ("Files/b", "", "3"),
        ],
    ),
    same(
        codes::FILE_UNNAMED,
        &[
            (MF, "", MANIFEST),
            (MF, "§", "Source: vnfd.yaml\n§"),
            SCRIPT,
        ],
    ),
    same(codes::FILE_JUNK, &[(NAMED, "", "")]),
    same(
        codes::SECRET_KEY,
        &[(
            "Scripts/login.sh",
            "",
            "§\nc2FtcGxlIG9mIGEga2V5LCBub3Qgb25lc2FtcGxlIG9mIGEga2V5LCBub3Qgb25l\n",
        )],
    ),
    same(
        codes::SECRET_KUBECONFIG,
        &[("Files/admin.config", "", "§\n")],
    ),
    same(
        codes::SECRET_PASSWORD,
        &[(VNFD, "# more of the topology", "inputs:\n    §")],
    ),
    same(codes::SECRET_TOKEN, &[("Scripts/fetch.sh", "", "§\n")]),
    // YAML and TOSCA.
    same(codes::YAML, DEFINED),
    same(codes::YAML_DUPLICATE, DEFINED),
    same(codes::YAML_BOMB, DEFINED),
    same(codes::YAML_11, DEFINED),
    same(codes::YAML_DATE, DEFINED),
    same(
        codes::YAML_NUMBER,
        &[(VNFD, "# more of the VNF", "properties:\n        §")],
    ),
    same(codes::YAML_MERGE, &[(VNFD, "# more sections", ANCHORED)]),
    same(codes::YAML_BOM, &[(VNFD, "tosca", "§")]),
    same(
        codes::TOSCA_VERSION,
        &[(
            VNFD,
            "tosca_definitions_version: tosca_simple_yaml_1_3",
            "§",
        )],
    ),
    same(codes::SHAPE, IMPORTED),
    same(
        codes::KEY_UNKNOWN,
        &[
            (VNFD, "  node_templates:\n    VNF:\n", "  §\n"),
            (VNFD, "# more of the VNF", ""),
        ],
    ),
    same(codes::KEY_UNUSED, &[(VNFD, "# more properties", "§")]),
    same(codes::IMPORT, IMPORTED),
    same(
        codes::TYPE_UNKNOWN,
        &[(VNFD, "type: tosca.nodes.nfv.Vdu.Compute", "§")],
    ),
    same(codes::TYPE_CYCLE, &[(VNFD, "# more types", "§")]),
    same(
        codes::TYPE_BOMB,
        &[
            (
                VNFD,
                "# more sections",
                "data_types:\n  §\n  Parameters: {derived_from: tosca.datatypes.nfv.VnfOperationAdditionalParameters, properties: {a: {type: A}}}\ninterface_types:\n  Life:\n    derived_from: tosca.interfaces.nfv.Vnflcm\n    operations: {instantiate: {inputs: {additional_parameters: {type: Parameters}}}}",
            ),
            (
                VNFD,
                "# more properties\n",
                "# more properties\n    interfaces: {Vnflcm: {type: Life}}\n",
            ),
        ],
    ),
    same(codes::TYPE_REDEFINED, &[(VNFD, "# more types", "§")]),
    same(
        codes::PROPERTY_UNKNOWN,
        &[PODS_VNFD, (VNFD, "properties: {name: httpd}", "§")],
    ),
    same(
        codes::PROPERTY_MISSING,
        &[(
            VNFD,
            "# more nodes",
            "db:\n      type: tosca.nodes.nfv.Vdu.Compute\n      §",
        )],
    ),
    same(
        codes::PROPERTY_TYPE,
        &[(VNFD, "virtual_mem_size: 512 MiB", "§")],
    ),
    same(
        codes::PROPERTY_CONSTRAINT,
        &[(VNFD, "layer_protocols: [ipv4]", "§")],
    ),
    same(
        codes::CONSTRAINT,
        &[CONSTRAINED, (VNFD, "PLACE", "integer")],
    ),
    same(
        codes::INPUT_UNKNOWN,
        &[
            (VNFD, "sw_image_data: {name: web}", "sw_image_data: {§}"),
            (
                VNFD,
                "# more of the topology",
                "inputs: {image: {type: string, default: web}}",
            ),
        ],
    ),
    same(
        codes::INPUT_UNUSED,
        &[(VNFD, "# more of the topology", "§")],
    ),
    same(
        codes::FUNCTION,
        &[
            (VNFD, "max_number_of_instances: 3", "§"),
            (
                VNFD,
                "# more of the topology",
                "inputs: {most: {type: integer}}",
            ),
        ],
    ),
    same(
        codes::REFERENCE,
        &[(
            VNFD,
            "# more of the topology",
            "outputs: {address: {value: §}}",
        )],
    ),
    same(codes::NODE_UNKNOWN, &[(VNFD, "virtual_binding: web", "§")]),
    same(codes::NODE_KIND, &[(VNFD, "virtual_binding: web", "§")]),
    same(
        codes::REQUIREMENT_UNKNOWN,
        &[(
            VNFD,
            "requirements: [virtual_binding: web]",
            "requirements:\n        §",
        )],
    ),
    same(
        codes::REQUIREMENT_UNDECLARED,
        &[(
            VNFD,
            "requirements: {virtual_link: [port, virtual_link]}",
            "§",
        )],
    ),
    same(
        codes::OCCURRENCES,
        &[(VNFD, "requirements: [virtual_binding: web]", "§"), A_DB],
    ),
    same(
        codes::SUBSTITUTION,
        &[
            (VNFD, "node_type: my.nodes.Web", "§"),
            (
                VNFD,
                "# more types",
                "my.nodes.Shop: {derived_from: tosca.nodes.nfv.VNF}",
            ),
        ],
    ),
    same(
        codes::INTERFACE_UNKNOWN,
        &[
            (
                VNFD,
                "# more of the VNF",
                "§\n      artifacts: {install: {type: tosca.artifacts.Implementation.Bash, file: Scripts/install.sh}}",
            ),
            SCRIPT,
        ],
    ),
    same(
        codes::OPERATION_UNKNOWN,
        &[(VNFD, "# more of the VNF", HOOK), SCRIPT],
    ),
    // SOL001.
    same(
        codes::VNF_MISSING,
        &[
            (VNFD, SUBSTITUTED, ""),
            (
                VNFD,
                "# more properties",
                "flavour_id: {type: string, default: simple}",
            ),
            (
                VNFD,
                "VNF:\n      type: my.nodes.Web\n      # more of the VNF",
                "§",
            ),
        ],
    ),
    same(
        codes::VNF_PROPERTY,
        &[(VNFD, TYPE, "  §\n"), (VNFD, "      # more properties", "")],
    ),
    same(
        codes::VNF_REQUIRED,
        &[
            (VNFD, REQUIRED, ""),
            (
                VNFD,
                "VNF:\n      type: my.nodes.Web\n      # more of the VNF",
                "§",
            ),
        ],
    ),
    same(
        codes::VNFM_INFO,
        &[(VNFD, "# more of the VNF", "properties:\n        §")],
    ),
    same(codes::FLAVOUR, &[(VNFD, SUBSTITUTED, "  §\n")]),
    same(codes::POLICY, &[(VNFD, "# more policies", COUNTS)]),
    same(codes::RESOURCES, &[(VNFD, POLICIES, "  §\n")]),
    same(codes::VDU_INITIAL, &[(VNFD, POLICIES, "  §\n")]),
    same(codes::ASPECT_DELTAS, &[(VNFD, ASPECT, "    §\n")]),
    same(
        codes::ASPECT_STEPS,
        &[(VNFD, "web: {max_scale_level: 2, step_deltas: [one]}", "§")],
    ),
    same(
        codes::DELTA_UNUSED,
        &[(VNFD, "deltas: {one: {number_of_instances: 1}}", "§")],
    ),
    same(
        codes::DELTA_ZERO,
        &[(VNFD, "deltas: {one: {number_of_instances: 1}}", "§")],
    ),
    same(
        codes::SCALE_RANGE,
        &[(VNFD, "max_number_of_instances: 3", "§")],
    ),
    same(codes::LEVEL_DEFAULT, &[(VNFD, LEVELS, "\n          §")]),
    same(codes::LEVEL_COUNT, &[(VNFD, "# more policies", COUNTS)]),
    same(
        codes::AFFINITY_ONE,
        &[
            (
                VNFD,
                "# more policies",
                "- apart:\n        type: tosca.policies.nfv.AntiAffinityRule\n        properties: {scope: nfvi_node}\n        §",
            ),
            A_DB,
        ],
    ),
    same(
        codes::AFFINITY_BOTH,
        &[(VNFD, "# more policies", "§"), A_DB],
    ),
    same(codes::POLICY_TARGETS, &[(VNFD, FIRST, "§\n")]),
    same(
        codes::PORT_RANGE,
        &[(
            VNFD,
            "# more policies",
            "- http:\n        type: tosca.policies.nfv.SecurityGroupRule\n        properties: §\n        targets: [port]",
        )],
    ),
    same(
        codes::CP_BINDING,
        &[
            (VNFD, "requirements: [virtual_binding: web]", "§"),
            (
                VNFD,
                "    requirements: {virtual_link: [port, virtual_link]}\n",
                "",
            ),
            (VNFD, "# more nodes", NET),
        ],
    ),
    same(
        codes::CP_LINK,
        &[
            (VNFD, "requirements: [virtual_binding: web]", "§"),
            (
                VNFD,
                "    requirements: {virtual_link: [port, virtual_link]}\n",
                "",
            ),
            (VNFD, "# more nodes", NET),
        ],
    ),
    same(
        codes::CP_ORDER,
        &[
            (VNFD, "# more nodes", "§\n    # more nodes"),
            (VNFD, "# more nodes", NET),
        ],
    ),
    same(
        codes::LINK_UNUSED,
        &[
            (
                VNFD,
                "# more nodes",
                "net:\n      type: tosca.nodes.nfv.VnfVirtualLink\n      properties: {connectivity_type: {layer_protocols: [ipv4]}, vl_profile: {}}\n    inner:\n      type: tosca.nodes.nfv.VduCp\n      properties: {layer_protocols: [ipv4]}\n      §",
            ),
            (
                VNFD,
                "    requirements: {virtual_link: [port, virtual_link]}\n",
                "",
            ),
        ],
    ),
    same(
        codes::STORAGE_UNUSED,
        &[
            (
                VNFD,
                "# more nodes",
                "data: {type: tosca.nodes.nfv.Vdu.VirtualBlockStorage, properties: {virtual_block_storage_data: {size_of_storage: 1 GiB}}}",
            ),
            (VNFD, "# more of web", "§"),
        ],
    ),
    same(
        codes::CONTAINER_UNUSED,
        &[
            PODS_VNFD,
            (VNFD, "requirements: [container: httpd]", "§"),
            (
                VNFD,
                "# more nodes",
                "sidecar:\n      type: tosca.nodes.nfv.Vdu.OsContainer\n      properties: {name: sidecar}\n      artifacts:\n        image: {type: tosca.artifacts.nfv.SwImage, file: 'localhost/busybox:1', properties: {name: busybox, container_format: docker}}",
            ),
        ],
    ),
    same(
        codes::ADDRESS,
        &[
            (VNFD, "# more nodes", NET),
            (VNFD, "{ip_version: ipv4, cidr: 10.0.0.0/24}", "§"),
        ],
    ),
    each(
        codes::VDU_IMAGE,
        &[(VNFD, VDU, "    §\n")],
        &[
            (VNFD, "        sw_image_data: {name: web}\n", ""),
            (VNFD, "# more of web", "§"),
            ("Files/web.qcow2", "", "test"),
        ],
    ),
    each(
        codes::VDU_COMPUTE,
        &[(VNFD, VDU, "    §\n")],
        &[(VNFD, CAPABILITIES, "§")],
    ),
    same(
        codes::IMAGE_CHECKSUM,
        &[
            (VNFD, "        sw_image_data: {name: web}\n", ""),
            (
                VNFD,
                "# more of web",
                "artifacts:\n        image:\n          type: tosca.artifacts.nfv.SwImage\n          §",
            ),
            ("Files/web.qcow2", "", "test"),
        ],
    ),
    same(
        codes::IMAGE_HASH,
        &[
            (VNFD, "        sw_image_data: {name: web}\n", ""),
            (VNFD, "# more of web", IMAGE),
            ("Files/web.qcow2", "", "test"),
        ],
    ),
    same(
        codes::IMAGE_DIFFERS,
        &[
            (VNFD, "        sw_image_data: {name: web}\n", ""),
            (VNFD, "# more of web", IMAGE),
            ("Files/web.qcow2", "", "test2"),
        ],
    ),
    same(
        codes::IMAGE_FIT,
        &[
            (VNFD, "        sw_image_data: {name: web}\n", ""),
            (VNFD, "# more of web", IMAGE),
            (
                VNFD,
                "{virtual_mem_size: 512 MiB}",
                "{virtual_mem_size: 512 MiB}, virtual_local_storage: [{size_of_storage: 4 GiB}]",
            ),
            ("Files/web.qcow2", "", "test"),
        ],
    ),
    same(
        codes::IMAGE_FORMAT,
        &[
            (VNFD, "        sw_image_data: {name: web}\n", ""),
            (VNFD, "# more of web", IMAGE),
            ("Files/web.qcow2", "", "test"),
        ],
    ),
    same(
        codes::IMPLEMENTATION_UNKNOWN,
        &[(VNFD, "# more of the VNF", HOOK), SCRIPT],
    ),
    same(
        codes::ARTIFACT_MISSING,
        &[
            (VNFD, "# more of the VNF", INSTALLED),
            SCRIPT,
            (
                VNFD,
                "§",
                "type: tosca.artifacts.Implementation.Bash\n          §",
            ),
        ],
    ),
    same(
        codes::ARTIFACT_ABSENT,
        &[(VNFD, "# more of the VNF", INSTALLED)],
    ),
    same(
        codes::SCRIPT_LINES,
        &[
            (VNFD, "# more of the VNF", INSTALLED),
            (
                VNFD,
                "§",
                "type: tosca.artifacts.Implementation.Bash\n          file: Scripts/install.sh",
            ),
            ("Scripts/install.sh", "", "§"),
        ],
    ),
    same(
        codes::ARTIFACT_RUNNER,
        &[
            (VNFD, "# more of the VNF", INSTALLED),
            SCRIPT,
            (VNFD, "§", "§\n          file: Scripts/install.sh"),
            (
                VNFD,
                "# more sections",
                "artifact_types: {tosca.artifacts.Implementation.Perl: {derived_from: tosca.artifacts.Implementation}}",
            ),
        ],
    ),
    same(
        codes::ARTIFACT_UNUSED,
        &[
            (
                VNFD,
                "# more of the VNF",
                "interfaces:\n        Vnflcm:\n          §\n      artifacts:\n        install: {type: tosca.artifacts.Implementation.Bash, file: Scripts/install.sh}\n        remove: {type: tosca.artifacts.Implementation.Bash, file: Scripts/install.sh}",
            ),
            SCRIPT,
        ],
    ),
    same(
        codes::TIMEOUT,
        &[
            (VNFD, "# more of the VNF", HOOK),
            (
                VNFD,
                "          §",
                "          instantiate_end:\n            §",
            ),
            SCRIPT,
        ],
    ),
    same(
        codes::WORKLOAD,
        &[
            PODS_VNFD,
            PODS_ORDER,
            PODS_WEB,
            (VNFD, "name: web\n", "§\n"),
            (WEB_YAML, "metadata: {name: web}", "metadata: {name: www}"),
        ],
    ),
    each(
        codes::ORDER_NONE,
        &[PODS_VNFD, (NAMED, "", DEPLOYMENT)],
        &[PODS_VNFD, (NAMED, "", ""), PODS_ORDER, PODS_WEB],
    ),
    same(
        codes::IMPORT_CYCLE,
        &[
            A_META,
            (
                VNFD,
                "imports: [etsi_nfv_sol001_vnfd_types.yaml]",
                "imports: [etsi_nfv_sol001_vnfd_types.yaml, a.yaml]",
            ),
            ("a.yaml", "", TYPES),
            ("a.yaml", "1_3\n", "1_3\n§\n"),
            A_TYPES,
        ],
    ),
    same(
        codes::IMPORT_OTHER,
        &[(VNFD, "imports: [etsi_nfv_sol001_vnfd_types.yaml]", "§")],
    ),
    same(
        codes::SOL001_VERSION,
        &[(VNFD, "imports: [etsi_nfv_sol001_vnfd_types.yaml]", "§")],
    ),
    same(
        codes::SOL001_OTHER,
        &[
            (MF, "", MANIFEST),
            (MF, "\n\n§", "\n§"),
            (
                VNFD,
                "# more nodes",
                "vip:\n      type: tosca.nodes.nfv.VipCp\n      properties: {layer_protocols: [ipv4]}\n      requirements: [target: port]",
            ),
        ],
    ),
    same(codes::PATTERN, &[CONSTRAINED, (VNFD, "PLACE", "string")]),
    same(
        codes::NODE_FILTER,
        &[(VNFD, "virtual_binding: web", "§"), A_DB],
    ),
    same(
        codes::ASD,
        &[
            (VNFD, "", ASD),
            (MF, "", ASD_MANIFEST),
            ("Files/web.yaml", "", CONFIG_MAP),
            (VNFD, ASD_PROPERTIES, "      §\n"),
        ],
    ),
    same(
        codes::ASD_UNKNOWN,
        &[
            (VNFD, "", ASD),
            (MF, "", ASD_MANIFEST),
            ("Files/web.yaml", "", CONFIG_MAP),
            (VNFD, "schema_version: '2.0'", "§"),
        ],
    ),
    same(codes::TYPES_INDENT, &[(VNFD, "# more sections", "§")]),
    // Heat, Kubernetes and lint itself.
    same(
        codes::ORDER_FILE,
        &[
            PODS_VNFD,
            PODS_WEB,
            (
                ORDER_YAML,
                "",
                "§\nmanifests: [{path: Files/kubernetes/web.yaml, order: 1}]\n",
            ),
        ],
    ),
    same(
        codes::ORDER_MANIFEST,
        &[
            PODS_VNFD,
            PODS_WEB,
            (
                ORDER_YAML,
                "",
                "variables: {replicas: 1}\nmanifests:\n  §\n",
            ),
        ],
    ),
    same(
        codes::CHART,
        &[
            (VNFD, "", ASD),
            (MF, "", ASD_MANIFEST),
            (VNFD, ASD_ARTIFACT, "        §\n"),
            ("Files/web.yaml", "", CONFIG_MAP),
            ("Files/web.tgz", "", "chart"),
        ],
    ),
    same(
        codes::CHART_FILE,
        &[
            PODS_VNFD,
            (
                VNFD,
                "# more nodes",
                "web-chart:\n      type: tosca.nodes.nfv.Mciop\n      requirements: [associatedVdu: web]\n      §",
            ),
            ("Charts/values.yaml", "", "a: 1\n"),
            (
                "Charts/web-1.0.0.tgz",
                "",
                "@cnf-chart/Artifacts/Charts/web-1.0.0.tgz",
            ),
        ],
    ),
    same(codes::MCIOP, &[PODS_VNFD, (VNFD, "# more nodes", "§")]),
    same(
        codes::MANIFEST_YAML,
        &[
            PODS_VNFD,
            PODS_ORDER,
            PODS_WEB,
            (WEB_YAML, "replicas: $replicas", "§"),
        ],
    ),
    same(
        codes::MANIFEST_UNUSED,
        &[
            PODS_VNFD,
            (ORDER_YAML, "", "§\n"),
            ("Files/kubernetes/a.yaml", "", CONFIG_MAP),
            ("Files/kubernetes/b.yaml", "", CONFIG_MAP),
        ],
    ),
    same(
        codes::VARIABLE_UNUSED,
        &[
            PODS_VNFD,
            PODS_ORDER,
            PODS_WEB,
            (ORDER_YAML, "variables: {replicas: 1}", "§"),
        ],
    ),
    same(
        codes::VARIABLE_UNKNOWN,
        &[
            PODS_VNFD,
            PODS_ORDER,
            PODS_WEB,
            (WEB_YAML, "replicas: $replicas", "§"),
        ],
    ),
    same(codes::HOT, &[(NAMED, "", NESTED), HOT_PARAMETERS]),
    same(
        codes::HOT_PARAMETER,
        &[HOT_TOP, (PARAMETERS_YAML, "", "parameters:\n  §\n")],
    ),
    each(
        codes::HOT_UNMAPPED,
        &[HOT_TOP, HOT_PARAMETERS, (TOP, "# more parameters", "§")],
        &[
            HOT_TOP,
            (TOP, "# more parameters", "zone: {type: string}"),
            (
                PARAMETERS_YAML,
                "",
                "parameters:\n  flavor: vdu.web.flavor\n  §\n",
            ),
        ],
    ),
    same(
        codes::HOT_KEY,
        &[(TOP, "", "heat_template_version: 2018-08-31\n§\n")],
    ),
    same(
        codes::HOT_FILE,
        &[
            HOT_TOP,
            HOT_PARAMETERS,
            (
                TOP,
                "# more resources",
                "worker:\n    §\n    properties: {flavor: {get_param: flavor}}",
            ),
            ("BaseHOT/simple/nested/worker.yaml", "", NESTED),
        ],
    ),
    same(
        codes::HOT_REFERENCE,
        &[
            HOT_TOP,
            HOT_PARAMETERS,
            (TOP, "networks: none", "networks: [§]"),
            (
                TOP,
                "# more resources",
                "port: {type: 'OS::Neutron::Port', properties: {network: public}}",
            ),
        ],
    ),
    same(
        codes::HOT_UNUSED,
        &[HOT_TOP, HOT_PARAMETERS, (TOP, "# more parameters", "§")],
    ),
    same(
        codes::HOT_NESTED,
        &[
            HOT_TOP,
            HOT_PARAMETERS,
            (TOP, "# more resources", "worker:\n    §"),
            ("BaseHOT/simple/nested/worker.yaml", "", NESTED),
        ],
    ),
    same(
        codes::HOT_FLAVOUR,
        &[HOT_TOP, HOT_PARAMETERS, (NAMED, "", NESTED)],
    ),
    same(
        codes::K8S_OBJECT,
        &[PODS_VNFD, PODS_ORDER, (WEB_YAML, "", "§\n")],
    ),
    same(
        codes::K8S_API,
        &[
            PODS_VNFD,
            PODS_ORDER,
            PODS_WEB,
            (WEB_YAML, "apiVersion: apps/v1\nkind: Deployment", "§"),
        ],
    ),
    same(
        codes::K8S_KIND,
        &[
            PODS_VNFD,
            PODS_ORDER,
            PODS_WEB,
            (WEB_YAML, "apiVersion: apps/v1\nkind: Deployment", "§"),
        ],
    ),
    same(
        codes::K8S_FIELD,
        &[
            PODS_VNFD,
            PODS_ORDER,
            (
                WEB_YAML,
                "",
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n§\n",
            ),
        ],
    ),
    same(
        codes::K8S_NAME,
        &[
            PODS_VNFD,
            PODS_ORDER,
            PODS_WEB,
            (WEB_YAML, "metadata: {name: web}", "§"),
        ],
    ),
    same(
        codes::K8S_SELECTOR,
        &[
            PODS_VNFD,
            PODS_ORDER,
            PODS_WEB,
            (
                WEB_YAML,
                "selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n",
                "§\n",
            ),
        ],
    ),
    same(
        codes::K8S_IMAGE,
        &[
            PODS_VNFD,
            PODS_ORDER,
            PODS_WEB,
            (
                WEB_YAML,
                "containers: [{name: httpd, image: 'localhost/busybox:1'}]",
                "§",
            ),
        ],
    ),
    same(
        codes::ALLOW_REASON,
        &[
            (VNFD, "# more nodes", "§\n    # more nodes"),
            (VNFD, "# more nodes", NET),
        ],
    ),
    same(codes::ALLOW_CODE, &[(VNFD, "# more sections", "§")]),
    same(
        codes::ALLOW_UNUSED,
        &[
            (VNFD, "# more nodes", "§\n    # more nodes"),
            (VNFD, "# more nodes", NET),
            (
                VNFD,
                "requirements: [virtual_binding: web]",
                "requirements: [virtual_binding: web, virtual_link: net]",
            ),
            (
                VNFD,
                "    requirements: {virtual_link: [port, virtual_link]}\n",
                "",
            ),
        ],
    ),
];

const HOOK: &str = "interfaces:
        Vnflcm:
          §
      artifacts:
        install: {type: tosca.artifacts.Implementation.Bash, file: Scripts/install.sh}";

const INSTALLED: &str = "interfaces:
        Vnflcm:
          instantiate_end: install
      artifacts:
        install:
          §";

const IMAGE: &str = "artifacts:
        image:
          type: tosca.artifacts.nfv.SwImage
          file: Files/web.qcow2
          properties:
            name: web
            §";

const COUNTS: &str = "- counts:
        type: tosca.policies.nfv.VduInstantiationLevels
        §
        targets: [web]";

const REQUIRED: &str =
    "      vnfm_info: {type: list, entry_schema: {type: string}, default: ['etsivnfm:v3.3.1']}
      flavour_description: {type: string, default: Two pods}
";

const SUBSTITUTED: &str = "  substitution_mappings:
    node_type: my.nodes.Web
    properties: {flavour_id: simple}
    requirements: {virtual_link: [port, virtual_link]}
";

const LEVELS: &str = " {levels: {small: {scale_info: {web: {scale_level: 0}}}, large: {scale_info: {web: {scale_level: 2}}}}, default_level: small}";

const FIRST: &str = "type: tosca.policies.nfv.VduInitialDelta
        properties: {initial_delta: {number_of_instances: 1}}
        targets: [web]
";

const ASD_PROPERTIES: &str = "      properties:
        descriptor_id: web
        descriptor_version: '1.0'
        schema_version: '2.0'
        provider: Us
        application_name: Web
        application_version: '1.0'
";

const ASD_ARTIFACT: &str = "        web:
          type: tosca.artifacts.asd.deploymentItem
          file: Files/web.yaml
          properties: {item_id: '1', artifact_type: kubernetes_manifest, deployment_order: 1}
";
