//! Compares what a plan said with what happened: with `resourceChanges` of the occurrence, and with the resources that the
//! neighbour reported before and after.
//!
//! | planned | `resourceChanges` | the neighbour |
//! |---|---|---|
//! | `CREATE` | ADDED | one resource of the type more |
//! | `UPDATE` | MODIFIED | the same id |
//! | `REPLACE` | REMOVED and ADDED | the id is gone, another came |
//! | `DELETE` | REMOVED | the id is gone |
//! | `KEEP` | not mentioned | the same id |
//!
//! A plan may leave open which resources go (`unknown`); then only what it says is compared, and numbers are not.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail, ensure};
use serde::Deserialize;
use vnfm_types::{ChangeType, ResourceChanges, VnfInstance};

use super::neighbour::{Kind, Resources};
use super::record;

/// The part of a plan that is compared.
#[derive(Deserialize)]
pub(crate) struct Plan {
    resources: Vec<Planned>,
    unknown: Vec<String>,
}

#[derive(Deserialize)]
struct Planned {
    kind: String,
    name: String,
    vdu: Option<String>,
    vnfc: Option<String>,
    action: Action,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Action {
    Create,
    Update,
    Replace,
    Delete,
    Keep,
}

use Action::{Create, Delete, Keep, Replace, Update};

impl Plan {
    /// The number of resources for each action, such as `2 CREATE, 7 KEEP`, and what it leaves open.
    pub(crate) fn summary(&self) -> String {
        let mut counts: BTreeMap<Action, usize> = BTreeMap::new();
        for one in &self.resources {
            *counts.entry(one.action).or_default() += 1;
        }
        let counts = counts.iter().map(|(action, count)| {
            let action = format!("{action:?}").to_uppercase();
            format!("{count} {action}")
        });
        let open = self.open().map(|what| format!("open: {what}"));
        counts.chain(open).collect::<Vec<_>>().join(", ")
    }

    /// What it does not know about resources; what hooks do is never known.
    fn open(&self) -> impl Iterator<Item = &String> {
        let all = self.unknown.iter();
        all.filter(|what| !what.starts_with("what the hook "))
    }

    fn is_complete(&self) -> bool {
        self.open().next().is_none()
    }

    /// Checks `resourceChanges` against the record before and after, and against what was planned for VNFCs.
    ///
    /// # Errors
    /// If they differ; the error has both sides.
    pub(crate) fn check_changes(
        &self,
        changes: &ResourceChanges,
        before: &VnfInstance,
        after: &VnfInstance,
    ) -> Result<()> {
        let (old, new) = (record::vnfcs(before), record::vnfcs(after));
        let affected = |kind: ChangeType| -> BTreeSet<&String> {
            let all = changes.affected_vnfcs.iter();
            let all = all.filter(|one| one.change_type == kind);
            all.map(|one| &one.id).collect()
        };
        let missing = old.keys().filter(|id| !new.contains_key(*id)).collect();
        let came: BTreeSet<_> = new.keys().filter(|id| !old.contains_key(*id)).collect();
        same("VNFCs that went", &missing, &affected(ChangeType::Removed))?;
        same("VNFCs that came", &came, &affected(ChangeType::Added))?;
        let planned = |actions: &'static [Action]| -> BTreeSet<&String> {
            let rows = self.vnfcs(actions);
            rows.filter_map(|one| one.vnfc.as_ref()).collect()
        };
        let (planned_missing, updated) = (planned(&[Delete, Replace]), planned(&[Update]));
        let (stayed, modified) = (planned(&[Keep, Update]), affected(ChangeType::Modified));
        let wrong: Vec<_> = planned_missing.difference(&missing).collect();
        ensure!(
            wrong.is_empty(),
            "VNFCs that the plan deletes stayed: {wrong:?}"
        );
        let wrong: Vec<_> = stayed.intersection(&missing).collect();
        ensure!(
            wrong.is_empty(),
            "VNFCs that the plan keeps went: {wrong:?}"
        );
        same(
            "VNFCs that the plan updates, and modified ones",
            &updated,
            &modified,
        )?;
        if self.is_complete() {
            same(
                "VNFCs that the plan deletes, and that went",
                &planned_missing,
                &missing,
            )?;
            let vdus = self.vnfcs(&[Create, Replace]);
            let vdus = count(vdus.filter_map(|one| one.vdu.as_ref()));
            let came = count(came.into_iter().filter_map(|id| new.get(id)));
            same("VNFCs that the plan creates, and that came", &vdus, &came)?;
        }
        Ok(())
    }

    fn vnfcs(&self, actions: &'static [Action]) -> impl Iterator<Item = &Planned> {
        let all = self.resources.iter();
        all.filter(|one| one.vdu.is_some() && actions.contains(&one.action))
    }

    /// Checks the resources that the neighbour reported before and after: ids by type and name. VNFCs have their ids in
    /// `record`, the one before.
    ///
    /// # Errors
    /// If one did not change as planned, or another number of a type came or went.
    pub(crate) fn check_resources(
        &self,
        record: &VnfInstance,
        (before, after): (&Resources, &Resources),
        kind: Kind,
    ) -> Result<()> {
        let ids = |all: &Resources| all.values().cloned().collect::<BTreeSet<_>>();
        let (old, new) = (ids(before), ids(after));
        let reported = || self.resources.iter().filter(|row| kind.reports(&row.kind));
        for row in reported().filter(|row| row.action != Create) {
            let key = format!("{} {}", row.kind, row.name);
            let vnfc = row.vnfc.as_ref();
            let vnfc = vnfc.and_then(|vnfc| record::resource_of(record, vnfc));
            let Some(id) = vnfc.or_else(|| before.get(&key)) else {
                bail!(
                    "the plan says {:?} of `{key}`, which did not exist",
                    row.action
                );
            };
            let stays = matches!(row.action, Keep | Update);
            let has = if stays { "no longer has" } else { "still has" };
            ensure!(
                stays == new.contains(id),
                "the plan says {:?} of `{key}`, but the neighbour {has} `{id}`",
                row.action,
            );
        }
        if !self.is_complete() {
            return Ok(());
        }
        let kinds = |actions: &'static [Action]| {
            let rows = reported().filter(|row| actions.contains(&row.action));
            count(rows.map(|row| &row.kind))
        };
        let differ = |all: &Resources, others: &BTreeSet<String>| {
            let rows = all.iter().filter(|(_, id)| !others.contains(*id));
            let kinds: Vec<_> = rows.map(|(key, _)| kind_of(key)).collect();
            count(kinds.iter())
        };
        let (deleted, created) = (kinds(&[Delete, Replace]), kinds(&[Create, Replace]));
        same(
            "resources that the plan deletes, and that went",
            &deleted,
            &differ(before, &new),
        )?;
        same(
            "resources that the plan creates, and that came",
            &created,
            &differ(after, &old),
        )
    }
}

/// The type in `TYPE NAME`.
fn kind_of(key: &str) -> String {
    let (kind, _) = key.split_once(' ').unwrap_or((key, ""));
    kind.to_owned()
}

/// How often each occurs.
fn count<'a>(all: impl Iterator<Item = &'a String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one.clone()).or_default() += 1;
    }
    counts
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, one: &T, other: &T) -> Result<()> {
    ensure!(one == other, "{what} differ: {one:?} and {other:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Updates `a` and replaces `b`.
    fn plan(unknown: &[&str]) -> Plan {
        let row = |name: &str, action: &str| {
            let kind = "OS::Nova::Server";
            json!({"kind": kind, "name": name, "vdu": "web", "vnfc": name, "action": action})
        };
        let rows = [row("a", "UPDATE"), row("b", "REPLACE")];
        serde_json::from_value(json!({"resources": rows, "unknown": unknown})).unwrap()
    }

    fn instance(vnfcs: &[&str]) -> VnfInstance {
        let vnfc =
            |id: &&str| json!({"id": id, "vduId": "web", "computeResource": {"resourceId": id}});
        let vnfcs: Vec<Value> = vnfcs.iter().map(vnfc).collect();
        serde_json::from_value(json!({
            "id": "i", "vnfdId": "d", "vnfProvider": "p", "vnfProductName": "n",
            "vnfSoftwareVersion": "1", "vnfdVersion": "1", "instantiationState": "INSTANTIATED",
            "instantiatedVnfInfo": {"flavourId": "f", "vnfState": "STARTED", "vnfcResourceInfo": vnfcs},
        }))
        .unwrap()
    }

    fn changes(all: &[(&str, &str)]) -> ResourceChanges {
        let one = |(id, change): &(&str, &str)| json!({"id": id, "vduId": "web", "changeType": change, "computeResource": {"resourceId": id}});
        let all: Vec<Value> = all.iter().map(one).collect();
        serde_json::from_value(json!({"affectedVnfcs": all})).unwrap()
    }

    #[test]
    fn changes_must_be_those_of_the_record_and_of_the_plan() {
        let (before, after) = (instance(&["a", "b"]), instance(&["a", "c"]));
        let healed = [("a", "MODIFIED"), ("b", "REMOVED"), ("c", "ADDED")];
        let check = |plan: &Plan, all: &[(&str, &str)], after: &VnfInstance| {
            let checked = plan.check_changes(&changes(all), &before, after);
            checked.map_err(|error| error.to_string())
        };
        check(&plan(&[]), &healed, &after).unwrap();
        check(&plan(&["what the hook `x` of `y` does"]), &healed, &after).unwrap();
        for (all, words) in [
            (&healed[1..], "VNFCs that the plan updates"),
            (&healed[..2], "VNFCs that came"),
            (&[healed[0], healed[2]][..], "VNFCs that went"),
        ] {
            let error = check(&plan(&[]), all, &after).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        let all = [healed[0], healed[2]];
        let error = check(&plan(&[]), &all, &instance(&["a", "b", "c"])).unwrap_err();
        assert!(error.contains("stayed: [\"b\"]"), "{error}");
        let more = [healed[0], healed[1], healed[2], ("d", "ADDED")];
        let larger = instance(&["a", "c", "d"]);
        let error = check(&plan(&[]), &more, &larger).unwrap_err();
        assert!(error.contains("that came differ"), "{error}");
        check(&plan(&["how many pods"]), &more, &larger).unwrap();
    }

    #[test]
    fn the_neighbour_must_have_changed_as_planned() {
        let reported = |ids: &[(&str, &str)]| -> Resources {
            let key = |name: &str| format!("OS::Nova::Server {name}");
            ids.iter()
                .map(|(name, id)| (key(name), (*id).to_owned()))
                .collect()
        };
        let (before, record) = (reported(&[("a", "1"), ("b", "2")]), instance(&[]));
        let check = |after: &Resources| {
            let checked = plan(&[]).check_resources(&record, (&before, after), Kind::Servers);
            checked.map_err(|error| error.to_string())
        };
        check(&reported(&[("a", "1"), ("b", "3")])).unwrap();
        for (after, words) in [
            (
                &[("a", "1"), ("b", "2")][..],
                "Replace of `OS::Nova::Server b`, but the neighbour still has `2`",
            ),
            (
                &[("a", "4"), ("b", "3")],
                "Update of `OS::Nova::Server a`, but the neighbour no longer has `1`",
            ),
            (&[("a", "1")], "that the plan creates, and that came differ"),
        ] {
            let error = check(&reported(after)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let nothing = Resources::new();
        let error = plan(&[])
            .check_resources(&record, (&nothing, &before), Kind::Servers)
            .unwrap_err();
        assert!(error.to_string().contains("did not exist"), "{error}");
    }
}
