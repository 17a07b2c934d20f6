//! Examples of the codes of Heat, Kubernetes and lint itself.

use super::{
    CONFIG_MAP, HOT_PARAMETERS, HOT_TOP, MF, ORDER_YAML, PARAMETERS_YAML, PODS_ORDER, PODS_VNFD,
    PODS_WEB, TOP, VNFD, WEB_YAML,
};
use crate::packages::{ASD, ASD_MANIFEST, NESTED, NET};
use crate::{Edit, Example, NAMED, each, same};
use vnfm_lint::codes;

/// `PODS` with the parameter `count` and a chart whose Mciop has a script and rules.
const MAPPED: &[Edit] = &[
    PODS_VNFD,
    (
        VNFD,
        "node_types:",
        "data_types:\n  Parameters: {derived_from: tosca.datatypes.nfv.VnfOperationAdditionalParameters, properties: {count: {type: integer}}}\ninterface_types:\n  Life:\n    derived_from: tosca.interfaces.nfv.Vnflcm\n    operations: {instantiate: {inputs: {additional_parameters: {type: Parameters}}}}\nnode_types:",
    ),
    (
        VNFD,
        "derived_from: tosca.nodes.nfv.VNF",
        "derived_from: tosca.nodes.nfv.VNF\n    interfaces: {Vnflcm: {type: Life}}",
    ),
    (
        VNFD,
        "# more nodes",
        "web-chart:\n      type: tosca.nodes.nfv.Mciop\n      requirements: [associatedVdu: web]\n      artifacts:\n        chart: {type: tosca.artifacts.nfv.HelmChart, file: Charts/web-1.0.0.tgz}\n        rules: {type: tosca.artifacts.nfv.HelmParamMappingRule, file: Charts/rules.yaml}\n        script: {type: tosca.artifacts.nfv.HelmParamMappingScript, file: Charts/map.sh, properties: {language: bash}}",
    ),
    (
        "Charts/web-1.0.0.tgz",
        "",
        "@cnf-chart/Artifacts/Charts/web-1.0.0.tgz",
    ),
    ("Charts/map.sh", "", "#!/bin/bash\n"),
    ("Charts/rules.yaml", "", "§\n"),
];

pub(crate) const EXAMPLES: &[Example] = &[
    same(
        codes::CONTAINERS,
        &[PODS_VNFD, (VNFD, "file: 'localhost/busybox:1'", "§")],
    ),
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
    same(codes::HELM_MAPPING, MAPPED),
    same(codes::HELM_RULE, MAPPED),
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
        codes::HOT_PLACE,
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

const ASD_ARTIFACT: &str = "        web:
          type: tosca.artifacts.asd.deploymentItem
          file: Files/web.yaml
          properties: {item_id: '1', artifact_type: kubernetes_manifest, deployment_order: 1}
";
