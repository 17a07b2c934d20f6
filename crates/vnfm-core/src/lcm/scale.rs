//! Scale a VNF by steps of a scaling aspect (SOL003 5.4.5): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/scale
//!    │  target: scale levels and VNFC counts after the steps, refused with what would be possible; then one
//!    │  transaction: occurrence in STARTING, the instance's one active operation        202 Accepted + Location
//!    ▼
//!  STARTING ──grant, prepare──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! A step of the aspect may concern several VDUs, each with another number of VNFCs ([`Flavour::scaled`]).
//!
//! | step          | state      | does                                                           | undo            |
//! |---------------|------------|----------------------------------------------------------------|-----------------|
//! | grant         | STARTING   | asks the NFVO, if there is one                                 | —               |
//! | prepare       | STARTING   | logs in, looks up what only the VIM knows                      | —               |
//! | scale_start   | PROCESSING | vendor hook: learns which VNFCs will go, while they still run  | its undo, if any |
//! | add           | PROCESSING | adds VNFCs and waits until they work; skipped in a scale-in    | removes them    |
//! | remove        | PROCESSING | removes VNFCs; skipped in a scale-out                          | not possible    |
//! | scale_end     | PROCESSING | vendor hook: configures the VNFCs that came or stayed          | its undo, if any |
//! | register_vims | PROCESSING | updates the VIMs of the instance in the registry               | unregisters new ones |

use super::Op;
use super::operation::{Body, GrantDecides, GrantRule, Operation, Requested, Requires, Target};
use super::resize;
use super::step::{Output, Step};
use crate::ports::{HookRequest, HookScale};
use crate::refusal::Refusal;
use vnfm_descriptor::ScaleDirection;
use vnfm_types::{LcmOperationType, ScaleType, ScaleVnfRequest};

#[cfg(doc)]
use vnfm_descriptor::Flavour;

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::Scale,
    task: Some("scale"),
    interface_operation: "scale",
    body: Body::new::<ScaleVnfRequest>("ScaleVnfRequest"),
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
    hook_request,
    steps: STEPS,
    finish: resize::finish,
};

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(),
    resize::PREPARE,
    Step::hook("scale_start", |op| Ok(op.inventory())),
    resize::ADD,
    resize::REMOVE,
    Step::hook("scale_end", resize::inventory_now),
    resize::REGISTER_VIMS,
];

/// The size after the steps, within the limits of aspect and VDUs.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: ScaleVnfRequest = requested.request()?;
    let direction = match request.type_ {
        ScaleType::ScaleOut => ScaleDirection::ScaleOut,
        ScaleType::ScaleIn => ScaleDirection::ScaleIn,
    };
    let (aspect, steps) = (request.aspect_id, request.number_of_steps);
    let params = &request.additional_params;
    resize::target(requested, params, move |flavour, levels| {
        let levels = flavour.scaled(levels, &aspect, direction, steps)?;
        flavour.size_at(levels)
    })
    .await
}

/// What scale hooks get in addition.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Output<()> {
    let request: ScaleVnfRequest = op.request()?;
    let mut scale = HookScale::default();
    scale.type_ = Some(request.type_.as_str().to_owned());
    scale.aspect_id = Some(request.aspect_id);
    scale.number_of_steps = Some(request.number_of_steps);
    resize::hook_request(op, hook, scale)
}
