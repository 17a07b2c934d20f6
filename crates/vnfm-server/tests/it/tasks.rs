//! Tasks: one of many concurrent requests is accepted, links match the possible tasks, and no secret is shown.

use crate::bench::{Bench, INSTANCES, OPS, VIMS};
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::lcm::OPERATIONS;
use vnfm_core::ports::Change;

const CLIENTS: usize = 16;

fn links(resource: &Value) -> Vec<&str> {
    resource["_links"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// Statuses of concurrent identical requests.
async fn at_once(bench: &Bench, path: &str, body: &Value) -> (Vec<u16>, String) {
    let responses = join_all((0..CLIENTS).map(|_| bench.post(path, body))).await;
    let accepted = responses
        .iter()
        .find(|response| response.status == 202)
        .unwrap()
        .created_id();
    for response in responses.iter().filter(|response| response.status != 202) {
        assert!(
            response.detail().contains(&accepted) || response.detail().contains("INSTANTIATED"),
            "{response:?}"
        );
    }
    let mut statuses: Vec<_> = responses.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    (statuses, accepted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_clients_one_instantiates_and_one_terminates() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let request = bench.request_b().await;
    let one = [vec![202], vec![409; CLIENTS - 1]].concat();

    bench.world.held.send_replace(true);
    let (statuses, op_id) =
        at_once(&bench, &format!("{INSTANCES}/{id}/instantiate"), &request).await;
    assert_eq!(statuses, one);
    bench.world.held.send_replace(false);
    assert_eq!(bench.ended(&op_id).await["operationState"], "COMPLETED");

    bench.world.held.send_replace(true);
    let terminate = json!({"terminationType": "FORCEFUL"});
    let (statuses, op_id) =
        at_once(&bench, &format!("{INSTANCES}/{id}/terminate"), &terminate).await;
    assert_eq!(statuses, one);
    bench.world.held.send_replace(false);
    assert_eq!(bench.ended(&op_id).await["operationState"], "COMPLETED");
    assert_eq!(bench.get(OPS).await.body.as_array().unwrap().len(), 2);
}

/// Links of an instance that runs, scales, and has the only flavour of its VNFD.
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

#[tokio::test]
async fn links_exist_only_while_the_task_is_possible() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let instance = format!("{INSTANCES}/{id}");
    let request = bench.request_b().await;
    assert_eq!(
        links(&bench.get(&instance).await.body),
        ["self", "instantiate"]
    );

    bench.world.held.send_replace(true);
    bench.world.fails.store(true, SeqCst);
    let accepted = bench
        .post(&format!("{instance}/instantiate"), &request)
        .await;
    assert_eq!((accepted.status, accepted.text.as_str()), (202, ""));
    let op_id = accepted.created_id();
    let op = format!("{OPS}/{op_id}");
    assert_eq!(accepted.location(), format!("{}{op}", bench.url));
    bench.world.until("allocate").await;
    assert_eq!(links(&bench.get(&instance).await.body), ["self"]);
    assert_eq!(
        links(&bench.get(&op).await.body),
        ["self", "vnfInstance", "cancel"]
    );
    assert_eq!(
        bench
            .post(&format!("{op}/retry"), &Value::Null)
            .await
            .status,
        409
    );
    assert_eq!(bench.delete(&instance).await.status, 409);

    bench.world.held.send_replace(false);
    let stopped = bench.ended(&op_id).await;
    assert_eq!(stopped["operationState"], "FAILED_TEMP");
    assert_eq!(
        links(&stopped),
        ["self", "vnfInstance", "retry", "rollback", "fail"]
    );
    assert_eq!(stopped["error"]["step"], "allocate");
    assert_eq!(stopped["error"]["requestId"], "req-1");
    assert_eq!(links(&bench.get(&instance).await.body), ["self"]);
    let cancel = json!({"cancelMode": "GRACEFUL"});
    assert_eq!(
        bench.post(&format!("{op}/cancel"), &cancel).await.status,
        409
    );

    bench.world.fails.store(false, SeqCst);
    let retried = bench.post(&format!("{op}/retry"), &Value::Null).await;
    assert_eq!((retried.status, retried.text.as_str()), (202, ""));
    let done = bench.ended(&op_id).await;
    assert_eq!(done["operationState"], "COMPLETED", "{done:#}");
    assert_eq!(links(&done), ["self", "vnfInstance"]);
    let current = bench.get(&instance).await;
    assert_eq!(links(&current.body), POSSIBLE);
    assert!(current.headers.contains_key("etag"));
}

/// A request for something unknown: refused, whether or not the VNF supports the task.
fn hopeless_request(task: &str) -> Value {
    match task {
        "instantiate" | "terminate" => json!({"terminationType": "none"}),
        "heal" => json!({"vnfcInstanceId": ["none"]}),
        "scale" => json!({"type": "SCALE_OUT", "aspectId": "none"}),
        "scale_to_level" => json!({"instantiationLevelId": "none"}),
        "operate" => json!({"changeStateTo": "STOPPED", "vnfcInstanceId": ["none"]}),
        "change_flavour" => json!({"newFlavourId": "none"}),
        "change_ext_conn" => json!({"extVirtualLinks": []}),
        "change_vnfpkg" => json!({"vnfdId": "none"}),
        "create_snapshot" | "revert_to_snapshot" => json!({"vnfSnapshotInfoId": "none"}),
        _ => panic!("no request for {task}"),
    }
}

/// Tasks that the instance has, as far as the answers to requests tell.
async fn answered_tasks(bench: &Bench, instance: &str) -> BTreeSet<String> {
    let mut answered = BTreeSet::new();
    for task in OPERATIONS.iter().filter_map(|operation| operation.task) {
        let path = format!("{instance}/{task}");
        let refused = bench.post(&path, &hopeless_request(task)).await;
        let is_supported = match refused.status {
            404 => {
                assert_eq!(refused.body["code"], "request.not-supported");
                false
            }
            422 => true,
            _ => panic!("{task}: {refused:?}"),
        };
        // An instance that exists cannot be instantiated: that is its state, not the VNF.
        if is_supported && task != "instantiate" {
            answered.insert(format!("{instance}/{task}"));
        }
    }
    answered
}

fn linked_tasks(bench: &Bench, shown: &Value) -> BTreeSet<String> {
    let links = shown["_links"].as_object().unwrap().iter();
    let tasks = links.filter(|(name, _)| *name != "self");
    tasks
        .map(|(_, link)| link["href"].as_str().unwrap().replace(&bench.url, ""))
        .collect()
}

#[tokio::test]
async fn links_are_offered_to_exactly_the_tasks_that_the_vnf_supports() {
    let bench = Bench::new().await;
    let vims = bench.request_b().await["vimConnectionInfo"].clone();
    let mut sizes = BTreeSet::new();
    for (sample, flavour) in [
        ("vnf-b-cnf", "simple"),
        ("vnf-levels", "simple"),
        ("vnf-flavours", "redundant"),
        ("cnf-flavours", "small"),
        ("vnf-rolling-1", "simple"),
    ] {
        let (_, vnfd) = bench.onboard(sample).await;
        let instance = format!("{INSTANCES}/{}", bench.create(&vnfd).await);
        let request = json!({"flavourId": flavour, "vimConnectionInfo": vims});
        let instantiate = format!("{instance}/instantiate");
        let accepted = bench.post(&instantiate, &request).await;
        let ended = bench.ended(&accepted.created_id()).await;
        assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
        for limited in [false, true] {
            bench.world.limited.store(limited, SeqCst);
            let answered = answered_tasks(&bench, &instance).await;
            let shown = bench.get(&instance).await.body;
            let what = format!("{sample}, limited: {limited}");
            assert_eq!(linked_tasks(&bench, &shown), answered, "{what}");
            let all = bench.get(INSTANCES).await.body;
            let mut all = all.as_array().unwrap().iter();
            let listed = all.find(|one| one["id"] == shown["id"]).unwrap();
            assert_eq!(listed["_links"], shown["_links"], "{what}");
            sizes.insert(answered.len());
        }
        bench.world.limited.store(false, SeqCst);
    }
    assert!(sizes.len() > 3, "the samples do not differ: {sizes:?}");
}

#[tokio::test]
async fn fail_returns_the_occurrence_and_rollback_leaves_no_resources() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let request = bench.request_b().await;
    bench.world.fails.store(true, SeqCst);
    for (task, status, state) in [("fail", 200, "FAILED"), ("rollback", 202, "ROLLED_BACK")] {
        let id = bench.create(&vnfd).await;
        let accepted = bench
            .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
            .await;
        let op_id = accepted.created_id();
        assert_eq!(bench.ended(&op_id).await["operationState"], "FAILED_TEMP");
        let response = bench
            .post(&format!("{OPS}/{op_id}/{task}"), &Value::Null)
            .await;
        assert_eq!(response.status, status, "{response:?}");
        assert_eq!(response.body.is_null(), status == 202, "{response:?}");
        assert_eq!(bench.ended(&op_id).await["operationState"], state);
        // The bench checks the schema of the instance.
        let current = bench.get(&format!("{INSTANCES}/{id}")).await.body;
        let cps = &current["instantiatedVnfInfo"]["extCpInfo"];
        match task {
            "fail" => assert_eq!(cps[0]["metadata"]["notMade"], true, "{current:#}"),
            _ => assert!(cps.is_null(), "{current:#}"),
        }
    }
    assert!(bench.world.calls.borrow().contains(&"release"));
}

#[tokio::test]
async fn a_rollback_that_a_hook_ruled_out_has_no_link_and_is_refused() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    bench.world.held.send_replace(true);
    bench.world.fails.store(true, SeqCst);
    let instantiate = format!("{INSTANCES}/{id}/instantiate");
    let accepted = bench.post(&instantiate, &bench.request_b().await).await;
    let op_id = accepted.created_id();
    bench.world.until("allocate").await;
    let change = Change::RuleOutRollback {
        op_id: op_id.clone(),
        step: "instantiate_start".into(),
    };
    let store = bench.app.engine().store();
    store.write(None, vec![change]).await.unwrap();
    bench.world.held.send_replace(false);
    let stopped = bench.ended(&op_id).await;
    assert_eq!(stopped["operationState"], "FAILED_TEMP");
    assert_eq!(links(&stopped), ["self", "vnfInstance", "retry", "fail"]);
    let refused = bench
        .post(&format!("{OPS}/{op_id}/rollback"), &Value::Null)
        .await;
    assert_eq!(refused.status, 409, "{refused:?}");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.contains("`instantiate_start`"), "{detail}");
}

#[tokio::test]
async fn a_vim_given_only_by_id_is_shown_with_its_type() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let request = bench.request_b().await;
    assert!(
        request["vimConnectionInfo"]["vim1"]
            .get("vimType")
            .is_none()
    );
    let accepted = bench
        .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
        .await;
    let op = bench.ended(&accepted.created_id()).await;
    let current = bench.get(&format!("{INSTANCES}/{id}")).await.body;
    for connection in [&op["operationParams"], &current].map(|of| &of["vimConnectionInfo"]["vim1"])
    {
        assert_eq!(
            connection["vimType"], "ETSINFV.KUBERNETES.V_1",
            "{connection:#}"
        );
    }
}

#[tokio::test]
async fn credentials_are_never_shown() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let request = json!({
        "flavourId": "simple",
        "vimConnectionInfo": {"vim1": {"vimType": "ETSINFV.KUBERNETES.V_1",
            "interfaceInfo": {"endpoint": "https://192.0.2.1"}, "accessInfo": {"bearer_token": "planted-1"}}},
        "additionalParams": {"greeting": "hello", "password": "planted-2", "deep": [{"client_key": "planted-3"}]},
    });
    let accepted = bench
        .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
        .await;
    let op = bench.ended(&accepted.created_id()).await;
    assert_eq!(op["operationState"], "COMPLETED", "{op:#}");
    assert_eq!(
        op["operationParams"]["additionalParams"]["greeting"],
        "hello"
    );
    let current = bench.get(&format!("{INSTANCES}/{id}")).await.body;
    let vim = &current["vimConnectionInfo"]["vim1"];
    assert_eq!(
        vim["interfaceInfo"]["endpoint"], "https://192.0.2.1",
        "{current:#}"
    );
    assert!(vim.get("accessInfo").is_none(), "{current:#}");
    // The client of the bench searches all responses for the planted ones.
    let registered = bench.vim().await;
    for path in [
        VIMS.to_owned(),
        format!("{VIMS}/{registered}"),
        format!("{VIMS}/cluster"),
    ] {
        assert_eq!(bench.get(&path).await.status, 200);
    }
    let page = bench.get("/").await;
    assert!(page.text.contains(&id), "{}", page.text);
    let log = format!("/vnfm/v1/op_occs/{}/log", accepted.created_id());
    assert_eq!(bench.get(&log).await.status, 200);
}

#[tokio::test]
async fn an_operation_explains_its_wait_and_the_effect_of_each_control() {
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
    let progress = format!("/vnfm/v1/op_occs/{op_id}/progress");
    let now = bench.get(&progress).await.body;
    assert_eq!(
        (&now["step"], &now["waiting"]["for"]),
        (&json!("allocate"), &json!("the test")),
        "{now:#}"
    );
    let cancel = bench
        .post(
            &format!("{OPS}/{op_id}/cancel"),
            &json!({"cancelMode": "FORCEFUL"}),
        )
        .await;
    assert_eq!(cancel.status, 202);
    assert_eq!(bench.ended(&op_id).await["operationState"], "FAILED_TEMP");
    let now = bench.get(&progress).await.body;
    let ways = now["waysOn"].as_array().unwrap();
    let allowed: Vec<_> = ways
        .iter()
        .filter(|w| w["allowed"] == true)
        .map(|w| &w["task"])
        .collect();
    assert_eq!(allowed, ["retry", "rollback", "fail"], "{now:#}");
}

#[tokio::test]
async fn lists_are_paged() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let mut created = Vec::new();
    for _ in 0..101 {
        created.push(bench.create(&vnfd).await);
    }
    let first = bench.get(INSTANCES).await;
    let link = first.headers["link"].to_str().unwrap();
    let next = link
        .strip_prefix('<')
        .unwrap()
        .split_once(">; rel=\"next\"")
        .unwrap()
        .0;
    let second = bench.get(next.strip_prefix(&bench.url).unwrap()).await;
    assert!(!second.headers.contains_key("link"), "{:?}", second.headers);
    let ids = |response: &crate::bench::Response| -> Vec<String> {
        let entries = response.body.as_array().unwrap();
        entries
            .iter()
            .map(|entry| entry["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut seen = [ids(&first), ids(&second)].concat();
    assert_eq!((ids(&first).len(), ids(&second).len()), (100, 1));
    seen.sort();
    created.sort();
    assert_eq!(seen, created);
    let unknown = bench
        .get(&format!("{INSTANCES}?nextpage_opaque_marker=none"))
        .await;
    assert_eq!(unknown.status, 400, "{unknown:?}");
}

#[tokio::test]
async fn a_vim_in_use_is_deleted_only_by_force() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let request = bench.request_b().await;
    let op_id = bench
        .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
        .await
        .created_id();
    bench.ended(&op_id).await;
    let refused = bench.delete(&format!("{VIMS}/cluster")).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(
        refused.body["blockedBy"][0].as_str().unwrap().contains(&id),
        "{refused:?}"
    );
    let changed = json!({"name": "other"});
    let patch = bench
        .request(Method::PATCH, &format!("{VIMS}/cluster"))
        .json(&changed);
    assert_eq!(bench.send(patch).await.body["name"], "other");
    let force = format!("{VIMS}/other?force=true");
    let no_reason = bench.delete(&force).await;
    assert_eq!(
        (no_reason.status, &no_reason.body["code"]),
        (422, &json!("request.no-reason"))
    );
    let forced = bench
        .request(Method::DELETE, &force)
        .header("x-vnfm-reason", "burnt down");
    assert_eq!(
        bench
            .send(forced.header("x-vnfm-operator", "ann"))
            .await
            .status,
        204
    );
    let heal = bench
        .post(&format!("{INSTANCES}/{id}/heal"), &json!({}))
        .await;
    assert_eq!(
        (heal.status, &heal.body["code"]),
        (422, &json!("request.unknown-vim"))
    );
    let next = heal.body["next"].as_str().unwrap();
    assert!(
        next.contains("--id") && next.contains("abandon"),
        "{heal:?}"
    );
    let orphans = bench.get("/vnfm/v1/orphans").await;
    assert_eq!(orphans.status, 200, "{orphans:?}");
}
