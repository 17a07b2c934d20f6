//! A cluster whose data are in an etcd outside of the VNF.

use crate::lab::Lab;
use crate::shared_lab::THREE;
use serde_json::{Value, json};
use vnfm_core::ports::{ErrorKind, HookRequest};

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nplanted key\n-----END PRIVATE KEY-----\n";
const FOLDER: &str = "/etc/kubernetes/pki/external-etcd";

fn etcd() -> Value {
    let certificate = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
    json!({
        "endpoints": ["https://192.0.2.10:2379", "https://192.0.2.11:2379"],
        "ca": certificate, "certificate": certificate, "private_key": KEY,
    })
}

fn with_etcd(mut request: HookRequest, etcd: Value) -> HookRequest {
    request.additional_params["k8s_cluster_installation_param"]["external_etcd"] = etcd;
    request
}

impl Lab {
    fn installation(&self) -> HookRequest {
        let params = self.shared_params();
        self.shared_request("instantiate_end", &params, &self.vnfcs(THREE, &[]))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_control_plane_is_enough_and_the_others_are_healed_together() {
    let lab = Lab::with_control_planes(THREE).await;
    let install = with_etcd(lab.installation(), etcd());
    lab.run(install, None).await.unwrap().unwrap();
    lab.assert_control_planes(THREE);
    assert_eq!(lab.members("m1"), [""; 0], "no members on the nodes");
    assert_eq!(lab.text("m1", &format!("{FOLDER}/client.key")), KEY);
    lab.deploy_b().await;

    for dead in ["m1", "m2"] {
        lab.hosts.power_off(&format!("server-{dead}"));
    }
    for hook in ["heal_start", "heal_end"] {
        let heal = with_etcd(lab.heal_three(hook, &["m1", "m2"]), etcd());
        lab.run(heal, None).await.unwrap().unwrap();
        if hook == "heal_start" {
            for dead in ["m1", "m2"] {
                lab.replace_server(dead).await;
            }
        }
    }
    lab.assert_control_planes(THREE);
    assert_eq!(lab.nodes_of_b(), ["w1", "w2"], "no pod has moved");
    assert!(!lab.texts().contains("planted key"));
}

/// Nothing of the cluster renews it.
#[tokio::test(flavor = "multi_thread")]
async fn the_expiry_of_its_login_is_shown_and_a_renewal_of_certificates_writes_another() {
    let other = Lab::new().await;
    other.install().await.unwrap();
    let certificate = other.cluster().ca_pem();
    let lab = Lab::with_control_planes(THREE).await;
    let install = with_etcd(lab.installation(), etcd());
    lab.run(install, None).await.unwrap().unwrap();
    let mut changed = etcd();
    changed["certificate"] = json!(certificate);
    // The last one has the login of the installation, as a request without one.
    let requests = [
        ("renew_certificates", &changed),
        ("check", &changed),
        ("renew_certificates", &etcd()),
    ];
    for (action, login) in requests {
        lab.forget_checkpoints();
        let mut request = with_etcd(lab.installation(), login.clone());
        request.hook = "operate_end".into();
        let params = &mut request.additional_params;
        params.insert("cluster_action".into(), json!(action));
        let shown = lab.run(request, None).await.unwrap().unwrap();
        for node in THREE {
            assert_eq!(lab.text(node, &format!("{FOLDER}/client.crt")), certificate);
            let dates = &shown.metadata["certificateExpiry"][*node];
            // The simulated authority's certificate is valid for that long.
            assert_eq!(
                dates["external-etcd-client"], "4096-01-01T00:00:00Z",
                "{dates}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_those_of_its_operator() {
    let lab = Lab::with_control_planes(THREE).await;
    for action in ["backup", "restore"] {
        let mut request = with_etcd(lab.installation(), etcd());
        request.hook = "operate_start".into();
        request
            .additional_params
            .insert("cluster_action".into(), json!(action));
        let refused = lab.run(request, None).await.unwrap().unwrap_err();
        assert_eq!(
            (refused.name(), refused.kind()),
            ("external-etcd", ErrorKind::Refused),
            "{refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_etcd_is_refused_before_anything_changes() {
    let lab = Lab::with_control_planes(THREE).await;
    let mut unusable = etcd();
    unusable["endpoints"] = json!(["http://192.0.2.10:2379"]);
    for hook in ["instantiate_start", "instantiate_end"] {
        let mut request = with_etcd(lab.installation(), unusable.clone());
        request.hook = hook.into();
        let refused = lab.run(request, None).await.unwrap().unwrap_err();
        assert_eq!(refused.name(), "bad-parameters", "{refused}");
        assert!(
            refused.to_string().contains("`external_etcd.endpoints`"),
            "{refused}"
        );
    }
    assert_eq!(lab.count("m1", "kubeadm"), 0);
}
