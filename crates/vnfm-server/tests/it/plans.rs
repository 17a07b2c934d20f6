//! Plans over HTTP: what an operation would do, with its checks, and without any trace.

use crate::bench::{Bench, INSTANCES, OPS};
use crate::tenants::users;
use serde_json::{Value, json};

const TERMINATE: &str = "FORCEFUL";

async fn instance(bench: &Bench) -> String {
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    bench.create(&vnfd).await
}

fn plan_of(instance: &str) -> String {
    let id = instance.rsplit('/').next().unwrap();
    format!("/vnfm/v1/vnf_instances/{id}/plan")
}

#[tokio::test]
async fn a_plan_lists_steps_and_what_cannot_be_known_and_leaves_no_trace() {
    let bench = Bench::new().await;
    let id = instance(&bench).await;
    let instance = format!("{INSTANCES}/{id}");
    let before = bench.get(&instance).await.body;
    let request = bench.request_b().await;
    let plan = json!({"operation": "INSTANTIATE", "request": request});
    let planned = bench.post(&plan_of(&instance), &plan).await;
    assert_eq!(planned.status, 200, "{planned:?}");
    assert_eq!(planned.body["operation"], "INSTANTIATE");
    assert_eq!(planned.body["changes"], true);
    let steps = planned.body["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| &step["name"]).collect();
    assert!(names.contains(&&json!("allocate")), "{names:?}");
    assert!(!planned.body["unknown"].as_array().unwrap().is_empty());
    assert_eq!(bench.get(&instance).await.body, before);
    assert_eq!(bench.get(OPS).await.body, json!([]));
    let op = bench
        .post(&format!("{instance}/instantiate"), &request)
        .await;
    assert_eq!(
        bench.ended(&op.created_id()).await["operationState"],
        "COMPLETED"
    );
    let plan = json!({"operation": "TERMINATE", "request": {"terminationType": TERMINATE}});
    let planned = bench.post(&plan_of(&instance), &plan).await;
    let steps = planned.body["steps"].as_array().unwrap();
    let release = steps.iter().find(|step| step["name"] == "release").unwrap();
    assert_eq!(release["irreversible"], true);
    let nothing = json!({"operation": "MODIFY_INFO"});
    let planned = bench.post(&plan_of(&instance), &nothing).await;
    assert_eq!(planned.body["changes"], false, "{planned:?}");
    assert_eq!(planned.body["resources"], json!([]));
    assert_eq!(bench.get(OPS).await.body.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_plan_is_refused_as_the_operation_is() {
    let bench = Bench::new().await;
    let id = instance(&bench).await;
    let instance = format!("{INSTANCES}/{id}");
    for (plan, status, expected) in [
        (json!({"operation": "HEAL"}), 409, "NOT_INSTANTIATED"),
        (json!({"operation": "INSTANTIATE"}), 422, "`flavourId`"),
        (
            json!({"operation": "INSTANTIATE", "request": {"flavourId": "none"}}),
            422,
            "`none`",
        ),
        (
            json!({"operation": "CREATE_SNAPSHOT"}),
            422,
            "`vnfSnapshotInfoId`",
        ),
        (json!({"operation": "PLANTED"}), 422, "`operation`"),
        (json!({}), 422, "operation"),
    ] {
        let refused = bench.post(&plan_of(&instance), &plan).await;
        assert_eq!(refused.status, status, "{plan}: {refused:?}");
        assert!(refused.detail().contains(expected), "{refused:?}");
        assert!(!refused.text.contains("PLANTED"), "{refused:?}");
    }
    let missing = bench
        .post(&plan_of("none"), &json!({"operation": "HEAL"}))
        .await;
    assert_eq!(missing.status, 404, "{missing:?}");
}

#[tokio::test]
async fn a_plan_stays_within_the_scope_of_the_role_and_out_of_the_audit() {
    let narrow = "- {name: narrow, password_hash: 'HASHED', gets: {tenant: acme, role: operate, \
                  vims: [11111111-1111-4111-8111-111111111111]}}\n";
    let bench = Bench::with(users(&narrow.replace("HASHED", crate::bench::HASHED))).await;
    bench.log_in("acme-admin");
    let audited = bench.get("/vnfm/v1/audit").await.body;
    let id = instance(&bench).await;
    let elsewhere = json!({"flavourId": "simple", "vimConnectionInfo": {"v": {"vimId": "other"}}});
    for (operation, request) in [
        ("INSTANTIATE", elsewhere.clone()),
        ("INSTANTIATE", json!({"flavourId": "simple"})),
        ("MODIFY_INFO", elsewhere),
    ] {
        bench.log_in("narrow");
        let plan = json!({"operation": operation, "request": request});
        let refused = bench.post(&plan_of(&id), &plan).await;
        assert_eq!(refused.status, 403, "{operation}: {refused:?}");
        let code = &refused.body["code"];
        assert_eq!(code, "access.narrowed", "{refused:?}");
    }
    bench.log_in("acme-admin");
    let modify = json!({"operation": "MODIFY_INFO", "request": {"vnfInstanceName": "web"}});
    let planned = bench.post(&plan_of(&id), &modify).await;
    assert_eq!(
        planned.body["resources"][0]["because"],
        json!(["vnfInstanceName"])
    );
    let entries = bench.get("/vnfm/v1/audit").await.body;
    let entries: Vec<Value> =
        entries.as_array().unwrap()[audited.as_array().unwrap().len()..].to_vec();
    let plans = entries
        .iter()
        .filter(|one| one["what"].as_str().unwrap().ends_with("/plan"));
    assert_eq!(plans.count(), 0, "{entries:#?}");
}
