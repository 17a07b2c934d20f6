//! What a login may not read is unknown, and an ASD that requires it is deployed.

use crate::faults::faulty_cluster;
use vnfm_core::ports::{InfraDriver as _, Observed};
use vnfm_sim::faults::{Fault, Rule};

#[tokio::test]
async fn nodes_that_may_not_be_listed_are_unknown() {
    let (world, _cluster, faults) = faulty_cluster().await;
    faults.add(Rule::new("kubernetes.list", Fault::Status { status: 403 }).on("nodes"));
    let offered = world
        .driver
        .capabilities(&world.vim, "default")
        .await
        .unwrap();
    let Observed::Unknown { unknown } = &offered.nodes else {
        panic!("{offered:?}")
    };
    assert!(unknown.contains("Node"), "{unknown}");
    let Observed::Known(apis) = &offered.apis else {
        panic!("{offered:?}")
    };
    assert!(apis.contains("apps/v1/Deployment"), "{apis:?}");
}
