//! Query parameters: those of a list (SOL013 5.2 to 5.4), and a 400 that names the place for whatever else is asked.
//!
//! | asked | kept |
//! |---|---|
//! | nothing, `exclude_default` | all but what the standard leaves out of a list by default |
//! | `all_fields` | everything |
//! | `fields=a,b/c` | what is simple or mandatory, and those |
//! | `fields=a,b/c` and `exclude_default` | all but what is left out by default, and those |
//! | `exclude_fields=a,b/c` | all but those |

use crate::problem::{Answer, Problem};
use form_urlencoded::Serializer;
use std::collections::BTreeMap;
use uuid::Uuid;
use vnfm_core::query::{Filter, Query, QuerySyntaxError, Selector, VisibilityScope};
use vnfm_types::shape::Resource;

/// The parameters of a request, checked against those that the resource knows.
///
/// # Errors
///
/// 400 naming a parameter that it does not know.
pub fn known(query: &BTreeMap<String, String>, known: &[&str]) -> Answer<()> {
    query.keys().try_for_each(|name| is_known(name, known))
}

fn is_known(name: &str, known: &[&str]) -> Answer<()> {
    if known.contains(&name) {
        return Ok(());
    }
    let known = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    let what = format!("query parameter `{name}` is not supported here; supported: {known}");
    Err(Problem::bad_request(what))
}

/// Whether a request says `force=true`, the only parameter that it may have.
///
/// # Errors
///
/// 400 for another parameter, and for another value.
pub fn force(query: &BTreeMap<String, String>) -> Answer<bool> {
    known(query, &["force"])?;
    match query.get("force").map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => {
            let what = format!("query parameter `force` is `true` or `false`, not `{other}`");
            Err(Problem::bad_request(what))
        }
    }
}

const FILTER: &str = "filter";
const ALL_FIELDS: &str = "all_fields";
const FIELDS: &str = "fields";
const EXCLUDE_FIELDS: &str = "exclude_fields";
const EXCLUDE_DEFAULT: &str = "exclude_default";
const MARKER: &str = "nextpage_opaque_marker";
const OF_A_LIST: &[&str] = &[
    FILTER,
    ALL_FIELDS,
    FIELDS,
    EXCLUDE_FIELDS,
    EXCLUDE_DEFAULT,
    MARKER,
];

/// What a request for a list asks for.
pub struct Asked {
    /// Which entries, as far as the store knows.
    pub filter: Filter,
    /// Which of those, by the links that they are served with.
    pub served: Filter,
    /// After which one.
    pub after: Option<String>,
    /// Which attributes of them.
    pub selector: Selector,
    /// The parameters of the next page, but for its marker.
    same: Vec<(String, String)>,
}

impl Asked {
    /// Reads the parameters of a list of `resource`.
    ///
    /// # Errors
    ///
    /// 400 for a parameter that is not known, given twice or ill-formed, and for a marker that we cannot have given.
    pub fn read(resource: &Resource, raw: Option<&str>) -> Answer<Self> {
        let mut given = BTreeMap::new();
        let mut same = Vec::new();
        for (name, value) in form_urlencoded::parse(raw.unwrap_or_default().as_bytes()) {
            is_known(&name, OF_A_LIST)?;
            if name != MARKER {
                same.push((name.clone().into_owned(), value.clone().into_owned()));
            }
            if given
                .insert(name.clone().into_owned(), value.into_owned())
                .is_some()
            {
                let what = format!("query parameter `{name}` is given twice");
                return Err(Problem::bad_request(what));
            }
        }
        let filter = given.get(FILTER).map(|text| Filter::parse(resource, text));
        let filter = filter
            .transpose()
            .map_err(|told| ill_formed(FILTER, &told))?;
        let after = given.get(MARKER).cloned();
        if let Some(marker) = after
            .as_ref()
            .filter(|marker| Uuid::parse_str(marker).is_err())
        {
            let what = format!("`{MARKER}` is not one of ours: `{marker}`");
            return Err(Problem::bad_request(what));
        }
        let selector = selector(resource, &given)?;
        let (filter, served) = filter.unwrap_or_default().split_links();
        Ok(Self {
            filter,
            served,
            after,
            selector,
            same,
        })
    }

    /// The same for the store, at most `limit` entries.
    pub fn query(&self, limit: usize, sight: &VisibilityScope) -> Query {
        let (filter, after) = (self.filter.clone(), self.after.clone());
        Query {
            filter,
            after,
            limit,
            scope: sight.clone(),
        }
    }

    /// Where the next page is, after the entry `last`.
    pub fn next(&self, uri: &str, last: &str) -> String {
        let mut parameters = Serializer::new(String::new());
        parameters
            .extend_pairs(&self.same)
            .append_pair(MARKER, last);
        format!("<{uri}?{}>; rel=\"next\"", parameters.finish())
    }
}

fn selector(resource: &Resource, given: &BTreeMap<String, String>) -> Answer<Selector> {
    let of = |name: &str| given.get(name).map(String::as_str);
    for flag in [ALL_FIELDS, EXCLUDE_DEFAULT] {
        if let Some(value) = of(flag).filter(|value| !value.is_empty()) {
            let what =
                format!("query parameter `{flag}` has no value: it is there or not, not `{value}`");
            return Err(Problem::bad_request(what));
        }
    }
    match (
        of(ALL_FIELDS),
        of(FIELDS),
        of(EXCLUDE_FIELDS),
        of(EXCLUDE_DEFAULT),
    ) {
        (None, None, None, _) => Ok(Selector::default_of(resource)),
        (Some(_), None, None, None) => Ok(Selector::all()),
        (None, Some(names), None, None) => {
            Selector::only(resource, names).map_err(|told| ill_formed(FIELDS, &told))
        }
        (None, Some(names), None, Some(_)) => {
            Selector::default_but(resource, names).map_err(|told| ill_formed(FIELDS, &told))
        }
        (None, None, Some(names), None) => {
            Selector::without(resource, names).map_err(|told| ill_formed(EXCLUDE_FIELDS, &told))
        }
        _ => {
            let what = "of `all_fields`, `fields`, `exclude_fields` and `exclude_default` one is given, or `fields` \
                        with `exclude_default`";
            Err(Problem::bad_request(what))
        }
    }
}

fn ill_formed(parameter: &str, told: &QuerySyntaxError) -> Problem {
    Problem::bad_request(format!("`{parameter}`, {told}"))
}
