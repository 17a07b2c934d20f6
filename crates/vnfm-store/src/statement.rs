//! What the store sends to a database, as data: pure functions make it, an executor runs it, and tests
//! read it without a database.
//!
//! ```text
//! Query      SQL, values                                                      ─► rows
//! Statement  SQL, values, the rows that it must affect, the refusal if not    ─► done, or the refusal
//! ```
//! The statements of one transaction are serialisable: a condition that reads other rows holds until the commit. On
//! SQLite the transaction excludes every other writer; PostgreSQL must run it as SERIALIZABLE. Nothing may hold
//! only because one thread writes.

use crate::fault::Done;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use vnfm_core::ports::StoreError;

mod row;
pub(crate) use row::{FromRow, FromValue, Row};

/// A value of a statement or of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

/// SQL that returns rows. `$1` is the first value, wherever it occurs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    pub(crate) sql: Cow<'static, str>,
    pub(crate) values: Vec<Value>,
}

/// SQL that changes rows or checks a condition.
pub(crate) struct Statement {
    pub(crate) query: Query,
    pub(crate) expect: Expect,
    /// The refusal if a unique constraint rejects the rows.
    pub(crate) duplicate: Option<StoreError>,
}

/// What a statement must affect.
pub(crate) enum Expect {
    /// Any number of rows, also none.
    Anything,
    /// At least one row, else the refusal.
    Rows(Refusal),
    /// At least one row, which nobody else changes before the commit. A database whose transactions do not exclude each
    /// other must lock it (`FOR UPDATE`).
    HeldRows(Refusal),
    /// No row: the function makes the refusal out of those found.
    NoRows(Explain),
}

/// Makes a refusal out of rows.
pub(crate) type Explain = Box<dyn Fn(Vec<Row>) -> Done<StoreError> + Send>;

/// Why a statement affected no row.
pub(crate) struct Refusal {
    /// Questions in order: the first one that finds rows has the reason.
    pub(crate) reasons: Vec<Reason>,
    /// The refusal if no question finds rows; `None`: the statement had nothing to do, which is fine.
    pub(crate) otherwise: Option<StoreError>,
}

/// A question to the database, and the refusal that follows from its rows.
pub(crate) struct Reason {
    pub(crate) query: Query,
    pub(crate) explain: Explain,
}

impl Query {
    pub(crate) fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self {
            sql: sql.into(),
            values: Vec::new(),
        }
    }

    /// Binds the next placeholder, from `$1` on.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Binds the next placeholders, in this order.
    pub(crate) fn bind_all(mut self, values: impl IntoIterator<Item = Value>) -> Self {
        self.values.extend(values);
        self
    }

    /// The reason for a refusal, if this finds rows.
    pub(crate) fn then(
        self,
        explain: impl Fn(Vec<Row>) -> Done<StoreError> + Send + 'static,
    ) -> Reason {
        Reason {
            query: self,
            explain: Box::new(explain),
        }
    }
}

impl Statement {
    pub(crate) fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self {
            query: Query::new(sql),
            expect: Expect::Anything,
            duplicate: None,
        }
    }

    /// Binds the next placeholder, from `$1` on.
    pub(crate) fn bind(mut self, value: impl Into<Value>) -> Self {
        self.query = self.query.bind(value);
        self
    }

    /// Requires at least one row.
    pub(crate) fn or(self, refusal: impl Into<Refusal>) -> Self {
        Self {
            expect: Expect::Rows(refusal.into()),
            ..self
        }
    }

    /// Requires at least one row that stays as it is until the commit.
    pub(crate) fn held_or(self, refusal: impl Into<Refusal>) -> Self {
        Self {
            expect: Expect::HeldRows(refusal.into()),
            ..self
        }
    }

    /// Requires that there is no row.
    pub(crate) fn none_or(
        self,
        explain: impl Fn(Vec<Row>) -> Done<StoreError> + Send + 'static,
    ) -> Self {
        Self {
            expect: Expect::NoRows(Box::new(explain)),
            ..self
        }
    }

    /// The refusal if a unique constraint rejects the rows.
    pub(crate) fn unless_duplicate(self, refusal: StoreError) -> Self {
        Self {
            duplicate: Some(refusal),
            ..self
        }
    }
}

impl Refusal {
    /// Adds a question after the others.
    pub(crate) fn unless(mut self, reason: Reason) -> Self {
        self.reasons.push(reason);
        self
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self {
            reasons: Vec::new(),
            otherwise: Some(error),
        }
    }
}

impl From<Reason> for Refusal {
    /// Without rows there is no refusal.
    fn from(reason: Reason) -> Self {
        Self {
            reasons: vec![reason],
            otherwise: None,
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

/// Counts above the database's range become its largest number.
impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Integer(truth.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<&Option<String>> for Value {
    fn from(text: &Option<String>) -> Self {
        text.as_ref().map_or(Self::Null, Into::into)
    }
}

/// Parses JSON that the database stores.
pub(crate) fn json<T: DeserializeOwned>(stored: &str) -> Done<T> {
    Ok(serde_json::from_str(stored)?)
}
