//! What somebody allowed: `# vnfm-lint: allow CODE reason`.
//!
//! ```yaml
//! # vnfm-lint: allow W-LINK-UNUSED the request attaches machines of another VNF to it
//! spareVL:
//!   type: tosca.nodes.nfv.VnfVirtualLink      # vnfm-lint: allow CODE reason
//! ```
//! It holds for the line that it stands on, or else for the next line that is no comment.
//! `allow-file` holds for the whole file; in the entry file also for findings that are at no line,
//! and for files that have no comments, such as the manifest. Several codes have commas between
//! them. Errors cannot be allowed, since onboarding refuses them.

use super::{Allowed, Source};
use crate::finding::{CODES, Finding, Severity, Span, codes, sort};
use crate::path::has_extension;

const MARK: &str = "# vnfm-lint:";

/// One code that a comment allows.
struct Allow {
    code: String,
    reason: String,
    /// Where the comment is.
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
        let place = finding.span.as_ref();
        let same = place.is_some_and(|place| place.file == self.span.file);
        match self.scope {
            Scope::Line(line) => same && place.is_some_and(|place| place.line == line),
            Scope::File { entry } => {
                let mute = place.is_none_or(|place| place.line == 0 || !has_comments(&place.file));
                same || (entry && mute)
            }
        }
    }
}

/// Parts the findings into those that stay and those that are allowed.
pub(super) fn apply(
    source: &Source<'_>,
    entry: Option<&str>,
    findings: Vec<Finding>,
) -> (Vec<Finding>, Vec<Allowed>) {
    let mut stay = Vec::new();
    let mut allows = Vec::new();
    for path in source.paths.iter().filter(|path| has_comments(path)) {
        if let Some(text) = source.text(path).filter(|text| text.contains(MARK)) {
            read(path, &text, entry == Some(*path), (&mut allows, &mut stay));
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
            None => stay.push(finding),
        }
    }
    // A second allow for the same finding allows nothing more.
    for allow in allows.iter().filter(|allow| !allow.used) {
        let message = format!("nothing here is `{}`", allow.code);
        stay.push(
            Finding::new(codes::ALLOW_UNUSED, allow.span.clone(), message).hint("take it away"),
        );
    }
    sort(&mut stay);
    (stay, allowed)
}

fn has_comments(path: &str) -> bool {
    has_extension(path, &["yaml", "yml"])
}

fn read(path: &str, text: &str, entry: bool, (allows, stay): (&mut Vec<Allow>, &mut Vec<Finding>)) {
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some(at) = line.find(MARK) else { continue };
        let span = Span {
            file: path.into(),
            line: index + 1,
            column: line[..at].chars().count() + 1,
        };
        let said = line[at + MARK.len()..].trim();
        let (verb, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
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
                let message = format!("`{verb}` is not known");
                stay.push(
                    Finding::new(codes::ALLOW_CODE, span, message)
                        .hint("write `# vnfm-lint: allow CODE reason`"),
                );
                continue;
            }
        };
        one(rest, &span, scope, (allows, stay));
    }
}

/// `CODE[,CODE] reason`.
fn one(
    rest: &str,
    span: &Span,
    scope: Scope,
    (allows, stay): (&mut Vec<Allow>, &mut Vec<Finding>),
) {
    let (names, reason) = rest
        .trim()
        .split_once(char::is_whitespace)
        .unwrap_or((rest.trim(), ""));
    for code in names.split(',').map(str::trim) {
        let known = CODES.iter().any(|known| known.code == code);
        if !known || code.starts_with("E-") {
            let message = if known {
                format!("`{code}` is an error: onboarding refuses the package")
            } else {
                format!("`{code}` is no code")
            };
            let finding = Finding::new(codes::ALLOW_CODE, span.clone(), message);
            stay.push(if known {
                finding.hint("mend what it is about")
            } else {
                finding.did_you_mean(code, CODES.iter().map(|known| known.code))
            });
            continue;
        }
        if reason.trim().is_empty() {
            let finding = Finding::new(
                codes::ALLOW_REASON,
                span.clone(),
                format!("why is `{code}` allowed?"),
            );
            stay.push(finding.hint("write the reason behind the code"));
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
