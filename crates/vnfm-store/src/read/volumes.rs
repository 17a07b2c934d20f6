//! Retained volumes. State and user are columns, not part of the document.

use super::list::list;
use crate::fault::Done;
use crate::filter::VOLUMES;
use crate::statement::{Query as Sql, Row};
use crate::visibility::List;
use serde_json::Value;
use vnfm_core::ports::VolumeRecord;
use vnfm_core::query::Query;
use vnfm_types::RetainedVolume;

/// One volume of the tenant.
pub(crate) fn volume(tenant: &str, id: &str) -> Sql {
    Sql::new("SELECT tenant, state, used_by, info FROM volumes WHERE tenant = $1 AND id = $2")
        .bind(tenant)
        .bind(id)
}

/// Volumes in order of id.
pub(crate) fn volumes(tenant: &str, query: &Query) -> Done<Sql> {
    list((&VOLUMES, List::Volumes), tenant, query, |condition| {
        format!(
            "SELECT tenant, state, used_by, info FROM volumes WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
        )
    })
}

/// A row of [`volume`] or [`volumes`].
pub(crate) fn volume_record(mut row: Row) -> Done<VolumeRecord> {
    let tenant = row.take()?;
    let state: String = row.take()?;
    let used_by = row.take()?;
    let volume: RetainedVolume = row.json()?;
    let state = serde_json::from_value(Value::String(state))?;
    Ok(VolumeRecord {
        tenant,
        volume: RetainedVolume {
            state,
            used_by,
            ..volume
        },
    })
}
