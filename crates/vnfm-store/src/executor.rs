//! Runs queries and statements on SQLite.

use crate::fault::{Done, Fault};
use crate::statement::{Expect, FromRow, FromValue, Query, Refusal, Row, Statement, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};
use vnfm_core::ports::StoreError;

/// All rows of a query. It runs to its end: a statement that is its own transaction may still fail after its last row.
pub(crate) fn rows(db: &Connection, query: &Query) -> Done<Vec<Row>> {
    let mut prepared = prepare(db, query)?;
    let columns = prepared.column_count();
    let mut found = prepared.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let values = (0..columns).map(|column| value_of(row.get_ref(column)?));
        rows.push(Row::new(values.collect::<Done<_>>()?));
    }
    Ok(rows)
}

/// All rows of a query, as tuples.
pub(crate) fn all<T: FromRow>(db: &Connection, query: &Query) -> Done<Vec<T>> {
    rows(db, query)?.into_iter().map(T::from_row).collect()
}

/// The first row of a query, if any.
pub(crate) fn first<T: FromRow>(db: &Connection, query: &Query) -> Done<Option<T>> {
    let first = rows(db, query)?.into_iter().next();
    first.map(T::from_row).transpose()
}

/// The first column of the first row, which must exist.
pub(crate) fn one<T: FromValue>(db: &Connection, query: &Query) -> Done<T> {
    let first: Option<(T,)> = first(db, query)?;
    first
        .map(|(value,)| value)
        .ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
}

/// Runs SQL that returns no rows; returns the number of changed rows.
pub(crate) fn execute(db: &Connection, query: &Query) -> Done<u64> {
    let changed = prepare(db, query)?.raw_execute()?;
    Ok(u64::try_from(changed).unwrap_or(u64::MAX))
}

/// Runs statements in order until the first refusal.
pub(crate) fn run_all(db: &Connection, statements: &[Statement]) -> Done<()> {
    statements
        .iter()
        .try_for_each(|statement| run(db, statement))
}

/// Runs a statement of the current transaction.
///
/// # Errors
///
/// Its refusal, or an error of the database.
pub(crate) fn run(db: &Connection, statement: &Statement) -> Done<()> {
    let ran = match &statement.expect {
        Expect::Anything => affected(db, &statement.query).map(drop),
        // A write transaction of SQLite excludes all others: what it read stays as it is.
        Expect::Rows(refusal) | Expect::HeldRows(refusal) => match affected(db, &statement.query) {
            Ok(true) => Ok(()),
            Ok(false) => refused(db, refusal),
            Err(fault) => Err(fault),
        },
        Expect::NoRows(explain) => match rows(db, &statement.query)? {
            found if found.is_empty() => Ok(()),
            found => Err(explain(found)?.into()),
        },
    };
    match (ran, &statement.duplicate) {
        (Err(fault), Some(refusal)) if fault.is_duplicate() => Err(refusal.clone().into()),
        (ran, _) => ran,
    }
}

/// Finds the reason why a statement affected no row; `Ok` if that is no reason to refuse.
fn refused(db: &Connection, refusal: &Refusal) -> Done<()> {
    for reason in &refusal.reasons {
        let found = rows(db, &reason.query)?;
        if !found.is_empty() {
            return Err((reason.explain)(found)?.into());
        }
    }
    let otherwise: Option<StoreError> = refusal.otherwise.clone();
    otherwise.map_or(Ok(()), |error| Err(error.into()))
}

/// True if it changed or found a row.
fn affected(db: &Connection, query: &Query) -> Done<bool> {
    let mut prepared = prepare(db, query)?;
    if prepared.column_count() == 0 {
        return Ok(prepared.raw_execute()? > 0);
    }
    drop(prepared);
    Ok(!rows(db, query)?.is_empty())
}

/// Runs `work` in a transaction that excludes other writers; rolled back if it fails.
pub(crate) fn transaction<T>(
    db: &Connection,
    work: impl FnOnce(&Connection) -> Done<T>,
) -> Done<T> {
    control(db, "BEGIN IMMEDIATE")?;
    finish(db, work(db))
}

/// Commits, or rolls back after a failure.
pub(crate) fn finish<T>(db: &Connection, outcome: Done<T>) -> Done<T> {
    let outcome = outcome.and_then(|done| control(db, "COMMIT").map(|()| done));
    // SQLite ends some transactions by itself, such as on a full disk.
    if outcome.is_err() && !db.is_autocommit() {
        let _ = control(db, "ROLLBACK");
    }
    outcome
}

/// Runs a statement that begins, ends or marks a transaction.
pub(crate) fn control(db: &Connection, sql: &'static str) -> Done<()> {
    db.prepare_cached(sql)?.raw_execute()?;
    Ok(())
}

/// Prepares a query and binds its values. SQLite numbers parameters by their first occurrence, so they are found by name.
fn prepare<'c>(db: &'c Connection, query: &Query) -> Done<CachedStatement<'c>> {
    let mut prepared = db.prepare_cached(&query.sql)?;
    for index in 1..=prepared.parameter_count() {
        let name = prepared.parameter_name(index).unwrap_or_default();
        let number: Option<usize> = name.strip_prefix('$').and_then(|name| name.parse().ok());
        let value = number.and_then(|number| query.values.get(number.checked_sub(1)?));
        let value = value.ok_or(rusqlite::Error::InvalidParameterCount(
            index,
            query.values.len(),
        ))?;
        prepared.raw_bind_parameter(index, value)?;
    }
    Ok(prepared)
}

fn value_of(column: ValueRef<'_>) -> Result<Value, Fault> {
    Ok(match column {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(
            std::str::from_utf8(bytes)
                .map_err(rusqlite::Error::from)?
                .to_owned(),
        ),
        ValueRef::Blob(_) => {
            let reason = "a column has binary data, which this store never writes";
            return Err(StoreError::Broken(reason.to_owned()).into());
        }
    })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::{all, one, run, transaction};
    use crate::fault::Fault;
    use crate::statement::{Query, Statement};
    use rusqlite::Connection;
    use vnfm_core::ports::StoreError;

    fn table() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, x TEXT); INSERT INTO t VALUES (1, 'one')",
        )
        .unwrap();
        db
    }

    fn refusal(text: &str) -> StoreError {
        StoreError::Broken(text.to_owned())
    }

    fn refused(outcome: Result<(), Fault>) -> StoreError {
        match outcome {
            Err(Fault::Port(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_value_goes_wherever_the_statement_names_it() {
        let db = table();
        let query = |one: i64, two: &str| {
            let query = Query::new("SELECT $2, $1, $2").bind(one).bind(two);
            all::<(String, i64, String)>(&db, &query.bind("of no use")).unwrap()
        };
        let expected = |one, two: &str| vec![(two.to_owned(), one, two.to_owned())];
        assert_eq!(query(1, "a"), expected(1, "a"));
        assert_eq!(query(2, "b"), expected(2, "b"));
    }

    #[test]
    fn a_row_or_a_value_that_has_to_be_there_is_missed() {
        let db = table();
        assert!(one::<i64>(&db, &Query::new("SELECT 1 WHERE 0")).is_err());
        assert_eq!(one::<i64>(&db, &Query::new("SELECT 1")).unwrap(), 1);
        let unbound = Query::new("SELECT $1, $2").bind(1_i64);
        assert!(one::<i64>(&db, &unbound).is_err(), "`$2` has no value");
    }

    #[test]
    fn a_statement_that_affects_too_little_or_too_much_is_refused_with_its_reason() {
        let db = table();
        let update = |id: i64| Statement::new("UPDATE t SET x = 'new' WHERE id = $1").bind(id);
        run(&db, &update(1).or(refusal("unused"))).unwrap();
        run(&db, &update(9)).unwrap();
        assert_eq!(
            refused(run(&db, &update(9).or(refusal("no row")))),
            refusal("no row")
        );
        let ask = |sql: &'static str| Query::new(sql).then(|_| Ok(refusal("asked")));
        let found = update(9).or(ask("SELECT 1"));
        assert_eq!(refused(run(&db, &found)), refusal("asked"));
        run(&db, &update(9).or(ask("SELECT 1 WHERE 0"))).unwrap();
        let select = || Statement::new("SELECT x FROM t");
        run(&db, &select().held_or(refusal("unused"))).unwrap();
        let some = select().none_or(|rows| Ok(refusal(&rows.len().to_string())));
        assert_eq!(refused(run(&db, &some)), refusal("1"));
    }

    #[test]
    fn a_duplicate_is_the_refusal_that_the_statement_names() {
        let db = table();
        let insert = || Statement::new("INSERT INTO t VALUES (1, 'again')");
        assert!(matches!(run(&db, &insert()), Err(Fault::Sql(_))));
        let named = insert().unless_duplicate(refusal("taken"));
        assert_eq!(refused(run(&db, &named)), refusal("taken"));
    }

    #[test]
    fn a_failed_transaction_leaves_nothing() {
        let db = table();
        let failed = transaction(&db, |db| {
            run(db, &Statement::new("DELETE FROM t"))?;
            run(
                db,
                &Statement::new("UPDATE t SET x = ''").or(refusal("no row")),
            )
        });
        assert_eq!(refused(failed), refusal("no row"));
        assert_eq!(
            one::<i64>(&db, &Query::new("SELECT COUNT(*) FROM t")).unwrap(),
            1
        );
    }
}
