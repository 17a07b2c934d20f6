//! Object count quotas of namespaces. CPU and memory in a `ResourceQuota` are not enforced.

use serde_json::Value;

use super::objects::Store;

/// The error if one more object of a kind (`pods`, `deployments.apps`) would exceed a quota of the
/// namespace, with the real server's message.
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

/// A quantity as a string or number.
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
