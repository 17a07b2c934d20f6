//! Quotas: how many objects of a kind a namespace may hold. What a `ResourceQuota` says of processors and memory is not
//! counted.

use serde_json::Value;

use super::objects::Store;

/// Why one more object of a kind (`pods`, `deployments.apps`) does not fit into a namespace, in the words of the quota
/// that it would exceed.
pub(super) fn exceeded(store: &Store, kind: &str, namespace: &str) -> Option<String> {
    let counted = format!("count/{kind}");
    let used = || store.list(kind, namespace).count();
    store.list("resourcequotas", namespace).find_map(|(quota, body)| {
        let hard = &body["spec"]["hard"];
        let (name, most) = [kind, counted.as_str()]
            .into_iter()
            .find_map(|name| Some((name, number(&hard[name])?)))?;
        let used = used();
        (used >= most).then(|| {
            format!(
                "exceeded quota: {}, requested: {name}=1, used: {name}={used}, limited: {name}={most}",
                quota.name
            )
        })
    })
}

/// A quantity, which is a text or a number.
fn number(quantity: &Value) -> Option<usize> {
    quantity.as_str().map_or_else(
        || {
            quantity
                .as_u64()
                .and_then(|number| usize::try_from(number).ok())
        },
        |text| text.parse().ok(),
    )
}
