//! Members of an ASD by name, whichever dialect spells it.

use crate::yaml::Node;

/// The items of a list, or a single node.
pub(super) fn entries(node: &Node) -> Vec<&Node> {
    if node.is_sequence() {
        node.items().iter().collect()
    } else {
        vec![node]
    }
}

/// The value under the first of these names that exists; null counts as absent.
pub(super) fn field<'n>(node: &'n Node, names: &[&str]) -> Option<&'n Node> {
    let field = |name: &&str| {
        node.named()
            .find(|(key, _)| same(name, key))
            .map(|(_, value)| value)
    };
    names
        .iter()
        .find_map(field)
        .filter(|value| !value.is_null())
}

pub(super) fn text(node: &Node, names: &[&str]) -> Option<String> {
    field(node, names).and_then(Node::as_str).map(str::to_owned)
}

/// Whether two names are equal, ignoring case and `_`.
pub(super) fn same(one: &str, other: &str) -> bool {
    let letters = |text: &str| text.replace('_', "").to_ascii_lowercase();
    letters(one) == letters(other)
}

/// Converts a name in snake case to camel case: `nad_names` to `nadNames`.
pub(super) fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut all, part| {
        let mut letters = part.chars();
        all.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        all.push_str(letters.as_str());
        all
    })
}
