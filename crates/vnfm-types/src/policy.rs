//! The policy of a VIM: limits on what instances may use on it (`vnfmctl vim register --policy FILE`).
//!
//! ```yaml
//! namespaces: [OWN]               # the instance's own; or names, or `team-*`
//! kinds: {allow: [BUILTIN], deny: [networking.k8s.io/Ingress]}
//! clusterScoped: false            # no objects outside of namespaces
//! podSecurity: baseline           # Pod Security Standards
//! serviceAccounts: own            # pods run as `default`, or as one that the package brings
//! externalIps: false
//! limits: {objects: 100, pods: 20, servers: 4}
//! resourceTypes: {deny: ["OS::Keystone::*"]}
//! remoteFiles: false              # a Base HOT fetches nothing by URL
//! impersonate: system:serviceaccount:tenants:{tenant}
//! ```
//! An absent member sets no limit. For a tenant that uses another tenant's shared VIM, absent
//! members are those of [`VimPolicy::for_borrowers`].

use serde::{Deserialize, Serialize};

/// In [`VimPolicy::namespaces`]: the namespace created for the instance. No real namespace can have this name.
pub const OWN: &str = "OWN";
/// In [`Selection::allow`] of kinds: the built-in namespaced kinds of Kubernetes, except those that grant permissions or
/// route traffic past network policies.
pub const BUILTIN: &str = "BUILTIN";

/// Limits on what instances on a VIM may use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VimPolicy {
    /// Kubernetes: namespaces for objects: [`OWN`], names, or prefixes such as `team-*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Kubernetes: kinds of objects: `group/Kind`, `Kind` for the core group, `group/*` for an entire group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Selection>,
    /// Kubernetes: whether cluster-scoped objects are allowed. The instance's own namespace always is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_scoped: Option<bool>,
    /// Kubernetes: the privileges that pods may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_security: Option<PodSecurity>,
    /// Kubernetes: the service accounts that pods may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_accounts: Option<ServiceAccounts>,
    /// Kubernetes: whether a Service may set `externalIPs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_ips: Option<bool>,
    /// Limits on the size of an instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<InstanceLimits>,
    /// OpenStack: types of resources in a template, such as `OS::Nova::Server` or `OS::Keystone::*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_types: Option<Selection>,
    /// OpenStack: whether a template may refer to files by URL, which the cloud would fetch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_files: Option<bool>,
    /// Kubernetes: the user to impersonate in operations; `{tenant}` is replaced by the tenant's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonate: Option<String>,
}

/// An allow list and a deny list; `deny` takes precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Selection {
    /// Allowed entries; if absent, everything is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Entries that are never allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// Limits on the size of an instance; an absent member sets no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InstanceLimits {
    /// Maximum Kubernetes objects or stack resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Maximum pods, by the replicas of the workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<u64>,
    /// Maximum number of OpenStack servers per instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<u64>,
}

/// The privileges that pods may have: a level of the Pod Security Standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodSecurity {
    /// The unrestricted level: any privileges are allowed.
    Privileged,
    /// The level that prevents known privilege escalations.
    Baseline,
}

/// The service accounts that pods may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceAccounts {
    /// Any account of their namespace.
    Any,
    /// `default`, or an account in the package; no Secret may request a token.
    Own,
}

impl VimPolicy {
    /// The policy without any limits.
    pub const OPEN: Self = Self {
        namespaces: None,
        kinds: None,
        cluster_scoped: None,
        pod_security: None,
        service_accounts: None,
        external_ips: None,
        limits: None,
        resource_types: None,
        remote_files: None,
        impersonate: None,
    };

    /// The policy for tenants on another tenant's shared VIM, and for roles limited to namespaces.
    pub fn for_borrowers() -> Self {
        Self {
            namespaces: Some(vec![OWN.to_owned()]),
            kinds: Some(Selection {
                allow: Some(vec![BUILTIN.to_owned()]),
                deny: Vec::new(),
            }),
            cluster_scoped: Some(false),
            pod_security: Some(PodSecurity::Baseline),
            service_accounts: Some(ServiceAccounts::Own),
            external_ips: Some(false),
            limits: None,
            resource_types: Some(Selection {
                allow: None,
                deny: of_borrowers(),
            }),
            remote_files: Some(false),
            impersonate: None,
        }
    }

    /// As [`Self::for_borrowers`], for a role limited to these namespaces. A name with `*` matches no namespace.
    pub fn for_namespaces(names: &[String]) -> Self {
        let names = names
            .iter()
            .filter(|name| !name.contains('*') && *name != OWN);
        Self {
            namespaces: Some(names.cloned().collect()),
            ..Self::for_borrowers()
        }
    }

    /// Fills absent members from `base`.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        Self {
            namespaces: self.namespaces.or(base.namespaces),
            kinds: self.kinds.or(base.kinds),
            cluster_scoped: self.cluster_scoped.or(base.cluster_scoped),
            pod_security: self.pod_security.or(base.pod_security),
            service_accounts: self.service_accounts.or(base.service_accounts),
            external_ips: self.external_ips.or(base.external_ips),
            limits: self.limits.or(base.limits),
            resource_types: self.resource_types.or(base.resource_types),
            remote_files: self.remote_files.or(base.remote_files),
            impersonate: self.impersonate.or(base.impersonate),
        }
    }

    /// True if it sets no limit.
    pub fn is_open(&self) -> bool {
        *self == Self::OPEN
    }

    /// Checks the values of the members.
    ///
    /// # Errors
    ///
    /// The invalid member, and why.
    pub fn checked(&self) -> Result<(), String> {
        for name in self.namespaces.iter().flatten() {
            let bare = name.strip_suffix('*').unwrap_or(name);
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name != OWN && !bare.chars().all(fits) {
                return Err(format!(
                    "`policy.namespaces`: `{name}` must be `{OWN}`, the name of a namespace, or a prefix \
                     with `*`"
                ));
            }
        }
        let user = self.impersonate.as_deref();
        let parts = user.map(|user| user.split(':').map(str::is_empty).collect::<Vec<_>>());
        let account = user.is_none_or(|user| user.starts_with("system:serviceaccount:"));
        if !account || parts.is_some_and(|parts| parts != [false; 4]) {
            return Err(format!(
                "`policy.impersonate`: `{}` is not `system:serviceaccount:NAMESPACE:NAME`",
                user.unwrap_or_default()
            ));
        }
        Ok(())
    }

    /// Whether a namespace other than the instance's own may be used.
    pub fn allows_namespace(&self, name: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|all| {
            all.iter().any(|one| match one.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => one == name,
            })
        })
    }

    /// Whether the namespace created for an instance may be used, whatever its name.
    pub fn allows_own_namespace(&self) -> bool {
        self.namespaces
            .as_ref()
            .is_none_or(|all| all.iter().any(|one| one == OWN))
    }
}

/// Resource types that a borrower's template must not use: they affect more than one project, run code in the cloud's own
/// services, or fetch files that the template names.
fn of_borrowers() -> Vec<String> {
    let all = [
        "OS::Keystone::*",
        "OS::Mistral::*",
        "OS::Heat::Stack",
        "OS::Heat::Delegate",
        "OS::Glance::*",
        "OS::Nova::Flavor",
        "OS::Nova::HostAggregate",
        "OS::Nova::Quota",
        "OS::Cinder::Quota",
        "OS::Cinder::QoSSpecs",
        "OS::Cinder::QoSAssociation",
        "OS::Cinder::VolumeType",
        "OS::Cinder::EncryptedVolumeType",
        "OS::Neutron::Quota",
        "OS::Neutron::QoSPolicy",
        "OS::Neutron::RBACPolicy",
        "OS::Neutron::ProviderNet",
        "OS::Neutron::Segment",
        "OS::Neutron::AddressScope",
        "OS::Manila::ShareType",
        "AWS::CloudFormation::Stack",
        "AWS::IAM::*",
    ];
    all.map(str::to_owned).to_vec()
}

impl Selection {
    /// Checks a name; `fits` compares it with an entry.
    ///
    /// # Errors
    ///
    /// The entry that denies it; `None` if no entry allows it.
    pub fn check(&self, fits: impl Fn(&str) -> bool) -> Result<(), Option<&str>> {
        if let Some(denied) = self.deny.iter().find(|one| fits(one)) {
            return Err(Some(denied));
        }
        match &self.allow {
            Some(allowed) if !allowed.iter().any(|one| fits(one)) => Err(None),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OWN, PodSecurity, Selection, VimPolicy};

    #[test]
    fn absent_members_are_filled_from_the_base() {
        let own = VimPolicy {
            namespaces: Some(vec!["team-*".into()]),
            cluster_scoped: Some(true),
            ..VimPolicy::default()
        };
        let merged = own.over(VimPolicy::for_borrowers());
        assert!(merged.allows_namespace("team-a") && !merged.allows_namespace("kube-system"));
        assert!(!merged.allows_own_namespace());
        assert_eq!(merged.cluster_scoped, Some(true));
        assert_eq!(merged.pod_security, Some(PodSecurity::Baseline));
        assert!(VimPolicy::default().is_open() && !merged.is_open());
    }

    #[test]
    fn a_role_limited_to_namespaces_matches_exact_names() {
        let policy = VimPolicy::for_namespaces(&["web".into(), "w*".into(), OWN.into()]);
        assert!(policy.allows_namespace("web") && !policy.allows_namespace("web2"));
        assert!(!policy.allows_own_namespace());
    }

    #[test]
    fn deny_wins_over_allow() {
        let some = Selection {
            allow: Some(vec!["a".into(), "b".into()]),
            deny: vec!["b".into()],
        };
        assert_eq!(some.check(|one| one == "a"), Ok(()));
        assert_eq!(some.check(|one| one == "b"), Err(Some("b")));
        assert_eq!(some.check(|one| one == "c"), Err(None));
    }

    #[test]
    fn invalid_members_are_named() {
        let parse = |policy: &str| serde_json::from_str::<VimPolicy>(policy);
        for (policy, text) in [
            (r#"{"namespaces": ["Web"]}"#, "`Web`"),
            (r#"{"impersonate": "admin"}"#, "`admin`"),
            (
                r#"{"impersonate": "system:serviceaccount::a"}"#,
                "policy.impersonate",
            ),
        ] {
            let wrong = parse(policy).unwrap().checked().unwrap_err();
            assert!(wrong.contains(text), "{wrong}");
        }
        assert!(
            parse(r#"{"namespace": ["web"]}"#).is_err(),
            "a misspelt member is not ignored"
        );
        let good =
            r#"{"namespaces": ["OWN", "a-*"], "impersonate": "system:serviceaccount:n:{tenant}"}"#;
        assert_eq!(parse(good).unwrap().checked(), Ok(()));
    }
}
