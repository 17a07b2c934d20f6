//! Profiles: servers by name, each with its certificate authority and its login, in a file that only its owner may read.
//!
//! ```yaml
//! current: lab
//! profiles:
//!   lab: {server: https://vnfm.lab:9890, ca: /etc/ssl/lab.pem, token: …}
//!   dc1: {server: https://vnfm.dc1:9890, user: anne, password: …}
//! ```
//! A flag stands over its variable, and that over the profile: `--profile`, else `VNFM_PROFILE`, else the current one.

use crate::client::{Failure, Outcome, local};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A server, and who we are there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Where it is.
    pub server: String,
    /// Its certificate authority, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// A bearer token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A user, in place of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// That one's password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profiles {
    /// The one that is used where none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// By name.
    pub profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Those of the file; none where there is no file.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, is of another form, or others may read it.
    pub fn read(file: &Path) -> Outcome<Self> {
        let failed = |why: &dyn std::fmt::Display| {
            local(format!(
                "cannot read the profiles in `{}`: {why}",
                file.display()
            ))
        };
        let text = match std::fs::read_to_string(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            text => text.map_err(|error| failed(&error))?,
        };
        let mode = std::fs::metadata(file)
            .map_err(|error| failed(&error))?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            return Err(Failure::Hinted {
                what: format!("others may read the logins in `{}`", file.display()),
                hint: format!("chmod 600 {}", file.display()),
            });
        }
        serde_yaml::from_str(&text).map_err(|error| failed(&error))
    }

    /// Writes them, whole or not at all, for their owner alone.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be made or written.
    pub fn write(&self, file: &Path) -> Outcome<()> {
        let failed = |why: &dyn std::fmt::Display| {
            local(format!(
                "cannot write the profiles to `{}`: {why}",
                file.display()
            ))
        };
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        let text = serde_yaml::to_string(self).map_err(|error| failed(&error))?;
        // It is made readable for its owner alone.
        let mut part = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
        part.write_all(text.as_bytes())
            .map_err(|error| failed(&error))?;
        part.persist(file).map_err(|error| failed(&error.error))?;
        Ok(())
    }

    /// The one of this name, else the current one, if there is any.
    ///
    /// # Errors
    ///
    /// Where there is none of that name; with those that there are.
    pub fn chosen(&self, name: Option<&str>) -> Outcome<Option<Profile>> {
        let Some(name) = name.or(self.current.as_deref()) else {
            return Ok(None);
        };
        let found = self.profiles.get(name).cloned();
        found.map(Some).ok_or_else(|| {
            let known: Vec<_> = self.profiles.keys().map(String::as_str).collect();
            let known = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            Failure::Hinted {
                what: format!("there is no profile `{name}`; there are: {known}"),
                hint: "`vnfmctl profile set NAME --url URL` makes one".to_owned(),
            }
        })
    }
}

/// Where they are: `VNFM_PROFILES`, else `vnfm/vnfmctl.yaml` in the folder for configurations; nowhere where neither
/// `XDG_CONFIG_HOME` nor `HOME` is set.
pub fn file() -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("VNFM_PROFILES").or_else(|| {
        let folder =
            set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
        folder.map(|folder| folder.join("vnfm/vnfmctl.yaml"))
    })
}

#[cfg(test)]
mod tests {
    use super::{Profile, Profiles};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_is_written_is_read_and_nobody_else_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("below/vnfmctl.yaml");
        assert_eq!(Profiles::read(&file).unwrap(), Profiles::default());
        let lab = Profile {
            server: "https://lab".into(),
            token: Some("t".into()),
            ..Profile::default()
        };
        let all = Profiles {
            current: Some("lab".into()),
            profiles: [("lab".into(), lab.clone())].into(),
        };
        all.write(&file).unwrap();
        assert_eq!(Profiles::read(&file).unwrap(), all);
        assert_eq!(all.chosen(None).unwrap(), Some(lab));
        let told = all.chosen(Some("dc1")).unwrap_err().to_string();
        assert!(told.contains("`dc1`; there are: lab"), "{told}");
        assert_eq!(Profiles::default().chosen(None).unwrap(), None);
        let mode = |file: &std::path::Path| std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode(&file) & 0o777, 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let told = Profiles::read(&file).unwrap_err();
        assert!(told.hint().unwrap().contains("chmod 600"), "{told}");
        std::fs::write(&file, "profils: {}").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let told = Profiles::read(&file).unwrap_err().to_string();
        assert!(told.contains("unknown field `profils`"), "{told}");
    }
}
