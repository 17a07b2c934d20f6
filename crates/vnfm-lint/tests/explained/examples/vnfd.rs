//! Examples of the codes of SOL001.

use super::{
    A_DB, A_META, A_TYPES, CONFIG_MAP, CONSTRAINED, HOOK, MF, PODS_ORDER, PODS_VNFD, PODS_WEB,
    SCRIPT, TYPES, VNFD, WEB_YAML,
};
use crate::packages::{
    ASD, ASD_MANIFEST, ASPECT, CAPABILITIES, DEPLOYMENT, MANIFEST, NET, POLICIES, TYPE, UNITS, VDU,
};
use crate::{Example, NAMED, each, same};
use vnfm_lint::codes;

pub(crate) const EXAMPLES: &[Example] = &[
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
    same(codes::POLICY, &[(VNFD, "default_level: small", "§")]),
    same(codes::LEVEL_DIFFERS, &[(VNFD, "# more policies", COUNTS)]),
    same(
        codes::LEVEL_PROFILE,
        &[(
            VNFD,
            "vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 3}",
            "§",
        )],
    ),
    same(
        codes::ASPECT_UNKNOWN,
        &[(
            VNFD,
            "properties: {aspect: web, deltas: {one: {number_of_instances: 1}}}",
            "§",
        )],
    ),
    same(
        codes::IMAGE_TWICE,
        &[
            (VNFD, "        sw_image_data: {name: web}\n", ""),
            (
                VNFD,
                "# more of web",
                "artifacts:\n        first: {type: tosca.artifacts.nfv.SwImage, file: Files/web.qcow2}\n        §",
            ),
            ("Files/web.qcow2", "", "test"),
        ],
    ),
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
        codes::DEPLOY_NONE,
        &[PODS_VNFD, (VNFD, UNITS, ""), A_META, (NAMED, "", TYPES)],
        &[PODS_VNFD, A_META, (NAMED, "", TYPES), PODS_ORDER, PODS_WEB],
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
];

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
