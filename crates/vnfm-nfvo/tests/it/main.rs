//! The client of the NFVO and of subscribers, against the simulated NFVO and canned responses.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod grant_responses;
mod hostile;
mod logins;
mod packages;

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use vnfm_core::ports::Clock;
use vnfm_nfvo::{ClientCredentials, Grants, Login, NfvoAddress, Tls};
use vnfm_sim::nfvo::{CLIENT, PASSWORD, Policy, RequiredLogin};
use vnfm_sim::{Options, World};
use vnfm_types::{GrantRequest, Secret};

/// A clock that only the test advances.
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(Timestamp::now().as_second())))
    }

    pub(crate) fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(SeqCst)).unwrap()
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// A clock whose sleeps return at once.
pub(crate) struct NoSleep;

impl NoSleep {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self)
    }
}

impl Clock for NoSleep {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::task::yield_now())
    }
}

/// A world whose NFVO requires this login.
pub(crate) async fn world(login: RequiredLogin) -> World {
    let world = World::start(Options::default()).await.unwrap();
    world.nfvo().set_policy(Policy {
        login,
        token_life: 100,
        ..Policy::default()
    });
    world
}

/// Client credentials for the token endpoint of the world's NFVO.
pub(crate) fn credentials(world: &World, password: &str) -> ClientCredentials {
    ClientCredentials {
        token_endpoint: format!("{}/token", world.nfvo().url()),
        client_id: CLIENT.to_owned(),
        client_password: Secret::new(password),
    }
}

/// A grant client for `endpoint`.
pub(crate) fn grants(endpoint: &str, login: Login, tls: Tls, clock: &Arc<ManualClock>) -> Grants {
    Grants::new(address(endpoint, login, tls), clock.clone()).unwrap()
}

pub(crate) fn address(endpoint: &str, login: Login, tls: Tls) -> NfvoAddress {
    NfvoAddress {
        endpoint: endpoint.to_owned(),
        login,
        tls,
        proxy: None,
        root: "http://vnfm.example.com/".to_owned(),
        time: Duration::from_mins(1),
    }
}

pub(crate) fn basic() -> Login {
    Login::Basic {
        user: CLIENT.to_owned(),
        password: Secret::new(PASSWORD),
    }
}

/// A request for a grant.
pub(crate) fn request() -> GrantRequest {
    let request = json!({"vnfInstanceId": "i1", "vnfLcmOpOccId": "o1", "vnfdId": "d1",
        "operation": "INSTANTIATE", "isAutomaticInvocation": false, "instantiationLevelId": "l1",
        "_links": {"vnfLcmOpOcc": {"href": "/vnflcm/v2/vnf_lcm_op_occs/o1"},
            "vnfInstance": {"href": "/vnflcm/v2/vnf_instances/i1"}}});
    serde_json::from_value(request).unwrap()
}
