//! The files for the hosts: kubeadm's configuration, proxies, the service account. Secrets are only in these files,
//! never on a command line.

use crate::plan::{API_PORT, Node, Plan};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt::Write as _;
use vnfm_plugin_sdk::Secret;

/// VIM type of the cluster.
pub(crate) const VIM_TYPE: &str = "ETSINFV.KUBERNETES.V_1";
/// Namespace of the VIM's service account.
pub(crate) const NAMESPACE: &str = "kube-system";
/// The Kubernetes secret with its first token.
pub(crate) const TOKEN_SECRET: &str = "vnfm-token";
/// How long a bootstrap token is valid: as long as kubeadm keeps uploaded certificates, because the last node of an installation
/// may join long after the first, when software of nodes is installed before. The operation deletes it at its end.
pub(crate) const TOKEN_TTL: &str = "2h";

/// The configuration API of a kubeadm version: v1beta4, with argument lists, came with 1.31.
fn api_version(kubeadm: &str) -> &'static str {
    let minor = kubeadm
        .trim_start_matches('v')
        .split('.')
        .nth(1)
        .and_then(|minor| minor.parse().ok());
    if minor.is_none_or(|minor: u32| minor >= 31) {
        "kubeadm.k8s.io/v1beta4"
    } else {
        "kubeadm.k8s.io/v1beta3"
    }
}

fn registration(node: &Node, api: &str) -> Value {
    let mut arguments = vec![("node-ip", node.address.clone())];
    if !node.labels.is_empty() {
        let labels = node
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        arguments.push(("node-labels", labels.collect::<Vec<_>>().join(",")));
    }
    let arguments = extra_arguments(api, arguments);
    let mut registration = json!({ "name": node.name, "kubeletExtraArgs": arguments });
    if let Some(taints) = &node.taints {
        registration["taints"] = json!(taints);
    }
    registration
}

/// Arguments of a program, as this API has them.
fn extra_arguments(api: &str, arguments: Vec<(&str, String)>) -> Value {
    if api.ends_with("v1beta3") {
        let pairs = arguments.into_iter();
        let pairs = pairs.map(|(name, value)| (name.to_owned(), Value::from(value)));
        return Value::Object(pairs.collect());
    }
    let pair = |(name, value)| json!({ "name": name, "value": value });
    arguments.into_iter().map(pair).collect()
}

/// Where the API server on a node listens.
fn local_endpoint(node: &Node) -> Value {
    json!({ "advertiseAddress": node.address, "bindPort": API_PORT })
}

/// The configuration of `kubeadm init` on `node`, as JSON, which is valid YAML; with a certificate key, that of its phase
/// `upload-certs`, for which kubeadm talks to the API server of the node itself.
pub(crate) fn init(
    plan: &Plan,
    (node, kubeadm): (&Node, &str),
    (token, certificate_key): (&str, Option<&Secret>),
) -> String {
    let api = api_version(kubeadm);
    let mut addresses = vec![plan.api.address.clone(), plan.api.external_address.clone()];
    addresses.extend([node.address.clone(), node.ssh.address.clone()]);
    addresses.sort();
    addresses.dedup();
    let mut init = json!({
        "apiVersion": api,
        "kind": "InitConfiguration",
        "bootstrapTokens": [{
            "token": token,
            "ttl": TOKEN_TTL,
            "description": "joins of the VNFM",
            "usages": ["signing", "authentication"],
            "groups": ["system:bootstrappers:kubeadm:default-node-token"],
        }],
        "localAPIEndpoint": local_endpoint(node),
        "nodeRegistration": registration(node, api),
    });
    if let Some(key) = certificate_key {
        init["certificateKey"] = json!(key.reveal());
    }
    let mut cluster = json!({
        "apiVersion": api,
        "kind": "ClusterConfiguration",
        "kubernetesVersion": kubeadm,
        "controlPlaneEndpoint": plan.endpoint(),
        "networking": { "podSubnet": plan.pod_cidr, "serviceSubnet": plan.service_cidr },
        "apiServer": { "certSANs": addresses },
    });
    if let Some(etcd) = &plan.external_etcd {
        cluster["etcd"] = etcd.section();
        // The first part of a token is no secret, and another one for each installation.
        let (id, _) = token.split_once('.').unwrap_or_default();
        let prefix = format!("/vnfm/{}/{id}", plan.instance);
        let arguments = vec![("etcd-prefix", prefix)];
        cluster["apiServer"]["extraArgs"] = extra_arguments(api, arguments);
    }
    format!("{init}\n---\n{cluster}\n")
}

/// The kubeconfig for discovery: the control plane's address and CA, without a login or a secret.
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

/// The configuration of `kubeadm join`; `discovery` is the path of the file from [`discovery`]. With only the token,
/// kubeadm would poll the control plane every five seconds until a controller there has signed that information. A
/// certificate key makes the node part of the control plane.
pub(crate) fn join(
    node: &Node,
    kubeadm: &str,
    (token, discovery): (&str, &str),
    certificate_key: Option<&Secret>,
) -> String {
    let api = api_version(kubeadm);
    let mut join = json!({
        "apiVersion": api,
        "kind": "JoinConfiguration",
        "discovery": { "file": { "kubeConfigPath": discovery }, "tlsBootstrapToken": token },
        "nodeRegistration": registration(node, api),
    });
    if let Some(key) = certificate_key {
        let endpoint = local_endpoint(node);
        join["controlPlane"] =
            json!({ "localAPIEndpoint": endpoint, "certificateKey": key.reveal() });
    }
    format!("{join}\n")
}

/// Proxy settings for systemd units and for apt; `None` without a proxy.
pub(crate) fn proxies(plan: &Plan) -> Option<(String, String)> {
    let url = |proxy: &'_ Option<Secret>| proxy.as_ref().map(|url| url.reveal().to_owned());
    let (http, https) = (url(&plan.proxy.http_proxy), url(&plan.proxy.https_proxy));
    if http.is_none() && https.is_none() {
        return None;
    }
    let mut exceptions = vec![
        "localhost".to_owned(),
        "127.0.0.1".into(),
        ".svc".into(),
        ".cluster.local".into(),
    ];
    exceptions.extend([
        plan.pod_cidr.clone(),
        plan.service_cidr.clone(),
        plan.api.address.clone(),
    ]);
    exceptions.extend(plan.nodes().map(|node| node.address.clone()));
    exceptions.extend(plan.proxy.k8s_node_cidr.clone());
    exceptions.extend(
        plan.proxy
            .no_proxy
            .iter()
            .flat_map(|all| all.split(','))
            .map(|one| one.trim().to_owned()),
    );
    let mut unit = format!(
        "[Service]\nEnvironment={}\n",
        systemd("NO_PROXY", &exceptions.join(","))
    );
    let mut apt = String::new();
    for (name, scheme, url) in [
        ("HTTP_PROXY", "http", http),
        ("HTTPS_PROXY", "https", https),
    ] {
        if let Some(url) = url {
            // Writing to a `String` cannot fail.
            let _ = writeln!(unit, "Environment={}", systemd(name, &url));
            let _ = writeln!(apt, "Acquire::{scheme}::Proxy {};", apt_quoted(&url));
        }
    }
    Some((unit, apt))
}

/// A quoted assignment for systemd (systemd.syntax(7), systemd.unit(5)): always exactly one, whatever the value contains.
fn systemd(name: &str, value: &str) -> String {
    let mut text = format!("\"{name}=");
    for c in value.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '%' => text.push_str("%%"),
            ' '..='~' => text.push(c),
            // Writing to a `String` cannot fail.
            _ => drop(write!(text, "\\U{:08x}", u32::from(c))),
        }
    }
    text.push('"');
    text
}

/// A quoted URL for apt.conf(5), which has no escapes: characters that would end it are percent-encoded.
fn apt_quoted(url: &str) -> String {
    let mut text = "\"".to_owned();
    for c in url.chars() {
        let plain = matches!(c, '!'..='~') && !matches!(c, '"' | '\\' | ';' | '{' | '}');
        if plain {
            text.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text.push('"');
    text
}

/// The kernel settings that Kubernetes needs, persistent across reboots.
pub(crate) const SYSCTL: &str = "net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n";

/// The service account of the VIM.
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
    ];
    documents
        .map(|document| format!("---\n{document}\n"))
        .concat()
}

/// A Kubernetes secret of this name with a token of the service account, which does not expire.
pub(crate) fn token_secret(name: &str) -> String {
    let document = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": { "kubernetes.io/service-account.name": "vnfm" },
        },
    });
    format!("---\n{document}\n")
}

#[cfg(test)]
mod tests {
    use super::{TOKEN_TTL, apt_quoted, systemd};
    use crate::params::NodeSoftware;

    #[test]
    fn a_token_outlives_the_installation_of_software_on_a_node() {
        let schema = schemars::schema_for!(NodeSoftware);
        let longest = schema.pointer("/properties/timeout_seconds/maximum");
        let hours = TOKEN_TTL.strip_suffix('h').unwrap();
        let seconds = 3600 * hours.parse::<u64>().unwrap();
        assert!(seconds > longest.unwrap().as_u64().unwrap());
    }

    #[test]
    fn a_proxy_is_always_one_value_of_its_file() {
        let evil =
            "http://x\"\n[Service]\nExecStartPre=/bin/sh -c 'id' %n \\ ; // $HOME \u{202e}\0";
        let unit = systemd("HTTP_PROXY", evil);
        assert_eq!(unit.lines().count(), 1, "{unit}");
        assert!(unit.is_ascii() && unit.ends_with("\\U00000000\""), "{unit}");
        assert!(
            unit.contains(r#"x\"\U0000000a[Service]"#) && unit.contains("%%n"),
            "{unit}"
        );
        let inner = &unit[1..unit.len() - 1];
        let bare = inner.replace("\\\\", "").replace("\\\"", "");
        assert!(!bare.contains('"'), "nothing ends it: {unit}");
        let apt = apt_quoted(evil);
        assert_eq!(
            (apt.lines().count(), apt.matches('"').count()),
            (1, 2),
            "{apt}"
        );
        assert!(
            !apt.contains(';') && !apt.contains('\\') && apt.contains("%0A"),
            "{apt}"
        );
        let plain = "http://user:p%40ss@192.0.2.1:3128";
        assert_eq!(apt_quoted(plain), format!("\"{plain}\""));
        assert_eq!(
            systemd("A", "http://192.0.2.1:3128"),
            "\"A=http://192.0.2.1:3128\""
        );
    }
}
