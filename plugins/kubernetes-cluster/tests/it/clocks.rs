//! Clocks that differ: refused before anything changes, and the way forward.

use crate::lab::Lab;
use serde_json::json;
use vnfm_core::ports::{ErrorKind, PortError};

fn assert_refused(error: &PortError, words: &[&str]) {
    assert_eq!(
        (error.name(), error.kind()),
        ("clocks-differ", ErrorKind::Refused),
        "{error}"
    );
    for word in words.iter().chain(&["timedatectl"]) {
        assert!(
            error.to_string().contains(word),
            "`{word}` is missing: {error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_is_refused_until_the_clocks_agree() {
    let lab = Lab::new().await;
    lab.hosts.set_clock("server-w1", 305);
    lab.hosts.set_clock("server-w2", -120);
    let error = lab.install().await.unwrap_err();
    assert_refused(&error, &["`w1` is 30", "s ahead", "`w2` is 1", "s behind"]);
    assert!(!error.to_string().contains("`m1`"), "{error}");
    for program in ["kubeadm", "sysctl", "apt", "dpkg"] {
        for host in ["m1", "w1", "w2"] {
            assert_eq!(lab.count(host, program), 0, "{program} on {host}");
        }
    }
    for host in ["w1", "w2"] {
        lab.hosts.set_clock(&format!("server-{host}"), 5);
    }
    lab.check(&lab.install().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vnfm_whose_own_clock_is_wrong_is_named() {
    let lab = Lab::new().await;
    for host in ["m1", "w1", "w2"] {
        lab.hosts.set_clock(&format!("server-{host}"), 600);
    }
    let error = lab.install().await.unwrap_err();
    assert_refused(&error, &["whose own clock may be the wrong one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_time_does_not_join() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.heal("heal_start", json!({}), &["w1"]).await.unwrap();
    lab.replace(&["w1"]).await;
    lab.hosts.set_clock("server-w1-new", -400);
    let error = lab.heal("heal_end", json!({}), &["w1"]).await.unwrap_err();
    assert_refused(&error, &["behind the VNFM"]);
    assert_eq!(
        lab.count("w1", "kubeadm join"),
        1,
        "that of the installation"
    );
    lab.hosts.set_clock("server-w1-new", 0);
    lab.heal("heal_end", json!({}), &["w1"]).await.unwrap();
    assert_eq!(lab.count("w1", "kubeadm join"), 2);
}

/// Only the new package names the version, so that the hook before the change cannot refuse it.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_by_the_package_is_refused_until_the_clocks_agree() {
    let lab = Lab::with_archives().await;
    lab.hosts.set_clock("server-w2", -90);
    assert_refused(&lab.upgrade().await.unwrap_err(), &["`w2` is "]);
    for host in ["m1", "w1", "w2"] {
        assert_eq!(lab.count(host, "dpkg"), 0, "on {host}");
    }
    lab.hosts.set_clock("server-w2", 0);
    lab.upgrade().await.unwrap();
    lab.assert_upgraded();
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_are_refused_and_a_check_shows_the_offsets() {
    let (lab, _) = Lab::with_vnf_b().await;
    lab.hosts.set_clock("server-m1", 90);
    for action in ["rotate_ca", "renew_certificates"] {
        let error = lab
            .hook("operate_end", json!({ "cluster_action": action }))
            .await;
        assert_refused(&error.unwrap_err(), &["`m1` is "]);
        lab.forget_checkpoints();
    }
    assert_eq!(lab.count("m1", "sh /run/vnfm/vnfm-ca create"), 0);
    assert_eq!(lab.count("m1", "kubeadm certs renew"), 0);
    let shown = lab
        .hook("operate_end", json!({ "cluster_action": "check" }))
        .await
        .unwrap();
    let offsets = &shown.metadata["clockOffsets"];
    let ahead = offsets["m1"].as_f64().unwrap();
    assert!((89.0..91.0).contains(&ahead), "{offsets}");
    assert!(offsets["w2"].as_f64().unwrap().abs() < 2.0, "{offsets}");
}
