//! All `MgmtDriver`s that can serve hooks, with their declaration, or the reason why one cannot be used.

use crate::access::Principal;
use crate::problem::{HandlerResult, Problem};
use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use vnfm_core::ports::{Declaration, DriverId, PortError};
use vnfm_core::{PluginUse, Refusal, ServedInstance};
use vnfm_plugin_host::{Pin, PluginStatus};
use vnfm_types::ProblemDetails;

/// A driver, with the packages whose hooks it serves.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedDriver {
    #[serde(flatten)]
    driver: Driver,
    used_by: Vec<PluginUse>,
    /// Instances of the tenant that were instantiated with this version and stay on it.
    instances: Vec<ServedInstance>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Driver {
    /// The driver is linked into the program.
    Linked {
        #[serde(flatten)]
        declaration: Declaration,
        usable: bool,
    },
    /// A pinned library that can be used.
    Usable {
        #[serde(flatten)]
        declaration: Declaration,
        file: String,
        sha256: String,
        usable: bool,
    },
    /// A pinned library that cannot be used.
    Unusable {
        #[serde(flatten)]
        pin: Pin,
        usable: bool,
        problem: Box<ProblemDetails>,
    },
}

pub(super) async fn list(
    State(app): State<App>,
    principal: Principal,
) -> HandlerResult<Json<Vec<ListedDriver>>> {
    let mut uses = app
        .engine
        .plugin_uses(&principal.tenant, &principal.scope)
        .await?;
    let served = app
        .engine
        .plugin_instances(&principal.tenant, &principal.scope)
        .await?;
    let listing = tokio::task::spawn_blocking(move || drivers(&app));
    let drivers = listing.await.map_err(|error| Problem::bug(&error))?;
    let unreadable = |error: PortError| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error.code().name,
            error.to_string(),
        )
    };
    let listed = drivers.map_err(unreadable)?.into_iter().map(|driver| {
        let (used_by, others) = uses.drain(..).partition(|used| driver.is(&used.driver));
        uses = others;
        let instances = served.get(&driver.versioned()).cloned().unwrap_or_default();
        ListedDriver {
            driver,
            used_by,
            instances,
        }
    });
    Ok(Json(listed.collect()))
}

impl Driver {
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

/// Reads the plugin libraries, so it blocks.
fn drivers(app: &App) -> Result<Vec<Driver>, PortError> {
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
    let mut drivers: Vec<_> = linked
        .map(|declaration| Driver::Linked {
            declaration,
            usable: true,
        })
        .collect();
    drivers.extend(pinned.into_iter().map(pinned_driver));
    Ok(drivers)
}

fn pinned_driver(PluginStatus { pin, outcome, .. }: PluginStatus) -> Driver {
    match outcome {
        Ok(declaration) => Driver::Usable {
            declaration,
            file: pin.file,
            sha256: pin.sha256,
            usable: true,
        },
        Err(error) => {
            let problem = Problem::from(Refusal::unprocessable(error));
            Driver::Unusable {
                pin,
                usable: false,
                problem: Box::new(problem.details().clone()),
            }
        }
    }
}
