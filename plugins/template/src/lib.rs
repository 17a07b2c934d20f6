//! A template for `MgmtDrivers`: writes a file on each VNFC over SSH. Copy it and change it.
//!
//! `instantiate_end` runs after the servers were created. On four of them at a time, it waits for a login, uploads the
//! file and reads it back. All of that is idempotent, so a retry is safe.

use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use vnfm_plugin_sdk::prelude::*;

/// The plugin's configuration, set by the operator.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    /// Path of the file on each server.
    path: String,
    /// Seconds that a server may take until a login works.
    login_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            path: "/etc/vnf-welcome".into(),
            login_seconds: 300,
        }
    }
}

/// The members of the request's `additionalParams`; the VNFM validates them before it creates anything.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Welcome {
    /// The connection point for SSH.
    ssh_cp: String,
    /// The user to log in as.
    username: String,
    /// Password of that user on the server.
    password: Secret,
    /// Content of the file to write.
    text: String,
}

/// The driver that writes the file.
#[derive(Debug)]
pub struct Template {
    config: Config,
}

impl MgmtDriver for Template {
    type Config = Config;

    fn new(config: Config) -> Result<Self, DriverError> {
        if config.path.starts_with('/') {
            return Ok(Self { config });
        }
        Err(DriverError::new(
            "bad-path",
            format!("`{}` is not an absolute path", config.path),
        ))
    }

    fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
        hooks.on("instantiate_end", Self::instantiate_end)
    }
}

impl Template {
    async fn instantiate_end(
        self: Arc<Self>,
        cx: HookContext,
        request: HookRequest<Welcome>,
    ) -> Result<Effects, DriverError> {
        cx.progress(0, "writing the welcome").await;
        let params = &request.additional_params;
        let servers = request
            .vnfcs()
            .iter()
            .map(|vnfc| self.welcome(&cx, vnfc, params));
        let written: Vec<()> = join_all_limited(4, servers)
            .await
            .into_iter()
            .collect::<Result<_, _>>()?;
        cx.progress(100, "the welcome is written").await;
        Ok(Effects::none().metadata("welcomed", written.len()))
    }

    async fn welcome(
        &self,
        cx: &HookContext,
        vnfc: &Vnfc,
        params: &Welcome,
    ) -> Result<(), DriverError> {
        let target = vnfc
            .ssh(&params.ssh_cp, &params.username)?
            .password(params.password.clone());
        let ssh = cx.ssh(target);
        ssh.wait(Duration::from_secs(self.config.login_seconds))
            .await?;
        let path = &self.config.path;
        ssh.put(Upload::new(path, params.text.as_str()).mode("0644").sudo())
            .await?;
        let read = ssh.check("verify", format!("cat {path}")).await?;
        if read.stdout == params.text {
            return Ok(());
        }
        Err(
            DriverError::new("verify-failed", format!("`{path}` is not what we wrote"))
                .host(vnfc.name())
                .phase("verify"),
        )
    }
}

export_mgmt_driver!(Template);

#[cfg(test)]
mod tests {
    use super::Template;
    use serde_json::json;
    use vnfm_plugin_sdk::testkit::{Reply, TestHost, TestRequest, request, trial};

    fn two_servers() -> TestRequest {
        request("instantiate_end")
            .vnfc("VDU1", "web-1", &[("CP1", "10.0.0.1")])
            .vnfc("VDU1", "web-2", &[("CP1", "10.0.0.2")])
            .params(json!({
                "sshCp": "CP1", "username": "ubuntu", "password": "s3cret-pw", "text": "hello",
            }))
    }

    #[test]
    fn each_server_gets_the_file() {
        let host = TestHost::new().ssh("*", "cat /etc/vnf-welcome", Reply::ok("hello"));
        let effects = host.run::<Template>(two_servers()).unwrap();
        assert_eq!(effects.metadata["welcomed"], 2);
        let files: Vec<_> = host
            .uploads()
            .iter()
            .map(|f| (f.address.clone(), f.text()))
            .collect();
        assert_eq!(
            files,
            [
                ("10.0.0.1".into(), "hello".into()),
                ("10.0.0.2".to_string(), "hello".to_string())
            ]
        );
        assert_eq!(host.unknown_commands(), [""; 0]);
        assert_eq!(host.find_leaks("s3cret-pw"), [""; 0]);
    }

    #[test]
    fn whatever_goes_wrong_it_ends_well_when_it_is_run_again() {
        let world = || TestHost::new().ssh("*", "cat /etc/vnf-welcome", Reply::ok("hello"));
        trial::<Template>(world, two_servers())
            .secret("s3cret-pw")
            .run()
            .unwrap();
    }

    #[test]
    fn an_error_names_the_server_and_the_other_one_is_written_nevertheless() {
        let host = TestHost::new().ssh("*", "cat", Reply::ok("hello")).ssh(
            "10.0.0.1",
            "cat",
            Reply::exit(1, "cat: permission denied\n"),
        );
        let error = host.run::<Template>(two_servers()).unwrap_err();
        assert_eq!(error.code, "verify-failed");
        assert_eq!(
            (error.host.as_deref(), error.exit_code),
            (Some("web-1"), Some(1))
        );
        assert_eq!(error.last_lines, ["cat: permission denied"]);
        assert_eq!(host.uploads().len(), 2);
    }

    #[test]
    fn wrong_parameters_and_a_wrong_configuration_are_named() {
        let host = TestHost::new();
        let error = host
            .run::<Template>(two_servers().params(json!({})))
            .unwrap_err();
        assert_eq!(error.code, "bad-parameters");
        assert!(error.detail.contains("sshCp"), "{error}");
        let error = host
            .run::<Template>(two_servers().config(json!({"path": "etc"})))
            .unwrap_err();
        assert_eq!(error.code, "bad-path");
        assert!(host.calls().is_empty());
    }
}
