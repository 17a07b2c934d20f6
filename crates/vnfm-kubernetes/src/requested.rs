//! What a request names of the package itself, as requests for Tacker do.
//!
//! | parameter | names |
//! |---|---|
//! | `lcm-kubernetes-def-files` | the manifests to apply, by their paths in the package |
//! | `vdu_mapping` | the workload of each VDU, `{VDU: {kind, name}}` |
//! | those of `named_charts` and `size_values` | charts, and their values |
//!
//! Tacker downloads files by URL. We download nothing during an operation: a URL is an external artifact of the package, which
//! was downloaded and compared with its hash when the package was onboarded, or it is refused.

use crate::member::Member;
use crate::reserved::{MANIFESTS, TEST, UPGRADE, WORKLOADS};
use std::borrow::Cow;
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::{Flavour, Mcio, nearest, normalise};

/// Refuses another way to change a package than the one that we have.
///
/// # Errors
///
/// `Refused`, if `upgrade_type` is another one.
pub(crate) fn check_upgrade(allocation: &Allocation) -> Result<(), PortError> {
    let params = &allocation.deployment.additional_params;
    match Member::of_request(params, UPGRADE.0) {
        Some(named) if named.text()? != UPGRADE.1 => {
            Err(named.refused(format!("it must be `{}`", UPGRADE.1)))
        }
        _ => Ok(()),
    }
}

/// Whether the request asks for the tests of the charts.
///
/// # Errors
///
/// `Refused`: it is neither true nor false.
pub(crate) fn wants_tests(allocation: &Allocation) -> Result<bool, PortError> {
    let params = &allocation.deployment.additional_params;
    Member::of_request(params, TEST).map_or(Ok(false), |given| given.is_true())
}

/// The manifests that the request names, in its order; none if it names none.
///
/// # Errors
///
/// `Refused`, naming the entry that is not a file of the package, or that no list of the package names.
pub(crate) fn manifests(allocation: &Allocation) -> Result<Vec<String>, PortError> {
    let params = &allocation.deployment.additional_params;
    let Some(named) = Member::of_request(params, MANIFESTS) else {
        return Ok(Vec::new());
    };
    let mut paths = Vec::new();
    for entry in named.items()? {
        let path = file(allocation, &entry)?;
        if !allocation.package.is_listed(&path) {
            let text = format!("neither the package's manifest nor `TOSCA.meta` lists `{path}`");
            let hint =
                format!("add `Source: {path}` to the manifest, and onboard the package again");
            return Err(entry.refused(text).hint(hint));
        }
        if paths.contains(&path) {
            return Err(entry.refused(format!("`{path}` is named already")));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// The path of a file of the package.
///
/// # Errors
///
/// `Refused`: there is no such file, or it is a URL of something that is not part of the package.
pub(crate) fn file(allocation: &Allocation, named: &Member<'_>) -> Result<String, PortError> {
    let (package, text) = (&allocation.package, named.text()?);
    if text.contains("://") {
        if package.externals().iter().any(|one| one.uri == text) {
            return Ok(text.to_owned());
        }
        let reason = "it is a URL, and nothing is downloaded during an operation";
        let hint = "put the file into the package, or list the URL with its hash in the package's manifest";
        return Err(named.refused(reason).hint(hint));
    }
    let path = normalise(text).map_err(|error| named.refused(error.to_string()))?;
    if package.has(&path) {
        return Ok(path);
    }
    let error = named.refused(format!("the package has no file `{path}`"));
    Err(match nearest(&path, package.paths()) {
        Some(known) => error.hint(format!("did you mean `{known}`?")),
        None => error,
    })
}

/// The path of a chart of the package, a packed one or a folder.
///
/// # Errors
///
/// Those of [`file()`].
pub(crate) fn chart(allocation: &Allocation, named: &Member<'_>) -> Result<String, PortError> {
    match normalise(named.text()?) {
        Ok(path) if allocation.package.is_chart_folder(&path) => Ok(path),
        _ => file(allocation, named),
    }
}

/// The flavour of the deployment, whose VDUs have the workloads that the request gives them.
pub(crate) fn flavour(allocation: &Allocation) -> Option<Cow<'_, Flavour>> {
    let deployment = &allocation.deployment;
    let flavour = allocation.package.vnfd().flavour(&deployment.flavour_id)?;
    // An invalid mapping was refused with the request.
    let workloads = workloads(allocation).unwrap_or_default();
    if workloads.is_empty() {
        return Some(Cow::Borrowed(flavour));
    }
    let mut flavour = flavour.clone();
    for (name, workload) in workloads {
        if let Some(vdu) = flavour.vdus.get_mut(name) {
            vdu.mcio = Some(workload);
        }
    }
    Some(Cow::Owned(flavour))
}

/// The workloads that the request gives VDUs.
///
/// # Errors
///
/// `Refused`, naming a VDU that the flavour does not have, or a workload without kind or name.
pub(crate) fn workloads(allocation: &Allocation) -> Result<Vec<(&str, Mcio)>, PortError> {
    let params = &allocation.deployment.additional_params;
    let Some(mapping) = Member::of_request(params, WORKLOADS) else {
        return Ok(Vec::new());
    };
    let mut workloads = Vec::new();
    for (vdu, workload) in mapping.members()? {
        check_vdu(allocation, vdu, &workload)?;
        let (kind, name) = (workload.text_of("kind")?, workload.text_of("name")?);
        let workload = Mcio {
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        workloads.push((vdu, workload));
    }
    Ok(workloads)
}

/// The release that has the workload of a VDU, if `vdu_mapping` names one.
///
/// # Errors
///
/// `Refused`: it has the wrong form.
pub(crate) fn release_of<'a>(
    allocation: &'a Allocation,
    vdu: &str,
) -> Result<Option<&'a str>, PortError> {
    let params = &allocation.deployment.additional_params;
    let Some(mapping) = Member::of_request(params, WORKLOADS) else {
        return Ok(None);
    };
    let Some(workload) = mapping.member(vdu)? else {
        return Ok(None);
    };
    let release = workload.member("helmreleasename")?;
    release.map(|release| release.text()).transpose()
}

/// Refuses a VDU that the flavour does not have.
///
/// # Errors
///
/// `Refused`, with the VDUs of the flavour.
pub(crate) fn check_vdu(
    allocation: &Allocation,
    vdu: &str,
    named: &Member<'_>,
) -> Result<(), PortError> {
    let id = &allocation.deployment.flavour_id;
    let Some(flavour) = allocation.package.vnfd().flavour(id) else {
        return Ok(()); // refused as such
    };
    if flavour.vdus.contains_key(vdu) {
        return Ok(());
    }
    let error = named.refused(format!("flavour `{id}` has no VDU `{vdu}`"));
    let known: Vec<&str> = flavour.vdus.keys().map(String::as_str).collect();
    Err(error.hint(format!("its VDUs are: {}", known.join(", "))))
}
