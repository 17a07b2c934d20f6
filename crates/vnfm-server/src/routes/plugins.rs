//! Every MgmtDriver that hooks are found among: what it declares, or why it cannot be used.

use crate::problem::{Answer, Problem};
use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use vnfm_core::Refusal;
use vnfm_core::ports::{Declaration, PortError};
use vnfm_plugin_host::{Pin, PluginStatus};
use vnfm_types::ProblemDetails;

/// One of them.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Shown {
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

pub(super) async fn list(State(app): State<App>) -> Answer<Json<Vec<Shown>>> {
    let looking = tokio::task::spawn_blocking(move || look(&app));
    let shown = looking.await.map_err(|error| Problem::bug(&error))?;
    let unreadable = |error: PortError| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.code().name, error.to_string())
    };
    Ok(Json(shown.map_err(unreadable)?))
}

/// Reads libraries, which takes its time.
fn look(app: &App) -> Result<Vec<Shown>, PortError> {
    let pinned = match &app.plugins {
        Some(plugins) => plugins.status()?,
        None => Vec::new(),
    };
    let is_pinned = |driver: &Declaration| {
        pinned.iter().any(|s| (&s.pin.name, &s.pin.version) == (&driver.name, &driver.version))
    };
    let linked = app.engine.mgmt_drivers().list().into_iter().filter(|driver| !is_pinned(driver));
    let mut shown: Vec<_> =
        linked.map(|declaration| Shown::Linked { declaration, usable: true }).collect();
    shown.extend(pinned.into_iter().map(of_pinned));
    Ok(shown)
}

fn of_pinned(PluginStatus { pin, outcome, .. }: PluginStatus) -> Shown {
    match outcome {
        Ok(declaration) => {
            Shown::Usable { declaration, file: pin.file, sha256: pin.sha256, usable: true }
        }
        Err(error) => {
            let problem = Problem::from(Refusal::unprocessable(error));
            Shown::Unusable { pin, usable: false, problem: Box::new(problem.details().clone()) }
        }
    }
}
