//! The kinds that Kubernetes serves, by `apiVersion`, and the fields of common kinds.
//!
//! Unlisted groups are accepted, since a cluster may define custom ones.

/// A kind with its `apiVersion`, its top-level fields and those of its `spec`; `None` allows any field.
pub(crate) struct Kind {
    pub(crate) api: &'static str,
    pub(crate) name: &'static str,
    pub(crate) top: &'static [&'static str],
    pub(crate) spec: Option<&'static [&'static str]>,
}

const SPEC: &[&str] = &["spec", "status"];

const fn known(api: &'static str, name: &'static str, top: &'static [&'static str]) -> Kind {
    Kind {
        api,
        name,
        top,
        spec: None,
    }
}

const fn with_spec(api: &'static str, name: &'static str, spec: &'static [&'static str]) -> Kind {
    Kind {
        api,
        name,
        top: SPEC,
        spec: Some(spec),
    }
}

/// Top-level fields of every object.
pub(crate) const COMMON: &[&str] = &["apiVersion", "kind", "metadata"];

pub(crate) const KINDS: &[Kind] = &[
    with_spec("v1", "Pod", POD),
    with_spec("v1", "Service", SERVICE),
    known("v1", "ConfigMap", &["data", "binaryData", "immutable"]),
    known("v1", "Secret", &["data", "stringData", "type", "immutable"]),
    with_spec("v1", "Namespace", &["finalizers"]),
    known(
        "v1",
        "ServiceAccount",
        &[
            "secrets",
            "imagePullSecrets",
            "automountServiceAccountToken",
        ],
    ),
    with_spec("v1", "PersistentVolumeClaim", CLAIM),
    known("v1", "PersistentVolume", SPEC),
    known("v1", "Endpoints", &["subsets"]),
    with_spec("v1", "LimitRange", &["limits"]),
    with_spec("v1", "ResourceQuota", &["hard", "scopes", "scopeSelector"]),
    with_spec(
        "v1",
        "ReplicationController",
        &["replicas", "selector", "template", "minReadySeconds"],
    ),
    known("v1", "Node", SPEC),
    known("v1", "PodTemplate", &["template"]),
    known("v1", "Event", &[]),
    known("v1", "List", &["items"]),
    with_spec("apps/v1", "Deployment", DEPLOYMENT),
    with_spec("apps/v1", "StatefulSet", STATEFUL_SET),
    with_spec("apps/v1", "DaemonSet", DAEMON_SET),
    with_spec(
        "apps/v1",
        "ReplicaSet",
        &["replicas", "selector", "template", "minReadySeconds"],
    ),
    known("apps/v1", "ControllerRevision", &["data", "revision"]),
    with_spec("batch/v1", "Job", JOB),
    with_spec("batch/v1", "CronJob", CRON_JOB),
    with_spec(
        "networking.k8s.io/v1",
        "Ingress",
        &["ingressClassName", "defaultBackend", "tls", "rules"],
    ),
    with_spec(
        "networking.k8s.io/v1",
        "IngressClass",
        &["controller", "parameters"],
    ),
    with_spec(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        &["podSelector", "ingress", "egress", "policyTypes"],
    ),
    known("networking.k8s.io/v1", "IPAddress", SPEC),
    known("networking.k8s.io/v1", "ServiceCIDR", SPEC),
    known("rbac.authorization.k8s.io/v1", "Role", &["rules"]),
    known(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        &["rules", "aggregationRule"],
    ),
    known(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        &["subjects", "roleRef"],
    ),
    known(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        &["subjects", "roleRef"],
    ),
    with_spec(
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
        &[
            "scaleTargetRef",
            "minReplicas",
            "maxReplicas",
            "targetCPUUtilizationPercentage",
        ],
    ),
    with_spec(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        &[
            "scaleTargetRef",
            "minReplicas",
            "maxReplicas",
            "metrics",
            "behavior",
        ],
    ),
    with_spec(
        "policy/v1",
        "PodDisruptionBudget",
        &[
            "minAvailable",
            "maxUnavailable",
            "selector",
            "unhealthyPodEvictionPolicy",
        ],
    ),
    known("storage.k8s.io/v1", "StorageClass", STORAGE_CLASS),
    known("storage.k8s.io/v1", "VolumeAttachment", SPEC),
    known(
        "storage.k8s.io/v1",
        "VolumeAttributesClass",
        &["driverName", "parameters"],
    ),
    known("storage.k8s.io/v1", "CSIDriver", SPEC),
    known("storage.k8s.io/v1", "CSINode", SPEC),
    known("storage.k8s.io/v1", "CSIStorageCapacity", STORAGE_CAPACITY),
    known("scheduling.k8s.io/v1", "PriorityClass", PRIORITY_CLASS),
    with_spec(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &[
            "group",
            "names",
            "scope",
            "versions",
            "conversion",
            "preserveUnknownFields",
        ],
    ),
    known(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        &["webhooks"],
    ),
    known(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        &["webhooks"],
    ),
    known(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        SPEC,
    ),
    known(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        SPEC,
    ),
    known(
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicy",
        SPEC,
    ),
    known(
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicyBinding",
        SPEC,
    ),
    known("coordination.k8s.io/v1", "Lease", SPEC),
    known(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        &["addressType", "endpoints", "ports"],
    ),
    known("apiregistration.k8s.io/v1", "APIService", SPEC),
    known("certificates.k8s.io/v1", "CertificateSigningRequest", SPEC),
    known(
        "node.k8s.io/v1",
        "RuntimeClass",
        &["handler", "overhead", "scheduling"],
    ),
    known("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", SPEC),
    known(
        "flowcontrol.apiserver.k8s.io/v1",
        "PriorityLevelConfiguration",
        SPEC,
    ),
];

/// Additional `apiVersion`s that a cluster may enable; their kinds are not checked.
pub(crate) const OTHERS: &[&str] = &[
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1beta2",
    "internal.apiserver.k8s.io/v1alpha1",
    "networking.k8s.io/v1beta1",
    "storage.k8s.io/v1beta1",
    "storagemigration.k8s.io/v1beta1",
    "admissionregistration.k8s.io/v1beta1",
    "admissionregistration.k8s.io/v1alpha1",
    "certificates.k8s.io/v1alpha1",
    "certificates.k8s.io/v1beta1",
    "coordination.k8s.io/v1beta1",
];

/// Kinds that Kubernetes removed from an `apiVersion`.
pub(crate) const REMOVED: &[(&str, &str)] = &[
    ("networking.k8s.io/v1beta1", "Ingress"),
    ("networking.k8s.io/v1beta1", "IngressClass"),
    ("storage.k8s.io/v1beta1", "StorageClass"),
    ("storage.k8s.io/v1beta1", "CSIDriver"),
    ("storage.k8s.io/v1beta1", "CSINode"),
    ("storage.k8s.io/v1beta1", "VolumeAttachment"),
    (
        "admissionregistration.k8s.io/v1beta1",
        "MutatingWebhookConfiguration",
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        "ValidatingWebhookConfiguration",
    ),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest"),
    ("coordination.k8s.io/v1beta1", "Lease"),
    ("extensions/v1beta1", "Deployment"),
    ("extensions/v1beta1", "DaemonSet"),
    ("extensions/v1beta1", "ReplicaSet"),
    ("extensions/v1beta1", "Ingress"),
    ("extensions/v1beta1", "NetworkPolicy"),
];

/// Fields of a pod's `spec`.
pub(crate) const POD: &[&str] = &[
    "activeDeadlineSeconds",
    "affinity",
    "automountServiceAccountToken",
    "containers",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
    "workloadRef",
];

pub(crate) const CONTAINER: &[&str] = &[
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];

/// Fields of a pod template.
pub(crate) const TEMPLATE: &[&str] = &["metadata", "spec"];

pub(crate) const METADATA: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

const DEPLOYMENT: &[&str] = &[
    "minReadySeconds",
    "paused",
    "progressDeadlineSeconds",
    "replicas",
    "revisionHistoryLimit",
    "selector",
    "strategy",
    "template",
];
const STATEFUL_SET: &[&str] = &[
    "minReadySeconds",
    "ordinals",
    "persistentVolumeClaimRetentionPolicy",
    "podManagementPolicy",
    "replicas",
    "revisionHistoryLimit",
    "selector",
    "serviceName",
    "template",
    "updateStrategy",
    "volumeClaimTemplates",
];
const DAEMON_SET: &[&str] = &[
    "minReadySeconds",
    "revisionHistoryLimit",
    "selector",
    "template",
    "updateStrategy",
];
const JOB: &[&str] = &[
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "completionMode",
    "completions",
    "managedBy",
    "manualSelector",
    "maxFailedIndexes",
    "parallelism",
    "podFailurePolicy",
    "podReplacementPolicy",
    "selector",
    "successPolicy",
    "suspend",
    "template",
    "ttlSecondsAfterFinished",
];
const CRON_JOB: &[&str] = &[
    "concurrencyPolicy",
    "failedJobsHistoryLimit",
    "jobTemplate",
    "schedule",
    "startingDeadlineSeconds",
    "successfulJobsHistoryLimit",
    "suspend",
    "timeZone",
];
const SERVICE: &[&str] = &[
    "allocateLoadBalancerNodePorts",
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "externalName",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "ports",
    "publishNotReadyAddresses",
    "selector",
    "sessionAffinity",
    "sessionAffinityConfig",
    "trafficDistribution",
    "type",
];
const CLAIM: &[&str] = &[
    "accessModes",
    "dataSource",
    "dataSourceRef",
    "resources",
    "selector",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
    "volumeName",
];
const STORAGE_CLASS: &[&str] = &[
    "allowVolumeExpansion",
    "allowedTopologies",
    "mountOptions",
    "parameters",
    "provisioner",
    "reclaimPolicy",
    "volumeBindingMode",
];
const STORAGE_CAPACITY: &[&str] = &[
    "capacity",
    "maximumVolumeSize",
    "nodeTopology",
    "storageClassName",
];
const PRIORITY_CLASS: &[&str] = &["description", "globalDefault", "preemptionPolicy", "value"];

/// The group of an `apiVersion`: `apps` for `apps/v1`, empty for `v1`.
pub(crate) fn group(api: &str) -> &str {
    api.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_in_the_table_once() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in KINDS {
            assert!(
                seen.insert((kind.api, kind.name)),
                "{} {} twice",
                kind.api,
                kind.name
            );
            assert!(
                !OTHERS.contains(&kind.api),
                "{} is in both tables",
                kind.api
            );
        }
        for (api, name) in REMOVED {
            assert!(!seen.contains(&(*api, *name)), "{api} {name} is served");
        }
    }
}
