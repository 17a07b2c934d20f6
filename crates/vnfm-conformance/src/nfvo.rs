//! The contract of an NFVO that grants operations, behind the port: over SOL003, or in the same process.

use async_trait::async_trait;
use std::sync::Arc;
use vnfm_core::ports::{GrantOutcome, Nfvo};
use vnfm_types::{Grant, GrantRequest};

/// An NFVO, and requests for it.
#[async_trait]
pub trait TestBed: Send + Sync {
    /// The NFVO that the rules test.
    fn nfvo(&self) -> &dyn Nfvo;

    /// A request that it grants, for another operation each time.
    fn request(&self) -> GrantRequest;

    /// A request that it rejects; `None` if it grants everything.
    fn rejected_request(&self) -> Option<GrantRequest>;

    /// A plausible location of a decision that does not exist.
    fn unknown_location(&self) -> String;

    /// Waits until polling again makes sense.
    async fn meanwhile(&self);
}

crate::rules! { Arc<dyn TestBed>:
    /// A request is decided at once, or at the location it returns, within a hundred polls.
    tried::a_request_is_decided;
    /// A grant is for the requested operation and instance, and lists each requested resource.
    tried::a_grant_matches_its_request;
    /// A repeated request for the same operation gets the same decision.
    tried::a_repeated_request_gets_the_same_decision;
    /// A call that is dropped leaves nothing behind that would block the next one.
    tried::a_dropped_call_does_not_block_the_next;
    /// A rejection is `Refused`, with the NFVO's own message.
    tried::a_rejection_is_refused_with_its_message;
    /// An unknown location is `Forgotten`; the request is then repeated.
    tried::an_unknown_location_is_forgotten;
}

/// Polls until there is a decision.
async fn decided(stand: &Arc<dyn TestBed>, request: &GrantRequest) -> Grant {
    let mut answer = stand.nfvo().request_grant(request).await.unwrap();
    for _ in 0..100 {
        answer = match answer {
            GrantOutcome::Granted(grant) => return *grant,
            GrantOutcome::UnknownLocation => panic!("it lost a pending request"),
            GrantOutcome::Pending(place, _) => {
                stand.meanwhile().await;
                stand.nfvo().poll_grant(&place).await.unwrap()
            }
        };
    }
    panic!("it does not decide")
}

mod tried {
    use super::{Arc, GrantOutcome, GrantRequest, TestBed, decided};
    use futures_util::FutureExt as _;
    use std::collections::BTreeSet;
    use vnfm_core::ports::ErrorKind;
    use vnfm_types::{GrantInfo, ResourceDefinition};

    type Shared = Arc<dyn TestBed>;

    pub(super) async fn a_request_is_decided(stand: Shared) {
        assert!(
            !decided(&stand, &stand.request()).await.id.is_empty(),
            "a grant without an id"
        );
    }

    pub(super) async fn a_grant_matches_its_request(stand: Shared) {
        let request: GrantRequest = stand.request();
        let grant = decided(&stand, &request).await;
        assert_eq!(grant.vnf_lcm_op_occ_id, request.vnf_lcm_op_occ_id);
        assert_eq!(grant.vnf_instance_id, request.vnf_instance_id);
        let requested_ids = |all: &[ResourceDefinition]| -> BTreeSet<_> {
            all.iter().map(|one| one.id.clone()).collect()
        };
        let granted_ids = |all: &[GrantInfo]| -> BTreeSet<_> {
            all.iter()
                .map(|one| one.resource_definition_id.clone())
                .collect()
        };
        assert_eq!(
            granted_ids(&grant.add_resources),
            requested_ids(&request.add_resources)
        );
        assert_eq!(
            granted_ids(&grant.remove_resources),
            requested_ids(&request.remove_resources)
        );
        assert_eq!(
            granted_ids(&grant.update_resources),
            requested_ids(&request.update_resources)
        );
    }

    pub(super) async fn a_repeated_request_gets_the_same_decision(stand: Shared) {
        let request = stand.request();
        let (first, second) = (
            decided(&stand, &request).await,
            decided(&stand, &request).await,
        );
        assert_eq!(second.vnf_lcm_op_occ_id, first.vnf_lcm_op_occ_id);
        assert_eq!(second.add_resources, first.add_resources);
    }

    pub(super) async fn a_dropped_call_does_not_block_the_next(stand: Shared) {
        let request = stand.request();
        // Polled once and dropped, wherever it is.
        let _ = stand.nfvo().request_grant(&request).now_or_never();
        decided(&stand, &request).await;
    }

    pub(super) async fn a_rejection_is_refused_with_its_message(stand: Shared) {
        let Some(request) = stand.rejected_request() else {
            return;
        };
        let mut answer = stand.nfvo().request_grant(&request).await;
        for _ in 0..100 {
            let Ok(GrantOutcome::Pending(place, _)) = &answer else {
                break;
            };
            stand.meanwhile().await;
            answer = stand.nfvo().poll_grant(place).await;
        }
        let error = answer.expect_err("it granted a request that it should reject");
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(!error.detail().is_empty(), "it does not say why");
    }

    pub(super) async fn an_unknown_location_is_forgotten(stand: Shared) {
        let found = stand
            .nfvo()
            .poll_grant(&stand.unknown_location())
            .await
            .unwrap();
        assert_eq!(found, GrantOutcome::UnknownLocation);
    }
}
