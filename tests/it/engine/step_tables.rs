//! The table at the top of each operation's file is the table that the runner reads.

use super::fakes::*;
use super::setup::*;
use serde_json::json;
use std::sync::Arc;
use vnfm_core::Limits;
use vnfm_core::lcm::{Begin, OPERATIONS, Operation, Step};
use vnfm_tests::sources::root;

#[test]
fn documented_step_tables_match_the_code() {
    for operation in OPERATIONS {
        let file = operation.kind.as_str().to_lowercase();
        let path = root().join(format!("crates/vnfm-core/src/lcm/{file}.rs"));
        let text = std::fs::read_to_string(&path).unwrap();
        let rows = text.lines().filter_map(|line| line.strip_prefix("//! | "));
        let documented: Vec<_> = rows
            .map(|row| row.split('|').map(str::trim).collect::<Vec<_>>())
            .filter(|cells| matches!(cells[1], "STARTING" | "PROCESSING"))
            .map(|cells| (cells[0].to_owned(), cells[1].to_owned(), cells[3] != "—"))
            .collect();
        let actual: Vec<_> = operation
            .steps
            .iter()
            .map(|step| {
                let needs_text = step.has_undo() || step.is_irreversible();
                (
                    step.name.to_owned(),
                    step.state.as_str().to_owned(),
                    needs_text,
                )
            })
            .collect();
        let names = |rows: &[(String, String, bool)]| -> Vec<(String, String)> {
            rows.iter()
                .map(|row| (row.0.clone(), row.1.clone()))
                .collect()
        };
        assert_eq!(names(&documented), names(&actual), "{}", path.display());
        for (doc, step) in documented.iter().zip(&actual) {
            assert!(
                doc.2 || !step.2,
                "{}: say what undoes `{}`",
                path.display(),
                step.0
            );
        }
    }
}

#[test]
fn rows_agree_with_their_steps() {
    for operation in OPERATIONS {
        let name = operation.interface_operation;
        let asks = operation.steps.iter().any(Step::is_grant);
        assert_eq!(asks, operation.grant.is_some(), "{name}");
        for hook in operation.hooks() {
            let names = [format!("{name}_start"), format!("{name}_end")];
            assert!(names.iter().any(|name| name == hook), "{hook}");
        }
        let same = |other: &&&Operation| other.kind == operation.kind;
        for rows in [OPERATIONS, super::setup::OPERATIONS, SCALABLE] {
            assert!(rows.iter().filter(same).count() <= 1, "{name}");
        }
    }
}

#[tokio::test]
async fn malformed_operation_requests_are_refused_without_echoing_values() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine_with(store().await, &world, Limits::default());
    let id = instance(&engine).await;
    for operation in OPERATIONS {
        let body = json!({"flavourId": {"password": "hunter2"}, "scaleInfo": "hunter2", "terminationType": "hunter2", "cause": 2, "vnfInstanceName": ["hunter2"]});
        let refused = engine
            .begin(TENANT, &id, Begin::new(operation, body))
            .await
            .unwrap_err();
        assert_eq!(
            refused.code.name, "request.bad-parameters",
            "{}: {refused}",
            operation.kind
        );
        assert!(
            !format!("{refused:?}").contains("hunter2"),
            "{}",
            operation.kind
        );
    }
}
