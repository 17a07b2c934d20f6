//! Records as the standard shows them: with `_links`, without secrets, in the version that was asked.

use axum::http::HeaderMap;
use serde::Serialize;
use serde_json::Value;
use vnfm_core::ports::{InstanceRecord, OpRecord, PackageRecord, SubscriptionRecord};
use vnfm_types::LcmOperationState::FailedTemp;
use vnfm_types::v1::{self, ApiVersion};
use vnfm_types::{
    InstantiationState, LccnSubscription, LccnSubscriptionLinks, Link, VnfInstance,
    VnfInstanceLinks, VnfLcmOpOcc, VnfLcmOpOccLinks, VnfPkgInfo, VnfPkgInfoLinks,
};

/// Where this server is, as the client sees it: configured, or from the request's `Host`.
#[derive(Debug, Clone)]
pub struct Root {
    /// What stands before every path.
    pub url: String,
    /// The same at the NFVO, where there is one.
    pub nfvo: Option<String>,
    /// The version of VNF LCM that the client speaks.
    pub api_version: ApiVersion,
}

/// A resource in the version that was asked.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Shown<T> {
    /// As its type spells it.
    Now(T),
    /// As `vnflcm/v1` spells it.
    V1(Value),
}

impl Root {
    /// The root for a request.
    pub fn of(headers: &HeaderMap, public_url: Option<&str>, tls: bool) -> Self {
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

    /// What stands before the paths of VNF LCM.
    pub fn lcm(&self) -> String {
        format!("{}{}", self.url, self.api_version.prefix())
    }

    /// Where this server is for a subscriber; see [`SubscriptionRecord::root`].
    pub fn of_subscriber(&self) -> String {
        match self.api_version {
            ApiVersion::V1 => self.lcm(),
            ApiVersion::V2 => self.url.clone(),
        }
    }

    fn shown<T: Serialize>(&self, resource: T, convert: impl Fn(&mut Value)) -> Shown<T> {
        if self.api_version == ApiVersion::V2 {
            return Shown::Now(resource);
        }
        let mut value = serde_json::to_value(&resource).unwrap_or_default();
        convert(&mut value);
        Shown::V1(value)
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
    pub fn instance(&self, id: &str) -> String {
        format!("{}/vnf_instances/{id}", self.lcm())
    }

    /// The URI of an operation occurrence.
    pub fn op(&self, id: &str) -> String {
        format!("{}/vnf_lcm_op_occs/{id}", self.lcm())
    }

    /// The URI of a subscription.
    pub fn subscription(&self, id: &str) -> String {
        format!("{}/subscriptions/{id}", self.lcm())
    }

    /// The URI of a package.
    pub fn package(&self, id: &str) -> String {
        format!("{}/vnfpkgm/v2/vnf_packages/{id}", self.url)
    }
}

/// An instance; a task's link is there while the task is possible.
pub fn instance(record: InstanceRecord, root: &Root) -> Shown<VnfInstance> {
    let mut vnf = record.vnf;
    for connection in vnf.vim_connection_info.values_mut() {
        connection.access_info.clear();
    }
    let path = format!("/vnf_instances/{}", vnf.id);
    let free = record.active_op.is_none();
    let instantiated = vnf.instantiation_state == InstantiationState::Instantiated;
    let task =
        |name: &str, possible: bool| possible.then(|| root.lcm_link(&format!("{path}/{name}")));
    vnf.links = Some(VnfInstanceLinks {
        this: root.lcm_link(&path),
        instantiate: task("instantiate", free && !instantiated),
        terminate: task("terminate", free && instantiated),
        heal: task("heal", free && instantiated),
    });
    root.shown(vnf, |vnf| v1::vnf_instance(vnf, &record.vnf_pkg_id))
}

/// An operation occurrence; a task's link is there while the task is allowed.
pub fn op(record: OpRecord, root: &Root) -> Shown<VnfLcmOpOcc> {
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
    });
    root.shown(op, v1::vnf_lcm_op_occ)
}

/// A subscription.
pub fn subscription(record: SubscriptionRecord, root: &Root) -> Shown<LccnSubscription> {
    let mut shown = record.subscription;
    shown.links = Some(LccnSubscriptionLinks {
        this: Link {
            href: root.subscription(&shown.id),
        },
    });
    root.shown(shown, v1::subscription)
}

/// A package.
pub fn package(record: PackageRecord, root: &Root) -> VnfPkgInfo {
    let mut info = record.info;
    let path = format!("/vnfpkgm/v2/vnf_packages/{}", info.id);
    info.links = Some(VnfPkgInfoLinks {
        this: root.link(&path),
        vnfd: root.link(&format!("{path}/vnfd")),
        package_content: root.link(&format!("{path}/package_content")),
    });
    info
}
