//! Changes the servers of a stack to another package a batch at a time: a sequence of updates of the stack.
//!
//! ```text
//! stack's template ─ servers that differ ─┬─ no more than a batch: left to the update to the target's template
//!        ▲                                └─ more: the stack's template, with a batch of servers as the target has them
//!        └──────────────── pause ◄── wait until they are ACTIVE ◄── update the stack ◄────────┘
//! ```
//! - What a server has to itself (ports, volumes, attachments) changes with it. What several share changes with the last
//!   batch; what only the target has is created with the first.
//! - The stack's template alone tells which servers have changed: after an interruption, and in a rollback, the sequence
//!   continues from there. A stack between two templates carries a fingerprint of its own.
//! - A batch that failed is repeated before the next one, but not in a rollback: that begins with the servers of that batch, which
//!   are the last that changed.
//! - Heat rebuilds and resizes servers in place where it can. Those that it would replace are deleted first, as in a heal.

use crate::heat::{self, Phase, Stack, StackTemplate};
use crate::heat_preview::{template_of, update_schema};
use crate::inventory::SERVER;
use crate::keystone_login::Cloud;
use crate::plan::action_for;
use crate::stacks::own;
use crate::update::update_stack;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::json::differing_paths;
use vnfm_core::ports::{
    Allocation, Convergence, PortError, Replacement, ResourceAction, Rolling, VimCall,
};

/// Changes all servers but those of the last batch, and pauses after each batch. Does nothing if the stack no longer exists.
pub(crate) async fn roll(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    (change, rolling): (&Convergence<'_>, Rolling),
    target: &StackTemplate,
) -> Result<(), PortError> {
    let size = usize::try_from(rolling.parallel.get()).unwrap_or(usize::MAX);
    let renamed = change.renamed_vdus();
    while let Some(stack) = own(cx, cloud, "update").await? {
        let present = template_of(cloud, &stack).await?;
        let has_failed = stack.phase() == Phase::Failed;
        let made_of = stack.deployment().unwrap_or_default();
        if has_failed && made_of.starts_with(&target.fingerprint) {
            complete_batch(cx, cloud, change, (&stack, &present)).await?;
            continue;
        }
        let first = if has_failed { End::Last } else { End::First };
        let Some(batch) = Batch::next((&present, &target.template), &renamed, (size, first)) else {
            break;
        };
        let names: Vec<_> = batch.servers.iter().map(|(_, new)| new.as_str()).collect();
        let (first, last) = (batch.changed + 1, batch.changed + names.len());
        let text = format!(
            "servers {first} to {last} of {}: {}",
            batch.total,
            names.join(", ")
        );
        cx.watcher.log("info", "openstack", &text);
        cx.watcher
            .progress(percent(batch.changed, batch.total), &text);
        let replaced = batch.replaced(cx, cloud, &stack).await?;
        let template = StackTemplate {
            template: batch.template,
            fingerprint: format!("{}.{last}", target.fingerprint),
            ..target.clone()
        };
        let step = change.clone().replacing(Replacement {
            vnfcs: replaced,
            with_storage: false,
        });
        Box::pin(update_stack(cx, cloud, &step, Some(&template))).await?;
        if !rolling.pause.is_zero() {
            cx.watcher.waiting("the pause between two batches");
            cx.clock.sleep(rolling.pause).await;
        }
    }
    Ok(())
}

/// With which servers a batch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

/// An update to a batch that failed is repeated before the next batch begins.
async fn complete_batch(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
    (stack, present): (&Stack, &Value),
) -> Result<(), PortError> {
    let template = StackTemplate {
        template: present.clone(),
        files: Map::new(),
        environment: None,
        parameters: Map::new(),
        fingerprint: stack.deployment().unwrap_or_default().to_owned(),
    };
    Box::pin(update_stack(cx, cloud, change, Some(&template)))
        .await
        .map(drop)
}

/// Whether the package brings its own template, whose groups determine in which order servers change.
pub(crate) fn has_own_template(what: &Allocation) -> bool {
    let flavour_id = &what.deployment.flavour_id;
    what.package.base_hot(flavour_id).is_some()
}

/// Whether both templates of a change are generated.
pub(crate) fn rolls(change: &Convergence<'_>) -> bool {
    let mut both = std::iter::once(change.target).chain(change.other);
    !both.any(has_own_template)
}

fn percent(done: usize, total: usize) -> u8 {
    u8::try_from(done * 100 / total.max(1)).unwrap_or(100)
}

/// The next servers to change, and the template in which they have changed.
#[derive(Debug)]
struct Batch {
    /// Their names in the present template and in the target's.
    servers: Vec<(String, String)>,
    present: Value,
    template: Value,
    /// Number of servers that changed before.
    changed: usize,
    /// Number of servers that exist before and after.
    total: usize,
}

impl Batch {
    /// `None` if the servers that are left fit into one batch.
    fn next(
        (present, target): (&Value, &Value),
        renamed: &BTreeMap<String, String>,
        (size, end): (usize, End),
    ) -> Option<Self> {
        let (old, new) = (
            Contents::from_template(present)?,
            Contents::from_template(target)?,
        );
        let pairs = pairs(&old, &new, renamed);
        let differ = |(before, after): &(String, String)| {
            before != after || old.of_server(before) != new.of_server(after)
        };
        let left: Vec<_> = pairs.iter().filter(|pair| differ(pair)).cloned().collect();
        if left.len() <= size {
            return None;
        }
        let (changed, total) = (pairs.len() - left.len(), pairs.len());
        let skipped = match end {
            End::First => 0,
            End::Last => left.len() - size,
        };
        let servers: Vec<_> = left.into_iter().skip(skipped).take(size).collect();
        let mut template = present.clone();
        let resources = template["resources"].as_object_mut()?;
        for (before, after) in &servers {
            for name in old.of_server(before).keys() {
                resources.remove(*name);
            }
            for (name, definition) in new.of_server(after) {
                resources.insert(name.to_owned(), definition.clone());
            }
        }
        for (name, definition) in new.shared() {
            let shared = resources.entry(name);
            shared.or_insert_with(|| definition.clone());
        }
        Some(Self {
            servers,
            present: present.clone(),
            template,
            changed,
            total,
        })
    }

    /// Ids of the servers of the batch that Heat would replace.
    async fn replaced(
        &self,
        cx: &VimCall<'_>,
        cloud: &Cloud<'_>,
        stack: &Stack,
    ) -> Result<Vec<String>, PortError> {
        let schema = update_schema(cloud, SERVER).await?;
        let (old, new) = (&self.present["resources"], &self.template["resources"]);
        let is_replaced = |(before, after): &&(String, String)| {
            let because = differing_paths(&old[before], &new[after]);
            before == after && action_for(&because, SERVER, &schema) == ResourceAction::Replace
        };
        let names: BTreeSet<_> = self
            .servers
            .iter()
            .filter(is_replaced)
            .map(|(name, _)| name)
            .collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let resources = heat::resources(cloud, stack).await?;
        let found = resources
            .iter()
            .filter(|one| one.kind == SERVER && names.contains(&one.name));
        let found: Vec<_> = found.map(|one| one.id().to_owned()).collect();
        let text = format!(
            "{} servers are replaced: Heat does not change them in place",
            found.len()
        );
        cx.watcher.log("info", "openstack", &text);
        Ok(found)
    }
}

/// The servers that exist before and after, by VDU and index.
fn pairs(
    old: &Contents<'_>,
    new: &Contents<'_>,
    renamed: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (place, after) in &new.servers {
        let (vdu, index) = place;
        let source = renamed
            .iter()
            .find(|(_, to)| *to == vdu)
            .map(|(from, _)| from);
        let before = source.and_then(|from| old.servers.get(&(from.clone(), *index)));
        let changed = old.servers.get(place);
        if let Some(before) = before.or(changed) {
            found.push((before.clone(), after.clone()));
        }
    }
    found
}

/// The resources of a template that we generated.
struct Contents<'t> {
    resources: &'t Map<String, Value>,
    /// Names of the servers, by VDU and index.
    servers: BTreeMap<(String, u32), String>,
}

impl<'t> Contents<'t> {
    fn from_template(template: &'t Value) -> Option<Self> {
        let resources = template["resources"].as_object()?;
        let servers = resources.iter().filter_map(|(name, definition)| {
            let metadata = &definition["properties"]["metadata"];
            let (vdu, index) = (
                metadata["vnfm_vdu"].as_str()?,
                metadata["vnfm_index"].as_str()?,
            );
            Some(((vdu.to_owned(), index.parse().ok()?), name.clone()))
        });
        Some(Self {
            resources,
            servers: servers.collect(),
        })
    }

    /// A server with what it has to itself: its ports, volumes and attachments.
    fn of_server(&self, server: &str) -> BTreeMap<&'t str, &'t Value> {
        let Some((server, definition)) = self.resources.get_key_value(server) else {
            return BTreeMap::new();
        };
        let mut names = BTreeSet::from([server.as_str()]);
        names.extend(references(definition));
        let attachments = self.resources.iter().filter(|(_, one)| {
            one["type"] == "OS::Cinder::VolumeAttachment"
                && references(one).contains(server.as_str())
        });
        for (name, attachment) in attachments {
            names.insert(name);
            names.extend(references(attachment));
        }
        let own = names
            .into_iter()
            .filter_map(|name| self.resources.get_key_value(name));
        let own = own.filter(|(name, one)| *name == server || !is_shared(one));
        own.map(|(name, definition)| (name.as_str(), definition))
            .collect()
    }

    /// What no server has to itself.
    fn shared(&self) -> impl Iterator<Item = (&'t String, &'t Value)> {
        let servers = self.servers.values();
        let own: BTreeSet<&str> = servers
            .flat_map(|server| self.of_server(server).into_keys())
            .collect();
        self.resources
            .iter()
            .filter(move |(name, _)| !own.contains(name.as_str()))
    }
}

/// Whether several servers may refer to a resource of this type.
fn is_shared(definition: &Value) -> bool {
    !matches!(
        definition["type"].as_str(),
        Some("OS::Neutron::Port" | "OS::Cinder::Volume" | "OS::Cinder::VolumeAttachment")
    )
}

/// The resources that a definition refers to.
fn references(value: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(target) if name == "get_resource" => {
                        found.insert(target.as_str());
                    }
                    value => found.extend(references(value)),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| found.extend(references(item))),
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Batch, Contents, End};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn server(vdu: &str, index: u32, image: &str) -> Vec<(String, Value)> {
        let name = format!("{vdu}-{index}");
        let port = format!("{name}_cp");
        let properties = json!({
            "image": image,
            "networks": [{"port": {"get_resource": port}}],
            "scheduler_hints": {"group": {"get_resource": "apart"}},
            "metadata": {"vnfm_vdu": vdu, "vnfm_index": index.to_string()},
        });
        let port_of = json!({"type": "OS::Neutron::Port", "properties": {"network": {"get_resource": "inside"}}});
        vec![
            (
                name.clone(),
                json!({"type": "OS::Nova::Server", "properties": properties}),
            ),
            (port, port_of),
        ]
    }

    fn template(servers: &[(&str, u32, &str)], shared: &[&str]) -> Value {
        let servers = servers
            .iter()
            .flat_map(|(vdu, index, image)| server(vdu, *index, image));
        let shared = shared.iter().map(|name| {
            (
                (*name).to_owned(),
                json!({"type": "OS::Neutron::Net", "properties": {}}),
            )
        });
        json!({"resources": servers.chain(shared).collect::<serde_json::Map<_, _>>()})
    }

    fn images(template: &Value) -> Vec<(String, String)> {
        let contents = Contents::from_template(template).unwrap();
        let image = |name: &String| {
            template["resources"][name]["properties"]["image"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        contents
            .servers
            .values()
            .map(|name| (name.clone(), image(name)))
            .collect()
    }

    fn named(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter()
            .map(|(name, image)| ((*name).to_owned(), (*image).to_owned()))
            .collect()
    }

    #[test]
    fn a_batch_changes_its_servers_alone_and_the_last_one_is_left() {
        let old = template(
            &[("a", 0, "1"), ("a", 1, "1"), ("a", 2, "1"), ("b", 0, "x")],
            &["inside", "apart"],
        );
        let new = template(
            &[("a", 0, "2"), ("a", 1, "2"), ("a", 2, "2"), ("b", 0, "x")],
            &["inside", "apart", "more"],
        );
        let none = BTreeMap::new();
        let first = Batch::next((&old, &new), &none, (1, End::First)).unwrap();
        assert_eq!((first.changed, first.total), (1, 4));
        assert_eq!(
            images(&first.template),
            named(&[("a-0", "2"), ("a-1", "1"), ("a-2", "1"), ("b-0", "x")])
        );
        assert!(first.template["resources"].get("more").is_some());
        let second = Batch::next((&first.template, &new), &none, (1, End::First)).unwrap();
        assert_eq!(
            images(&second.template),
            named(&[("a-0", "2"), ("a-1", "2"), ("a-2", "1"), ("b-0", "x")])
        );
        assert!(Batch::next((&second.template, &new), &none, (1, End::First)).is_none());
        assert!(Batch::next((&old, &new), &none, (3, End::First)).is_none());
        // The way back begins where the way there has ended.
        let back = Batch::next((&second.template, &old), &none, (1, End::First)).unwrap();
        assert_eq!(
            images(&back.template),
            named(&[("a-0", "1"), ("a-1", "2"), ("a-2", "1"), ("b-0", "x")])
        );
        // If the last batch failed, it begins there.
        let back = Batch::next((&second.template, &old), &none, (1, End::Last)).unwrap();
        assert_eq!(
            images(&back.template),
            named(&[("a-0", "2"), ("a-1", "1"), ("a-2", "1"), ("b-0", "x")])
        );
    }

    #[test]
    fn a_server_of_a_vdu_with_another_name_takes_the_place_of_the_old_one() {
        let old = template(
            &[("a", 0, "1"), ("a", 1, "1"), ("a", 2, "1")],
            &["inside", "apart"],
        );
        let new = template(
            &[("c", 0, "1"), ("c", 1, "1"), ("c", 2, "1"), ("c", 3, "1")],
            &["inside", "apart"],
        );
        let renamed: BTreeMap<_, _> = [("a".to_owned(), "c".to_owned())].into();
        let first = Batch::next((&old, &new), &renamed, (2, End::First)).unwrap();
        assert_eq!(
            images(&first.template),
            named(&[("a-2", "1"), ("c-0", "1"), ("c-1", "1")])
        );
        assert!(first.template["resources"].get("a-0_cp").is_none());
        assert!(Batch::next((&first.template, &new), &renamed, (2, End::First)).is_none());
    }
}
