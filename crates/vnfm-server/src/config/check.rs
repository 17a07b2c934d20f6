//! `vnfm-server check-config`: reports all mistakes of a configuration at once, and whether the files that it names
//! are usable. Changes nothing and makes no network calls.

use super::source::{Mistake, Source, Variables};
use super::{Config, Flags, read_token, schema};
use crate::access::users::Users;
use crate::access::{Access, Settings};
use crate::listener::Descriptors;
use crate::{legacy_vims, nfvo};
use std::sync::Arc;
use std::time::Duration;
use vnfm::SystemClock;
use vnfm_core::ports::Clock;
use vnfm_descriptor::nearest;
use vnfm_nfvo::{Callbacks, Networks};

/// The result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// Mistakes that prevent the server from starting or from working as configured.
    pub mistakes: Vec<Mistake>,
    /// Probable typos, and VIMs at addresses that new VIMs may not use.
    pub notes: Vec<String>,
    /// The connections that the file descriptors of this process allow.
    pub connections: Option<Descriptors>,
}

/// Checks the configuration that results from `flags` and `variables`.
///
/// # Errors
///
/// If the file cannot be read.
pub fn check(flags: Flags, variables: &Variables) -> anyhow::Result<Checked> {
    let mut source = Source::read(flags.config.as_deref(), variables)?;
    let mut notes = misspelt_variables(variables);
    let mut connections = None;
    let parsed = match source.parse()? {
        Some(file) => Some((file, Vec::new())),
        None => source.parse_rest()?,
    };
    if let Some((mut file, mut removed)) = parsed {
        let mut flags = flags;
        let token_file = flags.token_file.as_deref().or(file.token_file.as_deref());
        if let Err(error) = token_file.map_or(Ok(()), |path| read_token(path).map(drop)) {
            source.add("/token_file", format!("{error:#}"));
            (flags.token_file, file.token_file) = (None, None);
            removed.push("/token_file".to_owned());
        }
        match Config::combine(flags, file) {
            Ok(config) => {
                let limits = &config.limits;
                let configured = (limits.connections, limits.connections_per_address);
                connections = Some(Descriptors::now(configured));
                check_settings(&config, &removed, &mut source);
                notes.extend(legacy_vims::in_database(&config));
            }
            Err(error) => source.add("", format!("{error:#}")),
        }
    }
    source.mistakes.sort();
    Ok(Checked {
        mistakes: source.mistakes,
        notes,
        connections,
    })
}

/// Mistakes in an example text. Unreadable files do not count: those of examples do not exist.
pub fn example_mistakes(text: &str) -> Vec<String> {
    let mut source = Source::from_text(text, "example", &Variables::new());
    let outcome = source.parse().map(drop).map_err(|error| error.to_string());
    let found = source.mistakes.iter().map(ToString::to_string);
    let mistakes = found.filter(|mistake| !mistake.contains("cannot read `"));
    mistakes.chain(outcome.err()).collect()
}

/// The members that decide whether the server would be open to others.
const EXPOSURE: &[&str] = &["/listen", "/tls", "/token_file", "/access", "/monitoring"];

/// Checks what a schema cannot: whether settings are consistent, and whether files have the expected content. Members at
/// the pointers `removed` have mistakes of their own and are not in `config`.
fn check_settings(config: &Config, removed: &[String], source: &mut Source) {
    let mut report = |pointer: &str, outcome: anyhow::Result<()>| {
        if let Err(error) = outcome {
            source.add(pointer, format!("{error:#}"));
        }
    };
    let is_exposure = |pointer: &String| EXPOSURE.iter().any(|one| pointer.starts_with(one));
    if !removed.iter().any(is_exposure) {
        report("/listen", config.check_exposure());
        report("/monitoring/listen", config.check_monitoring_exposure());
    }
    if config.data.exists() && !config.data.is_dir() {
        report(
            "/data",
            Err(anyhow::anyhow!(
                "`{}` is not a folder",
                config.data.display()
            )),
        );
    }
    if let Some(files) = config.tls_files() {
        report("/tls", files.read().map(drop));
    }
    if config.helm.sha256.is_some() && config.helm.binary.is_none() {
        let detail = anyhow::anyhow!("it pins a program that `helm.binary` does not name");
        report("/helm/sha256", Err(detail));
    }
    if let Some(nfvo) = &config.nfvo {
        let connected = nfvo.connect("https://vnfm.example.com", Arc::new(SystemClock));
        report("/nfvo", connected.map(drop));
    }
    if let Some(settings) = config.access.clone() {
        check_access(settings, config, &mut report);
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    report("/secrets/barbican", config.secrets.sealer(&clock).map(drop));
    report("/notifications", callbacks(config));
}

/// Checks each user on its own, then the rest of `access` if they are right.
fn check_access(
    settings: Settings,
    config: &Config,
    report: &mut impl FnMut(&str, anyhow::Result<()>),
) {
    let mut settings = settings;
    let wrong: Vec<_> = settings
        .users
        .iter()
        .map(|user| Users::new(std::slice::from_ref(user)).map(drop))
        .enumerate()
        .filter(|(_, outcome)| outcome.is_err())
        .collect();
    if !wrong.is_empty() {
        settings.users.clear();
    }
    for (number, outcome) in wrong {
        report(&format!("/access/users/{number}"), outcome);
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let access = Access::new(settings, config.token.clone(), &clock);
    report("/access", access.map(drop));
}

fn callbacks(config: &Config) -> anyhow::Result<()> {
    let settings = &config.notifications;
    let tls = nfvo::tls(
        settings.authorities_file.as_deref(),
        settings.certificate.as_ref(),
    )?;
    let callbacks = Callbacks::new(
        Networks::default(),
        Duration::from_secs(1),
        &tls,
        Arc::new(SystemClock),
    );
    callbacks
        .map(drop)
        .map_err(|error| anyhow::anyhow!("{error}"))
}

/// Unknown variables that look like a known one.
fn misspelt_variables(variables: &Variables) -> Vec<String> {
    let members = schema::members();
    let known: Vec<_> = members
        .iter()
        .map(|member| member.variable.as_str())
        .chain(OTHERS.iter().copied())
        .collect();
    let unknown = variables
        .keys()
        .filter(|name| !known.contains(&name.as_str()));
    let notes = unknown.filter_map(|name| {
        let near = nearest(name, known.iter().copied())?;
        // Requires a common beginning: another variable may belong to another program.
        let common = name
            .bytes()
            .zip(near.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let near = (common > "VNFM_".len()).then_some(near)?;
        Some(format!(
            "`{name}` is set but not used; did you mean `{near}`?"
        ))
    });
    notes.collect()
}

/// Other known variables: flags of the server, and those of `vnfmctl`.
const OTHERS: &[&str] = &[
    "VNFM_CONFIG",
    "VNFM_PLUGINS",
    "VNFM_LOG",
    "VNFM_SERVER",
    "VNFM_TOKEN",
    "VNFM_USER",
    "VNFM_PASSWORD",
    "VNFM_OUTPUT",
    "VNFM_CA",
];
