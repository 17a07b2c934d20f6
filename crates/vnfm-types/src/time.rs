//! How points in time are spelt.

use jiff::Timestamp;
use serde::{Serialize as _, Serializer};

/// A point in time with at most six digits of a second: clients that know no more of RFC 3339 trip over nine.
pub(crate) fn micros<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = at.as_nanosecond() - at.as_nanosecond().rem_euclid(1000);
    Timestamp::from_nanosecond(whole)
        .unwrap_or(*at)
        .serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::micros;
    use jiff::Timestamp;

    #[test]
    fn there_are_at_most_six_digits_of_a_second() {
        for (at, shown) in [
            (
                "2026-03-04T05:06:07.123456789Z",
                "2026-03-04T05:06:07.123456Z",
            ),
            (
                "1969-12-31T23:59:59.999999999Z",
                "1969-12-31T23:59:59.999999Z",
            ),
            ("2026-03-04T05:06:07.5Z", "2026-03-04T05:06:07.5Z"),
            ("2026-03-04T05:06:07Z", "2026-03-04T05:06:07Z"),
        ] {
            let at: Timestamp = at.parse().unwrap();
            let spelt = micros(&at, serde_json::value::Serializer).unwrap();
            assert_eq!(spelt, shown);
        }
    }
}
