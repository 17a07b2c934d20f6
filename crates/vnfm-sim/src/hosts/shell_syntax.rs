//! The shell's syntax: words, quotes, variables, operators, redirections.

use std::collections::BTreeMap;

/// On which exit code the next command runs.
#[derive(Clone, Copy)]
pub(super) enum Connector {
    Always,
    IfOk,
    IfNot,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(Vec<Part>),
    Operator(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Variable(String),
}

const OPERATORS: &[&str] = &[
    "&&", "||", "2>>", "2>&1", "2>", ">>", ">&2", ">", "<", ";", "|", "\n",
];

/// Splits a script into tokens; an error for syntax that is not simulated.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut word: Option<Vec<Part>> = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at_start = word.is_none();
        let operator = OPERATORS.iter().find(|o| rest.starts_with(**o));
        let operator = operator.filter(|o| at_start || !o.starts_with('2'));
        if let Some(operator) = operator {
            tokens.extend(word.take().map(Token::Word));
            tokens.push(Token::Operator(operator));
            rest = &rest[operator.len()..];
            continue;
        }
        rest = match c {
            ' ' | '\t' => {
                tokens.extend(word.take().map(Token::Word));
                &rest[1..]
            }
            '#' if at_start => rest.find('\n').map_or("", |end| &rest[end..]),
            '&' => return Err("Syntax error: \"&\" unexpected (not simulated)".into()),
            '`' => return Err("command substitution is not simulated".into()),
            _ => word_part(rest, word.get_or_insert_default())?,
        };
    }
    tokens.extend(word.map(Token::Word));
    Ok(tokens)
}

/// Consumes one part of a word and returns the remaining text.
fn word_part<'a>(rest: &'a str, word: &mut Vec<Part>) -> Result<&'a str, String> {
    let mut chars = rest.chars();
    match chars.next() {
        Some('\'') => {
            let end = rest[1..].find('\'').ok_or("Unterminated quoted string")? + 1;
            word.push(Part::Text(rest[1..end].to_owned()));
            Ok(&rest[end + 1..])
        }
        Some('"') => double_quoted(&rest[1..], word),
        Some('\\') => {
            if let Some(c) = chars.next().filter(|c| *c != '\n') {
                word.push(Part::Text(c.to_string()));
            }
            Ok(chars.as_str())
        }
        Some('$') => variable(rest, word),
        Some(c) => {
            word.push(Part::Text(c.to_string()));
            Ok(chars.as_str())
        }
        None => Ok(rest),
    }
}

fn double_quoted<'a>(mut rest: &'a str, word: &mut Vec<Part>) -> Result<&'a str, String> {
    word.push(Part::Text(String::new()));
    loop {
        let mut chars = rest.chars();
        match chars.next().ok_or("Unterminated quoted string")? {
            '"' => return Ok(chars.as_str()),
            '$' => rest = variable(rest, word)?,
            '\\' => {
                let c = chars.next().ok_or("Unterminated quoted string")?;
                if !matches!(c, '"' | '\\' | '$' | '`') {
                    word.push(Part::Text('\\'.to_string()));
                }
                word.push(Part::Text(c.to_string()));
                rest = chars.as_str();
            }
            c => {
                word.push(Part::Text(c.to_string()));
                rest = chars.as_str();
            }
        }
    }
}

fn variable<'a>(rest: &'a str, word: &mut Vec<Part>) -> Result<&'a str, String> {
    let after = &rest[1..];
    if after.starts_with('(') {
        return Err("command substitution is not simulated".into());
    }
    if let Some(braced) = after.strip_prefix('{') {
        let end = braced.find('}').ok_or("Bad substitution")?;
        word.push(Part::Variable(braced[..end].to_owned()));
        return Ok(&braced[end + 1..]);
    }
    let end = after
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(after.len());
    word.push(match &after[..end] {
        "" => Part::Text("$".into()),
        name => Part::Variable(name.to_owned()),
    });
    Ok(&after[end..])
}

/// The pipelines, each with the connector to the next one.
pub(super) fn commands(tokens: Vec<Token>) -> Vec<(Vec<Token>, Connector)> {
    let mut all = Vec::new();
    let mut command = Vec::new();
    for token in tokens {
        let connector = match token {
            Token::Operator(";" | "\n") => Connector::Always,
            Token::Operator("&&") => Connector::IfOk,
            Token::Operator("||") => Connector::IfNot,
            token => {
                command.push(token);
                continue;
            }
        };
        // A line that ends in an operator continues on the next line.
        if !(command.is_empty() && matches!(connector, Connector::Always)) {
            all.push((std::mem::take(&mut command), connector));
        }
    }
    all.push((command, Connector::Always));
    all
}

/// A command with its redirections and expanded variables.
#[derive(Debug, Default)]
pub(super) struct SimpleCommand {
    pub(super) argv: Vec<String>,
    pub(super) assigned: BTreeMap<String, String>,
    pub(super) from: Option<String>,
    /// Path, whether to append, whether it redirects standard error.
    pub(super) to: Vec<(String, bool, bool)>,
    pub(super) merge: bool,
}

impl SimpleCommand {
    pub(super) fn parse(
        tokens: &[Token],
        variables: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let mut simple = Self::default();
        let mut tokens = tokens.iter();
        while let Some(token) = tokens.next() {
            let operator = match token {
                Token::Word(parts) => {
                    simple.word(parts, variables);
                    continue;
                }
                Token::Operator(operator) => *operator,
            };
            if operator == "2>&1" {
                simple.merge = true;
                continue;
            }
            if operator == ">&2" {
                simple.to.push(("/dev/stderr".into(), true, false));
                continue;
            }
            let Some(Token::Word(parts)) = tokens.next() else {
                return Err("Syntax error: redirection unexpected".into());
            };
            let path = expand(parts, variables);
            match operator {
                "<" => simple.from = Some(path),
                _ => simple
                    .to
                    .push((path, operator.ends_with(">>"), operator.starts_with('2'))),
            }
        }
        Ok(simple)
    }

    fn word(&mut self, parts: &[Part], variables: &BTreeMap<String, String>) {
        let word = expand(parts, variables);
        let name = word.split_once('=').map(|(name, _)| name.to_owned());
        let assigns = self.argv.is_empty()
            && name.as_ref().is_some_and(|name| {
                !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            });
        match name.filter(|_| assigns) {
            Some(name) => {
                let value = word[name.len() + 1..].to_owned();
                self.assigned.insert(name, value);
            }
            // An unquoted empty variable expands to no word.
            None if word.is_empty() && matches!(parts, [Part::Variable(_)]) => {}
            None => self.argv.push(word),
        }
    }
}

fn expand(parts: &[Part], variables: &BTreeMap<String, String>) -> String {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Variable(name) => variables.get(name).map_or("", String::as_str),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Part, SimpleCommand, commands, tokens};
    use std::collections::BTreeMap;

    fn argvs(text: &str) -> Vec<Vec<String>> {
        let variables = BTreeMap::from([("NAME".to_owned(), "a b".to_owned())]);
        let all = commands(tokens(text).unwrap());
        let parse = |t: &Vec<_>| SimpleCommand::parse(t, &variables).unwrap().argv;
        all.iter()
            .map(|(tokens, _)| parse(tokens))
            .filter(|argv| !argv.is_empty())
            .collect()
    }

    #[test]
    fn words_are_split_as_in_a_shell() {
        assert_eq!(
            argvs("echo 'a  b' \"c $NAME\" d\\ e"),
            [["echo", "a  b", "c a b", "d e"]]
        );
        assert_eq!(
            argvs("a && b; c # d\ne"),
            [vec!["a"], vec!["b"], vec!["c"], vec!["e"]]
        );
        assert_eq!(argvs(r"sh -c 'echo '\''x'\'''"), [["sh", "-c", "echo 'x'"]]);
        assert_eq!(argvs("X=1 Y=${NAME} cmd"), [["cmd"]]);
    }

    #[test]
    fn redirections_are_not_arguments() {
        let words = tokens("cmd x2>y 2>&1 >/tmp/z </etc/w").unwrap();
        let simple = SimpleCommand::parse(&words, &BTreeMap::new()).unwrap();
        assert_eq!(simple.argv, ["cmd", "x2"]);
        assert!(simple.merge);
        assert_eq!(simple.to.len(), 2);
        assert_eq!(simple.from.as_deref(), Some("/etc/w"));
    }

    #[test]
    fn unsupported_syntax_is_an_error() {
        assert!(tokens("echo $(id)").unwrap_err().contains("not simulated"));
        assert!(tokens("sleep 1 &").unwrap_err().contains("not simulated"));
        assert!(tokens("echo 'x").unwrap_err().contains("Unterminated"));
        assert_eq!(
            tokens("$x").unwrap(),
            [super::Token::Word(vec![Part::Variable("x".into())])]
        );
    }
}
