//! Lint of VNF packages: everything that can be checked without a server, including warnings.
//!
//! ```text
//! package      errors and warnings of onboarding                         package.rs
//! tosca        names, references, occurrences, scaling, wiring, images   tosca/
//! files        TOSCA.meta, manifest, unnamed and leftover files          files.rs
//! secrets      keys, kubeconfigs, passwords, tokens                      secrets.rs
//! heat         Base HOT and the templates nested in it                   heat.rs
//! kubernetes   order file, manifests, kinds and fields                   kubernetes.rs, kinds.rs
//! deployable   flavours that nothing deploys                            deployable.rs
//! suppressions findings that comments allow, with a reason               suppressions.rs
//! consequences findings that follow from another one                     consequences.rs
//! ```
//! Only the first row has errors: lint reports an error exactly if onboarding refuses the package.
//! [`explain()`] describes a code. A new code is its rule and its file `explain/CODE.md`.

mod consequences;
mod deployable;
mod explain;
mod files;
mod heat;
mod kinds;
mod kubernetes;
mod package;
mod report;
mod scalars;
mod secrets;
mod single_file;
mod source;
mod suppressions;
mod tosca;

pub use explain::{EXPLANATIONS, Explanation, codes, explain};
pub use report::{Allowed, Report};

use std::path::Path;
use vnfm_descriptor::Limits;
use vnfm_descriptor::raw::has_extension;

/// Lints a folder, a `.csar` or `.zip` file, or a single YAML file.
pub fn lint(path: &Path, limits: &Limits) -> Report {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if path.is_file() && has_extension(name, &["yaml", "yml"]) {
        return single_file::lint(path, limits);
    }
    package::lint(path, limits)
}
