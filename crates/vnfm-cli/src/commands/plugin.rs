//! `vnfmctl plugin …`: `list` asks the server; `inspect` and `allow` work on files of this machine.

use crate::args::Plugin;
use crate::client::{Client, Outcome};
use crate::output::Output;
use serde_json::Value;

pub(super) async fn run(client: &Client, output: Output, command: Plugin) -> Outcome<()> {
    match command {
        Plugin::List => {
            let mut plugins: Vec<Value> = client.get("/vnfm/v1/plugins").await?;
            for plugin in &mut plugins {
                let hooks =
                    plugin["hooks"].as_object().map(|hooks| hooks.keys().cloned().collect());
                plugin["hookNames"] = Value::Array(
                    hooks.unwrap_or_else(Vec::new).into_iter().map(Value::String).collect(),
                );
            }
            output.list(
                &plugins,
                &[("name", "/name"), ("version", "/version"), ("hooks", "/hookNames")],
            )
        }
        Plugin::Allow { file, dir } => files::allow(output, &file, &dir),
        Plugin::Inspect { file } => files::inspect(output, &file),
    }
}
