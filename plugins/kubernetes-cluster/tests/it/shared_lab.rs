//! A lab with several control-plane nodes at a shared address, and the requests for them.

use crate::lab::{Lab, NEW, VIP};
use crate::workload::b;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vnfm_core::ports::{Effects, HookHeal, HookRequest, HookScale, PortError};

pub(crate) const THREE: &[&str] = &["m1", "m2", "m3"];
pub(crate) const FIVE: &[&str] = &["m1", "m2", "m3", "m4", "m5"];
pub(crate) const WORKERS: &[&str] = &["w1", "w2"];
const CERTIFICATES: &str = "/api/v1/namespaces/kube-system/secrets/kubeadm-certs";

/// The last byte of a server's address.
pub(crate) fn last_byte(name: &str) -> u8 {
    let number: u8 = name[1..].parse().unwrap();
    if name.starts_with('m') {
        10 + number
    } else {
        30 + number
    }
}

impl Lab {
    /// A lab with these servers and the Debian archives of HAProxy and keepalived in its package.
    pub(crate) async fn with_control_planes(names: &[&str]) -> Self {
        Self::with_control_planes_that(names, |_, _| ()).await
    }

    /// As [`Lab::with_control_planes`]; `before` sees each host's name before it boots.
    pub(crate) async fn with_control_planes_that(
        names: &[&str],
        before: impl Fn(&Self, &str),
    ) -> Self {
        let mut lab = Self::empty().await;
        for program in ["haproxy", "keepalived"] {
            let path = format!("Files/kubernetes/endpoint-packages/{program}_2_amd64.deb");
            lab.package.insert(path, b"an archive".to_vec());
        }
        for name in names.iter().chain(WORKERS) {
            before(&lab, name);
            lab.boot((last_byte(name), name), name).await;
        }
        lab
    }

    /// A lab with a cluster of three control-plane nodes, and VNF-B on the workers.
    pub(crate) async fn with_three() -> (Self, Effects) {
        let lab = Self::with_control_planes(THREE).await;
        let effects = lab.install_three().await.unwrap();
        lab.deploy_b().await;
        (lab, effects)
    }

    pub(crate) fn shared_params(&self) -> Value {
        let mut params = self.params();
        let installation = &mut params["k8s_cluster_installation_param"];
        installation["control_plane_endpoint"] =
            json!({ "address": self.address(VIP).to_string() });
        params
    }

    pub(crate) fn vnfcs(&self, names: &[&str], replaced: &[&str]) -> Vec<Value> {
        let all = names.iter().chain(WORKERS).map(|name| {
            let (vdu, cp) = if name.starts_with('m') {
                ("masterNode", "masterCP")
            } else {
                ("workerNode", "workerCP")
            };
            self.vnfc((last_byte(name), name, vdu, cp), replaced)
        });
        all.collect()
    }

    pub(crate) fn shared_request(
        &self,
        hook: &str,
        params: &Value,
        vnfcs: &[Value],
    ) -> HookRequest {
        let mut request = self.request(hook, params);
        request.inventory.vnfc_resource_info = serde_json::from_value(json!(vnfcs)).unwrap();
        request.dependents = vec![b()];
        request
    }

    pub(crate) async fn install_three(&self) -> Result<Effects, PortError> {
        let params = self.shared_params();
        let request = self.shared_request("instantiate_end", &params, &self.vnfcs(THREE, &[]));
        self.run(request, None).await.unwrap()
    }

    pub(crate) fn heal_three(&self, hook: &str, healed: &[&str]) -> HookRequest {
        let replaced = if hook == "heal_end" { healed } else { &[] };
        let vnfcs = self.vnfcs(THREE, replaced);
        let mut request = self.shared_request(hook, &self.shared_params(), &vnfcs);
        let is_healed = |vnfc: &Value| {
            healed
                .iter()
                .any(|name| vnfc["id"] == format!("vnfc-{name}"))
        };
        let old = self.vnfcs(THREE, &[]).into_iter().filter(is_healed);
        let mut heal = HookHeal::default();
        heal.vnfcs = serde_json::from_value(old.collect()).unwrap();
        request.heal = Some(heal);
        request
    }

    pub(crate) async fn run_heal(&self, hook: &str, healed: &[&str]) -> Result<Effects, PortError> {
        self.run(self.heal_three(hook, healed), None).await.unwrap()
    }

    /// Replaces a server like a VIM that keeps its port.
    pub(crate) async fn replace_server(&self, name: &str) {
        self.hosts.destroy(&format!("server-{name}")).await;
        self.boot((last_byte(name), name), &format!("{name}{NEW}"))
            .await;
    }

    pub(crate) fn scale_control_planes(
        &self,
        hook: &str,
        (before, after): (&[&str], &[&str]),
    ) -> HookRequest {
        let now = if hook.ends_with("_end") {
            after
        } else {
            before
        };
        let vnfcs = self.vnfcs(now, &[]);
        let mut request = self.shared_request(hook, &self.shared_params(), &vnfcs);
        let only = |names: &[&str], others: &[&str]| {
            let all = self.vnfcs(names, &[]);
            let is_new = |vnfc: &Value| {
                let mut known = others.iter().chain(WORKERS);
                !known.any(|name| vnfc["id"] == format!("vnfc-{name}"))
            };
            let all: Vec<_> = all.into_iter().filter(is_new).collect();
            serde_json::from_value(json!(all)).unwrap()
        };
        let mut scale = HookScale::default();
        scale.vnfcs_to_remove = only(before, after);
        if after.len() > before.len() {
            let added = u32::try_from(after.len() - before.len()).unwrap();
            scale.vnfcs_to_add = BTreeMap::from([("masterNode".into(), added)]);
        }
        if hook.ends_with("_end") {
            scale.vnfcs_added = only(after, before);
        }
        request.scale = Some(scale);
        request
    }

    pub(crate) async fn run_scale(
        &self,
        hook: &str,
        sizes: (&[&str], &[&str]),
    ) -> Result<Effects, PortError> {
        let request = self.scale_control_planes(hook, sizes);
        self.run(request, None).await.unwrap()
    }

    /// The names of the members of etcd in the cluster of a control-plane node, sorted.
    pub(crate) fn members(&self, host: &str) -> Vec<String> {
        self.hosts.etcd_members(&format!("server-{host}"))
    }

    /// Checks that the cluster has exactly these control-plane nodes, and that nothing secret is left.
    pub(crate) fn assert_control_planes(&self, names: &[&str]) {
        let mut all: Vec<_> = names.iter().chain(WORKERS).copied().collect();
        all.sort_unstable();
        self.assert_scaled(&all);
        assert!(
            self.cluster().object(CERTIFICATES).is_none(),
            "certificates are left"
        );
    }

    /// A file of a server.
    pub(crate) fn text(&self, server: &str, path: &str) -> String {
        let file = self.hosts.file(&format!("server-{server}"), path);
        String::from_utf8(file.unwrap_or_default()).unwrap()
    }
}
