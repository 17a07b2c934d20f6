//! The files that go to the hosts: kubeadm's configuration, proxies, the service account. Secrets are in none of the
//! command lines, only in these.

use crate::plan::{API_PORT, Node, Plan};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt::Write as _;
use vnfm_plugin_sdk::Secret;

/// Namespace of our service account.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The secret with its token.
pub(crate) const TOKEN_SECRET: &str = "vnfm-token";
/// How long a bootstrap token is good for.
pub(crate) const TOKEN_TTL: &str = "15m";

/// kubeadm's API of a version: argument lists came with 1.31.
fn api_version(kubeadm: &str) -> &'static str {
    let minor =
        kubeadm.trim_start_matches('v').split('.').nth(1).and_then(|minor| minor.parse().ok());
    if minor.is_none_or(|minor: u32| minor >= 31) {
        "kubeadm.k8s.io/v1beta4"
    } else {
        "kubeadm.k8s.io/v1beta3"
    }
}

fn registration(node: &Node, api: &str) -> Value {
    let arguments = if api.ends_with("v1beta3") {
        json!({ "node-ip": node.address })
    } else {
        json!([{ "name": "node-ip", "value": node.address }])
    };
    json!({ "name": node.name, "kubeletExtraArgs": arguments })
}

/// What `kubeadm init` reads. JSON is YAML.
pub(crate) fn init(plan: &Plan, kubeadm: &str, token: &str) -> String {
    let api = api_version(kubeadm);
    let mut names = vec![plan.api_address.clone(), plan.outside_address.clone()];
    names.extend([plan.master.address.clone(), plan.master.ssh.address.clone()]);
    names.sort();
    names.dedup();
    let init = json!({
        "apiVersion": api,
        "kind": "InitConfiguration",
        "bootstrapTokens": [{
            "token": token,
            "ttl": TOKEN_TTL,
            "description": "joins of the VNFM",
            "usages": ["signing", "authentication"],
            "groups": ["system:bootstrappers:kubeadm:default-node-token"],
        }],
        "localAPIEndpoint": { "advertiseAddress": plan.master.address, "bindPort": API_PORT },
        "nodeRegistration": registration(&plan.master, api),
    });
    let cluster = json!({
        "apiVersion": api,
        "kind": "ClusterConfiguration",
        "kubernetesVersion": kubeadm,
        "controlPlaneEndpoint": plan.endpoint(),
        "networking": { "podSubnet": plan.pod_cidr, "serviceSubnet": plan.service_cidr },
        "apiServer": { "certSANs": names },
    });
    format!("{init}\n---\n{cluster}\n")
}

/// Where the control plane is, and whom to trust there: a kubeconfig without a login, and no secret.
pub(crate) fn discovery(plan: &Plan, ca: &str) -> String {
    let cluster = json!({
        "server": format!("https://{}", plan.endpoint()),
        "certificate-authority-data": STANDARD.encode(ca),
    });
    let discovery = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "", "cluster": cluster }],
    });
    format!("{discovery}\n")
}

/// What `kubeadm join` reads; `discovery` is the path of what [`discovery`] says. By the token alone it would ask the
/// control plane for that, every five seconds until somebody there has signed it with the token.
pub(crate) fn join(node: &Node, kubeadm: &str, (token, discovery): (&str, &str)) -> String {
    let api = api_version(kubeadm);
    let join = json!({
        "apiVersion": api,
        "kind": "JoinConfiguration",
        "discovery": { "file": { "kubeConfigPath": discovery }, "tlsBootstrapToken": token },
        "nodeRegistration": registration(node, api),
    });
    format!("{join}\n")
}

/// Proxies, for systemd units and for apt; `None` where there are none.
pub(crate) fn proxies(plan: &Plan) -> Option<(String, String)> {
    let url = |proxy: &'_ Option<Secret>| proxy.as_ref().map(|url| url.reveal().to_owned());
    let (http, https) = (url(&plan.proxy.http_proxy), url(&plan.proxy.https_proxy));
    if http.is_none() && https.is_none() {
        return None;
    }
    let mut without =
        vec!["localhost".to_owned(), "127.0.0.1".into(), ".svc".into(), ".cluster.local".into()];
    without.extend([plan.pod_cidr.clone(), plan.service_cidr.clone(), plan.api_address.clone()]);
    without.extend(plan.nodes().map(|node| node.address.clone()));
    without.extend(plan.proxy.k8s_node_cidr.clone());
    without.extend(
        plan.proxy.no_proxy.iter().flat_map(|all| all.split(',')).map(|one| one.trim().to_owned()),
    );
    let mut unit = format!("[Service]\nEnvironment=\"NO_PROXY={}\"\n", without.join(","));
    let mut apt = String::new();
    for (name, scheme, url) in [("HTTP_PROXY", "http", http), ("HTTPS_PROXY", "https", https)] {
        if let Some(url) = url {
            // Writing into a String cannot fail.
            let _ = writeln!(unit, "Environment=\"{name}={url}\"");
            let _ = writeln!(apt, "Acquire::{scheme}::Proxy \"{url}\";");
        }
    }
    Some((unit, apt))
}

/// The kernel's settings that Kubernetes wants, over reboots.
pub(crate) const SYSCTL: &str = "net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n";

/// The service account that the VIM is used by, with a token that lasts as long as the cluster.
pub(crate) fn account() -> String {
    let documents = [
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": "vnfm", "namespace": NAMESPACE },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": "vnfm" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": "vnfm", "namespace": NAMESPACE }],
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": TOKEN_SECRET,
                "namespace": NAMESPACE,
                "annotations": { "kubernetes.io/service-account.name": "vnfm" },
            },
        }),
    ];
    documents.map(|document| format!("---\n{document}\n")).concat()
}
