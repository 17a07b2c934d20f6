//! Errors of helm as errors of this driver. Values of the request and tokens are hidden in what helm wrote.

use crate::charts::ChartRelease;
use crate::client::Session;
use crate::errors::{CHART, HELM, HELM_LATE, UNREACHABLE};
use serde_json::Value;
use vnfm_core::Redactor;
use vnfm_core::ports::PortError;
use vnfm_helm::HelmError;

/// What helm writes if it cannot reach the API server.
const UNREACHABLE_MARKS: &[&str] = &[
    "cluster unreachable",
    "connection refused",
    "i/o timeout",
    "connection reset",
    "no route to host",
];

/// The error about a chart, without its values.
pub(crate) fn helm_error(
    session: &Session<'_>,
    chart: &ChartRelease,
    error: &HelmError,
) -> PortError {
    let mut values = Redactor::default();
    values.add(&serde_json::from_str(chart.values.reveal()).unwrap_or(Value::Null));
    convert(session, &chart.path, &values, error)
}

/// The error about a release whose values are not known.
pub(crate) fn port_error(session: &Session<'_>, release: &str, error: &HelmError) -> PortError {
    convert(session, release, &Redactor::default(), error)
}

fn convert(
    session: &Session<'_>,
    resource: &str,
    values: &Redactor,
    error: &HelmError,
) -> PortError {
    let detail = |text: &dyn std::fmt::Display| values.clean(&text.to_string());
    let converted = match error {
        HelmError::Failed { action, message } => {
            let is_unreachable = UNREACHABLE_MARKS.iter().any(|mark| message.contains(mark));
            let code = if is_unreachable { &UNREACHABLE } else { &CHART };
            let message = if session.shows_responses() {
                detail(message)
            } else {
                "helm failed; what it wrote is not shown".to_owned()
            };
            PortError::new(code, action.clone(), message)
        }
        HelmError::Refused { action, reason } => {
            PortError::new(&CHART, action.clone(), detail(reason))
        }
        HelmError::TooLarge { action, .. } => PortError::new(&CHART, action.clone(), detail(error)),
        HelmError::TooSlow { action, .. } => {
            PortError::new(&HELM_LATE, action.clone(), detail(error))
        }
        _ => {
            let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
            let text = format!("{error}{}", cause.unwrap_or_default());
            PortError::new(&HELM, "run helm", text)
        }
    };
    converted.on(resource)
}
