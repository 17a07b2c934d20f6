//! The statements of changes, read without running them.

use super::statements;
use crate::executor;
use crate::op_lease;
use crate::schema::{MIGRATIONS, migrate};
use crate::secret_keys::SecretKeys;
use crate::statement::{Expect, Query, Refusal, Statement, Value};
use rusqlite::Connection;
use serde_json::json;
use vnfm_conformance::store::records::{
    TENANT, deployment, instance, lives, notification, op, package, retire, step, transition, vim,
};
use vnfm_core::ports::{Change, Fence, HostPin, PinnedHost, QuotaResource, StepStatus};
use vnfm_types::{CancelMode, LcmOperationState};

/// A change of nearly every kind.
fn changes() -> Vec<Change> {
    let lists = [
        of_instances_and_operations(),
        of_vims_and_packages(),
        others(),
    ];
    lists.into_iter().flatten().collect()
}

fn tenant() -> String {
    TENANT.to_owned()
}

fn id() -> String {
    "x".to_owned()
}

fn of_instances_and_operations() -> Vec<Change> {
    vec![
        Change::AddInstance(instance("i")),
        Change::PutInstance(instance("i")),
        Change::RemoveInstance {
            tenant: tenant(),
            id: id(),
        },
        Change::AddOp(op("o", "i")),
        transition(&op("o", "i"), LcmOperationState::Completed),
        Change::RuleOutRollback {
            op_id: id(),
            step: id(),
        },
        Change::Cancel {
            op_id: id(),
            mode: CancelMode::Graceful,
        },
        step("o", "allocate", StepStatus::Started, json!(1)),
        Change::RecordOrderlyExit {
            process: id(),
            op_id: None,
        },
        Change::RemoveCheckpoints {
            op_id: id(),
            step: id(),
        },
        Change::RevokeLease {
            instance_id: id(),
            op_id: id(),
            force: false,
        },
        abandon(false),
        notification("i", json!(1)),
    ]
}

fn of_vims_and_packages() -> Vec<Change> {
    vec![
        lives("i", Some("v"), None),
        lives("i", None, Some("uid")),
        Change::RemoveUses { instance_id: id() },
        retire("i", "o"),
        Change::UnmarkVimsLeaving { op_id: id() },
        Change::AddVim(vim("v", "cloud")),
        Change::PutVim(vim("v", "cloud")),
        remove_vim(),
        Change::AddPackage(package("p", None)),
        Change::PutPackage(package("p", Some("d"))),
        remove_package(),
    ]
}

fn others() -> Vec<Change> {
    let what = QuotaResource::PackageBytes;
    vec![
        Change::RemoveSubscription {
            tenant: tenant(),
            id: id(),
        },
        Change::RemoveTombstone {
            tenant: tenant(),
            instance_id: id(),
        },
        Change::PinHostKey {
            pin: Box::new(HostPin::default()),
            key: id(),
        },
        Change::RemoveHostKey(PinnedHost::default()),
        Change::Reserve {
            tenant: tenant(),
            id: id(),
            what,
            amount: 1,
        },
        Change::Release { id: id() },
        Change::PackageSize {
            tenant: tenant(),
            id: id(),
            bytes: 1,
        },
        Change::CheckQuota {
            tenant: tenant(),
            what,
            most: 1,
            adds: 1,
        },
    ]
}

fn abandon(force: bool) -> Change {
    Change::Abandon {
        tenant: tenant(),
        id: id(),
        force,
    }
}

fn remove_vim() -> Change {
    Change::RemoveVim {
        tenant: tenant(),
        id: id(),
        force: false,
    }
}

fn remove_package() -> Change {
    Change::RemovePackage {
        tenant: tenant(),
        id: id(),
    }
}

fn made(change: &Change) -> Vec<Statement> {
    statements(change, &SecretKeys::ephemeral()).unwrap()
}

fn refusal(statement: &Statement) -> Option<&Refusal> {
    match &statement.expect {
        Expect::Rows(refusal) | Expect::HeldRows(refusal) => Some(refusal),
        Expect::Anything | Expect::NoRows(_) => None,
    }
}

#[test]
fn every_statement_and_question_fits_the_schema_and_has_all_its_values() {
    let db = Connection::open_in_memory().unwrap();
    migrate(&db, MIGRATIONS).unwrap();
    let explained = |query: &Query| {
        let sql = format!("EXPLAIN {}", query.sql);
        let explain = Query::new(sql).bind_all(query.values.clone());
        executor::rows(&db, &explain).unwrap_or_else(|fault| panic!("{}: {fault:?}", query.sql));
    };
    for change in changes() {
        for statement in made(&change) {
            explained(&statement.query);
            let refusal = refusal(&statement);
            let questions = refusal.into_iter().flat_map(|refusal| &refusal.reasons);
            questions.for_each(|reason| explained(&reason.query));
        }
    }
}

/// Nothing may hold only because one thread writes: the statement itself has the condition.
#[test]
fn conditions_that_decide_races_are_in_the_statement() {
    let decides = |change: &Change, condition: &str| {
        let all = made(change);
        let found = all.iter().find(|one| one.query.sql.contains(condition));
        let found = found.unwrap_or_else(|| panic!("{change:?} has no condition `{condition}`"));
        assert!(
            !matches!(found.expect, Expect::Anything),
            "{change:?} ignores whether `{condition}` held"
        );
    };
    decides(&Change::AddOp(op("o", "i")), "active_op IS NULL");
    decides(&Change::PutInstance(instance("i")), "version = $3");
    decides(&Change::PutVim(vim("v", "cloud")), "version = $3");
    let put = transition(&op("o", "i"), LcmOperationState::Completed);
    decides(&put, "AND state = $3");
    let rule_out = Change::RuleOutRollback {
        op_id: id(),
        step: id(),
    };
    decides(&rule_out, "AND state = 'PROCESSING'");
    decides(&lives("i", Some("v"), None), "FROM retiring");
    decides(&retire("i", "o"), "FROM uses");
    decides(&remove_vim(), "NOT EXISTS");
    decides(&remove_package(), "NOT EXISTS");
    decides(&abandon(false), "FROM uses");
    assert_eq!(made(&abandon(true)).len() + 1, made(&abandon(false)).len());
}

#[test]
fn a_lease_is_held_until_the_commit_and_taken_over_with_a_higher_epoch() {
    let fence = Fence {
        op_id: "o".into(),
        epoch: 7,
    };
    let held = op_lease::held(&fence);
    assert!(matches!(held.expect, Expect::HeldRows(_)));
    assert_eq!(held.query.values, [Value::from("o"), Value::Integer(7)]);
    let take_over = op_lease::take_over("new").query;
    assert!(take_over.sql.contains("epoch = epoch + 1"));
    assert_eq!(take_over.values, [Value::from("new")]);
}

#[test]
fn secrets_are_sealed_before_they_are_values() {
    let mut record = instance("i");
    record.deployment = Some(deployment("hunter2"));
    for change in [
        Change::AddInstance(record.clone()),
        Change::PutInstance(record),
    ] {
        let all = made(&change);
        let values = all.iter().flat_map(|one| &one.query.values);
        let texts = values.filter_map(|value| match value {
            Value::Text(text) => Some(text),
            Value::Null | Value::Integer(_) | Value::Real(_) => None,
        });
        assert_eq!(texts.filter(|text| text.contains("hunter2")).count(), 0);
    }
}
