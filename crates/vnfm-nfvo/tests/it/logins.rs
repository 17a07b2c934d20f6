//! Each kind of login, at the NFVO and at a subscriber.

use crate::{ManualClock, basic, credentials, grants, request, world};
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_core::ports::{Callback, GrantOutcome, Nfvo as _, Subscribers as _};
use vnfm_nfvo::{Callbacks, Login, Networks, Tls};
use vnfm_sim::World;
use vnfm_sim::faults::{Fault, Rule};
use vnfm_sim::nfvo::{CLIENT, PASSWORD, RequiredLogin};
use vnfm_types::SubscriptionAuthentication;
use vnfm_types::v1::ApiVersion;

fn tokens_issued(world: &World) -> Value {
    world.nfvo().report()["tokensGiven"].clone()
}

/// TLS settings for the world's NFVO.
fn tls(world: &World, certificate: bool) -> Tls {
    let certificate = certificate.then(|| world.nfvo().certificate().as_bytes().to_vec());
    Tls {
        authorities: world.nfvo().ca_certificate().as_bytes().to_vec(),
        certificate,
    }
}

#[tokio::test]
async fn a_token_is_cached_renewed_before_it_expires_and_once_after_a_401() {
    let (world, clock) = (world(RequiredLogin::Oauth2).await, ManualClock::new());
    let login = Login::Oauth2(credentials(&world, PASSWORD));
    let nfvo = grants(world.nfvo().url(), login, Tls::default(), &clock);
    for _ in 0..3 {
        assert!(matches!(
            nfvo.request_grant(&request()).await.unwrap(),
            GrantOutcome::Granted(_)
        ));
    }
    assert_eq!(tokens_issued(&world), 1, "it is cached");
    clock.advance(89);
    nfvo.request_grant(&request()).await.unwrap();
    assert_eq!(tokens_issued(&world), 1, "a tenth of its lifetime is left");
    clock.advance(2);
    nfvo.request_grant(&request()).await.unwrap();
    assert_eq!(tokens_issued(&world), 2, "it is renewed before it expires");
    world.nfvo().revoke_tokens();
    nfvo.request_grant(&request()).await.unwrap();
    assert_eq!(tokens_issued(&world), 3, "it is renewed after a 401");
    world.faults().add(Rule {
        times: 9,
        ..Rule::new("nfvo.grant", Fault::Status { status: 401 })
    });
    let error = nfvo.request_grant(&request()).await.unwrap_err();
    assert_eq!(
        (error.name(), tokens_issued(&world)),
        ("nfvo.refuses", json!(4)),
        "renewed only once"
    );
}

#[tokio::test]
async fn an_error_of_the_token_endpoint_reveals_no_secret() {
    let (world, clock) = (world(RequiredLogin::Oauth2).await, ManualClock::new());
    let login = Login::Oauth2(credentials(&world, "planted-wrong-password"));
    let nfvo = grants(world.nfvo().url(), login.clone(), Tls::default(), &clock);
    let error = nfvo.request_grant(&request()).await.unwrap_err();
    assert_eq!(error.name(), "nfvo.no-token");
    assert!(error.to_string().contains("401"), "{error}");
    assert!(
        !format!("{error:?} {login:?}").contains("planted"),
        "{error:?} {login:?}"
    );
    world
        .faults()
        .add(Rule::new("nfvo.token", Fault::Status { status: 503 }));
    let error = nfvo.request_grant(&request()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
}

#[tokio::test]
async fn http_basic_is_sent_with_every_request() {
    let (world, clock) = (world(RequiredLogin::Basic).await, ManualClock::new());
    let nfvo = grants(world.nfvo().url(), basic(), Tls::default(), &clock);
    nfvo.request_grant(&request()).await.unwrap();
    let anonymous = grants(world.nfvo().url(), Login::None, Tls::default(), &clock);
    let error = anonymous.request_grant(&request()).await.unwrap_err();
    assert_eq!(
        (error.name(), error.problem().map(|it| it.status)),
        ("nfvo.refuses", Some(401))
    );
}

#[tokio::test]
async fn an_nfvo_that_requires_a_client_certificate_is_unreachable_without_one() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (world, clock) = (world(RequiredLogin::None).await, ManualClock::new());
    let url = world.nfvo().secure_url();
    let nfvo = grants(url, Login::None, tls(&world, true), &clock);
    assert!(matches!(
        nfvo.request_grant(&request()).await.unwrap(),
        GrantOutcome::Granted(_)
    ));
    let without = grants(url, Login::None, tls(&world, false), &clock);
    assert_eq!(
        without.request_grant(&request()).await.unwrap_err().name(),
        "nfvo.unreachable"
    );
    let no_authority = Tls {
        authorities: Vec::new(),
        ..tls(&world, true)
    };
    let untrusting = grants(url, Login::None, no_authority, &clock);
    assert_eq!(
        untrusting
            .request_grant(&request())
            .await
            .unwrap_err()
            .name(),
        "nfvo.unreachable"
    );
}

fn subscriber(authentication: Value) -> SubscriptionAuthentication {
    serde_json::from_value(authentication).unwrap()
}

fn at<'a>(uri: &'a str, login: &'a SubscriptionAuthentication) -> Callback<'a> {
    Callback {
        uri,
        login: Some(login),
        api_version: ApiVersion::V2,
    }
}

#[tokio::test]
async fn notifications_are_sent_with_a_token_and_with_a_certificate() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (world, clock) = (world(RequiredLogin::Oauth2).await, ManualClock::new());
    let networks = Networks::parse(&["127.0.0.0/8".to_owned()]).unwrap();
    let time = Duration::from_mins(1);
    let callbacks = Callbacks::new(networks, time, &tls(&world, true), clock.clone()).unwrap();
    assert!(callbacks.has_certificate());
    let token = json!({"clientId": CLIENT, "clientPassword": PASSWORD,
        "tokenEndpoint": format!("{}/token", world.nfvo().url())});
    let plain = format!("{}/notifications", world.nfvo().url());
    let both = subscriber(json!({"authType": ["BASIC", "OAUTH2_CLIENT_CREDENTIALS"],
        "paramsBasic": {"userName": "u", "password": "p"}, "paramsOauth2ClientCredentials": token}));
    callbacks.test(&at(&plain, &both)).await.unwrap();
    callbacks
        .notify(&at(&plain, &both), &json!({"n": 1}))
        .await
        .unwrap();
    assert_eq!(
        tokens_issued(&world),
        1,
        "a token is preferred to a password, and cached"
    );
    let secure = format!("{}/notifications", world.nfvo().secure_url());
    let certified = subscriber(
        json!({"authType": ["TLS_CERT", "OAUTH2_CLIENT_CREDENTIALS"],
        "paramsOauth2ClientCredentials": token}),
    );
    callbacks
        .notify(&at(&secure, &certified), &json!({"n": 2}))
        .await
        .unwrap();
    let error = callbacks
        .notify(&at(&secure, &both), &json!({"n": 3}))
        .await
        .unwrap_err();
    assert_eq!(
        error.name(),
        "nfvo.callback-unreachable",
        "our certificate is presented only to subscribers with TLS_CERT"
    );
    assert_eq!(
        world.nfvo().report()["notifications"],
        json!([{"n": 1}, {"n": 2}])
    );
}

#[tokio::test]
async fn the_token_endpoint_of_a_subscriber_must_be_in_an_allowed_network() {
    let (world, clock) = (world(RequiredLogin::Oauth2).await, ManualClock::new());
    let networks = Networks::parse(&["192.0.2.0/24".to_owned()]).unwrap();
    let callbacks =
        Callbacks::new(networks, Duration::from_mins(1), &Tls::default(), clock).unwrap();
    let token = json!({"clientId": CLIENT, "clientPassword": PASSWORD,
        "tokenEndpoint": format!("{}/token", world.nfvo().url())});
    let login = subscriber(json!({"authType": ["OAUTH2_CLIENT_CREDENTIALS"],
        "paramsOauth2ClientCredentials": token}));
    let error = callbacks
        .test(&at("http://192.0.2.1/callback", &login))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("127.0.0.1 is not allowed"),
        "{error}"
    );
    assert_eq!(tokens_issued(&world), 0);
}
