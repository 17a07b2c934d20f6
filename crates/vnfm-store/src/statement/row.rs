//! Rows of a database, read column by column.

use super::{Value, json};
use crate::fault::{Done, Fault};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use vnfm_core::ports::StoreError;

/// A row; its columns are taken from left to right.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Value>);

/// A type that can be read from one column.
pub(crate) trait FromValue: Sized {
    /// `None` if the value has another type.
    fn from_value(value: Value) -> Option<Self>;
}

/// Read from the first columns of a row.
pub(crate) trait FromRow: Sized {
    fn from_row(row: Row) -> Done<Self>;
}

impl Row {
    pub(crate) fn new(columns: Vec<Value>) -> Self {
        Self(columns.into_iter())
    }

    /// Takes the next column, from left to right.
    pub(crate) fn take<T: FromValue>(&mut self) -> Done<T> {
        let value = self.0.next();
        value
            .and_then(T::from_value)
            .ok_or_else(|| broken("a column is missing or has the wrong type".to_owned()))
    }

    /// The next column, which is JSON.
    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Done<T> {
        json(&self.take::<String>()?)
    }

    /// The next column, which is JSON or null.
    pub(crate) fn some_json<T: DeserializeOwned>(&mut self) -> Done<Option<T>> {
        let stored: Option<String> = self.take()?;
        stored.as_deref().map(json).transpose()
    }

    /// The next column, a count; a negative one is 0.
    pub(crate) fn count(&mut self) -> Done<u64> {
        Ok(u64::try_from(self.take::<i64>()?).unwrap_or_default())
    }

    /// The next column, a time.
    pub(crate) fn time(&mut self) -> Done<Timestamp> {
        time(&self.take::<String>()?)
    }

    /// The next column, a time or null.
    pub(crate) fn some_time(&mut self) -> Done<Option<Timestamp>> {
        let stored: Option<String> = self.take()?;
        stored.as_deref().map(time).transpose()
    }
}

fn time(stored: &str) -> Done<Timestamp> {
    stored
        .parse()
        .map_err(|error| broken(format!("`{stored}` is not a time: {error}")))
}

fn broken(reason: String) -> Fault {
    StoreError::Broken(reason).into()
}

impl FromValue for String {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text),
            Value::Null | Value::Integer(_) | Value::Real(_) => None,
        }
    }
}

impl FromValue for i64 {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(number),
            Value::Null | Value::Real(_) | Value::Text(_) => None,
        }
    }
}

impl FromValue for bool {
    fn from_value(value: Value) -> Option<Self> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            other => T::from_value(other).map(Some),
        }
    }
}

impl FromRow for Row {
    fn from_row(row: Row) -> Done<Self> {
        Ok(row)
    }
}

macro_rules! from_row_for_tuples {
    ($(($($column:ident),+);)+) => {$(
        impl<$($column: FromValue),+> FromRow for ($($column,)+) {
            fn from_row(mut row: Row) -> Done<Self> {
                Ok(($(row.take::<$column>()?,)+))
            }
        }
    )+};
}

from_row_for_tuples! {
    (A);
    (A, B);
    (A, B, C);
    (A, B, C, D);
    (A, B, C, D, E);
    (A, B, C, D, E, F);
    (A, B, C, D, E, F, G);
}

#[cfg(test)]
mod tests {
    use super::{FromRow as _, Row};
    use crate::statement::Value;

    #[test]
    fn columns_are_read_in_order_and_by_type() {
        let row = || {
            Row::new(vec![
                Value::Text("a".into()),
                Value::Integer(-7),
                Value::Null,
            ])
        };
        let (text, number, nothing): (String, i64, Option<String>) = <_>::from_row(row()).unwrap();
        assert_eq!((&*text, number, nothing), ("a", -7, None));
        assert!(<(i64,)>::from_row(row()).is_err(), "a text is no number");
        assert!(
            <(String, i64, Option<i64>, i64)>::from_row(row()).is_err(),
            "there is no fourth column"
        );
        let mut row = row();
        let _: String = row.take().unwrap();
        assert_eq!(row.count().unwrap(), 0);
    }
}
