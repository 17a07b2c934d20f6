//! The commands of helm that we use.
//!
//! Helm never waits for objects here (the hooks of a chart apart), installs no CRDs, and checks no `values.schema.json`: the
//! schema may refer to files and addresses, which helm would read.

use crate::errors::HelmError;
use crate::memory::MemoryFile;
use crate::process::Run;
use crate::program::{Generation, Helm};
use crate::renderer::{Exchange, Render};
use std::io;
use std::time::Duration;

/// How long a chart may take to render without a cluster.
const RENDER_TIME: Duration = Duration::from_mins(1);

/// A release: a chart with values under a name.
#[derive(Clone, Copy)]
pub struct Release<'a> {
    /// Name of the release, unique in its namespace.
    pub name: &'a str,
    /// Namespace of the release, and of its objects that state none.
    pub namespace: &'a str,
    /// The packaged chart, a gzipped tar.
    pub chart: &'a [u8],
    /// The values as YAML or JSON; may be secret.
    pub values: &'a [u8],
}

/// What a chart may ask about the cluster (`.Capabilities`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Version of Kubernetes, such as `v1.36.2`.
    pub version: String,
    /// Group versions and kinds, such as `apps/v1` and `apps/v1/Deployment`.
    pub apis: Vec<String>,
}

/// How a release is installed or upgraded.
pub struct Apply<'a> {
    /// The login, as a kubeconfig file; secret.
    pub kubeconfig: &'a [u8],
    /// Labels of the release's record, from its first moment on.
    pub labels: &'a [(&'a str, &'a str)],
    /// What `helm history` shows about the revision.
    pub description: &'a str,
    /// False: hooks of the chart do not run.
    pub hooks: bool,
    /// How long it may take, its hooks included.
    pub time: Duration,
    /// Changes or refuses the objects before they are applied.
    pub render: Render<'a>,
}

impl Helm {
    /// The objects of a release, hooks included and CRDs not, without calling a cluster.
    ///
    /// # Errors
    ///
    /// The chart cannot be rendered with these values, or exceeds a limit.
    pub async fn template(
        &self,
        release: &Release<'_>,
        cluster: &Cluster,
    ) -> Result<Vec<u8>, HelmError> {
        self.version().await?;
        let action = format!("render the chart of release `{}`", release.name);
        let files = Files::for_release(release, &action)?;
        let mut arguments = vec!["template".to_owned()];
        arguments.extend(files.arguments(release));
        arguments.extend(["--kube-version".to_owned(), cluster.version.clone()]);
        for api in &cluster.apis {
            arguments.extend(["--api-versions".to_owned(), api.clone()]);
        }
        Run::new(action, arguments, RENDER_TIME).start(self).await
    }

    /// The CRDs in the folders `crds` of a chart and of those in it.
    ///
    /// # Errors
    ///
    /// The chart cannot be read, or exceeds a limit.
    pub async fn crds(&self, chart: &[u8]) -> Result<Vec<u8>, HelmError> {
        self.version().await?;
        let action = "read the CRDs of the chart";
        let chart = memory_file(chart, action)?;
        let arguments = vec!["show".to_owned(), "crds".to_owned(), chart.path()];
        Run::new(action, arguments, RENDER_TIME).start(self).await
    }

    /// Installs a release that does not exist. Objects that an interrupted installation left are adopted by helm.
    ///
    /// # Errors
    ///
    /// What helm reports; the release is then in the state `failed` or `pending-install`.
    pub async fn install(&self, release: &Release<'_>, apply: Apply<'_>) -> Result<(), HelmError> {
        self.apply("install", release, apply).await
    }

    /// Upgrades a release to another chart or other values, or repairs its objects.
    ///
    /// # Errors
    ///
    /// What helm reports; the last revision is then in the state `failed` or `pending-upgrade`.
    pub async fn upgrade(&self, release: &Release<'_>, apply: Apply<'_>) -> Result<(), HelmError> {
        self.apply("upgrade", release, apply).await
    }

    async fn apply(
        &self,
        command: &str,
        release: &Release<'_>,
        apply: Apply<'_>,
    ) -> Result<(), HelmError> {
        let version = self.version().await?;
        let action = format!("{command} release `{}`", release.name);
        let (files, login) = (
            Files::for_release(release, &action)?,
            memory_file(apply.kubeconfig, &action)?,
        );
        let exchange = Exchange::new(apply.render, version.generation, &action)?;
        let mut arguments = vec![command.to_owned()];
        arguments.extend(files.arguments(release));
        arguments.extend(exchange.arguments(version.generation));
        let labels: Vec<String> = apply
            .labels
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let options = [
            ("--kubeconfig", login.path()),
            ("--labels", labels.join(",")),
            ("--description", apply.description.to_owned()),
            ("--timeout", format!("{}s", apply.time.as_secs().max(1))),
        ];
        arguments.extend(
            options
                .into_iter()
                .flat_map(|(name, value)| [name.to_owned(), value]),
        );
        arguments.extend(["--skip-crds", "--output", "json"].map(str::to_owned));
        if version.generation == Generation::Four {
            arguments.push("--wait=hookOnly".to_owned());
            if command == "upgrade" {
                arguments.push("--force-conflicts".to_owned()); // Helm 3 always overwrites foreign changes
            }
        }
        if !apply.hooks {
            arguments.push("--no-hooks".to_owned());
        }
        let run = Run::new(action, arguments, apply.time).through(exchange);
        run.start(self).await.map(drop)
    }

    /// Runs the tests of a release, its hooks of type `test`.
    ///
    /// # Errors
    ///
    /// A test fails, or they take longer than `time`.
    pub async fn test(
        &self,
        (name, namespace): (&str, &str),
        kubeconfig: &[u8],
        time: Duration,
    ) -> Result<(), HelmError> {
        self.version().await?;
        let action = format!("test release `{name}`");
        let login = memory_file(kubeconfig, &action)?;
        let mut arguments = vec!["test".to_owned(), name.to_owned()];
        arguments.extend(options(namespace, &login, time));
        let run = Run::new(action, arguments, time);
        run.start(self).await.map(drop)
    }

    /// Uninstalls a release with its hooks; one that does not exist is no error. Does not wait until its objects are gone.
    ///
    /// # Errors
    ///
    /// A hook fails, the cluster refuses a deletion, or it takes longer than `time`; repeating it continues.
    pub async fn uninstall(
        &self,
        (name, namespace): (&str, &str),
        kubeconfig: &[u8],
        hooks: bool,
        time: Duration,
    ) -> Result<(), HelmError> {
        self.version().await?;
        let action = format!("uninstall release `{name}`");
        let login = memory_file(kubeconfig, &action)?;
        let mut arguments = vec!["uninstall".to_owned(), name.to_owned()];
        arguments.extend(options(namespace, &login, time));
        arguments.push("--ignore-not-found".to_owned());
        if !hooks {
            arguments.push("--no-hooks".to_owned());
        }
        Run::new(action, arguments, time)
            .start(self)
            .await
            .map(drop)
    }
}

/// The options of commands for a release that exists.
fn options(namespace: &str, login: &MemoryFile, time: Duration) -> Vec<String> {
    let options = [
        ("--namespace", namespace.to_owned()),
        ("--kubeconfig", login.path()),
        ("--timeout", format!("{}s", time.as_secs().max(1))),
    ];
    let options = options.into_iter();
    options
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
}

/// Chart and values in memory, as long as a run needs them.
struct Files {
    chart: MemoryFile,
    values: MemoryFile,
}

impl Files {
    fn for_release(release: &Release<'_>, action: &str) -> Result<Self, HelmError> {
        Ok(Self {
            chart: memory_file(release.chart, action)?,
            values: memory_file(release.values, action)?,
        })
    }

    fn arguments(&self, release: &Release<'_>) -> Vec<String> {
        vec![
            release.name.to_owned(),
            self.chart.path(),
            "--namespace".to_owned(),
            release.namespace.to_owned(),
            "--values".to_owned(),
            self.values.path(),
            "--skip-schema-validation".to_owned(),
        ]
    }
}

fn memory_file(bytes: &[u8], action: &str) -> Result<MemoryFile, HelmError> {
    MemoryFile::new(bytes).map_err(|source: io::Error| HelmError::Process {
        action: action.to_owned(),
        source,
    })
}
