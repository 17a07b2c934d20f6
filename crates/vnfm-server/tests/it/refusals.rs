//! Refused requests: status and detail, and that they change nothing.

use crate::bench::{Bench, INSTANCES, OPS, PACKAGES, Response, VIMS};
use crate::world::WRONG;
use reqwest::Method;
use serde_json::{Value, json};

/// Method, path, content type, body, expected status, and a part of the detail.
type Case = (Method, String, &'static str, String, u16, &'static str);

const JSON: &str = "application/json";

/// The lists of all resources.
async fn state(bench: &Bench) -> Vec<Value> {
    let mut all = Vec::new();
    for list in [INSTANCES, OPS, PACKAGES, VIMS] {
        all.push(bench.get(list).await.body);
    }
    all
}

async fn send(bench: &Bench, case: &Case) -> Response {
    let (method, path, kind, body, ..) = case;
    let mut request = bench.request(method.clone(), path);
    if !kind.is_empty() {
        request = request.header("content-type", *kind);
    }
    bench.send(request.body(body.clone())).await
}

async fn all_refused(bench: &Bench, cases: Vec<Case>) {
    let before = state(bench).await;
    for case in cases {
        let response = send(bench, &case).await;
        let (method, path, _, body, status, says) = case;
        let what = format!("{method} {path} {}", &body[..body.len().min(200)]);
        assert_eq!(response.status, status, "{what}: {response:?}");
        assert!(
            response.detail().contains(says),
            "{what}: `{}` lacks `{says}`",
            response.detail()
        );
        assert!(response.body["code"].is_string(), "{what}: {response:?}");
    }
    assert_eq!(
        state(bench).await,
        before,
        "a refused request changed something"
    );
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let instantiate = format!("{INSTANCES}/{id}/instantiate");
    all_refused(&bench, bad_instantiations(&instantiate)).await;
    all_refused(&bench, bad_requests()).await;
}

fn post(
    path: &str,
    content_type: &'static str,
    body: &str,
    status: u16,
    detail: &'static str,
) -> Case {
    let (path, body) = (path.to_owned(), body.to_owned());
    (Method::POST, path, content_type, body, status, detail)
}

fn get(path: &str, status: u16, detail: &'static str) -> Case {
    let path = path.to_owned();
    (Method::GET, path, "", String::new(), status, detail)
}

/// Bodies that the task `instantiate` refuses.
fn bad_instantiations(instantiate: &str) -> Vec<Case> {
    let huge = json!({"flavourId": "x".repeat(2 << 20)}).to_string();
    let wrong =
        json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": 7}}}).to_string();
    vec![
        post(instantiate, JSON, "{flavourId}", 400, "line 1 column 2"),
        post(instantiate, JSON, "", 400, "EOF"),
        post(
            instantiate,
            JSON,
            "{\"flavourId\": \"simple\"} x",
            400,
            "after the JSON body",
        ),
        post(
            instantiate,
            JSON,
            "[]",
            422,
            "the body does not match the resource's data type",
        ),
        post(instantiate, JSON, "{}", 422, "flavourId"),
        post(
            instantiate,
            JSON,
            &wrong,
            422,
            "`vimConnectionInfo.vim1.vimId`: invalid type",
        ),
        post(instantiate, JSON, &huge, 413, "larger than 1048576 bytes"),
        post(
            instantiate,
            "text/plain",
            "{}",
            415,
            "`text/plain` is not application/json",
        ),
    ]
}

/// Bodies, queries, paths and methods that other resources refuse.
fn bad_requests() -> Vec<Case> {
    vec![
        post(
            INSTANCES,
            JSON,
            "{\"vnfdId\": 1}",
            422,
            "`vnfdId`: invalid type",
        ),
        post(
            VIMS,
            JSON,
            "{\"name\": \"a\", \"conection\": {}}",
            422,
            "unknown field `conection`",
        ),
        post(
            &format!("{OPS}/x/cancel"),
            JSON,
            "{\"cancelMode\": \"SOON\"}",
            422,
            "`cancelMode`",
        ),
        get(
            &format!("{INSTANCES}?filter=(eq,id)"),
            400,
            "`filter`, column 7: expected a value",
        ),
        get(
            &format!("{OPS}?page=2"),
            400,
            "supported: filter, all_fields, fields, exclude_fields",
        ),
        get(
            &format!("{PACKAGES}?a=b"),
            400,
            "supported: filter, all_fields",
        ),
        get(&format!("{INSTANCES}/%FF"), 400, "UTF-8"),
        get(
            "/vnflcm/v3/vnf_instances",
            404,
            "no resource at `/vnflcm/v3/vnf_instances`",
        ),
        (
            Method::PUT,
            INSTANCES.into(),
            "",
            String::new(),
            405,
            "does not support PUT",
        ),
    ]
}

/// Requests for resources with the id `none`.
fn requests_for_absent_resources() -> Vec<Case> {
    let none = |method: Method, path: &str| -> Case {
        let path = format!("{path}/none");
        (method, path, "", String::new(), 404, "`none`")
    };
    vec![
        none(Method::GET, INSTANCES),
        none(Method::DELETE, INSTANCES),
        none(Method::GET, OPS),
        none(Method::GET, PACKAGES),
        none(Method::DELETE, PACKAGES),
        none(Method::GET, VIMS),
        none(Method::DELETE, VIMS),
    ]
}

#[tokio::test]
async fn absent_resources_and_impossible_tasks_are_refused() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let post = |path: String, body: Value, status, says| -> Case {
        (Method::POST, path, JSON, body.to_string(), status, says)
    };
    let on = |vim: Value| json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": vim}});
    let instantiate = || format!("{INSTANCES}/{id}/instantiate");
    let forceful = json!({"terminationType": "FORCEFUL"});
    let leveled =
        json!({"flavourId": "simple", "instantiationLevelId": "none", "vimConnectionInfo": {}});
    all_refused(&bench, requests_for_absent_resources()).await;
    all_refused(
        &bench,
        vec![
            post(
                format!("{INSTANCES}/none/instantiate"),
                on(json!({"vimId": "v"})),
                404,
                "`none`",
            ),
            post(format!("{OPS}/none/retry"), Value::Null, 404, "`none`"),
            post(format!("{OPS}/none/rollback"), Value::Null, 404, "`none`"),
            post(format!("{OPS}/none/fail"), Value::Null, 404, "`none`"),
            post(
                format!("{INSTANCES}/{id}/terminate"),
                forceful,
                409,
                "NOT_INSTANTIATED",
            ),
            post(INSTANCES.into(), json!({"vnfdId": "none"}), 422, "`none`"),
            post(
                instantiate(),
                on(json!({"vimId": "none"})),
                422,
                "vimConnectionInfo.vim1.vimId `none`",
            ),
            post(
                instantiate(),
                json!({"flavourId": "simple"}),
                422,
                "exactly one VIM",
            ),
            post(
                instantiate(),
                on(json!({"vimType": "nothing", "accessInfo": {"a": "b"}})),
                422,
                "`nothing`",
            ),
            post(
                instantiate(),
                json!({"flavourId": "none"}),
                422,
                "flavourId `none` is not in the VNFD",
            ),
            post(instantiate(), leveled, 422, "instantiationLevelId `none`"),
        ],
    )
    .await;
}

#[tokio::test]
async fn hook_parameters_that_violate_a_schema_are_refused() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-a-k8s-cluster").await;
    let id = bench.create(&vnfd).await;
    let vim = bench.vim().await;
    let with = |params: &Value| {
        json!({"flavourId": "cluster_install", "vimConnectionInfo": {"vim1": {"vimId": vim}},
               "additionalParams": params})
        .to_string()
    };
    let path = format!("{INSTANCES}/{id}/instantiate");
    let post = |params: &Value, says| (Method::POST, path.clone(), JSON, with(params), 422, says);
    // The parameters that the VNFD of the sample requires; the schema of the plugin also requires `site`.
    let sample =
        include_str!("../../../../vnfd-samples/vnf-a-k8s-cluster/requests/instantiate.json");
    let sample: Value = serde_json::from_str(sample).unwrap();
    let mut params = sample["additionalParams"].clone();
    params["k8s_cluster_installation_param"]["ssh_port"] = json!(22);
    let mut wrong = params.clone();
    wrong["site"] = json!(["planted"]);
    all_refused(
        &bench,
        vec![
            post(
                &json!({}),
                "additionalParams violate the schema of the VNFD's interface",
            ),
            post(
                &json!({"k8s_cluster_installation_param": {}}),
                "\"master_node\" is a required property",
            ),
            post(
                &params,
                "hook `instantiate_end` of `kubernetes-cluster`: additionalParams: \"site\"",
            ),
            post(
                &wrong,
                "additionalParams.site: the value is not of type \"string\"",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_vim_with_a_refused_login_is_not_stored() {
    let bench = Bench::new().await;
    let with = |endpoint: &str, password: &str| {
        let interface = if endpoint.is_empty() {
            json!({})
        } else {
            json!({"endpoint": endpoint})
        };
        json!({"name": "cloud", "connection": {"vimType": "openstack-of-nobody", "interfaceInfo": interface,
            "accessInfo": {"password": password}}})
    };
    let mut refused = with("http://192.0.2.1", WRONG);
    refused["connection"]["vimType"] = json!("ETSINFV.OPENSTACK_KEYSTONE.V_3");
    let mut incomplete = with("", "planted");
    incomplete["connection"]["vimType"] = json!("ETSINFV.OPENSTACK_KEYSTONE.V_3");
    let post = |body: Value, says| {
        (
            Method::POST,
            VIMS.to_owned(),
            JSON,
            body.to_string(),
            422,
            says,
        )
    };
    all_refused(
        &bench,
        vec![
            post(with("http://192.0.2.1", "planted"), "openstack-of-nobody"),
            post(refused, "401 Unauthorized"),
            post(incomplete, "interfaceInfo.endpoint is missing"),
        ],
    )
    .await;
}
