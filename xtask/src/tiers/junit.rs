//! nextest's `JUnit` report, read for what passed, failed and said that it could not run.

use anyhow::{Context, Result};

use super::Count;

/// How a test says that it cannot run.
pub(crate) const SKIPPED: &str = "skipped: ";

/// Counts the report's test cases of these test programs.
///
/// # Errors
/// When it is not XML.
pub(crate) fn count(report: &str, is_meant: impl Fn(&str) -> bool) -> Result<Count> {
    let document =
        roxmltree::Document::parse(report).context("nextest's JUnit report is not XML")?;
    let mut count = Count::default();
    for case in document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"))
    {
        let program = case.attribute("classname").unwrap_or_default();
        if !is_meant(program) {
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
            // nextest's word for a try that did not hold before one that did
            if has("flakyFailure") || has("flakyError") {
                count.unsteady.push(name);
            }
        }
    }
    Ok(count)
}

/// What the test printed as its reason not to run.
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
    fn what_is_no_xml_is_an_error() {
        assert!(count("<testsuites>", |_| true).is_err());
    }
}
