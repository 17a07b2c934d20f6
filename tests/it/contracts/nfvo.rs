//! The SOL003 client meets the contract with the simulated NFVO, whether it decides at once or later.

use async_trait::async_trait;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use vnfm::SystemClock;
use vnfm::sim::nfvo::Policy;
use vnfm::sim::{Options, World};
use vnfm_conformance::check;
use vnfm_conformance::nfvo::{RULES, TestBed};
use vnfm_core::ports::Nfvo;
use vnfm_nfvo::{Grants, Login, NfvoAddress, Tls};
use vnfm_types::GrantRequest;

struct Sol003 {
    world: World,
    client: Grants,
    requests: AtomicUsize,
    policy: Policy,
}

#[async_trait]
impl TestBed for Sol003 {
    fn nfvo(&self) -> &dyn Nfvo {
        &self.client
    }
    fn request(&self) -> GrantRequest {
        let number = self.requests.fetch_add(1, SeqCst);
        let request = json!({"vnfInstanceId": "i1", "vnfLcmOpOccId": format!("o{number}"), "vnfdId": "d1",
            "operation": "INSTANTIATE", "isAutomaticInvocation": false, "addResources": [
                {"id": "compute/v/0", "type": "COMPUTE", "vduId": "v", "resourceTemplateId": "v"}],
            "_links": {"vnfLcmOpOcc": {"href": format!("/vnflcm/v2/vnf_lcm_op_occs/o{number}")},
                "vnfInstance": {"href": "/vnflcm/v2/vnf_instances/i1"}}});
        serde_json::from_value(request).unwrap()
    }
    fn rejected_request(&self) -> Option<GrantRequest> {
        let deny = Some("there is no room".to_owned());
        self.world.nfvo().set_policy(Policy {
            deny,
            ..self.policy.clone()
        });
        Some(self.request())
    }
    fn unknown_location(&self) -> String {
        format!(
            "{}/grant/v1/grants/nobody-has-promised-it",
            self.world.nfvo().url()
        )
    }
    async fn meanwhile(&self) {
        tokio::task::yield_now().await;
    }
}

async fn deciding(policy: Policy) -> Arc<dyn TestBed> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let world = World::start(Options::default()).await.unwrap();
    world.nfvo().set_policy(policy.clone());
    let address = NfvoAddress {
        endpoint: world.nfvo().url().to_owned(),
        login: Login::None,
        tls: Tls::default(),
        proxy: None,
        root: "http://vnfm.example.com/".to_owned(),
        time: Duration::from_mins(1),
    };
    let client = Grants::new(address, Arc::new(SystemClock)).unwrap();
    Arc::new(Sol003 {
        world,
        client,
        requests: AtomicUsize::new(0),
        policy,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn sol003_client_meets_the_contract_when_the_nfvo_decides_at_once() {
    check(RULES, || deciding(Policy::default())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sol003_client_meets_the_contract_when_the_nfvo_decides_later() {
    check(RULES, || {
        deciding(Policy {
            polls: 3,
            ..Policy::default()
        })
    })
    .await
    .unwrap();
}
