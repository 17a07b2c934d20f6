//! Examples of the codes of YAML and TOSCA.

use super::{A_DB, A_META, A_TYPES, CONSTRAINED, HOOK, PODS_VNFD, SCRIPT, VNFD};
use crate::{Edit, Example, same};
use vnfm_lint::codes;

pub(crate) const EXAMPLES: &[Example] = &[
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
    same(codes::EMPTY, MAPPED),
    same(codes::MAPPING, MAPPED),
    same(
        codes::OPERATION_INPUT,
        &[(
            VNFD,
            "# more of the VNF",
            "interfaces:\n        Vnflcm:\n          §",
        )],
    ),
    same(
        codes::FUNCTION_LATE,
        &[
            (VNFD, "# more sections", LIMIT_TYPE),
            (
                VNFD,
                "# more of the topology",
                "inputs: {limit: {type: integer}}",
            ),
            (
                VNFD,
                "# more policies",
                "- limit:\n        type: my.policies.Limit\n        §",
            ),
        ],
    ),
    same(codes::YAML_QUOTED, &[(VNFD, "# more sections", "§")]),
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
];

const ANCHORED: &str = "dsl_definitions:\n  base: &base {cpu: 1}\n  §";

const DEFINED: &[Edit] = &[(VNFD, "# more sections", "dsl_definitions:\n  §")];

const IMPORTED: &[Edit] = &[
    A_META,
    (VNFD, "imports: [etsi_nfv_sol001_vnfd_types.yaml]", "§"),
    A_TYPES,
];

const MAPPED: &[Edit] = &[(
    VNFD,
    "requirements: {virtual_link: [port, virtual_link]}",
    "§",
)];

const LIMIT_TYPE: &str = "policy_types:
  my.policies.Limit: {derived_from: tosca.policies.Root, properties: {limit: {type: integer}}}";
