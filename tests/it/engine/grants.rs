//! Grants: what is requested, how the NFVO responds, and how the grant is used.

use super::fakes::*;
use super::faults::{begin, ready_in, run_to_end};
use super::stopping_store::{counting, stop_at};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use vnfm_core::ports::*;
use vnfm_core::{Engine, Limits};
use vnfm_types::LcmOperationState::{Completed, RolledBack, Starting};
use vnfm_types::LcmOperationType::{Heal, Instantiate, ModifyInfo, Terminate};
use vnfm_types::v1::ApiVersion;
use vnfm_types::*;

const BUSY: Code = Code {
    name: "test.busy",
    kind: ErrorKind::Unavailable,
    means: "it is busy",
    next: "wait",
};
const REJECTED: Code = Code {
    name: "test.no",
    kind: ErrorKind::Refused,
    means: "it says no",
    next: "ask",
};

/// A clock that advances at once when something sleeps, and only then.
struct InstantClock(AtomicI64);

impl Clock for InstantClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(SeqCst)).unwrap()
    }
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration > Duration::from_mins(2) {
            return Box::pin(std::future::pending());
        }
        self.0
            .fetch_add(i64::try_from(duration.as_millis()).unwrap(), SeqCst);
        Box::pin(tokio::task::yield_now())
    }
}

#[expect(clippy::unnecessary_wraps, reason = "an answer among others")]
fn later() -> Result<GrantOutcome, PortError> {
    Ok(GrantOutcome::Pending("place".into(), None))
}

fn busy() -> Result<GrantOutcome, PortError> {
    Err(PortError::new(&BUSY, "ask the NFVO", "503"))
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
fn nfvo_calls(world: &FakeWorld) -> Vec<String> {
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
async fn grant_retries_honour_retry_after() {
    let world = FakeWorld::with_nfvo();
    let clock = Arc::new(InstantClock(AtomicI64::new(
        Timestamp::now().as_millisecond(),
    )));
    // A long call timeout, so that the clock does not count it for each call.
    let call = Duration::from_mins(3);
    let limits = Limits {
        lease: Duration::from_hours(1),
        grant_call: call,
        ..Limits::default()
    };
    let engine = engine_at(store().await, &world, limits, clock.clone());
    let id = instance(&engine).await;
    world.calls.lock().unwrap().clear();
    let alone = |seconds| Some(Duration::from_secs(seconds));
    let busy = busy().map_err(|error| error.after(alone(40)));
    respond_with(
        &world,
        [busy, Ok(GrantOutcome::Pending("place".into(), alone(50)))],
    );
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    let before = clock.now();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(
        nfvo_calls(&world),
        ["grant", "grant", "look"],
        "and not asked in between"
    );
    let took = clock.now().duration_since(before).as_secs();
    assert!((90..120).contains(&took), "{took} s");
}

#[tokio::test]
async fn pending_grants_are_polled_and_transient_failures_retried() {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    respond_with(&world, [busy(), later(), later(), busy(), later()]);
    let op = begin(&engine, Instantiate, &id).await;
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(
        nfvo_calls(&world),
        ["grant", "grant", "look", "look", "look", "look"]
    );
    let forgotten = [later(), Ok(GrantOutcome::UnknownLocation)];
    respond_with(&world, forgotten);
    world.calls.lock().unwrap().clear();
    let op = begin(&engine, Terminate, &id).await;
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(nfvo_calls(&world), ["grant", "look", "grant"]);
    let requests = world.grant_requests.lock().unwrap();
    assert!(
        requests[2..]
            .iter()
            .all(|request| request.vnf_lcm_op_occ_id == op),
        "the same operation"
    );
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

#[tokio::test]
async fn a_grant_that_is_never_decided_times_out() {
    for (answer, expected) in [(later as fn() -> _, "to decide"), (busy, "503")] {
        let world = FakeWorld::with_nfvo();
        let clock = Arc::new(InstantClock(AtomicI64::new(
            Timestamp::now().as_millisecond(),
        )));
        let limits = Limits {
            lease: Duration::from_hours(1),
            ..Limits::default()
        };
        let engine = engine_at(store().await, &world, limits, clock.clone());
        let id = instance(&engine).await;
        respond_with(&world, std::iter::repeat_with(answer).take(1000));
        let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
        let begun = clock.now();
        engine.drive(&op).await.unwrap();
        let error = record(&engine, &op).await.error.unwrap();
        assert_eq!(error.code.as_deref(), Some("grant.late"), "{error:?}");
        assert!(
            error.detail.contains("600 s") && error.detail.contains(expected),
            "{error:?}"
        );
        assert_eq!(state(&engine, &op).await, RolledBack);
        let took = clock.now().duration_since(begun).as_secs();
        assert!((600..720).contains(&took), "{took} s");
        let calls = nfvo_calls(&world).len();
        assert!(
            (10..200).contains(&calls),
            "{calls} calls: the backoff must grow, but not too much"
        );
    }
}

#[tokio::test]
async fn a_grant_request_without_response_times_out() {
    let world = FakeWorld::with_nfvo();
    *world.hang_in.lock().unwrap() = Some("grant");
    let clock = Arc::new(InstantClock(AtomicI64::new(
        Timestamp::now().as_millisecond(),
    )));
    let limits = Limits {
        lease: Duration::from_hours(1),
        ..Limits::default()
    };
    let engine = engine_at(store().await, &world, limits, clock);
    let id = instance(&engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    let error = record(&engine, &op).await.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("grant.late"), "{error:?}");
    assert!(
        error.detail.contains("no response within 30 s"),
        "{error:?}"
    );
}

/// A response of the NFVO.
type GrantResult = Result<GrantOutcome, PortError>;

/// Cancels an instantiation while its grant request waits for `what`; the operation at its end.
async fn cancel_while_waiting(
    mode: CancelMode,
    (first, then): (fn() -> GrantResult, Option<GrantResult>),
    what: &str,
) -> (Arc<FakeWorld>, VnfLcmOpOcc) {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    respond_with(&world, std::iter::repeat_with(first).take(10_000));
    let op = begin(&engine, Instantiate, &id).await;
    let cancels = async {
        let shown = loop {
            let progress = engine.progress(TENANT, &op).await.unwrap();
            if let Some(waiting) = progress.waiting {
                assert_eq!(progress.step.as_deref(), Some("grant"));
                assert_eq!(progress.operation_state, Starting);
                break waiting.for_what;
            }
            engine.changed(&op).await;
        };
        assert!(shown.contains(what), "{shown}");
        engine.cancel(TENANT, &op, mode).await.unwrap();
        let pending = record(&engine, &op).await;
        assert_eq!(
            (pending.is_cancel_pending, pending.cancel_mode),
            (true, Some(mode))
        );
        if let Some(then) = then {
            respond_with(&world, [then]);
        }
    };
    let (driven, ()) = futures::future::join(engine.drive(&op), cancels).await;
    driven.unwrap();
    assert!(
        !world.calls().contains(&"check".to_owned()),
        "nothing else was called"
    );
    assert_consistent(&engine, &world, "cancelled").await;
    let record = record(&engine, &op).await;
    assert_eq!(record.operation_state, RolledBack);
    (world, record)
}

#[tokio::test]
async fn a_forceful_cancel_ends_the_wait_for_a_grant() {
    let waits = cancel_while_waiting(CancelMode::Forceful, (later, None), "the NFVO's decision");
    let (_, op) = waits.await;
    let error = op.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("op.cancelled"), "{error:?}");
}

/// SOL003 5.5.4.6: it waits for the granting request to finish; then the operation is ROLLED_BACK.
#[tokio::test]
async fn a_graceful_cancel_waits_for_the_grant_decision() {
    let rejected = Err(PortError::new(
        &REJECTED,
        "ask the NFVO",
        "it is not wanted",
    ));
    let waits = cancel_while_waiting(CancelMode::Graceful, (later, Some(rejected)), "to decide");
    let (world, op) = waits.await;
    let error = op.error.unwrap();
    assert_eq!(
        error.code.as_deref(),
        Some("test.no"),
        "the decision was heard: {error:?}"
    );
    assert_eq!(nfvo_calls(&world)[0], "grant");
    assert_eq!(nfvo_calls(&world).last().unwrap(), "look");
}

#[tokio::test]
async fn a_grant_for_a_cancelled_operation_is_not_used() {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    let op = begin(&engine, Instantiate, &id).await;
    respond_with(&world, [later()]);
    let opened = Arc::new(tokio::sync::Notify::new());
    *world.gate.lock().unwrap() = Some(("look", opened.clone()));
    let cancels = async {
        while !nfvo_calls(&world).contains(&"look".to_owned()) {
            tokio::task::yield_now().await;
        }
        engine
            .cancel(TENANT, &op, CancelMode::Graceful)
            .await
            .unwrap();
        assert_eq!(
            state(&engine, &op).await,
            Starting,
            "the NFVO has not decided yet"
        );
        opened.notify_one();
    };
    let (driven, ()) = futures::future::join(engine.drive(&op), cancels).await;
    driven.unwrap();
    let record = record(&engine, &op).await;
    assert_eq!(record.operation_state, RolledBack);
    assert_eq!(record.error.unwrap().code.as_deref(), Some("op.cancelled"));
    assert!(
        !world.calls().contains(&"check".to_owned()),
        "nothing else was called"
    );
    assert_consistent(&engine, &world, "cancelled").await;
}

#[tokio::test]
async fn a_graceful_cancel_does_not_retry_a_failed_grant_request() {
    let waits = cancel_while_waiting(CancelMode::Graceful, (busy, None), "503");
    let (world, op) = waits.await;
    assert_eq!(op.error.unwrap().code.as_deref(), Some("op.cancelled"));
    assert_eq!(nfvo_calls(&world), ["grant"]);
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
        let shown = serde_json::to_string(&record(&engine, &op).await).unwrap();
        assert!(!shown.contains("vnfm/v1"), "{shown}");
    }
}

#[tokio::test]
async fn a_crash_while_waiting_for_a_grant_resumes_polling_the_same_location() {
    let (world, engine, id, store) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    let op = begin(&engine, Instantiate, &id).await;
    respond_with(&world, [later()]);
    *world.hang_in.lock().unwrap() = Some("look");
    let limits = Limits {
        lease: Duration::from_millis(50),
        ..Limits::default()
    };
    let first = engine_with(store.clone(), &world, limits);
    tokio::select! {
        () = world.hung.notified() => {}
        ended = first.drive(&op) => panic!("{ended:?}"),
    }
    *world.hang_in.lock().unwrap() = None;
    run_to_end(&engine, &op).await;
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(
        nfvo_calls(&world),
        ["grant", "look", "look"],
        "it is not requested twice"
    );
}

#[tokio::test]
async fn a_grant_request_of_unknown_outcome_is_repeated_for_the_same_operation() {
    let mut doubtful = 0;
    for number in 1.. {
        let (world, engine, id, store) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
        let op = begin(&engine, Instantiate, &id).await;
        let stopping = stop_at(store.clone(), number, false);
        let limits = Limits {
            lease: Duration::from_millis(50),
            ..Limits::default()
        };
        let first = engine_with(stopping.clone(), &world, limits);
        tokio::select! {
            biased;
            () = stopping.interceptor().stopped() => {}
            ended = first.drive(&op) => {
                ended.unwrap();
                break;
            }
        }
        run_to_end(&engine, &op).await;
        assert_eq!(state(&engine, &op).await, Completed, "write {number}");
        let requests = world.grant_requests.lock().unwrap();
        assert!(
            requests
                .iter()
                .all(|request| request.vnf_lcm_op_occ_id == op),
            "write {number}"
        );
        assert!(
            requests.iter().all(|request| request == &requests[0]),
            "write {number}"
        );
        doubtful += usize::from(requests.len() > 1);
    }
    assert!(doubtful > 0, "no request was ever in doubt");
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
    let shown = world.hook_params.lock().unwrap().clone();
    assert!(
        shown.iter().all(|(_, params)| params["from"] == "nfvo"),
        "{shown:?}"
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
    let shown = record(&engine, &op).await;
    assert_eq!(shown.grant_id.as_deref(), Some("g1"));
    let instance = engine.store().instance(TENANT, &id).await.unwrap();
    let log = engine.log(TENANT, &op, 0).await.unwrap();
    let shown = format!("{} {} {log:?}", json!(shown), json!(instance.vnf));
    assert!(!shown.contains("planted-grant-password"), "{shown}");
}
