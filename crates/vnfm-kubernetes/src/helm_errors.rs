//! Errors of helm as errors of this driver. Values of the request and tokens are hidden in what helm wrote.

use crate::charts::ChartRelease;
use crate::client::Session;
use crate::errors::{CHART, HELM, HELM_LATE, TEST_FAILED, UNREACHABLE};
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
    convert(session, &chart.path, &values_of(chart), error)
}

/// The error of the tests of a chart, with the last lines of their logs.
pub(crate) fn test_error(
    session: &Session<'_>,
    chart: &ChartRelease,
    error: &HelmError,
    logs: &str,
) -> PortError {
    let converted = helm_error(session, chart, error);
    if converted.code() != &CHART {
        return converted;
    }
    let action = format!("test release `{}`", chart.name);
    let failed = PortError::new(&TEST_FAILED, action, converted.detail()).on(&*chart.path);
    if logs.is_empty() || !session.shows_responses() {
        return failed;
    }
    failed.with_detail(&values_of(chart).clean(logs))
}

fn values_of(chart: &ChartRelease) -> Redactor {
    let mut values = Redactor::default();
    values.add(&serde_json::from_str(chart.values.reveal()).unwrap_or(Value::Null));
    values
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
