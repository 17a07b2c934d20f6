//! `vnfm-server check-config`: every mistake of a configuration at once, and whether what it names can be used. It
//! changes nothing and calls nobody.

use super::source::{Mistake, Source, Variables};
use super::{Config, Flags, schema};
use crate::access::Access;
use crate::listener::Descriptors;
use crate::{kept, nfvo};
use anyhow::Context as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use std::time::Duration;
use vnfm::SystemClock;
use vnfm_core::ports::Clock;
use vnfm_descriptor::nearest;
use vnfm_nfvo::{Callbacks, Networks};

/// What was found.
#[derive(Debug, Default)]
pub struct Checked {
    /// What keeps the server from starting, or from what it is configured to do.
    pub mistakes: Vec<Mistake>,
    /// What looks like a slip, and VIMs at addresses that are allowed to no new one.
    pub notes: Vec<String>,
    /// How many connections there may be, with the descriptors that this process has.
    pub connections: Option<Descriptors>,
}

/// Looks at the configuration that `flags` and `variables` lead to.
///
/// # Errors
///
/// Where the file cannot be read.
pub fn check(flags: Flags, variables: &Variables) -> anyhow::Result<Checked> {
    let mut source = Source::read(flags.config.as_deref(), variables)?;
    let mut notes = slips(variables);
    let mut connections = None;
    if let Some(written) = source.written()? {
        match Config::together(flags, written) {
            Ok(config) => {
                let limits = &config.limits;
                let wanted = (limits.connections, limits.connections_per_address);
                connections = Some(Descriptors::now(wanted));
                look_into(&config, &mut source);
                notes.extend(kept::in_data_of(&config));
            }
            Err(error) => source.add("/token_file", format!("{error:#}")),
        }
    }
    source.mistakes.sort();
    Ok(Checked {
        mistakes: source.mistakes,
        notes,
        connections,
    })
}

/// What is wrong with a text, files apart: for examples, whose files are nowhere.
pub fn example_mistakes(text: &str) -> Vec<String> {
    let mut source = Source::of(text, "example", &Variables::new());
    let written = source
        .written()
        .map(drop)
        .map_err(|error| error.to_string());
    let found = source.mistakes.iter().map(ToString::to_string);
    let wrong = found.filter(|mistake| !mistake.contains("cannot read `"));
    wrong.chain(written.err()).collect()
}

/// What no schema can tell: whether things fit together, and whether the files hold what they should.
fn look_into(config: &Config, source: &mut Source) {
    let mut note = |pointer: &str, outcome: anyhow::Result<()>| {
        if let Err(error) = outcome {
            source.add(pointer, format!("{error:#}"));
        }
    };
    note("/listen", config.guarded());
    note("/monitoring/listen", config.guarded_monitoring());
    if config.data.exists() && !config.data.is_dir() {
        note(
            "/data",
            Err(anyhow::anyhow!("`{}` is no folder", config.data.display())),
        );
    }
    if let Some(tls) = &config.tls {
        note("/tls", certificate(tls));
    }
    if let Some(nfvo) = &config.nfvo {
        let connected = nfvo.connect("https://vnfm.example.com", Arc::new(SystemClock));
        note("/nfvo", connected.map(drop));
    }
    if let Some(settings) = config.access.clone() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        note(
            "/access",
            Access::new(settings, config.token.clone(), &clock).map(drop),
        );
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    note("/secrets/barbican", config.secrets.sealer(&clock).map(drop));
    note("/notifications", callbacks(config));
}

fn callbacks(config: &Config) -> anyhow::Result<()> {
    let told = &config.notifications;
    let tls = nfvo::tls(told.authorities_file.as_deref(), told.certificate.as_ref())?;
    let made = Callbacks::new(
        Networks::default(),
        Duration::from_secs(1),
        &tls,
        Arc::new(SystemClock),
    );
    made.map(drop).map_err(|error| anyhow::anyhow!("{error}"))
}

/// A certificate and its key, as the server would take them.
fn certificate(tls: &super::Tls) -> anyhow::Result<()> {
    let (cert, key) = (tls.cert.display(), tls.key.display());
    let chain: Vec<_> = CertificateDer::pem_file_iter(&tls.cert)
        .and_then(Iterator::collect)
        .with_context(|| format!("`{cert}` is no PEM certificate"))?;
    let secret = PrivateKeyDer::from_pem_file(&tls.key)
        .with_context(|| format!("`{key}` holds no PEM private key"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, secret);
    server
        .map(drop)
        .with_context(|| format!("`{cert}` and `{key}` do not go together"))
}

/// Variables that nobody reads and that look like one that somebody does.
fn slips(variables: &Variables) -> Vec<String> {
    let members = schema::members();
    let known: Vec<_> = members
        .iter()
        .map(|member| member.variable.as_str())
        .chain(OTHERS.iter().copied())
        .collect();
    let unknown = variables
        .keys()
        .filter(|name| !known.contains(&name.as_str()));
    let told = unknown.filter_map(|name| {
        let near = nearest(name, known.iter().copied())?;
        // Names of one beginning: another one may well be somebody else's.
        let same = name
            .bytes()
            .zip(near.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        let near = (same > "VNFM_".len()).then_some(near)?;
        Some(format!(
            "`{name}` is set and nothing reads it; did you mean `{near}`?"
        ))
    });
    told.collect()
}

/// Variables beside those of members: flags of the server, and what `vnfmctl` reads.
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
