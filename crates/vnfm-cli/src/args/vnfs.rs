//! `vnfmctl vnf …`: instances, and the operations that have options of their own.

use super::ListOptions;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Commands for VNF instances, from creation to abandonment.
#[derive(Debug, Subcommand)]
pub enum Vnf {
    /// Create an instance from --vnfd or --package; nothing is deployed yet
    #[command(group = ArgGroup::new("source").args(["vnfd", "package"]).required(true))]
    Create {
        /// ID of the VNFD (`vnfdId`) to create the instance from
        #[arg(long)]
        vnfd: Option<String>,
        /// Package, by ID or name
        #[arg(long)]
        package: Option<String>,
        /// Display name of the instance; need not be unique
        #[arg(long)]
        name: Option<String>,
        /// Free text that describes the instance
        #[arg(long)]
        description: Option<String>,
    },
    /// List all instances of your tenant
    List(ListOptions),
    /// Show one instance with its VNFCs and addresses
    Show {
        /// ID or name of the VNF instance
        vnf: String,
    },
    /// Delete an instance that is not instantiated
    Delete {
        /// ID or name of the VNF instance
        vnf: String,
    },
    /// Deploy an instance on a VIM
    Instantiate(Instantiation),
    /// Replace broken VNFCs: those named with --vnfc, otherwise all
    Heal(Healing),
    /// Add or remove VNFCs by steps of a scaling aspect
    #[command(after_help = SCALE_EXAMPLES)]
    Scale(Scaling),
    /// Scale to an instantiation level, or each aspect to a scale level
    #[command(name = "scale_to_level", alias = "scale-to-level", after_help = LEVEL_EXAMPLES)]
    ScaleToLevel(ScalingToLevel),
    /// Start or stop VNFCs: those named with --vnfc, otherwise all
    #[command(group = ArgGroup::new("state").args(["start", "stop", "request"]).required(true).multiple(true))]
    Operate(Operating),
    /// Store the VNF's state in a snapshot: disks, volumes and the record of the instance
    #[command(name = "create_snapshot", alias = "create-snapshot")]
    CreateSnapshot(SnapshotCreation),
    /// Return the VNF to a state stored in a snapshot; what was written since is lost
    #[command(name = "revert_to_snapshot", alias = "revert-to-snapshot")]
    RevertToSnapshot(Reversion),
    /// Change name, description, metadata, extensions or properties; the value `null` removes one
    Modify(Modification),
    /// Delete the VNF's resources; the instance remains as NOT_INSTANTIATED
    Terminate(Termination),
    /// What happens when a step of the instance's operations fails
    #[command(subcommand)]
    Policy(VnfPolicy),
    /// Last resort: drop an instance in any state, without touching any VIM
    Abandon {
        /// ID or name of the VNF instance
        vnf: String,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Abandon even if its operation is running, or others use a VIM that it registered
        #[arg(long)]
        force: bool,
    },
}

/// An instance to deploy, and its request.
#[derive(Debug, Args)]
pub struct Instantiation {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// Request body: an `InstantiateVnfRequest` as JSON or YAML
    #[arg(long, value_name = "FILE")]
    pub request: PathBuf,
    /// Set a member of additionalParams; dots address nested members, JSON values are parsed
    #[arg(long = "param", value_name = "KEY=VALUE")]
    pub params: Vec<String>,
    /// VIM to deploy on, by ID or name
    #[arg(long)]
    pub vim: Option<String>,
    /// Use this retained volume instead of a new one, by ID; repeatable
    #[arg(long = "volume", value_name = "VOLUME")]
    pub volumes: Vec<String>,
    /// Watch until the operation finishes
    #[arg(long)]
    pub watch: bool,
}

/// What to heal, and how.
#[derive(Debug, Args)]
pub struct Healing {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// VNFC to heal, by ID or name as in `vnf show`; repeatable
    #[arg(long = "vnfc", value_name = "VNFC")]
    pub vnfcs: Vec<String>,
    /// Cause of the failure, passed on to hooks
    #[arg(long)]
    pub cause: Option<String>,
    /// Replace the volumes of the VNFCs too
    #[arg(long)]
    pub all: bool,
    /// Options that all these operations have
    #[command(flatten)]
    pub common: TaskOptions,
}

const SCALE_EXAMPLES: &str = "\
Examples:
  vnfmctl vnf show web                                        its aspects, with current and highest level
  vnfmctl vnf scale web --aspect clients --out --watch        one step more
  vnfmctl vnf scale web --aspect load --in --steps 2 --watch  two steps fewer";

const LEVEL_EXAMPLES: &str = "\
Examples:
  vnfmctl vnf scale_to_level web --level city --watch
  vnfmctl vnf scale_to_level web --aspect clients=2 --aspect load=0 --watch";

/// By how much to scale an instance.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("direction").args(["out", "in", "request"]).required(true).multiple(true))]
pub struct Scaling {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// Scaling aspect of the VNFD, as in `vnf show`
    #[arg(long, required_unless_present = "request")]
    pub aspect: Option<String>,
    /// Add VNFCs
    #[arg(long, conflicts_with = "in")]
    pub out: bool,
    /// Remove VNFCs
    #[arg(long)]
    pub r#in: bool,
    /// Number of scaling steps [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub steps: Option<u32>,
    /// Options that all these operations have
    #[command(flatten)]
    pub common: TaskOptions,
}

/// The size to scale an instance to.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("size").args(["level", "aspects", "request"]).required(true).multiple(true))]
pub struct ScalingToLevel {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// Instantiation level of the VNFD
    #[arg(long, conflicts_with = "aspects")]
    pub level: Option<String>,
    /// Scale level of an aspect; repeatable, other aspects keep theirs
    #[arg(long = "aspect", value_name = "ASPECT=LEVEL")]
    pub aspects: Vec<String>,
    /// Options that all these operations have
    #[command(flatten)]
    pub common: TaskOptions,
}

/// What to start or stop, and how.
#[derive(Debug, Args)]
pub struct Operating {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// Start the VNFCs
    #[arg(long, conflicts_with = "stop")]
    pub start: bool,
    /// Stop the VNFCs; they keep their resources, except on Kubernetes
    #[arg(long)]
    pub stop: bool,
    /// Stop gracefully, then forcefully after SECONDS if given (default: forcefully at once)
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, conflicts_with = "start")]
    pub graceful: Option<Option<u32>>,
    /// VNFC to start or stop, by ID or name as in `vnf show`; repeatable
    #[arg(long = "vnfc", value_name = "VNFC")]
    pub vnfcs: Vec<String>,
    /// Options that all these operations have
    #[command(flatten)]
    pub common: TaskOptions,
}

/// An instance whose state to store, and where.
#[derive(Debug, Args)]
pub struct SnapshotCreation {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// Snapshot without contents to store the state in (default: a new one)
    #[arg(long, value_name = "ID")]
    pub snapshot: Option<String>,
    /// Set a member of userDefinedData, which is shown with the snapshot
    #[arg(long = "data", value_name = "NAME=VALUE")]
    pub data: Vec<String>,
    /// Options that all these operations have
    #[command(flatten)]
    pub common: TaskOptions,
}

/// An instance to return to a stored state.
#[derive(Debug, Args)]
pub struct Reversion {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// Snapshot to return to
    #[arg(long, value_name = "ID", required_unless_present = "request")]
    pub snapshot: Option<String>,
    /// Options that all these operations have
    #[command(flatten)]
    pub common: TaskOptions,
}

/// Options of an operation that changes an instance.
#[derive(Debug, Args)]
pub struct TaskOptions {
    /// Request body as JSON or YAML, which the other options change
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
    /// Set a member of additionalParams, overriding the one given at instantiation
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// Hooks to skip, and why
    #[command(flatten)]
    pub skip: SkipHooks,
    /// Watch until the operation finishes
    #[arg(long)]
    pub watch: bool,
}

/// An instance to terminate, and how.
#[derive(Debug, Args)]
pub struct Termination {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// Terminate gracefully, within SECONDS if given (default: forcefully)
    #[arg(long, value_name = "SECONDS", num_args = 0..=1)]
    pub graceful: Option<Option<u32>>,
    /// Terminate the VNFs on clusters of this one first, as operations of their own
    #[arg(long)]
    pub cascade: bool,
    /// Retain the volumes of this storage of the VNFD; `all`: all volumes; repeatable
    #[arg(long = "retain", value_name = "STORAGE")]
    pub retain: Vec<String>,
    /// Options that all these operations have
    #[command(flatten)]
    pub common: TaskOptions,
}

/// Changes to a VNF instance.
#[derive(Debug, Args)]
pub struct Modification {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// New display name; need not be unique
    #[arg(long)]
    pub name: Option<String>,
    /// New description, as free text
    #[arg(long)]
    pub description: Option<String>,
    /// Set a member of the metadata; dots address nested members, JSON values are parsed
    #[arg(long = "metadata", value_name = "KEY=VALUE")]
    pub metadata: Vec<String>,
    /// Set an extension that the VNFD declares
    #[arg(long = "extension", value_name = "KEY=VALUE")]
    pub extensions: Vec<String>,
    /// Set a configurable property that the VNFD declares
    #[arg(long = "property", value_name = "KEY=VALUE")]
    pub properties: Vec<String>,
    /// A complete `VnfInfoModificationRequest` as JSON or YAML, for members without a flag
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
    /// Watch until the operation finishes
    #[arg(long)]
    pub watch: bool,
}

/// Commands for the policy of an instance.
#[derive(Debug, Subcommand)]
pub enum VnfPolicy {
    /// Show the policy that applies, and whether it is the instance's own
    Show {
        /// ID or name of the VNF instance
        vnf: String,
    },
    /// Give the instance its own policy, which applies to running operations too
    #[command(after_help = POLICY_EXAMPLE)]
    Set(PolicyOptions),
    /// Remove the instance's own policy: that of the server's configuration applies
    Unset {
        /// ID or name of the VNF instance
        vnf: String,
    },
}

const POLICY_EXAMPLE: &str = "\
Example:
  vnfmctl vnf policy set vnf-a --retries 10 --within 900 --then rollback";

/// What happens when a step fails.
#[derive(Debug, Args)]
pub struct PolicyOptions {
    /// ID or name of the VNF instance
    pub vnf: String,
    /// How often a step is repeated while its neighbour is unavailable
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub retries: u32,
    /// The last repetition begins within this time after the first failure
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub within: u32,
    /// What follows then: stop in `FAILED_TEMP`, or roll back
    #[arg(long, value_enum, default_value_t = Then::Stop)]
    pub then: Then,
}

/// What follows once a step is not repeated any more.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Then {
    /// Stop, so that an operator decides
    Stop,
    /// Roll back, unless a step has begun that cannot be undone
    Rollback,
}

/// Hooks that an operation skips.
#[derive(Debug, Args)]
pub struct SkipHooks {
    /// Do not run this hook; repeatable; requires --reason
    #[arg(long = "skip-hook", value_name = "NAME", requires = "reason")]
    pub hooks: Vec<String>,
    /// Reason for skipping the hooks, recorded in the audit log; only with --skip-hook
    #[arg(long, value_name = "TEXT", requires = "hooks")]
    pub reason: Option<String>,
}
