//! The HTTP server with the real engine and database; VIM and hooks are in memory.
//!
//! Every response is checked against the official schemas, and for planted secrets.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod audit;
mod bench;
mod configuration;
mod data_folder;
#[cfg(test)]
mod differences;
mod events;
mod external_artifacts;
mod failure_policies;
mod full_disk;
mod gate;
mod headers;
mod hook_hosts;
mod hostile;
#[cfg(test)]
mod hostkeys;
mod interrupted_uploads;
mod keys;
mod large_package;
mod limits;
mod links;
mod listener;
mod lists;
mod logins;
mod manifest_values;
mod model;
mod modify;
mod nfvo_credentials;
mod nfvo_packages;
mod oauth_tokens;
mod observability;
mod openapi;
mod openapi_v1;
mod oracle;
mod overrides;
mod own_operation;
mod package_contents;
mod package_parts;
mod packages;
mod plans;
mod policies;
mod process;
mod proxies;
mod refusals;
mod scale;
mod scoped_roles;
mod signatures;
mod snapshots;
mod standard_details;
mod standard_response;
mod states_and_flavours;
mod statuses;
mod stored_files;
mod subscriptions;
mod supervision;
mod tasks;
mod tenants;
mod tls;
mod upload_from_uri;
mod v1;
mod volumes;
mod world;
