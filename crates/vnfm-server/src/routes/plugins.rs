//! Every MgmtDriver that hooks are found among: what it declares, or why it cannot be used.

use crate::access::Principal;
use crate::problem::{Answer, Problem};
use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use vnfm_core::ports::{Declaration, DriverId, PortError};
use vnfm_core::{PluginUse, Refusal, ServedInstance};
use vnfm_plugin_host::{Pin, PluginStatus};
use vnfm_types::ProblemDetails;

/// One of them, with the packages whose hooks it serves.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed {
    #[serde(flatten)]
    shown: Shown,
    used_by: Vec<PluginUse>,
    /// Of the tenant, instantiated by it: they stay on it.
    instances: Vec<ServedInstance>,
}

/// What it is.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    /// Linked into the program.
    Linked {
        #[serde(flatten)]
        declaration: Declaration,
        usable: bool,
    },
    /// A library that is pinned and can be used.
    Usable {
        #[serde(flatten)]
        declaration: Declaration,
        file: String,
        sha256: String,
        usable: bool,
    },
    /// A library that is pinned and cannot be used.
    Unusable {
        #[serde(flatten)]
        pin: Pin,
        usable: bool,
        problem: Box<ProblemDetails>,
    },
}

pub(super) async fn list(State(app): State<App>, who: Principal) -> Answer<Json<Vec<Listed>>> {
    let mut uses = app.engine.plugin_uses(&who.tenant, &who.only).await?;
    let served = app.engine.plugin_instances(&who.tenant, &who.only).await?;
    let looking = tokio::task::spawn_blocking(move || look(&app));
    let shown = looking.await.map_err(|error| Problem::bug(&error))?;
    let unreadable = |error: PortError| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error.code().name,
            error.to_string(),
        )
    };
    let listed = shown.map_err(unreadable)?.into_iter().map(|shown| {
        let (used_by, others) = uses.drain(..).partition(|used| shown.is(&used.driver));
        uses = others;
        let instances = served.get(&shown.versioned()).cloned().unwrap_or_default();
        Listed {
            shown,
            used_by,
            instances,
        }
    });
    Ok(Json(listed.collect()))
}

impl Shown {
    fn versioned(&self) -> String {
        let (name, version) = match self {
            Self::Linked { declaration, .. } | Self::Usable { declaration, .. } => {
                (&declaration.name, &declaration.version)
            }
            Self::Unusable { pin, .. } => (&pin.name, &pin.version),
        };
        format!("{name}@{version}")
    }

    fn is(&self, driver: &DriverId) -> bool {
        let (name, version, sha256) = match self {
            Self::Linked { declaration, .. } => (&declaration.name, &declaration.version, None),
            Self::Usable {
                declaration,
                sha256,
                ..
            } => (&declaration.name, &declaration.version, Some(sha256)),
            Self::Unusable { pin, .. } => (&pin.name, &pin.version, Some(&pin.sha256)),
        };
        (name, version, sha256) == (&driver.name, &driver.version, driver.sha256.as_ref())
    }
}

/// Reads libraries, which takes its time.
fn look(app: &App) -> Result<Vec<Shown>, PortError> {
    let pinned = match &app.plugins {
        Some(plugins) => plugins.status()?,
        None => Vec::new(),
    };
    let is_pinned = |driver: &Declaration| {
        pinned
            .iter()
            .any(|s| (&s.pin.name, &s.pin.version) == (&driver.name, &driver.version))
    };
    let linked = app
        .engine
        .mgmt_drivers()
        .list()
        .into_iter()
        .filter(|driver| !is_pinned(driver));
    let mut shown: Vec<_> = linked
        .map(|declaration| Shown::Linked {
            declaration,
            usable: true,
        })
        .collect();
    shown.extend(pinned.into_iter().map(of_pinned));
    Ok(shown)
}

fn of_pinned(PluginStatus { pin, outcome, .. }: PluginStatus) -> Shown {
    match outcome {
        Ok(declaration) => Shown::Usable {
            declaration,
            file: pin.file,
            sha256: pin.sha256,
            usable: true,
        },
        Err(error) => {
            let problem = Problem::from(Refusal::unprocessable(error));
            Shown::Unusable {
                pin,
                usable: false,
                problem: Box::new(problem.details().clone()),
            }
        }
    }
}
