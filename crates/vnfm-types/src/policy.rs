//! What instances on a VIM may be made of: the policy of a VIM (`vnfmctl vim register --policy FILE`).
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
//! A member that is absent does not limit. For a tenant that uses a VIM which another one shares, absent members are
//! those of [`VimPolicy::for_borrowers`].

use serde::{Deserialize, Serialize};

/// In [`VimPolicy::namespaces`]: the namespace that is made for the instance. No namespace can have this name.
pub const OWN: &str = "OWN";
/// In [`Selection::allow`] of kinds: the namespaced kinds of Kubernetes itself, without those that grant rights or
/// lead traffic past network policies.
pub const BUILTIN: &str = "BUILTIN";

/// What instances on a VIM may be made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VimPolicy {
    /// Kubernetes: where objects may be: [`OWN`], names, or beginnings such as `team-*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Kubernetes: kinds of objects, as `group/Kind`; `Kind` in the core group; `group/*` for a whole group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Selection>,
    /// Kubernetes: whether there may be objects outside of namespaces. The instance's own namespace always may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_scoped: Option<bool>,
    /// Kubernetes: what pods may ask of their hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_security: Option<PodSecurity>,
    /// Kubernetes: as whom pods may run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_accounts: Option<ServiceAccounts>,
    /// Kubernetes: whether a Service may claim `externalIPs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_ips: Option<bool>,
    /// How much an instance may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<InstanceLimits>,
    /// OpenStack: types of resources in a template, such as `OS::Nova::Server` or `OS::Keystone::*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_types: Option<Selection>,
    /// OpenStack: whether a template may name files by URL, which the cloud fetches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_files: Option<bool>,
    /// Kubernetes: the user as whom the calls of operations are made; `{tenant}` stands for the tenant's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impersonate: Option<String>,
}

/// What is allowed of many: all of `allow`, where it is there, but nothing of `deny`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Selection {
    /// What is allowed; absent: everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// What is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// How much an instance may be; what is absent does not limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InstanceLimits {
    /// Objects of Kubernetes, or resources of a stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Pods, as the replicas of its workloads say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<u64>,
    /// Servers of OpenStack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<u64>,
}

/// What pods may ask of their hosts: a level of the Pod Security Standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodSecurity {
    /// Everything.
    Privileged,
    /// Nothing that is known to lead out of a pod.
    Baseline,
}

/// As whom pods may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceAccounts {
    /// As any account of their namespace.
    Any,
    /// As `default`, or as an account that the package brings; no Secret asks for a token.
    Own,
}

impl VimPolicy {
    /// The policy that limits nothing.
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

    /// What holds for a tenant on a VIM that another tenant shares, and for a role that is narrowed to namespaces.
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

    /// The same where a role is narrowed to these namespaces. A name with `*` names no namespace.
    pub fn for_namespaces(names: &[String]) -> Self {
        let names = names
            .iter()
            .filter(|name| !name.contains('*') && *name != OWN);
        Self {
            namespaces: Some(names.cloned().collect()),
            ..Self::for_borrowers()
        }
    }

    /// These members, and those of `base` where they are absent.
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

    /// True where it limits nothing.
    pub fn is_open(&self) -> bool {
        *self == Self::OPEN
    }

    /// Says what of it cannot be meant.
    ///
    /// # Errors
    ///
    /// The member, and why.
    pub fn checked(&self) -> Result<(), String> {
        for name in self.namespaces.iter().flatten() {
            let bare = name.strip_suffix('*').unwrap_or(name);
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name != OWN && !bare.chars().all(fits) {
                return Err(format!(
                    "`policy.namespaces`: `{name}` is neither `{OWN}`, nor the name of a namespace, nor the beginning \
                     of one with `*`"
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

    /// Whether a namespace that is not the instance's own may be used.
    pub fn allows_namespace(&self, name: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|all| {
            all.iter().any(|one| match one.strip_suffix('*') {
                Some(beginning) => name.starts_with(beginning),
                None => one == name,
            })
        })
    }

    /// Whether the namespace that is made for an instance may be used, whatever its name.
    pub fn allows_own_namespace(&self) -> bool {
        self.namespaces
            .as_ref()
            .is_none_or(|all| all.iter().any(|one| one == OWN))
    }
}

/// Types of resources that a borrower's template may not have: they concern more than one project, run code in the
/// cloud's own services, or fetch what the template names.
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
    /// Why `name` is not selected: the entry of `deny`, or nothing where no entry of `allow` fits. `fits` compares an
    /// entry with it.
    ///
    /// # Errors
    ///
    /// The entry that denies it; `None` where none allows it.
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
    fn what_a_policy_leaves_out_is_the_base_s() {
        let own = VimPolicy {
            namespaces: Some(vec!["team-*".into()]),
            cluster_scoped: Some(true),
            ..VimPolicy::default()
        };
        let whole = own.over(VimPolicy::for_borrowers());
        assert!(whole.allows_namespace("team-a") && !whole.allows_namespace("kube-system"));
        assert!(!whole.allows_own_namespace());
        assert_eq!(whole.cluster_scoped, Some(true));
        assert_eq!(whole.pod_security, Some(PodSecurity::Baseline));
        assert!(VimPolicy::default().is_open() && !whole.is_open());
    }

    #[test]
    fn a_narrowed_role_has_its_namespaces_by_name_alone() {
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
    fn what_cannot_be_meant_is_named() {
        let of = |policy: &str| serde_json::from_str::<VimPolicy>(policy);
        for (policy, says) in [
            (r#"{"namespaces": ["Web"]}"#, "`Web`"),
            (r#"{"impersonate": "admin"}"#, "`admin`"),
            (
                r#"{"impersonate": "system:serviceaccount::a"}"#,
                "policy.impersonate",
            ),
        ] {
            let wrong = of(policy).unwrap().checked().unwrap_err();
            assert!(wrong.contains(says), "{wrong}");
        }
        assert!(
            of(r#"{"namespace": ["web"]}"#).is_err(),
            "a slip does not pass as no limit"
        );
        let good =
            r#"{"namespaces": ["OWN", "a-*"], "impersonate": "system:serviceaccount:n:{tenant}"}"#;
        assert_eq!(of(good).unwrap().checked(), Ok(()));
    }
}
