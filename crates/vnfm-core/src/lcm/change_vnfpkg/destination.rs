//! The package that a VNF changes to: it must exist, be enabled, and be allowed by the policies of both packages.

use crate::context::Context;
use crate::deployment::Deployment;
use crate::hooks;
use crate::lcm::operation::Requested;
use crate::query::Query;
use crate::refusal::{self, Refusal, Why};
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_descriptor::{Flavour, NoPackagePath, Package, PackagePath, Vnfd};
use vnfm_types::{PackageOnboardingState, PackageOperationalState, VnfPkgInfo};

/// The new package, and how the old one leads to it.
pub(super) struct Destination {
    pub(super) vnf_pkg_id: String,
    pub(super) package: Arc<Package>,
    pub(super) source: Arc<Package>,
    pub(super) path: PackagePath,
}

/// The package with this VNFD, if the instance may change to it.
pub(super) async fn find(requested: &Requested<'_>, vnfd_id: &str) -> Result<Destination, Refusal> {
    let source = requested.package().await;
    let source = source.map_err(Refusal::unprocessable)?;
    let vnf_pkg_id = onboarded(requested, vnfd_id).await?;
    if vnf_pkg_id == requested.instance.vnf_pkg_id {
        return Err(not_possible(format!(
            "the VNF already has the VNFD `{vnfd_id}`"
        )));
    }
    let (packages, tenant) = (&requested.context.ports.packages, requested.tenant());
    let package = packages.package(tenant, &vnf_pkg_id).await;
    let package = package.map_err(Refusal::unprocessable)?;
    let deployment = requested.instance.deployment.as_deref();
    let flavour_id = deployment.map_or("", |deployment| &*deployment.flavour_id);
    let path = PackagePath::between((source.vnfd(), flavour_id), package.vnfd());
    let path = path.map_err(|none| excluded((source.vnfd(), flavour_id), package.vnfd(), &none))?;
    Ok(Destination {
        vnf_pkg_id,
        package,
        source,
        path,
    })
}

/// Id of the onboarded and enabled package with this VNFD that the caller may use.
async fn onboarded(requested: &Requested<'_>, vnfd_id: &str) -> Result<String, Refusal> {
    let query = Query {
        scope: requested.scope.clone(),
        ..Query::only("vnfdId", vnfd_id)
    };
    let store = requested.context.store();
    let packages = store.package_records(requested.tenant(), &query).await?;
    let usable = |info: &VnfPkgInfo| {
        info.onboarding_state == PackageOnboardingState::Onboarded
            && info.operational_state == PackageOperationalState::Enabled
    };
    let found = packages
        .into_iter()
        .map(|package| package.info)
        .find(usable);
    found.map(|info| info.id).ok_or_else(|| {
        let what = format!("no onboarded and enabled VNF package has vnfdId `{vnfd_id}`");
        Refusal::new(Why::Unprocessable, &refusal::NO_PACKAGE, what)
    })
}

/// Why the change is not possible, with the changes that are.
fn excluded(
    (source, flavour_id): (&Vnfd, &str),
    destination: &Vnfd,
    none: &NoPackagePath<'_>,
) -> Refusal {
    let (from, to) = (&source.descriptor_id, &destination.descriptor_id);
    let what = match none {
        NoPackagePath::OtherProduct => format!(
            "VNFD `{to}` describes `{}` of `{}`, and the VNF is a `{}` of `{}`; no VnfPackageChange policy allows that change",
            destination.product_name, destination.provider, source.product_name, source.provider
        ),
        NoPackagePath::Excluded(allowed) => {
            let named = allowed.iter().map(|one| {
                format!(
                    "`{}` (flavour `{}`) to `{}`",
                    one.source_descriptor_id, one.source_flavour_id, one.destination_descriptor_id
                )
            });
            let allowed: std::collections::BTreeSet<_> = named.collect();
            let allowed: Vec<_> = allowed.into_iter().collect();
            format!(
                "the VnfPackageChange policies do not allow a change from `{from}` in flavour `{flavour_id}` to `{to}`; they \
                 allow: {}",
                allowed.join(", ")
            )
        }
    };
    not_possible(what)
}

pub(super) fn not_possible(what: String) -> Refusal {
    Refusal::new(Why::Unprocessable, &refusal::PACKAGE_CHANGE, what)
}

impl Destination {
    /// The flavour that the VNF has afterwards.
    pub(super) fn flavour(&self) -> Result<&Flavour, Refusal> {
        let (id, vnfd) = (&self.path.flavour_id, self.package.vnfd());
        vnfd.flavour(id).ok_or_else(|| {
            let known: Vec<_> = vnfd.flavours.keys().map(String::as_str).collect();
            let (vnfd, known) = (&vnfd.descriptor_id, known.join(", "));
            not_possible(format!(
                "the VNF would have the flavour `{id}`, which is not in the VNFD `{vnfd}`; it has: {known}"
            ))
        })
    }

    /// The plugins that serve the hooks of the new package from now on.
    pub(super) fn plugins(&self, context: &Context) -> Result<BTreeMap<String, String>, Refusal> {
        let hooks = self
            .flavour()?
            .hooks()
            .iter()
            .filter(|hook| hook.is_called());
        let served = hooks.map(|hook| {
            let driver = hooks::driver_of(context, None, &self.package, hook);
            let driver = driver.map_err(hooks::no_driver)?;
            Ok((hook.implementation.clone(), driver.id().versioned_name()))
        });
        served.collect()
    }
}

/// The change that a deployment has gone through, as the packages describe it.
pub(super) fn path_of(source: (&Package, &Deployment), destination: &Package) -> PackagePath {
    let (package, before) = source;
    let path = PackagePath::between((package.vnfd(), &before.flavour_id), destination.vnfd());
    path.unwrap_or_default()
}
