//! What is said of Heat templates, of manifests, and of lint's own comments.

use super::{Explanation, why};
use crate::finding::codes;

const ORDER: &str = "ours: the order file (vnfd-samples/vnf-b-cnf)";
const MAPPING: &str = "ours: the parameter mapping (vnfd-samples/vnf-a-k8s-cluster-base-hot)";
const HEAT: &str = "Heat Orchestration Template specification";
const KUBERNETES: &str = "Kubernetes API reference 1.36";
const LINT: &str = "ours: comments of lint";

pub(super) const ALL: &[Explanation] = &[
    why(
        codes::ORDER_FILE,
        "The order file has `manifests`, each with `path` and `order`; variables have names such as `size_1`.",
        "variables: {1st: x}",
        "variables: {replicas: 1}",
        ORDER,
    ),
    why(
        codes::ORDER_MANIFEST,
        "The order file names files of the package.",
        "- {path: Files/kubernetes/wbe.yaml, order: 1}",
        "- {path: Files/kubernetes/web.yaml, order: 1}",
        ORDER,
    ),
    why(
        codes::CHART,
        "Workloads come as manifests: the order file lists them, or an ASD has them as items of type `kubernetes_manifest` or `crd`. Charts are read and shown, and not deployed.",
        "web: {type: tosca.artifacts.asd.deploymentItem, file: Files/web.tgz, properties: {item_id: '1', artifact_type: helm_chart}}",
        "web: {type: tosca.artifacts.asd.deploymentItem, file: Files/web.yaml, properties: {item_id: '1', artifact_type: kubernetes_manifest}}   (what `helm template` prints)",
        "ours: what the Kubernetes driver deploys (vnfd-samples/asd-web)",
    ),
    why(
        codes::CHART_FILE,
        "A chart that is named lies in the package: a gzipped tar of one folder, in it `Chart.yaml` with `apiVersion`, `name` and `version`.",
        "artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: Charts/values.yaml}}",
        "artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: Charts/web-1.0.0.tgz}}   (what `helm package` makes)",
        "SOL001 V4.2.1 (tosca.artifacts.nfv.HelmChart); Helm: the chart file structure",
    ),
    why(
        codes::MCIOP,
        "A Mciop names its chart, and the deployable units that the chart brings; each unit is brought by one.",
        "web-chart: {type: tosca.nodes.nfv.Mciop, requirements: [associatedVdu: web]}",
        "web-chart: {type: tosca.nodes.nfv.Mciop, requirements: [associatedVdu: web], artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: Charts/web-1.0.0.tgz}}}",
        "SOL001 V4.2.1 (tosca.nodes.nfv.Mciop)",
    ),
    why(
        codes::MANIFEST_YAML,
        "A manifest is YAML when its variables are replaced.",
        "replicas: [$replicas",
        "replicas: $replicas",
        ORDER,
    ),
    why(
        codes::MANIFEST_UNUSED,
        "Every manifest is in the order file.",
        "manifests: [{path: Files/kubernetes/a.yaml, order: 1}]   (there is a b.yaml)",
        "manifests:\n  - {path: Files/kubernetes/a.yaml, order: 1}\n  - {path: Files/kubernetes/b.yaml, order: 2}",
        ORDER,
    ),
    why(
        codes::VARIABLE_UNUSED,
        "A manifest uses each variable.",
        "variables: {replicas: 2, colour: red}   (no `$colour`)",
        "variables: {replicas: 2}",
        ORDER,
    ),
    why(
        codes::VARIABLE_UNKNOWN,
        "Variables are declared; a plain `$` is written `$$`.",
        "replicas: $replcias",
        "replicas: $replicas",
        ORDER,
    ),
    why(
        codes::HOT,
        "Below `BaseHOT/<flavour>` lies one Heat template, and nested ones deeper.",
        "BaseHOT/simple/a.yaml\nBaseHOT/simple/b.yaml",
        "BaseHOT/simple/a.yaml\nBaseHOT/simple/nested/b.yaml",
        MAPPING,
    ),
    why(
        codes::HOT_PARAMETER,
        "The mapping fills parameters of the template, from things that exist.",
        "flavr: vdu.web.flavor",
        "flavor: vdu.web.flavor",
        MAPPING,
    ),
    why(
        codes::HOT_UNMAPPED,
        "The mapping or a default fills each parameter of the template.",
        "zone: {type: string}   (and nothing in the mapping)",
        "zone: additionalParams.zone   (in Files/openstack/parameters.yaml)",
        MAPPING,
    ),
    why(
        codes::HOT_KEY,
        "Keys are those of a Heat template.",
        "resource:\n  web: {type: 'OS::Heat::None'}",
        "resources:\n  web: {type: 'OS::Heat::None'}",
        HEAT,
    ),
    why(
        codes::HOT_FILE,
        "A nested template lies beside the one that names it.",
        "type: nested/wrker.yaml",
        "type: nested/worker.yaml",
        HEAT,
    ),
    why(
        codes::HOT_REFERENCE,
        "`get_resource`, `get_attr`, `get_param` and `depends_on` name what the template has.",
        "{port: {get_resource: prot}}",
        "{port: {get_resource: port}}",
        HEAT,
    ),
    why(
        codes::HOT_UNUSED,
        "The template uses each of its parameters.",
        "zone: {type: string, default: nova}   (no `get_param: zone`)",
        "(left out)",
        HEAT,
    ),
    why(
        codes::HOT_NESTED,
        "A nested template is given its parameters, and no others.",
        "type: nested/worker.yaml\nproperties: {flavr: m1.small}",
        "type: nested/worker.yaml\nproperties: {flavor: m1.small}",
        HEAT,
    ),
    why(
        codes::HOT_FLAVOUR,
        "`BaseHOT/<flavour>` is named after a deployment flavour.",
        "BaseHOT/simpel/top.yaml",
        "BaseHOT/simple/top.yaml",
        MAPPING,
    ),
    why(
        codes::K8S_OBJECT,
        "Each document has `apiVersion` and `kind`.",
        "metadata: {name: web}",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}",
        KUBERNETES,
    ),
    why(
        codes::K8S_API,
        "The `apiVersion` is one that is served, and serves the kind.",
        "apiVersion: extensions/v1beta1\nkind: Deployment",
        "apiVersion: apps/v1\nkind: Deployment",
        KUBERNETES,
    ),
    why(
        codes::K8S_KIND,
        "The kind is one of its group; groups that are not Kubernetes' own are let through.",
        "apiVersion: apps/v1\nkind: Deploymnt",
        "apiVersion: apps/v1\nkind: Deployment",
        KUBERNETES,
    ),
    why(
        codes::K8S_FIELD,
        "Fields are those of the kind, its spec, pods and containers.",
        "spec: {replica: 2}",
        "spec: {replicas: 2}",
        KUBERNETES,
    ),
    why(
        codes::K8S_NAME,
        "An object has a name of lower case letters, digits, `-` and `.`.",
        "metadata: {name: Web_Server}",
        "metadata: {name: web-server}",
        KUBERNETES,
    ),
    why(
        codes::K8S_SELECTOR,
        "The labels of the pods hold what the workload selects.",
        "selector: {matchLabels: {app: web}}\ntemplate:\n  metadata: {labels: {app: www}}",
        "selector: {matchLabels: {app: web}}\ntemplate:\n  metadata: {labels: {app: web}}",
        KUBERNETES,
    ),
    why(
        codes::K8S_IMAGE,
        "A container has a name and an image.",
        "containers: [{name: web}]",
        "containers: [{name: web, image: httpd:2.4}]",
        KUBERNETES,
    ),
    why(
        codes::ALLOW_REASON,
        "An allow says why.",
        "# vnfm-lint: allow W-LINK-UNUSED",
        "# vnfm-lint: allow W-LINK-UNUSED the request attaches machines of another VNF to it",
        LINT,
    ),
    why(
        codes::ALLOW_CODE,
        "An allow names the code of a warning.",
        "# vnfm-lint: allow E-IMPORT it is there in production",
        "(mended: onboarding refuses what is an error)",
        LINT,
    ),
    why(
        codes::ALLOW_UNUSED,
        "An allow stands at what it allows, and goes when that is mended.",
        "# vnfm-lint: allow W-LINK-UNUSED spare   (at a link that is used)",
        "(taken away)",
        LINT,
    ),
];
