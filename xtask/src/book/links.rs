//! Links of Markdown pages, and of the HTML that mdBook makes of them.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// `text` with each link to a file replaced; fragments stay. Links in code, to URLs and within the page are unchanged.
pub(super) fn rewritten(text: &str, mut replace: impl FnMut(&str) -> String) -> String {
    let (mut all, mut is_fenced) = (String::with_capacity(text.len()), false);
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        if is_fenced || is_fence {
            all.push_str(line);
            continue;
        }
        let mut rest = line;
        let mut in_code = false;
        while let Some(at) = rest.find("](") {
            let (before, after) = rest.split_at(at + 2);
            in_code ^= before.matches('`').count() % 2 == 1;
            all.push_str(before);
            rest = after;
            let Some((link, _)) = after.split_once(')') else {
                continue;
            };
            let (file, fragment) = link
                .split_once('#')
                .map_or((link, None), |(file, name)| (file, Some(name)));
            if in_code || file.is_empty() || file.contains(':') || file.contains(' ') {
                continue;
            }
            all.push_str(&replace(file));
            if let Some(fragment) = fragment {
                all.push('#');
                all.push_str(fragment);
            }
            rest = &after[link.len()..];
        }
        all.push_str(rest);
    }
    all
}

/// The path that a link on `page` leads to, both from the same folder.
pub(super) fn resolved(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// The link on `page` that leads to `to`.
pub(super) fn relative(page: &Path, to: &Path) -> String {
    let up = page.components().count().saturating_sub(1);
    format!("{}{}", "../".repeat(up), to.display())
}

/// The links of a book that lead to no file, as `page: link`.
///
/// # Errors
/// If a page cannot be read.
pub(super) fn dead(book: &Path) -> Result<Vec<String>> {
    let (mut found, mut folders) = (Vec::new(), vec![book.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "html") {
                let page = path.strip_prefix(book)?;
                // The error page is written for the top of a web server.
                if page != Path::new("404.html") {
                    found.extend(dead_on(book, page)?);
                }
            }
        }
    }
    Ok(found)
}

fn dead_on(book: &Path, page: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(book.join(page))
        .with_context(|| format!("cannot read `{}`", page.display()))?;
    let links = text
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let is_dead = |link: &&str| {
        let file = link.split(['#', '?']).next().unwrap_or_default();
        !file.is_empty() && !file.contains(':') && !book.join(resolved(page, file)).exists()
    };
    let dead = links.filter(is_dead);
    Ok(dead
        .map(|link| format!("{}: {link}", page.display()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{dead, relative, resolved, rewritten};
    use std::path::Path;

    #[test]
    fn links_outside_code_are_rewritten() {
        let text = "see [`a`](b.md#x), `[c](d)` and [e](https://e.x)\n```\n[f](g)\n```\n[h](#i) [j](../k/)\n";
        let expected = "see [`a`](<b.md>#x), `[c](d)` and [e](https://e.x)\n```\n[f](g)\n```\n[h](#i) [j](<../k/>)\n";
        assert_eq!(rewritten(text, |link| format!("<{link}>")), expected);
    }

    #[test]
    fn paths_are_resolved_and_made_relative() {
        let page = Path::new("docs/how-to/heal.md");
        assert_eq!(resolved(page, "../../README.md"), Path::new("README.md"));
        assert_eq!(
            resolved(page, "stuck.md"),
            Path::new("docs/how-to/stuck.md")
        );
        assert_eq!(
            relative(Path::new("how-to/heal.md"), Path::new("a/b.md")),
            "../a/b.md"
        );
    }

    #[test]
    fn a_link_to_a_missing_file_is_dead() {
        let folder = tempfile::tempdir().unwrap();
        let html = r#"<a href="two.html#x">a</a> <a href="three.html">b</a> <a href="https://x.y/z">c</a>"#;
        std::fs::write(folder.path().join("one.html"), html).unwrap();
        std::fs::write(folder.path().join("two.html"), "").unwrap();
        assert_eq!(dead(folder.path()).unwrap(), ["one.html: three.html"]);
    }
}
