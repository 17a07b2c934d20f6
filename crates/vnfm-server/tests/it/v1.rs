//! VNF LCM of SOL003 V2.6.1 (`vnflcm/v1`): the same resources and engine in another format.

use crate::bench::{Bench, INSTANCES, OPS, Setup, VIMS, paths};
use crate::subscriptions::Sink;
use axum::http::StatusCode;
use reqwest::Method;
use serde_json::{Value, json};

const V1_INSTANCES: &str = "/vnflcm/v1/vnf_instances";
const V1_OPS: &str = "/vnflcm/v1/vnf_lcm_op_occs";
const V1_SUBSCRIPTIONS: &str = "/vnflcm/v1/subscriptions";

/// The two requests of the original specification of this project, except for their identifiers.
const REQUESTS: [&str; 2] = [
    r#"{ "flavourId": "cluster_install",
         "additionalParams": {
           "lcm-operation-user-data": "UserData/base_user_data.py",
           "lcm-operation-user-data-class": "BaseUserData",
           "input_params":"" },
         "vimConnectionInfo": [
           { "id": "8a3adb69-0784-43c7-833e-aab0b6ab4470",
             "vimId": "@VIM@",
             "vimType": "openstack" } ] }"#,
    r#"{ "flavourId": "cluster_install",
         "additionalParams": { "input_params":"" },
         "vimConnectionInfo": [
           { "id": "8a3adb69-0784-43c7-833e-aab0b6ab4470",
             "vimId": "@VIM@",
             "vimType": "openstack" } ] }"#,
];

impl Bench {
    /// Sends a request with the `Version` of v1.
    async fn ask_v1(&self, method: Method, path: &str, body: &Value) -> crate::bench::Response {
        let request = self.bare(method, path).header("version", "1.3.0");
        self.send(if body.is_null() {
            request
        } else {
            request.json(body)
        })
        .await
    }
}

#[tokio::test]
async fn the_requests_of_the_specification_work_unchanged() {
    let bench = Bench::with(Setup {
        as_seed: true,
        ..Setup::default()
    })
    .await;
    let (_, vnfd) = bench.onboard("vnf-a-seed").await;
    let connection = json!({"vimType": "openstack", "interfaceInfo": {"endpoint": "http://192.0.2.1/identity/v3"}});
    let vim = bench
        .post(VIMS, &json!({"name": "cloud", "connection": connection}))
        .await
        .id();
    for request in REQUESTS {
        let created = bench
            .ask_v1(Method::POST, V1_INSTANCES, &json!({"vnfdId": vnfd}))
            .await;
        assert_eq!(created.status, 201, "{created:?}");
        let path = format!("{V1_INSTANCES}/{}", created.id());
        let body = request.replace("@VIM@", &vim);
        let request = bench.bare(Method::POST, &format!("{path}/instantiate"));
        let request = request
            .header("version", "1.3.0")
            .header("content-type", "application/json");
        let begun = bench.send(request.body(body)).await;
        assert_eq!(begun.status, 202, "{begun:?}");
        let end = bench.ended(&begun.created_id()).await;
        assert_eq!(end["operationState"], "COMPLETED", "{end:#}");
        let current = bench.ask_v1(Method::GET, &path, &Value::Null).await.body;
        let connection = &current["vimConnectionInfo"][0];
        assert_eq!(
            connection["id"], "8a3adb69-0784-43c7-833e-aab0b6ab4470",
            "{current:#}"
        );
        assert_eq!(connection["vimId"], vim.as_str());
    }
}

#[tokio::test]
async fn both_versions_show_the_same_instance_in_their_format() {
    let bench = Bench::new().await;
    let (package, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let vim = bench.vim().await;
    let request =
        json!({"flavourId": "simple", "vimConnectionInfo": [{"id": "vim1", "vimId": vim}]});
    let path = format!("{V1_INSTANCES}/{id}");
    let begun = bench
        .ask_v1(Method::POST, &format!("{path}/instantiate"), &request)
        .await;
    assert_eq!(begun.status, 202, "{begun:?}");
    assert!(
        begun
            .location()
            .starts_with(&format!("{}{V1_OPS}/", bench.url)),
        "{begun:?}"
    );
    bench.ended(&begun.created_id()).await;

    let old = bench.ask_v1(Method::GET, &path, &Value::Null).await;
    assert_eq!(old.headers["version"], "1.3.0");
    assert_eq!(old.body["vnfPkgId"], package.as_str());
    assert_eq!(
        old.body["_links"]["terminate"]["href"],
        format!("{}{path}/terminate", bench.url)
    );
    let new = bench.get(&format!("{INSTANCES}/{id}")).await;
    let mut connection = new.body["vimConnectionInfo"]["vim1"].clone();
    connection["id"] = "vim1".into();
    assert_eq!(old.body["vimConnectionInfo"], json!([connection]));
    assert_eq!(
        old.headers["etag"], new.headers["etag"],
        "both versions show one resource"
    );

    let op = bench
        .ask_v1(
            Method::GET,
            &format!("{V1_OPS}/{}", begun.created_id()),
            &Value::Null,
        )
        .await;
    let connection = &op.body["operationParams"]["vimConnectionInfo"][0];
    assert_eq!(
        (&connection["id"], &connection["vimId"]),
        (&json!("vim1"), &json!(vim))
    );
    assert_eq!(
        op.body["_links"]["vnfInstance"]["href"],
        format!("{}{path}", bench.url)
    );
    let new = bench.get(&format!("{OPS}/{}", begun.created_id())).await;
    assert_eq!(
        new.body["operationParams"]["vimConnectionInfo"]["vim1"]["vimId"],
        vim.as_str()
    );
}

#[tokio::test]
async fn a_v1_modification_identifies_connections_by_id() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let path = format!("{V1_INSTANCES}/{}", bench.create(&vnfd).await);
    let vim = bench.vim().await;
    let connections = |ids: &[&str]| -> Vec<_> {
        ids.iter()
            .map(|id| json!({"id": id, "vimId": vim}))
            .collect()
    };
    let patch = json!({"vnfInstanceName": "web", "vimConnectionInfo": connections(&["a", "b"])});
    for (patch, left) in [
        (patch, &["a", "b"][..]),
        (json!({"vimConnectionInfoDeleteIds": ["a"]}), &["b"][..]),
    ] {
        let begun = bench.ask_v1(Method::PATCH, &path, &patch).await;
        assert_eq!(begun.status, 202, "{begun:?}");
        bench.ended(&begun.created_id()).await;
        let current = bench.ask_v1(Method::GET, &path, &Value::Null).await.body;
        let ids: Vec<_> = current["vimConnectionInfo"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["id"])
            .collect();
        assert_eq!(ids, left, "{current:#}");
        let op = bench
            .ask_v1(
                Method::GET,
                &format!("{V1_OPS}/{}", begun.created_id()),
                &Value::Null,
            )
            .await;
        assert_eq!(op.body["operation"], "MODIFY_INFO");
    }
}

async fn list_v1(bench: &Bench, query: &str) -> crate::bench::Response {
    let path = format!("{V1_INSTANCES}?{query}");
    bench.ask_v1(Method::GET, &path, &Value::Null).await
}

fn ids(response: &crate::bench::Response) -> Vec<String> {
    let entries = response
        .body
        .as_array()
        .unwrap_or_else(|| panic!("{response:?}"));
    entries
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn v1_lists_support_filters_selectors_and_pages() {
    let bench = Bench::with(Setup {
        page: 1,
        ..Setup::default()
    })
    .await;
    let (package, vnfd) = bench.onboard("vnf-b-cnf").await;
    let (first, second) = (bench.create(&vnfd).await, bench.create(&vnfd).await);
    let request = bench.request_b().await;
    let vim = request["vimConnectionInfo"]["vim1"]["vimId"]
        .as_str()
        .unwrap();
    let begun = bench
        .post(&format!("{INSTANCES}/{first}/instantiate"), &request)
        .await;
    bench.ended(&begun.created_id()).await;
    let list = async |query: &str| list_v1(&bench, query).await;
    for filter in [
        &*format!("(eq,vimConnectionInfo/vimId,{vim})"),
        "(eq,vimConnectionInfo/id,vim1)",
        "(cont,vimConnectionInfo/id,im);(neq,vimConnectionInfo/vimType,x)",
        "(eq,instantiatedVnfInfo/flavourId,simple)",
    ] {
        assert_eq!(
            ids(&list(&format!("filter={filter}")).await),
            [first.as_str()],
            "{filter}"
        );
    }
    assert_eq!(
        ids(&list("filter=(eq,vimConnectionInfo/id,vim2)").await),
        [""; 0]
    );
    let received = list("filter=(eq,vimConnectionInfo/vim1/vimId,x)").await;
    assert!(
        received.status == 400 && received.detail().contains("no attribute `vim1`"),
        "{received:?}"
    );
    pages_keep_the_form_of_v1(&bench, &package, [first, second]).await;
}

/// Asserts that pages and their links have the form of version 1.
async fn pages_keep_the_form_of_v1(bench: &Bench, package: &str, mut all: [String; 2]) {
    let query = format!("filter=(eq,vnfPkgId,{package})&fields=vimConnectionInfo");
    let page = list_v1(bench, &query).await;
    let next = page.headers["link"].to_str().unwrap().to_owned();
    assert!(
        next.starts_with(&format!("<{}{V1_INSTANCES}?", bench.url)),
        "{next}"
    );
    let path = next
        .strip_prefix(&format!("<{}", bench.url))
        .unwrap()
        .split('>')
        .next()
        .unwrap();
    let last = bench.ask_v1(Method::GET, path, &Value::Null).await;
    let mut found = [ids(&page), ids(&last)].concat();
    found.sort();
    all.sort();
    assert_eq!(found, all);
    let current = page.body[0].clone();
    assert!(current.get("instantiatedVnfInfo").is_none(), "{current:#}");

    let ops = bench
        .ask_v1(Method::GET, &format!("{V1_OPS}?all_fields"), &Value::Null)
        .await;
    assert!(
        ops.body[0]["operationParams"]["vimConnectionInfo"].is_array(),
        "{ops:?}"
    );
    let short = bench.ask_v1(Method::GET, V1_OPS, &Value::Null).await;
    assert!(short.body[0].get("operationParams").is_none(), "{short:?}");
}

#[tokio::test]
async fn notifications_use_the_version_of_the_subscription() {
    let bench = Bench::new().await;
    let sink = Sink::answering(StatusCode::NO_CONTENT).await;
    let body = json!({"callbackUri": sink.url});
    let old = bench.ask_v1(Method::POST, V1_SUBSCRIPTIONS, &body).await;
    assert_eq!(old.status, 201, "{old:?}");
    assert!(
        old.location()
            .starts_with(&format!("{}{V1_SUBSCRIPTIONS}/", bench.url)),
        "{old:?}"
    );
    let again = bench.ask_v1(Method::POST, V1_SUBSCRIPTIONS, &body).await;
    assert_eq!((again.status, again.location()), (303, old.location()));
    let new = bench.post("/vnflcm/v2/subscriptions", &body).await;
    assert_eq!(
        new.status, 201,
        "the same callback can be subscribed in both versions: {new:?}"
    );

    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let patch = json!({"vimConnectionInfo": [{"id": "vim1", "vimId": bench.vim().await}]});
    let path = format!("{V1_INSTANCES}/{id}");
    let op = bench
        .ask_v1(Method::PATCH, &path, &patch)
        .await
        .created_id();
    bench.ended(&op).await;
    let received = sink.notifications(6).await;
    let notifications = |created: &crate::bench::Response| -> Vec<Value> {
        received
            .iter()
            .filter(|one| one["subscriptionId"] == created.body["id"])
            .cloned()
            .collect()
    };
    let (to_old, to_new) = (notifications(&old), notifications(&new));
    assert_eq!((to_old.len(), to_new.len()), (3, 3));
    for (old, new) in to_old.iter().zip(&to_new) {
        crate::oracle::check_v1(old["notificationType"].as_str().unwrap(), old);
        assert_eq!(old["id"], new["id"]);
        for (name, link) in old["_links"].as_object().unwrap() {
            assert!(
                link["href"].as_str().unwrap().contains("/vnflcm/v1/"),
                "{name}: {link}"
            );
        }
    }
    assert!(
        to_old[2]["changedInfo"]["vimConnectionInfo"].is_array(),
        "{:#}",
        to_old[2]
    );
    let versions = sink.versions();
    assert!(
        ["1.3.0", "2.3.0"]
            .iter()
            .all(|version| versions.iter().any(|said| said == version))
    );
}

#[tokio::test]
async fn a_v1_body_or_version_header_of_the_wrong_form_is_refused() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let path = format!("{V1_INSTANCES}/{}", bench.create(&vnfd).await);
    let instantiate = format!("{path}/instantiate");
    for (method, path, body, says) in [
        (
            Method::POST,
            &instantiate,
            json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": "v"}}}),
            "`vimConnectionInfo`: version 1 requires a list",
        ),
        (
            Method::POST,
            &instantiate,
            json!({"flavourId": 1}),
            "`flavourId`: invalid type",
        ),
        (
            Method::POST,
            &instantiate,
            json!([]),
            "a list instead of an object",
        ),
        (Method::PATCH, &path, json!({"vnfPkgId": "p"}), "`vnfPkgId`"),
    ] {
        let response = bench.ask_v1(method, path, &body).await;
        assert_eq!(response.status, 422, "{body}: {response:?}");
        assert!(
            response.detail().contains(says),
            "{body}: {}",
            response.detail()
        );
    }
    for (path, version, status) in [
        (V1_INSTANCES, Some("2.3.0"), 406),
        (INSTANCES, Some("1.3.0"), 406),
        (V1_INSTANCES, Some("one"), 400),
        (V1_INSTANCES, None, 200),
        (INSTANCES, None, 400),
    ] {
        let request = bench.bare(Method::GET, path);
        let request = match version {
            Some(version) => request.header("version", version),
            None => request,
        };
        let response = bench.send(request).await;
        assert_eq!(response.status, status, "{path} {version:?}: {response:?}");
    }
}

#[tokio::test]
async fn api_versions_list_the_served_versions() {
    let bench = Bench::new().await;
    for (path, prefix, versions) in [
        (
            "/vnflcm/api_versions",
            "/vnflcm/",
            &["1.3.0", "2.0.0", "2.3.0"][..],
        ),
        ("/vnflcm/v1/api_versions", "/vnflcm/v1/", &["1.3.0"]),
        (
            "/vnflcm/v2/api_versions",
            "/vnflcm/v2/",
            &["2.0.0", "2.3.0"],
        ),
        (
            "/vnfpkgm/api_versions",
            "/vnfpkgm/",
            &["2.0.0", "2.3.0", "2.4.0"],
        ),
        (
            "/vnfpkgm/v2/api_versions",
            "/vnfpkgm/v2/",
            &["2.0.0", "2.3.0", "2.4.0"],
        ),
    ] {
        let response = bench.send(bench.bare(Method::GET, path)).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        crate::oracle::check("ApiVersionInformation", &response.body);
        let uri_prefix = format!("{}{prefix}", bench.url);
        assert_eq!(response.body["uriPrefix"], uri_prefix, "{path}");
        assert_eq!(
            response.headers["version"],
            versions[versions.len() - 1],
            "{path}"
        );
        let found: Vec<_> = response.body["apiVersions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["version"])
            .collect();
        assert_eq!(found, versions, "{path}");
    }
}

#[tokio::test]
async fn every_v2_route_exists_in_v1() {
    let bench = Bench::new().await;
    for (path, methods) in paths()
        .iter()
        .filter(|(path, _)| path.starts_with("/vnflcm/v2/"))
    {
        let path = path.replace("/v2/", "/v1/");
        let parts = path
            .split('/')
            .map(|part| if part.starts_with('{') { "none" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        let response = bench.send(bench.bare(Method::PUT, &path)).await;
        assert_eq!(response.status, 405, "{path}: {response:?}");
        let allowed = response.headers["allow"].to_str().unwrap().to_lowercase();
        assert!(
            methods.iter().all(|method| allowed.contains(method)),
            "{path}: {allowed}"
        );
    }
}
