//! Roles that are narrowed see and change what they are narrowed to, and of the rest of their tenant not even that it is
//! there: in no list, id, notification or message.

use crate::bench::{Answer, Bench, HASHED, INSTANCES, OPS, PACKAGES, VIMS};
use crate::subscriptions::Sink;
use crate::tenants::{
    Has, NAMES, SUBSCRIPTIONS, ask, body_has, callback, concrete, furnished, users,
};
use crate::world::REGISTERS;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use vnfm_server::access::roles::{NEEDS, Needs};

/// The one VIM that `narrow` may use.
const OURS: &str = "11111111-1111-4111-8111-111111111111";
/// Another one.
const THEIRS: &str = "22222222-2222-4222-8222-222222222222";

/// Admins of the tenant `acme`, each narrowed in a way of its own.
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

/// What somebody sees of these kinds, although narrowed.
fn is_shown(user: &str, parameter: &str) -> bool {
    match parameter {
        // A package is nowhere; a VIM is nobody's make.
        "{vnfPkgId}" => user != "wrong-vendor",
        "{vimId}" => user != "wrong-vim",
        _ => false,
    }
}

#[tokio::test]
async fn no_route_shows_or_touches_what_a_role_is_not_narrowed_to() {
    let bench = Bench::with(users(&narrowed())).await;
    let (callback, _task) = callback().await;
    bench.log_in("acme-admin");
    let has = furnished(&bench, &callback).await;
    let mut tried = 0;
    for user in ["wrong-vendor", "wrong-vim", "wrong-namespace"] {
        for (template, method, needs) in NEEDS.iter().flat_map(|(template, methods)| {
            methods
                .iter()
                .map(move |(method, needs)| (*template, *method, *needs))
        }) {
            bench.log_in(user);
            let (path, named) = concrete(template, &has);
            let answer = ask(&bench, method, &path).await;
            let what = format!("{user}: {method} {path}: {answer:?}");
            let parameter = has.ids.iter().find(|(_, id)| Some(id) == named.as_ref());
            match (
                needs,
                parameter.map(|(parameter, _)| is_shown(user, parameter)),
            ) {
                // Host keys are for those who are not narrowed, whichever is named.
                (Needs::Role(_), Some(false)) if template.ends_with("{hostKeyId}") => {
                    assert_eq!(answer.status, 403, "{what}");
                }
                (Needs::Role(_), Some(false)) => assert_eq!(answer.status, 404, "{what}"),
                (Needs::Role(_), Some(true)) if method == "get" => {
                    assert_eq!(answer.status, 200, "{what}");
                }
                (Needs::Operator, _) | (Needs::Role(_), Some(true)) => {
                    assert_eq!(answer.status, 403, "{what}");
                }
                (Needs::Role(_), None) => {}
            }
            nothing_is_told(user, (method, &path), &answer, (&has, named.as_deref()));
            tried += 1;
        }
    }
    assert!(tried > 120, "{tried}");
    // And nothing of it was changed.
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

/// No id of what is not shown, but for the one that was asked for, and no name that was not said.
fn nothing_is_told(
    user: &str,
    (method, path): (&str, &str),
    answer: &Answer,
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
    for told in hidden.map(|(_, id)| id.as_str()).chain(names) {
        assert!(
            !answer.text.contains(told),
            "{user}: `{told}` in {method} {path}: {answer:?}"
        );
    }
}

/// Two VIMs with one instance each, of which the first is seen; the ids of the instances.
async fn two_homes(bench: &Bench) -> [String; 2] {
    bench.log_in("acme-admin");
    for (id, name) in [(OURS, "ours"), (THEIRS, "theirs")] {
        let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
            "interfaceInfo": {"endpoint": format!("https://{name}.example.com")}, "accessInfo": {"bearer_token": "planted-token"}});
        let vim = json!({"id": id, "name": name, "connection": connection});
        assert_eq!(bench.post(VIMS, &vim).await.status, 201);
    }
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let mut made = Vec::new();
    for vim in [OURS, THEIRS] {
        let instance = bench.create(&vnfd).await;
        live_on(bench, &instance, vim).await;
        made.push(instance);
    }
    made.try_into().unwrap()
}

async fn live_on(bench: &Bench, instance: &str, vim: &str) {
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}}});
    let started = bench
        .post(&format!("{INSTANCES}/{instance}/instantiate"), &request)
        .await;
    assert_eq!(started.status, 202, "{started:?}");
    assert_eq!(
        bench.ended(&started.made()).await["operationState"],
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
async fn lists_operations_events_and_the_page_show_what_a_role_is_narrowed_to() {
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
        let shown = bench.get(path).await.text;
        assert!(
            shown.contains(&ours) && !shown.contains(&theirs),
            "{path}: {shown}"
        );
    }
    assert_eq!(
        bench.get(&format!("{VIMS}/theirs")).await.status,
        404,
        "nor by its name"
    );
    assert_eq!(
        bench.get("/vnfm/v1/audit").await.body["code"],
        "access.narrowed"
    );
    // However its id is spelt.
    let spelt = theirs.replace('-', "%2D");
    let path = format!("{INSTANCES}/{spelt}");
    assert_eq!(bench.get(&path).await.status, 404);
    assert_eq!(
        bench.post(&format!("{path}/heal"), &json!({})).await.status,
        404
    );
    // What ends there leaves no trace either.
    bench.log_in("acme-admin");
    let terminate = json!({"terminationType": "FORCEFUL"});
    let ended = bench
        .post(&format!("{INSTANCES}/{theirs}/terminate"), &terminate)
        .await;
    bench.ended(&ended.made()).await;
    bench.log_in("narrow");
    let events = bench.get("/vnfm/v1/events").await.text;
    assert!(!events.contains(&ended.made()), "{events}");
}

/// What a handler would pass over must not hide what it would do.
#[tokio::test]
async fn a_body_that_cannot_be_looked_at_is_refused() {
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
        let answer = bench.send(request).await;
        assert_eq!(answer.status, 400, "{odd}: {answer:?}");
    }
    assert_eq!(
        bench.get(&format!("{INSTANCES}/{theirs}")).await.status,
        404
    );
    assert_eq!(
        bench.get(OPS).await.body.as_array().unwrap().len(),
        1,
        "of what was made before"
    );
}

#[tokio::test]
async fn a_subscriber_is_told_of_what_whoever_subscribed_sees() {
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
        bench.ended(&ended.made()).await;
    }
    // Each was made, instantiated and terminated: 1 + 3 + 3 notifications.
    assert_eq!(whole.told(14).await.len(), 14);
    // Of the other one: that it was made, which it was nowhere.
    let told = narrow.told(8).await;
    let of = |id: &str| {
        told.iter()
            .filter(|told| told["vnfInstanceId"] == id)
            .count()
    };
    assert_eq!((of(&ours), of(&theirs)), (7, 1), "{told:#?}");
    bench.log_in("narrow");
    let own = bench.get(SUBSCRIPTIONS).await.body;
    assert_eq!(
        own.as_array().unwrap().len(),
        1,
        "the other one is not its own"
    );
    assert_eq!(own[0]["callbackUri"], narrow.url);
}

#[tokio::test]
async fn what_stands_in_the_way_and_is_not_seen_has_no_name() {
    let bench = Bench::with(users(&narrowed())).await;
    bench.log_in("acme-admin");
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
    let ended = bench.ended(&started.made()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    let vims = bench.get(VIMS).await.body;
    let cluster = ids(&vims)
        .into_iter()
        .find(|id| *id != OURS)
        .unwrap()
        .to_owned();
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
    // Nor is an instance that is not seen among those of a plugin, or named as what registered a VIM.
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
