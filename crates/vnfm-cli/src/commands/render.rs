//! `vnfmctl package render PACKAGE`: the Kubernetes objects that an instantiation would create, as YAML.

use super::request;
use crate::args::{Format, Render};
use crate::client::{Failure, Outcome, local};
use crate::output::{Output, print, tell};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm::kubernetes::{Rendered, render};
use vnfm::ports::{Allocation, PortError};
use vnfm_descriptor::Package;
use vnfm_types::InstantiateVnfRequest;

pub(super) fn run(output: Output, package: Package, args: &Render) -> Outcome<()> {
    let request = instantiation(&package, args)?;
    let allocation = Allocation::requested("render", Arc::new(package), request);
    let Rendered {
        objects, charts, ..
    } = allocation
        .and_then(|allocation| render(&allocation))
        .map_err(refused)?;
    for chart in &charts {
        tell(&format!(
            "the objects of chart `{chart}` are not among them: helm renders them"
        ));
    }
    if !output.is_table() {
        return output.value(&json!(objects));
    }
    for object in &objects {
        print("---");
        Output(Format::Yaml).value(object)?;
    }
    Ok(())
}

/// The request of a file, with what the command line adds; the only flavour of a package is the default.
fn instantiation(package: &Package, args: &Render) -> Outcome<InstantiateVnfRequest> {
    let mut body = request::object_body(args.request.as_deref())?;
    let mut flavours = package.vnfd().flavours.keys();
    let named = args.flavour.as_ref();
    if let Some(flavour) = named.or_else(|| flavours.next().filter(|_| body["flavourId"].is_null()))
    {
        body["flavourId"] = flavour.as_str().into();
        if named.is_none() && flavours.next().is_some() {
            let all: Vec<&str> = package.vnfd().flavours.keys().map(String::as_str).collect();
            return Err(Failure::Hinted {
                message: "the package has several flavours".to_owned(),
                hint: format!("choose one with `--flavour`: {}", all.join(", ")),
            });
        }
    }
    if let Some(level) = &args.level {
        body["instantiationLevelId"] = level.as_str().into();
    }
    for param in &args.params {
        request::set(&mut body["additionalParams"], param)?;
    }
    if body["additionalParams"].is_null() {
        body["additionalParams"] = json!({});
    }
    check_flavour(package, &body)?;
    serde_json::from_value(body).map_err(|error| local(format!("the request is invalid: {error}")))
}

fn check_flavour(package: &Package, body: &Value) -> Outcome<()> {
    let flavour = body["flavourId"].as_str().unwrap_or_default();
    if package.vnfd().flavour(flavour).is_some() {
        return Ok(());
    }
    let all: Vec<&str> = package.vnfd().flavours.keys().map(String::as_str).collect();
    Err(Failure::Hinted {
        message: format!("the package has no flavour `{flavour}`"),
        hint: format!("its flavours are: {}", all.join(", ")),
    })
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn refused(error: PortError) -> Failure {
    Failure::Hinted {
        message: error.to_string(),
        hint: error.next().to_owned(),
    }
}
