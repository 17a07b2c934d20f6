//! Profiles: saved servers, each with its CA certificate and login, in a file that only its owner may read.
//!
//! ```yaml
//! current: lab
//! profiles:
//!   lab: {server: https://vnfm.lab:9890, ca: /etc/ssl/lab.pem, token: …}
//!   dc1: {server: https://vnfm.dc1:9890, user: anne, password: …}
//! ```
//! A flag overrides its environment variable, which overrides the profile. The profile is that of `--profile`, else of
//! `VNFM_PROFILE`, else the current one.

use crate::client::{Failure, Outcome, local};
use crate::input;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A server and the login for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// URL of the server, without a path.
    pub server: String,
    /// CA certificate of the server, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Bearer token to send, in clear text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// User for HTTP Basic, instead of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Password of `user`, in clear text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// The profiles file, readable only by its owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profiles {
    /// Name of the profile that is used by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The saved profiles by name.
    pub profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Reads the profiles; a missing file has none.
    ///
    /// # Errors
    ///
    /// If the file is unreadable, invalid, or readable by other users.
    pub fn read(file: &Path) -> Outcome<Self> {
        let failed = |cause: &dyn std::fmt::Display| {
            local(format!(
                "cannot read the profiles in `{}`: {cause}",
                file.display()
            ))
        };
        let text = match input::text(file) {
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
                message: format!(
                    "the logins in `{}` are readable by other users",
                    file.display()
                ),
                hint: format!("run `chmod 600 {}`", file.display()),
            });
        }
        serde_yaml::from_str(&text).map_err(|error| failed(&error))
    }

    /// Writes the profiles atomically, readable only by their owner.
    ///
    /// # Errors
    ///
    /// If the folder cannot be created or written.
    pub fn write(&self, file: &Path) -> Outcome<()> {
        let failed = |cause: &dyn std::fmt::Display| {
            local(format!(
                "cannot write the profiles to `{}`: {cause}",
                file.display()
            ))
        };
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        let text = serde_yaml::to_string(self).map_err(|error| failed(&error))?;
        // A temporary file is readable only by its owner.
        let mut part = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
        part.write_all(text.as_bytes())
            .map_err(|error| failed(&error))?;
        part.persist(file).map_err(|error| failed(&error.error))?;
        Ok(())
    }

    /// The profile with this name; without a name the current one, if any.
    ///
    /// # Errors
    ///
    /// If it does not exist; the message lists the existing ones.
    pub fn select(&self, name: Option<&str>) -> Outcome<Option<Profile>> {
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
                message: format!("no profile is named `{name}`; existing profiles: {known}"),
                hint: "create it with `vnfmctl profile set NAME --url URL`".to_owned(),
            }
        })
    }
}

/// Path of the profiles file: `VNFM_PROFILES`, else `vnfm/vnfmctl.yaml` in `XDG_CONFIG_HOME` or `~/.config`. `None` if
/// none of these variables is set.
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
    fn profiles_are_written_for_their_owner_only() {
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
        assert_eq!(all.select(None).unwrap(), Some(lab));
        let error = all.select(Some("dc1")).unwrap_err().to_string();
        assert!(error.contains("`dc1`; existing profiles: lab"), "{error}");
        assert_eq!(Profiles::default().select(None).unwrap(), None);
        let mode = |file: &std::path::Path| std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode(&file) & 0o777, 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Profiles::read(&file).unwrap_err();
        assert!(error.hint().unwrap().contains("chmod 600"), "{error}");
        std::fs::write(&file, "profils: {}").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let error = Profiles::read(&file).unwrap_err().to_string();
        assert!(error.contains("unknown field `profils`"), "{error}");
    }
}
