//! What somebody sees of a list, as conditions of SQL beside those of its filter.
//!
//! ```text
//! instances      vnfProvider IN (…)  AND no row of `uses` with a VIM, or a namespace, outside of (…)
//! operations     the instance is there, and seen  AND no row of `lived` with a VIM, or a namespace, outside of (…)
//! packages       vnfProvider IN (…)
//! subscriptions  made by somebody who sees the same
//! ```

use crate::dialect;
use crate::fault::Done;
use crate::filter::Bound;
use std::fmt::Write as _;
use vnfm_core::query::VisibilityScope;

/// A list that somebody may see a part of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum List {
    Instances,
    Ops,
    Packages,
    Subscriptions,
}

/// ` AND …` for what is seen of a list, and its values, the first of which is number `first`; empty where everything is.
pub(crate) fn condition(
    list: List,
    sight: &VisibilityScope,
    first: usize,
) -> Done<(String, Vec<Bound>)> {
    let mut seen = Seen {
        first,
        bound: Vec::new(),
        sql: String::new(),
    };
    if sight.is_unlimited() {
        return Ok((seen.sql, seen.bound));
    }
    match list {
        List::Instances => seen.instances(sight),
        List::Ops => {
            seen.sql += " AND EXISTS (SELECT 1 FROM instances WHERE instances.id = ops.instance_id";
            seen.instances(sight);
            seen.sql += ")";
            let lived = "lived WHERE lived.op_id = ops.id";
            seen.is_only_in(lived, "lived.vim_id", &sight.vims);
            seen.is_only_in(lived, "lived.namespace", &sight.namespaces);
        }
        List::Packages => seen.is_among(&dialect::extract("info", &provider()), &sight.vendors),
        List::Subscriptions => {
            let same = seen.bind(serde_json::to_string(sight)?);
            let _ = write!(seen.sql, " AND sight = {same}"); // a String takes everything
        }
    }
    Ok((seen.sql, seen.bound))
}

/// How a subscription keeps what whoever made it sees.
pub(crate) fn stored(sight: &VisibilityScope) -> Done<Option<String>> {
    if sight.is_unlimited() {
        Ok(None)
    } else {
        Ok(Some(serde_json::to_string(sight)?))
    }
}

/// The way to the vendor in the document of an instance or a package.
fn provider() -> String {
    dialect::member(dialect::ROOT, "vnfProvider")
}

struct Seen {
    first: usize,
    bound: Vec<Bound>,
    sql: String,
}

impl Seen {
    fn bind(&mut self, value: String) -> String {
        self.bound.push(Bound::Text(value));
        format!("${}", self.first + self.bound.len() - 1)
    }

    fn names(&mut self, names: &[String]) -> String {
        let bound: Vec<_> = names.iter().map(|name| self.bind(name.clone())).collect();
        bound.join(", ")
    }

    /// That `value` is one of `names`; nothing where there are none.
    fn is_among(&mut self, value: &str, names: &[String]) {
        if !names.is_empty() {
            let names = self.names(names);
            let _ = write!(self.sql, " AND {value} IN ({names})"); // a String takes everything
        }
    }

    /// Of an instance, in the table of that name.
    fn instances(&mut self, sight: &VisibilityScope) {
        self.is_among(
            &dialect::extract("instances.vnf", &provider()),
            &sight.vendors,
        );
        let uses = "uses WHERE uses.instance_id = instances.id";
        self.is_only_in(uses, "uses.vim_id", &sight.vims);
        self.is_only_in(uses, "COALESCE(uses.namespace, '')", &sight.namespaces);
    }

    /// That none of `rows`, a table with its condition, has a `value` which is not one of `names`; nothing where there
    /// are none.
    fn is_only_in(&mut self, rows: &str, value: &str, names: &[String]) {
        if !names.is_empty() {
            let names = self.names(names);
            // A String takes everything.
            let _ = write!(
                self.sql,
                " AND NOT EXISTS (SELECT 1 FROM {rows} AND {value} NOT IN ({names}))"
            );
        }
    }
}
