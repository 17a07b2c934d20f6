//! What a flavour of containers deploys without manifests and charts: reads it from the node templates and policies alone.
//!
//! ```text
//! applies    deployable units, no server; no Mciop, manifest or chart in the package
//! supported  every property, node type and policy that has no translation is an error, by its position   supported.rs
//! units      deployable units ──> workloads with containers, volumes, configuration                      unit.rs, container.rs
//! policies   autoscaling and placement of the workloads                                                  policies.rs
//! services   virtual connection points ──> services, ports, routes                                       services.rs
//! ```
//! Nothing is dropped and nothing is guessed: what the descriptor asks for and no object expresses is an error here, when
//! the package is onboarded. `docs/how-to/tosca-only.md` lists the rules.

mod container;
mod names;
mod policies;
mod services;
mod supported;
mod unit;

use super::builder::Builder;
use super::topology::Topology;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::model::{Flavour, VduKind, Workloads};
use crate::order::ORDER_FILE;
use crate::workload_files::has_workload_files;

impl Builder<'_, '_> {
    /// Reads the workloads of a flavour, if its package has nothing else to deploy.
    pub(super) fn workloads(&mut self, topology: &Topology<'_>, flavour: &mut Flavour) {
        if !self.describes_workloads(flavour) {
            return;
        }
        self.refuse_unsupported(topology);
        let mut units = self.units(topology, flavour);
        self.add_policies(topology, flavour, &mut units);
        let services = self.services(topology, flavour, &units);
        flavour.workloads = Some(Workloads { units, services });
    }

    /// Whether the descriptor alone has to say what is deployed: containers, and no file that would.
    fn describes_workloads(&self, flavour: &Flavour) -> bool {
        let mut vdus = flavour.vdus.values();
        !flavour.vdus.is_empty()
            && vdus.all(|vdu| vdu.kind == VduKind::OsContainer)
            && flavour.mciops.is_empty()
            && !self.archive.has(ORDER_FILE)
            && !has_workload_files(self.archive, self.limits)
    }

    /// Reports what cannot be translated.
    fn untranslatable(&mut self, at: &Span, message: String, hint: &str) {
        let finding = Finding::new(codes::CONTAINERS, at.clone(), message);
        self.sink.add(finding.hint(hint));
    }
}
