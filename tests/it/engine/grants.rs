//! Grants: what is requested, how the NFVO responds, and how the grant is used.

use super::fakes::*;
use super::faults::{begin, ready_in};
use super::setup::*;
use super::stopping_store::counting;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::*;
use vnfm_core::{Engine, Limits};
use vnfm_types::LcmOperationState::{Completed, RolledBack};
use vnfm_types::LcmOperationType::{Heal, Instantiate, ModifyInfo, Terminate};
use vnfm_types::v1::ApiVersion;
use vnfm_types::*;

pub(super) const REJECTED: Code = Code {
    name: "test.no",
    kind: ErrorKind::Refused,
    means: "it says no",
    next: "ask",
};

#[expect(clippy::unnecessary_wraps, reason = "one of several responses")]
pub(super) fn later() -> Result<GrantOutcome, PortError> {
    Ok(GrantOutcome::Pending("place".into(), None))
}

pub(super) fn respond_with(
    world: &FakeWorld,
    all: impl IntoIterator<Item = Result<GrantOutcome, PortError>>,
) {
    *world.grant_responses.lock().unwrap() = all.into_iter().collect();
}

pub(super) async fn record(engine: &Engine, op: &str) -> VnfLcmOpOcc {
    engine.store().op(TENANT, op).await.unwrap().op
}

/// The calls on the NFVO.
pub(super) fn nfvo_calls(world: &FakeWorld) -> Vec<String> {
    let mut calls = world.calls();
    calls.retain(|call| call == "grant" || call == "look");
    calls
}

/// Runs an instantiation with a modified grant.
pub(super) async fn run_with_grant(
    change: impl FnOnce(&mut Grant),
) -> (Arc<FakeWorld>, Engine, String, String) {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    let op = begin(&engine, Instantiate, &id).await;
    let probe = engine.store().op(TENANT, &op).await.unwrap();
    let mut grant = Grant {
        id: "g1".into(),
        vnf_instance_id: id.clone(),
        vnf_lcm_op_occ_id: probe.op.id,
        add_resources: required_resources(),
        ..Grant::default()
    };
    change(&mut grant);
    respond_with(&world, [Ok(GrantOutcome::Granted(Box::new(grant)))]);
    engine.drive(&op).await.unwrap();
    (world, engine, id, op)
}

/// The resources of the test VNF: a master, a worker, an internal link, and their external ports.
pub(super) fn required_resources() -> Vec<GrantInfo> {
    let ids = [
        "compute/masterNode/0",
        "compute/workerNode/0",
        "vl/internalVL",
        "linkport/masterNodeExternalCP/0",
        "linkport/workerNodeExternalCP/0",
    ];
    let info = |id: &str| GrantInfo {
        resource_definition_id: id.into(),
        ..GrantInfo::default()
    };
    ids.into_iter().map(info).collect()
}

#[tokio::test]
async fn grant_requests_list_the_resources_of_each_operation() {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    for kind in [Instantiate, Heal, ModifyInfo, Terminate] {
        let op = begin(&engine, kind, &id).await;
        engine.drive(&op).await.unwrap();
        let record = record(&engine, &op).await;
        assert_eq!(
            record.operation_state, Completed,
            "{kind}: {:?}",
            record.error
        );
        let grant = (kind != ModifyInfo).then(|| format!("grant-of-{op}"));
        assert_eq!(record.grant_id, grant, "{kind}");
    }
    let requests = world.grant_requests.lock().unwrap().clone();
    let kinds: Vec<_> = requests.iter().map(|request| request.operation).collect();
    assert_eq!(
        kinds,
        [Instantiate, Heal, Terminate],
        "no grant for MODIFY_INFO"
    );
    let ids = |all: &[ResourceDefinition]| all.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
    let all: Vec<_> = required_resources()
        .into_iter()
        .map(|info| info.resource_definition_id)
        .collect();
    assert_eq!(ids(&requests[0].add_resources), all);
    assert_eq!(requests[0].flavour_id.as_deref(), Some("cluster_install"));
    let compute = &requests[0].add_resources[1];
    assert_eq!(compute.vdu_id.as_deref(), Some("workerNode"));
    assert_eq!(compute.resource_template_id, "workerNode");
    let old = ["compute/c1", "compute/c2"];
    assert_eq!(ids(&requests[1].remove_resources), old);
    assert_eq!(
        ids(&requests[1].add_resources),
        old.map(|id| format!("{id}/successor"))
    );
    assert!(
        requests[1]
            .add_resources
            .iter()
            .all(|one| one.resource.is_none())
    );
    assert!(
        requests[1]
            .remove_resources
            .iter()
            .all(|one| one.resource.is_some())
    );
    assert_eq!(
        ids(&requests[2].remove_resources),
        ["compute/c1+", "compute/c2+"]
    );
    assert!(requests[2].add_resources.is_empty());
}

#[tokio::test]
async fn externally_managed_links_are_used_and_not_requested_from_the_nfvo() {
    let world = FakeWorld::with_nfvo();
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let link = |name: &str| ExtManagedVirtualLinkData {
        id: "theirs".into(),
        vnf_virtual_link_desc_id: name.into(),
        vim_connection_id: None,
        resource_id: "their-network".into(),
    };
    let request = |names: &[&str]| {
        let ext_managed_virtual_links = names.iter().map(|name| link(name)).collect();
        InstantiateVnfRequest {
            ext_managed_virtual_links,
            ..on("cloud")
        }
    };
    for (names, expected) in [
        (&["nothing"][..], "`nothing` is not an internal link"),
        (&["internalVL"; 2], "is listed twice"),
    ] {
        let refused = engine
            .instantiate(TENANT, &id, request(names))
            .await
            .unwrap_err();
        assert!(refused.detail.contains(expected), "{refused:?}");
    }
    let op = engine
        .instantiate(TENANT, &id, request(&["internalVL"]))
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    let requests = world.grant_requests.lock().unwrap()[0].clone();
    assert!(
        requests
            .add_resources
            .iter()
            .all(|one| one.id != "vl/internalVL"),
        "{requests:?}"
    );
    let used = world.last_deployment.lock().unwrap().clone().unwrap();
    let used = &used.placement;
    assert_eq!(used.managed_links["internalVL"], "their-network");
    assert_eq!(used.managed_link_ids["internalVL"], "theirs");
}

#[tokio::test]
async fn a_rejected_grant_rolls_back_with_the_problem_details_of_the_nfvo() {
    for kind in [Instantiate, Heal, Terminate] {
        let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), kind).await;
        let before = engine.store().instance(TENANT, &id).await.unwrap().vnf;
        let problem = ProblemDetails {
            type_uri: Some("https://nfvo.example.com/no-room".into()),
            title: Some("Grant rejected".into()),
            ..ProblemDetails::new(403, "no room at all")
        };
        let error = PortError::new(&REJECTED, "ask", "the NFVO answers 403: no room at all");
        respond_with(&world, [later(), Err(error.with_problem(problem))]);
        let op = begin(&engine, kind, &id).await;
        engine.drive(&op).await.unwrap();
        let record = record(&engine, &op).await;
        assert_eq!(record.operation_state, RolledBack, "{kind}");
        let error = record.error.unwrap();
        assert_eq!((error.status, error.step.as_deref()), (403, Some("grant")));
        assert_eq!(
            error.type_uri.as_deref(),
            Some("https://nfvo.example.com/no-room")
        );
        assert_eq!(error.title.as_deref(), Some("Grant rejected"));
        assert!(error.detail.contains("no room at all"), "{error:?}");
        assert_eq!(
            world.calls(),
            ["grant", "look"],
            "{kind}: nothing else was called"
        );
        let after = engine.store().instance(TENANT, &id).await.unwrap();
        assert_eq!((after.vnf, after.active_op), (before, None), "{kind}");
        assert_consistent(&engine, &world, kind.as_str()).await;
        // The instance is free again: VIMs that a terminate deletes are no longer marked as leaving.
        let op = begin(&engine, kind, &id).await;
        engine.drive(&op).await.unwrap();
        assert_eq!(state(&engine, &op).await, Completed, "{kind}");
    }
}

/// The links use the API version in which the operation began, even in another process.
#[tokio::test]
async fn grant_request_links_use_the_api_version_of_the_operation() {
    for (edition, below) in [
        (ApiVersion::V1, "/vnflcm/v1"),
        (ApiVersion::V2, "/vnflcm/v2"),
    ] {
        let (world, engine, id, store) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
        let begun = engine
            .with_api_version(edition)
            .instantiate(TENANT, &id, on("cloud"))
            .await;
        let op = begun.unwrap();
        // Another process sends the request.
        let other = engine_with(store, &world, Limits::default());
        other.drive(&op).await.unwrap();
        assert_eq!(state(&engine, &op).await, Completed);
        let requests = world
            .grant_requests
            .lock()
            .unwrap()
            .last()
            .cloned()
            .unwrap();
        let links = requests.links.unwrap();
        assert_eq!(
            links.vnf_lcm_op_occ.href,
            format!("{below}/vnf_lcm_op_occs/{op}")
        );
        assert_eq!(
            links.vnf_instance.href,
            format!("{below}/vnf_instances/{id}")
        );
        let visible = serde_json::to_string(&record(&engine, &op).await).unwrap();
        assert!(!visible.contains("vnfm/v1"), "{visible}");
    }
}

/// The grant applies to the life of the VNF: later processes and operations use it too.
async fn assert_grant_is_recorded(engine: &Engine, id: &str) {
    let stored = engine
        .store()
        .instance(TENANT, id)
        .await
        .unwrap()
        .deployment
        .unwrap();
    assert_eq!(stored.additional_params["from"], "nfvo");
    assert_eq!(stored.placement.flavours["workerNode"], "f1");
}

#[tokio::test]
async fn the_vnf_is_created_as_the_grant_says() {
    let (world, engine, id, op) = run_with_grant(|grant| {
        grant.zones = vec![ZoneInfo {
            id: "z".into(),
            zone_id: "edge".into(),
            ..ZoneInfo::default()
        }];
        grant.add_resources[1].zone_id = Some("z".into());
        grant.additional_params = json!({"from": "nfvo"}).as_object().unwrap().clone();
        grant.vim_assets = Some(VimAssets {
            compute_resource_flavours: vec![VimComputeResourceFlavour {
                vnfd_virtual_compute_desc_id: "workerNode".into(),
                vim_flavour_id: "f1".into(),
                ..VimComputeResourceFlavour::default()
            }],
            software_images: vec![VimSoftwareImage {
                vnfd_software_image_id: "workerNode".into(),
                vim_software_image_id: "i1".into(),
                ..VimSoftwareImage::default()
            }],
        });
        grant.ext_managed_virtual_links = vec![ExtManagedVirtualLinkData {
            id: "managed-by-nfvo".into(),
            vnf_virtual_link_desc_id: "internalVL".into(),
            resource_id: "n1".into(),
            ..ExtManagedVirtualLinkData::default()
        }];
        grant.ext_virtual_links =
            vec![serde_json::from_value(json!({"id": "l", "resourceId": "n2"})).unwrap()];
    })
    .await;
    assert_eq!(
        state(&engine, &op).await,
        Completed,
        "{:?}",
        record(&engine, &op).await.error
    );
    let deployment = world.last_deployment.lock().unwrap().clone().unwrap();
    let granted = &deployment.placement;
    assert_eq!(granted.zone_of("workerNode", 0), Some("edge"));
    assert_eq!(granted.zone_of("masterNode", 0), None);
    assert_eq!(
        (
            granted.flavours["workerNode"].as_str(),
            granted.images["workerNode"].as_str()
        ),
        ("f1", "i1")
    );
    assert_eq!(granted.managed_links["internalVL"], "n1");
    assert_eq!(granted.managed_link_ids["internalVL"], "managed-by-nfvo");
    assert_eq!(deployment.ext_virtual_links[0].resource_id, "n2");
    let visible = world.hook_params.lock().unwrap().clone();
    assert!(
        visible.iter().all(|(_, params)| params["from"] == "nfvo"),
        "{visible:?}"
    );
    assert_grant_is_recorded(&engine, &id).await;
    let heal = begin(&engine, Heal, &id).await;
    engine.drive(&heal).await.unwrap();
    assert_eq!(state(&engine, &heal).await, Completed);
}

#[tokio::test]
async fn without_an_nfvo_there_is_no_grant_step() {
    let writes = |with: bool| async move {
        let world = if with {
            FakeWorld::with_nfvo()
        } else {
            Arc::default()
        };
        let store = store().await;
        let counting = counting(store);
        let engine = engine(counting.clone(), &world);
        let id = instance(&engine).await;
        let op = begin(&engine, Instantiate, &id).await;
        engine.drive(&op).await.unwrap();
        assert_eq!(state(&engine, &op).await, Completed);
        assert_eq!(record(&engine, &op).await.grant_id.is_some(), with);
        let steps = engine.progress(TENANT, &op).await.unwrap().steps;
        assert_eq!(steps.iter().any(|step| step.name == "grant"), with);
        let journal = engine.store().journal(&op).await.unwrap();
        assert_eq!(journal.iter().any(|row| row.step == "grant"), with);
        assert_eq!(nfvo_calls(&world).len(), usize::from(with));
        counting.interceptor().writes()
    };
    let (without, with) = (writes(false).await, writes(true).await);
    assert!(
        without < with,
        "{without} writes without an NFVO, {with} with one"
    );
}

/// A retry uses the journalled grant, and the grant's secrets are shown nowhere.
#[tokio::test]
async fn a_retry_reuses_the_grant_and_hides_its_secrets() {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    let op = begin(&engine, Instantiate, &id).await;
    let vim = json!({"vimType": OPENSTACK, "accessInfo": {"password": "planted-grant-password"}});
    let grant = Grant {
        id: "g1".into(),
        vnf_instance_id: id.clone(),
        vnf_lcm_op_occ_id: op.clone(),
        vim_connection_info: [("vim1".to_owned(), serde_json::from_value(vim).unwrap())].into(),
        add_resources: required_resources(),
        ..Grant::default()
    };
    respond_with(&world, [Ok(GrantOutcome::Granted(Box::new(grant)))]);
    world.fail_call.store(world.calls().len() + 5, SeqCst);
    engine.drive(&op).await.unwrap();
    let stopped = record(&engine, &op).await;
    assert_eq!(
        stopped.operation_state,
        LcmOperationState::FailedTemp,
        "{stopped:?}"
    );
    engine.retry(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(nfvo_calls(&world), ["grant"]);
    let visible = record(&engine, &op).await;
    assert_eq!(visible.grant_id.as_deref(), Some("g1"));
    let instance = engine.store().instance(TENANT, &id).await.unwrap();
    let log = engine.log(TENANT, &op, 0).await.unwrap();
    let visible = format!("{} {} {log:?}", json!(visible), json!(instance.vnf));
    assert!(!visible.contains("planted-grant-password"), "{visible}");
}
