//! File modes in manifests: `defaultMode: 0644` is octal for kubectl and helm, which read YAML 1.1; in YAML 1.2 it is text.

use serde_json::Value;

/// The volumes that have modes.
const VOLUMES: [&str; 4] = ["configMap", "secret", "projected", "downwardAPI"];

/// Makes octal modes of volumes the numbers that they mean.
pub(crate) fn read_octal(object: &mut Value) {
    match object {
        Value::Object(members) => {
            for (name, member) in members {
                if VOLUMES.contains(&name.as_str()) {
                    read_volume(member);
                }
                read_octal(member);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(read_octal),
        _ => {}
    }
}

fn read_volume(volume: &mut Value) {
    if let Some(mode) = volume.get_mut("defaultMode") {
        read_mode(mode);
    }
    let items = volume.get_mut("items").and_then(Value::as_array_mut);
    let modes = items.into_iter().flatten();
    modes
        .filter_map(|item| item.get_mut("mode"))
        .for_each(read_mode);
}

fn read_mode(mode: &mut Value) {
    let octal = mode.as_str().filter(|text| text.starts_with('0'));
    let number = octal.and_then(|text| u32::from_str_radix(text, 8).ok());
    if let Some(number) = number {
        *mode = number.into();
    }
}

#[cfg(test)]
mod tests {
    use super::read_octal;
    use serde_json::json;

    #[test]
    fn modes_of_volumes_are_octal_and_other_text_stays() {
        let mut pod = json!({"spec": {"volumes": [
            {"configMap": {"defaultMode": "0666", "items": [{"key": "a", "path": "a", "mode": "0400"}]}},
            {"projected": {"sources": [{"secret": {"items": [{"key": "b", "path": "b", "mode": 256}]}}], "defaultMode": "0900"}},
        ]}, "data": {"defaultMode": "0666", "mode": "0400"}});
        read_octal(&mut pod);
        assert_eq!(
            pod,
            json!({"spec": {"volumes": [
                {"configMap": {"defaultMode": 0o666, "items": [{"key": "a", "path": "a", "mode": 0o400}]}},
                {"projected": {"sources": [{"secret": {"items": [{"key": "b", "path": "b", "mode": 256}]}}], "defaultMode": "0900"}},
            ]}, "data": {"defaultMode": "0666", "mode": "0400"}})
        );
    }
}
