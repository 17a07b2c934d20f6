//! The program among malicious peers: it survives, its operations end, and its memory stays bounded.

use crate::bench::{HASHED, PASSWORD, packed};
use crate::process::{Server, started, with_config};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use vnfm::outbound::{Destinations, Networks};
use vnfm::{Hosts, RememberedHostKeys};
use vnfm_core::ports::{HostServices as _, HttpRequest, SshTarget};
use vnfm_sim::hostile_server::{HostileResponse, HostileServer};

/// Memory limit in KiB: more than the server ever needs, far less than an endless response.
const MOST: u64 = 600 << 10;

struct Site {
    _folder: tempfile::TempDir,
    server: Server,
    http: Client,
}

impl Site {
    /// A server with the user ann and these settings.
    fn with(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("vnfm.yaml");
        let access = format!(
            "access: {{users: [{{name: ann, password_hash: '{HASHED}', gets: {{tenant: default, role: admin}}}}]}}\n{more}\n"
        );
        std::fs::write(&config, access).unwrap();
        let server = started(&mut with_config(&folder.path().join("data"), &config));
        Self {
            _folder: folder,
            server,
            http: Client::builder().no_proxy().build().unwrap(),
        }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let request = self
            .http
            .request(method, format!("{}{path}", self.server.url));
        let request = request
            .basic_auth("ann", Some(PASSWORD))
            .header("version", "2.3.0");
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let response = request.send().await.unwrap();
        let resource_path = response
            .headers()
            .get("location")
            .and_then(|resource_path| resource_path.to_str().ok());
        let id = resource_path
            .and_then(|resource_path| resource_path.rsplit('/').next())
            .map(ToOwned::to_owned);
        let status = response.status().as_u16();
        let mut body: Value = response.json().await.unwrap_or_default();
        if let Some(id) = id.filter(|_| body.is_null()) {
            body = json!({ "id": id });
        }
        (status, body)
    }

    /// Onboards a sample; returns the id of its VNFD.
    async fn onboarded(&self, sample: &str) -> Value {
        let packages = "/vnfpkgm/v2/vnf_packages";
        let (_, package) = self.call(Method::POST, packages, Some(&json!({}))).await;
        let resource_path = format!("{packages}/{}", package["id"].as_str().unwrap());
        let content = self.http.put(format!(
            "{}{resource_path}/package_content",
            self.server.url
        ));
        let content = content
            .basic_auth("ann", Some(PASSWORD))
            .header("version", "2.3.0");
        let content = content
            .header("content-type", "application/zip")
            .body(packed(sample));
        assert_eq!(content.send().await.unwrap().status(), 202);
        let (_, package) = self.call(Method::GET, &resource_path, None).await;
        package["vnfdId"].clone()
    }

    /// Creates an instance of a VNFD; returns its id.
    async fn instance(&self, vnfd: &Value) -> String {
        let create = json!({ "vnfdId": vnfd });
        let (status, created) = self
            .call(Method::POST, "/vnflcm/v2/vnf_instances", Some(&create))
            .await;
        assert_eq!(status, 201, "{created}");
        created["id"].as_str().unwrap().to_owned()
    }

    /// Instantiates on an inline connection; returns the operation once it is no longer driven.
    async fn instantiated(&self, vnfd: &Value, request: &Value) -> Value {
        let id = self.instance(vnfd).await;
        let path = format!("/vnflcm/v2/vnf_instances/{id}/instantiate");
        let (status, op) = self.call(Method::POST, &path, Some(request)).await;
        assert_eq!(status, 202, "{op}");
        let op = op["id"].as_str().unwrap().to_owned();
        self.call(Method::GET, &format!("/vnfm/v1/op_occs/{op}/events"), None)
            .await;
        self.call(
            Method::GET,
            &format!("/vnflcm/v2/vnf_lcm_op_occs/{op}"),
            None,
        )
        .await
        .1
    }

    /// Peak memory of the server, in KiB.
    fn peak(&self) -> u64 {
        let status = format!("/proc/{}/status", self.server.process.id());
        let status = std::fs::read_to_string(status).unwrap();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        peak.split_whitespace().next().unwrap().parse().unwrap()
    }
}

/// A request with an inline connection to a VIM of this type.
fn request(vim_type: &str, endpoint: &str) -> Value {
    let access = json!({"username": "u", "password": "planted-password", "project": "p"});
    let (flavour, access) = match vim_type {
        vnfm_types::KUBERNETES => ("simple", json!({"bearer_token": "planted-token"})),
        _ => ("redundant", access),
    };
    let connection =
        json!({"vimType": vim_type, "interfaceInfo": {"endpoint": endpoint}, "accessInfo": access});
    let points = ["frontService", "backService"].map(|cpd| {
        json!({"cpdId": cpd, "cpConfig": {"any": {"cpProtocolData": [{"layerProtocol": "IP_OVER_ETHERNET",
            "ipOverEthernet": {"ipAddresses": [{"type": "IPV4", "numDynamicAddresses": 1}]}}]}}})
    });
    let links = json!([{"id": "external", "resourceId": "network", "extCps": points}]);
    let links = if flavour == "redundant" {
        links
    } else {
        json!([])
    };
    json!({"flavourId": flavour, "vimConnectionInfo": {"vim1": connection}, "extVirtualLinks": links})
}

/// VIM types with a sample for each.
const KINDS: [(&str, &str); 2] = [
    (vnfm_types::OPENSTACK, "vnf-flavours"),
    (vnfm_types::KUBERNETES, "vnf-b-cnf"),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_response_of_a_vim_fails_only_its_operation() {
    let site = Site::with("vims: {networks: ['127.0.0.0/8']}");
    for (vim_type, sample) in KINDS {
        let vnfd = site.onboarded(sample).await;
        for lie in [
            HostileResponse::Endless,
            HostileResponse::Huge,
            HostileResponse::Values(2_000_000),
        ] {
            let vim = HostileServer::start("127.0.0.1", lie.clone())
                .await
                .unwrap();
            let op = site
                .instantiated(&vnfd, &request(vim_type, &vim.url()))
                .await;
            let ended = ["FAILED_TEMP", "ROLLED_BACK"];
            assert!(
                ended.iter().any(|state| op["operationState"] == *state),
                "{lie:?}: {op:#}"
            );
            let detail = op["error"]["detail"].as_str().unwrap_or_default();
            assert!(
                detail.contains("larger than") || detail.contains("more than"),
                "{op:#}"
            );
            assert!(!vim.seen().is_empty());
        }
    }
    assert!(site.peak() < MOST, "{} KiB", site.peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_vim_on_the_servers_host_is_not_called() {
    let site = Site::with("");
    for (vim_type, sample) in KINDS {
        let vnfd = site.onboarded(sample).await;
        let inner = HostileResponse::Plain(404, "INNER AKIA password=inner-secret".into());
        let inner = HostileServer::start("127.0.0.1", inner).await.unwrap();
        let op = site
            .instantiated(&vnfd, &request(vim_type, &inner.url()))
            .await;
        let detail = op["error"]["detail"].as_str().unwrap_or_default();
        assert!(detail.contains("127.0.0.1 is not allowed"), "{op:#}");
        let connection = request(vim_type, &inner.url())["vimConnectionInfo"]["vim1"].clone();
        let vim = json!({"name": "inner", "connection": connection});
        let (status, refused) = site.call(Method::POST, "/vnfm/v1/vims", Some(&vim)).await;
        assert_eq!(status, 422, "{refused:#}");
        assert!(refused.to_string().contains("vims.networks"), "{refused:#}");
        assert!(inner.seen().is_empty(), "{:?}", inner.seen());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_response_of_keystone_refuses_the_login_and_blocks_no_other() {
    for lie in [
        HostileResponse::Endless,
        HostileResponse::Huge,
        HostileResponse::Values(2_000_000),
    ] {
        let keystone = HostileServer::start("127.0.0.1", lie.clone())
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let password = file("password", "planted-password");
        let config = file(
            "vnfm.yaml",
            &format!(
                "access: {{keystone: {{endpoint: '{}/v3', user: u, project: p, password_file: {}, rules: [{{gets: {{role: read}}}}]}}}}",
                keystone.url(),
                password.display()
            ),
        );
        let server = started(&mut with_config(&folder.path().join("data"), &config));
        let http = Client::builder().no_proxy().build().unwrap();
        let site = Site {
            _folder: folder,
            server,
            http,
        };
        let request = site
            .http
            .get(format!("{}/vnflcm/v2/vnf_instances", site.server.url));
        let request = request
            .header("x-auth-token", "t")
            .header("version", "2.3.0");
        let status = request.send().await.unwrap().status().as_u16();
        assert!([401, 503].contains(&status), "{lie:?}: {status}");
        assert!(!keystone.seen().is_empty());
        assert!(site.peak() < MOST, "{lie:?}: {} KiB", site.peak());
    }
}

fn hosts(networks: &[&str]) -> Hosts {
    let networks: Vec<_> = networks.iter().map(|&text| text.to_owned()).collect();
    let to = Destinations::within(Networks::parse(&networks).unwrap());
    Hosts::with_host_keys(Arc::new(RememberedHostKeys::default()), to)
}

/// A request that a hook sends.
fn get(url: &str) -> HttpRequest {
    HttpRequest::new("GET", url).timeout(Duration::from_secs(20))
}

#[tokio::test]
async fn an_endless_response_to_a_hook_is_cut_at_the_limit() {
    for lie in [HostileResponse::Endless, HostileResponse::Huge] {
        let target = HostileServer::start("127.0.0.1", lie.clone())
            .await
            .unwrap();
        let error = hosts(&["127.0.0.1"])
            .http(&get(&target.url()))
            .await
            .unwrap_err();
        assert_eq!(error.name(), "hook.http-too-large", "{lie:?}: {error}");
        assert!(
            target.sent() < 64 << 20,
            "{lie:?}: {} bytes were sent",
            target.sent()
        );
    }
}

#[tokio::test]
async fn a_hook_can_call_neither_the_servers_host_nor_a_redirect_target() {
    let inner = HostileServer::start("127.0.0.1", HostileResponse::Plain(200, "inner".into()))
        .await
        .unwrap();
    let error = hosts(&[]).http(&get(&inner.url())).await.unwrap_err();
    assert_eq!(error.name(), "hook.http-address", "{error}");
    let outer = HostileServer::start("127.0.0.1", HostileResponse::Redirect(inner.url()))
        .await
        .unwrap();
    let response = hosts(&["127.0.0.1"])
        .http(&get(&outer.url()))
        .await
        .unwrap();
    assert_eq!(
        response.status, 302,
        "only the hook may follow the redirect"
    );
    let port: u16 = inner.url().rsplit(':').next().unwrap().parse().unwrap();
    let target = SshTarget::new("server", "127.0.0.1", "root").port(port);
    let error = hosts(&[])
        .ssh_wait(&target.into(), 5, &())
        .await
        .unwrap_err();
    assert_eq!(error.name(), "ssh.address", "{error}");
    let jump = SshTarget::new("jump", "localhost", "root").port(port);
    let behind = SshTarget::new("server", "192.0.2.1", "root").jump(jump);
    let error = hosts(&[])
        .ssh_wait(&behind.into(), 5, &())
        .await
        .unwrap_err();
    assert_eq!(error.name(), "ssh.address", "{error}");
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}
