//! Clouds that lie: endless answers, catalogs and redirects that lead inward, a proxy inside.

use crate::support::TokioClock;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{InfraDriver as _, PortError, SecretConnection, Vim, VimLogin};
use vnfm_openstack::OpenStack;
use vnfm_outbound::{Destinations, Networks};
use vnfm_sim::liar::{Liar, Lie};
use vnfm_types::VimConnectionInfo;

/// A connection that came with a request, or one that is registered or kept.
struct Given {
    info: VimConnectionInfo,
    shown: bool,
    kept: bool,
}

impl Given {
    fn at(endpoint: &str) -> Self {
        let info = json!({"vimType": "openstack", "interfaceInfo": {"endpoint": format!("{endpoint}/v3")},
            "accessInfo": {"username": "u", "password": "planted-password", "project": "p"}});
        Self {
            info: serde_json::from_value(info).unwrap(),
            shown: false,
            kept: false,
        }
    }
}

#[async_trait]
impl Vim for Given {
    fn name(&self) -> &'static str {
        "given"
    }
    fn connection_id(&self) -> &'static str {
        "given"
    }
    async fn connection(&self) -> Result<VimLogin, PortError> {
        Ok(VimLogin {
            info: SecretConnection(self.info.clone()),
            version: 0,
        })
    }
    fn exposes_responses(&self) -> bool {
        self.shown
    }
    fn keeps_unchecked_address(&self, _: &VimConnectionInfo) -> bool {
        self.kept
    }
}

async fn check(networks: &[&str], vim: &Given) -> PortError {
    let networks: Vec<_> = networks.iter().map(|&text| text.to_owned()).collect();
    let to = Destinations::within(Networks::parse(&networks).unwrap());
    OpenStack::new(Arc::new(TokioClock::default()), to)
        .check(vim)
        .await
        .unwrap_err()
}

/// A Keystone whose catalog has Heat there.
fn keystone(heat: &str) -> Lie {
    let endpoint = json!({"interface": "public", "region_id": "one", "url": heat});
    let token = json!({"token": {"project": {"id": "p"}, "catalog": [
        {"type": "orchestration", "endpoints": [endpoint]}]}});
    Lie::Plain(201, Value::to_string(&token))
}

#[tokio::test]
async fn an_answer_without_an_end_is_an_error_that_lasts() {
    for lie in [Lie::Endless, Lie::Huge, Lie::Values(1_000_000)] {
        let cloud = Liar::start("127.0.0.1", lie.clone()).await.unwrap();
        let error = check(&["127.0.0.1"], &Given::at(&cloud.url())).await;
        assert_eq!(
            error.name(),
            "openstack.answer-too-large",
            "{lie:?}: {error}"
        );
        assert!(
            !error.is_unavailable(),
            "{lie:?}: tried again it would be the same"
        );
        assert!(
            cloud.sent() < 64 << 20,
            "{lie:?}: {} bytes were sent",
            cloud.sent()
        );
    }
}

#[tokio::test]
async fn loopback_is_refused_by_default_and_named_with_the_setting() {
    let cloud = Liar::start("127.0.0.1", Lie::Endless).await.unwrap();
    let error = check(&[], &Given::at(&cloud.url())).await;
    assert_eq!(error.name(), "openstack.address", "{error}");
    assert!(error.next().contains("vims.networks"), "{}", error.next());
    assert!(cloud.seen().is_empty(), "{:?}", cloud.seen());
}

#[tokio::test]
async fn a_catalog_that_points_inward_is_not_followed() {
    let inner = Liar::start("127.0.0.2", Lie::Plain(404, "inner secret".into()))
        .await
        .unwrap();
    let cloud = Liar::start("127.0.0.1", keystone(&inner.url()))
        .await
        .unwrap();
    let error = check(&["127.0.0.1"], &Given::at(&cloud.url())).await;
    assert_eq!(error.name(), "openstack.address", "{error}");
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}

#[tokio::test]
async fn a_redirect_takes_no_password_along() {
    let inner = Liar::start("127.0.0.1", Lie::Plain(200, String::new()))
        .await
        .unwrap();
    let cloud = Liar::start("127.0.0.1", Lie::Redirect(inner.url()))
        .await
        .unwrap();
    check(&["127.0.0.1"], &Given::at(&cloud.url())).await;
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}

#[tokio::test]
async fn a_proxy_is_checked_like_any_address() {
    let proxy = Liar::start("127.0.0.1", Lie::Endless).await.unwrap();
    let mut vim = Given::at("http://192.0.2.9:5000");
    vim.info.extra.insert("proxy".into(), json!(proxy.url()));
    let error = check(&[], &vim).await;
    assert!(
        error.to_string().contains("127.0.0.1 is not allowed"),
        "{error}"
    );
    assert!(proxy.seen().is_empty(), "{:?}", proxy.seen());
}

#[tokio::test]
async fn what_answers_is_shown_for_registered_vims_alone() {
    let heat = Liar::start("127.0.0.1", Lie::Plain(404, "AKIA password=inner".into())).await;
    let heat = heat.unwrap();
    let cloud = Liar::start("127.0.0.1", keystone(&heat.url()))
        .await
        .unwrap();
    let given = Given::at(&cloud.url());
    let error = check(&["127.0.0.1"], &given).await.to_string();
    assert!(
        error.contains("it answers 404") && !error.contains("AKIA"),
        "{error}"
    );
    let registered = Given {
        shown: true,
        ..given
    };
    let error = check(&["127.0.0.1"], &registered).await.to_string();
    assert!(error.contains("AKIA password=inner (404)"), "{error}");
}

#[tokio::test]
async fn a_vim_from_before_keeps_its_own_address_and_no_other() {
    let heat = Liar::start("127.0.0.1", Lie::Plain(404, "heat".into()))
        .await
        .unwrap();
    let cloud = Liar::start("127.0.0.1", keystone(&heat.url()))
        .await
        .unwrap();
    let kept = Given {
        kept: true,
        ..Given::at(&cloud.url())
    };
    let error = check(&[], &kept).await;
    assert!(
        error.to_string().contains("it answers 404"),
        "the cloud was called: {error}"
    );
    let metadata = keystone("http://169.254.169.254/latest");
    let cloud = Liar::start("127.0.0.1", metadata).await.unwrap();
    let error = check(
        &[],
        &Given {
            kept: true,
            ..Given::at(&cloud.url())
        },
    )
    .await;
    assert_eq!(error.name(), "openstack.address", "{error}");
}
