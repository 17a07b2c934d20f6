//! Benchmark results and their table.

use comfy_table::{Table, presets};
use serde::Serialize;

/// One result of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured, as the table names it.
    pub name: String,
    /// The measured value, in `unit`.
    pub value: f64,
    /// Unit of the value, such as `ms`.
    pub unit: &'static str,
    /// Target: upper or lower bound; `None` if there is none.
    pub aim: Option<f64>,
    /// Whether the target is a lower bound.
    #[serde(skip)]
    pub least: bool,
    /// Whether the target is met; true without a target.
    pub holds: bool,
}

impl Figure {
    /// A result with an upper bound.
    pub fn at_most(aim: f64, name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            aim: Some(aim),
            least: false,
            holds: value <= aim,
        }
    }

    /// A result with a lower bound.
    pub fn at_least(aim: f64, name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            aim: Some(aim),
            least: true,
            holds: value >= aim,
        }
    }

    /// A result without a target.
    pub fn untargeted(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            aim: None,
            least: false,
            holds: true,
        }
    }
}

impl Figure {
    fn value_text(&self) -> String {
        format!("{:.2} {}", self.value, self.unit)
            .trim_end()
            .to_owned()
    }

    fn aim_text(&self) -> String {
        let sign = if self.least { "≥" } else { "≤" };
        let text = self.aim.map(|aim| format!("{sign} {aim} {}", self.unit));
        text.unwrap_or_default().trim_end().to_owned()
    }
}

/// One line about the figures that miss their aim, if there are any.
pub fn missed(figures: &[Figure]) -> Option<String> {
    let missed: Vec<_> = figures
        .iter()
        .filter(|figure| !figure.holds)
        .map(|figure| {
            let (value, aim) = (figure.value_text(), figure.aim_text());
            format!("{} is {value}, aim {aim}", figure.name)
        })
        .collect();
    let (count, all) = (missed.len(), figures.len());
    (count > 0).then(|| {
        format!(
            "{count} of {all} figures missed the aim: {}",
            missed.join("; ")
        )
    })
}

/// The results as a text table.
pub fn table(figures: &[Figure]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY)
        .set_header(["figure", "value", "aim", ""]);
    for figure in figures {
        let word = if figure.holds { "" } else { "MISSED" };
        table.add_row([
            figure.name.clone(),
            figure.value_text(),
            figure.aim_text(),
            word.into(),
        ]);
    }
    table.to_string()
}

/// The median of several measurements.
///
/// # Errors
/// If there is no value.
pub fn median(mut values: Vec<f64>) -> anyhow::Result<f64> {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len() / 2)
        .copied()
        .ok_or_else(|| anyhow::anyhow!("nothing was measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_aim_shows() {
        let figures = [
            Figure::at_most(2.0, "a", 1.0, "MiB"),
            Figure::at_most(2.0, "b", 3.0, "MiB"),
            Figure::untargeted("c", 4.0, "s"),
        ];
        assert_eq!(
            figures.clone().map(|figure| figure.holds),
            [true, false, true]
        );
        let text = table(&figures);
        assert_eq!(
            text.lines().filter(|line| line.contains("MISSED")).count(),
            1,
            "{text}"
        );
        assert!(
            text.lines()
                .any(|line| line.contains("3.00 MiB") && line.contains("MISSED")),
            "{text}"
        );
        let line = "1 of 3 figures missed the aim: b is 3.00 MiB, aim ≤ 2 MiB";
        assert_eq!(missed(&figures).as_deref(), Some(line));
        assert_eq!(missed(&figures[..1]), None);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(
            median(vec![9.0, 1.0, 5.0]).unwrap().to_bits(),
            5.0_f64.to_bits()
        );
        assert!(median(Vec::new()).is_err());
    }
}
