//! The parameters of a request that are for the driver itself. All but `namespace` and `helm_test` have the
//! names that Tacker gave them.

pub(crate) const CHART: &str = "helm_chart_path";
pub(crate) const VALUES_FILE: &str = "helm_value_file_path";
pub(crate) const VALUES: &str = "helm_parameters";
pub(crate) const SIZES_BY_VDU: &str = "helm_value_names";
pub(crate) const SIZES_BY_ASPECT: &str = "helm_replica_values";
pub(crate) const TEST: &str = "helm_test";
pub(crate) const USE_HELM: &str = "use_helm";
pub(crate) const INSTALL: &str = "using_helm_install_param";
pub(crate) const MANIFESTS: &str = "lcm-kubernetes-def-files";
pub(crate) const WORKLOADS: &str = "vdu_mapping";

/// How Tacker changes a VNF package, the only value that it knows.
pub(crate) const UPGRADE: (&str, &str) = ("upgrade_type", "RollingUpdate");

/// The parameters that are for the driver: never values of a chart.
pub(crate) const RESERVED: &[&str] = &[
    "namespace",
    MANIFESTS,
    WORKLOADS,
    UPGRADE.0,
    // The VDUs that Tacker changes with the package. Here all change whose objects differ.
    "vdu_params",
    CHART,
    VALUES_FILE,
    VALUES,
    SIZES_BY_VDU,
    SIZES_BY_ASPECT,
    TEST,
    USE_HELM,
    INSTALL,
];
