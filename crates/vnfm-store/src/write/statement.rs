//! One statement of a change, run synchronously in the writer thread: a round trip to another thread would cost more than
//! most statements.

use super::Writing;
use crate::fault::{Done, Fault};
use rusqlite::types::FromSql;
use rusqlite::{CachedStatement, Connection, Row, ToSql};

/// A statement whose values are bound in order, from `$1`.
pub(crate) struct Statement<'w> {
    prepared: Result<CachedStatement<'w>, rusqlite::Error>,
    bound: usize,
}

impl<'t> Writing<'t> {
    /// A statement of this transaction.
    pub(crate) fn statement(&self, sql: &'static str) -> Statement<'t> {
        Statement::on(self.db, sql)
    }
}

impl<'w> Statement<'w> {
    /// A statement in the current transaction, or in one of its own.
    pub(crate) fn on(db: &'w Connection, sql: &'static str) -> Self {
        Self {
            prepared: db.prepare_cached(sql),
            bound: 0,
        }
    }

    /// Binds the next value.
    pub(crate) fn bind(mut self, value: impl ToSql) -> Self {
        self.bound += 1;
        if let Ok(prepared) = &mut self.prepared
            && let Err(error) = bound(prepared, self.bound, value)
        {
            self.prepared = Err(error);
        }
        self
    }

    /// Runs it and ignores the number of changed rows.
    pub(crate) fn run(self) -> Done<()> {
        self.changed().map(drop)
    }

    /// Runs it; true if it changed a row.
    pub(crate) fn changed(self) -> Done<bool> {
        Ok(self.prepared?.raw_execute()? > 0)
    }

    /// Runs it to its end and returns all rows: a statement that is its own transaction may still fail after its last row.
    pub(crate) fn rows<R>(self) -> Done<Vec<R>>
    where
        R: for<'r> TryFrom<&'r Row<'r>, Error = rusqlite::Error>,
    {
        let mut prepared = self.prepared?;
        let rows = prepared.raw_query().mapped(|row| R::try_from(row));
        rows.collect::<Result<_, _>>().map_err(Fault::from)
    }

    /// Runs it; returns the first value of the first row, if any.
    pub(crate) fn value<T: FromSql>(self) -> Done<Option<T>> {
        Ok(self
            .rows::<(T,)>()?
            .into_iter()
            .next()
            .map(|(value,)| value))
    }

    /// Runs it; returns the first value of the first row, which must exist.
    pub(crate) fn one<T: FromSql>(self) -> Done<T> {
        self.value()?
            .ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }

    /// Runs it; true if it found a row.
    pub(crate) fn found(self) -> Done<bool> {
        Ok(self.value::<rusqlite::types::Value>()?.is_some())
    }
}

/// Binds `$number`, if the statement uses it.
fn bound(
    prepared: &mut CachedStatement<'_>,
    number: usize,
    value: impl ToSql,
) -> Result<(), rusqlite::Error> {
    match prepared.parameter_index(&format!("${number}"))? {
        Some(index) => prepared.raw_bind_parameter(index, value),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::Statement;
    use rusqlite::Connection;

    #[test]
    fn a_value_goes_wherever_the_statement_names_it() {
        let db = Connection::open_in_memory().unwrap();
        let sql = "SELECT $2, $1, $2";
        let statement = |one: i64, two: &str| {
            Statement::on(&db, sql)
                .bind(one)
                .bind(two)
                .bind("of no use")
                .rows::<(String, i64, String)>()
                .unwrap()
        };
        let expected = |one, two: &str| vec![(two.to_owned(), one, two.to_owned())];
        assert_eq!(statement(1, "a"), expected(1, "a"));
        assert_eq!(statement(2, "b"), expected(2, "b"));
    }

    #[test]
    fn a_row_that_has_to_be_there_is_missed() {
        let db = Connection::open_in_memory().unwrap();
        assert!(Statement::on(&db, "SELECT 1 WHERE 0").one::<i64>().is_err());
        assert_eq!(Statement::on(&db, "SELECT 1").one::<i64>().unwrap(), 1);
    }
}
