//! Evaluates the intrinsic functions of HOT.

use serde_json::{Map, Value};

/// Placeholder for a value that does not exist yet.
pub(crate) const NOT_YET_CREATED: &str = "\u{0}unmade";

/// Resolves the references of functions.
pub(crate) trait Scope {
    /// Value of a parameter; `None` if undefined.
    fn parameter(&self, name: &str) -> Option<Value>;
    /// The physical id of a resource of the same stack.
    fn reference(&self, name: &str) -> Result<Value, String>;
    /// An attribute of a resource of the same stack.
    fn attribute(&self, resource: &str, path: &[Value]) -> Result<Value, String>;
    /// A file sent with the template.
    fn file(&self, name: &str) -> Option<String>;
    /// A condition of the template.
    fn condition(&self, name: &str) -> Option<Value>;
}

/// Evaluates all functions in a value, innermost first.
pub(crate) fn evaluate(value: &Value, scope: &dyn Scope) -> Result<Value, String> {
    match value {
        Value::Array(list) => list.iter().map(|item| evaluate(item, scope)).collect(),
        Value::Object(map) => match (map.len(), map.iter().next()) {
            (1, Some((name, arguments))) if is_function(name) => call(name, arguments, scope),
            _ => map
                .iter()
                .map(|(name, item)| Ok((name.clone(), evaluate(item, scope)?)))
                .collect(),
        },
        other => Ok(other.clone()),
    }
}

const FUNCTIONS: [&str; 17] = [
    "get_param",
    "get_resource",
    "get_attr",
    "get_file",
    "str_replace",
    "str_replace_strict",
    "str_split",
    "list_join",
    "list_concat",
    "map_merge",
    "repeat",
    "if",
    "equals",
    "not",
    "and",
    "or",
    "yaql",
];

fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

fn call(name: &str, arguments: &Value, scope: &dyn Scope) -> Result<Value, String> {
    match name {
        "repeat" => return repeat(arguments, scope),
        "if" => return choose(arguments, scope),
        "yaql" => return Err("the function `yaql` is not modelled by the simulated Heat".into()),
        _ => {}
    }
    let arguments = evaluate(arguments, scope)?;
    match name {
        "get_param" => parameter(&arguments, scope),
        "get_resource" => scope.reference(arguments.as_str().unwrap_or_default()),
        "get_attr" => {
            let path = arguments.as_array().cloned().unwrap_or_default();
            let (resource, rest) = path
                .split_first()
                .ok_or("Arguments to \"get_attr\" must be a list")?;
            scope.attribute(resource.as_str().unwrap_or_default(), rest)
        }
        "get_file" => {
            let file = arguments.as_str().unwrap_or_default();
            scope.file(file).map(Value::from).ok_or_else(|| {
                format!("No content found in the \"files\" section for get_file path: {file}")
            })
        }
        "str_replace" | "str_replace_strict" => replace(&arguments),
        "str_split" => split(&arguments),
        "list_join" => join(&arguments),
        "list_concat" => Ok(members(&arguments)
            .flat_map(|l| members(l).cloned().collect::<Vec<_>>())
            .collect()),
        "map_merge" => {
            let maps = members(&arguments).filter_map(Value::as_object);
            Ok(Value::Object(
                maps.flat_map(|m| m.clone().into_iter()).collect(),
            ))
        }
        "equals" => Ok(Value::Bool(arguments.get(0) == arguments.get(1))),
        "not" => Ok(Value::Bool(!truth(&arguments, scope)?)),
        "and" | "or" => {
            let truths: Vec<bool> = members(&arguments)
                .map(|item| truth(item, scope))
                .collect::<Result<_, _>>()?;
            Ok(Value::Bool(if name == "and" {
                truths.iter().all(|t| *t)
            } else {
                truths.iter().any(|t| *t)
            }))
        }
        other => Err(format!(
            "the function `{other}` is not modelled by the simulated Heat"
        )),
    }
}

fn members(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn parameter(arguments: &Value, scope: &dyn Scope) -> Result<Value, String> {
    let (name, path) = match arguments {
        Value::Array(list) => (
            list.first().and_then(Value::as_str).unwrap_or_default(),
            &list[1.min(list.len())..],
        ),
        other => (other.as_str().unwrap_or_default(), &[] as &[Value]),
    };
    let value = scope
        .parameter(name)
        .ok_or_else(|| format!("The Parameter ({name}) was not provided."))?;
    Ok(walk(&value, path))
}

/// Follows a path of names and indexes into a value; null if it does not exist.
pub(crate) fn walk(value: &Value, path: &[Value]) -> Value {
    let mut at = value;
    for part in path {
        if at == NOT_YET_CREATED {
            break;
        }
        let next = match (at, part) {
            (Value::Array(list), Value::Number(n)) => {
                n.as_u64().and_then(|n| list.get(usize::try_from(n).ok()?))
            }
            (Value::Array(list), Value::String(n)) => {
                n.parse::<usize>().ok().and_then(|n| list.get(n))
            }
            (Value::Object(map), Value::String(name)) => map.get(name),
            (Value::Object(map), other) => map.get(&other.to_string()),
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return Value::Null,
        }
    }
    at.clone()
}

/// Formats a value for insertion into a string.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn replace(arguments: &Value) -> Result<Value, String> {
    let template = arguments
        .get("template")
        .and_then(Value::as_str)
        .ok_or("\"str_replace\" needs a \"template\"")?;
    let parameters = arguments
        .get("params")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let mut keys: Vec<(&String, &Value)> = parameters.iter().collect();
    keys.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
    let mut text = template.to_owned();
    let marker = |n: usize| format!("\u{1}{n}\u{1}");
    for (n, (key, _)) in keys.iter().enumerate() {
        text = text.replace(key.as_str(), &marker(n));
    }
    for (n, (_, value)) in keys.iter().enumerate() {
        text = text.replace(&marker(n), &plain(value));
    }
    Ok(Value::from(text))
}

fn split(arguments: &Value) -> Result<Value, String> {
    let list = arguments
        .as_array()
        .ok_or("Arguments to \"str_split\" must be a list")?;
    let (by, text) = (
        list.first().map(plain).unwrap_or_default(),
        list.get(1).map(plain).unwrap_or_default(),
    );
    let parts: Vec<Value> = text.split(&by).map(Value::from).collect();
    match list.get(2).and_then(Value::as_u64) {
        None => Ok(Value::Array(parts)),
        Some(n) => Ok(usize::try_from(n)
            .ok()
            .and_then(|n| parts.get(n).cloned())
            .unwrap_or_default()),
    }
}

fn join(arguments: &Value) -> Result<Value, String> {
    let list = arguments
        .as_array()
        .ok_or("Arguments to \"list_join\" must be a list")?;
    let (by, lists) = list
        .split_first()
        .ok_or("\"list_join\" needs a delimiter")?;
    let parts: Vec<String> = lists
        .iter()
        .flat_map(|l| members(l).map(plain).collect::<Vec<_>>())
        .collect();
    Ok(Value::from(parts.join(&plain(by))))
}

fn truth(value: &Value, scope: &dyn Scope) -> Result<bool, String> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::String(name) => {
            let condition = scope
                .condition(name)
                .ok_or_else(|| format!("Invalid condition \"{name}\""))?;
            truth(&evaluate(&condition, scope)?, scope)
        }
        other => truth(&evaluate(other, scope)?, scope),
    }
}

fn choose(arguments: &Value, scope: &dyn Scope) -> Result<Value, String> {
    let [condition, yes, no] = arguments.as_array().map(Vec::as_slice).unwrap_or_default() else {
        return Err("Arguments to \"if\" must be of the form: [condition_name, value_if_true, value_if_false]".into());
    };
    evaluate(if truth(condition, scope)? { yes } else { no }, scope)
}

/// `repeat` over every combination of one or several lists.
fn repeat(arguments: &Value, scope: &dyn Scope) -> Result<Value, String> {
    let template = arguments
        .get("template")
        .ok_or("\"repeat\" needs a \"template\"")?;
    let lists = evaluate(arguments.get("for_each").unwrap_or(&Value::Null), scope)?;
    let mut rounds: Vec<Map<String, Value>> = vec![Map::new()];
    for (name, list) in lists.as_object().cloned().unwrap_or_default() {
        let with = |round: &Map<String, Value>| {
            let round = round.clone();
            let name = name.clone();
            members(&list)
                .cloned()
                .map(move |item| {
                    let mut next = round.clone();
                    next.insert(name.clone(), item);
                    next
                })
                .collect::<Vec<_>>()
        };
        rounds = rounds.iter().flat_map(with).collect();
    }
    rounds
        .iter()
        .map(|round| evaluate(&substitute(template, round), scope))
        .collect()
}

fn substitute(value: &Value, round: &Map<String, Value>) -> Value {
    let in_text = |text: &str| {
        round.iter().fold(text.to_owned(), |text, (name, item)| {
            text.replace(name, &plain(item))
        })
    };
    match value {
        Value::String(text) => round
            .get(text)
            .cloned()
            .unwrap_or_else(|| Value::from(in_text(text))),
        Value::Array(list) => list.iter().map(|item| substitute(item, round)).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(name, item)| (in_text(name), substitute(item, round)))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Fixed;

    impl Scope for Fixed {
        fn parameter(&self, name: &str) -> Option<Value> {
            (name == "nfv")
                .then(|| json!({ "VDU": { "w": { "flavor": "m1.tiny" } }, "list": ["a", "b"] }))
        }
        fn reference(&self, name: &str) -> Result<Value, String> {
            Ok(json!(format!("id-of-{name}")))
        }
        fn attribute(&self, resource: &str, path: &[Value]) -> Result<Value, String> {
            Ok(walk(
                &json!({ "fixed_ips": [{ "ip_address": format!("10.0.0.1 of {resource}") }] }),
                path,
            ))
        }
        fn file(&self, name: &str) -> Option<String> {
            (name == "x.sh").then(|| "#!/bin/sh".to_owned())
        }
        fn condition(&self, name: &str) -> Option<Value> {
            (name == "same").then(|| json!({ "equals": ["a", "a"] }))
        }
    }

    #[test]
    fn functions_evaluate_as_in_heat() {
        let cases = [
            (
                json!({ "get_param": ["nfv", "VDU", "w", "flavor"] }),
                json!("m1.tiny"),
            ),
            (json!({ "get_resource": "p" }), json!("id-of-p")),
            (
                json!({ "get_attr": ["p", "fixed_ips", 0, "ip_address"] }),
                json!("10.0.0.1 of p"),
            ),
            (json!({ "get_file": "x.sh" }), json!("#!/bin/sh")),
            (
                json!({ "str_replace": { "template": "$a-$ab", "params": { "$a": 1, "$ab": "$a" } } }),
                json!("1-$a"),
            ),
            (
                json!({ "list_join": [",", { "get_param": ["nfv", "list"] }, ["c"]] }),
                json!("a,b,c"),
            ),
            (json!({ "str_split": [",", "x,y", 1] }), json!("y")),
            (json!({ "list_concat": [["a"], ["b"]] }), json!(["a", "b"])),
            (
                json!({ "map_merge": [{ "a": 1 }, { "a": 2, "b": 3 }] }),
                json!({ "a": 2, "b": 3 }),
            ),
            (
                json!({ "if": ["same", "yes", { "get_param": "none" }] }),
                json!("yes"),
            ),
            (
                json!({ "if": [{ "not": "same" }, "yes", "no"] }),
                json!("no"),
            ),
            (
                json!({ "repeat": { "for_each": { "%n%": ["1", "2"] }, "template": { "port": "p%n%" } } }),
                json!([{ "port": "p1" }, { "port": "p2" }]),
            ),
        ];
        for (function, value) in cases {
            assert_eq!(evaluate(&function, &Fixed), Ok(value), "{function}");
        }
        assert!(
            evaluate(&json!({ "get_param": "none" }), &Fixed)
                .unwrap_err()
                .contains("(none)")
        );
        assert!(
            evaluate(&json!({ "yaql": {} }), &Fixed)
                .unwrap_err()
                .contains("not modelled")
        );
    }
}
