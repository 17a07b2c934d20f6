//! What a path of the API names.

use super::objects::Store;

/// What the path of a request refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) part: String,
}

impl Target {
    /// Parses the segments of a path; none if it is not that of an API.
    pub(super) fn parse(path: &[&str]) -> Option<Self> {
        let (group, version, rest) = match path {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, plural, more @ ..]
                if !matches!(*plural, "status" | "finalize") =>
            {
                (*namespace, [&[*plural], more].concat())
            }
            other => ("", other.to_vec()),
        };
        let mut rest = rest.into_iter();
        let (plural, name, part) = (
            rest.next()?,
            rest.next().unwrap_or_default(),
            rest.next().unwrap_or_default(),
        );
        let own = str::to_owned;
        Some(Self {
            group: own(group),
            version: own(version),
            plural: own(plural),
            namespace: own(namespace),
            name: own(name),
            part: own(part),
        })
    }
}

/// Kind, namespace and name in an API path; none for an unknown kind.
pub(super) fn locate(store: &Store, path: &str) -> Option<(String, String, String)> {
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let target = Target::parse(&segments)?;
    let kind = store.kind(&target.group, &target.version, &target.plural)?;
    Some((kind.qualified(), target.namespace, target.name))
}
