//! Converts rows that a version before migration 16 wrote: the request that instantiated a VNF becomes its
//! deployment, and data inside requests, outputs and checkpoints moves to columns of its own. It needs the keys, so
//! it cannot be plain SQL.
//!
//! | before | after |
//! |---|---|
//! | `instances.request` | `instances.deployment`; `needs_levels` = 1 |
//! | request member `vnfm/granted` | `placement` of the deployment |
//! | `metadata.mgmtDrivers` of an instance | `plugins` of the deployment |
//! | request members `vnfm/skipHooks`, `vnfm/v1` | `ops.control` |
//! | – | `ops.before`, `ops.target`, unless the operation has ended |
//! | output members `plugin`, `by`, `deaths` of a hook | `journal.hook`, `journal.lives` |
//! | checkpoint `vnfm/undo` of a hook | `canUndo` in `journal.hook` |
//!
//! One transaction: a process that dies meanwhile leaves everything as it was.

use crate::executor::{all, execute, transaction};
use crate::fault::Done;
use crate::secret_keys::SecretKeys;
use crate::statement::Query;
use rusqlite::Connection;
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeMap;
use vnfm_core::Deployment;
use vnfm_core::ports::{DriverId, Granted, HookState, OpControl, ProcessHistory, SecretJson};
use vnfm_types::v1::ApiVersion;
use vnfm_types::{InstantiateVnfRequest, LcmOperationType, VnfInstance};

/// Old versions counted at most this many deaths of a hook's process.
const MAX_DEATHS: u64 = 2;

/// Converts every row not converted yet.
pub(crate) fn convert(db: &Connection, keys: &SecretKeys) -> Done<()> {
    transaction(db, |db| {
        hooks(db, keys)?;
        operations(db, keys)?;
        instances(db, keys)
    })
}

/// Journal rows of operations that have not ended. Must come first: `ops.control` marks the rows still to convert.
fn hooks(db: &Connection, keys: &SecretKeys) -> Done<()> {
    const FIND: &str = "
        SELECT journal.op_id, journal.step, journal.output, journal.lives,
            EXISTS (SELECT 1 FROM checkpoints WHERE op_id = journal.op_id AND step = journal.step AND key = 'vnfm/undo')
        FROM journal JOIN ops ON ops.id = journal.op_id
        WHERE ops.control IS NULL AND ops.ended = 0 AND journal.output IS NOT NULL";
    const PUT: &str =
        "UPDATE journal SET output = $3, lives = $4, hook = $5 WHERE op_id = $1 AND step = $2";
    const FORGET: &str = "DELETE FROM checkpoints WHERE key = 'vnfm/undo'";
    type Row = (String, String, Option<String>, Option<String>, bool);
    let rows: Vec<Row> = all(db, &Query::new(FIND))?;
    for (op_id, step, output, lives, can_undo) in rows {
        let mut output = Value::clone(&*keys.unseal(output.as_deref())?);
        let Some(members) = output.as_object_mut() else {
            continue;
        };
        let [plugin, by, deaths] = ["plugin", "by", "deaths"].map(|member| members.remove(member));
        let hook = plugin.map(|plugin| hook_state(&plugin, can_undo));
        let lives = lives_of(lives.as_deref(), by, deaths)?;
        let put = Query::new(PUT)
            .bind(op_id)
            .bind(step)
            .bind(keys.seal(&SecretJson::from(output))?)
            .bind(serde_json::to_string(&lives)?)
            .bind(hook.map(|hook| serde_json::to_string(&hook)).transpose()?);
        execute(db, &put)?;
    }
    execute(db, &Query::new(FORGET)).map(drop)
}

fn hook_state(plugin: &Value, can_undo: bool) -> HookState {
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    HookState {
        implementation: text(&plugin["for"][0]).unwrap_or_default(),
        plugin: text(&plugin["for"][1]),
        driver: DriverId::deserialize(&plugin["is"]).unwrap_or_default(),
        can_undo,
    }
}

/// The processes that ran a hook, unless a version that records them for every step has already done so.
fn lives_of(known: Option<&str>, by: Option<Value>, deaths: Option<Value>) -> Done<ProcessHistory> {
    let known: ProcessHistory = known
        .map(serde_json::from_str)
        .transpose()?
        .unwrap_or_default();
    let (Some(Value::String(by)), true) = (by, known.by.is_empty()) else {
        return Ok(known);
    };
    let deaths = deaths
        .and_then(|deaths| deaths.as_u64())
        .unwrap_or_default()
        .min(MAX_DEATHS);
    let died = (1..=deaths)
        .map(|number| format!("unknown-{number}"))
        .collect();
    Ok(ProcessHistory { by, died, ..known })
}

/// Operations: control members move out of the request; the deployments before and after are added unless they have ended.
fn operations(db: &Connection, keys: &SecretKeys) -> Done<()> {
    const FIND: &str = "
        SELECT ops.id, ops.operation, ops.ended, ops.request, instances.vnf_pkg_id, instances.vnf, instances.request
        FROM ops LEFT JOIN instances ON instances.id = ops.instance_id WHERE ops.control IS NULL";
    const PUT: &str =
        "UPDATE ops SET request = $2, before = $3, target = $4, control = $5 WHERE id = $1";
    type Row = (
        String,
        String,
        bool,
        Option<String>,
        Option<String>,
        Option<String>,
        Option<String>,
    );
    let rows: Vec<Row> = all(db, &Query::new(FIND))?;
    for (id, operation, ended, request, package, vnf, first) in rows {
        let mut request = Value::clone(&*keys.unseal(request.as_deref())?);
        let (mut before, mut target) = (None, None);
        if let (false, Some(package), Some(vnf)) = (ended, &package, &vnf) {
            let vnf: VnfInstance = serde_json::from_str(vnf)?;
            before = deployment(package, &*keys.unseal(first.as_deref())?, Some(&vnf))?;
            target = match &operation {
                _ if operation == LcmOperationType::Instantiate.as_str() => {
                    deployment(package, &request, None)?
                }
                _ if operation == LcmOperationType::Terminate.as_str() => None,
                _ => before.clone(),
            };
        }
        let control = control(&mut request);
        let put = Query::new(PUT)
            .bind(id)
            .bind(keys.seal(&SecretJson::from(request))?)
            .bind(keys.seal_some(before.as_ref())?)
            .bind(keys.seal_some(target.as_ref())?)
            .bind(serde_json::to_string(&control)?);
        execute(db, &put)?;
    }
    Ok(())
}

fn control(request: &mut Value) -> OpControl {
    let Some(members) = request.as_object_mut() else {
        return OpControl::default();
    };
    let skipped = members.remove("vnfm/skipHooks").unwrap_or_default();
    members.remove("vnfm/granted");
    let is_v1 = members
        .remove("vnfm/v1")
        .is_some_and(|v1| v1 == Value::Bool(true));
    OpControl {
        skip_hooks: Vec::deserialize(skipped).unwrap_or_default(),
        cascade: false,
        retain: Vec::new(),
        api_version: if is_v1 {
            ApiVersion::V1
        } else {
            ApiVersion::V2
        },
    }
}

fn instances(db: &Connection, keys: &SecretKeys) -> Done<()> {
    const FIND: &str =
        "SELECT id, vnf_pkg_id, vnf, request FROM instances WHERE request IS NOT NULL";
    const PUT: &str = "
        UPDATE instances SET request = NULL, deployment = $2, needs_levels = CASE WHEN $2 IS NULL THEN 0 ELSE 1 END
        WHERE id = $1";
    let rows: Vec<(String, String, String, Option<String>)> = all(db, &Query::new(FIND))?;
    for (id, package, vnf, request) in rows {
        let vnf: VnfInstance = serde_json::from_str(&vnf)?;
        let request = keys.unseal(request.as_deref())?;
        let deployment = deployment(&package, &request, Some(&vnf))?;
        let put = Query::new(PUT)
            .bind(id)
            .bind(keys.seal_some(deployment.as_ref())?);
        execute(db, &put)?;
    }
    Ok(())
}

/// The deployment that an instantiation request asked for, with the other data stored in the request.
fn deployment(
    vnf_pkg_id: &str,
    request: &Value,
    vnf: Option<&VnfInstance>,
) -> Done<Option<Deployment>> {
    if request.is_null() {
        return Ok(None);
    }
    let instantiate = InstantiateVnfRequest::deserialize(request)?;
    let mut deployment = Deployment::requested(vnf_pkg_id, instantiate);
    if let Some(placement) = request.get("vnfm/granted") {
        let placement = Granted::deserialize(placement)?;
        deployment.placement = placement.with_links(&deployment.ext_managed_virtual_links);
    }
    let info = vnf.and_then(|vnf| vnf.instantiated_vnf_info.as_ref());
    let plugins = info.and_then(|info| info.metadata.get("mgmtDrivers"));
    let plugins = plugins.map(BTreeMap::deserialize).transpose()?;
    deployment.plugins = plugins.unwrap_or_default();
    Ok(Some(deployment))
}

/// The instances whose scale levels must still be read from their VNFD, each with its tenant.
pub(crate) fn needing_levels(db: &Connection) -> Done<Vec<(String, String)>> {
    const FIND: &str =
        "SELECT tenant, id FROM instances WHERE needs_levels = 1 ORDER BY tenant, id";
    all(db, &Query::new(FIND))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{first, one};
    use crate::schema::{MIGRATIONS, migrate};
    use crate::statement::FromRow;
    use serde_json::json;

    const PACKAGE: &str = "p";

    fn only<T: FromRow>(db: &Connection, sql: &'static str) -> T {
        first(db, &Query::new(sql)).unwrap().unwrap()
    }

    /// A database in which an instantiation and a heal were in flight when the old version stopped.
    fn old(keys: &SecretKeys) -> Connection {
        let db = Connection::open_in_memory().unwrap();
        migrate(&db, MIGRATIONS).unwrap();
        let sealed = |value: Value| keys.seal(&SecretJson::from(value)).unwrap().unwrap();
        let vnf = |info: Value| {
            json!({"id": "i", "vnfdId": "d", "vnfProvider": "v", "vnfProductName": "n",
                "vnfSoftwareVersion": "1", "vnfdVersion": "1", "instantiationState": "INSTANTIATED",
                "instantiatedVnfInfo": info})
        };
        let info = json!({"flavourId": "simple", "vnfState": "STARTED", "extCpInfo": [],
            "metadata": {"mgmtDrivers": {"mgmt": "cluster@1.0.0"}}});
        let request = json!({"flavourId": "simple", "additionalParams": {"password": "hunter2"},
            "extManagedVirtualLinks": [{"id": "theirs", "vnfVirtualLinkDescId": "lan", "resourceId": "net"}],
            "vnfm/granted": {"flavours": {"VDU1": "f1"}}});
        let heal = json!({"cause": "slow", "vnfm/skipHooks": ["heal_end"], "vnfm/v1": true});
        let hook = json!({"v": 1, "data": null, "by": "process-1", "deaths": 1, "plugin":
            {"for": ["mgmt", "cluster"], "is": {"name": "cluster", "version": "1.0.0"}}});
        let rows = format!(
            "INSERT INTO packages (id, tenant, info, fetching) VALUES ('{PACKAGE}', 'default', '{{}}', NULL);
             INSERT INTO instances (id, tenant, version, vnf_pkg_id, vnfd_id, state, vnf, request, handle)
             VALUES ('i', 'default', 3, '{PACKAGE}', 'd', 'INSTANTIATED', '{}', '{}', 'null');",
            vnf(info), sealed(request.clone()),
        );
        db.execute_batch(&rows).unwrap();
        for (id, instance, operation, request) in [
            ("new", "none", "INSTANTIATE", request),
            ("heal", "i", "HEAL", heal),
        ] {
            let row = "INSERT INTO ops (id, tenant, instance_id, operation, state, driven, ended, op, request, epoch,
                lease_until, started_at) VALUES ($1, 'default', $2, $3, 'PROCESSING', 1, 0, '{}', $4, 0, 0, '')";
            let row = Query::new(row)
                .bind(id)
                .bind(instance)
                .bind(operation)
                .bind(sealed(request));
            execute(&db, &row).unwrap();
        }
        let step = "INSERT INTO journal (op_id, step, seq, status, attempt, output, started_at)
            VALUES ('heal', 'heal_start', 1, 'started', 1, $1, '')";
        execute(&db, &Query::new(step).bind(sealed(hook))).unwrap();
        let undo = "INSERT INTO checkpoints (op_id, step, key, value) VALUES ('heal', 'heal_start', 'vnfm/undo', NULL)";
        execute(&db, &Query::new(undo)).unwrap();
        db
    }

    #[test]
    fn rows_of_an_old_version_are_converted_once() {
        let keys = SecretKeys::ephemeral();
        let db = old(&keys);
        convert(&db, &keys).unwrap();
        let before: String =
            one(&db, &Query::new("SELECT target FROM ops WHERE id = 'heal'")).unwrap();
        convert(&db, &keys).unwrap();
        let after: String =
            one(&db, &Query::new("SELECT target FROM ops WHERE id = 'heal'")).unwrap();
        assert_eq!(before, after, "converted rows are not changed again");

        let (deployment, request): (String, Option<String>) =
            only(&db, "SELECT deployment, request FROM instances");
        let deployment: Deployment = keys.unseal_some(Some(&deployment)).unwrap().unwrap();
        assert_eq!(
            (&*deployment.vnf_pkg_id, &*deployment.flavour_id),
            (PACKAGE, "simple")
        );
        assert_eq!(deployment.additional_params["password"], "hunter2");
        assert_eq!(deployment.placement.flavours["VDU1"], "f1");
        assert_eq!(deployment.placement.managed_links["lan"], "net");
        assert_eq!(deployment.plugins["mgmt"], "cluster@1.0.0");
        assert_eq!(request, None);
        let needing = needing_levels(&db).unwrap();
        assert_eq!(needing, [("default".to_owned(), "i".to_owned())]);

        let (request, first, target, control): (String, String, String, String) = only(
            &db,
            "SELECT request, before, target, control FROM ops WHERE id = 'heal'",
        );
        assert_eq!(
            *keys.unseal(Some(&request)).unwrap(),
            json!({"cause": "slow"})
        );
        for sealed in [first, target] {
            assert_eq!(
                keys.unseal_some(Some(&sealed)).unwrap(),
                Some(deployment.clone())
            );
        }
        let control: OpControl = serde_json::from_str(&control).unwrap();
        assert_eq!(
            (control.skip_hooks, control.api_version),
            (vec!["heal_end".into()], ApiVersion::V1)
        );

        assert_journal_is_converted(&db, &keys);
    }

    fn assert_journal_is_converted(db: &Connection, keys: &SecretKeys) {
        let (output, lives, hook): (String, String, String) =
            only(db, "SELECT output, lives, hook FROM journal");
        assert_eq!(
            *keys.unseal(Some(&output)).unwrap(),
            json!({"v": 1, "data": null})
        );
        let lives: ProcessHistory = serde_json::from_str(&lives).unwrap();
        assert_eq!((&*lives.by, lives.died.len()), ("process-1", 1));
        let hook: HookState = serde_json::from_str(&hook).unwrap();
        assert_eq!(
            (&*hook.implementation, hook.plugin.as_deref()),
            ("mgmt", Some("cluster"))
        );
        assert_eq!((&*hook.driver.name, hook.can_undo), ("cluster", true));
        let left: (i64,) = only(db, "SELECT COUNT(*) FROM checkpoints");
        assert_eq!(left.0, 0);
    }
}
