//! `.helmignore`: the files of a chart's folder that helm leaves out when it packs the chart.
//!
//! | line | leaves out |
//! |---|---|
//! | `name` | files and folders of this name, wherever they are |
//! | `path/name`, `/name` | what has this path from the chart's folder |
//! | `name/` | only folders |
//! | `!name` | everything else: the rules before decide first |
//! | `# …` | nothing |
//!
//! `*` and `?` match no `/`; `[a-c]`, `[^a-c]` and `\*` are as in Go's `filepath.Match`; `**` is an error. The first rule that
//! decides wins. What is in a folder that is left out is left out. Files in `templates/` that begin with a dot always are.

/// Rules of one file; more are refused, since each is compared with each path.
const MAX_RULES: usize = 1000;
/// What helm always leaves out.
const DEFAULT_RULE: &str = "templates/.?*";

/// The rules of a `.helmignore`, in order.
#[derive(Debug, Default)]
pub(crate) struct IgnoreRules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    pattern: Vec<char>,
    is_negated: bool,
    only_folders: bool,
    /// Compared with the whole path; else with the name.
    has_path: bool,
}

impl IgnoreRules {
    /// Reads the text of a `.helmignore`; an empty one if there is no such file.
    ///
    /// # Errors
    /// The line that helm does not accept, or that there are too many.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let rules = lines.chain([DEFAULT_RULE]).map(Rule::read);
        let rules: Vec<Rule> = rules.take(MAX_RULES + 1).collect::<Result<_, _>>()?;
        if rules.len() > MAX_RULES {
            return Err(format!("it has {MAX_RULES} rules or more"));
        }
        Ok(Self(rules))
    }

    /// Whether a file is left out; `path` begins in the chart's folder.
    pub(crate) fn leaves_out(&self, path: &str) -> bool {
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        folders.into_iter().any(|folder| self.matches(folder, true)) || self.matches(path, false)
    }

    fn matches(&self, path: &str, is_folder: bool) -> bool {
        self.0
            .iter()
            .any(|rule| rule.matches(path, is_folder) != rule.is_negated)
    }
}

impl Rule {
    fn read(line: &str) -> Result<Self, String> {
        if line.contains("**") {
            return Err(format!("`{line}`: helm does not support `**`"));
        }
        let (is_negated, rest) = line
            .strip_prefix('!')
            .map_or((false, line), |rest| (true, rest));
        let (only_folders, rest) = rest
            .strip_suffix('/')
            .map_or((false, rest), |rest| (true, rest));
        let has_path = rest.contains('/');
        let pattern: Vec<char> = rest.strip_prefix('/').unwrap_or(rest).chars().collect();
        let mut at = 0;
        while at < pattern.len() {
            let (_, next) =
                piece(&pattern, at, None).ok_or_else(|| format!("`{line}` is no pattern"))?;
            at = next;
        }
        Ok(Self {
            pattern,
            is_negated,
            only_folders,
            has_path,
        })
    }

    fn matches(&self, path: &str, is_folder: bool) -> bool {
        if self.only_folders && !is_folder {
            return false;
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        let text: Vec<char> = if self.has_path { path } else { name }.chars().collect();
        is_match(&self.pattern, &text)
    }
}

/// Whether the pattern matches all of the text: linear in both, since only the last `*` has to be tried again.
fn is_match(pattern: &[char], text: &[char]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut last_star = None;
    while read < text.len() {
        if pattern.get(at) == Some(&'*') {
            at += 1;
            last_star = Some((at, read));
            continue;
        }
        match piece(pattern, at, Some(text[read])) {
            Some((true, next)) => (at, read) = (next, read + 1),
            _ => match last_star {
                Some((after, taken)) if text[taken] != '/' => {
                    last_star = Some((after, taken + 1));
                    (at, read) = (after, taken + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

/// Whether the piece of a pattern at `at` matches a character, and where the next piece begins; `None` at the end of the
/// pattern, or if the piece is not complete.
fn piece(pattern: &[char], at: usize, c: Option<char>) -> Option<(bool, usize)> {
    match *pattern.get(at)? {
        '?' => Some((c != Some('/'), at + 1)),
        '\\' => Some((c == Some(*pattern.get(at + 1)?), at + 2)),
        '[' => class(pattern, at + 1, c),
        literal => Some((c == Some(literal), at + 1)),
    }
}

/// A class of characters, from behind its `[`.
fn class(pattern: &[char], mut at: usize, c: Option<char>) -> Option<(bool, usize)> {
    let is_negated = pattern.get(at) == Some(&'^');
    at += usize::from(is_negated);
    let first = at;
    let mut found = false;
    while at == first || *pattern.get(at)? != ']' {
        let (low, after) = bound(pattern, at)?;
        let (high, after) = if pattern.get(after) == Some(&'-') {
            bound(pattern, after + 1)?
        } else {
            (low, after)
        };
        found |= c.is_some_and(|c| (low..=high).contains(&c));
        at = after;
    }
    Some((found != is_negated, at + 1))
}

/// One end of a range, and where it ends.
fn bound(pattern: &[char], at: usize) -> Option<(char, usize)> {
    match *pattern.get(at)? {
        '-' | ']' => None,
        '\\' => Some((*pattern.get(at + 1)?, at + 2)),
        literal => Some((literal, at + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_out(rules: &str, path: &str) -> bool {
        IgnoreRules::read(rules).unwrap().leaves_out(path)
    }

    #[test]
    fn files_are_left_out_as_helm_does() {
        for (rules, path, expected) in [
            ("", "templates/web.yaml", false),
            ("", "templates/.web.yaml.swp", true),
            ("# *.md\n\n", "README.md", false),
            ("*.md", "README.md", true),
            ("*.md", "docs/deep/README.md", true),
            ("docs/*.md", "docs/deep/README.md", false),
            ("/README.md", "README.md", true),
            ("/README.md", "docs/README.md", false),
            ("docs/", "docs/deep/README.md", true),
            ("docs/", "docs", false),
            ("docs", "docs/README.md", true),
            ("ci/values.yaml", "ci/values.yaml", true),
            ("v?lues.yaml", "values.yaml", true),
            ("a?b", "a/b", false),
            ("[a-c]*", "beta.txt", true),
            ("[^a-c]*", "beta.txt", false),
            ("\\*.md", "README.md", false),
            ("\\*.md", "*.md", true),
            ("*a*a*b", "aaaaaaaab", true),
            ("*a*a*b", "aaaaaaaac", false),
            ("!Chart.yaml", "values.yaml", true),
            ("!Chart.yaml", "Chart.yaml", false),
            ("  *.bak  ", "web.bak", true),
        ] {
            assert_eq!(left_out(rules, path), expected, "`{rules}` {path}");
        }
    }

    #[test]
    fn what_helm_does_not_accept_is_refused_by_its_line() {
        for wrong in ["a/**/b", "[a-", "[]", "a\\", "[-a]"] {
            let reason = IgnoreRules::read(wrong).unwrap_err();
            assert!(reason.contains(wrong), "{reason}");
        }
        let many = "a\n".repeat(MAX_RULES);
        assert!(
            IgnoreRules::read(&many)
                .unwrap_err()
                .contains("rules or more")
        );
    }

    #[test]
    fn a_pattern_with_many_stars_is_compared_in_linear_time() {
        let text = "a".repeat(50_000);
        assert!(!left_out(
            &format!("{}b", "*a".repeat(500).replace("**", "*")),
            &text
        ));
    }
}
