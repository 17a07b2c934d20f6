//! The documents: links inside the checkout and citations of tests are valid.

use std::path::Path;

use vnfm_tests::sources::{Source, files, root};

const PAPERS: &[&str] = &[
    "docs",
    "crates",
    "plugins",
    "vnfd-samples",
    "schemas",
    "tests",
];
const AT_THE_TOP: &[&str] = &[
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
];

fn papers() -> Vec<Source> {
    let mut papers = files(PAPERS, ".md").unwrap();
    papers.extend(AT_THE_TOP.iter().map(|name| {
        Source {
            path: (*name).to_owned(),
            text: std::fs::read_to_string(root().join(name))
                .unwrap_or_else(|_| panic!("`{name}` is missing")),
        }
    }));
    papers
}

/// Targets of the links outside code blocks.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        let prose: String = line
            .split('`')
            .enumerate()
            .map(|(n, part)| if n % 2 == 0 { part } else { "code" })
            .collect();
        found.extend(
            prose
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next())
                .map(str::to_owned),
        );
    }
    found
}

#[test]
fn links_in_code_are_ignored() {
    let text = "see [a](b.md#x) and `[c](d)`\n```\n[e](f)\n```\n[g](h)";
    assert_eq!(links(text), ["b.md#x", "h"]);
}

#[test]
fn relative_links_point_to_existing_files() {
    let mut dead = Vec::new();
    for paper in papers() {
        let folder = root().join(&paper.path).parent().unwrap().to_path_buf();
        for link in links(&paper.text) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            if !folder.join(file).exists() {
                dead.push(format!("{}: {link}", paper.path));
            }
        }
    }
    assert!(
        dead.is_empty(),
        "links to missing files:\n{}",
        dead.join("\n")
    );
}

#[test]
fn link_fragments_point_to_existing_headings() {
    let mut dead = Vec::new();
    for paper in papers() {
        let folder = root().join(&paper.path).parent().unwrap().to_path_buf();
        for link in links(&paper.text) {
            let Some((file, heading)) = link.split_once('#') else {
                continue;
            };
            if file.contains("://")
                || !(file.is_empty()
                    || Path::new(file).extension().is_some_and(|kind| kind == "md"))
            {
                continue;
            }
            let text = if file.is_empty() {
                Ok(paper.text.clone())
            } else {
                std::fs::read_to_string(folder.join(file))
            };
            if !text.is_ok_and(|text| headings(&text).any(|known| known == heading)) {
                dead.push(format!("{}: {link}", paper.path));
            }
        }
    }
    assert!(dead.is_empty(), "missing headings:\n{}", dead.join("\n"));
}

/// The fragment identifiers of the headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let slug = words
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            slug.collect::<String>().replace(' ', "-")
        })
}

/// The book shows what `docs/SUMMARY.md` lists, and its search finds nothing else.
#[test]
fn the_table_of_contents_lists_every_page_of_docs_once() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed = links(&summary);
    let pages = files(&["docs"], ".md").unwrap();
    let pages = pages
        .iter()
        .filter_map(|page| page.path.strip_prefix("docs/"));
    let pages: Vec<_> = pages.filter(|page| *page != "SUMMARY.md").collect();
    assert!(pages.len() > 30, "the pages were not found");
    for page in &pages {
        let count = listed.iter().filter(|link| link == page).count();
        assert_eq!(count, 1, "docs/SUMMARY.md lists docs/{page} {count} times");
    }
    assert_eq!(
        listed.len(),
        pages.len(),
        "docs/SUMMARY.md lists pages that do not exist"
    );
}

/// The README leads each kind of reader to pages, and names no command that does not exist.
#[test]
fn the_readme_leads_every_reader_to_pages() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for reader in [
        "operator",
        "NFVO developer",
        "plugin author",
        "embedder",
        "contributor",
    ] {
        let row = readme
            .lines()
            .find(|line| line.starts_with('|') && line.contains(reader));
        let row = row.unwrap_or_else(|| panic!("no row for the {reader}"));
        assert!(links(row).len() >= 3, "{row}");
    }
}

#[test]
fn documents_contain_no_local_paths() {
    let names = [concat!("/wo", "rk/"), concat!("/tmp/bri", "efs")];
    let telling: Vec<_> = papers()
        .into_iter()
        .filter(|paper| names.iter().any(|name| paper.text.contains(name)))
        .map(|paper| paper.path)
        .collect();
    assert!(telling.is_empty(), "paths of one machine in {telling:?}");
}

/// Each row of `docs/conformance.md` cites tests, which must exist in the linked files.
#[test]
fn tests_cited_on_the_conformance_page_exist() {
    let page = std::fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains(".rs) `"));
    let mut named = 0;
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for part in cell.split("), [").flat_map(|part| part.split(", [")) {
            let file = part.split("](").nth(1).unwrap().split(')').next().unwrap();
            let text = std::fs::read_to_string(root().join("docs").join(file)).unwrap();
            for test in part.split('`').skip(1).step_by(2) {
                named += 1;
                assert!(
                    text.contains(&format!("fn {test}(")),
                    "no test `{test}` in {file}"
                );
            }
        }
    }
    assert!(named > 30, "only {named} tests are named");
}
