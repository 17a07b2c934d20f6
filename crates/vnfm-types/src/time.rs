//! Timestamps in JSON: RFC 3339 in UTC, with at most six fractional digits.

use jiff::Timestamp;
use serde::{Serialize as _, Serializer};

/// Serializes with at most six fractional digits: some clients fail to parse nine.
pub(crate) fn micros<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let truncated = at.as_nanosecond() - at.as_nanosecond().rem_euclid(1000);
    Timestamp::from_nanosecond(truncated)
        .unwrap_or(*at)
        .serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::micros;
    use jiff::Timestamp;

    #[test]
    fn a_timestamp_has_at_most_six_fractional_digits() {
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
            let text = micros(&at, serde_json::value::Serializer).unwrap();
            assert_eq!(text, shown);
        }
    }
}
