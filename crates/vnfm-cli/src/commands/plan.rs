//! `vnfmctl vnf TASK … --plan`: what an operation would do.

use crate::client::{Client, Failure, Outcome};
use crate::output::{Column, Output, coloured, print};
use reqwest::RequestBuilder;
use serde_json::Value;

const STEPS: &[Column] = &[
    ("step", "/name"),
    ("state", "/state"),
    ("hook of", "/driver"),
    ("rollback", "/rollback"),
];
const DEPENDANTS: &[Column] = &[("name", "/name"), ("id", "/id")];
const RESOURCES: &[Column] = &[
    ("action", "/action"),
    ("kind", "/kind"),
    ("name", "/name"),
    ("vdu", "/vdu"),
    ("zone", "/zone"),
    ("because of", "/because"),
];

/// Prints the plan that the server answers to `request`: what operation `name` of `vnf` would do.
///
/// # Errors
///
/// `Planned` if something would change; those of the server, which makes the operation's checks.
pub(super) async fn show(
    client: &Client,
    output: Output,
    request: RequestBuilder,
    (name, vnf): (&str, &str),
) -> Outcome<()> {
    let plan: Value = client.json(request).await?;
    if output.is_table() {
        tables(&plan);
    } else {
        output.value(&plan)?;
    }
    if plan["changes"] == true {
        let what = format!("{name} of {vnf} would change something");
        return Err(Failure::Planned(what));
    }
    if output.is_table() {
        print(&format!("{name} of {vnf} would change nothing"));
    }
    Ok(())
}

fn tables(plan: &Value) {
    let list = |member: &str| plan[member].as_array().cloned().unwrap_or_default();
    let steps: Vec<Value> = list("steps").into_iter().map(with_rollback).collect();
    coloured(&steps, STEPS, |_| "");
    let dependants = list("dependants");
    if !dependants.is_empty() {
        print("\nTerminated first, in this order:");
        coloured(&dependants, DEPENDANTS, |_| "");
    }
    let resources = list("resources");
    if !resources.is_empty() {
        print("");
        let columns = columns(&resources);
        coloured(&resources, &columns, |one| colour_of(&one["action"]));
    }
    let unknown = list("unknown");
    if !unknown.is_empty() {
        print("\nNot known before it runs:");
    }
    for what in unknown {
        print(&format!("  {}", what.as_str().unwrap_or_default()));
    }
}

/// The columns of these resources: that of zones only if one is in a zone.
fn columns(resources: &[Value]) -> Vec<Column<'static>> {
    let has_zone = resources.iter().any(|one| one["zone"].is_string());
    let columns = RESOURCES.iter().copied();
    columns
        .filter(|(_, member)| has_zone || *member != "/zone")
        .collect()
}

/// The step with what a rollback does to it.
fn with_rollback(mut step: Value) -> Value {
    let rollback = if step["irreversible"] == true {
        "impossible once it has begun"
    } else if step["undone"] == true {
        "undoes it"
    } else {
        ""
    };
    step["rollback"] = rollback.into();
    step
}

fn colour_of(action: &Value) -> &'static str {
    match action.as_str() {
        Some("CREATE") => "\u{1b}[32m",
        Some("UPDATE") => "\u{1b}[33m",
        Some("REPLACE") => "\u{1b}[35m",
        Some("DELETE") => "\u{1b}[31m",
        _ => "\u{1b}[2m",
    }
}

#[cfg(test)]
mod tests {
    use super::columns;
    use serde_json::json;

    #[test]
    fn zones_have_a_column_if_a_resource_is_in_one() {
        let names = |resources: Vec<serde_json::Value>| {
            let all = columns(&resources).into_iter();
            all.map(|(name, _)| name).collect::<Vec<_>>()
        };
        let (here, nowhere) = (json!({"zone": "east"}), json!({"name": "web"}));
        assert!(names(vec![nowhere.clone(), here]).contains(&"zone"));
        let without = names(vec![nowhere]);
        assert!(
            !without.contains(&"zone") && without.len() == 5,
            "{without:?}"
        );
    }
}
