//! `vnfmctl profile …`: servers by name, with their logins.

use crate::args::{NewProfile, ProfileCommand};
use crate::client::{Outcome, local};
use crate::output::Output;
use crate::profile::{self, Profile, Profiles};
use serde_json::{Value, json};

pub(super) fn run(output: Output, command: ProfileCommand) -> Outcome<()> {
    let file = profile::file().ok_or_else(|| {
        local("neither XDG_CONFIG_HOME nor HOME is set; VNFM_PROFILES names the file of profiles")
    })?;
    let mut all = Profiles::read(&file)?;
    let (sentence, name) = match command {
        ProfileCommand::List => return list(output, &all),
        ProfileCommand::Set(new) => {
            let name = new.name.clone();
            all.profiles.insert(name.clone(), made(new)?);
            all.current.get_or_insert_with(|| name.clone());
            (format!("set profile {name} in `{}`", file.display()), name)
        }
        ProfileCommand::Use { name } => {
            all.chosen(Some(&name))?;
            all.current = Some(name.clone());
            (format!("profile {name} is used from now on"), name)
        }
        ProfileCommand::Delete { name } => {
            all.chosen(Some(&name))?;
            all.profiles.remove(&name);
            all.current = all.current.filter(|current| *current != name);
            (format!("deleted profile {name}"), name)
        }
    };
    all.write(&file)?;
    output.done(
        &sentence,
        &json!({"name": name, "file": file.display().to_string()}),
    )
}

/// The login's secret is read from standard input, where no list of processes shows it.
fn made(new: NewProfile) -> Outcome<Profile> {
    let NewProfile {
        server,
        ca,
        user,
        token,
        ..
    } = new;
    let profile = Profile {
        server,
        ca,
        ..Profile::default()
    };
    Ok(match user {
        Some(user) => Profile {
            user: Some(user),
            password: Some(super::secret()?),
            ..profile
        },
        None if token => Profile {
            token: Some(super::secret()?),
            ..profile
        },
        None => profile,
    })
}

/// Without secrets.
fn list(output: Output, all: &Profiles) -> Outcome<()> {
    let shown = all.profiles.iter().map(|(name, profile)| {
        let login = match (&profile.user, &profile.token) {
            (Some(user), _) => format!("user {user}"),
            (None, Some(_)) => "token".to_owned(),
            (None, None) => String::new(),
        };
        let is_current = all.current.as_deref() == Some(name);
        json!({"name": name, "server": profile.server, "login": login, "current": if is_current { "yes" } else { "" }})
    });
    let columns = [
        ("name", "/name"),
        ("server", "/server"),
        ("login", "/login"),
        ("current", "/current"),
    ];
    output.list(&shown.collect::<Vec<Value>>(), &columns)
}
