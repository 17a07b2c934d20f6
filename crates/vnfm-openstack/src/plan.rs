//! What a change would do to a stack, resource by resource.
//!
//! | the stack | plan |
//! |---|---|
//! | does not exist | what Heat's preview of the template lists is created |
//! | was made of this deployment | everything stays, except VNFCs to replace and resources that the cloud has lost |
//! | was made of another deployment | its template is compared with the new one |
//! | is released | everything is deleted |
//!
//! Heat's preview of an update is not used: it lists every resource that refers to another one as replaced, even if
//! nothing differs. Heat's description of a resource type tells which properties change in place. The package's own
//! template can nest groups, whose members no comparison shows: of it, only the VNFCs are known.

use crate::blueprint::Blueprint;
use crate::heat::{self, Phase, Resource, Stack, stack_name};
use crate::heat_preview::{PreviewedResource, previewed, template_of, update_schema};
use crate::instance_template::template_on_thread;
use crate::inventory::{SERVER, VOLUME};
use crate::keystone_login::Cloud;
use crate::prepare::prepare;
use crate::resolved::Resolved;
use crate::snapshots::check_releasable;
use crate::stacks::{RETAG_HINT, foreign, own};
use crate::unplaced_zones::UnplacedZones;
use crate::update::{is_outdated, missing, targets};
use crate::vnfc_resources::is_recorded;
use crate::zone_reselection::{is_allowed, with_zones_so_far};
use crate::{glance, policy};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::json::differing_paths;
use vnfm_core::ports::{
    Allocation, Convergence, PlannedResource, PortError, RETAIN_PARAM, REUSE_PARAM, Release,
    ResourceAction, ResourcePlan, VimCall,
};

const IMAGE: &str = "OS::Glance::Image";

/// What a change of the stack would do.
pub(crate) async fn convergence(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
) -> Result<ResourcePlan, PortError> {
    let target = with_zones_so_far(cloud, change).await?;
    let change = &change.clone().with_target(&target);
    let blueprint = &Blueprint::read(&target, &cx.ownership.instance_id)?;
    let mut plan = match own(cx, cloud, "update").await? {
        Some(stack) => update(cx, cloud, (blueprint, change), &stack).await?,
        None => creation(cx, cloud, (blueprint, &target)).await?,
    };
    name_zones(&mut plan, cloud, change, placed(cloud, blueprint)).await?;
    Ok(plan)
}

/// The blueprint, if servers are in the zones that it names: what no parameter of a template accepts is not followed.
fn placed<'b, 'a>(cloud: &Cloud<'_>, blueprint: &'b Blueprint<'a>) -> Option<&'b Blueprint<'a>> {
    let is_placed = blueprint.base_hot.is_none() || cloud.unplaced_zones == UnplacedZones::Refuse;
    is_placed.then_some(blueprint)
}

/// What the change of an existing stack would do.
async fn update(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    (blueprint, change): (&Blueprint<'_>, &Convergence<'_>),
    stack: &Stack,
) -> Result<ResourcePlan, PortError> {
    if !matches!(stack.phase(), Phase::Complete | Phase::Failed) {
        let (name, status) = (&stack.name, &stack.status);
        let why = format!("what Heat does next with stack `{name}`, which is {status}");
        return Ok(ResourcePlan::unknown(why));
    }
    let resources = heat::resources(cloud, stack).await?;
    let mut plan = if !is_outdated(stack, change) {
        ResourcePlan::from_resources(kept(&resources, change))
    } else if blueprint.base_hot.is_some() {
        of_own_template(change, placed(cloud, blueprint))
    } else {
        let planner = Comparison {
            cx,
            cloud,
            blueprint,
            change,
        };
        planner.compare(stack, &resources).await?
    };
    let lost = missing(cloud, &resources).await?;
    note_replaced(&mut plan, &resources, (&targets(change), &lost));
    if stack.phase() == Phase::Failed {
        let what = format!("what Heat repairs in stack `{}`", stack.name);
        plan.unknown.push(format!("{what}: {}", stack.status));
    }
    Ok(plan)
}

/// What a release would do.
pub(crate) async fn release(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
    release: &Release,
) -> Result<ResourcePlan, PortError> {
    let ownership = cx.ownership;
    let found = heat::find(cloud, &stack_name(&ownership.instance_id)).await?;
    let (mut rows, mut resources) = (Vec::new(), Vec::new());
    match found {
        Some(stack) if stack.belongs_to(&ownership.installation_id) => {
            check_releasable(cx, cloud, change.target).await?;
            resources = heat::resources(cloud, &stack).await?;
            rows = kept(&resources, change);
        }
        Some(stack) if release.handle.get("stackId") == Some(&json!(stack.id)) => {
            return Err(foreign("delete", &stack, ownership).hint(RETAG_HINT));
        }
        Some(_) | None => {}
    }
    let images = glance::owned(cloud, &ownership.installation_id).await?;
    let only_its = |image: &&glance::Image| {
        let mut users = image.users();
        users.next() == Some(&*ownership.instance_id) && users.next().is_none()
    };
    rows.extend(images.iter().filter(only_its).map(|image| {
        let name = image.name.as_deref().unwrap_or(&image.id);
        PlannedResource::new(IMAGE, name, ResourceAction::Delete)
    }));
    for row in &mut rows {
        row.action = ResourceAction::Delete;
    }
    note_staying(&mut rows, &resources, (release, change));
    Ok(ResourcePlan::from_resources(rows))
}

/// Marks the volumes that outlive the stack: those that the release retains, and those that came from another instance.
fn note_staying(
    rows: &mut [PlannedResource],
    resources: &[Resource],
    (release, change): (&Release, &Convergence<'_>),
) {
    let reused = &change.target.deployment.reused_volumes;
    for (row, resource) in rows.iter_mut().zip(resources) {
        let is_it = |id: &String| resource.kind == VOLUME && id == resource.id();
        let is_reused = reused.iter().any(|one| is_it(&one.resource_id));
        if is_reused || release.retained.iter().any(is_it) {
            row.action = ResourceAction::Keep;
            row.because = vec![RETAIN_PARAM.to_owned()];
        }
    }
}

/// Everything is created: images of the package, and the stack.
async fn creation(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    (blueprint, allocation): (&Blueprint<'_>, &Allocation),
) -> Result<ResourcePlan, PortError> {
    let change = Convergence::create(allocation);
    let resolved = prepare(cloud, blueprint, &change).await?;
    let template = template_on_thread(blueprint, allocation, &resolved).await?;
    policy::permit(blueprint, &template, cx.vim.policy())?;
    let missing_images = resolved.images.values().filter(|image| image.id.is_none());
    let missing_images: BTreeSet<_> = missing_images.map(|image| &image.name).collect();
    let mut plan = ResourcePlan::default();
    let listed = if missing_images.is_empty() {
        previewed(cloud, cx.ownership, &template, blueprint.flavour).await?
    } else {
        if blueprint.base_hot.is_some() {
            let what =
                "what groups and nested templates contain: Heat lists it once the images exist";
            plan.unknown.push(what.to_owned());
        }
        let all = definitions(&template.template).into_iter().flatten();
        all.map(|(name, definition)| PreviewedResource::defined(name, definition))
            .collect()
    };
    let image = |name: &&String| PlannedResource::new(IMAGE, *name, ResourceAction::Create);
    plan.resources.extend(missing_images.iter().map(image));
    let definitions = definitions(&template.template);
    let is_reused = |name: &str| {
        let one = definitions.and_then(|all| all.get(name));
        one.is_some_and(|one| one.get("external_id").is_some())
    };
    plan.resources.extend(listed.into_iter().map(|one| {
        let row = created(one);
        if !is_reused(&row.name) {
            return row;
        }
        PlannedResource::new(row.kind, row.name, ResourceAction::Keep)
            .because(vec![REUSE_PARAM.to_owned()])
    }));
    Ok(plan)
}

fn created(one: PreviewedResource) -> PlannedResource {
    let row = PlannedResource::new(one.kind, one.name, ResourceAction::Create);
    let row = row.in_zone(one.zone);
    match one.vdu {
        Some(vdu) => row.of_vdu(vdu, None),
        None => row,
    }
}

/// The resources of a template.
fn definitions(template: &Value) -> Option<&Map<String, Value>> {
    template["resources"].as_object()
}

/// Every existing resource as it is.
fn kept(resources: &[Resource], change: &Convergence<'_>) -> Vec<PlannedResource> {
    let row = |one: &Resource| existing(one, change, (ResourceAction::Keep, Vec::new()));
    resources.iter().map(row).collect()
}

/// What happens to an existing resource.
fn existing(
    one: &Resource,
    change: &Convergence<'_>,
    (action, because): (ResourceAction, Vec<String>),
) -> PlannedResource {
    let name = match &one.parent {
        Some(parent) => format!("{parent}/{}", one.name),
        None => one.name.clone(),
    };
    let row = PlannedResource::new(&*one.kind, name, action).because(because);
    let vnfcs = change.current.into_iter();
    let mut vnfcs = vnfcs.flat_map(|current| &current.inventory.vnfc_resource_info);
    match vnfcs.find(|vnfc| vnfc.compute_resource.resource_id == one.id()) {
        Some(vnfc) if one.kind == SERVER => row.of_vdu(&*vnfc.vdu_id, Some(vnfc.id.clone())),
        _ => row,
    }
}

/// Marks the resources that are replaced by request, or because the cloud has lost them.
fn note_replaced(
    plan: &mut ResourcePlan,
    resources: &[Resource],
    (targets, lost): (&BTreeSet<String>, &BTreeSet<String>),
) {
    for one in resources {
        let is_target = matches!(one.kind.as_str(), SERVER | VOLUME) && targets.contains(one.id());
        let why = match (is_target, lost.contains(one.id())) {
            (true, _) => "vnfcInstanceId",
            (false, true) => "physical_resource_id",
            (false, false) => continue,
        };
        let name = match &one.parent {
            Some(parent) => format!("{parent}/{}", one.name),
            None => one.name.clone(),
        };
        let is_row = |row: &&mut PlannedResource| row.name == name && row.kind == one.kind;
        let stays = |row: &&mut PlannedResource| row.action != ResourceAction::Delete;
        let mut rows = plan.resources.iter_mut();
        if let Some(row) = rows.find(is_row).filter(stays) {
            row.action = ResourceAction::Replace;
            row.because.push(why.to_owned());
        }
    }
}

/// Names the zones of servers to be replaced, and says whether new servers may end up in other zones.
async fn name_zones(
    plan: &mut ResourcePlan,
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
    placed: Option<&Blueprint<'_>>,
) -> Result<(), PortError> {
    let current = change.current.into_iter();
    let vnfcs: Vec<_> = current
        .flat_map(|current| &current.inventory.vnfc_resource_info)
        .collect();
    let is_replaced = |row: &&mut PlannedResource| row.action == ResourceAction::Replace;
    for row in plan.resources.iter_mut().filter(is_replaced) {
        let (Some(vdu), Some(id)) = (row.vdu.as_deref(), &row.vnfc) else {
            continue;
        };
        let mut all = vnfcs.iter().filter(|vnfc| vnfc.vdu_id == vdu);
        let index = all.position(|vnfc| vnfc.id == *id);
        row.zone = index.and_then(|index| zone_of(placed?, vdu, index));
    }
    let has_zone = plan.resources.iter().any(|row| row.zone.is_some());
    if has_zone && is_allowed(cloud).await? {
        let what = "the zone of a server for which no host in the zone above has room: others are tried (`extra.reselectZones`)";
        plan.unknown.push(what.to_owned());
    }
    Ok(())
}

fn zone_of(blueprint: &Blueprint<'_>, vdu: &str, index: usize) -> Option<String> {
    let zone = blueprint.zone_of_vnfc(vdu, u32::try_from(index).ok()?);
    zone.map(str::to_owned)
}

/// The VNFCs of an instance whose template is the package's own: the last ones of a VDU go, new ones come.
fn of_own_template(change: &Convergence<'_>, placed: Option<&Blueprint<'_>>) -> ResourcePlan {
    let what = "what Heat changes about the other resources of the package's own template";
    let mut plan = ResourcePlan::unknown(what);
    let current = change.current.into_iter();
    let vnfcs = current.flat_map(|current| &current.inventory.vnfc_resource_info);
    let mut of_vdu: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for vnfc in vnfcs {
        of_vdu.entry(&vnfc.vdu_id).or_default().push(vnfc);
    }
    for (vdu, count) in &change.target.deployment.vdu_instances {
        let vdu = vdu.as_str();
        let existing = of_vdu.remove(vdu).unwrap_or_default();
        let count = usize::try_from(*count).unwrap_or(usize::MAX);
        let row = |name: &str, id: Option<String>, action| {
            let row = PlannedResource::new(SERVER, name, action).of_vdu(vdu, id);
            row.because(vec![format!("vduInstances.{vdu}")])
        };
        let deleted = existing.iter().skip(count).map(|vnfc| {
            let name = vnfc.metadata.get("name").and_then(Value::as_str);
            row(
                name.unwrap_or(vdu),
                Some(vnfc.id.clone()),
                ResourceAction::Delete,
            )
        });
        plan.resources.extend(deleted);
        let per_vnfc = is_recorded(&change.target.deployment);
        let new = (existing.len()..count).map(|index| {
            let own = per_vnfc.then(|| format!("{vdu}-{index}"));
            let row = row(own.as_deref().unwrap_or(vdu), None, ResourceAction::Create);
            row.in_zone(placed.and_then(|placed| zone_of(placed, vdu, index)))
        });
        plan.resources.extend(new);
    }
    plan
}

/// The template that a stack has, compared with that of the target.
struct Comparison<'a> {
    cx: &'a VimCall<'a>,
    cloud: &'a Cloud<'a>,
    blueprint: &'a Blueprint<'a>,
    change: &'a Convergence<'a>,
}

impl Comparison<'_> {
    async fn compare(
        &self,
        stack: &Stack,
        resources: &[Resource],
    ) -> Result<ResourcePlan, PortError> {
        let mut resolved = prepare(self.cloud, self.blueprint, self.change).await?;
        self.find_uploaded_images(&mut resolved).await?;
        let new = template_on_thread(self.blueprint, self.change.target, &resolved).await?;
        policy::permit(self.blueprint, &new, self.cx.vim.policy())?;
        let old = template_of(self.cloud, stack).await?;
        let none = Map::new();
        let old = definitions(&old).unwrap_or(&none);
        let new = definitions(&new.template).unwrap_or(&none);
        let actions = self.actions(old, new).await?;
        let by_name = |name: &str| {
            let mut all = resources.iter().filter(|one| one.parent.is_none());
            all.find(|one| one.name == name)
        };
        let mut rows = Vec::new();
        for (name, definition) in old {
            let what = match (new.contains_key(name), actions.get(name)) {
                (false, _) => (ResourceAction::Delete, why_gone(definition)),
                (true, Some(what)) => what.clone(),
                (true, None) => (ResourceAction::Keep, Vec::new()),
            };
            rows.push(match by_name(name) {
                Some(one) => existing(one, self.change, what),
                None => created(PreviewedResource::defined(name, definition)),
            });
        }
        let added = new.iter().filter(|(name, _)| !old.contains_key(*name));
        rows.extend(added.map(|(name, definition)| {
            let row = created(PreviewedResource::defined(name, definition));
            row.because(why_gone(definition))
        }));
        Ok(ResourcePlan::from_resources(rows))
    }

    /// Images that were uploaded for this instance have an id, though its deployment does not know it.
    async fn find_uploaded_images(&self, resolved: &mut Resolved) -> Result<(), PortError> {
        if resolved.images.values().all(|image| image.id.is_some()) {
            return Ok(());
        }
        let ownership = self.cx.ownership;
        let uploaded = glance::owned(self.cloud, &ownership.installation_id).await?;
        for image in resolved
            .images
            .values_mut()
            .filter(|image| image.id.is_none())
        {
            let found = uploaded.iter().find(|one| {
                one.name.as_ref() == Some(&image.name)
                    && one.may_be_of(self.blueprint.package)
                    && one.users().any(|user| user == ownership.instance_id)
            });
            image.id = found.map(|one| one.id.clone());
        }
        Ok(())
    }

    /// What happens to each resource that is in both templates and differs, or refers to one that is replaced.
    async fn actions(
        &self,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
    ) -> Result<BTreeMap<String, (ResourceAction, Vec<String>)>, PortError> {
        let mut actions: BTreeMap<String, (ResourceAction, Vec<String>)> = BTreeMap::new();
        let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
        let replaced = |actions: &BTreeMap<String, (ResourceAction, Vec<String>)>| {
            let all = actions.iter();
            let all = all.filter(|(_, (action, _))| *action == ResourceAction::Replace);
            all.map(|(name, _)| name.clone()).collect::<BTreeSet<_>>()
        };
        loop {
            let deleted = replaced(&actions);
            for (name, before) in old {
                let Some(after) = new.get(name) else { continue };
                let mut because = differing_paths(before, after);
                because.extend(references_to(&deleted, after));
                if because.is_empty() {
                    continue;
                }
                let kind = after["type"].as_str().unwrap_or_default();
                if !schemas.contains_key(kind) {
                    let schema = update_schema(self.cloud, kind).await?;
                    schemas.insert(kind.to_owned(), schema);
                }
                let action = action_for(&because, kind, &schemas[kind]);
                actions.insert(name.clone(), (action, because));
            }
            if replaced(&actions) == deleted {
                return Ok(actions);
            }
        }
    }
}

/// The properties of a resource that refer to a replaced one.
fn references_to(replaced: &BTreeSet<String>, definition: &Value) -> Vec<String> {
    fn refers(value: &Value, replaced: &BTreeSet<String>) -> bool {
        match value {
            Value::Object(members) => members.iter().any(|(name, value)| match value {
                Value::String(target) if name == "get_resource" => replaced.contains(target),
                value => refers(value, replaced),
            }),
            Value::Array(items) => items.iter().any(|item| refers(item, replaced)),
            _ => false,
        }
    }
    let properties = definition["properties"].as_object().into_iter().flatten();
    let properties = properties.filter(|(_, value)| refers(value, replaced));
    properties
        .map(|(name, _)| format!("properties.{name}"))
        .collect()
}

/// Whether Heat changes these properties in place.
pub(crate) fn action_for(because: &[String], kind: &str, schema: &Value) -> ResourceAction {
    let in_place = |path: &String| {
        let mut names = path.split(['.', '[']);
        match (names.next(), names.next()) {
            // Heat's default policy replaces a server whose user data change.
            (Some("properties"), Some("user_data")) if kind == SERVER => false,
            (Some("properties"), Some(property)) => schema[property]["update_allowed"] == true,
            (Some("type"), _) => false,
            _ => true,
        }
    };
    if because.iter().all(in_place) {
        ResourceAction::Update
    } else {
        ResourceAction::Replace
    }
}

/// The size is what changes about a VNFC that comes or goes.
fn why_gone(definition: &Value) -> Vec<String> {
    let vdu = PreviewedResource::defined("", definition).vdu;
    vdu.map(|vdu| format!("vduInstances.{vdu}"))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Blueprint, ResourceAction, action_for, of_own_template, references_to};
    use crate::testing::{farm_request, new_allocation, sample};
    use serde_json::json;
    use std::sync::Arc;
    use vnfm_core::ports::{Convergence, Recorded, compute_id};

    #[test]
    fn a_property_decides_whether_a_resource_is_replaced() {
        let schema = json!({"flavor": {"update_allowed": true}, "key_name": {"update_allowed": false},
            "user_data": {"update_allowed": true}});
        let action = |path: &str| action_for(&[path.to_owned()], "OS::Nova::Server", &schema);
        assert_eq!(action("properties.flavor"), ResourceAction::Update);
        assert_eq!(action("properties.key_name"), ResourceAction::Replace);
        assert_eq!(action("properties.user_data"), ResourceAction::Replace);
        assert_eq!(action("properties.unknown[0].x"), ResourceAction::Replace);
        assert_eq!(action("type"), ResourceAction::Replace);
        assert_eq!(action("depends_on"), ResourceAction::Update);
    }

    #[test]
    fn who_refers_to_a_replaced_resource_changes_too() {
        let server = json!({"type": "OS::Nova::Server", "properties": {
            "networks": [{"port": {"get_resource": "p"}}], "flavor": "small"}});
        let replaced = |name: &str| [name.to_owned()].into();
        assert_eq!(
            references_to(&replaced("p"), &server),
            ["properties.networks"]
        );
        assert!(references_to(&replaced("q"), &server).is_empty());
    }

    #[test]
    fn a_new_vnfc_has_the_name_of_its_resource() {
        let names = |recorded| {
            let mut farm = new_allocation(sample("vnf-per-vnfc"), farm_request());
            let deployment = Arc::make_mut(&mut farm.deployment);
            deployment.resolved = recorded;
            let zones = &mut deployment.placement.zones;
            zones.insert(compute_id("web", 1), "edge".to_owned());
            let current = Recorded::default();
            let blueprint = Blueprint::read(&farm, "i").unwrap();
            let plan = of_own_template(&Convergence::update(&current, &farm), Some(&blueprint));
            let zones: Vec<_> = plan.resources.iter().map(|row| row.zone.clone()).collect();
            assert_eq!(zones, [None, None, Some("edge".to_owned())]);
            let names = plan.resources.into_iter().map(|row| row.name);
            names.collect::<Vec<_>>()
        };
        let of_each = ["database-0", "web-0", "web-1"];
        assert_eq!(names(json!({"perVnfc": true})), of_each);
        assert_eq!(names(json!({"flavors": {}})), ["database", "web", "web"]);
    }
}
