//! `vnfmctl vim capabilities`, `vnfmctl package match`: what clusters offer, and which VIMs fit a package.

use super::package;
use crate::client::{Client, Outcome, local, segment};
use crate::output::{Column, Output};
use reqwest::Method;
use serde_json::{Value, json};

const FACTS: &[Column] = &[
    ("kubernetes", "/kubernetesVersion"),
    ("helm", "/helmVersion"),
    ("kinds", "/kinds"),
    ("CSI drivers", "/csiDrivers"),
    ("storage classes", "/storageClasses"),
    ("nodes", "/unknownNodes"),
];
const NODES: &[Column] = &[
    ("node", "/name"),
    ("takes pods", "/schedulable"),
    ("kernel", "/kernelVersion"),
    ("arch", "/architecture"),
    ("runtime", "/containerRuntimeVersion"),
    ("labels", "/labelCount"),
    ("extended resources", "/extended"),
];
const VERDICTS: &[Column] = &[
    ("vim", "/name"),
    ("type", "/vimType"),
    ("fits", "/fits"),
    ("why", "/why"),
];

/// Shows what a cluster offers.
pub(super) async fn cluster(client: &Client, output: Output, named: &str) -> Outcome<()> {
    let path = format!("/vnfm/v1/vims/{}/capabilities", segment(named));
    let offered: Value = client.get(&path).await?;
    if !output.is_table() {
        return output.value(&offered);
    }
    let mut facts = offered.clone();
    for fact in [
        "helmVersion",
        "csiDrivers",
        "storageClasses",
        "apis",
        "nodes",
    ] {
        if let Some(why) = offered[fact]["unknown"].as_str() {
            facts[fact] = json!(format!("unknown: {why}"));
        }
    }
    facts["kinds"] = match &facts["apis"] {
        Value::Array(apis) => json!(apis.len()),
        unknown => unknown.clone(),
    };
    if facts["nodes"].is_string() {
        facts["unknownNodes"] = facts["nodes"].clone();
    }
    output.one(&facts, FACTS)?;
    let nodes = offered["nodes"].as_array().into_iter().flatten();
    output.list(&nodes.map(node).collect::<Vec<_>>(), NODES)
}

/// A node as a row: labels are counted, resources that every node has are omitted.
fn node(offered: &Value) -> Value {
    let mut row = offered.clone();
    row["labelCount"] = json!(
        offered["labels"]
            .as_object()
            .map_or(0, serde_json::Map::len)
    );
    let allocatable = offered["allocatable"].as_object().into_iter().flatten();
    let extended = allocatable.filter(|(name, amount)| {
        (name.contains('/') || name.starts_with("hugepages-")) && **amount != "0"
    });
    let texts = extended.map(|(name, amount)| {
        let amount = amount.as_str().unwrap_or_default();
        format!("{name}: {amount}")
    });
    row["extended"] = json!(texts.collect::<Vec<_>>());
    row
}

/// Lists which VIMs fit a package: one, or all.
pub(super) async fn package(
    client: &Client,
    output: Output,
    named: &str,
    vim: Option<&str>,
) -> Outcome<()> {
    let found = package::find(client, named).await?;
    let id = found["id"].as_str().unwrap_or_default();
    let path = format!("/vnfm/v1/vnf_packages/{}/match", segment(id));
    let mut request = client.request(Method::GET, &path);
    if let Some(vim) = vim {
        request = request.query(&[("vim", vim)]);
    }
    let matched: Value = client.json(request).await?;
    let vims = matched["vims"].as_array().into_iter().flatten();
    let fits = vims.clone().any(|vim| vim["fits"] == true);
    if output.is_table() {
        let rows: Vec<Value> = vims.map(verdict).collect();
        output.list(&rows, VERDICTS)?;
    } else {
        output.value(&matched)?;
    }
    if fits {
        return Ok(());
    }
    let kind = matched["vimType"]
        .as_str()
        .unwrap_or("the type of the chosen flavour");
    Err(local(format!(
        "no VIM fits package {named}, which needs {kind}"
    )))
}

/// A VIM as a row: what is missing or unknown; of one that has everything, nothing.
fn verdict(vim: &Value) -> Value {
    let requirements = vim["requirements"].as_array().into_iter().flatten();
    let open = requirements
        .filter(|one| one["verdict"] != "MET")
        .map(|one| {
            let text = |member: &str| one[member].as_str().unwrap_or_default().to_owned();
            let level = text("level").to_lowercase();
            let state = if one["verdict"] == "UNKNOWN" {
                "unknown"
            } else {
                "not met"
            };
            format!("{level} {} {state}: {}", text("requirement"), text("found"))
        });
    let reason = vim["reason"].as_str().map(str::to_owned);
    let why: Vec<String> = reason.into_iter().chain(open).collect();
    let mut row = vim.clone();
    row["why"] = json!(why.join("; "));
    row
}

#[cfg(test)]
mod tests {
    use super::{node, verdict};
    use serde_json::json;

    #[test]
    fn a_row_says_what_is_missing_or_unknown() {
        let row = verdict(&json!({"name": "a", "fits": false, "requirements": [
            {"requirement": "label `gpu`", "level": "MANDATORY", "verdict": "NOT_MET", "found": "nodes without it"},
            {"requirement": "kernel version 5 or newer", "level": "MANDATORY", "verdict": "MET", "found": "on 1 of 1 nodes: n"},
            {"requirement": "label `edge`", "level": "PREFERRED", "verdict": "UNKNOWN", "found": "403"}]}));
        assert_eq!(
            row["why"],
            "mandatory label `gpu` not met: nodes without it; preferred label `edge` unknown: 403"
        );
        let other = verdict(
            &json!({"name": "b", "fits": false, "reason": "another type", "requirements": []}),
        );
        assert_eq!(other["why"], "another type");
    }

    #[test]
    fn a_node_shows_extended_resources_only() {
        let allocatable = json!({"cpu": "4", "example.com/fpga": "2", "hugepages-2Mi": "0"});
        let row = node(&json!({"name": "n", "labels": {"a": "b"}, "allocatable": allocatable}));
        assert_eq!(row["extended"], json!(["example.com/fpga: 2"]));
        assert_eq!(row["labelCount"], 1);
    }
}
