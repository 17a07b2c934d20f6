//! One statement of a change, written once for two ways: run now, or put into a [`Batch`], which goes to the database in
//! one piece. The way to the thread that runs SQLite and back is two changes of thread, and costs more than most
//! statements do.
//!
//! A batch takes for granted that each condition holds; whoever runs it hears whether that was so. Where it was not, or
//! where a change has to look before it writes, the transaction is undone and done again statement by statement.

use super::Writing;
use crate::fault::{Done, Fault};
use futures::TryStreamExt as _;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{
    Arguments as _, AssertSqlSafe, Either, Encode, Executor as _, FromRow, Type, query_with,
};

/// The most statements of a batch. The database keeps what it has compiled, by the text of the whole batch: long ones
/// are rare, no two the same, and better run one by one.
const MOST: usize = 24;

/// What has to be true of a statement for those behind it to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Whatever,
    Change,
    Row,
    NoRow,
}

/// Statements that go to the database together.
#[derive(Default)]
pub(crate) struct Batch {
    sql: String,
    arguments: SqliteArguments,
    wanted: Vec<Wanted>,
}

impl Batch {
    /// One that begins the transaction.
    pub(crate) fn beginning() -> Self {
        let mut batch = Self::default();
        batch.push("BEGIN IMMEDIATE", 0, Wanted::Whatever);
        batch
    }

    /// Whether there is nothing to run.
    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Runs it; whether everything was as its changes took for granted.
    pub(crate) async fn holds(self, connection: &mut SqliteConnection) -> Done<bool> {
        let query = query_with(AssertSqlSafe(self.sql), self.arguments);
        let mut results = connection.fetch_many(query);
        let mut wanted = self.wanted.into_iter();
        let (mut rows, mut holds) = (0_u64, true);
        while let Some(result) = results.try_next().await? {
            let Either::Left(done) = result else {
                rows += 1;
                continue;
            };
            holds &= match wanted.next() {
                Some(Wanted::Change) => done.rows_affected() > 0,
                Some(Wanted::Row) => rows > 0,
                Some(Wanted::NoRow) => rows == 0,
                Some(Wanted::Whatever) => true,
                None => false,
            };
            rows = 0;
        }
        Ok(holds && wanted.next().is_none())
    }

    /// Adds `sql`, whose first value lies behind `before` others.
    fn push(&mut self, sql: &str, before: usize, wanted: Wanted) {
        for (place, part) in sql.split('$').enumerate() {
            if place == 0 {
                self.sql.push_str(part);
                continue;
            }
            let (number, rest) =
                part.split_at(part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len()));
            let number = number.parse::<usize>().unwrap_or_default() + before;
            self.sql.push('$');
            self.sql.push_str(&number.to_string());
            self.sql.push_str(rest);
        }
        self.sql.push(';');
        self.wanted.push(wanted);
    }
}

/// One statement, whose values are bound one after the other.
pub(crate) struct Statement<'w, 't> {
    writing: &'w mut Writing<'t>,
    sql: &'static str,
    arguments: SqliteArguments,
    before: usize,
    failed: Option<sqlx::error::BoxDynError>,
}

impl<'t> Writing<'t> {
    /// A statement of this transaction.
    pub(crate) fn statement<'w>(&'w mut self, sql: &'static str) -> Statement<'w, 't> {
        let batch = self.batch.as_mut();
        let arguments = batch.map(|batch| std::mem::take(&mut batch.arguments)).unwrap_or_default();
        let before = arguments.len();
        Statement { writing: self, sql, arguments, before, failed: None }
    }
}

/// A statement that runs now.
struct Ready<'w> {
    connection: &'w mut SqliteConnection,
    sql: &'static str,
    arguments: SqliteArguments,
}

impl<'w> Statement<'w, '_> {
    /// Binds the next value.
    pub(crate) fn bind<'v, T: Encode<'v, Sqlite> + Type<Sqlite>>(mut self, value: T) -> Self {
        if let Err(error) = self.arguments.add(value) {
            self.failed = Some(error);
        }
        self
    }

    /// Runs it, whatever it changes.
    pub(crate) async fn run(self) -> Done<()> {
        self.changes(Wanted::Whatever).await.map(drop)
    }

    /// Runs it; whether it changed a row, as a batch takes for granted.
    pub(crate) async fn changed(self) -> Done<bool> {
        self.changes(Wanted::Change).await
    }

    async fn changes(self, wanted: Wanted) -> Done<bool> {
        let Some(ready) = self.unless_in_batch(wanted)? else { return Ok(true) };
        let done = query_with(ready.sql, ready.arguments).execute(ready.connection).await?;
        Ok(done.rows_affected() > 0)
    }

    /// Runs it; whether it found a row, as a batch takes for granted.
    pub(crate) async fn found(self) -> Done<bool> {
        let Some(ready) = self.unless_in_batch(Wanted::Row)? else { return Ok(true) };
        let rows = query_with(ready.sql, ready.arguments).fetch_all(ready.connection).await?;
        Ok(!rows.is_empty())
    }

    /// Runs it; the rows that it found: none, as a batch takes for granted.
    pub(crate) async fn rows<R: for<'r> FromRow<'r, SqliteRow>>(self) -> Done<Vec<R>> {
        let Some(ready) = self.unless_in_batch(Wanted::NoRow)? else { return Ok(Vec::new()) };
        let rows = query_with(ready.sql, ready.arguments).fetch_all(ready.connection).await?;
        Ok(rows.iter().map(R::from_row).collect::<Result<_, _>>()?)
    }

    /// Puts it into the batch that is gathered; where none is, it is to run.
    fn unless_in_batch(self, wanted: Wanted) -> Done<Option<Ready<'w>>> {
        let Self { writing, sql, arguments, before, failed } = self;
        if let Some(error) = failed {
            return Err(sqlx::Error::Encode(error).into());
        }
        let Some(batch) = &mut writing.batch else {
            return Ok(Some(Ready { connection: &mut *writing.connection, sql, arguments }));
        };
        if batch.wanted.len() > MOST {
            return Err(Fault::NoBatch);
        }
        batch.arguments = arguments;
        batch.push(sql, before, wanted);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Wanted};

    #[test]
    fn values_are_numbered_through() {
        let mut batch = Batch::beginning();
        batch.push("SELECT $1, $12", 0, Wanted::Row);
        batch.push("UPDATE a SET b = $2 WHERE c = $1", 12, Wanted::Change);
        let sql = "BEGIN IMMEDIATE;SELECT $1, $12;UPDATE a SET b = $14 WHERE c = $13;";
        assert_eq!(batch.sql, sql);
        assert_eq!(batch.wanted, [Wanted::Whatever, Wanted::Row, Wanted::Change]);
    }
}
