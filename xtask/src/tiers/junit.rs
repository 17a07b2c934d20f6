//! Counts passed, failed and skipped tests in nextest's `JUnit` report.

use anyhow::{Context, Result};

use super::Count;

/// Prefix of the line by which a test reports that it cannot run.
pub(crate) const SKIPPED: &str = "skipped: ";

/// Counts the test cases of the test programs that `is_selected` accepts.
///
/// # Errors
/// If it is not XML.
pub(crate) fn count(report: &str, is_selected: impl Fn(&str) -> bool) -> Result<Count> {
    let document =
        roxmltree::Document::parse(report).context("nextest's JUnit report is not XML")?;
    let mut count = Count::default();
    for case in document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"))
    {
        let program = case.attribute("classname").unwrap_or_default();
        if !is_selected(program) {
            continue;
        }
        let name = format!("{program} {}", case.attribute("name").unwrap_or_default());
        let has = |tag: &str| case.children().any(|child| child.has_tag_name(tag));
        if has("failure") || has("error") {
            count.failed += 1;
            count.failures.push(name);
        } else if let Some(reason) = reason(case) {
            count.skipped += 1;
            count.why.push(format!("{name}: {reason}"));
        } else if has("skipped") {
            count.skipped += 1;
            count.why.push(format!("{name}: ignored"));
        } else {
            count.passed += 1;
            // an attempt that failed before one that passed
            if has("flakyFailure") || has("flakyError") {
                count.unsteady.push(name);
            }
        }
    }
    Ok(count)
}

/// The reason for not running that the test printed.
fn reason(case: roxmltree::Node<'_, '_>) -> Option<String> {
    case.children()
        .filter(|child| child.has_tag_name("system-out") || child.has_tag_name("system-err"))
        .filter_map(|child| child.text())
        .flat_map(str::lines)
        .find_map(|line| Some(line.trim().strip_prefix(SKIPPED)?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_counted_once() {
        let report = r#"<testsuites><testsuite name="a">
            <testcase name="one" classname="a"/>
            <testcase name="two" classname="a"><failure type="x"/><system-out>skipped: not this</system-out></testcase>
            <testcase name="three" classname="a"><system-err>hm
              skipped: no schemas here</system-err></testcase>
            <testcase name="four" classname="a"><system-out>not skipped: a word</system-out></testcase>
            <testcase name="five" classname="a::live"/>
            <testcase name="six" classname="a"><flakyFailure type="x"><system-out>why</system-out></flakyFailure></testcase>
        </testsuite></testsuites>"#;
        let expected = Count {
            passed: 3,
            failed: 1,
            skipped: 1,
            why: vec!["a three: no schemas here".into()],
            failures: vec!["a two".into()],
            unsteady: vec!["a six".into()],
        };
        assert_eq!(count(report, |program| program == "a").unwrap(), expected);
        assert_eq!(
            count(report, |program| program == "a::live")
                .unwrap()
                .passed,
            1
        );
    }

    #[test]
    fn invalid_xml_is_an_error() {
        assert!(count("<testsuites>", |_| true).is_err());
    }
}
