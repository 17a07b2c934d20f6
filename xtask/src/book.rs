//! `cargo xtask book`: the documentation as a book with search, in `target/book`.
//!
//! ```text
//! docs/*.md ─ copied, links to files outside docs/ lead to copies in repository/ ─ mdbook ─ check of every link
//! ```
//! mdBook is installed once, into the cache. Pages outside `docs/` that others link to, such as the READMEs of the
//! samples, become chapters at the end.

mod links;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools::Tool;
use crate::{paths, process};

/// Pinned, since other versions may render differently.
const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    install: &["--no-default-features", "--features", "search"],
};
/// The page that becomes the first chapter.
const FRONT: &str = "README.md";
/// Folder of the book for what is not in `docs/`.
const REPOSITORY: &str = "repository";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the book; its previous contents are deleted.
    #[arg(default_value = "target/book")]
    folder: PathBuf,
}

/// Builds the book and prints the path of its first page.
///
/// # Errors
/// If mdBook cannot be installed, a page cannot be read, or a link in the book leads nowhere.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let book = std::path::absolute(&arguments.folder)?;
    let mdbook = MDBOOK.provide()?;
    let source = paths::target()?.join("book-source");
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    stage(&paths::root(), &source)?;
    let mut build = Command::new(mdbook);
    build.arg("build").arg(&source).arg("--dest-dir").arg(&book);
    ensure!(
        process::foreground(&mut build)?,
        "mdbook failed; its output is above"
    );
    let dead = links::dead(&book)?;
    ensure!(
        dead.is_empty(),
        "links of the book that lead nowhere:\n{}",
        dead.join("\n")
    );
    println!("{}", book.join("index.html").display());
    Ok(())
}

/// Writes the source of the book into `to`.
///
/// # Errors
/// If a file cannot be read or written.
fn stage(root: &Path, to: &Path) -> Result<()> {
    let mut pages = pages(&root.join("docs"))?;
    for page in &mut pages {
        *page = Path::new("docs").join(&*page);
    }
    pages.push(FRONT.into());
    let (mut seen, mut extra) = (
        pages.iter().cloned().collect::<BTreeSet<_>>(),
        BTreeMap::new(),
    );
    while let Some(page) = pages.pop() {
        let text = read(root, &page)?;
        let book_page = in_book(&page);
        if book_page.starts_with(REPOSITORY) && page != Path::new(FRONT) {
            extra.insert(book_page.clone(), title(&text, &page));
        }
        let text = links::rewritten(&text, |target| {
            let target = links::resolved(&page, target);
            let target = if root.join(&target).is_dir() {
                target.join("README.md")
            } else {
                target
            };
            if seen.insert(target.clone()) {
                pages.push(target.clone());
            }
            links::relative(&book_page, &in_book(&target))
        });
        write(&to.join(&book_page), text)?;
        copy_others(root, &mut pages, to)?;
    }
    let summary = fs::read_to_string(root.join("docs/SUMMARY.md"))?;
    write(&to.join("SUMMARY.md"), with_extra(&summary, &extra))?;
    fs::copy(root.join("docs/book.toml"), to.join("book.toml"))?;
    Ok(())
}

/// Copies the files that are not pages.
fn copy_others(root: &Path, pages: &mut Vec<PathBuf>, to: &Path) -> Result<()> {
    let is_page = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "md");
    for other in pages.extract_if(.., |path| !is_page(path)) {
        let content = fs::read(root.join(&other))
            .with_context(|| format!("cannot read `{}`", other.display()))?;
        write(&to.join(in_book(&other)), content)?;
    }
    Ok(())
}

/// A page; for the README that a folder does not have, the list of its files.
fn read(root: &Path, page: &Path) -> Result<String> {
    let path = root.join(page);
    let folder = path.parent().unwrap_or(root);
    if path.exists() || !path.ends_with("README.md") || !folder.is_dir() {
        return fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", page.display()));
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.push(format!(
            "- `{}{slash}`",
            entry.file_name().to_string_lossy()
        ));
    }
    names.sort();
    let name = page.parent().unwrap_or(page).display();
    Ok(format!("# {name}\n\n{}\n", names.join("\n")))
}

/// The table of contents, with the front page and the pages outside `docs/`.
fn with_extra(summary: &str, extra: &BTreeMap<PathBuf, String>) -> String {
    let front = format!("# Summary\n\n[vnfm]({REPOSITORY}/index.md)\n");
    let summary = summary.replace("README.md)", "index.md)");
    let mut text = summary.replacen("# Summary\n", &front, 1);
    text.push_str("\n# In the repository\n");
    for (page, title) in extra {
        let _ = writeln!(text, "- [{title}]({})", page.display());
    }
    text
}

fn title(text: &str, page: &Path) -> String {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    let title = heading.map_or_else(|| page.display().to_string(), ToOwned::to_owned);
    title.replace(['[', ']'], "")
}

/// Where a file of the repository is in the book; mdBook shows a README as `index.html`.
fn in_book(path: &Path) -> PathBuf {
    let path = path
        .strip_prefix("docs")
        .map_or_else(|_| Path::new(REPOSITORY).join(path), Path::to_path_buf);
    if path.ends_with("README.md") {
        path.with_file_name("index.md")
    } else {
        path
    }
}

/// The Markdown files in a folder and below, except the table of contents.
fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut pages, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md")
                && !path.ends_with("SUMMARY.md")
            {
                pages.push(path.strip_prefix(folder)?.to_owned());
            }
        }
    }
    Ok(pages)
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content).with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::stage;
    use crate::paths;

    #[test]
    fn the_source_of_the_book_has_every_page_and_every_linked_file() {
        let folder = tempfile::tempdir().unwrap();
        stage(&paths::root(), folder.path()).unwrap();
        let summary = std::fs::read_to_string(folder.path().join("SUMMARY.md")).unwrap();
        let listed: Vec<_> = summary
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .collect();
        assert!(listed.len() > 40, "{summary}");
        for page in listed {
            let text = std::fs::read_to_string(folder.path().join(page))
                .unwrap_or_else(|e| panic!("{page}: {e}"));
            super::links::rewritten(&text, |target| {
                let target = super::links::resolved(page.as_ref(), target);
                assert!(
                    folder.path().join(&target).exists(),
                    "{page} links to {}",
                    target.display()
                );
                String::new()
            });
        }
    }
}
