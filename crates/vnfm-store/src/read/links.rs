//! Shared virtual links. Which instances use one is computed here.

use super::list::list;
use crate::dialect;
use crate::fault::Done;
use crate::filter::LINKS;
use crate::statement::{Query as Sql, Row, json};
use crate::visibility::List;
use vnfm_core::ports::LinkRecord;
use vnfm_core::query::Query;
use vnfm_types::SharedLink;

/// One link of the tenant, by id or name.
pub(crate) fn link(tenant: &str, id_or_name: &str) -> Sql {
    let sql = format!(
        "SELECT tenant, version, info, {} FROM links WHERE tenant = $1 AND (id = $2 OR name = $2)",
        users()
    );
    Sql::new(sql).bind(tenant).bind(id_or_name)
}

/// Links in order of id.
pub(crate) fn links(tenant: &str, query: &Query) -> Done<Sql> {
    list((&LINKS, List::Links), tenant, query, |condition| {
        format!(
            "SELECT tenant, version, info, {} FROM links WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3",
            users()
        )
    })
}

/// The ids of the instances that use a link, as JSON.
fn users() -> String {
    let rows = "link_uses WHERE link_uses.tenant = links.tenant AND link_uses.link_id = links.id";
    dialect::list("link_uses.instance_id", rows)
}

/// A row of [`link`] or [`links`].
pub(crate) fn link_record(mut row: Row) -> Done<LinkRecord> {
    let (tenant, version) = (row.take()?, row.count()?);
    let link: SharedLink = row.json()?;
    let mut used_by: Vec<String> = json(&row.take::<String>()?)?;
    used_by.sort();
    Ok(LinkRecord {
        tenant,
        version,
        link: SharedLink { used_by, ..link },
    })
}
