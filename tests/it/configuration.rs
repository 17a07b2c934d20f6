//! The configuration: its schema and its page are made from the types; the page's example is right.

use std::fmt::Write as _;
use vnfm_server::reference::{example_mistakes, members, schema};
use vnfm_tests::sources::{assert_page_current, root};

const PAGE: &str = "docs/configuration.md";
const MARK: &str = "<!-- Generated from the types by `VNFM_UPDATE_GENERATED=1 cargo test -p vnfm-tests configuration`. -->\n";

fn page() -> String {
    std::fs::read_to_string(root().join(PAGE)).unwrap()
}

#[test]
fn configuration_schema_is_current() {
    let wanted = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    assert_page_current("schemas/config.schema.json", &wanted);
}

#[test]
fn configuration_page_is_current() {
    let page = page();
    let (intro, _) = page.split_once(MARK).expect("the page lacks its mark");
    let mut wanted = format!("{intro}{MARK}\n| member | variable | what |\n|---|---|---|\n");
    for member in members() {
        let means = member.description().replace('\n', " ").replace('|', "\\|");
        let (name, variable, kind) = (&member.name, &member.variable, member.kind());
        writeln!(wanted, "| `{name}` | `{variable}` | {means} ({kind}) |").unwrap();
    }
    assert_page_current(PAGE, &wanted);
}

#[test]
fn configuration_variables_are_unique() {
    let mut names: Vec<_> = members()
        .into_iter()
        .map(|member| member.variable)
        .collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(all > 40, "{all}");
}

#[test]
fn configuration_example_is_valid() {
    let page = page();
    let example = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    assert_eq!(example_mistakes(example), Vec::<String>::new());
}
