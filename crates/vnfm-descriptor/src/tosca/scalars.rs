//! TOSCA's timestamps, versions and ranges.

use crate::yaml::Node;
use std::cmp::Ordering;

/// The keyword for an open end of a range.
pub(super) const UNBOUNDED: &str = "UNBOUNDED";

/// A timestamp in seconds since 1970 UTC: a date, optionally with a time, optionally with a zone.
pub(super) fn timestamp(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10).unwrap_or((text, ""));
    let [year, month, day] = numbers(date, '-', &[4, 2, 2])?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if day < 1 || day > days {
        return None;
    }
    // Days since 1970, with years that start in March.
    let (years, months) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let date = 365 * years + years.div_euclid(4) - years.div_euclid(100)
        + years.div_euclid(400)
        + (153 * months + 2) / 5
        + day
        - 719_469;
    let time = time_of_day(rest)?;
    #[expect(clippy::cast_precision_loss, reason = "a date of four digits")]
    let seconds = (date * 86_400) as f64;
    Some(seconds + time)
}

/// `T10:00:00.5+02:00`, `10:00:00Z` after spaces, or nothing.
fn time_of_day(rest: &str) -> Option<f64> {
    if rest.is_empty() {
        return Some(0.0);
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?.trim();
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone_at);
    let (clock, fraction) = clock.trim().split_once('.').unwrap_or((clock.trim(), "0"));
    let [hour, minute, second] = numbers(clock, ':', &[2, 2, 2])?;
    let is_valid = hour < 24 && minute < 60 && second <= 60;
    if !is_valid || fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ahead = match zone {
        "" | "Z" | "z" => 0,
        _ => {
            let digits = zone[1..].to_owned();
            let digits = if digits.contains(':') {
                digits
            } else {
                format!("{digits}:00")
            };
            let [hours, minutes] = numbers(&digits, ':', &[2, 2])?;
            let ahead = (hours < 24 && minutes < 60).then_some(3_600 * hours + 60 * minutes)?;
            if zone.starts_with('-') { -ahead } else { ahead }
        }
    };
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    #[expect(clippy::cast_precision_loss, reason = "less than two days")]
    let seconds = (3_600 * hour + 60 * minute + second - ahead) as f64;
    Some(seconds + fraction)
}

/// `N` separated numbers, each with one digit up to the given maximum.
fn numbers<const N: usize>(text: &str, separator: char, digits: &[usize; N]) -> Option<[i64; N]> {
    let parts: Vec<&str> = text.split(separator).collect();
    if parts.len() != N {
        return None;
    }
    let mut all = [0; N];
    for ((part, max), number) in parts.iter().zip(digits).zip(&mut all) {
        let is_valid = (1..=*max).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        *number = is_valid.then(|| part.parse().ok())??;
    }
    Some(all)
}

/// A value of TOSCA's type `version`: `major.minor[.fix[.qualifier]][-build]`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version {
    numbers: [u64; 3],
    qualifier: Option<String>,
    build: u64,
}

impl Version {
    /// Parses `1.2`, `1.2.3`, `1.2.3.beta` or `1.2.3.beta-4`; also accepts a single number.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (text, build) = match text.rsplit_once('-') {
            Some((text, build)) => (text, digits(build)?),
            None => (text, 0),
        };
        let parts: Vec<&str> = text.splitn(4, '.').collect();
        let mut numbers = [0; 3];
        for (part, number) in parts.iter().zip(&mut numbers) {
            *number = digits(part)?;
        }
        let qualifier = match parts.get(3) {
            Some(text)
                if text.is_empty()
                    || !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') =>
            {
                return None;
            }
            other => other.map(|text| (*text).to_owned()),
        };
        Some(Version {
            numbers,
            qualifier,
            build,
        })
    }

    /// Compares the numbers, then the build; a version with a qualifier is lower than one without.
    /// `None` if the qualifiers differ.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        let numbers = self.numbers.cmp(&other.numbers);
        if numbers != Ordering::Equal {
            return Some(numbers);
        }
        match (&self.qualifier, &other.qualifier) {
            (None, Some(_)) => Some(Ordering::Greater),
            (Some(_), None) => Some(Ordering::Less),
            (own, others) => (own == others).then(|| self.build.cmp(&other.build)),
        }
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// A range `[low, high]`, where `low <= high` and either may be [`UNBOUNDED`].
pub(super) fn range(node: &Node) -> Option<(f64, f64)> {
    let [low, high] = node.items() else {
        return None;
    };
    let end = |node: &Node, open: f64| match node.as_str() {
        Some(UNBOUNDED) => Some(open),
        text => crate::yaml::float(text?),
    };
    let (low, high) = (end(low, f64::NEG_INFINITY)?, end(high, f64::INFINITY)?);
    (low <= high).then_some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_dates_with_or_without_a_time() {
        for (text, expected) in [
            ("1970-01-01", Some(0.0)),
            ("2001-12-14", Some(1_008_288_000.0)),
            ("2000-02-29T00:00:00Z", Some(951_782_400.0)),
            ("2001-12-15T02:59:43.5Z", Some(1_008_385_183.5)),
            ("2001-12-14t21:59:43.5-05:00", Some(1_008_385_183.5)),
            ("2001-12-14 21:59:43.5 -5", Some(1_008_385_183.5)),
            ("1999-02-29", None),
            ("2000-02-30", None),
            ("2001-13-01", None),
            ("2001-12-14T25:00:00Z", None),
            ("2001-12-14T", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(timestamp(text), expected, "{text}");
        }
    }

    #[test]
    fn versions_are_compared_number_by_number() {
        let compare = |a: &str, b: &str| Version::read(a)?.compare(&Version::read(b)?);
        assert_eq!(compare("1.10", "1.9"), Some(Ordering::Greater));
        assert_eq!(compare("2.0", "2.0.0"), Some(Ordering::Equal));
        assert_eq!(compare("1.0.0.beta", "1.0.0"), Some(Ordering::Less));
        assert_eq!(compare("1.0.0", "1.0.0.beta"), Some(Ordering::Greater));
        assert_eq!(
            compare("1.0.0.beta-2", "1.0.0.beta-10"),
            Some(Ordering::Less)
        );
        assert_eq!(compare("1.0.0.alpha", "1.0.0.beta"), None);
        for text in ["", "1.", "v1.0", "1.0.0.", "1.0-x", "1.0.0.a b"] {
            assert_eq!(Version::read(text), None, "{text}");
        }
    }
}
