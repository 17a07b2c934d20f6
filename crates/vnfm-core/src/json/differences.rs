//! Where two values differ, by path and without the values: these may be secret.

use serde_json::{Map, Value};

/// Paths such as `spec.containers[0].image`, in the order of the members; the path of the whole value is empty.
pub fn differing_paths(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(before, after, "", &mut found);
    found
}

fn compare(before: &Value, after: &Value, path: &str, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                let path = match path {
                    "" => name.clone(),
                    parent => format!("{parent}.{name}"),
                };
                let member = |of: &Value| of.get(name).cloned().unwrap_or_default();
                compare(&member(before), &member(after), &path, found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (before, after)) in old.iter().zip(new).enumerate() {
                compare(before, after, &format!("{path}[{index}]"), found);
            }
        }
        // A member that one side lacks differs by what the other side has in it.
        (Value::Null, Value::Object(new)) if !new.is_empty() => {
            compare(&Value::Object(Map::new()), after, path, found);
        }
        (Value::Object(old), Value::Null) if !old.is_empty() => {
            compare(before, &Value::Object(Map::new()), path, found);
        }
        _ if before == after => {}
        _ => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::differing_paths;
    use serde_json::json;

    #[test]
    fn paths_name_what_differs_and_no_value() {
        let before = json!({"a": 1, "b": {"c": "x", "list": [{"d": 1}, 2]}, "gone": true});
        let after = json!({"a": 1, "b": {"c": "y", "list": [{"d": 2}, 2]}, "new": "planted"});
        let paths = ["b.c", "b.list[0].d", "gone", "new"];
        assert_eq!(differing_paths(&before, &after), paths);
        assert_eq!(differing_paths(&before, &before), [""; 0]);
        let shorter = json!({"a": 1, "b": {"c": "x", "list": [2]}, "gone": true});
        assert_eq!(differing_paths(&before, &shorter), ["b.list"]);
        assert_eq!(differing_paths(&json!(1), &json!(2)), [""]);
        let volume = json!({"volume": {"emptyDir": {}}});
        assert_eq!(differing_paths(&json!({}), &volume), ["volume.emptyDir"]);
        assert_eq!(differing_paths(&volume, &json!({})), ["volume.emptyDir"]);
    }
}
