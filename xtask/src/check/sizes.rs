//! Limits the length of files: 500 lines of code, 800 including the tests at the end.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::paths;

/// Maximum lines before the tests.
const MAX_CODE_LINES: usize = 500;
/// Maximum number of lines of a file, including its tests.
const MAX_LINES: usize = 800;
/// Number of the largest files that are listed.
const SHOWN: usize = 10;
/// Folders without our own code.
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

struct Size {
    file: PathBuf,
    code: usize,
    all: usize,
}

/// Fails if a file is too long, and lists the largest.
///
/// # Errors
/// If a file is too long.
pub(crate) fn check() -> Result<()> {
    let root = paths::root();
    let mut sizes = Vec::new();
    measure(&root, &mut sizes)?;
    sizes.sort_by_key(|size| std::cmp::Reverse(size.code));
    let (code, all) = sizes
        .iter()
        .fold((0, 0), |sum, size| (sum.0 + size.code, sum.1 + size.all));
    println!(
        "{} Rust files, {code} lines, and {} of tests; the largest:",
        sizes.len(),
        all - code
    );
    for size in sizes.iter().take(SHOWN) {
        println!(
            "  {:>4} {:>4}  {}",
            size.code,
            size.all,
            short(&size.file, &root)
        );
    }
    let long: Vec<_> = sizes
        .iter()
        .filter(|size| size.code > MAX_CODE_LINES || size.all > MAX_LINES)
        .collect();
    let names: Vec<_> = long.iter().map(|size| short(&size.file, &root)).collect();
    ensure!(
        long.is_empty(),
        "longer than {MAX_CODE_LINES} lines, or {MAX_LINES} with tests: {}",
        names.join(", ")
    );
    Ok(())
}

fn short(file: &Path, root: &Path) -> String {
    file.strip_prefix(root)
        .unwrap_or(file)
        .display()
        .to_string()
}

fn measure(folder: &Path, sizes: &mut Vec<Size>) -> Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot list `{}`", folder.display()))?
            .path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_symlink() || SKIPPED.contains(&name.as_str()) || name.starts_with("target-") {
            continue;
        }
        if path.is_dir() {
            measure(&path, sizes)?;
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read `{}`", path.display()))?;
            sizes.push(size(path, &text));
        }
    }
    Ok(())
}

/// A file below a folder `tests`, or named so, is a test as a whole.
fn size(file: PathBuf, text: &str) -> Size {
    let all = text.lines().count();
    let is_test =
        file.components().any(|part| part.as_os_str() == "tests") || file.ends_with("tests.rs");
    let code = if is_test {
        0
    } else {
        text.lines()
            .take_while(|line| !line.starts_with("#[cfg(test)]"))
            .count()
    };
    Size { file, code, all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_at_the_end_are_counted_apart() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {}\n";
        let found = size("src/a.rs".into(), text);
        assert_eq!((found.code, found.all), (2, 4));
        assert_eq!(size("tests/it/a.rs".into(), text).code, 0);
    }
}
