//! Packages: states, refusals with reasons, and usage.

use crate::bench::{Bench, PACKAGES, Setup, packed};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn a_package_is_created_onboarded_and_deleted() {
    let bench = Bench::new().await;
    let created = bench
        .post(PACKAGES, &json!({"userDefinedData": {"a": 1}}))
        .await;
    assert_eq!(created.status, 201);
    assert_eq!(created.body["onboardingState"], "CREATED");
    assert_eq!(created.body["userDefinedData"]["a"], 1);
    let path = format!("{PACKAGES}/{}", created.id());
    assert_eq!(created.location(), format!("{}{path}", bench.url));
    assert_eq!(bench.get(&format!("{path}/vnfd")).await.status, 409);

    let put = |kind: &str, content: Vec<u8>| {
        let request = bench.request(Method::PUT, &format!("{path}/package_content"));
        bench.send(request.header("content-type", kind).body(content))
    };
    let odd = put("text/plain", packed("vnf-b-cnf")).await;
    assert_eq!(
        (odd.status, odd.detail().contains("application/zip")),
        (415, true),
        "{odd:?}"
    );
    assert_eq!(
        put("application/octet-stream", packed("vnf-b-cnf"))
            .await
            .status,
        202
    );
    let info = bench.get(&path).await.body;
    assert_eq!(
        (&info["onboardingState"], &info["operationalState"]),
        (&json!("ONBOARDED"), &json!("ENABLED"))
    );
    assert_eq!(info["checksum"]["algorithm"], "SHA-256");
    let vnfd = bench.get(&format!("{path}/vnfd")).await;
    assert!(vnfd.text.contains("tosca_definitions_version"), "{vnfd:?}");
    assert_eq!(
        put("application/zip", packed("vnf-b-cnf")).await.status,
        409
    );
    deleted_only_when_unused_and_disabled(&bench, &info).await;
}

/// A package is deleted once it has no instance and is DISABLED.
async fn deleted_only_when_unused_and_disabled(bench: &Bench, info: &serde_json::Value) {
    let id = info["id"].as_str().unwrap();
    let path = format!("{PACKAGES}/{id}");
    let instance = bench.create(info["vnfdId"].as_str().unwrap()).await;
    assert_eq!(bench.get(&path).await.body["usageState"], "IN_USE");
    let used = bench.delete(&path).await;
    assert_eq!(
        (used.status, used.detail().contains(&instance)),
        (409, true),
        "{used:?}"
    );
    assert_eq!(
        bench
            .delete(&format!("{}/{instance}", crate::bench::INSTANCES))
            .await
            .status,
        204
    );
    let enabled = bench.delete(&path).await;
    assert_eq!(
        (enabled.status, enabled.detail().contains("is ENABLED")),
        (409, true),
        "{enabled:?}"
    );
    assert_eq!(bench.get(&path).await.body["operationalState"], "ENABLED");
    bench.drop_package(id).await;
    assert_eq!(bench.get(&path).await.status, 404);
}

/// Why a package is not onboarded.
async fn why(bench: &Bench, content: Vec<u8>) -> String {
    let (id, response) = bench.upload(content).await;
    assert_eq!(response.status, 202, "{response:?}");
    let info = bench.get(&format!("{PACKAGES}/{id}")).await.body;
    assert_eq!(
        (&info["onboardingState"], &info["operationalState"]),
        (&json!("ERROR"), &json!("DISABLED"))
    );
    assert!(info.get("vnfdId").is_none(), "{info:#}");
    assert_eq!(
        bench.get(&format!("{PACKAGES}/{id}/vnfd")).await.status,
        409
    );
    info["onboardingFailureDetails"]["detail"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn a_refused_package_lists_every_finding_with_its_position() {
    let bench = Bench::new().await;
    let detail = why(&bench, packed("broken/missing-manifest")).await;
    for finding in [
        "Files/kubernetes/order.yaml:3:12: error[E-ORDER-MANIFEST]: no file `Files/kubernetes/deploymnt.yaml`",
        "Files/kubernetes/order.yaml:4:5: error[E-ORDER-FILE]",
    ] {
        assert!(detail.contains(finding), "`{detail}` lacks `{finding}`");
    }
    let detail = why(&bench, b"no zip at all".to_vec()).await;
    assert!(detail.contains("zip"), "{detail}");
}

#[tokio::test]
async fn a_refused_package_can_be_uploaded_again() {
    let bench = Bench::new().await;
    let (id, _) = bench.upload(b"no zip at all".to_vec()).await;
    let put = bench.request(Method::PUT, &format!("{PACKAGES}/{id}/package_content"));
    assert_eq!(bench.send(put.body(packed("vnf-b-cnf"))).await.status, 202);
    let info = bench.get(&format!("{PACKAGES}/{id}")).await.body;
    assert_eq!(info["onboardingState"], "ONBOARDED", "{info:#}");
    assert!(info.get("onboardingFailureDetails").is_none(), "{info:#}");
}

#[tokio::test]
async fn a_package_that_cannot_be_stored_is_refused_and_can_be_uploaded_again() {
    let bench = Bench::new().await;
    let id = bench.post(PACKAGES, &json!({})).await.id();
    let file = bench.packages.path(&id).unwrap();
    std::fs::create_dir(&file).unwrap();
    let uploaded = async || {
        let put = bench.request(Method::PUT, &format!("{PACKAGES}/{id}/package_content"));
        assert_eq!(bench.send(put.body(packed("vnf-b-cnf"))).await.status, 202);
        bench.get(&format!("{PACKAGES}/{id}")).await.body
    };
    let info = uploaded().await;
    let why = &info["onboardingFailureDetails"];
    assert_eq!(
        (&why["status"], &why["code"]),
        (&json!(507), &json!("package.not-written"))
    );
    assert!(
        why["detail"]
            .as_str()
            .unwrap()
            .contains("store the package"),
        "{why:#}"
    );
    let files = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "a part of the upload is left");
    std::fs::remove_dir(&file).unwrap();
    assert_eq!(uploaded().await["onboardingState"], "ONBOARDED");
}

#[tokio::test]
async fn a_second_package_with_the_same_vnfd_is_refused_while_the_first_exists() {
    let bench = Bench::new().await;
    let (first, vnfd) = bench.onboard("vnf-b-cnf").await;
    let detail = why(&bench, packed("vnf-b-cnf")).await;
    assert!(detail.contains(&vnfd), "{detail}");
    bench.drop_package(&first).await;
    bench.onboard("vnf-b-cnf").await;
}

#[tokio::test]
async fn a_package_above_the_size_limit_is_refused() {
    let bench = Bench::with(Setup {
        largest: 100,
        ..Setup::default()
    })
    .await;
    let (id, response) = bench.upload(packed("vnf-b-cnf")).await;
    assert_eq!(
        (response.status, response.detail()),
        (413, "the package is larger than 100 bytes")
    );
    assert_eq!(
        bench.get(&format!("{PACKAGES}/{id}")).await.body["onboardingState"],
        "ERROR"
    );
}

#[tokio::test]
async fn an_undeclared_hook_is_refused_and_a_missing_plugin_is_a_warning() {
    let bench = Bench::with(Setup {
        hooks: &["heal_end"],
        ..Setup::default()
    })
    .await;
    let detail = why(&bench, packed("vnf-a-k8s-cluster")).await;
    assert!(
        detail.contains("hook `instantiate_end` of flavour `cluster_install`"),
        "{detail}"
    );
    assert!(
        detail.contains("`kubernetes-cluster` 1.2.3, which declares: heal_end"),
        "{detail}"
    );
    let (id, _) = bench.onboard("vnf-a-seed").await;
    let warnings = bench.get(&format!("{PACKAGES}/{id}")).await.body["warnings"].to_string();
    assert!(
        warnings.contains("find plugin `mgmt-drivers-kubernetes`"),
        "{warnings}"
    );
}

#[tokio::test]
async fn the_plugin_list_names_the_packages_that_use_each_plugin() {
    let bench = Bench::new().await;
    let (package, vnfd) = bench.onboard("vnf-a-k8s-cluster").await;
    // These name a missing plugin, or none.
    bench.onboard("vnf-a-seed").await;
    bench.onboard("vnf-b-cnf").await;
    let used_by = async || bench.get("/vnfm/v1/plugins").await.body[0]["usedBy"].clone();
    let seen = used_by().await;
    assert_eq!(seen.as_array().unwrap().len(), 1, "{seen:#}");
    assert_eq!(
        (&seen[0]["vnfPkgId"], &seen[0]["vnfdId"]),
        (&json!(package), &json!(vnfd))
    );
    assert_eq!(seen[0]["usageState"], "NOT_IN_USE");
    bench.create(&vnfd).await;
    assert_eq!(used_by().await[0]["usageState"], "IN_USE");
}
