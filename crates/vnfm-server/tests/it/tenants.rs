//! Two tenants on one server: no route shows data of the other tenant, and every route requires its role.

use crate::bench::{
    Bench, HASHED, INSTANCES, OPS, PACKAGES, Response, Setup, VIMS, packed, routes,
};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use vnfm_core::ports::{Change, HostPin, PinnedHost, VolumeRecord};
use vnfm_server::Role;
use vnfm_server::reference::RequiredRole;
use vnfm_types::RetainedVolume;

/// Users with [`crate::bench::PASSWORD`]: name, tenant, role.
pub(crate) const USERS: &[(&str, &str, Role)] = &[
    ("root", "default", Role::Admin),
    ("acme-admin", "acme", Role::Admin),
    ("acme-operator", "acme", Role::Operate),
    ("acme-reader", "acme", Role::Read),
    ("other-admin", "other", Role::Admin),
];

/// `access` of the configuration with these users, followed by `more`.
pub(crate) fn users(more: &str) -> Setup {
    let one = |(name, tenant, role): &(&str, &str, Role)| {
        format!(
            "- {{name: {name}, password_hash: '{HASHED}', gets: {{tenant: {tenant}, role: {role}}}}}\n"
        )
    };
    let all: String = USERS.iter().map(one).collect();
    Setup {
        access: Some(format!("users:\n{all}{more}")),
        ..Setup::default()
    }
}

/// The resources of a tenant: path parameter and id of each.
pub(crate) struct Has {
    pub(crate) ids: Vec<(&'static str, String)>,
    vnfd: String,
}

pub(crate) const SUBSCRIPTIONS: &str = "/vnflcm/v2/subscriptions";
/// Names given by the tenant, which no other tenant may see.
pub(crate) const NAMES: &[&str] = &["acme-cluster", "acme-web", "acme-link"];

/// Creates one resource of each kind for the tenant of the current user.
pub(crate) async fn furnished(bench: &Bench, callback: &str) -> Has {
    let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
        "interfaceInfo": {"endpoint": "https://192.0.2.9:6443"}, "accessInfo": {"bearer_token": "planted-token"}});
    let vim = bench
        .post(
            VIMS,
            &json!({"name": "acme-cluster", "connection": connection}),
        )
        .await
        .id();
    let (package, vnfd) = bench.onboard("vnf-b-cnf").await;
    let created = json!({"vnfdId": vnfd, "vnfInstanceName": "acme-web"});
    let instance = bench.post(INSTANCES, &created).await.id();
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}}});
    let started = bench
        .post(&format!("{INSTANCES}/{instance}/instantiate"), &request)
        .await;
    assert_eq!(started.status, 202, "{started:?}");
    let op = started.created_id();
    assert_eq!(bench.ended(&op).await["operationState"], "COMPLETED");
    let subscription = bench
        .post(SUBSCRIPTIONS, &json!({"callbackUri": callback}))
        .await
        .id();
    let snapshot = bench
        .post("/vnflcm/v2/vnf_snapshots", &json!({}))
        .await
        .id();
    let link = json!({"name": "acme-link", "vimId": vim, "subnets": [{"cidr": "10.10.0.0/24"}]});
    let link = bench.post("/vnfm/v1/links", &link).await.id();
    let volume = retained(bench, "acme", &vim).await;
    let key = pinned(bench, "acme", &vim).await;
    let ids = vec![
        ("{vnfInstanceId}", instance),
        ("{vnfLcmOpOccId}", op),
        ("{subscriptionId}", subscription),
        ("{vnfSnapshotInfoId}", snapshot),
        ("{linkId}", link),
        ("{volumeId}", volume),
        ("{vnfPkgId}", package),
        ("{vimId}", vim),
        ("{hostKeyId}", key),
    ];
    Has { ids, vnfd }
}

/// Records a retained volume of a tenant; returns its id.
async fn retained(bench: &Bench, tenant: &str, vim: &str) -> String {
    let id = uuid::Uuid::new_v4().to_string();
    let volume = RetainedVolume {
        id: id.clone(),
        vim_id: vim.into(),
        ..RetainedVolume::default()
    };
    let add = Change::AddVolume(Box::new(VolumeRecord {
        tenant: tenant.into(),
        volume,
    }));
    let store = bench.app.engine().store();
    store.write(None, vec![add]).await.unwrap();
    id
}

/// Pins a host key for a tenant; returns its id.
pub(crate) async fn pinned(bench: &Bench, tenant: &str, vim: &str) -> String {
    let at = PinnedHost {
        tenant: tenant.into(),
        vim_id: vim.into(),
        host: "server".into(),
    };
    let id = at.id();
    let pin = HostPin {
        at,
        ..HostPin::default()
    };
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
    let change = Change::PinHostKey {
        pin: Box::new(pin),
        key: key.into(),
    };
    bench
        .app
        .engine()
        .store()
        .write(None, vec![change])
        .await
        .unwrap();
    id
}

/// The path with the id for its parameter, and that id.
pub(crate) fn concrete(template: &str, has: &Has) -> (String, Option<String>) {
    let template = &template.replace("{artifactPath}", "Files/kubernetes/order.yaml");
    let role = has
        .ids
        .iter()
        .find(|(parameter, _)| template.contains(parameter));
    match role {
        Some((parameter, id)) => (template.replace(parameter, id), Some(id.clone())),
        None => (template.to_owned(), None),
    }
}

/// A request with a well-formed body for its route.
pub(crate) async fn ask(bench: &Bench, method: &str, path: &str) -> Response {
    let verb = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
    let request = bench.request(verb, path);
    let request = match (method, path.rsplit('/').next().unwrap()) {
        ("put", "package_content") => request
            .header(CONTENT_TYPE, "application/zip")
            .body(packed("vnf-b-cnf")),
        ("put", "policy") => request.json(&json!({"onFailure": {"retries": 1}})),
        ("put", "schedule") => request.json(&json!({
            "everySeconds": 3600,
            "request": {"changeStateTo": "STARTED"},
        })),
        ("patch" | "post", last) => request.json(&body(last, path)),
        _ => request,
    };
    bench.send(request.header("x-vnfm-reason", "a test")).await
}

fn body(last: &str, path: &str) -> Value {
    match last {
        "terminate" => json!({"terminationType": "FORCEFUL"}),
        "scale" => json!({"type": "SCALE_OUT", "aspectId": "web"}),
        "operate" => json!({"changeStateTo": "STOPPED"}),
        "change_flavour" => json!({"newFlavourId": "simple"}),
        "change_ext_conn" => json!({"extVirtualLinks": []}),
        "create_snapshot" | "revert_to_snapshot" => json!({"vnfSnapshotInfoId": "none"}),
        "cancel" => json!({"cancelMode": "GRACEFUL"}),
        "instantiate" => {
            json!({"flavourId": "simple", "vimConnectionInfo": {"v": {"vimId": "acme-cluster"}}})
        }
        "change_vnfpkg" | "vnf_instances" => json!({"vnfdId": "none"}),
        "vims" => json!({"name": "acme-cluster", "connection": {"vimType": "none"}}),
        "volumes" => json!({"vimId": "none", "virtualStorageDescId": "data", "sizeGib": 1}),
        "subscriptions" => json!({"callbackUri": "http://192.0.2.1/none"}),
        "upload_from_uri" => json!({"addressInformation": "http://192.0.2.1/none"}),
        _ if path.starts_with("/vnflcm/v2/vnf_instances/") && path.split('/').count() == 5 => {
            json!({"vnfInstanceName": "mine now"})
        }
        _ => json!({}),
    }
}

pub(crate) async fn callback() -> (String, tokio::task::JoinSet<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/callback", listener.local_addr().unwrap());
    let takes = axum::Router::new().fallback(|| async { axum::http::StatusCode::NO_CONTENT });
    let mut task = tokio::task::JoinSet::new();
    task.spawn(async move { axum::serve(listener, takes).await.unwrap() });
    (url, task)
}

#[tokio::test]
async fn no_route_reads_or_changes_data_of_another_tenant() {
    let bench = Bench::with(users("")).await;
    let (callback, _task) = callback().await;
    bench.log_in("acme-admin");
    let has = furnished(&bench, &callback).await;
    let routes = needs();
    // Reads first: later requests appear in the caller's own audit log with the ids that they contain.
    let (seen, changed): (Vec<_>, Vec<_>) =
        routes.iter().partition(|(_, method, _)| method == "get");
    for (template, method, needs) in seen.iter().chain(&changed) {
        let (path, named) = concrete(template, &has);
        bench.log_in("other-admin");
        let response = ask(&bench, method, &path).await;
        let what = format!("{method} {path}: {response:?}");
        match (needs, &named) {
            (RequiredRole::Operator, _) => assert_eq!(response.status, 403, "{what}"),
            (RequiredRole::Role(_), Some(_)) => assert_eq!(response.status, 404, "{what}"),
            (RequiredRole::Role(_), None) => assert_ne!(response.status, 403, "{what}"),
        }
        // The response may contain the requested id, but no other id and no name.
        let ids = has
            .ids
            .iter()
            .map(|(_, id)| id.as_str())
            .filter(|id| Some(*id) != named.as_deref());
        let names = NAMES
            .iter()
            .copied()
            .filter(|name| method == "get" || !body_has(name, &path));
        for hidden in ids.chain(names) {
            assert!(!response.text.contains(hidden), "`{hidden}` in {what}");
        }
    }
    let tried = routes.len();
    assert!(tried > 40, "{tried}");
    // Nothing was changed.
    bench.log_in("acme-admin");
    let instance = bench
        .get(&format!("{INSTANCES}/{}", has.ids[0].1))
        .await
        .body;
    assert_eq!(instance["vnfInstanceName"], "acme-web", "{instance:#}");
    assert_eq!(instance["instantiationState"], "INSTANTIATED");
    for (list, many) in [
        (INSTANCES, 1),
        (OPS, 1),
        (PACKAGES, 1),
        (SUBSCRIPTIONS, 1),
        (VIMS, 1),
    ] {
        assert_eq!(
            bench.get(list).await.body.as_array().unwrap().len(),
            many,
            "{list}"
        );
    }
}

/// Path, method in lower case and role of every route. Without a role: a caller without a login may read.
pub(crate) fn needs() -> Vec<(String, String, RequiredRole)> {
    let routes = routes().into_iter().map(|route| {
        let needs = route.role.unwrap_or(RequiredRole::Role(Role::Read));
        let method = route.method.as_str().to_lowercase();
        (route.path.into_owned(), method, needs)
    });
    routes.collect()
}

/// Whether the body of the request itself contains the name.
pub(crate) fn body_has(name: &str, path: &str) -> bool {
    body(path.rsplit('/').next().unwrap(), path)
        .to_string()
        .contains(name)
}

#[tokio::test]
async fn two_tenants_can_have_the_same_vnfd_and_names() {
    let bench = Bench::with(users("")).await;
    let (callback, _task) = callback().await;
    bench.log_in("acme-admin");
    let ours = furnished(&bench, &callback).await;
    bench.log_in("other-admin");
    let theirs = furnished(&bench, &callback).await;
    assert_eq!(ours.vnfd, theirs.vnfd, "both tenants have the same VNFD");
    for ((parameter, ours), (_, theirs)) in ours.ids.iter().zip(&theirs.ids) {
        assert_ne!(ours, theirs, "{parameter}");
    }
    let again = bench.upload(packed("vnf-b-cnf")).await.0;
    let refused = bench.get(&format!("{PACKAGES}/{again}")).await.body;
    assert_eq!(
        refused["onboardingState"], "ERROR",
        "a VNFD exists once per tenant: {refused:#}"
    );
}

#[tokio::test]
async fn every_route_requires_exactly_its_role() {
    let bench = Bench::with(users("")).await;
    let nothing = Has {
        ids: Vec::new(),
        vnfd: String::new(),
    };
    for (user, tenant, role) in USERS {
        bench.log_in(user);
        for (template, method, needs) in needs() {
            let (path, _) = concrete(&template, &nothing);
            let path: String = path
                .split('/')
                .map(|s| if s.starts_with('{') { "none" } else { s })
                .collect::<Vec<_>>()
                .join("/");
            let is_enough = match (needs, role) {
                (RequiredRole::Operator, role) => (*tenant, *role) == ("default", Role::Admin),
                (RequiredRole::Role(Role::Read), _) | (_, Role::Admin) => true,
                (RequiredRole::Role(Role::Operate), role) => *role == Role::Operate,
                (RequiredRole::Role(Role::Admin), _) => false,
            };
            let response = ask(&bench, &method, &path).await;
            let what = format!("{user}: {method} {path}: {response:?}");
            // This route needs the login of the NFVO.
            let is_of_the_nfvo = path == "/vnfm/v1/nfvo_notifications";
            assert_eq!(response.status == 401, is_of_the_nfvo, "{what}");
            if is_of_the_nfvo {
                continue;
            }
            assert_eq!(response.status == 403, !is_enough, "{what}");
            if response.status == 403 {
                assert_eq!(response.body["code"], "access.forbidden", "{what}");
                let enough = match needs {
                    RequiredRole::Role(role) => format!("needs the role `{role}`"),
                    RequiredRole::Operator => {
                        "needs the role `admin` in the tenant `default`".to_owned()
                    }
                };
                assert!(response.detail().contains(&enough), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_shared_vim_is_usable_by_all_and_changed_by_its_owner() {
    let bench = Bench::with(users("")).await;
    let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
        "interfaceInfo": {"endpoint": "https://192.0.2.9:6443"}, "accessInfo": {"bearer_token": "planted-token"}});
    let new = json!({"name": "for-all", "connection": connection, "shared": true});
    bench.log_in("acme-admin");
    let refused = bench.post(VIMS, &new).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.forbidden")),
        "{refused:?}"
    );
    bench.log_in("root");
    let vim = bench.post(VIMS, &new).await.id();
    let path = format!("{VIMS}/{vim}");

    bench.log_in("acme-admin");
    assert_eq!(bench.get(VIMS).await.body[0]["shared"], true);
    for id in [&vim, "for-all"] {
        assert_eq!(bench.get(&format!("{VIMS}/{id}")).await.id(), vim);
    }
    let renamed = bench
        .request(Method::PATCH, &path)
        .json(&json!({"name": "mine"}));
    for response in [bench.send(renamed).await, bench.delete(&path).await] {
        assert_eq!(
            (response.status, &response.body["code"]),
            (409, &json!("vim.shared")),
            "{response:?}"
        );
    }
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let instance = bench.create(&vnfd).await;
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"v": {"vimId": vim}}});
    let started = bench
        .post(&format!("{INSTANCES}/{instance}/instantiate"), &request)
        .await;
    assert_eq!(
        bench.ended(&started.created_id()).await["operationState"],
        "COMPLETED"
    );
    a_shared_vim_in_use_stays(&bench, &path, &instance).await;
}

/// While another tenant lives on it, its owner can neither delete nor hide it, and does not learn who lives there.
async fn a_shared_vim_in_use_stays(bench: &Bench, path: &str, instance: &str) {
    bench.log_in("root");
    let hidden = bench
        .request(Method::PATCH, path)
        .json(&json!({"shared": false}));
    for response in [bench.delete(path).await, bench.send(hidden).await] {
        assert_eq!(response.status, 409, "{response:?}");
        assert!(
            response.detail().contains("an instance of another tenant"),
            "{response:?}"
        );
        assert!(!response.text.contains(instance), "{response:?}");
    }
    let orphans = bench.get("/vnfm/v1/orphans").await;
    assert!(!orphans.text.contains(instance), "{orphans:?}");

    bench.log_in("acme-operator");
    let terminate = json!({"terminationType": "FORCEFUL"});
    let ended = bench
        .post(&format!("{INSTANCES}/{instance}/terminate"), &terminate)
        .await;
    assert_eq!(
        bench.ended(&ended.created_id()).await["operationState"],
        "COMPLETED"
    );
    bench.log_in("root");
    let hidden = bench
        .request(Method::PATCH, path)
        .json(&json!({"shared": false}));
    assert_eq!(bench.send(hidden).await.status, 200);
    bench.log_in("acme-admin");
    assert_eq!(bench.get(path).await.status, 404);
}

/// Registers a VIM that the scope of `narrow` contains, and another one.
async fn register_two_vims(bench: &Bench) {
    let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
        "interfaceInfo": {"endpoint": "https://192.0.2.9:6443"}, "accessInfo": {"bearer_token": "planted-token"}});
    for (id, name) in [
        ("11111111-1111-4111-8111-111111111111", "allowed"),
        ("22222222-2222-4222-8222-222222222222", "not"),
    ] {
        let vim = json!({"id": id, "name": name, "connection": connection});
        assert_eq!(bench.post(VIMS, &vim).await.status, 201);
    }
}

#[tokio::test]
async fn a_role_with_a_scope_changes_nothing_outside_it() {
    let narrowed = format!(
        "- {{name: narrow, password_hash: '{HASHED}', gets: {{tenant: acme, role: operate, vims: [11111111-1111-4111-8111-111111111111], vendors: [vnfm samples]}}}}\n\
         - {{name: stranger, password_hash: '{HASHED}', gets: {{tenant: acme, role: operate, vendors: [Nobody]}}}}\n"
    );
    let bench = Bench::with(users(&narrowed)).await;
    bench.log_in("acme-admin");
    register_two_vims(&bench).await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let vendor = bench.get(PACKAGES).await.body[0]["vnfProvider"].clone();
    let created = json!({"vnfdId": vnfd});
    bench.log_in("stranger");
    let refused = bench.post(INSTANCES, &created).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("request.no-package")),
        "the package is outside the scope: {vendor}: {refused:?}"
    );
    assert_eq!(bench.get(INSTANCES).await.body, json!([]));
    assert_eq!(bench.post(PACKAGES, &json!({})).await.status, 403);

    bench.log_in("narrow");
    let instance = bench.post(INSTANCES, &created).await;
    assert_eq!(instance.status, 201, "{vendor}: {instance:?}");
    let path = format!("{INSTANCES}/{}", instance.id());
    let request = |vim: Value| json!({"flavourId": "simple", "vimConnectionInfo": {"v": vim}});
    let other = request(json!({"vimId": "22222222-2222-4222-8222-222222222222"}));
    let refused = bench.post(&format!("{path}/instantiate"), &other).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.narrowed")),
        "{refused:?}"
    );
    let own = request(json!({"vimId": "11111111-1111-4111-8111-111111111111"}));
    let started = bench.post(&format!("{path}/instantiate"), &own).await;
    assert_eq!(started.status, 202, "{started:?}");
    assert_eq!(
        bench.ended(&started.created_id()).await["operationState"],
        "COMPLETED"
    );
    let terminate = json!({"terminationType": "FORCEFUL"});
    bench.log_in("stranger");
    assert_eq!(
        bench
            .post(&format!("{path}/terminate"), &terminate)
            .await
            .status,
        404
    );
    bench.log_in("narrow");
    assert_eq!(
        bench
            .post(&format!("{path}/terminate"), &terminate)
            .await
            .status,
        202
    );
}
