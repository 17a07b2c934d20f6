//! A VNF created by `vnfdId` only: its package is downloaded from the NFVO, with an interruption, and instantiated. All
//! bodies are validated by the official schemas.

use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_descriptor::{Limits, Package};
use vnfm_tests::planted::Planted;
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::sol_schema::SolSchema;
use vnfm_tests::testbed::{LONG, Testbed, VIM, VNF_A};

use super::package_without_hooks;

/// The password of this server at the NFVO.
const PASSWORD: &str = "planted-nfvo-password-2c77";
const SAMPLE: &str = "vnf-a-k8s-cluster";

/// A VNF-A without hooks that the NFVO can offer to the server.
struct Scene {
    sim: Simulator,
    testbed: Testbed,
    vnfd: String,
    archive: String,
    bytes: usize,
    _package: TempDir,
}

fn scene(packages: &str) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let sim = Simulator::start(folder.path(), &[]);
    sim.set_nfvo(&json!({"login": "basic"}));
    let password = folder.path().join("nfvo-password");
    std::fs::write(&password, PASSWORD).unwrap();
    let configuration = format!(
        "nfvo:\n  endpoint: {}\n  basic: {{user: vnfm, password_file: '{}'}}\n  packages: {{{packages}}}\n",
        sim.endpoint("nfvo"),
        password.display()
    );
    std::fs::write(folder.path().join("server.yaml"), configuration).unwrap();
    let testbed = Testbed::new(folder, &sim.clouds(), sim.ssh_port(), "debug");
    let package = tempfile::tempdir().unwrap();
    let source = package_without_hooks(SAMPLE, package.path());
    let archive = package
        .path()
        .join("vnf-a.csar")
        .to_string_lossy()
        .into_owned();
    testbed
        .server
        .ctl(&["package", "build", &source, "--out", &archive]);
    let opened = Package::open(archive.as_ref(), &Limits::default()).unwrap();
    let bytes = std::fs::read(&archive).unwrap().len();
    let vnfd = opened.vnfd().descriptor_id.clone();
    Scene {
        sim,
        testbed,
        vnfd,
        archive,
        bytes,
        _package: package,
    }
}

impl Scene {
    fn offer(&self) {
        let offer = json!({"vnfPkgId": "at-nfvo", "vnfdId": self.vnfd, "path": self.archive});
        self.sim.act("offer-package", &offer);
    }

    fn create(&self) -> Vec<&str> {
        vec!["vnf", "create", "--vnfd", &self.vnfd, "--name", VNF_A]
    }

    fn request(&self) -> Value {
        let vim = self.testbed.server.ctl(&["vim", "show", VIM]);
        self.testbed.request(SAMPLE, vim["id"].as_str().unwrap())
    }

    fn packages(&self) -> Vec<Value> {
        self.testbed
            .server
            .get("/vnfpkgm/v2/vnf_packages?all_fields")
            .as_array()
            .unwrap()
            .clone()
    }

    /// Waits for the only subscription at the NFVO.
    fn subscription(&self) -> Value {
        until("one subscription", LONG, || {
            let all = self.sim.nfvo()["subscriptions"].as_array().unwrap().clone();
            all.first().filter(|_| all.len() == 1).cloned()
        })
    }

    /// Every request and notification is valid.
    fn assert_bodies_valid(&self) {
        let page = self.sim.nfvo();
        if let Some(standard) = SolSchema::for_type("PkgmSubscription") {
            page["subscriptions"]
                .as_array()
                .unwrap()
                .iter()
                .for_each(|one| standard.check(one));
        }
        for sent in page["told"].as_array().unwrap() {
            assert_eq!(sent["status"], 204, "{sent:#}");
            let sent = &sent["notification"];
            let kinds = [
                "VnfPackageOnboardingNotification",
                "VnfPackageChangeNotification",
            ];
            let kind = kinds
                .into_iter()
                .find(|kind| sent["notificationType"] == *kind)
                .unwrap();
            if let Some(standard) = SolSchema::for_type(kind) {
                standard.check(sent);
            }
        }
    }
}

#[test]
fn a_package_is_fetched_from_the_nfvo_by_vnfd_id_and_an_interrupted_download_resumes() {
    let scene = scene("subscribe: false");
    let refused = scene.testbed.server.refused(&scene.create());
    assert!(
        refused.contains(&scene.vnfd) && refused.contains("package onboard"),
        "{refused}"
    );
    scene.offer();
    let half = scene.bytes / 2;
    let cut = json!({"call": "nfvo.package_content", "fault": {"cutAfter": half}});
    scene.sim.arm(&cut);
    scene
        .sim
        .arm(&json!({"call": "nfvo.package_content", "nth": 2, "fault": {"status": 503}}));
    scene.testbed.server.ctl(&scene.create());
    let calls = scene.sim.calls("nfvo.package_content", "");
    let ranges: Vec<_> = calls
        .iter()
        .map(|call| call["subject"].as_str().unwrap())
        .collect();
    let rest = format!("at-nfvo bytes={half}-");
    assert_eq!(ranges, ["at-nfvo ", &rest, &rest], "{calls:#?}");
    let op = scene.testbed.instantiate(VNF_A, &scene.request());
    scene.testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(scene.sim.touched_stacks(), 1);
    scene.assert_bodies_valid();
    let out = scene
        .testbed
        .server
        .folder()
        .join("again.csar")
        .to_string_lossy()
        .into_owned();
    scene
        .testbed
        .server
        .ctl(&["package", "download", &scene.vnfd, "--out", &out]);
    assert!(std::fs::read(out).unwrap() == std::fs::read(&scene.archive).unwrap());
    let mut planted = Planted::default();
    planted.add("password", PASSWORD);
    for text in [
        scene.testbed.server.logged(),
        json!(scene.packages()).to_string(),
    ] {
        assert_eq!(planted.within(text.as_bytes()), [""; 0]);
    }
    scene.testbed.terminate_and_delete(VNF_A);
    scene.testbed.finish();
    scene.sim.assert_clean();
}

#[test]
fn packages_onboarded_at_the_nfvo_are_fetched_in_advance_even_after_a_crash() {
    let mut scene = scene("look_seconds: 1");
    let first = scene.subscription();
    // The NFVO loses its subscriptions; the server restarts at another port, which the NFVO does not know.
    scene.testbed.server.kill();
    scene.sim.act("forget-subscriptions", &json!({}));
    scene.offer();
    scene.testbed.server.begin();
    assert_ne!(scene.subscription()["callbackUri"], first["callbackUri"]);
    // The first notification reached no one; a new one is sent.
    scene.offer();
    until("the package is here", LONG, || {
        scene
            .packages()
            .iter()
            .any(|one| one["onboardingState"] == "ONBOARDED")
            .then_some(())
    });
    assert_eq!(scene.sim.calls("nfvo.package_content", "").len(), 1);
    scene.sim.act(
        "set-package",
        &json!({"vnfPkgId": "at-nfvo", "operationalState": "DISABLED"}),
    );
    until("it is disabled", LONG, || {
        (scene.packages()[0]["operationalState"] == "DISABLED").then_some(())
    });
    let refused = scene.testbed.server.refused(&scene.create());
    assert!(refused.contains("enabled"), "{refused}");
    scene.assert_bodies_valid();
    scene
        .sim
        .act("withdraw-package", &json!({"vnfPkgId": "at-nfvo"}));
    until("it is gone", LONG, || {
        scene.packages().is_empty().then_some(())
    });
    scene.testbed.finish();
    scene.sim.assert_clean();
}
