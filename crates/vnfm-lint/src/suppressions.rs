//! Comments that allow a finding: `# vnfm-lint: allow CODE reason`.
//!
//! ```yaml
//! # vnfm-lint: allow W-LINK-UNUSED the request attaches machines of another VNF to it
//! spareVL:
//!   type: tosca.nodes.nfv.VnfVirtualLink      # vnfm-lint: allow CODE reason
//! ```
//! A comment at the end of a line applies to that line; on its own line, to the next line that is not
//! a comment. `allow-file` applies to the entire file; in the entry file, also to findings without a
//! line and to files that cannot have comments, such as the manifest. Several codes are separated by
//! commas. Errors cannot be allowed, since onboarding refuses them.

use crate::explain::{EXPLANATIONS, codes};
use crate::report::Allowed;
use crate::source::Source;
use vnfm_descriptor::raw::{has_extension, sort};
use vnfm_descriptor::{Finding, Severity, Span};

const MARK: &str = "# vnfm-lint:";

/// One code that a comment allows.
struct Allow {
    code: String,
    reason: String,
    span: Span,
    scope: Scope,
    used: bool,
}

#[derive(Clone, Copy)]
enum Scope {
    Line(usize),
    File { entry: bool },
}

impl Allow {
    fn covers(&self, finding: &Finding) -> bool {
        if self.code != finding.code || finding.severity == Severity::Error {
            return false;
        }
        let span = finding.span.as_ref();
        let same_file = span.is_some_and(|span| span.file == self.span.file);
        match self.scope {
            Scope::Line(line) => same_file && span.is_some_and(|span| span.line == line),
            Scope::File { entry } => {
                let no_comment_possible =
                    span.is_none_or(|span| span.line == 0 || !has_comments(&span.file));
                same_file || (entry && no_comment_possible)
            }
        }
    }
}

/// Splits the findings into those that remain and those that a comment allows; adds findings about the comments.
pub(crate) fn apply(
    source: &Source<'_>,
    entry: Option<&str>,
    findings: Vec<Finding>,
) -> (Vec<Finding>, Vec<Allowed>) {
    let mut remaining = Vec::new();
    let mut allows = Vec::new();
    for path in source.paths.iter().filter(|path| has_comments(path)) {
        if let Some(text) = source.text(path).filter(|text| text.contains(MARK)) {
            read(
                path,
                &text,
                entry == Some(*path),
                (&mut allows, &mut remaining),
            );
        }
    }
    let mut allowed = Vec::new();
    for finding in findings {
        match allows.iter_mut().find(|allow| allow.covers(&finding)) {
            Some(allow) => {
                allow.used = true;
                allowed.push(Allowed {
                    finding,
                    reason: allow.reason.clone(),
                });
            }
            None => remaining.push(finding),
        }
    }
    // Of two comments for the same finding, the second is unused.
    for allow in allows.iter().filter(|allow| !allow.used) {
        let message = format!("no finding here has the code `{}`", allow.code);
        remaining.push(
            Finding::new(codes::ALLOW_UNUSED, allow.span.clone(), message)
                .hint("delete this comment"),
        );
    }
    sort(&mut remaining);
    (remaining, allowed)
}

fn has_comments(path: &str) -> bool {
    has_extension(path, &["yaml", "yml"])
}

fn read(
    path: &str,
    text: &str,
    entry: bool,
    (allows, remaining): (&mut Vec<Allow>, &mut Vec<Finding>),
) {
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some(at) = line.find(MARK) else { continue };
        let span = Span {
            file: path.into(),
            line: index + 1,
            column: line[..at].chars().count() + 1,
        };
        let text = line[at + MARK.len()..].trim();
        let (verb, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let own_line = line[..at].trim().is_empty();
        let next = || {
            let comment = |line: &&str| line.trim().is_empty() || line.trim().starts_with('#');
            index
                + 1
                + lines[index + 1..]
                    .iter()
                    .take_while(|line| comment(line))
                    .count()
                + 1
        };
        let scope = match verb {
            "allow-file" => Scope::File { entry },
            "allow" => Scope::Line(if own_line { next() } else { index + 1 }),
            _ => {
                let message = format!("unknown lint comment `{verb}`");
                remaining.push(
                    Finding::new(codes::ALLOW_CODE, span, message)
                        .hint("write `# vnfm-lint: allow CODE reason`"),
                );
                continue;
            }
        };
        parse_allow(rest, &span, scope, (allows, remaining));
    }
}

/// Parses the text after the marker: `CODE[,CODE] reason`.
fn parse_allow(
    rest: &str,
    span: &Span,
    scope: Scope,
    (allows, remaining): (&mut Vec<Allow>, &mut Vec<Finding>),
) {
    let (names, reason) = rest
        .trim()
        .split_once(char::is_whitespace)
        .unwrap_or((rest.trim(), ""));
    for code in names.split(',').map(str::trim) {
        let known = EXPLANATIONS.iter().any(|known| known.code == code);
        if !known || code.starts_with("E-") {
            let message = if known {
                format!(
                    "`{code}` is an error and cannot be allowed: onboarding refuses the package"
                )
            } else {
                format!("unknown lint code `{code}`")
            };
            let finding = Finding::new(codes::ALLOW_CODE, span.clone(), message);
            remaining.push(if known {
                finding.hint("fix the error")
            } else {
                finding.did_you_mean(code, EXPLANATIONS.iter().map(|known| known.code))
            });
            continue;
        }
        if reason.trim().is_empty() {
            let finding = Finding::new(
                codes::ALLOW_REASON,
                span.clone(),
                format!("the comment that allows `{code}` gives no reason"),
            );
            remaining.push(finding.hint("add the reason after the code"));
            continue;
        }
        allows.push(Allow {
            code: code.to_owned(),
            reason: reason.trim().to_owned(),
            span: span.clone(),
            scope,
            used: false,
        });
    }
}
