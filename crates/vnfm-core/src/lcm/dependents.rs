//! The records of VNFs that run on VIMs which hooks of an operation change.
//!
//! A hook that drains the nodes of a cluster moves pods of other VNFs. No operation of theirs records that, so the one
//! that moved them does, at once: their VNFCs are observed, and their records written if they differ.

use super::Op;
use super::refresh::Refresher;
use crate::ports::HookDependent;

/// Updates the records of these instances. One that cannot be updated is logged: it is not what the hook was about.
pub(super) async fn refresh(op: &Op, dependents: &[HookDependent]) {
    let refresher = Refresher {
        context: &op.context,
        operation: Some(&op.fence),
        watcher: op.watcher(),
        deadline: op.deadline,
    };
    for dependent in dependents {
        let id = &dependent.id;
        if let Err(error) = refresher.refresh(op.tenant(), id).await {
            let outdated = format!("the record of VNF instance `{id}` may be outdated: {error}");
            op.watcher().log("warn", "dependents", &outdated);
        }
    }
}
