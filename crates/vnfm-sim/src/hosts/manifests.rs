//! The manifests of static pods, and the version of etcd that they start.
//!
//! etcd's data have the version that all of its members have, as their manifests name it. An older etcd that starts with newer
//! data is a violation.

use super::host::Host;

pub(super) const MANIFESTS: &str = "/etc/kubernetes/manifests";
/// The version of the data on a host.
pub(super) const DATA_VERSION: &str = "/var/lib/etcd/vnfm-sim-version";

/// The manifest of a component.
pub(super) fn manifest(component: &str) -> String {
    format!("{MANIFESTS}/{component}.yaml")
}

/// The manifest of a static pod that does not run.
pub(super) fn stopped(pod: &str) -> String {
    format!("/etc/kubernetes/vnfm-stopped/{pod}.yaml")
}

/// The second number of a version.
pub(super) fn minor(version: &str) -> u32 {
    let minor = version
        .split('.')
        .nth(1)
        .and_then(|minor| minor.parse().ok());
    minor.unwrap_or_default()
}

/// The version of etcd in a manifest.
pub(super) fn version_in(manifest: Option<&str>) -> u32 {
    let tag = manifest.and_then(|text| text.trim().rsplit(':').next());
    tag.map(minor).unwrap_or_default()
}

/// The version in the manifest of a host.
pub(super) fn running_version(host: &Host) -> u32 {
    version_in(host.disk().text(&manifest("etcd")).as_deref())
}

/// etcd starts with the version of its manifest.
pub(super) fn start_etcd(host: &Host) {
    let own = running_version(host);
    let data = host.disk().text(DATA_VERSION);
    let data: u32 = data.and_then(|text| text.parse().ok()).unwrap_or_default();
    if own < data {
        let name = &host.spec().name;
        host.lan.books.record_violation(format!(
            "etcd 3.{own} on `{name}` refuses the data of etcd 3.{data}"
        ));
    }
    let all = host.lan.hosts_of_members(host);
    if let Some(common) = all.iter().map(|host| running_version(host)).min() {
        for member in all {
            member.disk().write(DATA_VERSION, common.to_string(), 0o600);
        }
    }
}
