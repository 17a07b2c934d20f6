//! Query parameters: those of a list (SOL013 5.2 to 5.4), and 400 responses that name an unsupported parameter.
//!
//! | parameters | attributes in the response |
//! |---|---|
//! | none, `exclude_default` | all except those that the standard omits from lists by default |
//! | `all_fields` | everything |
//! | `fields=a,b/c` | simple and mandatory ones, and those |
//! | `fields=a,b/c` and `exclude_default` | all except those omitted by default, and those |
//! | `exclude_fields=a,b/c` | all except those |

use crate::problem::{HandlerResult, Problem};
use form_urlencoded::Serializer;
use std::collections::BTreeMap;
use uuid::Uuid;
use vnfm_core::query::{Filter, Query, QuerySyntaxError, Selector, VisibilityScope};
use vnfm_types::shape::Resource;

/// Checks the parameters of a request against those of the resource.
///
/// # Errors
///
/// 400 naming an unsupported parameter.
pub(crate) fn known(query: &BTreeMap<String, String>, known: &[&str]) -> HandlerResult<()> {
    query.keys().try_for_each(|name| is_known(name, known))
}

fn is_known(name: &str, known: &[&str]) -> HandlerResult<()> {
    if known.contains(&name) {
        return Ok(());
    }
    let known = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    let detail = format!("query parameter `{name}` is not supported here; supported: {known}");
    Err(Problem::bad_request(detail))
}

/// Whether a request has `force=true`, the only parameter that it may have.
///
/// # Errors
///
/// 400 for another parameter or value.
pub(crate) fn force(query: &BTreeMap<String, String>) -> HandlerResult<bool> {
    known(query, &["force"])?;
    match query.get("force").map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let detail = format!("query parameter `force` is `true` or `false`, not `{other}`");
            Err(Problem::bad_request(detail))
        }
    }
}

const FILTER: &str = "filter";
const ALL_FIELDS: &str = "all_fields";
const FIELDS: &str = "fields";
const EXCLUDE_FIELDS: &str = "exclude_fields";
const EXCLUDE_DEFAULT: &str = "exclude_default";
const MARKER: &str = "nextpage_opaque_marker";
const LIST_PARAMETERS: &[&str] = &[
    FILTER,
    ALL_FIELDS,
    FIELDS,
    EXCLUDE_FIELDS,
    EXCLUDE_DEFAULT,
    MARKER,
];

/// The query parameters of a request for a list.
pub(crate) struct ListQuery {
    /// The filter for the store to apply.
    pub filter: Filter,
    /// Filter on the links, which are generated at serving time.
    pub served: Filter,
    /// Id of the entry after which the page starts.
    pub after: Option<String>,
    /// The attributes that the response contains.
    pub selector: Selector,
    /// The parameters of the next page, without its marker.
    repeated: Vec<(String, String)>,
}

impl ListQuery {
    /// Parses the parameters of a list of `resource`.
    ///
    /// # Errors
    ///
    /// 400 for an unsupported, repeated or malformed parameter, and for an invalid marker.
    pub(crate) fn read(resource: &Resource, raw: Option<&str>) -> HandlerResult<Self> {
        let mut given = BTreeMap::new();
        let mut repeated = Vec::new();
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            is_known(&name, LIST_PARAMETERS)?;
            if name != MARKER {
                repeated.push((name.clone().into_owned(), value.clone().into_owned()));
            }
            if given
                .insert(name.clone().into_owned(), value.into_owned())
                .is_some()
            {
                let detail = format!("query parameter `{name}` is given twice");
                return Err(Problem::bad_request(detail));
            }
        }
        let filter = given.get(FILTER).map(|text| Filter::parse(resource, text));
        let filter = filter
            .transpose()
            .map_err(|error| malformed(FILTER, &error))?;
        let after = given.get(MARKER).cloned();
        if let Some(marker) = after
            .as_ref()
            .filter(|marker| Uuid::parse_str(marker).is_err())
        {
            let detail = format!("invalid `{MARKER}`: `{marker}`");
            return Err(Problem::bad_request(detail));
        }
        let selector = selector(resource, &given)?;
        let (filter, served) = filter.unwrap_or_default().split_links();
        Ok(Self {
            filter,
            served,
            after,
            selector,
            repeated,
        })
    }

    /// The query for the store, with at most `limit` entries.
    pub(crate) fn query(&self, limit: usize, scope: &VisibilityScope) -> Query {
        let (filter, after) = (self.filter.clone(), self.after.clone());
        Query {
            filter,
            after,
            limit,
            scope: scope.clone(),
        }
    }

    /// The `Link` header for the next page, after the entry `last`.
    pub(crate) fn next(&self, uri: &str, last: &str) -> String {
        let mut parameters = Serializer::new(String::new());
        parameters
            .extend_pairs(&self.repeated)
            .append_pair(MARKER, last);
        format!("<{uri}?{}>; rel=\"next\"", parameters.finish())
    }
}

fn selector(resource: &Resource, given: &BTreeMap<String, String>) -> HandlerResult<Selector> {
    let value = |name: &str| given.get(name).map(String::as_str);
    for flag in [ALL_FIELDS, EXCLUDE_DEFAULT] {
        if let Some(value) = value(flag).filter(|value| !value.is_empty()) {
            let detail =
                format!("query parameter `{flag}` is a flag; it must not have the value `{value}`");
            return Err(Problem::bad_request(detail));
        }
    }
    match (
        value(ALL_FIELDS),
        value(FIELDS),
        value(EXCLUDE_FIELDS),
        value(EXCLUDE_DEFAULT),
    ) {
        (None, None, None, _) => Ok(Selector::default_of(resource)),
        (Some(_), None, None, None) => Ok(Selector::all()),
        (None, Some(names), None, None) => {
            Selector::only(resource, names).map_err(|error| malformed(FIELDS, &error))
        }
        (None, Some(names), None, Some(_)) => {
            Selector::default_but(resource, names).map_err(|error| malformed(FIELDS, &error))
        }
        (None, None, Some(names), None) => {
            Selector::without(resource, names).map_err(|error| malformed(EXCLUDE_FIELDS, &error))
        }
        _ => {
            let detail = "give only one of `all_fields`, `fields`, `exclude_fields` and `exclude_default`, or `fields` together \
                        with `exclude_default`";
            Err(Problem::bad_request(detail))
        }
    }
}

fn malformed(parameter: &str, error: &QuerySyntaxError) -> Problem {
    Problem::bad_request(format!("`{parameter}`, {error}"))
}
