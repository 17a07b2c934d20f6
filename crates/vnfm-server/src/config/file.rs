//! The configuration file: its members in order. A section with a type elsewhere belongs to what it configures.

use super::limits::Limits;
use super::on_failure::OnFailure;
use super::plugins::Plugins;
use crate::access;
use crate::logs::Log;
use crate::maintenance::RetentionDays;
use crate::nfvo::Nfvo;
use crate::secrets::Secrets;
use crate::signatures::Packages;
use crate::tls::CertificatePair;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use vnfm_kubernetes::Helm;

/// The configuration file of `vnfm-server`. Every member is optional.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
#[schemars(title = "vnfm-server configuration")]
pub(super) struct ConfigFile {
    /// Address and port to listen on; an address other than loopback needs `tls`, and either `token_file` or a login
    /// method under `access`. Default: `127.0.0.1:9890`.
    #[schemars(extend("format" = "socket-address"))]
    pub(super) listen: Option<SocketAddr>,
    /// Data folder: database, packages, plugins and the key file. Default for root: `/var/lib/vnfm`.
    pub(super) data: Option<PathBuf>,
    /// Base URL of this server for clients, used in links; derived from each request if absent.
    #[schemars(extend("format" = "http-url"))]
    pub(super) public_url: Option<String>,
    /// Networks of the proxies whose `Forwarded` and `X-Forwarded-*` headers are trusted for this server's public URL.
    #[schemars(with = "Vec<Network>")]
    pub(super) trusted_proxies: Vec<String>,
    /// File with the bearer token that every request must carry.
    #[schemars(extend("format" = "file"))]
    pub(super) token_file: Option<PathBuf>,
    /// The server's certificate.
    pub(super) tls: Option<CertificatePair>,
    /// What is logged, and in which format.
    pub(super) log: Log,
    /// A separate address for health and metrics, and tracing.
    pub(super) monitoring: Monitoring,
    /// Which plugins run, and with what limits.
    pub(super) plugins: Plugins,
    /// Limits on time, size and concurrency.
    pub(super) limits: Limits,
    /// What happens to an operation when one of its steps fails.
    pub(super) on_failure: OnFailure,
    /// How long finished operations, their logs and audit entries are retained.
    pub(super) retention: RetentionDays,
    /// Delivery of notifications to subscribers.
    pub(super) notifications: Notifications,
    /// Addresses at which VIMs are allowed.
    pub(super) vims: Vims,
    /// Addresses that hooks may reach.
    pub(super) hooks: Hooks,
    /// The helm program that installs the charts of packages; without one, packages with charts are not deployed.
    pub(super) helm: HelmProgram,
    /// The program that switches bare hosts by IPMI.
    pub(super) ipmitool: Ipmitool,
    /// How the decisions of grants are followed.
    pub(super) grants: Grants,
    /// Requirements on packages at onboarding.
    pub(super) packages: Packages,
    /// The NFVO that grants operations and may supply packages; without it, a local policy grants.
    pub(super) nfvo: Option<Nfvo>,
    /// Logins, roles and quotas; without it, the token is the only login, and on loopback none is needed.
    pub(super) access: Option<access::Settings>,
    /// Location of the key that encrypts secrets.
    pub(super) secrets: Secrets,
}

/// A separate address for health and metrics, and the trace collector.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Monitoring {
    /// Address and port that serve only `/healthz`, `/readyz` and `/metrics`: without a login on loopback, otherwise over
    /// TLS and with a login. The main address serves them as well.
    #[schemars(extend("format" = "socket-address"))]
    pub listen: Option<SocketAddr>,
    /// URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318`; it receives a span
    /// for each request, operation, step and call. No traces if absent.
    #[schemars(extend("format" = "http-url"))]
    pub traces: Option<String>,
}

/// Delivery of notifications to subscribers.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Notifications {
    /// Networks allowed for callbacks and token endpoints of subscribers, such as `10.0.0.0/8`. The entry `default` stands
    /// for what an empty list allows: every address except this machine's own, link-local ones and metadata services.
    #[schemars(with = "Vec<Destination>")]
    pub networks: Vec<String>,
    /// Timeout in seconds for a subscriber's response. Default: 10.
    pub answer_seconds: Option<u64>,
    /// Hours after which an undelivered notification is dropped. Default: 24.
    pub give_up_hours: Option<u64>,
    /// Minutes after which a notification that the subscriber rejects (4xx except 408, 425, 429) is dropped. Default: 10.
    pub refused_minutes: Option<u64>,
    /// Client certificate for subscribers that require one (`TLS_CERT`).
    pub certificate: Option<CertificatePair>,
    /// PEM file of the CAs for subscribers' certificates; the system's CAs if absent.
    #[schemars(extend("format" = "file"))]
    pub authorities_file: Option<PathBuf>,
}

/// Addresses at which VIMs are allowed, and whether VIMs are followed.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Vims {
    /// Networks allowed for VIMs, the services in their catalogs and their proxies, such as `10.0.0.0/8`. The entry `default`
    /// stands for what an empty list allows: every address except this machine's own, link-local ones and metadata services.
    /// With an empty list, a server on loopback without a login may reach every address.
    #[schemars(with = "Vec<Destination>")]
    pub networks: Vec<String>,
    /// Whether records of instances follow what changes on a cluster outside of operations. Costs one connection for each
    /// VIM that has instances, and one reading of each instance at the start and after its pods change. Default: true.
    pub follow: Option<bool>,
}

/// Addresses that hooks may reach.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Hooks {
    /// Networks that hooks may reach over SSH and HTTP, jump hosts included; same syntax and default as `vims.networks`.
    #[schemars(with = "Vec<Destination>")]
    pub networks: Vec<String>,
}

/// The helm program that installs the charts of packages.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HelmProgram {
    /// Path of a Helm 3 or Helm 4 program, such as `/usr/local/bin/helm`.
    #[schemars(extend("format" = "file"))]
    pub binary: Option<PathBuf>,
    /// The SHA-256 of that file, as `sha256sum` prints it; another file is never started.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{64}$"))]
    pub sha256: Option<String>,
}

impl HelmProgram {
    /// The program; `None` if none is configured.
    pub(crate) fn program(&self) -> Option<Helm> {
        let binary = self.binary.clone()?;
        Some(Helm::new(binary, self.sha256.clone()))
    }
}

/// The program that switches bare hosts by IPMI.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Ipmitool {
    /// Path of the program, version 1.8.19 or newer. Default: `/usr/bin/ipmitool`.
    #[schemars(extend("format" = "file"))]
    pub binary: Option<PathBuf>,
}

/// How the decisions of grants are followed.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Grants {
    /// What happens when a grant places a resource in a zone that no parameter of the package's Heat template accepts:
    /// `refuse` rolls the operation back before anything is created, `warn` logs it and goes on.
    pub unplaced: Unplaced,
}

/// What happens with a granted zone that cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unplaced {
    /// The operation is rolled back before anything is created.
    #[default]
    Refuse,
    /// The zone is logged, and the template or the VIM decides.
    Warn,
}

/// The schema of a network, such as `10.0.0.0/8`.
struct Network;

impl JsonSchema for Network {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "network"})
    }
}

/// Schema type: a network that may be called, or the word `default`.
struct Destination;

impl JsonSchema for Destination {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Destination".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "destination"})
    }
}
