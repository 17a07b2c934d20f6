//! `vnfmctl vnf scale` and `vnfmctl vnf scale_to_level`: both show the size before and after.

use super::request::task_body;
use super::vnf::{BeginRequest, INSTANCES, begin_on, find, id_of};
use crate::args::{Scaling, ScalingToLevel};
use crate::client::{Client, Outcome, local};
use crate::output::{Output, tell};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vnfm::lcm::{scale, scale_to_level};

pub(super) async fn scale(client: &Client, output: Output, args: Scaling) -> Outcome<()> {
    let mut body = task_body(&args.common)?;
    let direction = [(args.out, "SCALE_OUT"), (args.r#in, "SCALE_IN")];
    for (_, direction) in direction.iter().filter(|(is_wanted, _)| *is_wanted) {
        body["type"] = json!(direction);
    }
    if let Some(aspect) = args.aspect {
        body["aspectId"] = json!(aspect);
    }
    let default = args.common.request.is_none().then_some(1);
    if let Some(steps) = args.steps.or(default) {
        body["numberOfSteps"] = json!(steps);
    }
    let request = BeginRequest::new((&scale::OPERATION, args.vnf), body, args.common);
    begin(client, output, request).await
}

pub(super) async fn to_level(client: &Client, output: Output, args: ScalingToLevel) -> Outcome<()> {
    let mut body = task_body(&args.common)?;
    if let Some(level) = args.level {
        body["instantiationLevelId"] = json!(level);
    }
    if !args.aspects.is_empty() {
        let levels = args.aspects.iter().map(|aspect| scale_info(aspect));
        body["scaleInfo"] = json!(levels.collect::<Outcome<Vec<_>>>()?);
    }
    let request = BeginRequest::new((&scale_to_level::OPERATION, args.vnf), body, args.common);
    begin(client, output, request).await
}

/// `ASPECT=LEVEL` as a `ScaleInfo`.
fn scale_info(text: &str) -> Outcome<Value> {
    let split = text.rsplit_once('=');
    let level = split.and_then(|(aspect, level)| Some((aspect, level.parse::<u32>().ok()?)));
    let (aspect, level) = level.ok_or_else(|| {
        local(format!(
            "`{text}` is not ASPECT=LEVEL, with a level from 0, such as `clients=2`"
        ))
    })?;
    Ok(json!({"aspectId": aspect, "scaleLevel": level}))
}

/// Begins the scaling; says how large the instance is before, and after if it is watched.
async fn begin(client: &Client, output: Output, request: BeginRequest) -> Outcome<()> {
    let before = find(client, &request.vnf).await?;
    let path = format!("{INSTANCES}/{}", id_of(&before));
    let watch = request.watch;
    tell_size("before", &before);
    begin_on(client, output, &before, request).await?;
    if watch {
        tell_size("after", &client.get(&path).await?);
    }
    Ok(())
}

/// Nothing for an instance that is not instantiated.
fn tell_size(when: &str, instance: &Value) {
    let size = size(instance);
    if !size.is_empty() {
        tell(&format!("size {when}: {size}"));
    }
}

/// Scale levels and VNFCs, such as `clients 1 of 3, load 0 of 2; 3 web, 2 worker`.
fn size(instance: &Value) -> String {
    let mut vnfcs: BTreeMap<&str, usize> = BTreeMap::new();
    for vnfc in list(instance, "vnfcResourceInfo") {
        *vnfcs.entry(text(vnfc, "vduId")).or_default() += 1;
    }
    let vnfcs: Vec<_> = vnfcs.iter().map(|(vdu, n)| format!("{n} {vdu}")).collect();
    let parts = [levels(instance).join(", "), vnfcs.join(", ")];
    let parts = parts.iter().filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.map(String::as_str).collect();
    parts.join("; ")
}

/// The level of each aspect, such as `clients 1 of 3`.
pub(super) fn levels(instance: &Value) -> Vec<String> {
    let highest = list(instance, "maxScaleLevels");
    let current = list(instance, "scaleStatus");
    let level = |aspect: &Value| {
        let name = text(aspect, "aspectId");
        let mut highest = highest.iter().filter(|one| text(one, "aspectId") == name);
        let highest = highest
            .next()
            .map_or(&Value::Null, |one| &one["scaleLevel"]);
        format!("{name} {} of {highest}", aspect["scaleLevel"])
    };
    current.iter().map(level).collect()
}

fn list<'a>(instance: &'a Value, member: &str) -> &'a [Value] {
    let all = instance["instantiatedVnfInfo"][member].as_array();
    all.map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{scale_info, size};
    use serde_json::json;

    #[test]
    fn a_size_names_levels_and_vnfcs() {
        let level = |aspect: &str, level: u32| json!({"aspectId": aspect, "scaleLevel": level});
        let info = json!({
            "scaleStatus": [level("clients", 1), level("load", 0)],
            "maxScaleLevels": [level("clients", 3), level("load", 2)],
            "vnfcResourceInfo": [{"vduId": "web"}, {"vduId": "worker"}, {"vduId": "web"}],
        });
        assert_eq!(
            size(&json!({"instantiatedVnfInfo": info})),
            "clients 1 of 3, load 0 of 2; 2 web, 1 worker"
        );
        assert_eq!(size(&json!({})), "");
    }

    #[test]
    fn the_level_of_an_aspect_is_a_number_from_0() {
        assert_eq!(
            scale_info("clients=2").unwrap(),
            json!({"aspectId": "clients", "scaleLevel": 2})
        );
        for wrong in ["clients", "clients=", "clients=-1", "clients=many"] {
            let error = scale_info(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
