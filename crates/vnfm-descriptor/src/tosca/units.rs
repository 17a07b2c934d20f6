//! TOSCA's scalars with units: sizes, times, frequencies and bit rates.

/// A size in bytes: `4 GB` is decimal, `4 GiB` binary; units are case-insensitive.
pub fn bytes(text: &str) -> Option<u64> {
    let factor = |unit: &str| match unit.to_ascii_lowercase().as_str() {
        "b" => Some(1_u64),
        "kb" => Some(1_000),
        "kib" => Some(1 << 10),
        "mb" => Some(1_000_000),
        "mib" => Some(1 << 20),
        "gb" => Some(1_000_000_000),
        "gib" => Some(1 << 30),
        "tb" => Some(1_000_000_000_000),
        "tib" => Some(1 << 40),
        _ => None,
    };
    let (number, unit) = split(text)?;
    let factor = factor(unit)?;
    if let Ok(value) = number.parse::<u64>() {
        return value.checked_mul(factor);
    }
    let value = crate::yaml::float(number).filter(|value| value.is_finite() && *value >= 0.0)?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "factors are powers of ten and two"
    )]
    let product = (value * factor as f64).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "checked to be in range"
    )]
    (product < u64::MAX as f64).then_some(product as u64)
}

/// Bytes as MiB, rounded up.
pub(super) fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Bytes as GiB, rounded up.
pub(super) fn gib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 30)
}

/// A time in seconds; the unit is required.
pub fn seconds(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "d" => 86_400.0,
        "h" => 3_600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    };
    crate::yaml::float(number)
        .map(|value| value * factor)
        .filter(|value| value.is_finite())
}

/// A frequency in hertz; units are case-insensitive.
pub(super) fn hertz(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "hz" => 1.0,
        "khz" => 1e3,
        "mhz" => 1e6,
        "ghz" => 1e9,
        _ => return None,
    };
    crate::yaml::float(number)
        .map(|value| value * factor)
        .filter(|value| value.is_finite())
}

/// A bit rate in bits per second: `Mbps` counts bits, `MBps` bytes, `Mibps` powers of two.
pub(super) fn bits_per_second(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let (prefix, bits) = match (unit.strip_suffix("bps"), unit.strip_suffix("Bps")) {
        (Some(prefix), _) => (prefix, 1.0),
        (None, Some(prefix)) => (prefix, 8.0),
        (None, None) => return None,
    };
    let factor = match prefix.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "ki" => 1_024.0,
        "m" => 1e6,
        "mi" => 1_048_576.0,
        "g" => 1e9,
        "gi" => 1_073_741_824.0,
        "t" => 1e12,
        "ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    let value = crate::yaml::float(number)? * bits * factor;
    (value.is_finite() && value >= 0.0).then_some(value)
}

fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let at = text.find(|c: char| c.is_ascii_alphabetic())?;
    Some((text[..at].trim(), text[at..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_with_units_are_parsed() {
        for (text, expected) in [
            ("512 MiB", Some(536_870_912)),
            ("4 GB", Some(4_000_000_000)),
            ("4GB", Some(4_000_000_000)),
            ("1.5 GiB", Some(1_610_612_736)),
            ("0 B", Some(0)),
            ("4", None),
            ("-1 GB", None),
            ("4 XB", None),
            ("99999999999 TB", None),
            ("GB", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        assert_eq!(
            (mib(4_000_000_000), gib(4_000_000_000), mib(1 << 20)),
            (3815, 4, 1)
        );
        assert_eq!(
            (
                seconds("10 m"),
                seconds("1500 ms"),
                seconds("3"),
                seconds("2 w")
            ),
            (Some(600.0), Some(1.5), None, None)
        );
        assert_eq!(
            (hertz("2.4 GHz"), hertz("2.4"), hertz("1 s")),
            (Some(2.4e9), None, None)
        );
        assert_eq!(
            (
                bits_per_second("10 Mbps"),
                bits_per_second("1 KiBps"),
                bits_per_second("1 Mb")
            ),
            (Some(1e7), Some(8_192.0), None)
        );
    }
}
