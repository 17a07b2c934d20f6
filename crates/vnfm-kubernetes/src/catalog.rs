//! Discovery of the kinds that the cluster serves, so that any kind can be used. A kind that a
//! `CustomResourceDefinition` of the package defines is known before it is served.

use crate::client::Session;
use crate::errors;
use crate::identifiers::{is_api_version, segment};
use crate::kinds::{Groups, Kind, is_built_in};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use vnfm_core::ports::PortError;

/// Group and version of `VolumeSnapshot` and `VolumeSnapshotClass`, which few clusters serve without an add-on.
pub(crate) const SNAPSHOT_API: &str = "snapshot.storage.k8s.io/v1";

/// Identifies one object on the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl Target {
    /// The API of the object's kind, in its namespace.
    pub(crate) fn api(&self, client: Client) -> Api<DynamicObject> {
        api(client, &self.resource, self.namespace.as_deref())
    }

    /// Like [`Self::api`] for metadata only, so that the data of a Secret is not transferred.
    pub(crate) fn metadata(&self, client: Client) -> Api<PartialObjectMeta<DynamicObject>> {
        api(client, &self.resource, self.namespace.as_deref())
    }

    /// The object of namespace `name`.
    pub(crate) fn namespace(name: &str) -> Self {
        Self {
            resource: core("Namespace", "namespaces"),
            namespace: None,
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.resource.kind, self.name)?;
        self.namespace
            .as_deref()
            .map_or(Ok(()), |namespace| write!(f, " in namespace `{namespace}`"))
    }
}

/// The API of a kind, in one namespace or in all.
pub(crate) fn api<K>(client: Client, resource: &ApiResource, namespace: Option<&str>) -> Api<K>
where
    K: kube::Resource<DynamicType = ApiResource, Scope = kube::core::DynamicResourceScope>
        + DeserializeOwned,
{
    match namespace {
        Some(namespace) => Api::namespaced_with(client, &segment(namespace), resource),
        None => Api::all_with(client, resource),
    }
}

/// A kind of the core group, version `v1`.
pub(crate) fn core(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural)
}

/// Discovery. Each group version is read at most once, one that is built into the API server once for
/// each client.
pub(crate) struct Catalog<'a> {
    pub(crate) session: &'a Session<'a>,
    groups: Groups,
    defined: Vec<Kind>,
}

impl<'a> Catalog<'a> {
    /// The kinds of the session's cluster, and those that the package's `objects` define.
    pub(crate) fn new<'o>(
        session: &'a Session<'a>,
        objects: impl Iterator<Item = &'o Value>,
    ) -> Self {
        Self {
            session,
            groups: Groups::default(),
            defined: objects.flat_map(defined_kinds).collect(),
        }
    }

    /// `None` if the kind is neither served nor defined.
    ///
    /// # Errors
    ///
    /// The list of the group's kinds could not be read.
    pub(crate) async fn find(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Kind>, PortError> {
        let served = self.group(api_version).await?;
        let matches = |known: &&Kind| {
            known.resource.kind == kind && known.resource.api_version == api_version
        };
        Ok(served
            .iter()
            .find(matches)
            .or_else(|| self.defined.iter().find(matches))
            .cloned())
    }

    /// Every kind that can be listed and deleted, each group in its preferred version. Omits a group
    /// whose API server is unavailable.
    ///
    /// # Errors
    ///
    /// The list of a group's kinds could not be read.
    pub(crate) async fn all(&self) -> Result<Vec<Kind>, PortError> {
        let action = "list the kinds that the cluster serves";
        let groups = self
            .session
            .call(
                action,
                |client| async move { client.list_api_groups().await },
            )
            .await?;
        let preferred = groups.groups.iter().filter_map(|group| {
            let version = group
                .preferred_version
                .as_ref()
                .or_else(|| group.versions.first())?;
            Some(version.group_version.as_str())
        });
        let versions: BTreeSet<&str> = std::iter::once("v1").chain(preferred).collect();
        let mut kinds = Vec::new();
        for version in versions {
            match self.group(version).await {
                Ok(served) => kinds.extend(
                    served
                        .iter()
                        .filter(|kind| kind.can("list") && kind.can("delete"))
                        .cloned(),
                ),
                Err(error) if error.code() == &errors::SERVER => {
                    tracing::warn!(group = version, %error, "kinds of a group omitted");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(kinds)
    }

    /// Every group version and kind that the cluster serves, such as `apps/v1` and `apps/v1/Deployment`.
    ///
    /// # Errors
    ///
    /// The lists could not be read.
    pub(crate) async fn apis(&self) -> Result<Vec<String>, PortError> {
        let action = "list the kinds that the cluster serves";
        let core = self.session.call(action, |client| async move {
            client.list_core_api_versions_aggregated().await
        });
        let core = core.await?.items;
        let groups = self.session.call(action, |client| async move {
            client.list_api_groups_aggregated().await
        });
        let mut apis = Vec::new();
        for group in core.into_iter().chain(groups.await?.items) {
            let prefix = group.metadata.and_then(|metadata| metadata.name);
            let prefix = prefix.filter(|name| !name.is_empty());
            for version in group.versions {
                let name = version.version.unwrap_or_default();
                let name = prefix
                    .as_ref()
                    .map_or(name.clone(), |group| format!("{group}/{name}"));
                let kinds = version
                    .resources
                    .into_iter()
                    .filter_map(|one| one.response_kind);
                apis.extend(kinds.filter_map(|kind| Some(format!("{name}/{}", kind.kind?))));
                apis.push(name);
            }
        }
        Ok(apis)
    }

    async fn group(&self, api_version: &str) -> Result<Arc<Vec<Kind>>, PortError> {
        if let Some(known) = self.groups.get(api_version) {
            return Ok(known);
        }
        if !is_api_version(api_version) {
            return Ok(Arc::default()); // no cluster can serve it
        }
        let is_built_in = is_built_in(api_version);
        let of_cluster = self.session.built_in_kinds().await?;
        let remembered = of_cluster.get(api_version).filter(|_| is_built_in);
        let kinds = match remembered {
            Some(known) => known,
            None => Arc::new(self.read(api_version).await?),
        };
        if is_built_in && !kinds.is_empty() {
            of_cluster.insert(api_version, kinds.clone());
        }
        self.groups.insert(api_version, kinds.clone());
        Ok(kinds)
    }

    async fn read(&self, api_version: &str) -> Result<Vec<Kind>, PortError> {
        let action = format!("look up the kinds of `{api_version}`");
        let served = self
            .session
            .find(&action, |client| async move {
                if api_version.contains('/') {
                    client.list_api_group_resources(api_version).await
                } else {
                    client.list_core_api_resources(api_version).await
                }
            })
            .await?;
        Ok(served.map(kinds).unwrap_or_default())
    }
}

fn kinds(list: APIResourceList) -> Vec<Kind> {
    let group_version = list.group_version;
    let (subresources, standalone): (Vec<_>, Vec<_>) = list
        .resources
        .into_iter()
        .partition(|resource| resource.name.contains('/'));
    let scalable = subresources.iter();
    let scalable: BTreeSet<&str> = scalable
        .filter_map(|resource| resource.name.strip_suffix("/scale"))
        .collect();
    standalone
        .into_iter()
        .map(|resource| {
            let has_scale = scalable.contains(resource.name.as_str());
            kind(&group_version, resource, has_scale)
        })
        .collect()
}

fn kind(group_version: &str, resource: APIResource, has_scale: bool) -> Kind {
    let gvk = gvk(group_version, &resource.kind);
    Kind {
        resource: ApiResource::from_gvk_with_plural(&gvk, &resource.name),
        namespaced: resource.namespaced,
        has_scale,
        verbs: resource.verbs,
    }
}

fn gvk(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}

/// The kinds that a `CustomResourceDefinition` defines; empty for other objects.
fn defined_kinds(object: &Value) -> Vec<Kind> {
    if object.get("kind").and_then(Value::as_str) != Some("CustomResourceDefinition") {
        return Vec::new();
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let (Some(group), Some(kind), Some(plural)) = (
        text("/spec/group"),
        text("/spec/names/kind"),
        text("/spec/names/plural"),
    ) else {
        return Vec::new();
    };
    let versions = object
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let names = versions.filter_map(|version| version.get("name")?.as_str());
    let of_version = |version: &str| Kind {
        resource: ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(group, version, kind),
            plural,
        ),
        namespaced: text("/spec/scope") == Some("Namespaced"),
        has_scale: false,
        verbs: ["get", "list", "delete"].map(str::to_owned).to_vec(),
    };
    names.map(of_version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_definition_defines_all_its_versions() {
        let definition = json!({"kind": "CustomResourceDefinition", "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"}, "versions": [{"name": "v1"}, {"name": "v2"}]}});
        let kinds = defined_kinds(&definition);
        let versions: Vec<&str> = kinds
            .iter()
            .map(|kind| kind.resource.api_version.as_str())
            .collect();
        assert_eq!(versions, ["example.com/v1", "example.com/v2"]);
        assert!(
            kinds
                .iter()
                .all(|kind| kind.namespaced && kind.resource.plural == "things")
        );
        assert!(defined_kinds(&json!({"kind": "ConfigMap"})).is_empty());
    }

    #[test]
    fn a_kind_with_the_subresource_scale_is_recognized() {
        let resource = |name: &str| json!({"name": name, "singularName": "", "kind": "Thing", "namespaced": true, "verbs": ["get"]});
        let names = [
            "things",
            "things/scale",
            "things/status",
            "others",
            "others/status",
        ];
        let list = json!({"groupVersion": "example.com/v1", "resources": names.map(resource)});
        let kinds = kinds(serde_json::from_value(list).unwrap());
        let found: Vec<_> = kinds
            .iter()
            .map(|kind| (kind.resource.plural.as_str(), kind.has_scale))
            .collect();
        assert_eq!(found, [("things", true), ("others", false)]);
    }

    #[test]
    fn a_target_displays_its_namespace() {
        let mut target = Target::namespace("a");
        assert_eq!(target.to_string(), "Namespace `a`");
        target = Target {
            resource: core("Pod", "pods"),
            namespace: Some("a".into()),
            name: "b".into(),
        };
        assert_eq!(target.to_string(), "Pod `b` in namespace `a`");
    }
}
