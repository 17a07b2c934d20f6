//! Heal, and overrides for hanging hooks and lost VIMs, over HTTP.

use crate::bench::{Bench, INSTANCES, OPS, Response, VIMS};
use crate::world::HANGS;
use reqwest::Method;
use serde_json::{Value, json};

const AUDIT: &str = "/vnfm/v1/audit";

fn links(resource: &Value) -> Vec<&str> {
    resource["_links"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// The links of an instance of VNF-B.
const POSSIBLE: [&str; 10] = [
    "self",
    "changeCurrentVnfPkg",
    "changeExtConn",
    "createSnapshot",
    "heal",
    "operate",
    "revertToSnapshot",
    "scale",
    "scaleToLevel",
    "terminate",
];

/// Instantiates VNF-B; returns the id of the instance.
async fn instantiated(bench: &Bench) -> String {
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let request = bench.request_b().await;
    let op = bench
        .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
        .await
        .created_id();
    assert_eq!(bench.ended(&op).await["operationState"], "COMPLETED");
    id
}

/// A request with operator and reason.
async fn because(bench: &Bench, method: Method, path: &str, reason: &str) -> Response {
    let request = bench.request(method, path).header("x-vnfm-operator", "ann");
    bench.send(request.header("x-vnfm-reason", reason)).await
}

#[tokio::test]
async fn a_heal_conforms_to_the_standard() {
    let bench = Bench::new().await;
    let id = instantiated(&bench).await;
    let instance = format!("{INSTANCES}/{id}");
    let before = bench.get(&instance).await.body;
    assert_eq!(links(&before), POSSIBLE);
    let vnfc = &before["instantiatedVnfInfo"]["vnfcResourceInfo"][0]["id"];
    let heal = format!("{instance}/heal");
    for (body, status, says) in [
        (
            json!({"vnfcInstanceId": ["nobody"]}),
            422,
            "`nobody` is not a VNFC",
        ),
        (
            json!({"additionalParams": {"all": "all"}}),
            422,
            "additionalParams.all",
        ),
        (json!({"vnfcInstanceId": "no list"}), 422, "vnfcInstanceId"),
    ] {
        let refused = bench.post(&heal, &body).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.detail().contains(says), "{refused:?}");
    }
    let body = json!({"cause": "it smokes", "vnfcInstanceId": [vnfc]});
    let accepted = bench.post(&heal, &body).await;
    assert_eq!((accepted.status, accepted.text.as_str()), (202, ""));
    let op_id = accepted.created_id();
    assert_eq!(accepted.location(), format!("{}{OPS}/{op_id}", bench.url));
    let op = bench.ended(&op_id).await;
    assert_eq!(
        (&op["operationState"], &op["operation"]),
        (&json!("COMPLETED"), &json!("HEAL"))
    );
    assert_eq!(op["operationParams"], body);
    let changes = op["resourceChanges"]["affectedVnfcs"].as_array().unwrap();
    let changes: Vec<_> = changes.iter().map(|vnfc| &vnfc["changeType"]).collect();
    assert_eq!(changes, ["REMOVED", "ADDED"], "{op:#}");
    let after = bench.get(&instance).await.body;
    assert_ne!(
        &after["instantiatedVnfInfo"]["vnfcResourceInfo"][0]["id"],
        vnfc
    );

    let body = json!({"terminationType": "FORCEFUL"});
    let op = bench.post(&format!("{instance}/terminate"), &body).await;
    bench.ended(&op.created_id()).await;
    assert_eq!(
        links(&bench.get(&instance).await.body),
        ["self", "instantiate"]
    );
    assert_eq!(bench.post(&heal, &json!({})).await.status, 409);
    assert_eq!(
        bench
            .post(&format!("{INSTANCES}/nobody/heal"), &json!({}))
            .await
            .status,
        404
    );
}

/// A request for VNF-A whose hook `instantiate_end` never returns.
async fn cluster_request(bench: &Bench) -> Value {
    let mut request = bench.request_b().await;
    request["flavourId"] = json!("cluster_install");
    let sample =
        include_str!("../../../../vnfd-samples/vnf-a-k8s-cluster/requests/instantiate.json");
    let sample: Value = serde_json::from_str(sample).unwrap();
    request["additionalParams"] = sample["additionalParams"].clone();
    request["additionalParams"]["k8s_cluster_installation_param"]["ssh_port"] = json!(22);
    request["additionalParams"]["site"] = json!(HANGS);
    request
}

#[tokio::test]
async fn a_forceful_cancel_stops_a_hanging_hook() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-a-k8s-cluster").await;
    let id = bench.create(&vnfd).await;
    let request = cluster_request(&bench).await;
    let instantiate = format!("{INSTANCES}/{id}/instantiate");
    let skipping = bench.request(Method::POST, &instantiate).json(&request);
    let skipping = bench
        .send(skipping.header("x-vnfm-skip-hooks", "instantiate_end"))
        .await;
    assert_eq!(skipping.status, 400, "{skipping:?}");
    let accepted = bench.post(&instantiate, &request).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let op_id = accepted.created_id();
    let progress = format!("/vnfm/v1/op_occs/{op_id}/progress");
    while bench.get(&progress).await.body["step"] != "instantiate_end" {}
    let cancel = format!("{OPS}/{op_id}/cancel");
    for (mode, reason) in [("GRACEFUL", "enough for today"), ("FORCEFUL", "it hangs")] {
        let request = bench.request(Method::POST, &cancel);
        let request = request.json(&json!({"cancelMode": mode}));
        let request = request
            .header("x-vnfm-reason", reason)
            .header("x-vnfm-operator", "ann");
        assert_eq!(bench.send(request).await.status, 202);
    }
    let stopped = bench.ended(&op_id).await;
    assert_eq!(stopped["operationState"], "FAILED_TEMP", "{stopped:#}");
    assert_eq!(stopped["error"]["code"], "op.cancelled");
    assert_eq!(stopped["error"]["step"], "instantiate_end");
    let failed = because(
        &bench,
        Method::POST,
        &format!("{OPS}/{op_id}/fail"),
        "enough",
    )
    .await;
    assert_eq!(
        (failed.status, &failed.body["operationState"]),
        (200, &json!("FAILED"))
    );
    terminate_without_hooks(&bench, &id).await;
    assert_audited(&bench).await;
}

/// Terminates the instance without its hooks, which needs a reason, and deletes it.
async fn terminate_without_hooks(bench: &Bench, id: &str) {
    let terminate = format!("{INSTANCES}/{id}/terminate");
    let skipping = |reason: &str| {
        let request = bench.request(Method::POST, &terminate);
        let request = request.json(&json!({"terminationType": "FORCEFUL"}));
        let request = request.header("x-vnfm-skip-hooks", "terminate_start, terminate_end");
        bench.send(request.header("x-vnfm-reason", reason.to_owned()))
    };
    let no_reason = skipping("").await;
    assert_eq!(
        (no_reason.status, &no_reason.body["code"]),
        (422, &json!("request.no-reason"))
    );
    let op_id = skipping("it would hang again").await.created_id();
    let ended = bench.ended(&op_id).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    assert_eq!(
        ended["operationParams"],
        json!({"terminationType": "FORCEFUL"})
    );
    assert_eq!(bench.delete(&format!("{INSTANCES}/{id}")).await.status, 204);
}

/// Every override is in the audit log with its reason.
async fn assert_audited(bench: &Bench) {
    let entries = bench.get(AUDIT).await.body;
    let summary = |entry: &Value| [entry["what"].clone(), entry["reason"].clone()];
    let summary: Vec<_> = entries.as_array().unwrap().iter().map(summary).collect();
    assert_eq!(
        summary,
        [
            ["op cancel", "enough for today"],
            ["op cancel --forceful", "it hangs"],
            ["op fail", "enough"],
            [
                "vnf terminate --skip-hook terminate_start --skip-hook terminate_end",
                "it would hang again"
            ],
        ]
    );
}

#[tokio::test]
async fn an_instance_on_a_lost_vim_can_be_abandoned() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let request = bench.request_b().await;
    bench.world.held.send_replace(true);
    let op_id = bench
        .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
        .await
        .created_id();
    bench.world.until("allocate").await;
    let abandon = format!("/vnfm/v1/vnf_instances/{id}/abandon");
    let refused = because(&bench, Method::POST, &abandon, "gone").await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(refused.body["blockedBy"], json!([op_id]));
    assert!(
        refused.body["next"].as_str().unwrap().contains("--force"),
        "{refused:?}"
    );
    let forced = format!("{abandon}?force=true");
    assert_eq!(bench.post(&forced, &Value::Null).await.status, 422);
    assert_eq!(
        bench
            .post(&format!("{abandon}?force=yes"), &Value::Null)
            .await
            .status,
        400
    );
    let done = because(
        &bench,
        Method::POST,
        &forced,
        "Brand im Rechenzentrum – alles weg",
    )
    .await;
    assert_eq!((done.status, done.text.as_str()), (204, ""));
    assert_eq!(bench.get(&format!("{INSTANCES}/{id}")).await.status, 404);
    let ended = bench.ended(&op_id).await;
    assert_eq!(ended["operationState"], "FAILED", "{ended:#}");
    assert_eq!(ended["error"]["code"], "op.abandoned");
    let entries = bench.get(AUDIT).await.body;
    let entry = &entries[0];
    assert_eq!(
        (&entry["who"], &entry["target"]),
        (&json!("ann"), &json!(id))
    );
    assert_eq!(entry["reason"], "Brand im Rechenzentrum – alles weg");
    assert_eq!(bench.get(&format!("{AUDIT}?after=1")).await.body, json!([]));
    the_tombstone_lasts_until_it_is_deleted(&bench, &id).await;
}

/// The VIM can be deleted and registered again; orphans of the instance are searched for until its tombstone is deleted.
async fn the_tombstone_lasts_until_it_is_deleted(bench: &Bench, id: &str) {
    let vim = bench.get(&format!("{VIMS}/cluster")).await.id();
    assert_eq!(
        bench.delete(&format!("{VIMS}/{vim}")).await.status,
        204,
        "the VIM is not in use any more"
    );
    let orphans = bench.get("/vnfm/v1/orphans").await.body;
    assert_eq!(orphans["notAsked"][0]["vim"], "cluster", "{orphans:#}");
    let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
        "interfaceInfo": {"endpoint": "https://192.0.2.9:6443"}});
    let again = |id: &str| json!({"name": "again", "id": id, "connection": connection});
    assert_eq!(bench.post(VIMS, &again("no-uuid")).await.status, 422);
    assert_eq!(bench.post(VIMS, &again(&vim)).await.id(), vim);
    let orphans = bench.get("/vnfm/v1/orphans").await.body;
    assert_eq!(orphans["notAsked"], json!([]), "{orphans:#}");
    let forget = format!("/vnfm/v1/orphans/{id}");
    assert_eq!(
        because(bench, Method::DELETE, &forget, "nothing is left")
            .await
            .status,
        204
    );
    assert_eq!(
        because(bench, Method::DELETE, &forget, "twice")
            .await
            .status,
        404
    );
}
