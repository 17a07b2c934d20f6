//! Malicious subscribers and token endpoints.

use crate::ManualClock;
use serde_json::json;
use std::time::Duration;
use vnfm_core::ports::{Callback, Subscribers as _};
use vnfm_nfvo::{Callbacks, Networks, Tls};
use vnfm_sim::hostile_server::{HostileResponse, HostileServer};
use vnfm_types::SubscriptionAuthentication;
use vnfm_types::v1::ApiVersion;

fn callbacks(networks: &[&str]) -> Callbacks {
    let networks: Vec<_> = networks.iter().map(|&text| text.to_owned()).collect();
    let networks = Networks::parse(&networks).unwrap();
    Callbacks::new(
        networks,
        Duration::from_mins(1),
        &Tls::default(),
        ManualClock::new(),
    )
    .unwrap()
}

/// A login with a token of this endpoint.
fn oauth2_login(endpoint: &str) -> SubscriptionAuthentication {
    let token =
        json!({"clientId": "c", "clientPassword": "planted-password", "tokenEndpoint": endpoint});
    let login =
        json!({"authType": ["OAUTH2_CLIENT_CREDENTIALS"], "paramsOauth2ClientCredentials": token});
    serde_json::from_value(login).unwrap()
}

#[tokio::test]
async fn an_endless_response_of_a_token_endpoint_is_an_error() {
    for lie in [
        HostileResponse::Endless,
        HostileResponse::Huge,
        HostileResponse::Values(1_000_000),
    ] {
        let endpoint = HostileServer::start("127.0.0.1", lie.clone())
            .await
            .unwrap();
        let (uri, login) = (
            format!("{}/callback", endpoint.url()),
            oauth2_login(&endpoint.url()),
        );
        let callback = Callback {
            uri: &uri,
            login: Some(&login),
            api_version: ApiVersion::V2,
        };
        let error = callbacks(&["127.0.0.0/8"])
            .test(&callback)
            .await
            .unwrap_err();
        assert_eq!(error.name(), "nfvo.no-token", "{lie:?}: {error}");
        assert!(
            endpoint.sent() < 32 << 20,
            "{lie:?}: {} bytes were sent",
            endpoint.sent()
        );
    }
}

#[tokio::test]
async fn the_body_of_a_callback_response_is_not_read_and_redirects_are_not_followed() {
    let endless = HostileServer::start("127.0.0.1", HostileResponse::Endless)
        .await
        .unwrap();
    let uri = endless.url();
    let callback = Callback {
        uri: &uri,
        login: None,
        api_version: ApiVersion::V2,
    };
    callbacks(&["127.0.0.0/8"]).test(&callback).await.unwrap();
    assert!(
        endless.sent() < 32 << 20,
        "{} bytes were sent",
        endless.sent()
    );
    let inner = HostileServer::start("127.0.0.2", HostileResponse::Plain(204, String::new()))
        .await
        .unwrap();
    let outer = HostileServer::start("127.0.0.1", HostileResponse::Redirect(inner.url()))
        .await
        .unwrap();
    let uri = outer.url();
    let callback = Callback {
        uri: &uri,
        login: None,
        api_version: ApiVersion::V2,
    };
    let error = callbacks(&["127.0.0.1"]).test(&callback).await.unwrap_err();
    assert_eq!(error.name(), "nfvo.callback-refuses", "{error}");
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}
