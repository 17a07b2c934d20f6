//! The client against malicious servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;
use vnfm_outbound::{
    Client, Destinations, Machine, Method, Networks, Pieces, Policy, ReadError, Tls, is_forbidden,
    read,
};
use vnfm_sim::hostile_server::{HostileResponse, HostileServer};

const LIMIT: u64 = 256 << 10;
/// What kernels hold of a connection on both sides, and the last pieces on their way.
const ON_ITS_WAY: u64 = 24 << 20;

fn policy() -> Policy {
    Policy {
        body: LIMIT,
        values: 1000,
        ..Policy::VIM
    }
}

fn client(policy: Policy) -> Client {
    Client::new(Destinations::anywhere(), policy, &Tls::default(), None).unwrap()
}

async fn answer(to: &str, policy: Policy) -> Result<vnfm_outbound::Response, vnfm_outbound::Error> {
    client(policy)
        .request(Method::GET, to)
        .unwrap()
        .send()
        .await
}

#[tokio::test]
async fn an_endless_response_is_cut_at_the_limit() {
    for lie in [HostileResponse::Endless, HostileResponse::Huge] {
        let neighbour = HostileServer::start("127.0.0.1", lie.clone())
            .await
            .unwrap();
        let response = answer(&neighbour.url(), policy()).await.unwrap();
        let error = read(response, &policy()).await.unwrap_err();
        assert!(
            matches!(error, ReadError::TooLarge(LIMIT)),
            "{lie:?}: {error}"
        );
        let response = answer(&neighbour.url(), policy()).await.unwrap();
        let mut pieces = Pieces::new(response, LIMIT);
        let error = loop {
            match pieces.next().await {
                Ok(piece) => assert!(piece.is_some()),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, ReadError::TooLarge(LIMIT)),
            "{lie:?}: {error}"
        );
        assert!(
            neighbour.sent() < 2 * LIMIT + ON_ITS_WAY,
            "{lie:?}: {}",
            neighbour.sent()
        );
    }
}

#[tokio::test]
async fn a_dripping_response_ends_at_the_timeout() {
    let neighbour = HostileServer::start("127.0.0.1", HostileResponse::Dripping)
        .await
        .unwrap();
    let quick = policy().with_timeout(Duration::from_millis(300));
    let response = answer(&neighbour.url(), quick.clone()).await.unwrap();
    let error = read(response, &quick).await.unwrap_err();
    assert!(
        matches!(&error, ReadError::Lost(lost) if lost.is_timeout()),
        "{error}"
    );
}

#[tokio::test]
async fn a_response_with_too_many_values_is_rejected_before_parsing() {
    let neighbour = HostileServer::start("127.0.0.1", HostileResponse::Values(5000))
        .await
        .unwrap();
    let response = answer(&neighbour.url(), policy()).await.unwrap();
    let error = read(response, &policy()).await.unwrap_err();
    assert!(matches!(error, ReadError::TooManyValues(1000)), "{error}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let inner = HostileServer::start("127.0.0.1", HostileResponse::Plain(200, "inner".into()))
        .await
        .unwrap();
    let outer = HostileServer::start("127.0.0.1", HostileResponse::Redirect(inner.url()))
        .await
        .unwrap();
    assert_eq!(answer(&outer.url(), policy()).await.unwrap().status(), 302);
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}

/// A resolver that resolves every name to this machine.
struct Inward;

impl Machine for Inward {
    fn addresses(&self) -> Vec<std::net::IpAddr> {
        Vec::new()
    }
    fn lookup<'a>(
        &'a self,
        _: &'a str,
    ) -> std::pin::Pin<Box<dyn Future<Output = std::io::Result<Vec<std::net::IpAddr>>> + Send + 'a>>
    {
        Box::pin(async { Ok(vec!["127.0.0.1".parse().unwrap()]) })
    }
}

#[tokio::test]
async fn a_name_that_resolves_to_loopback_is_rejected_also_as_a_proxy() {
    let inner = HostileServer::start("127.0.0.1", HostileResponse::Plain(200, "inner".into()))
        .await
        .unwrap();
    let port = inner.url().rsplit(':').next().unwrap().to_owned();
    let to = Destinations::within_on(Networks::default(), Arc::new(Inward));
    let url = format!("http://public.example:{port}/");
    let direct = Client::new(to.clone(), policy(), &Tls::default(), None).unwrap();
    let error = direct
        .request(Method::GET, &url)
        .unwrap()
        .send()
        .await
        .unwrap_err();
    assert!(is_forbidden(&error), "{error:?}");
    let through = Client::new(to.clone(), policy(), &Tls::default(), Some(&url)).unwrap();
    let error = through
        .request(Method::GET, "http://192.0.2.7/")
        .unwrap()
        .send()
        .await
        .unwrap_err();
    assert!(is_forbidden(&error), "{error:?}");
    let refused = Client::new(to, policy(), &Tls::default(), Some(&inner.url())).unwrap_err();
    assert!(refused.contains("127.0.0.1 is not allowed"), "{refused}");
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}

#[tokio::test]
async fn every_address_of_this_machine_is_rejected() {
    let own = vnfm_outbound::ThisMachine.addresses();
    assert!(
        own.iter().any(std::net::IpAddr::is_loopback),
        "the kernel names loopback: {own:?}"
    );
    let to = Destinations::within(Networks::default());
    for address in own {
        let url = format!("http://{}/", std::net::SocketAddr::new(address, 9));
        assert!(to.check(&url).is_err(), "{url}");
    }
}
