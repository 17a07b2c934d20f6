//! `vnfmctl package mapping PACKAGE`: what fills the parameters of a package's Heat templates, as a first version.

use crate::args::Format;
use crate::client::{Failure, Outcome, local};
use crate::output::{Output, print, tell};
use serde_json::json;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use vnfm_descriptor::{PARAMETERS_FILE, Package, draft_mapping};

pub(super) fn write(output: Output, package: &Package, out: Option<&Path>) -> Outcome<()> {
    let Some(mapping) = draft_mapping(package).map_err(local)? else {
        tell("every parameter of the package's Heat templates is filled; there is nothing to map");
        return Ok(());
    };
    if let Some(path) = out {
        create(path, &mapping)?;
        let sentence = format!(
            "wrote `{}`: check it, and put it into the package as `{PARAMETERS_FILE}`",
            path.display()
        );
        return output.done(&sentence, &json!({"path": path, "mapping": mapping}));
    }
    if output.0 != Format::Table {
        return output.value(&json!({"mapping": mapping}));
    }
    print(mapping.trim_end());
    Ok(())
}

/// Writes a new file; an existing one may be a mapping that someone has corrected.
fn create(path: &Path, text: &str) -> Outcome<()> {
    let file = File::create_new(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::Hinted {
            message: format!("cannot write `{}`: {error}", path.display()),
            hint: "name a new file with `--out`, or omit it to print the mapping".to_owned(),
        })
}
