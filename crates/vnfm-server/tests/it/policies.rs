//! Policies of a VIM: what a tenant on another tenant's VIM, and a role with a scope, cannot create on a cluster.

use crate::bench::{Bench, HASHED, INSTANCES, Response, Setup, VIMS, packed};
use crate::tenants::users;
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{Cursor, Read as _, Write as _};
use std::sync::Arc;
use vnfm_sim::faults::Faults;
use vnfm_sim::kubernetes::{Cluster, ClusterSpec, Clusters};
use vnfm_sim::ledger::Ledger;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

/// A server with a simulated cluster.
pub(crate) struct Stage {
    pub(crate) bench: Bench,
    pub(crate) cluster: Arc<Cluster>,
    _clusters: Clusters,
}

/// A user of `acme` with a scope of one namespace.
fn narrowed() -> String {
    let gets = "gets: {tenant: acme, role: operate, namespaces: [web]}";
    format!("- {{name: narrow, password_hash: '{HASHED}', {gets}}}\n")
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let clusters = Clusters::new(Ledger::new(), Faults::new());
        let spec = ClusterSpec {
            name: "one".into(),
            address: [127, 0, 0, 1].into(),
            port: 0,
        };
        let cluster = clusters.start(spec).await.unwrap();
        cluster.make_standalone("node-1", [127, 0, 0, 1].into());
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

    /// Registers the cluster as the current user, with the additional members `more`; returns its id.
    pub(crate) async fn vim(&self, more: Value) -> String {
        let mut vim = json!({"name": "cluster", "connection": self.connection()});
        vim.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let response = self.bench.post(VIMS, &vim).await;
        assert_eq!(response.status, 201, "{response:?}");
        response.id()
    }

    /// Onboards VNF-B with `more` in one of its manifests; returns the id of its VNFD.
    pub(crate) async fn onboard(&self, more: &str) -> String {
        let (id, response) = self.bench.upload(with(more)).await;
        assert_eq!(response.status, 202, "{response:?}");
        let info = self
            .bench
            .get(&format!("{}/{id}", crate::bench::PACKAGES))
            .await
            .body;
        assert_eq!(info["onboardingState"], "ONBOARDED", "{info:#}");
        info["vnfdId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn instantiate(&self, instance: &str, vim: &str, params: Value) -> Response {
        let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}},
            "additionalParams": params});
        self.bench
            .post(&format!("{INSTANCES}/{instance}/instantiate"), &request)
            .await
    }

    /// Asserts that the request gets 422 with these texts, and that the cluster was not changed.
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

    /// Instantiates, and asserts that it completes.
    pub(crate) async fn completes(&self, instance: &str, vim: &str, params: Value) {
        let started = self.instantiate(instance, vim, params).await;
        assert_eq!(started.status, 202, "{started:?}");
        let ended = self.bench.ended(&started.created_id()).await;
        assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    }

    pub(crate) fn nothing_is_there(&self) {
        for path in OUTSIDE {
            assert!(self.cluster.object(path).is_none(), "{path}");
        }
    }
}

/// Paths of the objects outside the allowed namespace.
const OUTSIDE: &[&str] = &[
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/own-the-cluster",
    "/api/v1/namespaces/kube-system/configmaps/outside",
    "/api/v1/namespaces/web/pods/root",
];

pub(crate) const BINDING: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: own-the-cluster}\n\
    roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n\
    subjects: [{kind: ServiceAccount, name: default, namespace: web}]\n";
pub(crate) const IN_THE_SYSTEM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: outside, namespace: kube-system}\ndata: {a: b}\n";
const ON_THE_HOST: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: root}\n\
    spec: {hostNetwork: true, hostPID: true, containers: [{name: a, image: localhost/busybox:1}]}\n";

/// VNF-B with more documents in the manifest of its Service.
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
async fn a_tenant_on_a_shared_vim_stays_in_its_own_namespace() {
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
        let (package, response) = stage.bench.upload(with(more)).await;
        assert_eq!(response.status, 202, "{response:?}");
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
        .object(&format!("/api/v1/namespaces/vnf-{instance}"))
        .unwrap();
    let enforced = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(enforced, "baseline", "the cluster enforces it too");
}

/// A violation that only the cluster can detect is refused by a step, before anything is created.
#[tokio::test]
async fn a_tenant_on_a_shared_vim_cannot_use_another_tenants_namespace() {
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
        stage.bench.ended(&started.created_id()).await
    };
    assert_eq!(ended["operationState"], "ROLLED_BACK", "{ended:#}");
    let detail = ended["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("it existed before the VNF"), "{detail}");
    assert!(
        !ended.to_string().contains(&first),
        "no other tenant's instance is named: {ended:#}"
    );
}

/// In a shared namespace, objects of other tenants are neither changed nor named.
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
    let ended = stage.bench.ended(&started.created_id()).await;
    assert_eq!(ended["operationState"], "ROLLED_BACK", "{ended:#}");
    let detail = ended["error"]["detail"].as_str().unwrap();
    assert!(
        detail.contains("it belongs to another instance"),
        "{detail}"
    );
    let log = stage
        .bench
        .get(&format!("/vnfm/v1/op_occs/{}/log", started.created_id()))
        .await;
    for text in [ended.to_string(), log.text] {
        assert!(!text.contains(&first), "{text}");
    }
}

#[tokio::test]
async fn a_role_with_a_scope_can_only_create_objects_inside_it() {
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
        let (package, response) = stage.bench.upload(with(more)).await;
        assert_eq!(response.status, 202, "{response:?}");
        let info = stage
            .bench
            .get(&format!("{}/{package}", crate::bench::PACKAGES))
            .await
            .body;
        let vim = match stage.bench.get(VIMS).await.body.as_array().unwrap().first() {
            Some(vim) => vim["id"].as_str().unwrap().to_owned(),
            None => stage.vim(json!({})).await,
        };
        let vnfd = info["vnfdId"].as_str().unwrap();
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
async fn a_tenants_own_vim_is_limited_only_by_its_policy() {
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
    // Without a policy nothing is limited.
    assert_eq!(set(json!({})).await.status, 200);
    assert_eq!(stage.bench.get(&path).await.body["policy"], Value::Null);
    stage.completes(&instance, &vim, json!({})).await;
    assert!(stage.cluster.object(OUTSIDE[1]).is_some());
    // Only an admin of its tenant can change its policy.
    stage.bench.log_in("acme-operator");
    assert_eq!(set(json!({})).await.status, 403);
}

/// The calls of an operation impersonate the service account of the tenant, whose rights the cluster enforces.
#[tokio::test]
async fn an_operation_impersonates_the_tenants_service_account() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let policy = json!({"impersonate": "system:serviceaccount:tenants:{tenant}"});
    let vim = stage.vim(json!({"policy": policy})).await;
    let vnfd = stage.onboard("").await;
    let instance = stage.bench.create(&vnfd).await;
    let started = stage.instantiate(&instance, &vim, json!({})).await;
    let ended = stage.bench.ended(&started.created_id()).await;
    assert_eq!(ended["operationState"], "ROLLED_BACK", "{ended:#}");
    let detail = ended["error"]["detail"].as_str().unwrap();
    assert!(
        detail.contains("system:serviceaccount:tenants:acme"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_list_does_not_replace_a_policy() {
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
        let response = stage.bench.send(change).await;
        assert_eq!(response.status, 422, "{policy}: {response:?}");
        assert!(
            response.detail().contains("a list instead of an object"),
            "{response:?}"
        );
    }
    let current = stage.bench.get(&path).await.body;
    assert_eq!(
        current["policy"],
        json!({"namespaces": ["web"], "limits": {"pods": 3}}),
        "{current:#}"
    );
}

#[tokio::test]
async fn a_heal_by_a_wider_role_keeps_the_scope_of_the_instance() {
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
    // The request of the wider role cannot move the instance.
    let healed = stage
        .bench
        .post(
            &path,
            &json!({"additionalParams": {"namespace": "kube-system"}}),
        )
        .await;
    assert_eq!(healed.status, 202, "{healed:?}");
    let ended = stage.bench.ended(&healed.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    stage.nothing_is_there();
    for (namespace, is_there) in [("web", true), ("kube-system", false)] {
        let page = format!("/api/v1/namespaces/{namespace}/configmaps/page");
        assert_eq!(stage.cluster.object(&page).is_some(), is_there, "{page}");
    }
}

const NETWORKS: &str = "apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: data-1, namespace: web}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: data-2, namespace: web}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: data-3, namespace: other}
";

#[tokio::test]
async fn links_lead_no_role_to_networks_outside_its_namespaces() {
    let stage = Stage::new().await;
    stage.cluster.install_networks().unwrap();
    stage.cluster.apply(NETWORKS).unwrap();
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let (_, vnfd) = stage.bench.onboard("cnf-networks").await;
    let instance = stage.bench.create(&vnfd).await;
    let on = |network: &str| {
        json!({"extVirtualLinks": [{"id": "data", "resourceId": network,
            "extCps": [{"cpdId": "dataCP", "cpConfig": {"any": {}}}]}]})
    };
    let mut request = on("web/data-1");
    request["flavourId"] = json!("simple");
    request["vimConnectionInfo"] = json!({"vim1": {"vimId": vim}});
    request["additionalParams"] = json!({"namespace": "web"});
    let path = format!("{INSTANCES}/{instance}");
    let started = stage
        .bench
        .post(&format!("{path}/instantiate"), &request)
        .await;
    assert_eq!(started.status, 202, "{started:?}");
    let ended = stage.bench.ended(&started.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");

    stage.bench.log_in("narrow");
    let change = format!("{path}/change_ext_conn");
    let refused = stage.bench.post(&change, &on("other/data-3")).await;
    let code = &refused.body["code"];
    assert_eq!(
        (refused.status, code),
        (422, &json!("kubernetes.policy")),
        "{refused:?}"
    );
    assert!(refused.detail().contains("other/data-3"), "{refused:?}");
    let moved = stage.bench.post(&change, &on("web/data-2")).await;
    assert_eq!(moved.status, 202, "{moved:?}");
    let ended = stage.bench.ended(&moved.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
}
