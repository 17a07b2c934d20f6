//! Containers, Mciops with their charts, and the deployment items of an ASD.

use super::section;
use crate::client::Outcome;
use crate::output::Output;
use serde_json::{Value, json};
use vnfm_descriptor::{Container, Flavour, Package};

/// The containers and Mciops of a flavour.
pub(super) fn tables(output: Output, package: &Package, flavour: &Flavour) -> Outcome<()> {
    let rows: Vec<Value> = flavour
        .containers
        .values()
        .map(|one| container(one, flavour))
        .collect();
    let columns = [
        ("container", "/name"),
        ("image", "/image"),
        ("of", "/of"),
        ("cpu", "/cpu"),
        ("memory", "/memory"),
        ("extended resources", "/extended"),
    ];
    section(output, "Containers", &rows, &columns)?;
    let files = flavour.mciops.values().flat_map(|mciop| {
        let none = mciop.files.is_empty().then_some("");
        let files = mciop.files.values().map(String::as_str).chain(none);
        files.map(move |file| (mciop, file))
    });
    let rows: Vec<Value> = files
        .map(|(mciop, file)| {
            json!({"name": mciop.name, "vdus": mciop.vdus, "chart": chart(package, file), "file": file})
        })
        .collect();
    let columns = [
        ("mciop", "/name"),
        ("vdus", "/vdus"),
        ("chart", "/chart"),
        ("file", "/file"),
    ];
    section(output, "Mciops", &rows, &columns)
}

fn container(container: &Container, flavour: &Flavour) -> Value {
    let runs = |vdu: &&vnfm_descriptor::Vdu| vdu.containers.contains(&container.name);
    let vdus: Vec<&str> = flavour
        .vdus
        .values()
        .filter(runs)
        .map(|vdu| vdu.name.as_str())
        .collect();
    let milli = |cpu: Option<u32>| cpu.map(|cpu| format!("{cpu} m"));
    let mib = |bytes: Option<u64>| bytes.map(|bytes| format!("{} MiB", bytes >> 20));
    let extended = container
        .extended_resources
        .iter()
        .map(|(name, count)| format!("{name} {count}"));
    json!({
        "name": container.name, "of": vdus,
        "image": container.image.as_ref().map(|image| image.file.as_ref().unwrap_or(&image.name)),
        "cpu": range(milli(container.requested_cpu_resources), milli(container.cpu_resource_limit)),
        "memory": range(mib(container.requested_memory_bytes), mib(container.memory_limit_bytes)),
        "extended": extended.collect::<Vec<_>>(),
    })
}

/// A request and a limit as a range.
fn range(request: Option<String>, limit: Option<String>) -> Option<String> {
    match (request, limit) {
        (Some(request), Some(limit)) if request != limit => Some(format!("{request} to {limit}")),
        (None, Some(limit)) => Some(format!("up to {limit}")),
        (request, _) => request,
    }
}

/// A chart's name and version, and the version of the application that it deploys.
fn chart(package: &Package, file: &str) -> Option<String> {
    let chart = package.chart(file).ok()?;
    let app = chart
        .app_version
        .map(|app| format!(", application {app}"))
        .unwrap_or_default();
    Some(format!("{} {}{app}", chart.name, chart.version))
}

/// The deployment items of an ASD.
pub(super) fn items(output: Output, package: &Package) -> Outcome<()> {
    let items = package
        .asd()
        .into_iter()
        .flat_map(|asd| &asd.deployment_items);
    let rows: Vec<Value> = items
        .map(|item| {
            let chart = (item.artifact_type == "helm_chart").then(|| chart(package, &item.file));
            json!({
                "name": item.deployment_item_id, "type": item.artifact_type, "file": item.file,
                "order": item.deployment_order.to_string(), "chart": chart.flatten(),
                "parameters": item.lifecycle_parameters,
            })
        })
        .collect();
    let columns = [
        ("item", "/name"),
        ("type", "/type"),
        ("order", "/order"),
        ("chart", "/chart"),
        ("file", "/file"),
        ("parameters", "/parameters"),
    ];
    section(output, "Deployment items", &rows, &columns)
}
