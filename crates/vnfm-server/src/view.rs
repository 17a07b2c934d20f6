//! Records in the standard's form: with `_links`, without secrets, in the requested API version.

use axum::http::HeaderMap;
use serde::Serialize;
use serde_json::Value;
use vnfm_core::Engine;
use vnfm_core::ports::{
    InstanceRecord, OpRecord, PackageRecord, SnapshotRecord, SubscriptionRecord,
};
use vnfm_core::to_json_or_log;
use vnfm_types::LcmOperationState::FailedTemp;
use vnfm_types::v1::{self, ApiVersion};
use vnfm_types::{
    LccnSubscription, LccnSubscriptionLinks, Link, VnfInstance, VnfInstanceLinks, VnfLcmOpOcc,
    VnfLcmOpOccLinks, VnfPkgInfo, VnfPkgInfoLinks, VnfSnapshotInfo, VnfSnapshotInfoLinks,
};

/// The server's public URL, configured or derived from the request's `Host`.
#[derive(Clone)]
pub(crate) struct Root {
    /// Base URL of all paths.
    pub url: String,
    /// API root of the NFVO, if there is one.
    pub nfvo: Option<String>,
    /// The client's version of VNF LCM.
    pub api_version: ApiVersion,
}

/// A resource in the requested version.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Versioned<T> {
    /// In the form of its type.
    Current(T),
    /// In the form of `vnflcm/v1`.
    V1(Value),
}

impl Root {
    /// The root for a request.
    pub(crate) fn from_headers(headers: &HeaderMap, public_url: Option<&str>, tls: bool) -> Self {
        let host = headers
            .get("host")
            .and_then(|host| host.to_str().ok())
            .unwrap_or("localhost");
        let scheme = if tls { "https" } else { "http" };
        let derived = || format!("{scheme}://{host}");
        let url = public_url.map_or_else(derived, |url| url.trim_end_matches('/').to_owned());
        Self {
            url,
            nfvo: None,
            api_version: ApiVersion::default(),
        }
    }

    /// Base URL of VNF LCM.
    pub(crate) fn lcm(&self) -> String {
        format!("{}{}", self.url, self.api_version.prefix())
    }

    /// Base URL of this server for a subscriber; see [`SubscriptionRecord::root`].
    pub(crate) fn for_subscriber(&self) -> String {
        match self.api_version {
            ApiVersion::V1 => self.lcm(),
            ApiVersion::V2 => self.url.clone(),
        }
    }

    fn in_version<T: Serialize>(&self, resource: T, convert: impl Fn(&mut Value)) -> Versioned<T> {
        if self.api_version == ApiVersion::V2 {
            return Versioned::Current(resource);
        }
        match to_json_or_log("a resource of v1", &resource) {
            Some(mut value) => {
                convert(&mut value);
                Versioned::V1(value)
            }
            None => Versioned::Current(resource),
        }
    }

    fn lcm_link(&self, path: &str) -> Link {
        Link {
            href: format!("{}{path}", self.lcm()),
        }
    }

    fn link(&self, path: &str) -> Link {
        Link {
            href: format!("{}{path}", self.url),
        }
    }

    /// The URI of an instance.
    pub(crate) fn instance(&self, id: &str) -> String {
        format!("{}/vnf_instances/{id}", self.lcm())
    }

    /// The URI of an operation occurrence.
    pub(crate) fn op(&self, id: &str) -> String {
        format!("{}/vnf_lcm_op_occs/{id}", self.lcm())
    }

    /// The URI of a subscription.
    pub(crate) fn subscription(&self, id: &str) -> String {
        format!("{}/subscriptions/{id}", self.lcm())
    }

    /// The URI of a snapshot.
    pub(crate) fn snapshot(&self, id: &str) -> String {
        format!("{}/vnf_snapshots/{id}", self.lcm())
    }

    /// The URI of a retained volume.
    pub(crate) fn volume(&self, id: &str) -> String {
        format!("{}/vnfm/v1/volumes/{id}", self.url)
    }

    /// The URI of a shared virtual link.
    pub(crate) fn shared_link(&self, id: &str) -> String {
        format!("{}/vnfm/v1/links/{id}", self.url)
    }

    /// The URI of a package.
    pub(crate) fn package(&self, id: &str) -> String {
        format!("{}/vnfpkgm/v2/vnf_packages/{id}", self.url)
    }
}

/// An instance, and the tasks that can begin on it now.
#[derive(Clone)]
pub(crate) struct InstanceWithTasks {
    pub record: InstanceRecord,
    tasks: Vec<&'static str>,
}

impl InstanceWithTasks {
    pub(crate) async fn new(engine: &Engine, record: InstanceRecord) -> Self {
        let possible = engine.possible_operations(&record).await.into_iter();
        let tasks = possible.filter_map(|operation| operation.task).collect();
        Self { record, tasks }
    }
}

/// An instance; it has links only to the tasks that are currently possible.
pub(crate) fn instance(shown: InstanceWithTasks, root: &Root) -> Versioned<VnfInstance> {
    let InstanceWithTasks { record, mut tasks } = shown;
    tasks.retain(|task| root.api_version == ApiVersion::V2 || v1::has_task(task));
    let mut vnf = record.vnf;
    for connection in vnf.vim_connection_info.values_mut() {
        connection.access_info.clear();
    }
    let path = format!("/vnf_instances/{}", vnf.id);
    vnf.links = Some(VnfInstanceLinks {
        this: root.lcm_link(&path),
        tasks: tasks
            .into_iter()
            .map(|task| (link_name(task), root.lcm_link(&format!("{path}/{task}"))))
            .collect(),
    });
    root.in_version(vnf, |vnf| v1::vnf_instance(vnf, &record.vnf_pkg_id))
}

/// The name of a task's link in SOL003: `scaleToLevel` for `scale_to_level`.
fn link_name(task: &str) -> String {
    if task == "change_vnfpkg" {
        return "changeCurrentVnfPkg".to_owned();
    }
    let mut words = task.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(word.len().min(1));
        name.push_str(&first.to_uppercase());
        name.push_str(rest);
    }
    name
}

/// An operation occurrence; it has links only to the tasks that are currently allowed.
pub(crate) fn op(record: OpRecord, root: &Root) -> Versioned<VnfLcmOpOcc> {
    let mut op = record.op;
    let path = format!("/vnf_lcm_op_occs/{}", op.id);
    let stopped = op.operation_state == FailedTemp;
    let task =
        |name: &str, allowed: bool| allowed.then(|| root.lcm_link(&format!("{path}/{name}")));
    op.links = Some(VnfLcmOpOccLinks {
        this: root.lcm_link(&path),
        vnf_instance: root.lcm_link(&format!("/vnf_instances/{}", op.vnf_instance_id)),
        grant: op
            .grant_id
            .as_ref()
            .zip(root.nfvo.as_ref())
            .map(|(id, nfvo)| Link {
                href: format!("{nfvo}/grant/v1/grants/{id}"),
            }),
        cancel: task("cancel", op.operation_state.is_driven()),
        retry: task("retry", stopped),
        rollback: task("rollback", stopped && record.point_of_no_return.is_none()),
        fail: task("fail", stopped),
        vnf_snapshot: op.vnf_snapshot_info_id.as_ref().map(|id| Link {
            href: root.snapshot(id),
        }),
    });
    root.in_version(op, v1::vnf_lcm_op_occ)
}

/// The representation of a subscription, with its links.
pub(crate) fn subscription(record: SubscriptionRecord, root: &Root) -> Versioned<LccnSubscription> {
    let mut subscription = record.subscription;
    subscription.links = Some(LccnSubscriptionLinks {
        this: Link {
            href: root.subscription(&subscription.id),
        },
    });
    root.in_version(subscription, v1::subscription)
}

/// The representation of a snapshot, with its links. The instance in it has none: it is a copy.
pub(crate) fn snapshot(record: SnapshotRecord, root: &Root) -> VnfSnapshotInfo {
    let mut info = record.info;
    let taken_from = info.vnf_snapshot.as_ref().map(|snapshot| Link {
        href: root.instance(&snapshot.vnf_instance_id),
    });
    info.links = Some(VnfSnapshotInfoLinks {
        this: Link {
            href: root.snapshot(&info.id),
        },
        taken_from,
    });
    info
}

/// The representation of a package, with its links.
pub(crate) fn package(record: PackageRecord, root: &Root) -> VnfPkgInfo {
    let mut info = record.info;
    let path = format!("/vnfpkgm/v2/vnf_packages/{}", info.id);
    info.links = Some(VnfPkgInfoLinks {
        this: root.link(&path),
        vnfd: root.link(&format!("{path}/vnfd")),
        package_content: root.link(&format!("{path}/package_content")),
    });
    info
}

#[cfg(test)]
mod tests {
    use super::link_name;
    use vnfm_core::lcm::OPERATIONS;
    use vnfm_types::shape::VNF_INSTANCES;

    #[test]
    fn links_have_the_names_of_the_standard() {
        let known = VNF_INSTANCES.type_description().links();
        let later = ["change_vnfpkg", "change_ext_conn", "revert_to_snapshot"];
        let tasks = OPERATIONS.iter().filter_map(|operation| operation.task);
        for task in tasks.chain(later) {
            let name = link_name(task);
            assert!(known.contains(&&*name), "`{name}` is not in {known:?}");
        }
    }
}
