//! Authentication by bearer token and authorization by RBAC.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use uuid::Uuid;

use super::objects::{Key, Store};

/// A caller whose credential is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) name: String,
    groups: Vec<String>,
}

/// An issued service account token.
#[derive(Debug, Clone)]
struct Issued {
    namespace: String,
    account: String,
    uid: String,
    expires: jiff::Timestamp,
}

pub(crate) struct Tokens {
    /// Bearer token of the cluster's administrator.
    pub(crate) admin: String,
    issued: BTreeMap<String, Issued>,
    /// All bootstrap tokens, including expired ones.
    pub(crate) bootstrap: Vec<String>,
}

/// The attributes of a request that RBAC decides on.
pub(crate) struct AccessRequest<'a> {
    pub(crate) verb: &'a str,
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self {
            admin: Uuid::new_v4().simple().to_string(),
            issued: BTreeMap::new(),
            bootstrap: Vec::new(),
        }
    }

    /// Every token ever issued, valid or not.
    pub(crate) fn issued(&self) -> Vec<String> {
        self.issued.keys().chain(&self.bootstrap).cloned().collect()
    }

    /// Issues a JWT for a service account; none if the account does not exist.
    pub(crate) fn issue(
        &mut self,
        store: &Store,
        namespace: &str,
        account: &str,
        seconds: i64,
    ) -> Option<(String, jiff::Timestamp)> {
        let uid = store.get(&Key::new("serviceaccounts", namespace, account))?["metadata"]["uid"]
            .as_str()?
            .to_owned();
        let now = jiff::Timestamp::now();
        let expires = now
            .saturating_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap_or(now);
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({ "aud": ["https://kubernetes.default.svc.cluster.local"], "exp": expires.as_second(), "iat": now.as_second(), "nbf": now.as_second(),
            "iss": "https://kubernetes.default.svc.cluster.local", "jti": Uuid::new_v4().to_string(), "sub": format!("system:serviceaccount:{namespace}:{account}"),
            "kubernetes.io": { "namespace": namespace, "serviceaccount": { "name": account, "uid": uid } } });
        let signature = URL_SAFE_NO_PAD
            .encode([Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat());
        let token = format!(
            "{}.{}.{signature}",
            part(&json!({ "alg": "RS256", "kid": "sim" })),
            part(&claims)
        );
        let issued = Issued {
            namespace: namespace.to_owned(),
            account: account.to_owned(),
            uid,
            expires,
        };
        self.issued.insert(token.clone(), issued);
        Some((token, expires))
    }

    /// The caller of this `Authorization` header: anonymous if it is empty, `Err` for an invalid token.
    pub(crate) fn caller(&self, store: &Store, header: &str) -> Result<Caller, ()> {
        let Some(token) = header.strip_prefix("Bearer ") else {
            if header.is_empty() {
                return Ok(Caller {
                    name: "system:anonymous".into(),
                    groups: vec!["system:unauthenticated".into()],
                });
            }
            return Err(());
        };
        if token == self.admin {
            return Ok(Caller {
                name: "kubernetes-admin".into(),
                groups: vec!["system:masters".into()],
            });
        }
        let issued = self
            .issued
            .get(token)
            .filter(|issued| issued.expires > jiff::Timestamp::now())
            .ok_or(())?;
        let account = store
            .get(&Key::new(
                "serviceaccounts",
                &issued.namespace,
                &issued.account,
            ))
            .ok_or(())?;
        if account["metadata"]["uid"] != issued.uid.as_str() {
            return Err(());
        }
        Ok(Caller::account(&issued.namespace, &issued.account))
    }
}

impl Caller {
    fn account(namespace: &str, account: &str) -> Self {
        let groups = vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".into(),
        ];
        Caller {
            name: format!("system:serviceaccount:{namespace}:{account}"),
            groups,
        }
    }

    /// The service account in the header `Impersonate-User`; only administrators may impersonate.
    pub(crate) fn acting_as(self, user: &str) -> Result<Self, ()> {
        if user.is_empty() {
            return Ok(self);
        }
        let account = user
            .strip_prefix("system:serviceaccount:")
            .and_then(|rest| rest.split_once(':'));
        let may = self.groups.iter().any(|group| group == "system:masters");
        account
            .filter(|_| may)
            .map(|(namespace, name)| Self::account(namespace, name))
            .ok_or(())
    }

    /// Whether RBAC allows it, by role or cluster role.
    pub(crate) fn is_allowed(&self, store: &Store, deed: &AccessRequest<'_>) -> bool {
        if self.groups.iter().any(|group| group == "system:masters") {
            return true;
        }
        let everywhere = store
            .list("clusterrolebindings.rbac.authorization.k8s.io", "")
            .map(|(_, b)| (b, ""));
        let here = store
            .list("rolebindings.rbac.authorization.k8s.io", deed.namespace)
            .filter(|_| !deed.namespace.is_empty())
            .map(|(k, b)| (b, k.namespace.as_str()));
        everywhere.chain(here).any(|(binding, namespace)| {
            self.is_bound(binding) && allows(store, &binding["roleRef"], namespace, deed)
        })
    }

    fn is_bound(&self, binding: &Value) -> bool {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        binding["subjects"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|subject| match subject["kind"].as_str() {
                Some("ServiceAccount") => {
                    self.name
                        == format!(
                            "system:serviceaccount:{}:{}",
                            text(&subject["namespace"]),
                            text(&subject["name"])
                        )
                }
                Some("Group") => self
                    .groups
                    .iter()
                    .any(|group| subject["name"] == group.as_str()),
                _ => subject["name"] == self.name.as_str(),
            })
    }
}

fn allows(store: &Store, role: &Value, namespace: &str, deed: &AccessRequest<'_>) -> bool {
    let name = role["name"].as_str().unwrap_or_default();
    let key = match role["kind"].as_str() {
        Some("Role") => Key::new("roles.rbac.authorization.k8s.io", namespace, name),
        _ => Key::new("clusterroles.rbac.authorization.k8s.io", "", name),
    };
    let has = |list: &Value, wanted: &str| {
        list.as_array()
            .into_iter()
            .flatten()
            .any(|item| item == "*" || item == wanted)
    };
    store.get(&key).is_some_and(|role| {
        role["rules"].as_array().into_iter().flatten().any(|rule| {
            let named = rule["resourceNames"]
                .as_array()
                .is_none_or(|names| names.is_empty() || names.iter().any(|n| n == deed.name));
            named
                && has(&rule["verbs"], deed.verb)
                && has(&rule["apiGroups"], deed.group)
                && has(&rule["resources"], deed.plural)
        })
    })
}
