//! The project speaks plain English: words that only its founders understood do not come back.
//!
//! Two tables say what is rejected and what to write instead: one for the names that code defines, one for text that
//! somebody reads (comments, string literals, Markdown). `docs/glossary.md` lists the terms that are ours on purpose.

use vnfm_tests::sources::{Source, files};

const CODE: &[&str] = &["crates", "plugins", "xtask", "benches", "tests"];
const PAGES: &[&str] = &["docs"];

/// Parts of a `snake_case` or CamelCase name, and what to use instead.
const NAME_PARTS: &[(&str, &str)] = &[
    ("told", "notify, report, describe"),
    ("said", "message, output, response"),
    ("anew", "re-, again, from_scratch"),
    ("whoever", "caller, user, process"),
    ("amiss", "invalid, mismatch"),
    ("nought", "zero"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("opposite", "undo"),
    ("asked", "requested, query"),
    ("nursery", "pool"),
];

/// Whole names that had more than one meaning, or none that one would search for.
const NAMES: &[(&str, &str)] = &[
    ("Place", "Location, Position, Path"),
    ("Stand", "State, Snapshot"),
    ("Way", "Direction, Option"),
    ("Kept", "Stored, Cached"),
    ("Reading", "what it reads"),
    ("Trouble", "WaitState, Retry, Diagnostics"),
    ("Beside", "what runs there"),
    ("Story", "Installer, Scenario"),
    ("Sight", "Scope, Visibility"),
    ("Gets", "RoleGrant"),
    ("Nobody", "Noop…"),
    ("LAST_BREATH", "EXIT_GRACE"),
    ("LAST_WORDS", "STDERR_DRAIN_TIMEOUT"),
    ("HANDFUL", "BATCH_SIZE"),
    ("WAYS_BACK", "a hint"),
    ("IN_VAIN", "MAX_…_ATTEMPTS"),
    ("KNOCK", "PROBE_TIMEOUT"),
    ("LONGEST", "MAX_…"),
    ("PACE", "POLL_INTERVAL"),
    ("of", "from_…, for_…, or a noun"),
    ("whole", "complete, full"),
    ("gone", "deleted, is_missing"),
    ("meant", "target, expected"),
];

/// Phrases in text, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", "the caller, the user, the process that"),
    ("beside", "alongside, in addition to, next to"),
    ("anew", "again"),
    ("is told", "is notified, receives"),
    ("are told", "are notified, receive"),
    ("is said", "is reported"),
    ("that is none", "that is not one"),
    ("is no code", "unknown code"),
    ("for ever", "forever, indefinitely"),
    ("nought", "zero"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("in vain", "without success"),
    ("be it", "including"),
    ("of it nothing", "nothing of it"),
    ("where that are", "if"),
    ("take its resources away", "delete the VNF's resources"),
];

#[test]
fn code_defines_no_name_of_the_old_vocabulary() {
    let sources = files(CODE, ".rs").unwrap();
    assert!(sources.len() > 50, "the sources were not found");
    let found: Vec<_> = sources.iter().flat_map(old_names).collect();
    assert!(
        found.is_empty(),
        "{} names:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn text_uses_no_phrase_of_the_old_vocabulary() {
    let mut found = Vec::new();
    for source in files(CODE, ".rs").unwrap() {
        for (number, line) in source.text.lines().enumerate() {
            let (code, text) = split(line);
            drop(code);
            found.extend(old_phrases(&source, number + 1, &text));
        }
    }
    for source in files(PAGES, ".md").unwrap() {
        for (number, line) in source.text.lines().enumerate() {
            found.extend(old_phrases(&source, number + 1, line));
        }
    }
    assert!(
        found.is_empty(),
        "{} lines:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn the_check_sees_what_it_forbids() {
    let line = "    let told = \"it is told anew\"; // whoever asks";
    let source = Source {
        path: "x.rs".into(),
        text: line.into(),
    };
    assert_eq!(old_names(&source).len(), 1);
    let (_, text) = split(line);
    assert_eq!(old_phrases(&source, 1, &text).len(), 3);
    let fine = Source {
        path: "x.rs".into(),
        text: "fn untold(office: u8) {}".into(),
    };
    assert!(old_names(&fine).is_empty(), "parts of words are not words");
}

/// The names that a file defines and that are in a table, each with its position and what to use instead.
fn old_names(source: &Source) -> Vec<String> {
    // The tables of this file would find themselves.
    if source.path == file!() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in source.text.lines().enumerate() {
        let (code, _) = split(line);
        for name in defined(&code) {
            let parts = parts(&name);
            let by_part = NAME_PARTS
                .iter()
                .find(|(word, _)| parts.iter().any(|part| part == word));
            let old = NAMES.iter().find(|(word, _)| *word == name).or(by_part);
            if let Some((_, instead)) = old {
                found.push(format!(
                    "{}:{}: `{name}`: {instead}",
                    source.path,
                    number + 1
                ));
            }
        }
    }
    found
}

fn old_phrases(source: &Source, number: usize, text: &str) -> Vec<String> {
    if source.path == file!() {
        return Vec::new();
    }
    let words = format!(" {} ", words(text).join(" "));
    let hits = PHRASES
        .iter()
        .filter(|(phrase, _)| words.contains(&format!(" {phrase} ")));
    hits.map(|(phrase, instead)| format!("{}:{number}: \"{phrase}\": {instead}", source.path))
        .collect()
}

/// A line's code, and its text: comments and the insides of string literals.
fn split(line: &str) -> (String, String) {
    let (mut code, mut text) = (String::new(), String::new());
    let mut chars = line.chars().peekable();
    let mut quoted = false;
    while let Some(char) = chars.next() {
        match char {
            '\\' if quoted => {
                chars.next();
                text.push(' ');
            }
            '"' => {
                quoted = !quoted;
                text.push(' ');
                code.push(' ');
            }
            '/' if !quoted && chars.peek() == Some(&'/') => {
                text.extend(chars.by_ref());
            }
            _ if quoted => text.push(char),
            _ => code.push(char),
        }
    }
    (code, text)
}

/// The names that a line of code defines.
fn defined(code: &str) -> Vec<String> {
    const KEYWORDS: &[&str] = &[
        "fn", "struct", "enum", "trait", "const", "static", "mod", "type", "let", "mut",
    ];
    let tokens: Vec<_> = code
        .split(|char: char| !(char.is_alphanumeric() || char == '_'))
        .filter(|token| !token.is_empty())
        .collect();
    let pairs = tokens.windows(2).filter(|pair| KEYWORDS.contains(&pair[0]));
    pairs
        .map(|pair| pair[1].to_owned())
        .filter(|name| !KEYWORDS.contains(&name.as_str()))
        .collect()
}

/// `seen_by` and `SeenBy` as `seen`, `by`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for char in name.chars() {
        let begins = char == '_' || (char.is_uppercase() && was_lower);
        if begins {
            parts.push(String::new());
        }
        if char != '_' {
            parts.last_mut().unwrap().extend(char.to_lowercase());
        }
        was_lower = char.is_lowercase();
    }
    parts
}

/// The words of a text. Hyphens join words, so that flags such as `--beside` are not taken for words.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|char: char| !(char.is_alphanumeric() || matches!(char, '\'' | '-')));
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}
