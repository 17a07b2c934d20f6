//! What is recorded of a stack: its handle, metadata and inventory.

use crate::blueprint::Blueprint;
use crate::heat::Stack;
use crate::inventory;
use crate::keystone_login::Cloud;
use crate::resolved::Resolved;
use crate::retries::Waiter;
use futures::TryFutureExt as _;
use serde_json::json;
use vnfm_core::ports::{PortError, Recorded, VimCall, Waited};
use vnfm_types::KeyValuePairs;

/// Reads the inventory of a stack, waiting for services that are unavailable.
pub(crate) async fn read_recorded(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    blueprint: &Blueprint<'_>,
    (stack, resolved): (&Stack, &Resolved),
) -> Result<Recorded, PortError> {
    let action = format!("read the resources of stack `{}`", stack.name);
    let mut waiter = Waiter::new(cx, &action);
    let contents = loop {
        let read = inventory::read_stack(cloud, stack).map_ok(Waited::Done);
        match waiter.attempt(read).await? {
            Waited::Done(contents) => break contents,
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    };
    Ok(recorded(cx, blueprint, (stack, resolved), &contents))
}

pub(crate) fn recorded(
    cx: &VimCall<'_>,
    blueprint: &Blueprint<'_>,
    (stack, resolved): (&Stack, &Resolved),
    contents: &inventory::StackContents,
) -> Recorded {
    let context = inventory::Context {
        blueprint,
        resolved,
        vim: cx.vim.connection_id(),
    };
    let mut metadata = KeyValuePairs::new();
    metadata.insert("stackId".into(), json!(stack.id));
    metadata.insert("stackName".into(), json!(stack.name));
    Recorded {
        handle: json!({"stackId": stack.id, "stackName": stack.name}),
        inventory: inventory::inventory(contents, context),
        metadata,
        resolved: json!(resolved),
    }
}
