//! Nova: servers, flavors, the project's limits, console logs.

use crate::errors::UNEXPECTED;
use crate::heat::member;
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use vnfm_core::ports::PortError;

/// From this version on a server shows its flavor's name instead of its id.
const FLAVOR_BY_NAME: &str = "2.48";
/// Lines requested of a console log; host keys appear late in a boot.
const CONSOLE_LINES: u32 = 2000;

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Server {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) status: String,
    /// What Nova is doing with it; `None` if it is idle.
    #[serde(rename = "OS-EXT-STS:task_state", default)]
    pub(crate) task: Option<String>,
    #[serde(default)]
    pub(crate) metadata: Map<String, Value>,
    #[serde(default)]
    flavor: Value,
    /// An empty text if it boots from a volume.
    #[serde(default)]
    image: Value,
    #[serde(rename = "OS-EXT-AZ:availability_zone", default)]
    pub(crate) zone: Option<String>,
    #[serde(rename = "os-extended-volumes:volumes_attached", default)]
    volumes: Vec<Attached>,
}

#[derive(Debug, Clone, Deserialize)]
struct Attached {
    id: String,
}

impl Server {
    /// The name of its flavor, if Nova shows it.
    pub(crate) fn flavor(&self) -> Option<&str> {
        self.flavor.get("original_name").and_then(Value::as_str)
    }

    /// Id of the image that it boots; `None` if it boots from a volume.
    pub(crate) fn image(&self) -> Option<&str> {
        self.image.get("id").and_then(Value::as_str)
    }

    /// Whether Nova keeps it only as a deleted record.
    pub(crate) fn is_deleted(&self) -> bool {
        matches!(self.status.as_str(), "DELETED" | "SOFT_DELETED")
    }

    /// Whether its root disk is a volume.
    pub(crate) fn boots_from_volume(&self) -> bool {
        self.image().is_none()
    }

    /// Ids of the volumes attached to it.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = &str> {
        self.volumes.iter().map(|volume| volume.id.as_str())
    }

    #[cfg(test)]
    pub(crate) fn for_test(id: &str, name: &str) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            ..Self::default()
        }
    }

    /// A non-empty value of its metadata.
    pub(crate) fn tag(&self, name: &str) -> Option<&str> {
        self.metadata
            .get(name)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Flavor {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) vcpus: u64,
    /// Memory of a server, in MiB.
    pub(crate) ram: u64,
    /// Size of the root disk, in GiB.
    pub(crate) disk: u64,
    /// Size of the ephemeral disk, in GiB.
    #[serde(rename = "OS-FLV-EXT-DATA:ephemeral", default)]
    pub(crate) ephemeral: u64,
    #[serde(rename = "OS-FLV-DISABLED:disabled", default)]
    pub(crate) disabled: bool,
}

/// The limits of a project; -1 means unlimited.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Limits {
    pub(crate) max_total_instances: Option<i64>,
    pub(crate) total_instances_used: Option<i64>,
    pub(crate) max_total_cores: Option<i64>,
    pub(crate) total_cores_used: Option<i64>,
    #[serde(rename = "maxTotalRAMSize")]
    pub(crate) max_total_ram: Option<i64>,
    #[serde(rename = "totalRAMUsed")]
    pub(crate) total_ram_used: Option<i64>,
}

/// A server, if it exists.
pub(crate) async fn server(cloud: &Cloud<'_>, id: &str) -> Result<Option<Server>, PortError> {
    let action = format!("look at server `{id}`");
    let call = Call::get(format!("/servers/{}", encoded(id)), action.as_str())
        .microversion(FLAVOR_BY_NAME)
        .accepting(&[404]);
    let reply = cloud.send(Service::Compute, &call).await?;
    if reply.status == 404 {
        Ok(None)
    } else {
        member(reply, "server", &action).map(Some)
    }
}

/// Requests a server's deletion; succeeds if it does not exist.
pub(crate) async fn delete(cloud: &Cloud<'_>, id: &str) -> Result<(), PortError> {
    let path = format!("/servers/{}", encoded(id));
    let call = Call::delete(path, format!("delete server `{id}`")).accepting(&[404]);
    cloud.send(Service::Compute, &call).await.map(drop)
}

/// Attaches a port to a server; one that something has meanwhile is left alone.
pub(crate) async fn attach_port(
    cloud: &Cloud<'_>,
    server: &str,
    port: &str,
) -> Result<(), PortError> {
    let path = format!("/servers/{}/os-interface", encoded(server));
    let body = json!({"interfaceAttachment": {"port_id": port}});
    let call = Call::post(
        path,
        body,
        format!("attach port `{port}` to server `{server}`"),
    );
    let call = call.accepting(&[404, 409]);
    cloud.send(Service::Compute, &call).await.map(drop)
}

/// Requests an action without parameters on a server, such as `os-stop`; false if its state does not allow it now.
pub(crate) async fn act(cloud: &Cloud<'_>, id: &str, action: &str) -> Result<bool, PortError> {
    let path = format!("/servers/{}/action", encoded(id));
    let body = Value::Object([(action.to_owned(), Value::Null)].into_iter().collect());
    let call = Call::post(path, body, format!("`{action}` server `{id}`"));
    // It reaches a state, so a repeated one does no harm.
    let call = call.repeatable().accepting(&[404, 409]);
    let reply = cloud.send(Service::Compute, &call).await?;
    Ok(!matches!(reply.status, 404 | 409))
}

/// Requests an image of a server's root disk with these properties.
pub(crate) async fn create_image(
    cloud: &Cloud<'_>,
    id: &str,
    (name, properties): (&str, Map<String, Value>),
) -> Result<(), PortError> {
    let body = json!({"createImage": {"name": name, "metadata": properties}});
    let path = format!("/servers/{}/action", encoded(id));
    // 409: Nova is still making another image of it.
    let call = Call::post(path, body, format!("store server `{id}`")).accepting(&[409]);
    cloud.send(Service::Compute, &call).await.map(drop)
}

/// Requests that a server is rebuilt from an image; false if its state does not allow it now.
pub(crate) async fn rebuild(cloud: &Cloud<'_>, id: &str, image: &str) -> Result<bool, PortError> {
    let body = json!({"rebuild": {"imageRef": image}});
    let path = format!("/servers/{}/action", encoded(id));
    let call = Call::post(path, body, format!("rebuild server `{id}`")).accepting(&[409]);
    let reply = cloud.send(Service::Compute, &call).await?;
    Ok(reply.status != 409)
}

/// Every flavor that the project may use.
pub(crate) async fn flavors(cloud: &Cloud<'_>) -> Result<Vec<Flavor>, PortError> {
    let action = "list flavors";
    let reply = cloud
        .send(Service::Compute, &Call::get("/flavors/detail", action))
        .await?;
    member(reply, "flavors", action)
}

/// Names of the available zones for servers.
pub(crate) async fn zones(cloud: &Cloud<'_>) -> Result<Vec<String>, PortError> {
    let action = "list availability zones";
    let call = Call::get("/os-availability-zone", action);
    let reply = cloud.send(Service::Compute, &call).await?;
    let all: Vec<Value> = member(reply, "availabilityZoneInfo", action)?;
    let available = all
        .iter()
        .filter(|zone| zone["zoneState"]["available"] == true);
    Ok(available
        .filter_map(|zone| zone["zoneName"].as_str().map(ToOwned::to_owned))
        .collect())
}

/// The project's limits; all absent if Nova does not show them.
pub(crate) async fn limits(cloud: &Cloud<'_>) -> Result<Limits, PortError> {
    let call = Call::get("/limits", "read the project's limits").accepting(&[403, 404]);
    let reply = cloud.send(Service::Compute, &call).await?;
    let Some(absolute) = reply.body.pointer("/limits/absolute") else {
        return Ok(Limits::default());
    };
    serde_json::from_value(absolute.clone()).map_err(|error| {
        let detail = format!("`limits.absolute` does not match the API: {error}");
        PortError::new(&UNEXPECTED, "read the project's limits", detail)
    })
}

/// A server's console log; empty if Nova has none.
pub(crate) async fn console(cloud: &Cloud<'_>, id: &str) -> Result<String, PortError> {
    let call = Call::post(
        format!("/servers/{}/action", encoded(id)),
        json!({"os-getConsoleOutput": {"length": CONSOLE_LINES}}),
        format!("read the console log of server `{id}`"),
    );
    let call = call.repeatable().accepting(&[404, 409, 501]);
    let reply = cloud.send(Service::Compute, &call).await?;
    Ok(reply
        .body
        .get("output")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned())
}

/// The SSH host keys that cloud-init printed between its two markers.
pub(crate) fn host_keys_in(console: &str) -> Vec<String> {
    const BEGIN: &str = "-----BEGIN SSH HOST KEY KEYS-----";
    const END: &str = "-----END SSH HOST KEY KEYS-----";
    let Some((_, rest)) = console.rsplit_once(BEGIN) else {
        return Vec::new();
    };
    let Some((block, _)) = rest.split_once(END) else {
        return Vec::new();
    };
    // A console may put a time stamp or a prefix before each line.
    let key = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words
            .iter()
            .position(|word| word.starts_with("ssh-") || word.starts_with("ecdsa-sha2-"))?;
        Some(format!("{} {}", words.get(at)?, words.get(at + 1)?))
    };
    block.lines().filter_map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_keys_lie_between_the_last_markers() {
        let console = "boot\n-----BEGIN SSH HOST KEY KEYS-----\nssh-rsa OLD\n-----END SSH HOST KEY KEYS-----\n\
            reboot\n-----BEGIN SSH HOST KEY KEYS-----\n[ 12.5] ssh-ed25519 AAAA root@host\r\necdsa-sha2-nistp256 BBBB x\n\
            -----END SSH HOST KEY KEYS-----\nlogin:";
        assert_eq!(
            host_keys_in(console),
            ["ssh-ed25519 AAAA", "ecdsa-sha2-nistp256 BBBB"]
        );
        assert!(host_keys_in("FAKE CONSOLE OUTPUT\nANOTHER\nLAST LINE").is_empty());
        assert!(host_keys_in("-----BEGIN SSH HOST KEY KEYS-----\nssh-rsa cut off").is_empty());
    }
}
