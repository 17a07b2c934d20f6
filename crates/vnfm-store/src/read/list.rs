//! The queries for lists, page by page, with filter and visibility scope.

use crate::fault::Done;
use crate::filter::{Bound, Table, condition};
use crate::statement::{Query as Sql, Value};
use crate::visibility::{self, List};
use vnfm_core::query::Query;

/// A page of a list: `sql` gets the conditions of its filter and of the caller's visibility scope.
pub(super) fn list(
    (table, list): (&Table, List),
    tenant: &str,
    query: &Query,
    sql: impl FnOnce(&str) -> String,
) -> Done<Sql> {
    let (mut conditions, mut bound) = condition(table, &query.filter, FIRST);
    let (seen, more) = visibility::condition(list, &query.scope, FIRST + bound.len())?;
    conditions += &seen;
    bound.extend(more);
    Ok(Sql::new(sql(&conditions))
        .bind(tenant)
        .bind(query.after.as_deref().unwrap_or_default())
        .bind(limit(query.limit))
        .bind_all(bound.into_iter().map(Value::from)))
}

/// The number of the first value of a list's filter, after tenant, last id and limit.
const FIRST: usize = 4;

impl From<Bound> for Value {
    fn from(bound: Bound) -> Self {
        match bound {
            Bound::Text(text) => Self::Text(text),
            Bound::Whole(number) => Self::Integer(number),
            Bound::Real(number) => Self::Real(number),
        }
    }
}

/// A limit for SQL; 0 means unlimited.
pub(super) fn limit(most: usize) -> i64 {
    match most {
        0 => i64::MAX,
        most => i64::try_from(most).unwrap_or(i64::MAX),
    }
}
