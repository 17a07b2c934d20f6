//! The files of the checkout, and which of their lines are code rather than tests.

use std::path::{Path, PathBuf};

/// The root of the checkout, from cargo at run time, else from build time.
#[must_use]
pub fn root() -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR");
    let folder = folder.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    folder.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Asserts that a generated page is current; with `VNFM_UPDATE_GENERATED` it is written first.
///
/// # Panics
/// If it is not current, or cannot be written.
#[expect(clippy::expect_used, reason = "tests fail by panicking")]
pub fn assert_page_current(path: &str, wanted: &str) {
    let file = root().join(path);
    if std::env::var_os("VNFM_UPDATE_GENERATED").is_some() {
        std::fs::write(&file, wanted).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == wanted,
        "{path} is not current: run this test with VNFM_UPDATE_GENERATED=1"
    );
}

/// A file of the checkout.
#[derive(Debug)]
pub struct Source {
    /// Path from the root, with `/`.
    pub path: String,
    /// Content of the file as text.
    pub text: String,
}

impl Source {
    /// Its lines of code with their numbers, without comments and the tests at the end.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
            .map(|(index, line)| (index + 1, line))
    }

    /// Whether the file is a test, benchmark or example, which may do what a user does.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches" | "examples"))
            || self.path.ends_with("/tests.rs")
    }
}

/// Every file with this ending below these folders, sorted.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(folders: &[&str], ending: &str) -> anyhow::Result<Vec<Source>> {
    let mut found = Vec::new();
    for folder in folders {
        collect(&root().join(folder), ending, &mut found)?;
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<Source>) -> anyhow::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_symlink() || name.starts_with("target") || name == ".git" {
            continue;
        }
        if path.is_dir() {
            collect(&path, ending, found)?;
        } else if name.ends_with(ending) {
            let short = path
                .strip_prefix(root())
                .unwrap_or(&path)
                .to_string_lossy()
                .into_owned();
            found.push(Source {
                path: short,
                text: std::fs::read_to_string(&path)?,
            });
        }
    }
    Ok(())
}

/// Copies a sample package below `folder`, under its own name.
///
/// # Panics
/// When it cannot be copied.
#[must_use]
pub fn copy(sample: &str, folder: &Path) -> PathBuf {
    let from = root().join("vnfd-samples").join(sample);
    let to = folder.join(sample);
    copy_all(&from, &to).unwrap_or_else(|why| panic!("cannot copy `{}`: {why}", from.display()));
    to
}

/// Copies the package of VNF-B below `folder`, with a disruption budget that keeps this many of its two pods available.
///
/// # Panics
/// When it cannot be written.
#[must_use]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
pub fn b_with_budget(folder: &Path, min_available: usize) -> String {
    let package = copy("vnf-b-cnf", folder);
    let append = |file: &str, text: &str| {
        let path = package.join(file);
        let old = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, old + text).unwrap();
    };
    let budget = format!(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: web-stays}}\n\
         spec: {{minAvailable: {min_available}, selector: {{matchLabels: {{app: web}}}}}}\n"
    );
    std::fs::write(package.join("Files/kubernetes/budget.yaml"), budget).unwrap();
    append(
        "Files/kubernetes/order.yaml",
        "  - {path: Files/kubernetes/budget.yaml, order: 1}\n",
    );
    append("vnf-b.mf", "Source: Files/kubernetes/budget.yaml\n");
    package.to_string_lossy().into_owned()
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
