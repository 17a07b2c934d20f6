//! Hostile clouds: endless responses, and catalogs, redirects and proxies that point to internal addresses.

use crate::support::TokioClock;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{InfraDriver as _, PortError, SecretConnection, Vim, VimLogin};
use vnfm_openstack::OpenStack;
use vnfm_outbound::{Destinations, Networks};
use vnfm_sim::hostile_server::{HostileResponse, HostileServer};
use vnfm_types::VimConnectionInfo;

/// The connection of a hostile VIM.
struct HostileVim {
    info: VimConnectionInfo,
    /// Registered, rather than given in a request: errors may quote its responses.
    registered: bool,
    /// Registered before addresses were checked.
    keeps_address: bool,
}

impl HostileVim {
    fn at(endpoint: &str) -> Self {
        let info = json!({"vimType": "openstack", "interfaceInfo": {"endpoint": format!("{endpoint}/v3")},
            "accessInfo": {"username": "u", "password": "planted-password", "project": "p"}});
        Self {
            info: serde_json::from_value(info).unwrap(),
            registered: false,
            keeps_address: false,
        }
    }
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
            info: SecretConnection(self.info.clone()),
            version: 0,
        })
    }
    fn exposes_responses(&self) -> bool {
        self.registered
    }
    fn keeps_unchecked_address(&self, _: &VimConnectionInfo) -> bool {
        self.keeps_address
    }
}

async fn check(networks: &[&str], vim: &HostileVim) -> PortError {
    let networks: Vec<_> = networks.iter().map(|&text| text.to_owned()).collect();
    let to = Destinations::within(Networks::parse(&networks).unwrap());
    OpenStack::new(Arc::new(TokioClock::default()), to)
        .check(vim)
        .await
        .unwrap_err()
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
    for lie in [
        HostileResponse::Endless,
        HostileResponse::Huge,
        HostileResponse::Values(1_000_000),
    ] {
        let cloud = HostileServer::start("127.0.0.1", lie.clone())
            .await
            .unwrap();
        let error = check(&["127.0.0.1"], &HostileVim::at(&cloud.url())).await;
        assert_eq!(
            error.name(),
            "openstack.answer-too-large",
            "{lie:?}: {error}"
        );
        assert!(!error.is_unavailable(), "{lie:?}: a retry would not help");
        assert!(
            cloud.sent() < 64 << 20,
            "{lie:?}: {} bytes were sent",
            cloud.sent()
        );
    }
}

#[tokio::test]
async fn loopback_is_refused_by_default_with_a_hint_to_the_setting() {
    let cloud = HostileServer::start("127.0.0.1", HostileResponse::Endless)
        .await
        .unwrap();
    let error = check(&[], &HostileVim::at(&cloud.url())).await;
    assert_eq!(error.name(), "openstack.address", "{error}");
    assert!(error.next().contains("vims.networks"), "{}", error.next());
    assert!(cloud.seen().is_empty(), "{:?}", cloud.seen());
}

#[tokio::test]
async fn a_catalog_endpoint_on_an_internal_address_is_not_called() {
    let inner = HostileServer::start(
        "127.0.0.2",
        HostileResponse::Plain(404, "inner secret".into()),
    )
    .await
    .unwrap();
    let cloud = HostileServer::start("127.0.0.1", keystone(&inner.url()))
        .await
        .unwrap();
    let error = check(&["127.0.0.1"], &HostileVim::at(&cloud.url())).await;
    assert_eq!(error.name(), "openstack.address", "{error}");
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_password() {
    let inner = HostileServer::start("127.0.0.1", HostileResponse::Plain(200, String::new()))
        .await
        .unwrap();
    let cloud = HostileServer::start("127.0.0.1", HostileResponse::Redirect(inner.url()))
        .await
        .unwrap();
    check(&["127.0.0.1"], &HostileVim::at(&cloud.url())).await;
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}

#[tokio::test]
async fn a_proxy_is_checked_like_any_address() {
    let proxy = HostileServer::start("127.0.0.1", HostileResponse::Endless)
        .await
        .unwrap();
    let mut vim = HostileVim::at("http://192.0.2.9:5000");
    vim.info.extra.insert("proxy".into(), json!(proxy.url()));
    let error = check(&[], &vim).await;
    assert!(
        error.to_string().contains("127.0.0.1 is not allowed"),
        "{error}"
    );
    assert!(proxy.seen().is_empty(), "{:?}", proxy.seen());
}

#[tokio::test]
async fn response_bodies_are_shown_only_for_registered_vims() {
    let heat = HostileServer::start(
        "127.0.0.1",
        HostileResponse::Plain(404, "AKIA password=inner".into()),
    )
    .await;
    let heat = heat.unwrap();
    let cloud = HostileServer::start("127.0.0.1", keystone(&heat.url()))
        .await
        .unwrap();
    let from_request = HostileVim::at(&cloud.url());
    let error = check(&["127.0.0.1"], &from_request).await.to_string();
    assert!(
        error.contains("it responds 404") && !error.contains("AKIA"),
        "{error}"
    );
    let registered = HostileVim {
        registered: true,
        ..from_request
    };
    let error = check(&["127.0.0.1"], &registered).await.to_string();
    assert!(error.contains("AKIA password=inner (404)"), "{error}");
}

#[tokio::test]
async fn a_vim_registered_before_the_rule_keeps_only_its_own_address() {
    let heat = HostileServer::start("127.0.0.1", HostileResponse::Plain(404, "heat".into()))
        .await
        .unwrap();
    let cloud = HostileServer::start("127.0.0.1", keystone(&heat.url()))
        .await
        .unwrap();
    let legacy = HostileVim {
        keeps_address: true,
        ..HostileVim::at(&cloud.url())
    };
    let error = check(&[], &legacy).await;
    assert!(
        error.to_string().contains("it responds 404"),
        "the cloud was called: {error}"
    );
    let metadata = keystone("http://169.254.169.254/latest");
    let cloud = HostileServer::start("127.0.0.1", metadata).await.unwrap();
    let error = check(
        &[],
        &HostileVim {
            keeps_address: true,
            ..HostileVim::at(&cloud.url())
        },
    )
    .await;
    assert_eq!(error.name(), "openstack.address", "{error}");
}
