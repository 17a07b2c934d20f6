//! Scale and scale to level over HTTP: what conforms, what is refused, and of many clients one.

use crate::bench::{Bench, INSTANCES, OPS, VIMS};
use futures::future::join_all;
use serde_json::{Value, json};

const CLIENTS: usize = 16;

fn links(resource: &Value) -> Vec<&str> {
    let links = resource["_links"].as_object().unwrap();
    links.keys().map(String::as_str).collect()
}

/// Instantiates VNF-B, whose aspect `web` has the levels 0 to 3; the path of the instance.
async fn instantiated(bench: &Bench) -> String {
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let instance = format!("{INSTANCES}/{}", bench.create(&vnfd).await);
    let request = bench.request_b().await;
    let instantiate = format!("{instance}/instantiate");
    let op = bench.post(&instantiate, &request).await.created_id();
    assert_eq!(bench.ended(&op).await["operationState"], "COMPLETED");
    instance
}

fn scale(direction: &str, steps: u32) -> Value {
    json!({"type": direction, "aspectId": "web", "numberOfSteps": steps})
}

fn level(level: u32) -> Value {
    json!({"scaleInfo": [{"aspectId": "web", "scaleLevel": level}]})
}

fn change_types(op: &Value) -> Vec<&Value> {
    let changes = op["resourceChanges"]["affectedVnfcs"].as_array().unwrap();
    changes.iter().map(|vnfc| &vnfc["changeType"]).collect()
}

#[tokio::test]
async fn a_scaling_conforms_to_the_standard() {
    let bench = Bench::new().await;
    let instance = instantiated(&bench).await;
    let before = bench.get(&instance).await.body;
    let linked = &before["_links"];
    assert_eq!(
        linked["scale"]["href"],
        format!("{}{instance}/scale", bench.url)
    );
    assert_eq!(
        linked["scaleToLevel"]["href"],
        format!("{}{instance}/scale_to_level", bench.url)
    );
    let highest = json!([{"aspectId": "web", "scaleLevel": 3}]);
    for (task, body, operation, reached, vnfcs) in [
        ("scale", scale("SCALE_OUT", 1), "SCALE", 1, 3),
        ("scale_to_level", level(3), "SCALE_TO_LEVEL", 3, 5),
        ("scale", scale("SCALE_IN", 2), "SCALE", 1, 3),
        ("scale_to_level", level(0), "SCALE_TO_LEVEL", 0, 2),
    ] {
        let accepted = bench.post(&format!("{instance}/{task}"), &body).await;
        assert_eq!((accepted.status, accepted.text.as_str()), (202, ""));
        let op_id = accepted.created_id();
        assert_eq!(accepted.location(), format!("{}{OPS}/{op_id}", bench.url));
        let op = bench.ended(&op_id).await;
        assert_eq!(op["operationState"], "COMPLETED", "{op:#}");
        assert_eq!(op["operation"], operation);
        assert_eq!(op["operationParams"], body);
        let change = if body["type"] == "SCALE_IN" || reached == 0 {
            "REMOVED"
        } else {
            "ADDED"
        };
        let changes = change_types(&op);
        assert!(
            !changes.is_empty() && changes.iter().all(|one| *one == change),
            "{op:#}"
        );
        let info = bench.get(&instance).await.body["instantiatedVnfInfo"].clone();
        let status = json!([{"aspectId": "web", "scaleLevel": reached}]);
        assert_eq!(
            (&info["scaleStatus"], &info["maxScaleLevels"]),
            (&status, &highest)
        );
        assert_eq!(info["vnfcResourceInfo"].as_array().unwrap().len(), vnfcs);
    }
}

#[tokio::test]
async fn both_versions_scale() {
    let bench = Bench::new().await;
    let instance = instantiated(&bench).await.replace("/v2/", "/v1/");
    for (task, body) in [
        ("scale", scale("SCALE_OUT", 1)),
        ("scale_to_level", level(0)),
    ] {
        let post = bench.bare(reqwest::Method::POST, &format!("{instance}/{task}"));
        let accepted = bench
            .send(post.header("version", "1.3.0").json(&body))
            .await;
        assert_eq!(accepted.status, 202, "{accepted:?}");
        assert!(accepted.location().contains("/vnflcm/v1/vnf_lcm_op_occs/"));
        let op = bench.ended(&accepted.created_id()).await;
        assert_eq!(op["operationState"], "COMPLETED", "{op:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixteen_clients_one_scales() {
    let bench = Bench::new().await;
    let instance = instantiated(&bench).await;
    for (task, body) in [
        ("scale", scale("SCALE_OUT", 1)),
        ("scale_to_level", level(3)),
    ] {
        bench.world.held.send_replace(true);
        let path = format!("{instance}/{task}");
        let responses = join_all((0..CLIENTS).map(|_| bench.post(&path, &body))).await;
        let accepted = responses.iter().filter(|response| response.status == 202);
        let [accepted] = accepted.collect::<Vec<_>>()[..] else {
            panic!("{responses:?}");
        };
        let op_id = accepted.created_id();
        for refused in responses.iter().filter(|response| response.status != 202) {
            assert_eq!(refused.status, 409, "{refused:?}");
            assert_eq!(refused.body["blockedBy"], json!([op_id]), "{refused:?}");
        }
        bench.world.held.send_replace(false);
        assert_eq!(bench.ended(&op_id).await["operationState"], "COMPLETED");
    }
    let ops = bench.get(OPS).await.body;
    let states = ops
        .as_array()
        .unwrap()
        .iter()
        .map(|op| &op["operationState"]);
    assert_eq!(states.collect::<Vec<_>>(), ["COMPLETED"; 3], "none is left");
    assert!(links(&bench.get(&instance).await.body).contains(&"scale"));
}

/// Task, body, detail and hint.
type RefusedRequest = (&'static str, Value, &'static str, &'static str);

/// The hint of what only the size of the instance rules out.
const LIMITS: &str = "scaleStatus and maxScaleLevels";

/// Steps that the VNFD, the size of the instance or the data type rule out.
fn refused_steps() -> Vec<RefusedRequest> {
    let named = |aspect: &str| json!({"type": "SCALE_OUT", "aspectId": aspect});
    vec![
        (
            "scale",
            named("wbe"),
            "no scaling aspect `wbe`, only `web`",
            "did you mean `web`?",
        ),
        (
            "scale",
            named("load"),
            "no scaling aspect `load`, only `web`",
            LIMITS,
        ),
        (
            "scale",
            scale("SCALE_OUT", 4),
            "the highest level of scaling aspect `web` is 3, not 4",
            LIMITS,
        ),
        (
            "scale",
            scale("SCALE_OUT", u32::MAX),
            "is 3, not 4294967295",
            LIMITS,
        ),
        (
            "scale",
            scale("SCALE_IN", 1),
            "at level 0 and cannot be reduced by 1, at most by 0",
            LIMITS,
        ),
        (
            "scale",
            scale("SCALE_OUT", 0),
            "by 0 steps is not allowed",
            LIMITS,
        ),
        (
            "scale",
            json!({"type": "SCALE_OUT", "aspectId": "web", "numberOfSteps": -1}),
            "numberOfSteps",
            "",
        ),
        (
            "scale",
            json!({"type": "SIDEWAYS", "aspectId": "web"}),
            "SCALE_OUT",
            "",
        ),
        ("scale", json!({"type": "SCALE_OUT"}), "aspectId", ""),
    ]
}

/// Levels that they rule out.
fn refused_levels() -> Vec<RefusedRequest> {
    let to = |aspect: &str, level: u32| json!({"aspectId": aspect, "scaleLevel": level});
    vec![
        (
            "scale_to_level",
            json!({"instantiationLevelId": "city"}),
            "no instantiation level `city`",
            LIMITS,
        ),
        (
            "scale_to_level",
            json!({"scaleInfo": [to("load", 1)]}),
            "no scaling aspect `load`, only `web`",
            LIMITS,
        ),
        (
            "scale_to_level",
            level(4),
            "the highest level of scaling aspect `web` is 3, not 4",
            LIMITS,
        ),
        (
            "scale_to_level",
            json!({"scaleInfo": [to("web", 1), to("web", 2)]}),
            "names aspect `web` twice",
            LIMITS,
        ),
        (
            "scale_to_level",
            json!({"scaleInfo": []}),
            "scaleInfo names no aspect",
            LIMITS,
        ),
        (
            "scale_to_level",
            json!({}),
            "either instantiationLevelId or scaleInfo",
            "",
        ),
        (
            "scale_to_level",
            json!({"scaleInfo": [{"aspectId": "web", "scaleLevel": -1}]}),
            "scaleLevel",
            "",
        ),
    ]
}

#[tokio::test]
async fn what_is_not_possible_is_422_says_what_would_be_and_changes_nothing() {
    let bench = Bench::new().await;
    let instance = instantiated(&bench).await;
    let before = bench.get(&instance).await;
    for (task, body, detail, hint) in refused_steps().into_iter().chain(refused_levels()) {
        let response = bench.post(&format!("{instance}/{task}"), &body).await;
        assert_eq!(response.status, 422, "{body}: {response:?}");
        assert!(response.detail().contains(detail), "{body}: {response:?}");
        let next = response.body["next"].as_str().unwrap_or_default();
        assert!(next.contains(hint), "{body}: {response:?}");
    }
    let after = bench.get(&instance).await;
    assert_eq!(after.body, before.body);
    assert_eq!(after.headers["etag"], before.headers["etag"]);
    assert_eq!(bench.get(OPS).await.body.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_instance_that_is_not_instantiated_is_409() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let instance = format!("{INSTANCES}/{}", bench.create(&vnfd).await);
    for (task, body) in [
        ("scale", scale("SCALE_OUT", 1)),
        ("scale_to_level", level(1)),
    ] {
        let refused = bench.post(&format!("{instance}/{task}"), &body).await;
        assert_eq!(refused.status, 409, "{refused:?}");
        let nobody = bench
            .post(&format!("{INSTANCES}/nobody/{task}"), &body)
            .await;
        assert_eq!(nobody.status, 404, "{nobody:?}");
        assert_eq!(nobody.body["code"], "request.not-found");
    }
    assert_eq!(
        links(&bench.get(&instance).await.body),
        ["self", "instantiate"]
    );
}

#[tokio::test]
async fn a_vnf_without_aspects_does_not_support_scaling() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-ha-pair").await;
    let instance = format!("{INSTANCES}/{}", bench.create(&vnfd).await);
    let connection = json!({"vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3",
        "interfaceInfo": {"endpoint": "https://192.0.2.9:5000"}, "accessInfo": {"password": "planted-password"}});
    let vim = bench
        .post(VIMS, &json!({"name": "cloud", "connection": connection}))
        .await
        .id();
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}}});
    let accepted = bench
        .post(&format!("{instance}/instantiate"), &request)
        .await;
    let op = bench.ended(&accepted.created_id()).await;
    assert_eq!(op["operationState"], "COMPLETED", "{op:#}");
    for (task, body) in [
        ("scale", scale("SCALE_OUT", 1)),
        ("scale_to_level", level(1)),
    ] {
        let refused = bench.post(&format!("{instance}/{task}"), &body).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (404, &json!("request.not-supported"))
        );
        assert!(
            refused.detail().contains("no scaling aspect"),
            "{refused:?}"
        );
    }
    assert_eq!(
        links(&bench.get(&instance).await.body),
        [
            "self",
            "changeCurrentVnfPkg",
            "changeExtConn",
            "createSnapshot",
            "heal",
            "operate",
            "revertToSnapshot",
            "terminate"
        ]
    );
}
