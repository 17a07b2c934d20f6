//! Explanations of the codes for Heat templates, Kubernetes manifests, and lint's own comments.

use super::{Explanation, explained};
use crate::finding::codes;

const ORDER: &str = "ours: the order file (vnfd-samples/vnf-b-cnf)";
const MAPPING: &str = "ours: the parameter mapping (vnfd-samples/vnf-a-k8s-cluster-base-hot)";
const HEAT: &str = "Heat Orchestration Template specification";
const KUBERNETES: &str = "Kubernetes API reference 1.36";
const LINT: &str = "ours: lint comments";

pub(super) const ALL: &[Explanation] = &[
    explained(
        codes::ORDER_FILE,
        "The order file has `manifests`, each with `path` and `order`; variables have names such as `size_1`.",
        "variables: {1st: x}",
        "variables: {replicas: 1}",
        ORDER,
    ),
    explained(
        codes::ORDER_MANIFEST,
        "The order file names files of the package.",
        "- {path: Files/kubernetes/wbe.yaml, order: 1}",
        "- {path: Files/kubernetes/web.yaml, order: 1}",
        ORDER,
    ),
    explained(
        codes::CHART,
        "Workloads come as manifests, listed in the order file or as an ASD's items of type `kubernetes_manifest` or `crd`. Charts are read and shown but not deployed.",
        "web: {type: tosca.artifacts.asd.deploymentItem, file: Files/web.tgz, properties: {item_id: '1', artifact_type: helm_chart}}",
        "web: {type: tosca.artifacts.asd.deploymentItem, file: Files/web.yaml, properties: {item_id: '1', artifact_type: kubernetes_manifest}}   (what `helm template` prints)",
        "ours: what the Kubernetes driver deploys (vnfd-samples/asd-web)",
    ),
    explained(
        codes::CHART_FILE,
        "A named chart is in the package: a gzipped tar of one folder that contains `Chart.yaml` with `apiVersion`, `name` and `version`.",
        "artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: Charts/values.yaml}}",
        "artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: Charts/web-1.0.0.tgz}}   (what `helm package` creates)",
        "SOL001 V4.2.1 (tosca.artifacts.nfv.HelmChart); Helm: the chart file structure",
    ),
    explained(
        codes::MCIOP,
        "A Mciop names its chart and the deployable units that the chart deploys; each unit belongs to one Mciop.",
        "web-chart: {type: tosca.nodes.nfv.Mciop, requirements: [associatedVdu: web]}",
        "web-chart: {type: tosca.nodes.nfv.Mciop, requirements: [associatedVdu: web], artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: Charts/web-1.0.0.tgz}}}",
        "SOL001 V4.2.1 (tosca.nodes.nfv.Mciop)",
    ),
    explained(
        codes::MANIFEST_YAML,
        "A manifest is valid YAML once its variables are replaced.",
        "replicas: [$replicas",
        "replicas: $replicas",
        ORDER,
    ),
    explained(
        codes::MANIFEST_UNUSED,
        "The order file names every manifest.",
        "manifests: [{path: Files/kubernetes/a.yaml, order: 1}]   (b.yaml is not listed)",
        "manifests:\n  - {path: Files/kubernetes/a.yaml, order: 1}\n  - {path: Files/kubernetes/b.yaml, order: 2}",
        ORDER,
    ),
    explained(
        codes::VARIABLE_UNUSED,
        "Each variable is used by a manifest.",
        "variables: {replicas: 2, colour: red}   (no `$colour`)",
        "variables: {replicas: 2}",
        ORDER,
    ),
    explained(
        codes::VARIABLE_UNKNOWN,
        "Variables are declared; a literal `$` is written `$$`.",
        "replicas: $replcias",
        "replicas: $replicas",
        ORDER,
    ),
    explained(
        codes::HOT,
        "`BaseHOT/<flavour>` contains one Heat template; nested templates are in subfolders.",
        "BaseHOT/simple/a.yaml\nBaseHOT/simple/b.yaml",
        "BaseHOT/simple/a.yaml\nBaseHOT/simple/nested/b.yaml",
        MAPPING,
    ),
    explained(
        codes::HOT_PARAMETER,
        "The mapping fills parameters that the template declares, from sources that exist.",
        "flavr: vdu.web.flavor",
        "flavor: vdu.web.flavor",
        MAPPING,
    ),
    explained(
        codes::HOT_UNMAPPED,
        "Each parameter of the template has a default or is filled by the mapping.",
        "zone: {type: string}   (and no entry in the mapping)",
        "zone: additionalParams.zone   (in Files/openstack/parameters.yaml)",
        MAPPING,
    ),
    explained(
        codes::HOT_KEY,
        "Heat defines each key.",
        "resource:\n  web: {type: 'OS::Heat::None'}",
        "resources:\n  web: {type: 'OS::Heat::None'}",
        HEAT,
    ),
    explained(
        codes::HOT_FILE,
        "The path of a nested template is relative to the template that names it.",
        "type: nested/wrker.yaml",
        "type: nested/worker.yaml",
        HEAT,
    ),
    explained(
        codes::HOT_REFERENCE,
        "`get_resource`, `get_attr`, `get_param` and `depends_on` name resources and parameters of the template.",
        "{port: {get_resource: prot}}",
        "{port: {get_resource: port}}",
        HEAT,
    ),
    explained(
        codes::HOT_UNUSED,
        "The template uses each of its parameters.",
        "zone: {type: string, default: nova}   (no `get_param: zone`)",
        "(removed)",
        HEAT,
    ),
    explained(
        codes::HOT_NESTED,
        "A nested template is given the parameters that it declares, and no others.",
        "type: nested/worker.yaml\nproperties: {flavr: m1.small}",
        "type: nested/worker.yaml\nproperties: {flavor: m1.small}",
        HEAT,
    ),
    explained(
        codes::HOT_FLAVOUR,
        "`BaseHOT/<flavour>` is named after a deployment flavour.",
        "BaseHOT/simpel/top.yaml",
        "BaseHOT/simple/top.yaml",
        MAPPING,
    ),
    explained(
        codes::K8S_OBJECT,
        "Each document has `apiVersion` and `kind`.",
        "metadata: {name: web}",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}",
        KUBERNETES,
    ),
    explained(
        codes::K8S_API,
        "Kubernetes serves the `apiVersion` and the kind in it.",
        "apiVersion: extensions/v1beta1\nkind: Deployment",
        "apiVersion: apps/v1\nkind: Deployment",
        KUBERNETES,
    ),
    explained(
        codes::K8S_KIND,
        "The kind belongs to its group; groups other than Kubernetes' own are not checked.",
        "apiVersion: apps/v1\nkind: Deploymnt",
        "apiVersion: apps/v1\nkind: Deployment",
        KUBERNETES,
    ),
    explained(
        codes::K8S_FIELD,
        "Kubernetes defines each field of the kind, its spec, pods and containers.",
        "spec: {replica: 2}",
        "spec: {replicas: 2}",
        KUBERNETES,
    ),
    explained(
        codes::K8S_NAME,
        "An object has a name of lower-case letters, digits, `-` and `.`.",
        "metadata: {name: Web_Server}",
        "metadata: {name: web-server}",
        KUBERNETES,
    ),
    explained(
        codes::K8S_SELECTOR,
        "The labels of the pods match the workload's selector.",
        "selector: {matchLabels: {app: web}}\ntemplate:\n  metadata: {labels: {app: www}}",
        "selector: {matchLabels: {app: web}}\ntemplate:\n  metadata: {labels: {app: web}}",
        KUBERNETES,
    ),
    explained(
        codes::K8S_IMAGE,
        "A container has a name and an image.",
        "containers: [{name: web}]",
        "containers: [{name: web, image: httpd:2.4}]",
        KUBERNETES,
    ),
    explained(
        codes::ALLOW_REASON,
        "An allow comment gives a reason.",
        "# vnfm-lint: allow W-LINK-UNUSED",
        "# vnfm-lint: allow W-LINK-UNUSED the request attaches machines of another VNF to it",
        LINT,
    ),
    explained(
        codes::ALLOW_CODE,
        "An allow comment names the code of a warning.",
        "# vnfm-lint: allow E-IMPORT the file exists in production",
        "(fix the error: onboarding would refuse the package)",
        LINT,
    ),
    explained(
        codes::ALLOW_UNUSED,
        "An allow comment is at the finding that it allows; delete it once the finding is fixed.",
        "# vnfm-lint: allow W-LINK-UNUSED spare   (at a link that is used)",
        "(deleted)",
        LINT,
    ),
];
