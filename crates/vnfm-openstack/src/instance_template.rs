//! The template of an instance: generated from the VNFD, or the package's own.

use crate::blueprint::{Blueprint, PLANNING, request};
use crate::errors::UNEXPECTED;
use crate::heat::StackTemplate;
use crate::resolved::Resolved;
use crate::{base_hot, generated_template};
use tokio::task::spawn_blocking;
use vnfm_core::ports::{Allocation, PortError};

/// The template of an instance; refused if it exceeds the budget.
pub(crate) fn template(
    blueprint: &Blueprint<'_>,
    resolved: &Resolved,
) -> Result<StackTemplate, PortError> {
    let template = match blueprint.base_hot {
        Some(hot) => base_hot::template(blueprint, hot, resolved)?,
        None => generated_template::template(blueprint, resolved)?,
    };
    within_budget(blueprint, &template)?;
    Ok(template)
}

/// The template as far as it is known before the cloud is called.
pub(crate) fn expected(blueprint: &Blueprint<'_>) -> Result<StackTemplate, PortError> {
    match blueprint.base_hot {
        Some(_) => base_hot::expected(blueprint),
        None => generated_template::template(blueprint, &Resolved::default()),
    }
}

/// As [`template`], on a thread of its own: it only computes, and does not delay other tasks there.
pub(crate) async fn template_on_thread(
    blueprint: &Blueprint<'_>,
    allocation: &Allocation,
    resolved: &Resolved,
) -> Result<StackTemplate, PortError> {
    let (allocation, resolved) = (allocation.clone(), resolved.clone());
    let instance = blueprint.instance.to_owned();
    let planning =
        spawn_blocking(move || template(&Blueprint::read(&allocation, &instance)?, &resolved));
    planning
        .await
        .unwrap_or_else(|error| Err(PortError::new(&UNEXPECTED, PLANNING, error.to_string())))
}

/// Refuses a stack of more resources or bytes than the budget allows; counts the bytes without storing them.
fn within_budget(blueprint: &Blueprint<'_>, template: &StackTemplate) -> Result<(), PortError> {
    let resources = template.template["resources"]
        .as_object()
        .map_or(0, serde_json::Map::len);
    let mut bytes = ByteCounter(0);
    let values = (&template.parameters, &template.environment);
    let parts = (&template.template, &template.files, values);
    let counted = serde_json::to_writer(&mut bytes, &parts);
    counted.map_err(|error| request(error.to_string()))?;
    blueprint.budget.allows(PLANNING, resources as u64, bytes.0)
}

/// Counts the bytes written to it.
struct ByteCounter(u64);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
