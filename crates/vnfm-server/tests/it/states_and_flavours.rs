//! Start, stop, and changes of flavour and external connectivity over HTTP: what conforms, what is refused.

use crate::bench::{Bench, INSTANCES, OPS, PACKAGES};
use serde_json::{Value, json};

/// Instantiates a sample; the path of the instance.
async fn instantiated(bench: &Bench, sample: &str, request: &Value) -> String {
    let (_, vnfd) = bench.onboard(sample).await;
    let instance = format!("{INSTANCES}/{}", bench.create(&vnfd).await);
    let accepted = bench
        .post(&format!("{instance}/instantiate"), request)
        .await;
    let ended = bench.ended(&accepted.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    instance
}

/// Requests a task; the occurrence once it has ended.
async fn completed(bench: &Bench, instance: &str, task: &str, body: &Value) -> Value {
    let accepted = bench.post(&format!("{instance}/{task}"), body).await;
    assert_eq!(
        (accepted.status, accepted.text.as_str()),
        (202, ""),
        "{accepted:?}"
    );
    let op = accepted.created_id();
    assert_eq!(accepted.location(), format!("{}{OPS}/{op}", bench.url));
    let ended = bench.ended(&op).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    ended
}

async fn info(bench: &Bench, instance: &str) -> Value {
    bench.get(instance).await.body["instantiatedVnfInfo"].clone()
}

#[tokio::test]
async fn a_start_and_a_stop_conform_to_the_standard() {
    let bench = Bench::new().await;
    let request = bench.request_b().await;
    let instance = instantiated(&bench, "vnf-b-cnf", &request).await;
    let linked = bench.get(&instance).await.body["_links"]["operate"]["href"].clone();
    assert_eq!(linked, format!("{}{instance}/operate", bench.url));
    let stop =
        json!({"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 5});
    for (body, state) in [
        (stop, "STOPPED"),
        (json!({"changeStateTo": "STARTED"}), "STARTED"),
    ] {
        let op = completed(&bench, &instance, "operate", &body).await;
        assert_eq!(
            (&op["operation"], &op["operationParams"]),
            (&json!("OPERATE"), &body)
        );
        let changes = op["resourceChanges"]["affectedVnfcs"].as_array().unwrap();
        assert!(changes.iter().all(|one| one["changeType"] == "MODIFIED") && !changes.is_empty());
        assert_eq!(info(&bench, &instance).await["vnfState"], state);
    }
    for body in [
        json!({"changeStateTo": "STARTED", "stopType": "FORCEFUL"}),
        json!({"changeStateTo": "STOPPED", "vnfcInstanceId": ["none"]}),
        json!({"changeStateTo": "PAUSED"}),
    ] {
        let refused = bench.post(&format!("{instance}/operate"), &body).await;
        assert_eq!(refused.status, 422, "{refused:?}");
    }
}

#[tokio::test]
async fn a_vnf_with_one_flavour_does_not_support_another() {
    let bench = Bench::new().await;
    let request = bench.request_b().await;
    let instance = instantiated(&bench, "vnf-b-cnf", &request).await;
    let body = json!({"newFlavourId": "simple"});
    let refused = bench
        .post(&format!("{instance}/change_flavour"), &body)
        .await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (404, &json!("request.not-supported"))
    );
    assert!(
        refused.detail().contains("its only flavour is `simple`"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn changes_of_flavour_and_links_conform_to_the_standard() {
    let bench = Bench::new().await;
    let vim = bench.request_b().await["vimConnectionInfo"].clone();
    let link = |network: &str, cpds: &[&str]| {
        let cps = cpds
            .iter()
            .map(|cpd| json!({"cpdId": cpd, "cpConfig": {"any": {"linkPortId": "p"}}}));
        let port = json!([{"id": "p", "resourceHandle": {"resourceId": "port-1"}}]);
        json!([{"id": "external", "resourceId": network, "extCps": cps.collect::<Vec<_>>(), "extLinkPorts": port}])
    };
    let both = link("net-1", &["frontService", "backService"]);
    let request =
        json!({"flavourId": "redundant", "vimConnectionInfo": vim, "extVirtualLinks": both});
    let instance = instantiated(&bench, "vnf-flavours", &request).await;
    for (flavour, links) in [("simple", json!([])), ("redundant", both)] {
        let mut body = json!({"newFlavourId": flavour});
        if links != json!([]) {
            body["extVirtualLinks"] = links;
        }
        let op = completed(&bench, &instance, "change_flavour", &body).await;
        assert_eq!(op["operation"], "CHANGE_FLAVOUR");
        assert_eq!(info(&bench, &instance).await["flavourId"], flavour);
    }
    let body = json!({"extVirtualLinks": link("net-2", &["frontService"])});
    let op = completed(&bench, &instance, "change_ext_conn", &body).await;
    assert_eq!(
        (&op["operation"], &op["operationParams"]),
        (&json!("CHANGE_EXT_CONN"), &body)
    );
    for (task, body) in [
        ("change_flavour", json!({"newFlavourId": "huge"})),
        (
            "change_flavour",
            json!({"newFlavourId": "simple", "instantiationLevelId": "huge"}),
        ),
        ("change_ext_conn", json!({"extVirtualLinks": []})),
        ("change_ext_conn", json!({})),
    ] {
        let refused = bench.post(&format!("{instance}/{task}"), &body).await;
        assert_eq!(refused.status, 422, "{task} {body}: {refused:?}");
    }
}

#[tokio::test]
async fn a_change_of_the_package_conforms_to_the_standard() {
    let bench = Bench::new().await;
    let vim = bench.request_b().await["vimConnectionInfo"].clone();
    let request = json!({"flavourId": "simple", "vimConnectionInfo": vim});
    let instance = instantiated(&bench, "vnf-rolling-1", &request).await;
    let first = bench.get(&instance).await.body;
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples");
    let request = format!("{samples}/vnf-rolling-1/requests/change_vnfpkg.json");
    let mut body: Value = serde_json::from_str(&std::fs::read_to_string(request).unwrap()).unwrap();
    body.as_object_mut().unwrap().remove("additionalParams");
    let unknown = bench
        .post(&format!("{instance}/change_vnfpkg"), &body)
        .await;
    assert_eq!(
        (unknown.status, &unknown.body["code"]),
        (422, &json!("request.no-package"))
    );
    assert_eq!(bench.get(&instance).await.body, first);
    let (second, _) = bench.onboard("vnf-rolling-2").await;
    let op = completed(&bench, &instance, "change_vnfpkg", &body).await;
    assert_eq!(
        (&op["operation"], &op["operationParams"]),
        (&json!("CHANGE_VNFPKG"), &body)
    );
    let modified =
        json!({"vnfdId": body["vnfdId"], "vnfSoftwareVersion": "2.0", "vnfdVersion": "2.0"});
    assert_eq!(op["modificationsTriggeredByVnfPkgChange"], modified);
    let after = bench.get(&instance).await.body;
    assert_eq!(after["vnfdId"], body["vnfdId"]);
    assert!(
        after["_links"]["changeCurrentVnfPkg"]["href"]
            .as_str()
            .unwrap()
            .ends_with("/change_vnfpkg")
    );
    let used = bench.delete(&format!("{PACKAGES}/{second}")).await;
    assert_eq!(used.status, 409, "{used:?}");
    let again = bench
        .post(&format!("{instance}/change_vnfpkg"), &body)
        .await;
    assert_eq!(
        (again.status, &again.body["code"]),
        (422, &json!("request.package-change"))
    );
    // Version 1 of the interface does not have the task.
    let v1 = bench.bare(reqwest::Method::GET, &instance.replace("/v2/", "/v1/"));
    let shown = bench.send(v1.header("version", "1.3.0")).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(shown.body["_links"].get("changeCurrentVnfPkg").is_none());
}
