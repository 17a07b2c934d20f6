//! Parameters of a request, checked against the schemas of the VNFD and of the hooks before an operation begins.

use super::mgmt_driver::driver_of;
use crate::context::Context;
use crate::deployment::Deployment;
use crate::ports::{Code, ErrorKind, PortError};
use crate::redact::{Redactor, redact};
use crate::refusal::{self, Refusal, Why};
use serde_json::Value;
use vnfm_descriptor::Package;
use vnfm_types::KeyValuePairs;

/// Parameters of a request, to be checked against the hooks.
#[derive(Clone, Copy)]
pub(crate) struct ParameterCheck<'a> {
    /// The package that names the hooks.
    pub(crate) package: &'a Package,
    /// Flavour of the instance: `flavourId` of the request.
    pub(crate) flavour: &'a str,
    /// The requested operation's name in the VNFD's interface.
    pub(crate) interface_operation: &'a str,
    /// Parameters for the hooks, merged.
    pub(crate) params: &'a KeyValuePairs,
    /// Names of hooks that will be skipped.
    pub(crate) skipped: &'a [String],
    /// Current deployment of an INSTANTIATED instance: it keeps its plugins.
    pub(crate) deployed: Option<&'a Deployment>,
}

/// Finds the MgmtDriver of every hook that the operation may call (for a new deployment, of all hooks of the flavour),
/// validates the parameters against the schemas of the operation's hooks, and returns the request's `body` redacted.
///
/// # Errors
///
/// `Unprocessable`, naming the hook or the member.
pub(crate) fn check_parameters(
    context: &Context,
    check: &ParameterCheck<'_>,
    body: &Value,
) -> Result<Value, Refusal> {
    let flavour = check.package.vnfd().flavour(check.flavour);
    let schema = flavour.and_then(|one| one.additional_params_schema(check.interface_operation));
    if let Some(schema) = schema {
        let params = Value::Object(check.params.clone());
        check_schema(context, schema, &params, "the VNFD's interface")?;
    }
    check_hook_parameters(context, check, body)
}

/// As [`check_parameters`], without the schema of the VNFD's interface.
///
/// # Errors
///
/// As [`check_parameters`].
pub(crate) fn check_hook_parameters(
    context: &Context,
    check: &ParameterCheck<'_>,
    body: &Value,
) -> Result<Value, Refusal> {
    let mut redacted = redact(body, None, &mut Redactor::default());
    let Some(flavour) = check.package.vnfd().flavour(check.flavour) else {
        return Ok(redacted);
    };
    let params = Value::Object(check.params.clone());
    let interface_operation = check.interface_operation;
    for hook in flavour.hooks().iter().filter(|hook| hook.is_called()) {
        let own = is_hook_of(interface_operation, &hook.operation);
        let is_new = check.deployed.is_none();
        if check.skipped.contains(&hook.operation) || !(own || is_new) {
            continue;
        }
        let driver = driver_of(context, check.deployed, check.package, hook).map_err(no_driver)?;
        let declared = driver.declaration().hooks.get(&hook.operation);
        let Some(schema) = declared.and_then(|hook| hook.parameters.as_ref()) else {
            continue;
        };
        if own {
            let name = format!(
                "hook `{}` of `{}`",
                hook.operation,
                driver.declaration().name
            );
            check_schema(context, schema, &params, &name)?;
            let params = redact(
                &redacted["additionalParams"],
                Some(schema),
                &mut Redactor::default(),
            );
            if !params.is_null() {
                redacted["additionalParams"] = params;
            }
        }
    }
    Ok(redacted)
}

/// True for `change_flavour_start` and `change_flavour_end` of `change_flavour`.
fn is_hook_of(interface_operation: &str, hook: &str) -> bool {
    let moment = hook.strip_prefix(interface_operation);
    matches!(moment, Some("_start" | "_end"))
}

pub(crate) fn no_driver(error: PortError) -> Refusal {
    let refusal = Refusal::unprocessable(error);
    Refusal {
        code: &refusal::NO_DRIVER,
        ..refusal
    }
}

/// Reports all schema violations at once.
fn check_schema(
    context: &Context,
    schema: &Value,
    params: &Value,
    owner: &str,
) -> Result<(), Refusal> {
    let schemas = &context.ports.schemas;
    let violations = schemas
        .violations(schema, params, "additionalParams")
        .map_err(|error| {
            let what = format!("the schema of {owner} cannot be used: {error}");
            Refusal::new(Why::Broken, &SCHEMA, what)
        })?;
    if violations.is_empty() {
        return Ok(());
    }
    let what = format!(
        "additionalParams violate the schema of {owner}: {}",
        violations.join("; ")
    );
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::BAD_PARAMETERS,
        what,
    ))
}

pub(super) const SCHEMA: Code = Code {
    name: "hook.schema",
    kind: ErrorKind::Broken,
    means: "a MgmtDriver or the VNFD declares a parameter schema that is not valid JSON Schema",
    next: "report it to the author of the plugin or the VNFD",
};
#[cfg(test)]
mod tests {
    use super::is_hook_of;

    #[test]
    fn a_hook_belongs_to_the_operation_in_its_name() {
        for (hook, operation) in [
            ("instantiate_end", "instantiate"),
            ("change_flavour_start", "change_flavour"),
            ("scale_to_level_end", "scale_to_level"),
            ("scale_start", "scale"),
        ] {
            assert!(is_hook_of(operation, hook), "{hook}");
            for other in ["instantiate", "change_flavour", "scale_to_level", "scale"] {
                assert_eq!(is_hook_of(other, hook), other == operation, "{hook}");
            }
        }
    }
}
