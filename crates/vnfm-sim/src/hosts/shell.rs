//! One command line, or a script of them: words, quotes, variables, `;`, `&&`, `||`, `|`, `>`, `>>`, `<`.
//!
//! There are no loops, functions or substitutions: a script that needs them says what is missing and ends with 2.

use super::host::Host;
use super::{kubeadm, programs};
use crate::faults::{Fault, When};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What a command did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Output {
    pub(crate) fn ok(out: impl Into<Vec<u8>>) -> Self {
        Self {
            code: 0,
            out: out.into(),
            err: String::new(),
        }
    }

    pub(crate) fn fail(code: i32, err: impl Into<String>) -> Self {
        Self {
            code,
            out: Vec::new(),
            err: err.into(),
        }
    }

    /// So many bytes that no terminal likes, in lines that no page holds, and a last line of words.
    pub(crate) fn flood(bytes: usize, code: i32) -> Self {
        let garbage = b"\x1b[31m\xff\xfe\x00garbage\x07".iter().copied().cycle();
        let mut out: Vec<u8> = garbage.take(bytes).collect();
        for line in out.chunks_mut(1 << 20) {
            line[0] = b'\n';
        }
        out.extend_from_slice(b"\nand here the flood ended\n");
        Self {
            code,
            out,
            err: String::new(),
        }
    }

    fn then(&mut self, next: Self) {
        self.code = next.code;
        self.out.extend(next.out);
        self.err.push_str(&next.err);
    }
}

/// Lines put together.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().collect::<Vec<_>>().concat()
}

/// What a command reads, taken by the first program that asks.
pub(crate) enum Input {
    /// It is there.
    Ready(Vec<u8>),
    /// It arrives over a connection.
    Arriving(oneshot::Receiver<Vec<u8>>),
}

impl Input {
    pub(crate) fn nothing() -> Self {
        Self::Ready(Vec::new())
    }

    /// All of it; empty the second time.
    pub(crate) async fn take(&mut self) -> Vec<u8> {
        match std::mem::replace(self, Self::nothing()) {
            Self::Ready(bytes) => bytes,
            Self::Arriving(bytes) => bytes.await.unwrap_or_default(),
        }
    }
}

/// Who runs commands, where, with which variables.
#[derive(Clone)]
pub(crate) struct Shell {
    pub(crate) host: Arc<Host>,
    pub(crate) user: String,
    pub(crate) variables: BTreeMap<String, String>,
}

impl Shell {
    pub(crate) fn new(host: Arc<Host>, user: impl Into<String>) -> Self {
        Self {
            host,
            user: user.into(),
            variables: BTreeMap::new(),
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.user == "root"
    }

    /// Runs a script: line by line, with what connects commands in a line.
    pub(crate) fn script<'a>(
        &'a mut self,
        text: &'a str,
        input: &'a mut Input,
    ) -> Pin<Box<dyn Future<Output = Output> + Send + 'a>> {
        Box::pin(async move {
            let tokens = match tokens(text) {
                Ok(tokens) => tokens,
                Err(problem) => return Output::fail(2, format!("sh: 1: {problem}\n")),
            };
            let mut total = Output::default();
            let mut connector = Connector::Always;
            for (command, next) in commands(tokens) {
                let runs = match connector {
                    Connector::Always => true,
                    Connector::IfOk => total.code == 0,
                    Connector::IfNot => total.code != 0,
                };
                if runs && !command.is_empty() {
                    let output = self.pipeline(&command, input).await;
                    total.then(output);
                    if let Some(code) = self.variables.remove("\0exit") {
                        total.code = code.parse().unwrap_or(2);
                        return total;
                    }
                }
                connector = next;
            }
            total
        })
    }

    async fn pipeline(&mut self, tokens: &[Token], input: &mut Input) -> Output {
        let stages: Vec<_> = tokens.split(|t| *t == Token::Operator("|")).collect();
        let (last, first) = match stages.split_last() {
            Some((last, first)) => (*last, first),
            None => return Output::default(),
        };
        let mut err = String::new();
        let mut piped = None;
        for stage in first {
            let mut from = piped.take().map(Input::Ready);
            let output = self.simple(stage, from.as_mut().unwrap_or(input)).await;
            err.push_str(&output.err);
            piped = Some(output.out);
        }
        let mut from = piped.map(Input::Ready);
        let mut output = self.simple(last, from.as_mut().unwrap_or(input)).await;
        output.err.insert_str(0, &err);
        output
    }

    /// One command with its redirections and assignments.
    async fn simple(&mut self, tokens: &[Token], input: &mut Input) -> Output {
        let parsed = match Simple::parse(tokens, &self.variables) {
            Ok(parsed) => parsed,
            Err(problem) => return Output::fail(2, format!("sh: 1: {problem}\n")),
        };
        let mut own_input = None;
        if let Some(path) = &parsed.from {
            let Some(content) = self.host.disk().read(path) else {
                return Output::fail(2, format!("sh: 1: cannot open {path}: No such file\n"));
            };
            own_input = Some(Input::Ready(content));
        }
        if parsed.argv.is_empty() {
            self.variables.extend(parsed.assigned);
            return Output::default();
        }
        let mut shell = self.clone();
        shell.variables.extend(parsed.assigned.clone());
        let input = own_input.as_mut().unwrap_or(input);
        let mut output = shell.program(&parsed.argv, input).await;
        if let Some(code) = shell.variables.remove("\0exit") {
            self.variables.insert("\0exit".into(), code);
        }
        if shell.variables.remove("\0export").is_some() {
            self.variables.extend(shell.variables);
        }
        self.redirect(&parsed, &mut output);
        output
    }

    fn redirect(&self, parsed: &Simple, output: &mut Output) {
        if parsed.merge {
            output
                .out
                .extend(std::mem::take(&mut output.err).into_bytes());
        }
        for (path, append, is_err) in &parsed.to {
            let bytes = if *is_err {
                std::mem::take(&mut output.err).into_bytes()
            } else {
                std::mem::take(&mut output.out)
            };
            match path.as_str() {
                "/dev/null" => continue,
                "/dev/stderr" => {
                    output.err.push_str(&String::from_utf8_lossy(&bytes));
                    continue;
                }
                _ => {}
            }
            if !self.may_write(path) {
                output.err += format!("sh: 1: cannot create {path}: Permission denied\n").as_str();
                output.code = 2;
                continue;
            }
            let mut disk = self.host.disk();
            let mut content = if *append {
                disk.read(path).unwrap_or_default()
            } else {
                Vec::new()
            };
            content.extend(bytes);
            disk.write(path, content, 0o644);
        }
    }

    /// Whether this user may write there.
    pub(crate) fn may_write(&self, path: &str) -> bool {
        self.is_root()
            || path.starts_with("/tmp/")
            || path.starts_with(&format!("/home/{}/", self.user))
    }

    /// One program: the books see it, faults strike it.
    pub(crate) fn program<'a>(
        &'a mut self,
        argv: &'a [String],
        input: &'a mut Input,
    ) -> Pin<Box<dyn Future<Output = Output> + Send + 'a>> {
        Box::pin(async move {
            let subject = format!("{}: {}", self.host.spec().name, argv.join(" "));
            let lan = self.host.lan.clone();
            let _turn = match kubeadm::claim(&self.host, argv) {
                Ok(turn) => turn,
                Err(output) => return output,
            };
            let fault = lan.faults.take("host.exec", &subject);
            let output = match fault {
                Some(Fault::Exit { exit, stderr }) => {
                    programs::leave_half(self, argv);
                    Output::fail(exit, stderr)
                }
                Some(Fault::Flood { flood, exit }) => {
                    programs::leave_half(self, argv);
                    Output::flood(flood, exit)
                }
                Some(Fault::Hang { .. }) => std::future::pending().await,
                Some(Fault::Drop { drop: When::Before } | Fault::Status { .. }) => {
                    Output::fail(137, "Killed\n")
                }
                fault => {
                    if let Some(Fault::Delay { delay_ms }) = fault {
                        crate::time::pause(Duration::from_millis(delay_ms)).await;
                    }
                    let output = programs::run(self, argv, input).await;
                    match fault {
                        Some(
                            Fault::Drop { drop: When::After } | Fault::ErrorAfterEffect { .. },
                        ) => Output::fail(137, "Killed\n"),
                        Some(Fault::HangAfterEffect { .. }) => std::future::pending().await,
                        _ => output,
                    }
                }
            };
            lan.books.record(
                "ssh",
                "host.exec",
                &subject,
                (i64::from(output.code), output.err.as_str()),
            );
            output
        })
    }
}

/// When the next command runs.
#[derive(Clone, Copy)]
enum Connector {
    Always,
    IfOk,
    IfNot,
}

/// A word with its parts, or an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(Vec<Part>),
    Operator(&'static str),
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(String),
}

const OPERATORS: &[&str] = &[
    "&&", "||", "2>>", "2>&1", "2>", ">>", ">&2", ">", "<", ";", "|", "\n",
];

/// Cuts a script into tokens.
fn tokens(text: &str) -> Result<Vec<Token>, String> {
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
            _ => piece(rest, word.get_or_insert_default())?,
        };
    }
    tokens.extend(word.map(Token::Word));
    Ok(tokens)
}

/// Takes one piece of a word off `rest` and returns what follows.
fn piece<'a>(rest: &'a str, word: &mut Vec<Part>) -> Result<&'a str, String> {
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

/// The pipelines, each with what connects it to the next one.
fn commands(tokens: Vec<Token>) -> Vec<(Vec<Token>, Connector)> {
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
        // A line that ends in an operator goes on in the next one.
        if !(command.is_empty() && matches!(connector, Connector::Always)) {
            all.push((std::mem::take(&mut command), connector));
        }
    }
    all.push((command, Connector::Always));
    all
}

/// A command with its redirections, variables filled in.
#[derive(Debug, Default)]
struct Simple {
    argv: Vec<String>,
    assigned: BTreeMap<String, String>,
    from: Option<String>,
    /// Path, whether it is appended to, whether it takes standard error.
    to: Vec<(String, bool, bool)>,
    merge: bool,
}

impl Simple {
    fn parse(tokens: &[Token], variables: &BTreeMap<String, String>) -> Result<Self, String> {
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
            let path = fill(parts, variables);
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
        let word = fill(parts, variables);
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
            // A bare variable that is empty is no word at all.
            None if word.is_empty() && matches!(parts, [Part::Variable(_)]) => {}
            None => self.argv.push(word),
        }
    }
}

fn fill(parts: &[Part], variables: &BTreeMap<String, String>) -> String {
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
    use super::{Part, Simple, commands, tokens};
    use std::collections::BTreeMap;

    fn argvs(text: &str) -> Vec<Vec<String>> {
        let variables = BTreeMap::from([("NAME".to_owned(), "a b".to_owned())]);
        let all = commands(tokens(text).unwrap());
        let parse = |t: &Vec<_>| Simple::parse(t, &variables).unwrap().argv;
        all.iter()
            .map(|(tokens, _)| parse(tokens))
            .filter(|argv| !argv.is_empty())
            .collect()
    }

    #[test]
    fn words_are_cut_as_a_shell_does() {
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
    fn redirections_are_no_words() {
        let words = tokens("cmd x2>y 2>&1 >/tmp/z </etc/w").unwrap();
        let simple = Simple::parse(&words, &BTreeMap::new()).unwrap();
        assert_eq!(simple.argv, ["cmd", "x2"]);
        assert!(simple.merge);
        assert_eq!(simple.to.len(), 2);
        assert_eq!(simple.from.as_deref(), Some("/etc/w"));
    }

    #[test]
    fn what_is_not_simulated_says_so() {
        assert!(tokens("echo $(id)").unwrap_err().contains("not simulated"));
        assert!(tokens("sleep 1 &").unwrap_err().contains("not simulated"));
        assert!(tokens("echo 'x").unwrap_err().contains("Unterminated"));
        assert_eq!(
            tokens("$x").unwrap(),
            [super::Token::Word(vec![Part::Variable("x".into())])]
        );
    }
}
