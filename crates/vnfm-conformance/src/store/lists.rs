//! Rules about lists: every operator on every type of value, nested lists and maps, computed attributes, pages. Results of
//! a database are compared with [`Filter::holds`] for the same filter.

mod filter_cases;

use self::filter_cases::{FOUND, PATHS, VALUES};
use super::records::{TENANT, deployment, instance, op, package, seed, transition};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{Change, InstanceRecord, Store};
use vnfm_core::query::{Filter, Query, Term};
use vnfm_types::CancelMode;
use vnfm_types::LcmOperationState::{Completed, FailedTemp, Processing};
use vnfm_types::shape::{Resource, VNF_INSTANCES, VNF_LCM_OP_OCCS, VNF_PACKAGES};

type Shared = Arc<dyn Store>;

fn query(resource: &Resource, filter: &str) -> Query {
    let filter =
        Filter::parse(resource, filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    Query {
        filter,
        ..Query::default()
    }
}

async fn found(store: &Shared, filter: &str) -> Vec<String> {
    let records = store
        .instances(TENANT, &query(&VNF_INSTANCES, filter))
        .await
        .unwrap();
    records.into_iter().map(|record| record.vnf.id).collect()
}

fn vnfc(id: &str, vdu: &str, metadata: &Value) -> Value {
    let address = json!({"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {"ipAddresses": [
        {"type": "IPV4", "addresses": [format!("192.0.2.{}", id.len()), "192.0.2.99"], "isDynamic": id.len() == 2}]}});
    json!({"id": id, "vduId": vdu, "computeResource": {"resourceId": format!("s-{id}")}, "metadata": metadata,
        "storageResourceIds": [format!("v-{id}"), "v-shared"],
        "vnfcCpInfo": [{"id": "cp", "cpdId": "cpd", "cpProtocolInfo": [address]}]})
}

/// The instances in the store, by id.
fn instances() -> Vec<(&'static str, Value)> {
    let rich = json!({"site": "oslo", "cpu": 4, "load": 0.5, "on": true, "off": false, "nothing": null,
        "tags": ["red", "blue", 7], "deep": {"list": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}], "o": {"k": "v"}}});
    let info = |vnfcs: Value, level: u32| {
        json!({"flavourId": "simple", "vnfState": "STARTED", "extCpInfo": [], "vnfcResourceInfo": vnfcs,
            "scaleStatus": [{"aspectId": "out", "scaleLevel": level}], "localizationLanguage": "en"})
    };
    vec![
        (
            "i1",
            json!({"vnfInstanceName": "web", "instantiationState": "INSTANTIATED", "metadata": rich,
            "vimConnectionInfo": {"vim1": {"vimId": "v-1", "vimType": "T"}},
            "instantiatedVnfInfo": info(json!([vnfc("c1", "front", &json!({"name": "front-0"})),
                vnfc("c22", "back", &json!({"name": "back-0"}))]), 2)}),
        ),
        (
            "i2",
            json!({"vnfInstanceName": "O'Brien, (x)", "metadata": {"k/e,y@~": "v", "cpu": "4", "on": "true",
            "site": "bergen", "tags": "red"}, "extensions": {"\"q\"\\u{e9}.[0]": "odd"}}),
        ),
        (
            "i3",
            json!({"vnfInstanceName": null, "instantiationState": "INSTANTIATED",
            "vimConnectionInfo": {"strange \"key\".[0] é": {"vimId": "v-1", "vimType": "U"}},
            "instantiatedVnfInfo": info(json!([vnfc("c1", "back", &json!({}))]), 10)}),
        ),
        (
            "i4",
            json!({"vnfInstanceName": "10", "vnfInstanceDescription": "a web of things"}),
        ),
    ]
}

async fn seeded(store: &Shared) {
    store
        .write(
            None,
            vec![Change::AddPackage(package("package", Some("vnfd")))],
        )
        .await
        .unwrap();
    for (id, more) in instances() {
        let mut record = instance(id);
        let mut vnf = serde_json::to_value(&record.vnf).unwrap();
        for (name, value) in more.as_object().unwrap() {
            vnf[name] = value.clone();
        }
        record.vnf = serde_json::from_value(vnf).unwrap();
        store
            .write(None, vec![Change::AddInstance(record)])
            .await
            .unwrap();
    }
}

pub(super) async fn a_filter_finds_by_every_operator_in_every_kind_of_value(store: Shared) {
    seeded(&store).await;
    for (filter, wanted) in FOUND {
        if *wanted == "ill" {
            assert!(Filter::parse(&VNF_INSTANCES, filter).is_err(), "{filter}");
            continue;
        }
        assert_eq!(found(&store, filter).await.join(" "), *wanted, "{filter}");
    }
    let of_another = query(&VNF_INSTANCES, "(eq,vnfInstanceName,web)");
    assert_eq!(store.instances("other", &of_another).await, Ok(vec![]));
}

pub(super) async fn a_filter_finds_what_is_computed(store: Shared) {
    seed(&*store, &["i1", "i2", "i3"]).await;
    let times = [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.5Z",
        "2026-01-01T00:00:01Z",
    ];
    for (number, state) in [(1, Completed), (2, FailedTemp), (3, Processing)] {
        let mut record = op(&format!("o{number}"), &format!("i{number}"));
        record.op.start_time = times[number - 1].parse().unwrap();
        record.op.operation_state = vnfm_types::LcmOperationState::Starting;
        let changes = vec![Change::AddOp(record.clone()), transition(&record, state)];
        store.write(None, changes).await.unwrap();
    }
    let cancel = Change::Cancel {
        op_id: "o3".into(),
        mode: CancelMode::Graceful,
    };
    store.write(None, vec![cancel]).await.unwrap();
    for (filter, wanted) in [
        ("(eq,operationState,FAILED_TEMP)", "o2"),
        ("(eq,vnfInstanceId,i3)", "o3"),
        (
            "(eq,operation,INSTANTIATE);(in,operationState,COMPLETED,PROCESSING)",
            "o1 o3",
        ),
        ("(gt,startTime,2026-01-01T00:00:00Z)", "o2 o3"),
        ("(lt,startTime,2026-01-01T00:00:00.5Z)", "o1"),
        ("(eq,startTime,2026-01-01T01:00:00.500+01:00)", "o2"),
        ("(cont,startTime,00.5)", "o2"),
        ("(gt,stateEnteredTime,2026-03-04T05:06:07Z)", "o1 o2 o3"),
        ("(eq,isCancelPending,true)", "o3"),
        ("(eq,isCancelPending,false)", "o1 o2"),
        ("(eq,cancelMode,GRACEFUL)", "o3"),
        ("(eq,isAutomaticInvocation,false)", "o1 o2 o3"),
        ("(eq,operationParams/flavourId,simple)", "o1 o2 o3"),
    ] {
        let ops = store
            .ops(TENANT, &query(&VNF_LCM_OP_OCCS, filter))
            .await
            .unwrap();
        let ids: Vec<_> = ops.into_iter().map(|record| record.op.id).collect();
        assert_eq!(ids.join(" "), wanted, "{filter}");
    }
    a_filter_finds_usage_state(&store).await;
}

/// `usageState` of packages is computed, too.
async fn a_filter_finds_usage_state(store: &Shared) {
    store
        .write(
            None,
            vec![Change::AddPackage(package("unused", Some("other")))],
        )
        .await
        .unwrap();
    for (filter, wanted) in [
        ("(eq,usageState,IN_USE)", "package"),
        ("(neq,usageState,IN_USE)", "unused"),
        ("(eq,vnfdId,other)", "unused"),
        ("(cont,warnings,warn)", "package unused"),
        (
            "(eq,vnfProvider,example);(eq,onboardingState,ONBOARDED)",
            "package unused",
        ),
    ] {
        let all = store
            .package_records(TENANT, &query(&VNF_PACKAGES, filter))
            .await
            .unwrap();
        let ids: Vec<_> = all.into_iter().map(|record| record.info.id).collect();
        assert_eq!(ids.join(" "), wanted, "{filter}");
    }
}

pub(super) async fn concurrent_changes_do_not_shift_pages(store: Shared) {
    seed(&*store, &["i1", "i3", "i5", "i7", "i9"]).await;
    let page = |after: Option<&str>| Query {
        after: after.map(Into::into),
        limit: 2,
        ..query(&VNF_INSTANCES, "(neq,id,i3);(cont,vnfInstanceName,name)")
    };
    let ids = |records: Vec<InstanceRecord>| -> Vec<_> {
        records.into_iter().map(|record| record.vnf.id).collect()
    };
    assert_eq!(
        ids(store.instances(TENANT, &page(None)).await.unwrap()),
        ["i1", "i5"]
    );
    let remove = ["i1", "i5"].map(|id| Change::RemoveInstance {
        tenant: TENANT.into(),
        id: id.into(),
    });
    store.write(None, remove.to_vec()).await.unwrap();
    store
        .write(
            None,
            ["i2", "i8"]
                .map(|id| Change::AddInstance(instance(id)))
                .to_vec(),
        )
        .await
        .unwrap();
    assert_eq!(
        ids(store.instances(TENANT, &page(Some("i5"))).await.unwrap()),
        ["i7", "i8"]
    );
    assert_eq!(
        ids(store.instances(TENANT, &page(Some("i8"))).await.unwrap()),
        ["i9"]
    );
}

/// Terms as a client may combine them from existing and other paths and values.
fn made_up() -> Vec<Term> {
    let mut terms = Vec::new();
    for operator in [
        "eq", "neq", "in", "nin", "gt", "gte", "lt", "lte", "cont", "ncont",
    ] {
        for (place, path) in PATHS.iter().enumerate() {
            for (number, value) in VALUES
                .iter()
                .enumerate()
                .filter(|(n, _)| (n + place) % 4 == 0)
            {
                let other = VALUES[(number * 7 + 3) % VALUES.len()];
                let values = match operator {
                    "in" | "nin" | "cont" | "ncont" => format!("{value},{other}"),
                    _ => (*value).to_owned(),
                };
                let text = format!("({operator},{path},{values})");
                // Values of the wrong type are refused, which other tests check.
                terms.extend(
                    Filter::parse(&VNF_INSTANCES, &text)
                        .map(|filter| filter.0)
                        .unwrap_or_default(),
                );
            }
        }
    }
    terms
}

pub(super) async fn results_match_the_filter(store: Shared) {
    seeded(&store).await;
    let all = store.instances(TENANT, &Query::default()).await.unwrap();
    let documents: Vec<_> = all
        .iter()
        .map(|record| {
            (
                record.vnf.id.clone(),
                serde_json::to_value(&record.vnf).unwrap(),
            )
        })
        .collect();
    let terms = made_up();
    assert!(terms.len() > 1_500, "{}", terms.len());
    let mut something = 0;
    for term in terms {
        let query = Query {
            filter: Filter(vec![term]),
            ..Query::default()
        };
        let wanted: Vec<_> = documents
            .iter()
            .filter(|(_, document)| query.filter.holds(document))
            .map(|(id, _)| id.clone())
            .collect();
        let records = store.instances(TENANT, &query).await.unwrap();
        let is: Vec<_> = records.into_iter().map(|record| record.vnf.id).collect();
        assert_eq!(is, wanted, "{:?}", query.filter);
        something += usize::from(!is.is_empty() && is.len() < documents.len());
    }
    assert!(something > 300, "{something}");
}

pub(super) async fn lists_come_in_pages_in_order_of_id(store: Shared) {
    seed(&*store, &["i3", "i1", "i2"]).await;
    let ops = [("o2", "i1"), ("o1", "i2"), ("o3", "i1")];
    for ((op_id, instance_id), state) in ops.into_iter().zip([Completed, Completed, FailedTemp]) {
        let record = op(op_id, instance_id);
        let changes = vec![Change::AddOp(record.clone()), transition(&record, state)];
        store.write(None, changes).await.unwrap();
    }
    let page = Query {
        after: Some("i1".into()),
        limit: 1,
        ..Query::default()
    };
    let all = Query::default();
    let ids = |list: Vec<InstanceRecord>| list.into_iter().map(|r| r.vnf.id).collect::<Vec<_>>();
    assert_eq!(
        ids(store.instances(TENANT, &all).await.unwrap()),
        ["i1", "i2", "i3"]
    );
    assert_eq!(ids(store.instances(TENANT, &page).await.unwrap()), ["i2"]);
    let one = Query::only("id", "i1");
    assert_eq!(ids(store.instances(TENANT, &one).await.unwrap()), ["i1"]);
    let of_one = Query::of_instance("i1");
    let ops = store.ops(TENANT, &of_one).await.unwrap();
    assert_eq!(
        ops.iter().map(|r| r.op.id.as_str()).collect::<Vec<_>>(),
        ["o2", "o3"]
    );
    let page = Query {
        after: Some("o1".into()),
        limit: 1,
        ..Query::default()
    };
    assert_eq!(store.ops(TENANT, &page).await.unwrap()[0].op.id, "o2");
    assert_eq!(store.ops(TENANT, &all).await.unwrap().len(), 3);
    assert_eq!(
        store.op(TENANT, "o2").await.unwrap().op.operation_state,
        Completed
    );
    let complete = store.instance(TENANT, "i1").await.unwrap();
    assert_eq!(complete.deployment, Some(deployment("hunter2")));
    let listed = store.instances(TENANT, &all).await.unwrap();
    assert!(listed.iter().all(|record| record.deployment.is_none()));
    let complete = store.op(TENANT, "o3").await.unwrap();
    assert_eq!(complete.before, Some(deployment("before")));
    assert_eq!(complete.target, Some(deployment("target")));
    let listed = store.ops(TENANT, &all).await.unwrap();
    assert!(
        listed
            .iter()
            .all(|record| record.before.is_none() && record.target.is_none())
    );
    assert!(
        listed
            .iter()
            .all(|record| record.control == complete.control)
    );
}
