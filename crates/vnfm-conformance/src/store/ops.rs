//! Rules about operation occurrences: one active one per instance, states, journals, checkpoints and logs.

use super::records::{TENANT, at, instance, op, seed, step, transition, write};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{
    Change, JournalRow, OpenStep, ProcessHistory, SecretJson, StepRetry, StepStatus, Store,
    StoreError,
};
use vnfm_core::query::Query;
use vnfm_types::LcmOperationState::{self, Completed, Failed, FailedTemp, Processing, RollingBack};
use vnfm_types::LogLine;

type Shared = Arc<dyn Store>;

pub(super) async fn of_sixteen_operations_at_once_one_begins(store: Shared) {
    seed(&*store, &["i1"]).await;
    let begun = join_all((0..16).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            store
                .write(None, vec![Change::AddOp(op(&format!("o{n}"), "i1"))])
                .await
        })
    }));
    let outcomes: Vec<_> = begun.await.into_iter().map(Result::unwrap).collect();
    let active = store
        .instance(TENANT, "i1")
        .await
        .unwrap()
        .active_op
        .unwrap();
    let busy = StoreError::Busy {
        instance_id: "i1".into(),
        op_id: active.clone(),
    };
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let expected = if active == format!("o{n}") {
            Ok(())
        } else {
            Err(busy.clone())
        };
        assert_eq!(outcome, expected, "o{n}");
    }
    assert_eq!(store.ops(TENANT, &Query::default()).await.unwrap().len(), 1);
}

pub(super) async fn an_operation_is_written_only_from_its_current_state(store: Shared) {
    seed(&*store, &["i1"]).await;
    let mut record = op("o1", "i1");
    store
        .write(None, vec![Change::AddOp(record.clone())])
        .await
        .unwrap();
    assert_eq!(store.op(TENANT, "o1").await.unwrap(), *record);
    record.point_of_no_return = Some("release".into());
    store
        .write(None, vec![transition(&record, Processing)])
        .await
        .unwrap();
    let again = store
        .write(None, vec![transition(&record, Processing)])
        .await;
    let found = "PROCESSING".to_owned();
    assert_eq!(
        again,
        Err(StoreError::WrongState {
            what: "operation",
            id: "o1".into(),
            found
        })
    );
    record.op.operation_state = Processing;
    assert_eq!(store.op(TENANT, "o1").await.unwrap(), *record);
    let absent = store
        .write(None, vec![transition(&op("o2", "i1"), Processing)])
        .await;
    assert_eq!(
        absent,
        Err(StoreError::NotFound {
            what: "operation",
            id: "o2".into()
        })
    );
}

pub(super) async fn a_rollback_that_was_ruled_out_stays_so(store: Shared) {
    seed(&*store, &["i1"]).await;
    let mut record = op("o1", "i1");
    write(&*store, vec![Change::AddOp(record.clone())]).await;
    let rule_out = |op_id: &str, step: &str| {
        vec![Change::RuleOutRollback {
            op_id: op_id.into(),
            step: step.into(),
        }]
    };
    let in_state = |state: LcmOperationState| {
        Err(StoreError::WrongState {
            what: "operation",
            id: "o1".into(),
            found: state.as_str().to_owned(),
        })
    };
    let early = store.write(None, rule_out("o1", "early")).await;
    assert_eq!(early, in_state(record.op.operation_state));
    write(&*store, vec![transition(&record, Processing)]).await;
    record.op.operation_state = Processing;
    write(&*store, rule_out("o1", "first")).await;
    write(&*store, rule_out("o1", "second")).await;
    // `record` does not have it.
    write(&*store, vec![transition(&record, FailedTemp)]).await;
    let late = store.write(None, rule_out("o1", "late")).await;
    assert_eq!(late, in_state(FailedTemp));
    let stored = store.op(TENANT, "o1").await.unwrap();
    assert_eq!(stored.point_of_no_return.as_deref(), Some("first"));
    let absent = store.write(None, rule_out("o9", "first")).await;
    assert!(
        matches!(absent, Err(StoreError::NotFound { .. })),
        "{absent:?}"
    );
}

pub(super) async fn of_two_concurrent_state_changes_one_succeeds(store: Shared) {
    for round in 0..20 {
        let (instance_id, op_id) = (format!("i{round}"), format!("o{round}"));
        if round == 0 {
            seed(&*store, &[&instance_id]).await;
        } else {
            store
                .write(None, vec![Change::AddInstance(instance(&instance_id))])
                .await
                .unwrap();
        }
        let mut record = op(&op_id, &instance_id);
        store
            .write(None, vec![Change::AddOp(record.clone())])
            .await
            .unwrap();
        store
            .write(None, vec![transition(&record, FailedTemp)])
            .await
            .unwrap();
        record.op.operation_state = FailedTemp;
        let retry = store.write(None, vec![transition(&record, Processing)]);
        let rollback = store.write(None, vec![transition(&record, RollingBack)]);
        let (retried, rolled_back) = tokio::join!(retry, rollback);
        assert!(
            retried.is_ok() != rolled_back.is_ok(),
            "{retried:?} {rolled_back:?}"
        );
        let state = store.op(TENANT, &op_id).await.unwrap().op.operation_state;
        assert_eq!(
            state,
            if retried.is_ok() {
                Processing
            } else {
                RollingBack
            }
        );
    }
}

pub(super) async fn an_ended_operation_frees_its_instance(store: Shared) {
    seed(&*store, &["i1"]).await;
    let record = op("o1", "i1");
    store
        .write(None, vec![Change::AddOp(record.clone())])
        .await
        .unwrap();
    assert_eq!(
        store
            .instance(TENANT, "i1")
            .await
            .unwrap()
            .active_op
            .as_deref(),
        Some("o1")
    );
    store
        .write(None, vec![transition(&record, Completed)])
        .await
        .unwrap();
    assert_eq!(store.instance(TENANT, "i1").await.unwrap().active_op, None);
    store
        .write(None, vec![Change::AddOp(op("o2", "i1"))])
        .await
        .unwrap();
    let of_nothing = store.write(None, vec![Change::AddOp(op("o3", "i9"))]).await;
    assert_eq!(
        of_nothing,
        Err(StoreError::NotFound {
            what: "VNF instance",
            id: "i9".into()
        })
    );
}

pub(super) async fn an_ended_operation_keeps_no_deployment(store: Shared) {
    seed(&*store, &["i1"]).await;
    let record = op("o1", "i1");
    let begin = vec![Change::AddOp(record.clone())];
    store.write(None, begin).await.unwrap();
    let deployments = async || {
        let now = store.op(TENANT, "o1").await.unwrap();
        (now.before.is_some(), now.target.is_some())
    };
    let waits = transition(&record, FailedTemp);
    store.write(None, vec![waits]).await.unwrap();
    assert_eq!(deployments().await, (true, true), "a retry needs them");
    let mut record = record;
    record.op.operation_state = FailedTemp;
    let ends = transition(&record, Failed);
    store.write(None, vec![ends]).await.unwrap();
    assert_eq!(deployments().await, (false, false));
}

pub(super) async fn the_journal_keeps_its_order_and_its_outputs(store: Shared) {
    seed(&*store, &["i1"]).await;
    let changes = vec![
        Change::AddOp(op("o1", "i1")),
        step("o1", "grant", StepStatus::Started, Value::Null),
        step("o1", "allocate", StepStatus::Started, Value::Null),
        step(
            "o1",
            "grant",
            StepStatus::Done,
            json!({"v": 1, "data": {"token": "hunter2"}}),
        ),
    ];
    store.write(None, changes).await.unwrap();
    let rows = store.journal("o1").await.unwrap();
    let observed: Vec<_> = rows
        .iter()
        .map(|row| (row.step.as_str(), row.status))
        .collect();
    assert_eq!(
        observed,
        [
            ("grant", StepStatus::Done),
            ("allocate", StepStatus::Started)
        ]
    );
    assert_eq!(
        rows[0].output,
        SecretJson::from(json!({"v": 1, "data": {"token": "hunter2"}}))
    );
    assert_eq!(
        (rows[0].started_at, rows[0].ended_at, rows[1].ended_at),
        (at(), Some(at()), None)
    );
    for status in [StepStatus::Skipped, StepStatus::Undoing, StepStatus::Undone] {
        store
            .write(None, vec![step("o1", "grant", status, Value::Null)])
            .await
            .unwrap();
        assert_eq!(store.journal("o1").await.unwrap()[0].status, status);
    }
    let of_nothing = vec![step("o9", "grant", StepStatus::Started, Value::Null)];
    assert!(matches!(
        store.write(None, of_nothing).await,
        Err(StoreError::NotFound { .. })
    ));
}

pub(super) async fn a_checkpoint_is_stored_by_operation_step_and_key(store: Shared) {
    seed(&*store, &["i1"]).await;
    store
        .write(None, vec![Change::AddOp(op("o1", "i1"))])
        .await
        .unwrap();
    let remember = |step: &str, value: Value| Change::Checkpoint {
        op_id: "o1".into(),
        step: step.into(),
        key: "token".into(),
        value: SecretJson::from(value),
    };
    let changes = vec![
        remember("a", json!("old")),
        remember("b", json!({"x": [1]})),
        remember("a", json!("new")),
    ];
    store.write(None, changes).await.unwrap();
    assert_eq!(
        store.checkpoint("o1", "a", "token").await,
        Ok(Some(SecretJson::from(json!("new"))))
    );
    assert_eq!(
        store.checkpoint("o1", "b", "token").await,
        Ok(Some(SecretJson::from(json!({"x": [1]}))))
    );
    assert_eq!(store.checkpoint("o1", "a", "other").await, Ok(None));
    store
        .write(None, vec![remember("a", Value::Null)])
        .await
        .unwrap();
    assert_eq!(
        store.checkpoint("o1", "a", "token").await,
        Ok(Some(SecretJson::from(Value::Null)))
    );
}

pub(super) async fn a_log_keeps_its_newest_lines(store: Shared) {
    seed(&*store, &["i1"]).await;
    store
        .write(None, vec![Change::AddOp(op("o1", "i1"))])
        .await
        .unwrap();
    let line = |text: String| LogLine {
        seq: 0,
        at: at(),
        level: "info".into(),
        source: "worker1".into(),
        text,
    };
    let lines = |from: usize, to: usize| (from..to).map(|n| line(n.to_string())).collect();
    store.append_log("o1", lines(0, 1_500)).await.unwrap();
    store.append_log("o1", lines(1_500, 2_500)).await.unwrap();
    let retained = store.log("o1", 0).await.unwrap();
    assert_eq!(retained.len(), 2_000);
    assert_eq!((retained[0].seq, retained[0].text.as_str()), (501, "500"));
    let newest = store.log("o1", 2_499).await.unwrap();
    assert_eq!(
        newest,
        [LogLine {
            seq: 2_500,
            ..line("2499".into())
        }]
    );
    store
        .append_log("o1", vec![line("ä".repeat(4_000))])
        .await
        .unwrap();
    assert_eq!(
        store.log("o1", 2_500).await.unwrap()[0].text,
        "ä".repeat(2_048)
    );
    assert!(matches!(
        store.append_log("o9", lines(0, 1)).await,
        Err(StoreError::NotFound {
            what: "operation",
            ..
        })
    ));
    assert_eq!(store.log("o9", 0).await, Ok(vec![]));
}

pub(super) async fn checkpoints_are_deleted_by_step(store: Shared) {
    seed(&*store, &["i1"]).await;
    let remember = |step: &str| Change::Checkpoint {
        op_id: "o1".into(),
        step: step.into(),
        key: "k".into(),
        value: SecretJson::from(json!(1)),
    };
    let changes = vec![Change::AddOp(op("o1", "i1")), remember("a"), remember("b")];
    store.write(None, changes).await.unwrap();
    let forget = || {
        vec![Change::RemoveCheckpoints {
            op_id: "o1".into(),
            step: "a".into(),
        }]
    };
    store.write(None, forget()).await.unwrap();
    assert_eq!(store.checkpoint("o1", "a", "k").await, Ok(None));
    assert_eq!(
        store.checkpoint("o1", "b", "k").await,
        Ok(Some(SecretJson::from(json!(1))))
    );
    store.write(None, forget()).await.unwrap();
}

pub(super) async fn a_step_keeps_its_failures(store: Shared) {
    seed(&*store, &["i1"]).await;
    write(&*store, vec![Change::AddOp(op("o1", "i1"))]).await;
    let failures = StepRetry {
        failures: 2,
        first_failed_at: at(),
        next_at: at() + Duration::from_secs(4),
        last_error: "no response".into(),
    };
    for retry in [Some(failures), None] {
        let Change::Journal(row) = step("o1", "a", StepStatus::Started, json!(null)) else {
            panic!("`step` makes a journal row");
        };
        let row = JournalRow {
            retry: retry.clone(),
            ..(*row).clone()
        };
        write(&*store, vec![Change::Journal(Arc::new(row))]).await;
        let read = store.journal("o1").await.unwrap();
        assert_eq!(read[0].retry, retry);
    }
}

/// The change that journals a step which these processes ran.
fn begun(op_id: &str, name: &str, status: StepStatus, lives: &ProcessHistory) -> Change {
    match step(op_id, name, status, json!(null)) {
        Change::Journal(row) => Change::Journal(Arc::new(JournalRow {
            lives: lives.clone(),
            ..(*row).clone()
        })),
        other => other,
    }
}

pub(super) async fn a_step_keeps_which_processes_ran_it(store: Shared) {
    seed(&*store, &["i1", "i2"]).await;
    let (open, ended) = (op("o1", "i1"), op("o2", "i2"));
    let changes = vec![Change::AddOp(open), Change::AddOp(ended.clone())];
    store.write(None, changes).await.unwrap();
    let alone = ProcessHistory {
        by: "p3".into(),
        died: vec!["p1".into(), "p2".into()],
        alone: true,
        outlived: 1,
        killed: false,
    };
    let killed = ProcessHistory {
        alone: false,
        killed: true,
        ..alone.clone()
    };
    let changes = vec![
        begun("o1", "one", StepStatus::Done, &ProcessHistory::default()),
        begun("o1", "two", StepStatus::Started, &alone),
        begun("o2", "three", StepStatus::Undoing, &killed),
        transition(&ended, FailedTemp),
    ];
    store.write(None, changes).await.unwrap();
    assert_eq!(store.journal("o1").await.unwrap()[1].lives, alone);
    let found = |op_id: &str, lives: &ProcessHistory| {
        let (tenant, lives) = (TENANT.to_owned(), lives.clone());
        OpenStep {
            tenant,
            op_id: op_id.to_owned(),
            ended_at: None,
            lives,
        }
    };
    let open = store.open_steps().await.unwrap();
    assert_eq!(open, [found("o1", &alone), found("o2", &killed)]);
    let again = vec![
        begun("o1", "two", StepStatus::Done, &ProcessHistory::default()),
        begun(
            "o2",
            "three",
            StepStatus::Undoing,
            &ProcessHistory::default(),
        ),
    ];
    store.write(None, again).await.unwrap();
    assert_eq!(
        store.open_steps().await,
        Ok(vec![]),
        "a stopped operation is not driven"
    );
}

pub(super) async fn an_orderly_exit_is_recorded(store: Shared) {
    seed(&*store, &["i1"]).await;
    store
        .write(None, vec![Change::AddOp(op("o1", "i1"))])
        .await
        .unwrap();
    assert_eq!(store.orderly_exits("o1").await, Ok(vec![]));
    let left = |process: &str, op_id: Option<&str>| Change::RecordOrderlyExit {
        process: process.to_owned(),
        op_id: op_id.map(ToOwned::to_owned),
    };
    let changes = vec![
        left("p1", None),
        left("p2", Some("o1")),
        left("p3", Some("o2")),
    ];
    store.write(None, changes).await.unwrap();
    store.write(None, vec![left("p1", None)]).await.unwrap();
    let mut known = store.orderly_exits("o1").await.unwrap();
    known.sort();
    assert_eq!(known, ["p1", "p2"]);
}
