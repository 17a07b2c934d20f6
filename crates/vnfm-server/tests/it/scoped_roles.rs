//! Roles with a scope see and change only what is in the scope. Nothing else of their tenant appears in any
//! list, id, notification or message.

use crate::bench::{Bench, HASHED, INSTANCES, OPS, PACKAGES, Response, VIMS};
use crate::subscriptions::Sink;
use crate::tenants::{
    Has, NAMES, SUBSCRIPTIONS, ask, body_has, callback, concrete, furnished, needs, users,
};
use crate::world::REGISTERS;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use vnfm_server::reference::RequiredRole;

/// The only VIM in the scope of `narrow`.
const OURS: &str = "11111111-1111-4111-8111-111111111111";
/// A VIM outside that scope.
const THEIRS: &str = "22222222-2222-4222-8222-222222222222";

/// Admins of the tenant `acme`, each with a different scope.
fn narrowed() -> String {
    let one = |(name, how): (&str, &str)| {
        let gets = format!("gets: {{tenant: acme, role: admin, {how}}}");
        format!("- {{name: {name}, password_hash: '{HASHED}', {gets}}}\n")
    };
    let vims = format!("vims: [{OURS}]");
    [
        ("wrong-vendor", "vendors: [Nobody]"),
        ("wrong-vim", vims.as_str()),
        ("wrong-namespace", "namespaces: [elsewhere]"),
        ("narrow", vims.as_str()),
    ]
    .map(one)
    .concat()
}

/// Whether the scope of `user` contains this kind of resource.
fn is_shown(user: &str, parameter: &str) -> bool {
    match parameter {
        // A package is on no VIM; a VIM has no vendor.
        "{vnfPkgId}" => user != "wrong-vendor",
        "{vimId}" => user != "wrong-vim",
        _ => false,
    }
}

/// Whether a role with a scope may not send this request, whatever the id in it.
fn needs_full_scope(template: &str, method: &str) -> bool {
    let outlives_instances = template.ends_with("{linkId}") || template.ends_with("{volumeId}");
    template.ends_with("{hostKeyId}") || (outlives_instances && method != "get")
}

#[tokio::test]
async fn no_route_reads_or_changes_anything_outside_the_scope_of_a_role() {
    let bench = Bench::with(users(&narrowed())).await;
    let (callback, _task) = callback().await;
    bench.log_in("acme-admin");
    let has = furnished(&bench, &callback).await;
    let mut tried = 0;
    for user in ["wrong-vendor", "wrong-vim", "wrong-namespace"] {
        for (template, method, needs) in needs() {
            bench.log_in(user);
            let (path, named) = concrete(&template, &has);
            let response = ask(&bench, &method, &path).await;
            let what = format!("{user}: {method} {path}: {response:?}");
            let parameter = has.ids.iter().find(|(_, id)| Some(id) == named.as_ref());
            match (
                needs,
                parameter.map(|(parameter, _)| is_shown(user, parameter)),
            ) {
                // Host keys, links and volumes need a role without a scope.
                (RequiredRole::Role(_), Some(false)) if needs_full_scope(&template, &method) => {
                    assert_eq!(response.status, 403, "{what}");
                }
                (RequiredRole::Role(_), Some(false)) => assert_eq!(response.status, 404, "{what}"),
                // The VIM of this test has no nodes: its driver refuses.
                (RequiredRole::Role(_), Some(true)) if template.ends_with("/capabilities") => {
                    assert_eq!(response.status, 422, "{what}");
                }
                (RequiredRole::Role(_), Some(true)) if method == "get" => {
                    assert_eq!(response.status, 200, "{what}");
                }
                (RequiredRole::Operator, _) | (RequiredRole::Role(_), Some(true)) => {
                    assert_eq!(response.status, 403, "{what}");
                }
                (RequiredRole::Role(_), None) => {}
            }
            hides(user, (&method, &path), &response, (&has, named.as_deref()));
            tried += 1;
        }
    }
    assert!(tried > 120, "{tried}");
    // Nothing was changed.
    bench.log_in("acme-admin");
    let instance = bench
        .get(&format!("{INSTANCES}/{}", has.ids[0].1))
        .await
        .body;
    assert_eq!(instance["vnfInstanceName"], "acme-web", "{instance:#}");
    assert_eq!(instance["instantiationState"], "INSTANTIATED");
    for (list, many) in [(OPS, 1), (PACKAGES, 1), (SUBSCRIPTIONS, 1), (VIMS, 1)] {
        let found = bench.get(list).await.body;
        let old = found.as_array().unwrap().iter();
        let old = old.filter(|one| has.ids.iter().any(|(_, id)| one["id"] == id.as_str()));
        assert_eq!(old.count(), many, "{list}");
    }
}

/// Asserts that the response contains no id outside the scope, except the requested one, and no name that
/// the request did not contain.
fn hides(
    user: &str,
    (method, path): (&str, &str),
    response: &Response,
    (has, named): (&Has, Option<&str>),
) {
    let hidden = has
        .ids
        .iter()
        .filter(|(parameter, id)| !is_shown(user, parameter) && Some(id.as_str()) != named);
    let shows_vims = is_shown(user, "{vimId}");
    let names = NAMES.iter().copied().filter(|name| {
        let of_vim = *name == "acme-cluster" && shows_vims;
        !of_vim && (method == "get" || !body_has(name, path))
    });
    for received in hidden.map(|(_, id)| id.as_str()).chain(names) {
        assert!(
            !response.text.contains(received),
            "{user}: `{received}` in {method} {path}: {response:?}"
        );
    }
}

/// Creates two VIMs with one instance each, the first in the scope of `narrow`; returns the ids of the instances.
async fn two_homes(bench: &Bench) -> [String; 2] {
    bench.log_in("acme-admin");
    for (id, name) in [(OURS, "ours"), (THEIRS, "theirs")] {
        let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
            "interfaceInfo": {"endpoint": format!("https://{name}.example.com")}, "accessInfo": {"bearer_token": "planted-token"}});
        let vim = json!({"id": id, "name": name, "connection": connection});
        assert_eq!(bench.post(VIMS, &vim).await.status, 201);
    }
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let mut created = Vec::new();
    for vim in [OURS, THEIRS] {
        let instance = bench.create(&vnfd).await;
        live_on(bench, &instance, vim).await;
        created.push(instance);
    }
    created.try_into().unwrap()
}

async fn live_on(bench: &Bench, instance: &str, vim: &str) {
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}}});
    let started = bench
        .post(&format!("{INSTANCES}/{instance}/instantiate"), &request)
        .await;
    assert_eq!(started.status, 202, "{started:?}");
    assert_eq!(
        bench.ended(&started.created_id()).await["operationState"],
        "COMPLETED"
    );
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn lists_operations_events_and_the_page_are_limited_to_the_scope() {
    let bench = Bench::with(users(&narrowed())).await;
    let [ours, theirs] = two_homes(&bench).await;
    bench.log_in("narrow");
    assert_eq!(ids(&bench.get(INSTANCES).await.body), [ours.as_str()]);
    let filtered = format!("{INSTANCES}?filter=(in,id,{ours},{theirs})");
    assert_eq!(ids(&bench.get(&filtered).await.body), [ours.as_str()]);
    let ops = bench.get(OPS).await.body;
    assert_eq!(
        (ops.as_array().unwrap().len(), &ops[0]["vnfInstanceId"]),
        (1, &json!(ours))
    );
    assert_eq!(ids(&bench.get(VIMS).await.body), [OURS]);
    for path in ["/vnfm/v1/events", "/"] {
        let page = bench.get(path).await.text;
        assert!(
            page.contains(&ours) && !page.contains(&theirs),
            "{path}: {page}"
        );
    }
    assert_eq!(
        bench.get(&format!("{VIMS}/theirs")).await.status,
        404,
        "it is not found by name either"
    );
    assert_eq!(
        bench.get("/vnfm/v1/audit").await.body["code"],
        "access.narrowed"
    );
    // Also if its id is percent-encoded.
    let spelt = theirs.replace('-', "%2D");
    let path = format!("{INSTANCES}/{spelt}");
    assert_eq!(bench.get(&path).await.status, 404);
    assert_eq!(
        bench.post(&format!("{path}/heal"), &json!({})).await.status,
        404
    );
    // A terminate outside the scope is not visible either.
    bench.log_in("acme-admin");
    let terminate = json!({"terminationType": "FORCEFUL"});
    let ended = bench
        .post(&format!("{INSTANCES}/{theirs}/terminate"), &terminate)
        .await;
    bench.ended(&ended.created_id()).await;
    bench.log_in("narrow");
    let events = bench.get("/vnfm/v1/events").await.text;
    assert!(!events.contains(&ended.created_id()), "{events}");
}

/// A member that a handler ignores must not hide others from the check of the scope.
#[tokio::test]
async fn a_body_that_cannot_be_checked_against_the_scope_is_refused() {
    let bench = Bench::with(users(&narrowed())).await;
    let [ours, theirs] = two_homes(&bench).await;
    let vnfd = bench.get(&format!("{INSTANCES}/{ours}")).await.body["vnfdId"].clone();
    let instance = bench.create(vnfd.as_str().unwrap()).await;
    bench.log_in("narrow");
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for odd in ["1e999", r#""\ud800""#, deep.as_str()] {
        let body = format!(
            r#"{{"flavourId": "simple", "vimConnectionInfo": {{"v": {{"vimId": "{THEIRS}"}}}}, "x": {odd}}}"#
        );
        let request = bench.request(Method::POST, &format!("{INSTANCES}/{instance}/instantiate"));
        let request = request
            .header("content-type", "application/json")
            .body(body);
        let response = bench.send(request).await;
        assert_eq!(response.status, 400, "{odd}: {response:?}");
    }
    assert_eq!(
        bench.get(&format!("{INSTANCES}/{theirs}")).await.status,
        404
    );
    assert_eq!(
        bench.get(OPS).await.body.as_array().unwrap().len(),
        1,
        "only the earlier operation is listed"
    );
}

#[tokio::test]
async fn a_subscription_is_limited_to_the_scope_of_its_creator() {
    let bench = Bench::with(users(&narrowed())).await;
    let (narrow, whole) = (
        Sink::answering(StatusCode::NO_CONTENT).await,
        Sink::answering(StatusCode::NO_CONTENT).await,
    );
    for (user, sink) in [("narrow", &narrow), ("acme-admin", &whole)] {
        bench.log_in(user);
        assert_eq!(
            bench
                .post(SUBSCRIPTIONS, &json!({"callbackUri": sink.url}))
                .await
                .status,
            201
        );
    }
    bench.log_in("acme-admin");
    assert_eq!(
        bench
            .get(SUBSCRIPTIONS)
            .await
            .body
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let [ours, theirs] = two_homes(&bench).await;
    let terminate = json!({"terminationType": "FORCEFUL"});
    for instance in [&theirs, &ours] {
        let ended = bench
            .post(&format!("{INSTANCES}/{instance}/terminate"), &terminate)
            .await;
        bench.ended(&ended.created_id()).await;
    }
    // Each was created, instantiated and terminated: 1 + 3 + 3 notifications.
    assert_eq!(whole.notifications(14).await.len(), 14);
    // For the other one only its creation, when it was on no VIM.
    let received = narrow.notifications(8).await;
    let usage = |id: &str| {
        received
            .iter()
            .filter(|received| received["vnfInstanceId"] == id)
            .count()
    };
    assert_eq!((usage(&ours), usage(&theirs)), (7, 1), "{received:#?}");
    bench.log_in("narrow");
    let own = bench.get(SUBSCRIPTIONS).await.body;
    assert_eq!(
        own.as_array().unwrap().len(),
        1,
        "the other subscription is outside the scope"
    );
    assert_eq!(own[0]["callbackUri"], narrow.url);
}

/// Instantiates VNF-A on [`OURS`]; the ids of the instance and of the VIM that its hook registers.
async fn cluster_of_an_instance(bench: &Bench) -> (String, String) {
    let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
        "interfaceInfo": {"endpoint": "https://cloud.example.com"}, "accessInfo": {"bearer_token": "planted-token"}});
    let vim = json!({"id": OURS, "name": "ours", "connection": connection});
    assert_eq!(bench.post(VIMS, &vim).await.status, 201);
    let (_, vnfd) = bench.onboard("vnf-a-k8s-cluster").await;
    let carrier = bench.create(&vnfd).await;
    let sample =
        include_str!("../../../../vnfd-samples/vnf-a-k8s-cluster/requests/instantiate.json");
    let sample: Value = serde_json::from_str(sample).unwrap();
    let mut params = sample["additionalParams"].clone();
    params["k8s_cluster_installation_param"]["ssh_port"] = json!(22);
    params["site"] = json!(REGISTERS);
    let request = json!({"flavourId": "cluster_install", "additionalParams": params,
        "vimConnectionInfo": {"vim1": {"vimId": OURS}}});
    let started = bench
        .post(&format!("{INSTANCES}/{carrier}/instantiate"), &request)
        .await;
    assert_eq!(started.status, 202, "{started:?}");
    let ended = bench.ended(&started.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    let vims = bench.get(VIMS).await.body;
    let cluster = ids(&vims)
        .into_iter()
        .find(|id| *id != OURS)
        .unwrap()
        .to_owned();
    (carrier, cluster)
}

#[tokio::test]
async fn a_cascade_needs_a_role_that_covers_every_dependant() {
    let bench = Bench::with(users(&narrowed())).await;
    bench.log_in("acme-admin");
    let (carrier, cluster) = cluster_of_an_instance(&bench).await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let created = json!({"vnfdId": vnfd, "vnfInstanceName": "secret-guest"});
    let guest = bench.post(INSTANCES, &created).await.id();
    live_on(&bench, &guest, &cluster).await;
    let cascade = async |user: &str, value: &str| {
        bench.log_in(user);
        let path = format!("{INSTANCES}/{carrier}/terminate");
        let forceful = json!({"terminationType": "FORCEFUL"});
        let request = bench.request(Method::POST, &path).json(&forceful);
        bench.send(request.header("x-vnfm-cascade", value)).await
    };
    let refused = cascade("narrow", "true").await;
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(refused.body["code"], "access.dependant");
    let hides = |text: &str| !text.contains("secret-guest") && !text.contains(&guest);
    assert!(hides(&refused.text), "{refused:?}");
    assert_eq!(cascade("acme-admin", "yes").await.status, 400);
    let begun = cascade("acme-admin", "true").await;
    assert_eq!(begun.status, 202, "{begun:?}");
    let ended = bench.ended(&begun.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    for id in [&carrier, &guest] {
        let shown = bench.get(&format!("{INSTANCES}/{id}")).await.body;
        assert_eq!(shown["instantiationState"], "NOT_INSTANTIATED");
    }
}

#[tokio::test]
async fn a_blocking_resource_outside_the_scope_is_not_named() {
    let bench = Bench::with(users(&narrowed())).await;
    bench.log_in("acme-admin");
    let (carrier, cluster) = cluster_of_an_instance(&bench).await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let created = json!({"vnfdId": vnfd, "vnfInstanceName": "secret-guest"});
    let guest = bench.post(INSTANCES, &created).await.id();
    live_on(&bench, &guest, &cluster).await;
    let terminate = format!("{INSTANCES}/{carrier}/terminate");
    let forceful = json!({"terminationType": "FORCEFUL"});
    let open = bench.post(&terminate, &forceful).await;
    assert_eq!(open.status, 409, "{open:?}");
    assert!(
        open.detail().contains("secret-guest") && open.text.contains(&guest),
        "{open:?}"
    );
    // An instance outside the scope is not listed as a user of a plugin or as the creator of a VIM.
    for path in ["/vnfm/v1/plugins", VIMS] {
        bench.log_in("acme-admin");
        assert!(bench.get(path).await.text.contains(&carrier), "{path}");
        bench.log_in("wrong-namespace");
        assert!(!bench.get(path).await.text.contains(&carrier), "{path}");
    }
    bench.log_in("narrow");
    assert_eq!(bench.get(&format!("{INSTANCES}/{guest}")).await.status, 404);
    let narrow = bench.post(&terminate, &forceful).await;
    assert_eq!(
        (narrow.status, &narrow.body["code"]),
        (409, &open.body["code"]),
        "{narrow:?}"
    );
    assert!(
        narrow
            .detail()
            .contains("an object that your role does not show"),
        "{narrow:?}"
    );
    assert!(
        !narrow.text.contains("secret-guest") && !narrow.text.contains(&guest),
        "{narrow:?}"
    );
}
