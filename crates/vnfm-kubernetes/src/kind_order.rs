//! The order in which the kinds of objects are applied if the author of the package has not stated one: what others need first.

use crate::item::Item;

/// These kinds first, in this order; all others after them.
const FIRST: &[&str] = &[
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "PersistentVolume",
    "LimitRange",
    "ResourceQuota",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Secret",
    "ConfigMap",
    "PersistentVolumeClaim",
    "Service",
];

/// Sorts by kind; objects of one kind, and of kinds that are not in the table, keep their order.
pub(crate) fn sort(items: &mut [Item]) {
    let rank = |item: &Item| {
        let known = FIRST.iter().position(|kind| *kind == item.kind);
        known.unwrap_or(FIRST.len())
    };
    items.sort_by_key(rank);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::item_for_test;
    use serde_json::json;

    #[test]
    fn what_others_need_comes_first_and_the_rest_keeps_its_order() {
        let named = [
            ("Deployment", "web"),
            ("Widget", "a"),
            ("Pod", "tool"),
            ("ConfigMap", "page"),
            ("Namespace", "mine"),
            ("ConfigMap", "more"),
        ];
        let mut items = named.map(|(kind, name)| {
            item_for_test(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}))
        });
        sort(&mut items);
        let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["mine", "page", "more", "web", "a", "tool"]);
    }
}
