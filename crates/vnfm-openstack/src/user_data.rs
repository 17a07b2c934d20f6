//! The user data of Tacker's clients: `additionalParams` names a Python file of the package and a class in it that computes
//! the template's parameters. Python of a package is never run.
//!
//! | class | instead |
//! |---|---|
//! | `DefaultUserData`, `StandardUserData` (Tacker's own) | the layout `nfv`, which this driver fills itself |
//! | another | the package's mapping fills what the class would compute; what it lacks is refused by name |

use crate::blueprint::Blueprint;
use std::ffi::OsStr;
use std::path::Path;
use vnfm_core::Deployment;

/// The member of `additionalParams` with the name of the class.
pub(crate) const CLASS: &str = "lcm-operation-user-data-class";
/// Tacker's class that uses the template as it is.
pub(crate) const DEFAULT: &str = "DefaultUserData";
/// Tacker's class that makes a resource for each VNFC.
pub(crate) const STANDARD: &str = "StandardUserData";

/// The class that the request names.
pub(crate) fn class(deployment: &Deployment) -> Option<&str> {
    deployment.additional_params.get(CLASS)?.as_str()
}

/// The class or file of the package's own that computes parameters, for an error or a log line.
pub(crate) fn own(blueprint: &Blueprint<'_>) -> Option<String> {
    match class(blueprint.deployment) {
        Some(DEFAULT | STANDARD) => None,
        Some(class) => Some(format!("class `{class}`")),
        None => {
            let mut paths = blueprint.package.paths().map(Path::new);
            let python = OsStr::new("py");
            let path = paths
                .find(|path| path.starts_with("UserData") && path.extension() == Some(python))?;
            Some(format!("`{}`", path.display()))
        }
    }
}
