//! The vendor's own script in the package.

use crate::lab::Lab;
use serde_json::json;
use vnfm_sim::faults::{Fault, Rule};

const GOOD: &str = r#"#!/bin/sh
# Installs the cluster; chats, then answers.
echo "installing by $1"
cat $1 > /root/seen
echo '{"server": "https://10.0.0.5:6443", "bearer_token": "vendor-token", "ssl_ca_cert_hash": "sha256:00", "certificate_key": "vendor-key", "bootstrap_token": "vendor.join"}'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_script_runs_on_every_host_and_its_json_is_used() {
    let mut lab = Lab::new().await;
    lab.package.insert("Scripts/install.sh".into(), GOOD.into());
    let effects = lab.install().await.unwrap();
    let vim = &effects.register_vims[0];
    assert_eq!(vim.interface_info["endpoint"], "https://10.0.0.5:6443");
    assert_eq!(vim.access_info["bearer_token"], "vendor-token");
    assert_eq!(vim.access_info["certificate_key"], "vendor-key");
    assert_eq!(vim.extra["ssl_ca_cert_hash"], "sha256:00");
    let seen = |host| String::from_utf8(lab.hosts.file(host, "/root/seen").unwrap()).unwrap();
    let master = seen("server-m1");
    for line in [
        "ROLE='master'",
        "POD_CIDR='10.244.0.0/16'",
        "CNI_MANIFEST='/run/vnfm/cni.yaml'",
    ] {
        assert!(
            master.lines().any(|seen| seen == line),
            "no {line} in {master}"
        );
    }
    for worker in ["server-w1", "server-w2"] {
        let messages = seen(worker);
        for line in [
            "ROLE='worker'",
            "SERVER='https://10.0.0.5:6443'",
            "BOOTSTRAP_TOKEN='vendor.join'",
            "SSL_CA_CERT_HASH='sha256:00'",
        ] {
            assert!(
                messages.lines().any(|seen| seen == line),
                "no {line} in {messages}"
            );
        }
    }
    assert_eq!(lab.count("m1", "kubeadm"), 0);
    assert!(!lab.texts().contains("vendor-token"));
    lab.install().await.unwrap();
    assert_eq!(
        lab.count("m1", "/var/lib/vnfm/vendor.sh"),
        1,
        "what has ended well is not run again"
    );
}

/// Prints JSON with a kubeadm token and certificate key.
const KUBEADM: &str = r#"#!/bin/sh
sysctl -q -w net.ipv4.ip_forward=1
kubeadm init >/dev/null
echo '{"server": "https://10.0.0.5:6443", "bearer_token": "vendor-token", "certificate_key": "KEY", "bootstrap_token": "abcdef.0123456789abcdef"}'
"#;

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_keys_are_revoked_at_the_end() {
    let mut lab = Lab::new().await;
    let script = KUBEADM.replace("KEY", &"0123456789abcdef".repeat(4));
    lab.package
        .insert("Scripts/install.sh".into(), script.into());
    lab.faults.add(
        Rule::new(
            "host.exec",
            Fault::Exit {
                exit: 7,
                stderr: "not yet".into(),
            },
        )
        .on("w2: /var/lib/vnfm/vendor.sh"),
    );
    assert_eq!(lab.install().await.unwrap_err().name(), "script-failed");
    let cluster = lab.cluster();
    cluster.bootstrap_token_add("abcdef.0123456789abcdef");
    let kept = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kubeadm-certs", "namespace": "kube-system"}}"#;
    cluster.apply(kept).unwrap();
    lab.install().await.unwrap();
    assert_eq!(
        lab.count("m1", "/var/lib/vnfm/vendor.sh"),
        1,
        "its answer was secret"
    );
    assert!(!cluster.bootstrap_token_valid("abcdef.0123456789abcdef"));
    assert!(
        cluster
            .object("/api/v1/namespaces/kube-system/secrets/kubeadm-certs")
            .is_none()
    );
    for host in ["server-m1", "server-w1", "server-w2"] {
        assert!(
            lab.hosts.file(host, "/run/vnfm/vendor.env").is_none(),
            "{host}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_json_of_the_script_is_refused_with_the_reason() {
    let cases = [
        ("echo nonsense", "it is not JSON"),
        ("echo '{\"server\": \"https://x:6443\"'", "it is truncated"),
        (
            "echo '{\"bearer_token\": \"planted-token\"}'",
            "a member is missing",
        ),
        (
            "echo '{\"server\": \"x\", \"bearer_token\": \"planted-token\"}'",
            "is not a URL",
        ),
        (
            "echo '{\"server\": \"https://x\", \"username\": \"u\", \"password\": \"p\"}'",
            "supports no passwords",
        ),
    ];
    for (script, words) in cases {
        let mut lab = Lab::new().await;
        lab.package
            .insert("Scripts/install.sh".into(), script.into());
        let error = lab.install().await.unwrap_err();
        assert_eq!(error.name(), "script-answer", "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(words) && text.contains("m1"), "{text}");
        assert!(!text.contains("planted-token"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_script_is_reported_with_its_last_lines() {
    let mut lab = Lab::new().await;
    lab.package.insert(
        "Scripts/install.sh".into(),
        "echo 'no space left' >&2; exit 7".into(),
    );
    let error = lab.install().await.unwrap_err();
    assert_eq!(error.name(), "script-failed");
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("exit code 7") && text.contains("no space left"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_joins_workers_and_does_so_again_after_a_rollback() {
    let mut lab = Lab::new().await;
    let effects = lab.install().await.unwrap();
    let vim = &effects.register_vims[0];
    let endpoint = vim.interface_info["endpoint"].as_str().unwrap();
    let token = "abcdef.0123456789abcdef";
    lab.cluster().bootstrap_token_add(token);
    let script = format!(
        "#!/bin/sh\nsysctl -q -w net.ipv4.ip_forward=1\nkubeadm join {} --token {token} \
         --discovery-token-ca-cert-hash {}\n",
        endpoint.trim_start_matches("https://"),
        vim.extra["ssl_ca_cert_hash"].as_str().unwrap(),
    );
    lab.package
        .insert("Scripts/install.sh".into(), script.into());
    lab.boot_added().await;
    let (two, four) = (["m1", "w1", "w2"], ["m1", "w1", "w2", "w3", "w4"]);
    for _ in 0..2 {
        lab.scale("scale_end", json!({}), (2, 4)).await.unwrap();
        assert_eq!(lab.usable_nodes(), four);
    }
    assert_eq!(lab.count("w3", "/var/lib/vnfm/vendor.sh"), 1);
    lab.scale("scale_start", json!({}), (4, 2)).await.unwrap();
    assert_eq!(lab.usable_nodes(), two);
    lab.undo_scale("scale_start", (4, 2)).await.unwrap();
    assert_eq!(lab.usable_nodes(), four);
    assert_eq!(lab.count("w3", "/var/lib/vnfm/vendor.sh"), 2);
}
