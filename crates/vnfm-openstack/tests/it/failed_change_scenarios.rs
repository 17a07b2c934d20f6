//! Changes of servers that fail, on a cloud, simulated or real, and the way back.

use crate::support::{OneVdu, PUBLIC_KEY, TestBed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver, Recorded, Rolling, compute_id};

/// Two servers on two hosts.
pub(crate) fn pair(bed: &TestBed) -> Allocation {
    let vdu = OneVdu {
        count: 2,
        apart: true,
        ..OneVdu::default()
    };
    vdu.allocation(bed)
}

/// The ids of the ports of each server.
fn ports(recorded: &Recorded) -> BTreeMap<&str, Vec<&str>> {
    let vnfcs = recorded.inventory.vnfc_resource_info.iter();
    vnfcs
        .map(|vnfc| {
            let cps = vnfc.vnfc_cp_info.iter();
            (vnfc.id.as_str(), cps.map(|cp| cp.id.as_str()).collect())
        })
        .collect()
}

/// Servers get a key pair, for which Heat replaces them; that fails, as `fill` leaves no host for further servers, and the way back
/// leaves all servers with their ports.
pub(crate) async fn a_failed_replacement_leaves_the_ports(
    bed: &TestBed,
    before: &Allocation,
    fill: impl FnOnce(),
) {
    let created = bed.instantiate(before).await.unwrap();
    fill();
    assert!(ports(&created).values().all(|all| all.len() == 1));
    let mut target = before.clone();
    let deployment = Arc::make_mut(&mut target.deployment);
    let key = ("ssh_public_key".to_owned(), json!(PUBLIC_KEY));
    deployment.additional_params.extend([key]);
    deployment.params_changed_by = "another operation".into();
    let there = Convergence::update(&created, &target).coming_from(before);
    let nothing = &Value::Null;
    let failed = bed.driver.converge(&bed.call(), &there, nothing).await;
    let failed = failed.unwrap_err();
    assert!(failed.to_string().contains("No valid host"), "{failed}");
    let now = bed.observe(before).await;
    let attached: usize = ports(&now).values().map(Vec::len).sum();
    assert!(attached < 2, "no server has lost its port: {now:?}");

    let back = Convergence::update(&created, before).coming_from(&target);
    let restored = bed.driver.converge(&bed.call(), &back, nothing).await;
    assert_eq!(ports(&restored.unwrap()), ports(&created));
    let text = "has lost its port";
    assert!(bed.watcher.messages().iter().any(|one| one.contains(text)));
    bed.release(before, created.handle.clone()).await.unwrap();
}

/// Three servers change one by one to a zone that does not exist: the first fails, again in a repetition, and the way back does not
/// repeat it.
pub(crate) async fn a_failed_batch_is_reversed(bed: &TestBed) {
    let vdu = OneVdu {
        count: 3,
        ..OneVdu::default()
    };
    let before = vdu.allocation(bed);
    let created = bed.instantiate(&before).await.unwrap();
    let mut target = before.clone();
    let deployment = Arc::make_mut(&mut target.deployment);
    deployment.vnf_pkg_id = "other".into();
    let zones = (0..3).map(|index| (compute_id("server", index), "nowhere".to_owned()));
    deployment.placement.zones.extend(zones);
    // A preview would refuse the zone.
    let preview = bed.prepare(&before).await.unwrap();
    let there = Convergence::update(&created, &target).coming_from(&before);
    let there = there.rolling(Some(Rolling::default()));
    for _ in 0..2 {
        let failed = bed.driver.converge(&bed.call(), &there, &preview).await;
        let failed = failed.unwrap_err().to_string();
        assert!(failed.contains("availability zone"), "{failed}");
    }
    let back = Convergence::update(&created, &before).coming_from(&target);
    let back = back.rolling(Some(Rolling::default()));
    let restored = bed.driver.converge(&bed.call(), &back, &preview).await;
    let restored = restored.unwrap();
    let (old, new) = (ports(&created), ports(&restored));
    assert!(new.values().all(|all| all.len() == 1), "{new:?}");
    assert_eq!(
        old.keys().filter(|id| new.contains_key(*id)).count(),
        2,
        "{old:?} {new:?}"
    );
    bed.release(&before, created.handle.clone()).await.unwrap();
}
