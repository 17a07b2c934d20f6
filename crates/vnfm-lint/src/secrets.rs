//! Secrets that were left in a package: private keys, kubeconfigs, passwords, tokens.
//!
//! A finding states the position but never the secret; its line is not shown either ([`crate::Report::line`]).
//! Placeholders that a request fills (`{get_input: …}`, `$name`, `@NAME@`, `<name>`) are not secrets.

use crate::explain::codes;
use crate::source::{MAX_TEXT_BYTES, Source};
use vnfm_descriptor::raw::{Node, Sink, has_extension};
use vnfm_descriptor::{Finding, Span};

/// Keys whose value is a secret.
const KEYS: &[&str] = &[
    "password",
    "passwd",
    "admin_password",
    "root_password",
    "adminpassword",
    "admin_pass",
    "adminpass",
    "db_password",
    "secret_key",
    "secretkey",
    "client_secret",
    "clientsecret",
    "api_key",
    "apikey",
    "auth_token",
    "bearer_token",
    "access_token",
    "passphrase",
];

/// Prefixes of known tokens, the minimum length of the rest, and what the token is.
const TOKENS: &[(&str, usize, &str)] = &[
    ("AKIA", 16, "an access key of AWS"),
    ("ghp_", 36, "a token of GitHub"),
    ("github_pat_", 50, "a token of GitHub"),
    ("glpat-", 20, "a token of GitLab"),
    ("xoxb-", 24, "a token of Slack"),
    ("eyJhbGciOi", 60, "a JSON Web Token"),
];

/// Searches every text file for secrets.
pub(crate) fn check(source: &Source<'_>, sink: &mut Sink) {
    for path in &source.paths {
        let Some(text) = source
            .text(path)
            .filter(|text| text.len() as u64 <= MAX_TEXT_BYTES)
        else {
            continue;
        };
        lines(path, &text, sink);
        if has_extension(path, &["yaml", "yml", "json"]) || path.ends_with("config") {
            for node in source.yaml(path).unwrap_or_default() {
                document(&node, sink);
            }
        }
    }
}

/// Private keys and tokens, recognized by their format.
pub(crate) fn lines(path: &str, text: &str, sink: &mut Sink) {
    let all: Vec<&str> = text.lines().collect();
    for (index, line) in all.iter().enumerate() {
        let span = || Span::line(path, index + 1);
        let key = line.contains("-----BEGIN") && line.contains("PRIVATE KEY-----");
        // In text about keys, no key follows the line.
        let body = all.get(index + 1).is_some_and(|next| {
            let next = next.trim().trim_matches('"');
            next.len() >= 32
                && next
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b))
        });
        if key && body && !line.contains("ENCRYPTED") {
            sink.add(
                Finding::new(
                    codes::SECRET_KEY,
                    span(),
                    "the package contains a private key",
                )
                .hint("everyone who has the package has the key; generate a key for each instance"),
            );
        }
        for (prefix, min_length, kind) in TOKENS {
            let token = line.find(prefix).map(|at| &line[at + prefix.len()..]);
            let run = token.map_or(0, |rest| {
                rest.bytes()
                    .take_while(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
                    .count()
            });
            if run >= *min_length {
                let finding = Finding::new(codes::SECRET_TOKEN, span(), format!("this is {kind}"));
                sink.add(finding.hint("revoke it, and pass it with the request"));
            }
        }
    }
}

/// Checks a document for kubeconfigs, Kubernetes Secrets and passwords.
pub(crate) fn document(node: &Node, sink: &mut Sink) {
    let kind = node.get("kind").and_then(Node::as_str);
    if kind == Some("Config") {
        kubeconfig(node, sink);
        return;
    }
    if kind == Some("Secret") {
        for part in ["data", "stringData"] {
            for (key, value) in node.get(part).map(Node::entries).unwrap_or_default() {
                if literal(value) {
                    password(key, value, sink);
                }
            }
        }
    }
    passwords(node, sink);
}

fn kubeconfig(node: &Node, sink: &mut Sink) {
    const CREDENTIALS: &[&str] = &["token", "client-key-data", "password"];
    let users = node.get("users").map(Node::items).unwrap_or_default();
    for (key, value) in users
        .iter()
        .filter_map(|user| user.get("user"))
        .flat_map(Node::entries)
    {
        if key.as_str().is_some_and(|name| CREDENTIALS.contains(&name)) && literal(value) {
            sink.add(
                Finding::new(
                    codes::SECRET_KUBECONFIG,
                    key.span.clone(),
                    "the package contains a kubeconfig with credentials",
                )
                .hint("register the cluster as a VIM instead"),
            );
        }
    }
}

fn passwords(node: &Node, sink: &mut Sink) {
    for (key, value) in node.entries() {
        let name = key
            .as_str()
            .unwrap_or_default()
            .to_ascii_lowercase()
            .replace('-', "_");
        let secret = KEYS.contains(&name.as_str());
        // In a declaration, `password: {type: string, default: …}`, the default is the secret.
        let default = value.get("default").filter(|_| value.get("type").is_some());
        match default {
            Some(default) if secret && literal(default) => password(key, default, sink),
            None if secret && literal(value) => password(key, value, sink),
            _ => passwords(value, sink),
        }
    }
    node.items().iter().for_each(|item| passwords(item, sink));
}

fn password(key: &Node, value: &Node, sink: &mut Sink) {
    let name = key.as_str().unwrap_or("~");
    let message = format!("the value of `{name}` is in the package");
    let finding = Finding::new(codes::SECRET_PASSWORD, value.span.clone(), message);
    sink.add(finding.hint("pass it with the request, by an input or variable without a default"));
}

/// Whether a value is a literal, not a placeholder that is filled later.
fn literal(node: &Node) -> bool {
    let filled = |text: &str| {
        text.is_empty()
            || text.starts_with(['$', '{', '<', '@', '*'])
            || ["string", "true", "false", "changeme"].contains(&text)
    };
    node.as_str().is_some_and(|text| !filled(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vnfm_descriptor::Limits;

    fn found(text: &str) -> Vec<String> {
        let mut sink = Sink::default();
        let node =
            vnfm_descriptor::raw::parse(text, "a.yaml", &Limits::default(), &mut sink).unwrap();
        document(&node, &mut sink);
        lines("a.yaml", text, &mut sink);
        sink.all().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn literal_secrets_are_found_and_never_shown() {
        let planted = "hunter2-planted";
        for text in [
            format!("password: {planted}\n"),
            format!("inputs: {{password: {{type: string, default: {planted}}}}}\n"),
            format!("kind: Secret\nstringData: {{any: {planted}}}\n"),
            format!("kind: Config\nusers: [{{user: {{token: {planted}}}}}]\n"),
            format!("a: ghp_{}{planted}\n", "a".repeat(36)),
            format!(
                "key: |\n  -----BEGIN PRIVATE KEY-----\n  {}\n",
                "A1b2".repeat(16)
            ),
        ] {
            let all = found(&text);
            assert_eq!(all.len(), 1, "{text}: {all:?}");
            assert!(
                all[0].contains("W-SECRET") && !all[0].contains(planted),
                "{all:?}"
            );
        }
    }

    #[test]
    fn placeholders_are_not_secrets() {
        for text in [
            "password: $password\n",
            "password: {get_input: password}\n",
            "password: {type: string}\n",
            "password: ''\n",
            "kind: Secret\nstringData: {any: $value}\n",
            "text: '-----BEGIN PRIVATE KEY----- begins a key'\n",
            "kind: Config\nusers: [{user: {exec: {command: x}}}]\n",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }
}
