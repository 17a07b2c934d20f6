//! Finds flavours that no driver can deploy, before an instantiation does.

use crate::explain::codes;
use crate::source::Source;
use vnfm_descriptor::raw::{Parts, Sink, has_workload_files};
use vnfm_descriptor::{Finding, Flavour, Span, VduKind};

/// Checks that each flavour has something to deploy: servers, containers, a Base HOT, manifests or charts.
pub(crate) fn check(source: &Source<'_>, read: &Parts, sink: &mut Sink) {
    let Some(vnfd) = read.vnfd.as_ref().filter(|_| read.asd.is_none()) else {
        return;
    };
    if read.order.is_some() {
        return;
    }
    let mut flavours = vnfd.flavours.values();
    let empty: Vec<&Flavour> = flavours
        .by_ref()
        .filter(|flavour| !has_own(flavour) && !read.has_base_hot(&flavour.id))
        .collect();
    // A request may name charts and manifests.
    if empty.is_empty() || has_workload_files(source.archive, source.limits) {
        return;
    }
    for flavour in empty {
        let message = format!("no driver can deploy flavour `{}`", flavour.id);
        let finding = Finding::new(codes::DEPLOY_NONE, Span::file(&flavour.file), message);
        sink.add(finding.hint(
            "add servers (`Vdu.Compute`), containers (`Vdu.OsContainerDeployableUnit`), a Base HOT, an order file with manifests, or Mciops with charts",
        ));
    }
}

/// Whether the descriptor itself says what to deploy.
fn has_own(flavour: &Flavour) -> bool {
    let mut vdus = flavour.vdus.values();
    vdus.any(|vdu| vdu.kind == VduKind::Compute)
        || flavour.workloads.is_some()
        || flavour.mciops.values().any(|mciop| !mciop.files.is_empty())
}
