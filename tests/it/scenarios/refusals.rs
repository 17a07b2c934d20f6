//! Invalid requests and packages: the error names the cause and position, and nothing is changed.

use serde_json::{Value, json};
use vnfm_tests::testbed::{Testbed, VIM, VNF_A};

use super::{copy, testbed};

/// Every record of the server.
fn known(testbed: &Testbed) -> Vec<Value> {
    let lists = [["vnf", "list"], ["op", "list"], ["vim", "list"]];
    lists
        .iter()
        .map(|words| testbed.server.ctl(words))
        .collect()
}

/// A change of a valid request, the status of the response, and parts of its text.
type Case = (fn(&mut Value), u16, &'static [&'static str]);

/// Well-formed requests that the server must refuse.
const CASES: &[Case] = &[
    (
        |request| request["flavourId"] = json!("huge"),
        422,
        &["huge", "cluster_install"],
    ),
    (
        |request| request["instantiationLevelId"] = json!("tiny"),
        422,
        &["tiny"],
    ),
    (
        |request| request["flavourId"] = json!(7),
        422,
        &["flavourId"],
    ),
    (
        |request| drop(request.as_object_mut().unwrap().remove("flavourId")),
        422,
        &["flavourId"],
    ),
    (
        |request| request["vimConnectionInfo"]["vim1"]["vimId"] = json!("nobody-knows-me"),
        422,
        &["nobody-knows-me"],
    ),
    (
        |request| {
            let wanted = &mut request["additionalParams"]["k8s_cluster_installation_param"];
            wanted.as_object_mut().unwrap().remove("master_node");
        },
        422,
        &["k8s_cluster_installation_param", "master_node"],
    ),
    (
        |request| request["additionalParams"] = json!({}),
        422,
        &["k8s_cluster_installation_param"],
    ),
];

#[test]
fn invalid_instantiate_requests_are_refused_at_once() {
    let (sim, testbed) = testbed(&[], "info");
    let (id, good) = testbed.create_a("vnf-a-k8s-cluster");
    let before = known(&testbed);
    let path = format!("/vnflcm/v2/vnf_instances/{id}/instantiate");
    for (change, status, says) in CASES {
        let mut request = good.clone();
        change(&mut request);
        let (answered, problem) = testbed.server.http("POST", &path, &request.to_string());
        assert_eq!(answered, *status, "{problem:#}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            says.iter().all(|part| detail.contains(part)),
            "{says:?} in {detail}"
        );
    }
    let (status, problem) = testbed.server.http("POST", &path, "{\"flavourId\": ");
    assert_eq!(status, 400, "{problem}");
    let too_large = json!({ "flavourId": "x".repeat(1 << 20) }).to_string();
    let (status, problem) = testbed.server.http("POST", &path, &too_large);
    assert_eq!(status, 413, "{problem}");
    assert!(
        testbed
            .server
            .refused(&["vnf", "terminate", VNF_A])
            .contains("NOT_INSTANTIATED")
    );
    assert_eq!(known(&testbed), before);
    assert_eq!(sim.touched_stacks(), 0);
}

#[test]
fn a_vim_with_wrong_credentials_is_not_registered() {
    let (sim, testbed) = testbed(&[], "info");
    let before = known(&testbed);
    let text = std::fs::read_to_string(sim.clouds()).unwrap();
    let mut clouds: Value = serde_yaml::from_str(&text).unwrap();
    clouds["clouds"]["nfv"]["auth"]["password"] = json!("not-the-password");
    let file = testbed.server.folder().join("wrong.yaml");
    std::fs::write(&file, clouds.to_string()).unwrap();
    let file = file.to_string_lossy();
    let words = ["--config-file", &file, "--cloud", "nfv"];
    let why = testbed
        .server
        .refused(&[&["vim", "register", "--name", "other"], &words[..]].concat());
    assert!(why.contains("401") || why.contains("password"), "{why}");
    testbed
        .server
        .refused(&[&["vim", "update", VIM], &words[..]].concat());
    assert_eq!(known(&testbed), before);
    testbed.server.ctl(&["vim", "check", VIM]);
}

#[test]
fn a_missing_manifest_is_reported_at_onboarding() {
    let (_sim, testbed) = testbed(&[], "info");
    let folder = tempfile::tempdir().unwrap();
    let package = copy("broken/missing-manifest", folder.path());
    let output = testbed
        .server
        .run(&["package", "onboard", &package.to_string_lossy()]);
    assert_ne!(output.code, 0, "{output:?}");
    for part in ["Files/kubernetes/order.yaml:3:12", "deploymnt.yaml"] {
        assert!(
            output.stderr.contains(part),
            "no `{part}` in {}",
            output.stderr
        );
    }
    let listed = testbed.server.ctl(&["package", "list"]);
    let onboarded = listed
        .as_array()
        .unwrap()
        .iter()
        .any(|it| it["onboardingState"] == "ONBOARDED");
    assert!(!onboarded, "{listed:#}");
}

#[test]
fn a_missing_image_rolls_back_before_anything_is_created() {
    let (sim, testbed) = testbed(&[], "info");
    let folder = tempfile::tempdir().unwrap();
    let package = copy("vnf-a-k8s-cluster", folder.path());
    let vnfd = package.join("Definitions/vnf-a.yaml");
    let text = std::fs::read_to_string(&vnfd).unwrap();
    assert!(text.contains("default: nfv-image"));
    std::fs::write(
        &vnfd,
        text.replace("default: nfv-image", "default: no-such-image"),
    )
    .unwrap();
    let (_, request) = testbed.create_a(&package.to_string_lossy());
    let op = testbed.instantiate(VNF_A, &request);
    let end = testbed.wait_for_state(&op, "ROLLED_BACK");
    assert!(
        end["error"]["detail"]
            .as_str()
            .unwrap()
            .contains("no-such-image"),
        "{end:#}"
    );
    assert_eq!(
        testbed.server.ctl(&["vnf", "show", VNF_A])["instantiationState"],
        "NOT_INSTANTIATED"
    );
    assert_eq!(sim.touched_stacks(), 0);
    sim.assert_clean();
}

/// The highly available VNF-A with two control-plane nodes.
fn even_control_plane(folder: &std::path::Path) -> String {
    let package = copy("vnf-a-ha-cluster", folder);
    let vnfd = package.join("Definitions/vnf-a.yaml");
    let text = std::fs::read_to_string(&vnfd).unwrap();
    let changes = [
        (
            "min_number_of_instances: 3, max",
            "min_number_of_instances: 2, max",
        ),
        (
            "initial_delta: {number_of_instances: 3}",
            "initial_delta: {number_of_instances: 2}",
        ),
        (
            "{small: {number_of_instances: 3}, large: {number_of_instances: 5}}",
            "{small: {number_of_instances: 2}, large: {number_of_instances: 4}}",
        ),
    ];
    let text = changes.iter().fold(text, |text, (old, new)| {
        assert!(text.contains(old), "no `{old}`");
        text.replace(old, new)
    });
    std::fs::write(&vnfd, text).unwrap();
    package.to_string_lossy().into_owned()
}

#[test]
fn an_even_number_of_control_plane_nodes_is_refused_before_there_is_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, testbed) = testbed(&[], "info");
    let (_, mut request) = testbed.create_a(&even_control_plane(folder.path()));
    request["additionalParams"]["k8s_cluster_installation_param"]["control_plane_endpoint"] =
        json!({ "address": "127.0.77.252" });
    let op = testbed.instantiate(VNF_A, &request);
    let end = testbed.wait_for_state(&op, "FAILED_TEMP");
    testbed.assert_explains(&op, &end["error"], &["2 nodes", "1, 3 or 5"]);
    assert_eq!(end["error"]["step"], "instantiate_start");
    assert_eq!(sim.touched_stacks(), 0);
    let rolled = testbed.server.run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    testbed.server.ctl(&["vnf", "delete", VNF_A]);
    testbed.finish();
    sim.assert_clean();
}
