//! Records of VNF packages. Whether one is in use is not stored, but computed from the instances.

use super::vims::{User, in_use};
use super::{Writing, absent};
use crate::fault::Done;
use vnfm_core::ports::{PackageRecord, StoreError};

const KIND: &str = "VNF package";
const WITH_VNFD: &str = "VNF package with VNFD";

/// Adds a package.
pub(super) fn add(writing: &Writing<'_>, record: &PackageRecord) -> Done<()> {
    const ADD: &str = "
        INSERT INTO packages (id, tenant, vnfd_id, info, fetching) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT DO NOTHING";
    let keys = writing.keys;
    let added = writing
        .statement(ADD)
        .bind(&record.info.id)
        .bind(&record.tenant)
        .bind(&record.info.vnfd_id)
        .bind(serde_json::to_string(&record.info)?)
        .bind(keys.seal(&record.fetching)?)
        .changed()?;
    if added {
        return Ok(());
    }
    let known = writing
        .statement("SELECT id FROM packages WHERE id = $1")
        .bind(&record.info.id);
    Err(match known.value()? {
        Some(id) => StoreError::Exists { what: KIND, id },
        None => same_vnfd(record),
    }
    .into())
}

/// Updates a package, unless another package has its VNFD.
pub(super) fn put(writing: &Writing<'_>, record: &PackageRecord) -> Done<()> {
    const PUT: &str = "
        UPDATE packages SET vnfd_id = $3, info = $4, fetching = $5 WHERE tenant = $1 AND id = $2";
    let keys = writing.keys;
    let written = writing
        .statement(PUT)
        .bind(&record.tenant)
        .bind(&record.info.id)
        .bind(&record.info.vnfd_id)
        .bind(serde_json::to_string(&record.info)?)
        .bind(keys.seal(&record.fetching)?)
        .changed();
    match written {
        Err(fault) if fault.is_duplicate() => Err(same_vnfd(record).into()),
        Err(fault) => Err(fault),
        Ok(true) => Ok(()),
        Ok(false) => Err(absent(KIND, &record.info.id).into()),
    }
}

/// Removes a package without instances.
pub(super) fn remove(writing: &Writing<'_>, tenant: &str, id: &str) -> Done<()> {
    const REMOVE: &str = "
        DELETE FROM packages WHERE tenant = $1 AND id = $2
            AND NOT EXISTS (SELECT 1 FROM instances WHERE vnf_pkg_id = $2)";
    const USERS: &str = "
        SELECT id, tenant, name FROM instances WHERE tenant = $1 AND vnf_pkg_id = $2 ORDER BY id";
    if writing.statement(REMOVE).bind(tenant).bind(id).changed()? {
        return Ok(());
    }
    let users: Vec<User> = writing.statement(USERS).bind(tenant).bind(id).rows()?;
    let error = if users.is_empty() {
        absent(KIND, id)
    } else {
        in_use(KIND, id, tenant, users)
    };
    Err(error.into())
}

fn same_vnfd(record: &PackageRecord) -> StoreError {
    StoreError::Exists {
        what: WITH_VNFD,
        id: record.info.vnfd_id.clone().unwrap_or_default(),
    }
}
