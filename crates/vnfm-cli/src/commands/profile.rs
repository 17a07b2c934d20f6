//! `vnfmctl profile …`: saved servers and logins.

use crate::args::{NewProfile, ProfileCommand};
use crate::client::{Outcome, local};
use crate::output::Output;
use crate::profile::{self, Profile, Profiles};
use serde_json::{Value, json};

pub(super) fn run(output: Output, command: ProfileCommand) -> Outcome<()> {
    let file = profile::file().ok_or_else(|| {
        local("neither XDG_CONFIG_HOME nor HOME is set; set VNFM_PROFILES to the profiles file")
    })?;
    let mut all = Profiles::read(&file)?;
    let (sentence, name) = match command {
        ProfileCommand::List => return list(output, &all),
        ProfileCommand::Set(new) => {
            let name = new.name.clone();
            all.profiles.insert(name.clone(), read_profile(new)?);
            all.current.get_or_insert_with(|| name.clone());
            (
                format!("saved profile `{name}` to `{}`", file.display()),
                name,
            )
        }
        ProfileCommand::Use { name } => {
            all.select(Some(&name))?;
            all.current = Some(name.clone());
            (format!("profile `{name}` is now the current one"), name)
        }
        ProfileCommand::Delete { name } => {
            all.select(Some(&name))?;
            all.profiles.remove(&name);
            all.current = all.current.filter(|current| *current != name);
            (format!("deleted profile `{name}`"), name)
        }
    };
    all.write(&file)?;
    output.done(
        &sentence,
        &json!({"name": name, "file": file.display().to_string()}),
    )
}

/// Builds a profile; its secret is read from standard input, so that it does not appear in the process list.
fn read_profile(new: NewProfile) -> Outcome<Profile> {
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
            password: Some(super::secret_input::read_secret()?),
            ..profile
        },
        None if token => Profile {
            token: Some(super::secret_input::read_secret()?),
            ..profile
        },
        None => profile,
    })
}

fn list(output: Output, all: &Profiles) -> Outcome<()> {
    let rows = all.profiles.iter().map(|(name, profile)| {
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
    output.list(&rows.collect::<Vec<Value>>(), &columns)
}
