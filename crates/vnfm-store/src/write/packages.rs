//! Records of VNF packages. Whether one is in use is not stored, but computed from the instances.

use super::vims::in_use;
use crate::fault::Done;
use crate::refusals::{absent, exists, if_found};
use crate::secret_keys::SecretKeys;
use crate::statement::{Query, Refusal, Statement};
use vnfm_core::ports::{PackageRecord, StoreError};

const KIND: &str = "VNF package";
const WITH_VNFD: &str = "VNF package with VNFD";

/// Adds a package; refused if the tenant has one with the same VNFD.
pub(super) fn add(record: &PackageRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const ADD: &str = "
        INSERT INTO packages (id, tenant, vnfd_id, info, fetching) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT DO NOTHING";
    let id = &record.info.id;
    let known = Query::new("SELECT 1 FROM packages WHERE id = $1").bind(id);
    let refusal = Refusal::from(same_vnfd(record)).unless(if_found(known, exists(KIND, id)));
    let add = Statement::new(ADD)
        .bind(id)
        .bind(&record.tenant)
        .bind(&record.info.vnfd_id)
        .bind(serde_json::to_string(&record.info)?)
        .bind(keys.seal(&record.fetching)?);
    Ok(vec![add.or(refusal)])
}

/// Updates a package, unless another package has its VNFD.
pub(super) fn put(record: &PackageRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const PUT: &str = "
        UPDATE packages SET vnfd_id = $3, info = $4, fetching = $5 WHERE tenant = $1 AND id = $2";
    let put = Statement::new(PUT)
        .bind(&record.tenant)
        .bind(&record.info.id)
        .bind(&record.info.vnfd_id)
        .bind(serde_json::to_string(&record.info)?)
        .bind(keys.seal(&record.fetching)?)
        .or(absent(KIND, &record.info.id))
        .unless_duplicate(same_vnfd(record));
    Ok(vec![put])
}

/// Refuses if a package does not exist; of this and a concurrent removal, one fails.
pub(super) fn still_there(tenant: &str, id: &str) -> Statement {
    const TOUCH: &str = "UPDATE packages SET vnfd_id = vnfd_id WHERE tenant = $1 AND id = $2";
    let touch = Statement::new(TOUCH).bind(tenant).bind(id);
    touch.or(absent(KIND, id))
}

/// Removes a package without instances, to which no operation changes one either.
pub(super) fn remove(tenant: &str, id: &str) -> Vec<Statement> {
    const REMOVE: &str = "
        DELETE FROM packages WHERE tenant = $1 AND id = $2
            AND NOT EXISTS (SELECT 1 FROM instances WHERE vnf_pkg_id = $2)
            AND NOT EXISTS (SELECT 1 FROM ops WHERE next_pkg_id = $2 AND ended = 0)";
    const USERS: &str = "
        SELECT id, tenant, name FROM instances WHERE tenant = $1 AND (vnf_pkg_id = $2 OR active_op IN
            (SELECT id FROM ops WHERE next_pkg_id = $2 AND ended = 0)) ORDER BY id";
    let users = Query::new(USERS).bind(tenant).bind(id);
    let used = users.then(in_use(KIND, id, tenant));
    let remove = Statement::new(REMOVE).bind(tenant).bind(id);
    vec![remove.or(Refusal::from(absent(KIND, id)).unless(used))]
}

fn same_vnfd(record: &PackageRecord) -> StoreError {
    let vnfd_id = record.info.vnfd_id.as_deref();
    exists(WITH_VNFD, vnfd_id.unwrap_or_default())
}
