//! Hostile VIMs: endless responses, and catalogs, redirects and proxies that point to internal addresses. The rules are
//! the same for both drivers ([`DRIVERS`]).

use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm::SystemClock;
use vnfm::sim::hostile_server::{HostileResponse, HostileServer};
use vnfm_core::ports::{InfraDriver, PortError, Vim, VimLogin};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_openstack::OpenStack;
use vnfm_outbound::{Destinations, Networks};
use vnfm_types::{KUBERNETES, OPENSTACK, VimConnectionInfo};

/// The connection of a hostile VIM.
struct HostileVim {
    info: VimConnectionInfo,
    /// Registered, rather than given in a request: errors may quote its responses.
    exposes_responses: bool,
    /// Registered before addresses were checked.
    keeps_address: bool,
}

#[async_trait]
impl Vim for HostileVim {
    fn name(&self) -> &'static str {
        "hostile"
    }
    fn connection_id(&self) -> &'static str {
        "hostile"
    }
    async fn connection(&self) -> Result<VimLogin, PortError> {
        Ok(VimLogin {
            info: self.info.clone(),
            version: 0,
        })
    }
    fn exposes_responses(&self) -> bool {
        self.exposes_responses
    }
    fn keeps_unchecked_address(&self, _: &VimConnectionInfo) -> bool {
        self.keeps_address
    }
}

/// A driver, and how to connect it to a server.
struct Tested {
    /// Prefix of its error codes.
    codes: &'static str,
    driver: fn(Destinations) -> Box<dyn InfraDriver>,
    login: fn(&str) -> VimConnectionInfo,
    /// The code for a proxy at an address that is not allowed.
    forbidden_proxy: &'static str,
    /// How an error names a response with status 404, without and with its text.
    not_found: [&'static str; 2],
}

const DRIVERS: [Tested; 2] = [
    Tested {
        codes: "openstack",
        driver: |to| Box::new(OpenStack::new(Arc::new(SystemClock), to)),
        login: |url| {
            VimConnectionInfo::new(OPENSTACK)
                .interface("endpoint", format!("{url}/v3"))
                .access("username", "u")
                .access("password", "planted-password")
                .access("project", "p")
        },
        forbidden_proxy: "openstack.connection-incomplete",
        not_found: ["it responds 404", "AKIA password=inner (404)"],
    },
    Tested {
        codes: "kubernetes",
        driver: |to| Box::new(KubernetesDriver::new(to)),
        login: |url| {
            VimConnectionInfo::new(KUBERNETES)
                .interface("endpoint", url)
                .access("bearer_token", "planted-token")
        },
        forbidden_proxy: "kubernetes.address",
        not_found: ["it responds with status 404", "AKIA password=inner"],
    },
];

impl Tested {
    fn openstack() -> &'static Self {
        &DRIVERS[0]
    }

    fn vim(&self, url: &str) -> HostileVim {
        HostileVim {
            info: (self.login)(url),
            exposes_responses: false,
            keeps_address: false,
        }
    }

    fn code(&self, name: &str) -> String {
        format!("{}.{name}", self.codes)
    }

    /// The error of a login, where VIMs may be in these networks.
    async fn error(&self, networks: &[&str], vim: &HostileVim) -> PortError {
        // The embedder chooses the provider; this program may have installed one already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let networks: Vec<_> = networks.iter().map(|&text| text.to_owned()).collect();
        let to = Destinations::within(Networks::parse(&networks).unwrap());
        (self.driver)(to).check(vim).await.unwrap_err()
    }

    /// A VIM whose API is the server at `api`: for OpenStack, that is Heat in the catalog of a Keystone.
    async fn with_api(&self, api: &HostileServer) -> (HostileVim, Option<HostileServer>) {
        if self.codes != "openstack" {
            return (self.vim(&api.url()), None);
        }
        let cloud = server("127.0.0.1", keystone(&api.url())).await;
        (self.vim(&cloud.url()), Some(cloud))
    }
}

async fn server(address: &str, response: HostileResponse) -> HostileServer {
    HostileServer::start(address, response).await.unwrap()
}

fn not_found(text: &str) -> HostileResponse {
    HostileResponse::Plain(404, text.to_owned())
}

/// A Keystone whose catalog has Heat at the URL `heat`.
fn keystone(heat: &str) -> HostileResponse {
    let endpoint = json!({"interface": "public", "region_id": "one", "url": heat});
    let token = json!({"token": {"project": {"id": "p"}, "catalog": [
        {"type": "orchestration", "endpoints": [endpoint]}]}});
    HostileResponse::Plain(201, Value::to_string(&token))
}

#[tokio::test]
async fn an_endless_response_is_a_permanent_error() {
    for tested in &DRIVERS {
        for lie in [
            HostileResponse::Endless,
            HostileResponse::Huge,
            HostileResponse::Values(1_000_000),
        ] {
            let vim = server("127.0.0.1", lie.clone()).await;
            let error = tested.error(&["127.0.0.1"], &tested.vim(&vim.url())).await;
            assert_eq!(
                error.name(),
                tested.code("answer-too-large"),
                "{lie:?}: {error}"
            );
            assert!(!error.is_unavailable(), "{lie:?}: a retry would not help");
            assert!(
                vim.sent() < 64 << 20,
                "{lie:?}: {} bytes were sent",
                vim.sent()
            );
        }
    }
}

#[tokio::test]
async fn loopback_is_refused_by_default_with_a_hint_to_the_setting() {
    for tested in &DRIVERS {
        let inner = server("127.0.0.1", not_found("inner")).await;
        for url in [&*inner.url(), "https://localhost:6443"] {
            let error = tested.error(&[], &tested.vim(url)).await;
            assert_eq!(error.name(), tested.code("address"), "{error}");
            assert!(error.next().contains("vims.networks"), "{}", error.next());
        }
        assert!(inner.seen().is_empty(), "{:?}", inner.seen());
    }
}

#[tokio::test]
async fn a_proxy_is_checked_like_any_address() {
    for tested in &DRIVERS {
        let proxy = server("127.0.0.1", HostileResponse::Endless).await;
        let mut vim = tested.vim("https://192.0.2.9:5000");
        vim.info.extra.insert("proxy".into(), json!(proxy.url()));
        let error = tested.error(&[], &vim).await;
        assert_eq!(error.name(), tested.forbidden_proxy, "{error}");
        assert!(
            error.to_string().contains("127.0.0.1 is not allowed"),
            "{error}"
        );
        assert!(proxy.seen().is_empty(), "{:?}", proxy.seen());
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_login() {
    for tested in &DRIVERS {
        let inner = server("127.0.0.1", HostileResponse::Plain(200, String::new())).await;
        let vim = server("127.0.0.1", HostileResponse::Redirect(inner.url())).await;
        tested.error(&["127.0.0.1"], &tested.vim(&vim.url())).await;
        assert!(!vim.seen().is_empty());
        assert!(inner.seen().is_empty(), "{:?}", inner.seen());
    }
}

#[tokio::test]
async fn response_bodies_are_shown_only_for_registered_vims() {
    // OpenStack shows any text, Kubernetes the message of a Status.
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "AKIA password=inner", "reason": "NotFound", "code": 404});
    for (tested, text) in DRIVERS
        .iter()
        .zip(["AKIA password=inner", &status.to_string()])
    {
        let api = server("127.0.0.1", not_found(text)).await;
        let (from_request, _cloud) = tested.with_api(&api).await;
        let [without_text, with_text] = tested.not_found;
        let error = tested
            .error(&["127.0.0.1"], &from_request)
            .await
            .to_string();
        assert!(
            error.contains(without_text) && !error.contains("AKIA"),
            "{error}"
        );
        let registered = HostileVim {
            exposes_responses: true,
            ..from_request
        };
        let error = tested.error(&["127.0.0.1"], &registered).await.to_string();
        assert!(error.contains(with_text), "{error}");
    }
}

#[tokio::test]
async fn a_vim_registered_before_the_rule_keeps_its_address() {
    for tested in &DRIVERS {
        let api = server("127.0.0.1", not_found("api")).await;
        let (vim, _cloud) = tested.with_api(&api).await;
        let legacy = HostileVim {
            keeps_address: true,
            ..vim
        };
        let error = tested.error(&[], &legacy).await;
        assert!(
            error.to_string().contains(tested.not_found[0]),
            "it was called: {error}"
        );
        assert!(!api.seen().is_empty());
    }
}

#[tokio::test]
async fn such_a_vim_keeps_no_other_address() {
    let tested = Tested::openstack();
    let cloud = server("127.0.0.1", keystone("http://169.254.169.254/latest")).await;
    let legacy = HostileVim {
        keeps_address: true,
        ..tested.vim(&cloud.url())
    };
    let error = tested.error(&[], &legacy).await;
    assert_eq!(error.name(), "openstack.address", "{error}");
}

#[tokio::test]
async fn a_catalog_endpoint_on_an_internal_address_is_not_called() {
    let tested = Tested::openstack();
    let inner = server("127.0.0.2", not_found("inner secret")).await;
    let cloud = server("127.0.0.1", keystone(&inner.url())).await;
    let error = tested
        .error(&["127.0.0.1"], &tested.vim(&cloud.url()))
        .await;
    assert_eq!(error.name(), "openstack.address", "{error}");
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}
