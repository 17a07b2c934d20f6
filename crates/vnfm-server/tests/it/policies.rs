//! What instances on a cluster are made of: what a value, a tenant on another one's VIM and a narrowed role cannot make.

use crate::bench::{Answer, Bench, HASHED, INSTANCES, Setup, VIMS, packed};
use crate::tenants::users;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{Cursor, Read as _, Write as _};
use std::sync::Arc;
use vnfm_sim::books::Books;
use vnfm_sim::faults::Faults;
use vnfm_sim::kubernetes::{Cluster, ClusterSpec, Clusters};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

/// A server with a simulated cluster.
struct Stage {
    bench: Bench,
    cluster: Arc<Cluster>,
    _clusters: Clusters,
}

/// Of `acme`: narrowed to one namespace.
fn narrowed() -> String {
    let gets = "gets: {tenant: acme, role: operate, namespaces: [web]}";
    format!("- {{name: narrow, password_hash: '{HASHED}', {gets}}}\n")
}

impl Stage {
    async fn new() -> Self {
        let clusters = Clusters::new(Books::new(), Faults::new());
        let spec = ClusterSpec {
            name: "one".into(),
            address: [127, 0, 0, 1].into(),
            port: 0,
        };
        let cluster = clusters.start(spec).await.unwrap();
        cluster.furnish("node-1", [127, 0, 0, 1].into());
        let bench = Bench::with(Setup {
            kubernetes: true,
            ..users(&narrowed())
        })
        .await;
        Self {
            bench,
            cluster,
            _clusters: clusters,
        }
    }

    fn connection(&self) -> Value {
        json!({"vimType": "ETSINFV.KUBERNETES.V_1",
            "interfaceInfo": {"endpoint": self.cluster.server(), "ssl_ca_cert": self.cluster.ca_pem()},
            "accessInfo": {"bearer_token": self.cluster.admin_token()}})
    }

    /// Registers the cluster as whoever is logged in; `more` beside its name and connection.
    async fn vim(&self, more: Value) -> String {
        let mut vim = json!({"name": "cluster", "connection": self.connection()});
        vim.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let answer = self.bench.post(VIMS, &vim).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.id()
    }

    /// Onboards VNF-B with `more` in one of its manifests; its VNFD.
    async fn onboard(&self, more: &str) -> String {
        let (id, answer) = self.bench.upload(with(more)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let shown = self
            .bench
            .get(&format!("{}/{id}", crate::bench::PACKAGES))
            .await
            .body;
        assert_eq!(shown["onboardingState"], "ONBOARDED", "{shown:#}");
        shown["vnfdId"].as_str().unwrap().to_owned()
    }

    async fn instantiate(&self, instance: &str, vim: &str, params: Value) -> Answer {
        let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}},
            "additionalParams": params});
        self.bench
            .post(&format!("{INSTANCES}/{instance}/instantiate"), &request)
            .await
    }

    /// It is refused with 422, by this object and rule, and the cluster has not heard of it.
    async fn refused(&self, (vnfd, vim): (&str, &str), params: Value, says: &[&str]) {
        let instance = self.bench.create(vnfd).await;
        let refused = self.instantiate(&instance, vim, params).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert_eq!(refused.body["code"], "kubernetes.policy", "{refused:?}");
        for part in says {
            assert!(
                refused.detail().contains(part),
                "{part} in {}",
                refused.detail()
            );
        }
        let path = format!("{INSTANCES}/{instance}");
        assert_eq!(
            self.bench.get(&path).await.body["instantiationState"],
            "NOT_INSTANTIATED"
        );
        self.nothing_is_there();
    }

    /// It works.
    async fn completes(&self, instance: &str, vim: &str, params: Value) {
        let started = self.instantiate(instance, vim, params).await;
        assert_eq!(started.status, 202, "{started:?}");
        let ended = self.bench.ended(&started.made()).await;
        assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    }

    fn nothing_is_there(&self) {
        for path in OUTSIDE {
            assert!(self.cluster.get_json(path).is_none(), "{path}");
        }
    }
}

/// Where the objects of these tests would be that lead out of a namespace.
const OUTSIDE: &[&str] = &[
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/own-the-cluster",
    "/api/v1/namespaces/kube-system/configmaps/outside",
    "/api/v1/namespaces/web/pods/root",
];

const BINDING: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: own-the-cluster}\n\
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n\
    subjects: [{kind: ServiceAccount, name: default, namespace: web}]\n";
const IN_THE_SYSTEM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: outside, namespace: kube-system}\ndata: {a: b}\n";
const ON_THE_HOST: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: root}\n\
    spec: {hostNetwork: true, hostPID: true, containers: [{name: a, image: localhost/busybox:1}]}\n";

/// VNF-B with more documents beside its Service.
fn with(more: &str) -> Vec<u8> {
    let mut from = ZipArchive::new(Cursor::new(packed("vnf-b-cnf"))).unwrap();
    let mut to = ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..from.len() {
        let mut file = from.by_index(index).unwrap();
        let name = file.name().unwrap().into_owned();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        if name.ends_with("service.yaml") && !more.is_empty() {
            bytes.extend_from_slice(format!("---\n{more}").as_bytes());
        }
        to.start_file(name, SimpleFileOptions::default()).unwrap();
        to.write_all(&bytes).unwrap();
    }
    to.finish().unwrap().into_inner()
}

#[tokio::test]
async fn a_value_makes_no_objects() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let vnfd = stage.onboard("").await;
    let instance = stage.bench.create(&vnfd).await;
    stage.bench.log_in("narrow");
    let evil = format!("x\n---\n{BINDING}---\n{IN_THE_SYSTEM}#");
    stage
        .completes(
            &instance,
            &vim,
            json!({"namespace": "web", "greeting": evil}),
        )
        .await;
    stage.nothing_is_there();
    let page = stage
        .cluster
        .get_json("/api/v1/namespaces/web/configmaps/page")
        .unwrap();
    assert_eq!(
        page["data"]["index.html"],
        json!(format!("{evil}\n")),
        "all of it is text"
    );
}

#[tokio::test]
async fn a_value_of_another_type_is_refused_with_its_name() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let vnfd = stage.onboard("").await;
    let instance = stage.bench.create(&vnfd).await;
    for value in [json!([1]), json!({"a": 1}), json!("two"), json!(true)] {
        let refused = stage
            .instantiate(&instance, &vim, json!({"replicas": value}))
            .await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (422, &json!("kubernetes.value-unfit"))
        );
        assert!(
            refused.detail().contains("variable `replicas` is a number"),
            "{refused:?}"
        );
    }
    // A number that is written as a text is one.
    stage
        .completes(&instance, &vim, json!({"replicas": "1"}))
        .await;
}

#[tokio::test]
async fn a_tenant_on_the_vim_of_another_stays_in_its_namespace() {
    let stage = Stage::new().await;
    stage.bench.log_in("root");
    let vim = stage.vim(json!({"shared": true})).await;
    stage.bench.log_in("acme-operator");
    for (more, says) in [
        (
            BINDING,
            ["ClusterRoleBinding `own-the-cluster`", "the rule `kinds`"],
        ),
        (
            IN_THE_SYSTEM,
            ["ConfigMap `outside`", "the rule `namespaces`"],
        ),
        (ON_THE_HOST, ["Pod `root`", "`spec.hostNetwork: true`"]),
    ] {
        let (package, answer) = stage.bench.upload(with(more)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let package_path = format!("{}/{package}", crate::bench::PACKAGES);
        let vnfd = stage.bench.get(&package_path).await.body["vnfdId"]
            .as_str()
            .unwrap()
            .to_owned();
        let instance = stage.bench.create(&vnfd).await;
        stage.bench.delete(&format!("{INSTANCES}/{instance}")).await;
        stage.refused((&vnfd, &vim), json!({}), &says).await;
        for one in stage.bench.get(INSTANCES).await.body.as_array().unwrap() {
            let id = one["id"].as_str().unwrap();
            assert_eq!(
                stage
                    .bench
                    .delete(&format!("{INSTANCES}/{id}"))
                    .await
                    .status,
                204
            );
        }
        stage.bench.drop_package(&package).await;
    }
    let vnfd = stage.onboard("").await;
    stage
        .refused(
            (&vnfd, &vim),
            json!({"namespace": "kube-system"}),
            &["`kube-system`", "OWN"],
        )
        .await;
    let instance = stage.bench.create(&vnfd).await;
    stage.completes(&instance, &vim, json!({})).await;
    let namespace = stage
        .cluster
        .get_json(&format!("/api/v1/namespaces/vnf-{instance}"))
        .unwrap();
    let enforced = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(enforced, "baseline", "and the cluster holds to it as well");
}

/// What only the cluster knows is refused by a step, and nothing was made.
#[tokio::test]
async fn a_tenant_on_the_vim_of_another_does_not_move_in_with_a_third() {
    let stage = Stage::new().await;
    stage.bench.log_in("root");
    let vim = stage.vim(json!({"shared": true})).await;
    stage.bench.log_in("acme-operator");
    let vnfd = stage.onboard("").await;
    let first = stage.bench.create(&vnfd).await;
    stage
        .completes(&first, &vim, json!({"namespace": "first"}))
        .await;
    let ended = {
        stage.bench.log_in("other-admin");
        let vnfd = stage.onboard("").await;
        let second = stage.bench.create(&vnfd).await;
        let started = stage
            .instantiate(&second, &vim, json!({"namespace": "first"}))
            .await;
        assert_eq!(started.status, 202, "{started:?}");
        stage.bench.ended(&started.made()).await
    };
    assert_eq!(ended["operationState"], "ROLLED_BACK", "{ended:#}");
    let told = ended["error"]["detail"].as_str().unwrap();
    assert!(told.contains("it existed before the VNF"), "{told}");
    assert!(
        !ended.to_string().contains(&first),
        "no other tenant's instance is named: {ended:#}"
    );
}

/// In a namespace that several may use, what is another's is not touched and not named.
#[tokio::test]
async fn an_error_names_no_instance_of_another_tenant() {
    let stage = Stage::new().await;
    stage.bench.log_in("root");
    let vim = stage
        .vim(json!({"shared": true, "policy": {"namespaces": ["common"]}}))
        .await;
    stage.bench.log_in("acme-operator");
    let vnfd = stage.onboard("").await;
    let first = stage.bench.create(&vnfd).await;
    stage
        .completes(&first, &vim, json!({"namespace": "common"}))
        .await;
    stage.bench.log_in("other-admin");
    let vnfd = stage.onboard("").await;
    let second = stage.bench.create(&vnfd).await;
    let started = stage
        .instantiate(&second, &vim, json!({"namespace": "common"}))
        .await;
    let ended = stage.bench.ended(&started.made()).await;
    assert_eq!(ended["operationState"], "ROLLED_BACK", "{ended:#}");
    let told = ended["error"]["detail"].as_str().unwrap();
    assert!(told.contains("it belongs to another instance"), "{told}");
    let log = stage
        .bench
        .get(&format!("/vnfm/v1/op_occs/{}/log", started.made()))
        .await;
    for text in [ended.to_string(), log.text] {
        assert!(!text.contains(&first), "{text}");
    }
}

#[tokio::test]
async fn a_narrowed_role_makes_what_its_plan_shows_to_stay_inside() {
    let stage = Stage::new().await;
    for (more, says) in [
        (
            BINDING,
            ["ClusterRoleBinding `own-the-cluster`", "the rule `kinds`"],
        ),
        (IN_THE_SYSTEM, ["ConfigMap `outside`", "`kube-system`"]),
        (ON_THE_HOST, ["Pod `root`", "podSecurity: baseline"]),
    ] {
        stage.bench.log_in("acme-admin");
        let (package, answer) = stage.bench.upload(with(more)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        let shown = stage
            .bench
            .get(&format!("{}/{package}", crate::bench::PACKAGES))
            .await
            .body;
        let vim = match stage.bench.get(VIMS).await.body.as_array().unwrap().first() {
            Some(vim) => vim["id"].as_str().unwrap().to_owned(),
            None => stage.vim(json!({})).await,
        };
        let vnfd = shown["vnfdId"].as_str().unwrap();
        stage.bench.log_in("narrow");
        stage
            .refused((vnfd, &vim), json!({"namespace": "web"}), &says)
            .await;
        stage.bench.log_in("acme-admin");
        for one in stage.bench.get(INSTANCES).await.body.as_array().unwrap() {
            let id = one["id"].as_str().unwrap();
            assert_eq!(
                stage
                    .bench
                    .delete(&format!("{INSTANCES}/{id}"))
                    .await
                    .status,
                204
            );
        }
        stage.bench.drop_package(&package).await;
    }
}

#[tokio::test]
async fn an_own_vim_has_no_limits_but_those_of_its_policy() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let vnfd = stage.onboard(IN_THE_SYSTEM).await;
    let instance = stage.bench.create(&vnfd).await;
    let path = format!("{VIMS}/{vim}");
    let set = async |policy: Value| {
        let request = stage
            .bench
            .request(Method::PATCH, &path)
            .json(&json!({"policy": policy}));
        stage.bench.send(request).await
    };
    let policy = json!({"namespaces": ["OWN"], "limits": {"pods": 1}});
    assert_eq!(set(policy.clone()).await.status, 200);
    assert_eq!(stage.bench.get(&path).await.body["policy"], policy);
    stage
        .refused(
            (&vnfd, &vim),
            json!({}),
            &["ConfigMap `outside`", "the rule `namespaces`"],
        )
        .await;
    assert_eq!(set(json!({"limits": {"pods": 1}})).await.status, 200);
    stage
        .refused((&vnfd, &vim), json!({}), &["2 pods", "`limits.pods`"])
        .await;
    for (wrong, status) in [
        (json!({"namespaces": ["Web"]}), 422),
        (json!({"impersonate": "admin"}), 422),
        (json!({"kind": []}), 422),
    ] {
        assert_eq!(set(wrong).await.status, status);
    }
    // Without one it is as it was.
    assert_eq!(set(json!({})).await.status, 200);
    assert_eq!(stage.bench.get(&path).await.body["policy"], Value::Null);
    stage.completes(&instance, &vim, json!({})).await;
    assert!(stage.cluster.get_json(OUTSIDE[1]).is_some());
    // Its policy is nobody else's to change.
    stage.bench.log_in("acme-operator");
    assert_eq!(set(json!({})).await.status, 403);
}

/// The calls of an operation are those of the tenant's service account, whose rights the cluster enforces.
#[tokio::test]
async fn an_operation_acts_as_its_tenant_s_account() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let policy = json!({"impersonate": "system:serviceaccount:tenants:{tenant}"});
    let vim = stage.vim(json!({"policy": policy})).await;
    let vnfd = stage.onboard("").await;
    let instance = stage.bench.create(&vnfd).await;
    let started = stage.instantiate(&instance, &vim, json!({})).await;
    let ended = stage.bench.ended(&started.made()).await;
    assert_eq!(ended["operationState"], "ROLLED_BACK", "{ended:#}");
    let told = ended["error"]["detail"].as_str().unwrap();
    assert!(
        told.contains("system:serviceaccount:tenants:acme"),
        "{told}"
    );
}

#[tokio::test]
async fn what_a_request_would_make_is_counted_in_pods_and_bytes() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let vnfd = stage.onboard("").await;
    let instance = stage.bench.create(&vnfd).await;
    let refused = |answer: Answer, setting: &str| {
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (422, &json!("plan.too-large")),
            "{answer:?}"
        );
        assert!(answer.detail().contains(setting), "{}", answer.detail());
    };
    let many = stage
        .instantiate(&instance, &vim, json!({"replicas": 100_000_000}))
        .await;
    refused(many, "`limits.resources` is 10000");
    let engine = &stage.bench.app.engine;
    let (before, mut limits) = (engine.limits(), engine.limits());
    limits.plan.bytes = 700;
    engine.set_limits(limits);
    let large = stage
        .instantiate(&instance, &vim, json!({"greeting": "g".repeat(100)}))
        .await;
    refused(large, "`limits.plan_bytes` is 700");
    engine.set_limits(before);
    stage
        .completes(&instance, &vim, json!({"replicas": 1}))
        .await;
}

#[tokio::test]
async fn a_name_that_no_cluster_stores_is_refused_by_file_and_object() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let odd = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ 7 * 7 }}{% x %}'}\n";
    let vnfd = stage.onboard(odd).await;
    let instance = stage.bench.create(&vnfd).await;
    let refused = stage.instantiate(&instance, &vim, json!({})).await;
    let code = &refused.body["code"];
    assert_eq!(
        (refused.status, code),
        (422, &json!("kubernetes.manifest-invalid")),
        "{refused:?}"
    );
    for part in [
        "service.yaml:",
        "ConfigMap `{{ 7 * 7 }}{% x %}`",
        "`metadata.name`",
    ] {
        assert!(
            refused.detail().contains(part),
            "{part} in {}",
            refused.detail()
        );
    }
    let gone = stage.bench.delete(&format!("{INSTANCES}/{instance}")).await;
    assert_eq!(gone.status, 204, "{gone:?}");
}

#[tokio::test]
async fn a_list_takes_no_policy_away() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage
        .vim(json!({"policy": {"namespaces": ["web"], "limits": {"pods": 3}}}))
        .await;
    let path = format!("{VIMS}/{vim}");
    for policy in [json!([]), json!([["kube-system"]]), json!({"limits": []})] {
        let change = stage
            .bench
            .request(Method::PATCH, &path)
            .json(&json!({"policy": policy}));
        let answer = stage.bench.send(change).await;
        assert_eq!(answer.status, 422, "{policy}: {answer:?}");
        assert!(
            answer.detail().contains("a list instead of an object"),
            "{answer:?}"
        );
    }
    let kept = stage.bench.get(&path).await.body;
    assert_eq!(
        kept["policy"],
        json!({"namespaces": ["web"], "limits": {"pods": 3}}),
        "{kept:#}"
    );
}

#[tokio::test]
async fn an_instance_of_a_narrowed_role_is_made_of_the_same_under_a_wider_one() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let vnfd = stage.onboard("").await;
    let instance = stage.bench.create(&vnfd).await;
    stage.bench.log_in("narrow");
    let evil = format!("x\n---\n{IN_THE_SYSTEM}#");
    stage
        .completes(
            &instance,
            &vim,
            json!({"namespace": "web", "greeting": evil}),
        )
        .await;
    stage.bench.log_in("acme-admin");
    let path = format!("{INSTANCES}/{instance}/heal");
    // What else the wider role asks for is its own affair: the instance stays where it is.
    let healed = stage
        .bench
        .post(
            &path,
            &json!({"additionalParams": {"namespace": "kube-system"}}),
        )
        .await;
    assert_eq!(healed.status, 202, "{healed:?}");
    let ended = stage.bench.ended(&healed.made()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    stage.nothing_is_there();
    for (namespace, is_there) in [("web", true), ("kube-system", false)] {
        let page = format!("/api/v1/namespaces/{namespace}/configmaps/page");
        assert_eq!(stage.cluster.get_json(&page).is_some(), is_there, "{page}");
    }
}
