//! What an NFVO that grants has to keep to, behind the port: over SOL003, or in the same process.

use async_trait::async_trait;
use std::sync::Arc;
use vnfm_core::ports::{GrantAnswer, Nfvo};
use vnfm_types::{Grant, GrantRequest};

/// An NFVO, and what it is asked.
#[async_trait]
pub trait Stand: Send + Sync {
    /// The NFVO.
    fn nfvo(&self) -> &dyn Nfvo;

    /// A request that it grants, for another operation each time.
    fn request(&self) -> GrantRequest;

    /// One that it does not grant; `None` where it grants everything.
    fn unwelcome(&self) -> Option<GrantRequest>;

    /// Where a decision could be, that nobody has promised.
    fn nowhere(&self) -> String;

    /// Returns once it is worth looking for a decision again.
    async fn meanwhile(&self);
}

crate::rules! { Arc<dyn Stand>:
    /// A request is decided, at once or where it says; within a hundred looks.
    tried::a_request_is_decided;
    /// A grant is for the operation and the instance that it was asked for, and names each resource that it was asked for.
    tried::a_grant_is_for_what_was_asked;
    /// Asked again for the same operation, it answers again, with the same decision.
    tried::who_asks_again_is_answered_again;
    /// A call that is dropped leaves nothing behind that would keep the next from being answered.
    tried::who_went_away_is_answered_when_they_come_again;
    /// What it does not grant is `Refused`, with the NFVO's own words.
    tried::what_is_not_granted_is_refused_with_its_words;
    /// Where nothing was promised there is nothing: `Forgotten`, and the request is made anew.
    tried::where_nothing_was_promised_there_is_nothing;
}

/// Asks until there is a decision.
async fn decided(stand: &Arc<dyn Stand>, request: &GrantRequest) -> Grant {
    let mut answer = stand.nfvo().ask(request).await.unwrap();
    for _ in 0..100 {
        answer = match answer {
            GrantAnswer::Granted(grant) => return *grant,
            GrantAnswer::Forgotten => panic!("what it promised is forgotten"),
            GrantAnswer::Later(place, _) => {
                stand.meanwhile().await;
                stand.nfvo().look(&place).await.unwrap()
            }
        };
    }
    panic!("it does not decide")
}

/// The rules.
mod tried {
    use super::{Arc, GrantAnswer, GrantRequest, Stand, decided};
    use futures_util::FutureExt as _;
    use std::collections::BTreeSet;
    use vnfm_core::ports::ErrorKind;
    use vnfm_types::{GrantInfo, ResourceDefinition};

    type Shared = Arc<dyn Stand>;

    pub(super) async fn a_request_is_decided(stand: Shared) {
        assert!(
            !decided(&stand, &stand.request()).await.id.is_empty(),
            "a grant without an id"
        );
    }

    pub(super) async fn a_grant_is_for_what_was_asked(stand: Shared) {
        let request: GrantRequest = stand.request();
        let grant = decided(&stand, &request).await;
        assert_eq!(grant.vnf_lcm_op_occ_id, request.vnf_lcm_op_occ_id);
        assert_eq!(grant.vnf_instance_id, request.vnf_instance_id);
        let asked = |all: &[ResourceDefinition]| -> BTreeSet<_> {
            all.iter().map(|one| one.id.clone()).collect()
        };
        let told = |all: &[GrantInfo]| -> BTreeSet<_> {
            all.iter()
                .map(|one| one.resource_definition_id.clone())
                .collect()
        };
        assert_eq!(told(&grant.add_resources), asked(&request.add_resources));
        assert_eq!(
            told(&grant.remove_resources),
            asked(&request.remove_resources)
        );
        assert_eq!(
            told(&grant.update_resources),
            asked(&request.update_resources)
        );
    }

    pub(super) async fn who_asks_again_is_answered_again(stand: Shared) {
        let request = stand.request();
        let (first, second) = (
            decided(&stand, &request).await,
            decided(&stand, &request).await,
        );
        assert_eq!(second.vnf_lcm_op_occ_id, first.vnf_lcm_op_occ_id);
        assert_eq!(second.add_resources, first.add_resources);
    }

    pub(super) async fn who_went_away_is_answered_when_they_come_again(stand: Shared) {
        let request = stand.request();
        // Polled once and dropped, wherever it was.
        let _ = stand.nfvo().ask(&request).now_or_never();
        decided(&stand, &request).await;
    }

    pub(super) async fn what_is_not_granted_is_refused_with_its_words(stand: Shared) {
        let Some(request) = stand.unwelcome() else {
            return;
        };
        let mut answer = stand.nfvo().ask(&request).await;
        for _ in 0..100 {
            let Ok(GrantAnswer::Later(place, _)) = &answer else {
                break;
            };
            stand.meanwhile().await;
            answer = stand.nfvo().look(place).await;
        }
        let error = answer.expect_err("it granted what it was not to grant");
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(!error.detail().is_empty(), "it does not say why");
    }

    pub(super) async fn where_nothing_was_promised_there_is_nothing(stand: Shared) {
        let found = stand.nfvo().look(&stand.nowhere()).await.unwrap();
        assert_eq!(found, GrantAnswer::Forgotten);
    }
}
