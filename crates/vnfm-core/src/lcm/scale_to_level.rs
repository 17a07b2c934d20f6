//! Scale a VNF to a level (SOL003 5.4.6): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/scale_to_level
//!    │  target: scale levels and VNFC counts of `instantiationLevelId` or `scaleInfo`, refused with what would be
//!    │  possible; then one transaction: occurrence in STARTING, the instance's one active operation
//!    ▼                                                                                 202 Accepted + Location
//!  STARTING ──grant, prepare──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! It may add VNFCs of one VDU and remove those of another.
//!
//! | step                 | state      | does                                                           | undo            |
//! |----------------------|------------|----------------------------------------------------------------|-----------------|
//! | grant                | STARTING   | asks the NFVO, if there is one                                 | —               |
//! | prepare              | STARTING   | logs in, looks up what only the VIM knows                      | —               |
//! | scale_to_level_start | PROCESSING | vendor hook: learns which VNFCs will go, while they still run  | its undo, if any |
//! | add                  | PROCESSING | adds VNFCs and waits until they work; skipped if none come     | removes them    |
//! | remove               | PROCESSING | removes VNFCs; skipped if none go                              | not possible    |
//! | scale_to_level_end   | PROCESSING | vendor hook: configures the VNFCs that came or stayed          | its undo, if any |
//! | register_vims        | PROCESSING | updates the VIMs of the instance in the registry               | unregisters new ones |

use super::operation::{Body, GrantDecides, GrantRule, Operation, Requested, Requires, Target};
use super::resize;
use super::scale_refusal::{check_aspects, not_possible};
use super::step::Step;
use crate::ports::HookScale;
use crate::refusal::{self, Refusal, Why};
use vnfm_descriptor::{Flavour, ScaleError, ScaleStatus, ScaledSize};
use vnfm_types::{LcmOperationType, ScaleVnfToLevelRequest};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::ScaleToLevel,
    task: Some("scale_to_level"),
    interface_operation: "scale_to_level",
    body: Body::new::<ScaleVnfToLevelRequest>("ScaleVnfToLevelRequest"),
    requires: Requires::Instantiated,
    support: resize::SCALES,
    uses_vim: true,
    frees_space: false,
    skippable_hooks: true,
    checks_parameters: true,
    grant: Some(GrantRule {
        needs: resize::grant_needs,
        decides: GrantDecides::NewResources,
    }),
    target: |requested| Box::pin(target(requested)),
    hook_request: |op, hook| resize::hook_request(op, hook, HookScale::default()),
    steps: STEPS,
    finish: resize::finish,
};

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(),
    resize::PREPARE,
    Step::hook("scale_to_level_start", |op| Ok(op.inventory())),
    resize::ADD,
    resize::REMOVE,
    Step::hook("scale_to_level_end", resize::inventory_now),
    resize::REGISTER_VIMS,
];

/// The size of the instantiation level, or at the scale levels, that the request names.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: ScaleVnfToLevelRequest = requested.request()?;
    if request.instantiation_level_id.is_some() == request.scale_info.is_some() {
        let what = "the request must have either instantiationLevelId or scaleInfo";
        let code = &refusal::BAD_PARAMETERS;
        return Err(Refusal::new(Why::Unprocessable, code, what));
    }
    if request.scale_info.as_ref().is_some_and(Vec::is_empty) {
        return Err(not_possible("scaleInfo names no aspect"));
    }
    let levels = request.scale_info.as_deref().unwrap_or_default();
    check_aspects(levels, "scaleInfo")?;
    let params = &request.additional_params;
    resize::target(requested, params, |flavour, levels| {
        size(flavour, levels, &request)
    })
    .await
}

fn size(
    flavour: &Flavour,
    levels: &ScaleStatus,
    request: &ScaleVnfToLevelRequest,
) -> Result<ScaledSize, ScaleError> {
    if let Some(level) = &request.instantiation_level_id {
        return flavour.scaled_to_level(level);
    }
    let wanted = request.scale_info.iter().flatten();
    let wanted = wanted.map(|info| (info.aspect_id.clone(), info.scale_level));
    flavour.size_at(flavour.scaled_to(levels, &wanted.collect())?)
}
