//! Compares our OpenAPI document with the official ones. `docs/conformance.md` lists every difference with its reason;
//! a new difference fails here, and so does an outdated row.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use vnfm_server::reference::OPENAPI;

const METHODS: &[&str] = &["get", "post", "put", "patch", "delete"];
/// The official document, and the prefix of its paths in ours.
const DOCUMENTS: &[(&str, &str)] = &[
    ("openapi-bundled/vnflcm-v3.7.1.patched.json", "/vnflcm/v2"),
    (
        "openapi-bundled/vnfpkgm-sol005-v3.7.1.patched.json",
        "/vnfpkgm/v2",
    ),
];
const TYPES: &str = "jsonschema/sol003-v3.7.1.patched.bundle.json";

/// Location and description of a difference.
type Difference = (String, String);

fn paper() -> String {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    std::fs::read_to_string(file).unwrap()
}

fn read(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// The differences of two sets of names.
fn sets(location: &str, what: &str, (ours, official): (&[String], &[String])) -> Vec<Difference> {
    let only = |of: &[String], others: &[String], word: &str| -> Vec<Difference> {
        let names = of.iter().filter(|name| !others.contains(name));
        names
            .map(|name| (location.to_owned(), format!("{word} {what} `{name}`")))
            .collect()
    };
    [
        only(official, ours, "without"),
        only(ours, official, "also"),
    ]
    .concat()
}

fn keys(of: &Value) -> Vec<String> {
    of.as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

fn words(of: &Value) -> Vec<String> {
    of.as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one.as_str().map(ToOwned::to_owned))
        .collect()
}

/// The parameters of an operation, including those of its path item, except path parameters.
fn parameters(document: &Value, (path, operation): (&Value, &Value)) -> Vec<String> {
    let all = [&path["parameters"], &operation["parameters"]].into_iter();
    let all = all.filter_map(Value::as_array).flatten().map(|one| {
        let location = one["$ref"].as_str().map(|location| &location[1..]);
        location.map_or(one, |location| document.pointer(location).unwrap())
    });
    let names = all
        .filter(|one| one["in"] != "path")
        .map(|one| one["name"].as_str().unwrap());
    names
        .map(ToOwned::to_owned)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn of_paths(ours: &Value, official: &Value, prefix: &str) -> Vec<Difference> {
    let mut found = Vec::new();
    for (path, item) in official["paths"].as_object().unwrap() {
        let path = format!("{prefix}{path}");
        for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
            let location = format!("{} {path}", method.to_uppercase());
            let our_item = &ours["paths"][&path];
            let Some(our_operation) = our_item.get(*method) else {
                found.push((location, "absent".to_owned()));
                continue;
            };
            let operation = &item[*method];
            let statuses = (
                keys(&our_operation["responses"]),
                keys(&operation["responses"]),
            );
            found.extend(sets(&location, "status", (&statuses.0, &statuses.1)));
            let named = (
                parameters(ours, (our_item, our_operation)),
                parameters(official, (item, operation)),
            );
            found.extend(sets(&location, "parameter", (&named.0, &named.1)));
        }
    }
    for (path, item) in ours["paths"].as_object().unwrap() {
        let Some(rest) = path
            .strip_prefix(prefix)
            .filter(|rest| rest.starts_with('/'))
        else {
            continue;
        };
        for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
            if official["paths"][rest].get(*method).is_none() {
                found.push((
                    format!("{} {path}", method.to_uppercase()),
                    "ours alone".to_owned(),
                ));
            }
        }
    }
    found
}

fn of_types(ours: &Value, official: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    for (name, ours) in ours["components"]["schemas"].as_object().unwrap() {
        let Some(official) = official["$defs"].get(name) else {
            continue;
        };
        let members = (keys(&ours["properties"]), keys(&official["properties"]));
        found.extend(sets(name, "member", (&members.0, &members.1)));
        let needed = (words(&ours["required"]), words(&official["required"]));
        found.extend(sets(name, "mandatory", (&needed.0, &needed.1)));
    }
    found
}

/// The rows of the table in the document: location, differences, and whether there is a reason.
fn rows() -> Vec<(String, Vec<String>, bool)> {
    let paper = paper();
    let table = paper
        .split("## Where our OpenAPI document differs")
        .nth(1)
        .unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [location, what, why] = cells[..] else {
            panic!("the row does not have three cells: {line}")
        };
        (
            location.trim_matches('`').to_owned(),
            spelt(what),
            !why.is_empty(),
        )
    })
    .collect()
}

/// "without status `405`, `504`" as one difference for each name.
fn spelt(what: &str) -> Vec<String> {
    let Some((kind, names)) = what.split_once(" `") else {
        return vec![what.to_owned()];
    };
    let names = names.trim_end_matches('`').split("`, `");
    names.map(|name| format!("{kind} `{name}`")).collect()
}

/// Whether the location pattern of a row matches; `*` matches any text.
fn fits(pattern: &str, location: &str) -> bool {
    let parts: Vec<_> = pattern.split('*').collect();
    let [first, middle @ .., last] = parts.as_slice() else {
        return pattern == location;
    };
    let Some(mut rest) = location
        .strip_prefix(first)
        .and_then(|rest| rest.strip_suffix(last))
    else {
        return false;
    };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    true
}

#[test]
fn every_difference_has_its_reason() {
    let Some(sol) = vnfm_sol() else { return };
    let ours: Value = serde_yaml::from_str(OPENAPI).unwrap();
    let mut found = of_types(&ours, &read(&sol.join(TYPES)));
    for (document, prefix) in DOCUMENTS {
        found.extend(of_paths(&ours, &read(&sol.join(document)), prefix));
    }
    assert!(
        found.len() > 100,
        "found only {} differences, so a document was not read completely",
        found.len()
    );
    let rows = rows();
    let mut used = BTreeMap::<(&str, &str), usize>::new();
    let mut unknown = Vec::new();
    for (location, what) in &found {
        let row = rows.iter().find(|(pattern, differences, _)| {
            fits(pattern, location) && differences.contains(what)
        });
        match row {
            Some((pattern, ..)) => *used.entry((pattern, what)).or_default() += 1,
            None => unknown.push(format!("{location}: {what}")),
        }
    }
    assert!(
        unknown.is_empty(),
        "differences without a row in docs/conformance.md:\n{}",
        unknown.join("\n")
    );
    for (pattern, differences, has_reason) in &rows {
        assert!(has_reason, "the row has no reason: {pattern}");
        for what in differences {
            let is_true = used.contains_key(&(pattern.as_str(), what.as_str()));
            assert!(
                is_true,
                "outdated, or covered by an earlier row: `{pattern}` {what}"
            );
        }
    }
}

fn vnfm_sol() -> Option<PathBuf> {
    let data = std::env::var_os("VNFM_SOL_DATA").map(PathBuf::from);
    let fallback = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/sol");
    let folder = data.unwrap_or(fallback);
    if folder.is_dir() {
        return Some(folder);
    }
    let what = format!(
        "no official SOL files in `{}`; set VNFM_SOL_DATA to their folder",
        folder.display()
    );
    assert!(
        std::env::var_os("VNFM_REQUIRE_LIVE").is_none_or(|v| v != "1"),
        "{what}"
    );
    eprintln!("skipped: {what}");
    None
}

#[test]
fn a_table_row_is_parsed() {
    assert_eq!(
        spelt("without status `405`, `504`"),
        ["without status `405`", "without status `504`"]
    );
    assert_eq!(spelt("absent"), ["absent"]);
    for (pattern, location, expected) in [
        ("*", "GET /a", true),
        ("GET /a", "GET /a", true),
        ("GET /a", "GET /ab", false),
        ("* /a/*/b", "POST /a/x/b", true),
        ("* /a/*/b", "POST /a/x/c", false),
    ] {
        assert_eq!(fits(pattern, location), expected, "{pattern} {location}");
    }
}
