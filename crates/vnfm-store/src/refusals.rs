//! Refusals that several changes share, and how they are made out of rows.

use crate::fault::Done;
use crate::statement::{FromRow, Query, Reason, Row};
use vnfm_core::ports::StoreError;

pub(crate) fn absent(what: &'static str, id: &str) -> StoreError {
    StoreError::NotFound {
        what,
        id: id.to_owned(),
    }
}

pub(crate) fn exists(what: &'static str, id: &str) -> StoreError {
    StoreError::Exists {
        what,
        id: id.to_owned(),
    }
}

/// A refusal if the query finds a row, whatever is in it.
pub(crate) fn if_found(query: Query, error: StoreError) -> Reason {
    query.then(move |_| Ok(error.clone()))
}

/// The first row of an answer, which has at least one.
pub(crate) fn first<T: FromRow>(rows: Vec<Row>) -> Done<T> {
    let first = rows.into_iter().next();
    first.map_or_else(|| T::from_row(Row::new(Vec::new())), T::from_row)
}
