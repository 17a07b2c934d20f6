//! Visibility scopes of callers, as SQL conditions in addition to a list's filter.
//!
//! ```text
//! instances      vnfProvider IN (…)  AND no row of `uses` with a VIM, or a namespace, outside of (…)
//! operations     the instance exists and is visible  AND no row of `lived` with a VIM, or a namespace, outside of (…)
//! packages       vnfProvider IN (…)
//! subscriptions, snapshots  created with the same scope
//! links, volumes none
//! ```

use crate::dialect;
use crate::fault::Done;
use crate::filter::Bound;
use std::fmt::Write as _;
use vnfm_core::query::VisibilityScope;

/// A list restricted by a scope.
#[derive(Debug, Clone, Copy)]
pub(crate) enum List {
    Instances,
    Ops,
    Packages,
    Snapshots,
    Links,
    Volumes,
    Subscriptions,
}

/// ` AND …` for the visible part of a list, and its values, numbered from `first`; empty if all of it is visible.
pub(crate) fn condition(
    list: List,
    scope: &VisibilityScope,
    first: usize,
) -> Done<(String, Vec<Bound>)> {
    let mut builder = ConditionBuilder {
        first,
        bound: Vec::new(),
        sql: String::new(),
    };
    if scope.is_unlimited() {
        return Ok((builder.sql, builder.bound));
    }
    match list {
        List::Instances => builder.instances(scope),
        List::Ops => {
            builder.sql +=
                " AND EXISTS (SELECT 1 FROM instances WHERE instances.id = ops.instance_id";
            builder.instances(scope);
            builder.sql += ")";
            let lived = "lived WHERE lived.op_id = ops.id";
            builder.is_only_in(lived, "lived.vim_id", &scope.vims);
            builder.is_only_in(lived, "lived.namespace", &scope.namespaces);
        }
        List::Packages => builder.is_among(&dialect::extract("info", &provider()), &scope.vendors),
        List::Links | List::Volumes => builder.sql += " AND 1 = 0",
        List::Snapshots | List::Subscriptions => {
            let same = builder.bind(serde_json::to_string(scope)?);
            let _ = write!(builder.sql, " AND sight = {same}"); // writing to a String cannot fail
        }
    }
    Ok((builder.sql, builder.bound))
}

/// A creator's scope, as stored; `None` if unrestricted.
pub(crate) fn stored(scope: &VisibilityScope) -> Done<Option<String>> {
    if scope.is_unlimited() {
        Ok(None)
    } else {
        Ok(Some(serde_json::to_string(scope)?))
    }
}

/// The path of the vendor in the document of an instance or package.
fn provider() -> String {
    dialect::member(dialect::ROOT, "vnfProvider")
}

struct ConditionBuilder {
    first: usize,
    bound: Vec<Bound>,
    sql: String,
}

impl ConditionBuilder {
    fn bind(&mut self, value: String) -> String {
        self.bound.push(Bound::Text(value));
        format!("${}", self.first + self.bound.len() - 1)
    }

    fn names(&mut self, names: &[String]) -> String {
        let bound: Vec<_> = names.iter().map(|name| self.bind(name.clone())).collect();
        bound.join(", ")
    }

    /// Requires that `value` is one of `names`, unless that is empty.
    fn is_among(&mut self, value: &str, names: &[String]) {
        if !names.is_empty() {
            let names = self.names(names);
            let _ = write!(self.sql, " AND {value} IN ({names})"); // writing to a String cannot fail
        }
    }

    /// The conditions on a row of `instances`.
    fn instances(&mut self, scope: &VisibilityScope) {
        self.is_among(
            &dialect::extract("instances.vnf", &provider()),
            &scope.vendors,
        );
        let uses = "uses WHERE uses.instance_id = instances.id";
        self.is_only_in(uses, "uses.vim_id", &scope.vims);
        self.is_only_in(uses, "COALESCE(uses.namespace, '')", &scope.namespaces);
    }

    /// Requires that no row of `rows` (a table with its condition) has a `value` outside `names`, unless that is empty.
    fn is_only_in(&mut self, rows: &str, value: &str, names: &[String]) {
        if !names.is_empty() {
            let names = self.names(names);
            // Writing to a String cannot fail.
            let _ = write!(
                self.sql,
                " AND NOT EXISTS (SELECT 1 FROM {rows} AND {value} NOT IN ({names}))"
            );
        }
    }
}
