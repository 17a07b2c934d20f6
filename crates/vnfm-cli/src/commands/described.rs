//! `vnfmctl package show`: the contents of a package, as tables or as one JSON document.

mod containers;

use crate::client::Outcome;
use crate::output::{Column, Output, print};
use serde_json::{Value, json};
use vnfm_descriptor::{CpKind, Flavour, Package, SwImage, Vdu, VduKind};

const IDENTITY: &[Column] = &[
    ("vnfdId", "/descriptor_id"),
    ("provider", "/provider"),
    ("product", "/product_name"),
    ("software", "/software_version"),
    ("vnfd version", "/descriptor_version"),
    ("description", "/product_info_description"),
    ("vnfm", "/vnfm_info"),
    ("entry", "/entry"),
    ("manifest", "/manifest"),
    ("sha-256", "/sha256"),
    ("files", "/files"),
];

/// Configurable properties that SOL001 gives every VNF; they are not shown.
const STANDARD_PROPERTIES: &[&str] = &[
    "isAutoscaleEnabled",
    "isAutohealEnabled",
    "vnfm_interface_info",
    "vnfm_oauth_server_info",
    "vnf_oauth_server_info",
    "additional_configurable_properties",
    "additional_configurable_properties.is_writable_anytime",
];

pub(super) fn show(output: Output, package: &Package) -> Outcome<()> {
    let document = document(package);
    if !output.is_table() {
        return output.value(&document);
    }
    output.one(&document, IDENTITY)?;
    tables(output, package)?;
    for warning in package.warnings() {
        print(&format!("\n{warning}"));
    }
    Ok(())
}

/// The complete description, for `-o json` and `-o yaml`.
pub(super) fn document(package: &Package) -> Value {
    let mut document = json!(package.vnfd());
    document["entry"] = json!(package.entry());
    document["manifest"] = json!(package.manifest().map(|manifest| &manifest.path));
    document["sha256"] = json!(package.sha256());
    document["files"] = json!(package.paths().count());
    document["asd"] = json!(package.asd());
    document["orderFile"] = json!(package.order_file());
    let flavours = package.vnfd().flavours.values();
    let charts = flavours.flat_map(|flavour| flavour.mciops.values());
    let files = charts.flat_map(|mciop| mciop.files.values()).cloned();
    document["charts"] = files
        .filter_map(|file| Some((file.clone(), json!(package.chart(&file).ok()?))))
        .collect();
    document["warnings"] = json!(
        package
            .warnings()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    );
    document
}

/// The deployment flavours, deployment items and manifests, as tables.
pub(super) fn tables(output: Output, package: &Package) -> Outcome<()> {
    for flavour in package.vnfd().flavours.values() {
        print(&format!(
            "\nDEPLOYMENT FLAVOUR {}  {}",
            flavour.id, flavour.description
        ));
        levels(output, flavour)?;
        vdus(output, flavour)?;
        containers::tables(output, package, flavour)?;
        connections(output, flavour)?;
        images(output, flavour)?;
        hooks(output, flavour)?;
        parameters(output, flavour)?;
        if let Some(hot) = package.base_hot(&flavour.id) {
            section(
                output,
                "Base HOT",
                &[
                    json!({"template": hot.template, "parameters": hot.declared.iter().map(|p| &p.name).collect::<Vec<_>>()}),
                ],
                &[("template", "/template"), ("parameters", "/parameters")],
            )?;
        }
    }
    containers::items(output, package)?;
    manifests(output, package)
}

/// Prints a table with its title, unless it is empty.
fn section(output: Output, title: &str, rows: &[Value], columns: &[Column]) -> Outcome<()> {
    if rows.is_empty() {
        return Ok(());
    }
    print(&format!("\n{title}"));
    output.list(rows, columns)
}

/// Instantiation levels with the number of instances of each VDU, and scaling aspects.
fn levels(output: Output, flavour: &Flavour) -> Outcome<()> {
    let counts = |level: Option<&str>| {
        let each = flavour.vdus.keys().map(|vdu| {
            let count = flavour
                .instances_of(vdu, level)
                .map_or("?".into(), |n| n.to_string());
            format!("{vdu} {count}")
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let mut rows: Vec<Value> = flavour
        .instantiation_levels
        .iter()
        .map(|(name, level)| {
            let default = flavour.default_level.as_deref() == Some(name);
            let scale = level.scale_info.iter().map(|(aspect, at)| format!("{aspect} {at}"));
            json!({
                "name": name, "default": if default { "yes" } else { "" }, "counts": counts(Some(name)),
                "scale": scale.collect::<Vec<_>>().join(", "), "description": level.description,
            })
        })
        .collect();
    if rows.is_empty() && !flavour.vdus.is_empty() {
        rows.push(json!({"name": "-", "default": "yes", "counts": counts(None)}));
    }
    let columns = [
        ("level", "/name"),
        ("default", "/default"),
        ("instances", "/counts"),
        ("scale levels", "/scale"),
        ("description", "/description"),
    ];
    section(output, "Instantiation levels", &rows, &columns)?;
    let rows: Vec<Value> = flavour
        .scaling_aspects
        .iter()
        .map(|(id, aspect)| {
            let vdus: Vec<_> = aspect.deltas.keys().collect();
            json!({"id": id, "most": aspect.max_scale_level.to_string(), "steps": aspect.step_deltas, "vdus": vdus,
                "description": aspect.description})
        })
        .collect();
    let columns = [
        ("aspect", "/id"),
        ("levels", "/most"),
        ("steps", "/steps"),
        ("vdus", "/vdus"),
        ("description", "/description"),
    ];
    section(output, "Scaling aspects", &rows, &columns)
}

fn vdus(output: Output, flavour: &Flavour) -> Outcome<()> {
    let row = |vdu: &Vdu| {
        let compute = vdu.compute.as_ref();
        let disks = compute.map(|compute| {
            compute
                .virtual_local_storage_gib
                .iter()
                .map(|gib| format!("{gib} GiB"))
                .collect::<Vec<_>>()
        });
        let bound = |bound: Option<u32>| bound.map_or("?".to_owned(), |bound| bound.to_string());
        json!({
            "name": vdu.name,
            "kind": match vdu.kind { VduKind::Compute => "VM", VduKind::OsContainer => "containers" },
            "range": format!("{} to {}", bound(vdu.min_number_of_instances), bound(vdu.max_number_of_instances)),
            "cpus": compute.map(|compute| compute.num_virtual_cpu.to_string()),
            "memory": compute.map(|compute| format!("{} MiB", compute.virtual_mem_size_mib)),
            "disks": disks, "flavor": vdu.requested_flavor, "image": vdu.image.as_ref().map(|image| &image.name),
            "storages": vdu.storages, "description": vdu.description,
        })
    };
    let rows: Vec<Value> = flavour.vdus.values().map(row).collect();
    let columns = [
        ("vdu", "/name"),
        ("kind", "/kind"),
        ("instances", "/range"),
        ("cpus", "/cpus"),
        ("memory", "/memory"),
        ("disks", "/disks"),
        ("flavor", "/flavor"),
        ("image", "/image"),
        ("storages", "/storages"),
        ("description", "/description"),
    ];
    section(output, "VDUs", &rows, &columns)?;
    let storages: Vec<Value> = flavour
        .storages
        .values()
        .map(|storage| {
            let size = storage.size_gib.map(|gib| format!("{gib} GiB"));
            let owner = if storage.per_vnfc_instance { "each VNFC" } else { "all together" };
            json!({"name": storage.name, "kind": format!("{:?}", storage.kind), "size": size, "of": owner})
        })
        .collect();
    let columns = [
        ("storage", "/name"),
        ("kind", "/kind"),
        ("size", "/size"),
        ("of", "/of"),
    ];
    section(output, "Storages", &storages, &columns)
}

fn connections(output: Output, flavour: &Flavour) -> Outcome<()> {
    let rows: Vec<Value> = flavour
        .cps
        .values()
        .map(|cp| {
            let external = if cp.external { "outside" } else { "" };
            let link = cp.virtual_link.as_deref().unwrap_or(external);
            let kind = match cp.kind {
                CpKind::VduCp => "VduCp",
                CpKind::VnfExtCp => "VnfExtCp",
                CpKind::VipCp => "VipCp",
                CpKind::VirtualCp => "VirtualCp",
            };
            json!({"name": cp.name, "kind": kind, "vdu": cp.vdu, "link": link, "protocols": cp.layer_protocols,
                "vnic": cp.vnic_type, "external": if cp.external { "yes" } else { "" }})
        })
        .collect();
    let columns = [
        ("connection point", "/name"),
        ("kind", "/kind"),
        ("vdu", "/vdu"),
        ("link", "/link"),
        ("external", "/external"),
        ("protocols", "/protocols"),
        ("vnic", "/vnic"),
    ];
    section(output, "Connection points", &rows, &columns)?;
    let rows: Vec<Value> = flavour
        .virtual_links
        .values()
        .map(|link| json!(link))
        .collect();
    let columns = [
        ("link", "/name"),
        ("subnet", "/cidr"),
        ("gateway", "/gateway"),
        ("from outside", "/externally_managed"),
        ("description", "/description"),
    ];
    section(output, "Virtual links", &rows, &columns)
}

fn images(output: Output, flavour: &Flavour) -> Outcome<()> {
    let row = |(user, image): (&str, &SwImage)| {
        let from = match (&image.artifact, &image.file) {
            (Some(path), _) => path.clone(),
            (None, Some(file)) if image.container_format.as_deref() == Some("docker") => {
                file.clone()
            }
            _ => "on the VIM, by name".to_owned(),
        };
        let checksum = image
            .checksum
            .as_ref()
            .map(|sum| format!("{} {}", sum.algorithm, sum.hash));
        json!({"of": user, "name": image.name, "version": image.version, "from": from,
            "format": image.disk_format.as_ref().or(image.container_format.as_ref()),
            "disk": image.min_disk_gib.map(|gib| format!("{gib} GiB")), "checksum": checksum})
    };
    let rows: Vec<Value> = flavour.images().map(row).collect();
    let columns = [
        ("image", "/name"),
        ("version", "/version"),
        ("of", "/of"),
        ("format", "/format"),
        ("min disk", "/disk"),
        ("from", "/from"),
        ("checksum", "/checksum"),
    ];
    section(output, "Images", &rows, &columns)
}

fn hooks(output: Output, flavour: &Flavour) -> Outcome<()> {
    let rows: Vec<Value> = flavour
        .hooks()
        .iter()
        .map(|hook| {
            let artifact = hook.artifact.as_ref();
            let from = artifact.and_then(|artifact| {
                let plugin = artifact.plugin().map(|plugin| format!("plugin {plugin}"));
                plugin.or_else(|| artifact.file.clone())
            });
            let timeout = hook.timeout.map(|timeout| format!("{} s", timeout.as_secs()));
            json!({"operation": hook.operation, "implementation": hook.implementation, "from": from, "timeout": timeout})
        })
        .collect();
    let columns = [
        ("hook", "/operation"),
        ("implementation", "/implementation"),
        ("from", "/from"),
        ("timeout", "/timeout"),
    ];
    section(output, "Hooks", &rows, &columns)
}

/// What requests may set: additional parameters, extensions, metadata, configurable properties.
fn parameters(output: Output, flavour: &Flavour) -> Outcome<()> {
    let mut rows = Vec::new();
    for (operation, schema) in &flavour.additional_params {
        members((schema, schema), operation, "", &mut rows);
    }
    for (attribute, schema) in &flavour.modifiable_types {
        members((schema, schema), attribute, "", &mut rows);
    }
    // Every VNF has these.
    rows.retain(|row| !STANDARD_PROPERTIES.iter().any(|name| row["name"] == *name));
    parameter_table(output, &rows)
}

/// The configuration of a plugin and the parameters of its hooks.
pub(super) fn plugin(output: Output, declaration: &Value) -> Outcome<()> {
    let mut rows = Vec::new();
    let config = &declaration["configSchema"];
    members((config, config), "configuration", "", &mut rows);
    for (hook, declared) in declaration["hooks"].as_object().into_iter().flatten() {
        let schema = &declared["parameters"];
        members((schema, schema), hook, "", &mut rows);
    }
    parameter_table(output, &rows)
}

fn parameter_table(output: Output, rows: &[Value]) -> Outcome<()> {
    let columns = [
        ("of", "/of"),
        ("parameter", "/name"),
        ("type", "/type"),
        ("required", "/required"),
        ("default", "/default"),
        ("description", "/description"),
    ];
    section(output, "Parameters", rows, &columns)
}

/// Nesting depth at which members are cut off: a schema may be recursive.
const MAX_DEPTH: usize = 5;

/// Appends the members of a schema (a part of `root`), with nested ones.
fn members((schema, root): (&Value, &Value), of: &str, above: &str, rows: &mut Vec<Value>) {
    if above.split('.').count() > MAX_DEPTH {
        return;
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let path = if above.is_empty() {
            name.clone()
        } else {
            format!("{above}.{name}")
        };
        let required = if required.contains(&json!(name)) {
            "yes"
        } else {
            ""
        };
        let description = &member["description"];
        let member = resolved(member, root);
        let secret = if member["writeOnly"] == true {
            ", secret"
        } else {
            ""
        };
        let kind = format!("{}{secret}", kind(member));
        rows.push(
            json!({"of": of, "name": path, "type": kind, "required": required,
            "default": member["default"], "description": description}),
        );
        members((member, root), of, &path, rows);
    }
}

/// Follows a schema's reference; a nullable schema counts as its non-null choice.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut choices = schema["anyOf"].as_array().into_iter().flatten();
    let schema = choices
        .find(|choice| choice["type"] != "null")
        .unwrap_or(schema);
    let pointer = schema["$ref"]
        .as_str()
        .and_then(|reference| reference.strip_prefix('#'));
    pointer
        .and_then(|pointer| root.pointer(pointer))
        .unwrap_or(schema)
}

/// The JSON type of a member; `any` if the schema does not restrict it.
fn kind(member: &Value) -> &str {
    let several = member["type"].as_array().into_iter().flatten();
    let one = several
        .filter_map(Value::as_str)
        .find(|kind| *kind != "null");
    member["type"].as_str().or(one).unwrap_or("any")
}

fn manifests(output: Output, package: &Package) -> Outcome<()> {
    let Some(order) = package.order_file() else {
        return Ok(());
    };
    let rows: Vec<Value> = order
        .manifests
        .iter()
        .map(|manifest| json!({"order": manifest.order.to_string(), "path": manifest.path}))
        .collect();
    section(
        output,
        "Manifests",
        &rows,
        &[("order", "/order"), ("manifest", "/path")],
    )?;
    let rows: Vec<Value> = order
        .variables
        .iter()
        .map(|(name, variable)| {
            json!({"name": name, "default": variable.default, "description": variable.description,
                "required": if variable.default.is_none() { "yes" } else { "" }})
        })
        .collect();
    let columns = [
        ("variable", "/name"),
        ("required", "/required"),
        ("default", "/default"),
        ("description", "/description"),
    ];
    section(output, "Variables", &rows, &columns)
}
