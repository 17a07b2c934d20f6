//! `vnfmctl vnf …`

use crate::args::{Format, Listing, Modification, Skip, Vnf};
use crate::client::{Client, Outcome, local};
use crate::commands::package;
use crate::output::{Column, Output};
use crate::watch;
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;
use vnfm_types::LcmOperationState;

const INSTANCES: &str = "/vnflcm/v2/vnf_instances";
const COLUMNS: &[Column] = &[
    ("name", "/vnfInstanceName"),
    ("id", "/id"),
    ("product", "/vnfProductName"),
    ("state", "/instantiationState"),
    ("flavour", "/instantiatedVnfInfo/flavourId"),
    ("vnfcs", "/instantiatedVnfInfo/vnfcResourceInfo"),
];
const DETAILS: &[Column] = &[
    ("name", "/vnfInstanceName"),
    ("id", "/id"),
    ("description", "/vnfInstanceDescription"),
    ("vnfdId", "/vnfdId"),
    ("provider", "/vnfProvider"),
    ("product", "/vnfProductName"),
    ("software", "/vnfSoftwareVersion"),
    ("state", "/instantiationState"),
    ("flavour", "/instantiatedVnfInfo/flavourId"),
    ("vims", "/vims"),
    ("metadata", "/metadata"),
];
const VNFCS: &[Column] = &[
    ("vdu", "/vduId"),
    ("name", "/metadata/name"),
    ("type", "/computeResource/vimLevelResourceType"),
    ("resource", "/computeResource/resourceId"),
    ("addresses", "/addresses"),
];

pub(super) async fn run(client: &Client, output: Output, command: Vnf) -> Outcome<()> {
    match command {
        Vnf::Create {
            vnfd,
            package,
            name,
            description,
        } => {
            let vnfd = vnfd_id(client, vnfd, package).await?;
            create(client, output, &json!({"vnfdId": vnfd, "vnfInstanceName": name, "vnfInstanceDescription": description})).await
        }
        Vnf::List(wanted) => list(client, output, &wanted).await,
        Vnf::Show { vnf } => show(output, &find(client, &vnf).await?),
        Vnf::Delete { vnf } => {
            let found = find(client, &vnf).await?;
            let path = format!("{INSTANCES}/{}", id_of(&found));
            client.send(client.request(Method::DELETE, &path)).await?;
            output.done(&format!("deleted VNF instance {vnf}"), &found)
        }
        Vnf::Instantiate {
            vnf,
            request,
            params,
            vim,
            watch,
        } => {
            let mut body = read(&request)?;
            for param in params {
                set(&mut body["additionalParams"], &param)?;
            }
            if let Some(vim) = vim {
                let vim = super::vim::find(client, &vim).await?;
                body["vimConnectionInfo"] =
                    json!({"vim1": {"vimId": vim["id"], "vimType": vim["vimType"]}});
            }
            let asked = Asked {
                vnf,
                task: "instantiate",
                body,
                skip: None,
                watch,
            };
            task(client, output, asked).await
        }
        Vnf::Heal {
            vnf,
            vnfcs,
            cause,
            all,
            params,
            skip,
            watch,
        } => {
            let mut body = json!({"additionalParams": {}});
            if all {
                body["additionalParams"]["all"] = json!(true);
            }
            for param in params {
                set(&mut body["additionalParams"], &param)?;
            }
            if !vnfcs.is_empty() {
                body["vnfcInstanceId"] = json!(vnfcs);
            }
            if let Some(cause) = cause {
                body["cause"] = json!(cause);
            }
            let asked = Asked {
                vnf,
                task: "heal",
                body,
                skip: Some(skip),
                watch,
            };
            task(client, output, asked).await
        }
        Vnf::Modify(asked) => modify(client, output, asked).await,
        Vnf::Terminate {
            vnf,
            graceful,
            skip,
            watch,
        } => {
            let body = match graceful {
                None => json!({"terminationType": "FORCEFUL"}),
                Some(None) => json!({"terminationType": "GRACEFUL"}),
                Some(Some(seconds)) => {
                    json!({"terminationType": "GRACEFUL", "gracefulTerminationTimeout": seconds})
                }
            };
            let asked = Asked {
                vnf,
                task: "terminate",
                body,
                skip: Some(skip),
                watch,
            };
            task(client, output, asked).await
        }
        Vnf::Abandon { vnf, reason, force } => abandon(client, output, &vnf, (reason, force)).await,
    }
}

pub(super) async fn find(client: &Client, wanted: &str) -> Outcome<Value> {
    client
        .find(INSTANCES, "vnf", &["vnfInstanceName"], wanted)
        .await
}

fn id_of(instance: &Value) -> &str {
    instance["id"].as_str().unwrap_or_default()
}

async fn vnfd_id(client: &Client, vnfd: Option<String>, wanted: Option<String>) -> Outcome<Value> {
    match (vnfd, wanted) {
        (Some(vnfd), _) => Ok(Value::String(vnfd)),
        (None, Some(wanted)) => Ok(package::find(client, &wanted).await?["vnfdId"].clone()),
        (None, None) => Err(local("give --vnfd or --package")),
    }
}

async fn list(client: &Client, output: Output, wanted: &Listing) -> Outcome<()> {
    let all = client.listing(INSTANCES, wanted, "instantiatedVnfInfo/vnfcResourceInfo");
    output.chosen(&all.await?, COLUMNS, wanted.fields.as_deref())
}

async fn create(client: &Client, output: Output, body: &Value) -> Outcome<()> {
    let mut body = body.clone();
    if let Some(members) = body.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    let made: Value = client
        .json(client.request(Method::POST, INSTANCES).json(&body))
        .await?;
    let name = made["vnfInstanceName"]
        .as_str()
        .map(|name| format!("{name} as "))
        .unwrap_or_default();
    output.done(
        &format!("created VNF instance {name}{}", id_of(&made)),
        &made,
    )
}

fn show(output: Output, instance: &Value) -> Outcome<()> {
    if output.0 != Format::Table {
        return output.one(instance, DETAILS);
    }
    let mut shown = instance.clone();
    let vims = instance["vimConnectionInfo"]
        .as_object()
        .into_iter()
        .flatten();
    shown["vims"] = vims
        .map(|(key, vim)| Value::from(vim_line(key, vim)))
        .collect();
    output.one(&shown, DETAILS)?;
    let vnfcs = instance
        .pointer("/instantiatedVnfInfo/vnfcResourceInfo")
        .and_then(Value::as_array);
    let Some(vnfcs) = vnfcs.filter(|vnfcs| !vnfcs.is_empty()) else {
        return Ok(());
    };
    let with_addresses = |vnfc: &Value| {
        let mut vnfc = vnfc.clone();
        vnfc["addresses"] = addresses(&vnfc);
        vnfc
    };
    output.list(&vnfcs.iter().map(with_addresses).collect::<Vec<_>>(), VNFCS)
}

fn vim_line(key: &str, vim: &Value) -> String {
    let id = vim["vimId"].as_str().unwrap_or("of the request");
    format!(
        "{key} = {id} ({})",
        vim["vimType"].as_str().unwrap_or_default()
    )
}

/// All addresses of a VNFC, over all its connection points.
fn addresses(vnfc: &Value) -> Value {
    let of = |value: &Value, member: &str| value[member].as_array().cloned().unwrap_or_default();
    let protocols = of(vnfc, "vnfcCpInfo")
        .into_iter()
        .flat_map(|cp| of(&cp, "cpProtocolInfo"));
    let groups = protocols.flat_map(|protocol| of(&protocol["ipOverEthernet"], "ipAddresses"));
    groups.flat_map(|group| of(&group, "addresses")).collect()
}

async fn abandon(
    client: &Client,
    output: Output,
    vnf: &str,
    (reason, force): (String, bool),
) -> Outcome<()> {
    let found = find(client, vnf).await?;
    let force = if force { "?force=true" } else { "" };
    let path = format!("/vnfm/v1/vnf_instances/{}/abandon{force}", id_of(&found));
    let request = client.request(Method::POST, &path);
    client.send(client.acting(request, Some(&reason))?).await?;
    let sentence = format!("abandoned VNF instance {vnf}; `vnfmctl orphans` names what it left");
    output.done(&sentence, &found)
}

async fn modify(client: &Client, output: Output, asked: Modification) -> Outcome<()> {
    let mut body = asked
        .request
        .as_deref()
        .map_or_else(|| Ok(json!({})), read)?;
    if !body.is_object() {
        return Err(local("the request is no object"));
    }
    let texts = [
        ("vnfInstanceName", asked.name),
        ("vnfInstanceDescription", asked.description),
    ];
    for (member, text) in texts {
        if let Some(text) = text {
            body[member] = json!(text);
        }
    }
    let values = [
        ("metadata", asked.metadata),
        ("extensions", asked.extensions),
        ("vnfConfigurableProperties", asked.properties),
    ];
    for (member, all) in values {
        all.iter().try_for_each(|one| set(&mut body[member], one))?;
    }
    let found = find(client, &asked.vnf).await?;
    let path = format!("{INSTANCES}/{}", id_of(&found));
    let request = client.request(Method::PATCH, &path);
    let request = request
        .header("content-type", "application/merge-patch+json")
        .json(&body);
    let op_id = client.task(request).await?;
    followed(client, output, &op_id, (&asked.vnf, "modify", asked.watch)).await
}

/// A task on an instance.
struct Asked {
    vnf: String,
    task: &'static str,
    body: Value,
    skip: Option<Skip>,
    watch: bool,
}

async fn task(client: &Client, output: Output, asked: Asked) -> Outcome<()> {
    let Asked {
        vnf,
        task,
        body,
        skip,
        watch,
    } = asked;
    let found = find(client, &vnf).await?;
    let path = format!("{INSTANCES}/{}/{task}", id_of(&found));
    let mut request = client.request(Method::POST, &path).json(&body);
    if let Some(Skip { hooks, reason }) = skip.filter(|skip| !skip.hooks.is_empty()) {
        request = client.acting(request, reason.as_deref())?;
        request = request.header("x-vnfm-skip-hooks", hooks.join(","));
    }
    let op_id = client.task(request).await?;
    followed(client, output, &op_id, (&vnf, task, watch)).await
}

/// Says that a task was accepted, or follows it to its end.
async fn followed(
    client: &Client,
    output: Output,
    op_id: &str,
    (vnf, task, watch): (&str, &str, bool),
) -> Outcome<()> {
    if !watch {
        let sentence = format!("{task} of {vnf} accepted as operation {op_id}");
        return output.done(&sentence, &json!({"vnfLcmOpOccId": op_id}));
    }
    watch::operation(client, op_id, LcmOperationState::Completed).await?;
    let op: Value = client
        .get(&format!("/vnflcm/v2/vnf_lcm_op_occs/{op_id}"))
        .await?;
    output.done(
        &format!("{task} of {vnf} is COMPLETED (operation {op_id})"),
        &op,
    )
}

fn read(file: &Path) -> Outcome<Value> {
    let name = file.display();
    let text =
        std::fs::read_to_string(file).map_err(|e| local(format!("cannot read `{name}`: {e}")))?;
    serde_yaml::from_str(&text)
        .map_err(|e| local(format!("`{name}` is neither JSON nor YAML: {e}")))
}

/// Sets `a.b.c=value` in `params`; a value that is JSON is taken as such.
fn set(params: &mut Value, assignment: &str) -> Outcome<()> {
    let Some((key, value)) = assignment.split_once('=') else {
        return Err(local(format!("`{assignment}` is not KEY=VALUE")));
    };
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    let place = key.split('.').fold(params, |place, name| {
        if !place.is_object() {
            *place = json!({});
        }
        &mut place[name]
    });
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::set;
    use serde_json::{Value, json};

    #[test]
    fn a_parameter_goes_as_deep_as_its_dots() {
        let mut params = Value::Null;
        for assignment in ["a.b=1", "a.c=text", "d=[true]"] {
            set(&mut params, assignment).unwrap();
        }
        assert_eq!(params, json!({"a": {"b": 1, "c": "text"}, "d": [true]}));
        assert!(set(&mut params, "no value").is_err());
    }
}
