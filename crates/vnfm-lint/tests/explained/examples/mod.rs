//! Where in a package the examples of each code are inserted.

mod files;
mod vnfd;
mod workloads;
mod yaml;

use super::packages::{
    ASD, ASD_MANIFEST, DB, DEPLOYMENT, HOT, MANIFEST, META, NESTED, NET, ORDER, PARAMETERS, PODS,
};
use super::{Edit, Example};
use vnfm_lint::codes;

/// Codes that no lines in a package can cause, with the reason or the test that covers them.
pub(crate) const UNTESTED: &[(&str, &str)] = &[
    (codes::ZIP, "archives: hostile.rs"),
    (codes::ZIP_PATH, "archives: hostile.rs"),
    (codes::ZIP_SYMLINK, "archives: hostile.rs"),
    (codes::ZIP_ENCRYPTED, "archives: hostile.rs"),
    (codes::ZIP_BOMB, "archives: hostile.rs"),
    (codes::IO, "a path without a package: lint.rs"),
    (
        codes::SIGNATURE,
        "fixed by the server's configuration: vnfd-samples/broken/signed",
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

/// The packages without an example.
pub(crate) const BASE_PACKAGES: &[(&str, &[Edit])] = &[
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

const CONSTRAINED: Edit = (
    VNFD,
    "# more properties",
    "size:\n        type: PLACE\n        required: false\n        §",
);

/// Every example, in the order of the files.
pub(crate) fn all() -> impl Iterator<Item = &'static Example> {
    [
        files::EXAMPLES,
        yaml::EXAMPLES,
        vnfd::EXAMPLES,
        workloads::EXAMPLES,
    ]
    .into_iter()
    .flatten()
}

const HOOK: &str = "interfaces:
        Vnflcm:
          §
      artifacts:
        install: {type: tosca.artifacts.Implementation.Bash, file: Scripts/install.sh}";
