//! The command line of vnfmctl, as clap types; doc comments are the help text.

mod bundles;
mod clusters;
mod inventories;
mod links;
mod operations;
mod packages;
mod plugins;
mod profiles;
mod secrets;
mod vnfs;
mod volumes;

pub use bundles::{Bundle, CreateBundle, InstallBundle};
pub use clusters::{Cluster, ClusterBackup, ClusterTask, Interval, RollingTask, Rotation, Upgrade};
pub use inventories::Inventory;
pub use links::{Link, LinkCreation};
pub(crate) use operations::command_name;
pub use operations::{Named, Task, VnfCommand};
pub use packages::{Download, Kind, Lint, New, Onboard, Package, Part, Render, Sign};
pub use plugins::{NewPlugin, Plugin, Protocol, Run};
pub use profiles::{NewProfile, ProfileCommand};
pub use secrets::{HostKey, KeyStore, Secrets};
pub use vnfs::{
    Healing, Instantiation, Modification, Operating, Reversion, Scaling, ScalingToLevel, SkipHooks,
    SnapshotCreation, TaskOptions, Termination, Vnf,
};
pub use vnfs::{PolicyOptions, Then, VnfPolicy};
pub use volumes::{Volume, VolumeCreation};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// Client of vnfm-server, the VNF Manager.
#[derive(Debug, Parser)]
#[command(name = "vnfmctl", version, about, after_help = EXIT_CODES)]
pub struct Cli {
    /// The server to use
    #[command(flatten)]
    pub connection: Connection,
    /// Output format; `json` and `yaml` are for scripts
    #[arg(short, long, global = true, help_heading = GLOBAL, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// What to do, on which kind of resource
    #[command(subcommand)]
    pub command: Command,
}

/// The server to use, and the login there.
#[derive(Debug, Args)]
pub struct Connection {
    /// URL of the server [default: the profile's, else `http://127.0.0.1:9890`]
    #[arg(long, global = true, help_heading = GLOBAL, env = "VNFM_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// Profile saved with `vnfmctl profile set` [default: the current one]
    #[arg(long, global = true, help_heading = GLOBAL, env = "VNFM_PROFILE", value_name = "NAME")]
    pub profile: Option<String>,
    /// Bearer token, if the server requires one; otherwise `VNFM_USER` and `VNFM_PASSWORD` are used
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL,
        env = "VNFM_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub token: Option<String>,
    /// CA certificate that signed the server's certificate, PEM
    #[arg(long, global = true, help_heading = GLOBAL, env = "VNFM_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

const GLOBAL: &str = "Global options";

const EXIT_CODES: &str = "\
Wherever an argument says `ID or name`, both work; an ambiguous name is rejected with the matching IDs.

Exit codes:
  0  done
  1  the operation did not reach COMPLETED, or a local error
  2  invalid command line
  3  the server rejected the request (4xx)
  4  the server is unreachable or failed (5xx)
  5  lint found warnings but no errors
  6  lint found errors: onboarding would reject the package
  7  the hook of `plugin run` failed and may succeed when run again
  8  the plugin is broken: it panicked, crashed or returned an invalid result
  9  `--plan`: the operation would change something";

/// Output format, for people or scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables and text for people
    #[value(alias = "text")]
    Table,
    /// JSON, as sent by the server
    Json,
    /// The same data as YAML
    Yaml,
    /// SARIF 2.1.0, for code scanners; `lint` only
    Sarif,
}

/// The subcommands: one per kind of resource, or a task of its own.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// One that works without a server
    #[command(flatten)]
    Offline(Offline),
    /// One that uses a server
    #[command(flatten)]
    Online(Online),
}

/// The subcommands that work without a server. They read no profile, so that a broken one can be fixed.
#[derive(Debug, Subcommand)]
pub enum Offline {
    /// Check packages for errors and warnings (works offline)
    Lint(Lint),
    /// Scaffold a new VNF package
    #[command(subcommand)]
    New(New),
    /// Saved servers and logins, in a file that only you can read
    #[command(subcommand, display_order = 100)]
    Profile(ProfileCommand),
    /// Print a shell completion script
    #[command(display_order = 101)]
    Completion {
        /// Shell that the script is for
        shell: Shell,
    },
    /// Write the manual pages of all commands, for packages
    #[command(hide = true)]
    Man {
        /// Existing folder to write to
        dir: PathBuf,
    },
}

/// The subcommands that use the server that the options or the profile name.
#[derive(Debug, Subcommand)]
pub enum Online {
    /// Onboard, inspect, sign and download VNF packages
    #[command(subcommand)]
    Package(Package),
    /// Carry packages, plugins, binaries and images to a site without internet access, as one signed file
    #[command(subcommand)]
    Bundle(Bundle),
    /// VIMs: OpenStack clouds, Kubernetes clusters, bare hosts
    #[command(subcommand)]
    Vim(Vim),
    /// Create, deploy, change and terminate VNF instances
    #[command(subcommand)]
    Vnf(VnfCommand),
    /// Kubernetes clusters that VNFs have installed: check, upgrade, renew, back up and restore them
    #[command(subcommand)]
    Cluster(Cluster),
    /// Follow operations; retry, roll back or cancel them
    #[command(subcommand)]
    Op(Op),
    /// Create, inspect and delete VNF snapshots
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Networks that outlive the VNFs on them
    #[command(subcommand)]
    Link(Link),
    /// Volumes that outlive the VNFs they were made for
    #[command(subcommand)]
    Volume(Volume),
    /// Subscribe callbacks to lifecycle notifications
    #[command(subcommand)]
    Subscription(Subscription),
    /// Allow, inspect, run and scaffold MgmtDriver plugins
    #[command(subcommand)]
    Plugin(Plugin),
    /// Pinned SSH keys of the hosts that hooks log in to
    #[command(subcommand)]
    Hostkey(HostKey),
    /// Encryption keys of the server's secrets
    #[command(subcommand)]
    Secrets(Secrets),
    /// List VIM resources tagged by this VNFM that belong to no known instance
    Orphans {
        /// Forget the abandoned instance with this ID: none of its resources remain on any VIM
        #[arg(long, value_name = "ID", requires = "reason")]
        forget: Option<String>,
        /// Reason for --forget, recorded in the audit log
        #[arg(long, value_name = "TEXT", requires = "forget")]
        reason: Option<String>,
    },
    /// Show the audit log: who did what, when and why
    Audit,
    /// Show VNF lifecycle events: created, deleted, operation state changes
    Events {
        /// Only events after this sequence number
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: u64,
        /// Keep printing new events until Ctrl-C
        #[arg(long)]
        follow: bool,
    },
    /// Write a consistent backup of the database, packages and stored files to a file (keys not included)
    Backup {
        /// File to write; it must not exist
        file: PathBuf,
    },
    /// Remove data older than the server's retention periods
    Prune {
        /// Only report how much would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// After `vnfm-server restore`: compare the database with the VIMs and resume operations
    #[command(subcommand)]
    Recovery(Recovery),
}

/// Commands for registered VIMs, and for new ones.
#[derive(Debug, Subcommand)]
pub enum Vim {
    /// Register a VIM, after logging in to verify the connection
    Register {
        /// Display name, unique among the tenant's VIMs
        #[arg(long)]
        name: String,
        /// Register under this UUID, to replace a deleted VIM that instances still reference
        #[arg(long, conflicts_with = "from_vnf")]
        id: Option<String>,
        /// Connection file with endpoint and login
        #[command(flatten)]
        source: VimSource,
        /// Register the Kubernetes cluster created by this VNF instance
        #[arg(long, value_name = "VNF", conflicts_with = "config_file")]
        from_vnf: Option<String>,
        /// Make it available to all tenants (requires a server administrator)
        #[arg(long, conflicts_with = "from_vnf")]
        shared: bool,
        /// Policy that restricts what instances on this VIM may use: a YAML file
        #[arg(long, value_name = "FILE", conflicts_with = "from_vnf")]
        policy: Option<PathBuf>,
    },
    /// Change a VIM, after logging in; running operations use the change from their next call on
    Update {
        /// ID or name of the VIM
        vim: String,
        /// Connection file with endpoint and login
        #[command(flatten)]
        source: VimSource,
        /// Read a new password from standard input
        #[arg(long, conflicts_with = "config_file")]
        password_stdin: bool,
        /// New name, unique among the tenant's VIMs
        #[arg(long)]
        name: Option<String>,
        /// Whether it is available to all tenants
        #[arg(long)]
        shared: Option<bool>,
        /// Policy that restricts what instances on this VIM may use: a YAML file; an empty file removes the policy
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
    },
    /// Log in to a VIM and report what was found
    Check {
        /// ID or name of the VIM
        vim: String,
    },
    /// Show what a Kubernetes cluster offers: versions, nodes, kinds, storage; what the login may not read is unknown
    Capabilities {
        /// ID or name of the VIM
        vim: String,
    },
    /// Write the file of an inventory of bare hosts, for `vim register`, from files of Akraino ICN or Metal3 (works offline)
    Inventory(Inventory),
    /// List all VIMs that your tenant may use
    List,
    /// Show one VIM, without secrets
    Show {
        /// ID or name of the VIM
        vim: String,
    },
    /// Remove a VIM from the registry
    Delete {
        /// ID or name of the VIM
        vim: String,
        /// Delete even if instances use it; they keep referencing its ID
        #[arg(long, requires = "reason")]
        force: bool,
        /// Reason for --force, recorded in the audit log
        #[arg(long, value_name = "TEXT", requires = "force")]
        reason: Option<String>,
    },
}

/// A file with the endpoint and credentials of a VIM.
#[derive(Debug, Args)]
pub struct VimSource {
    /// clouds.yaml, kubeconfig, or a VIM file with `auth_url` or `vimType`
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Entry in clouds.yaml, or context in the kubeconfig
    #[arg(long, value_name = "NAME", requires = "config_file")]
    pub cloud: Option<String>,
}

/// Commands for VNF snapshots.
#[derive(Debug, Subcommand)]
pub enum Snapshot {
    /// Create a snapshot without contents; `vnf create_snapshot` stores a state in it
    Create {
        /// ID of the NFVO's VNF snapshot package
        #[arg(long, value_name = "ID")]
        package: Option<String>,
    },
    /// List all snapshots of your tenant
    List(ListOptions),
    /// Show one snapshot with the VNFCs that it has
    Show {
        /// ID, as `snapshot list` shows it
        snapshot: String,
    },
    /// Delete a snapshot, and what the VIM has of it
    Delete {
        /// ID, as `snapshot list` shows it
        snapshot: String,
    },
}

/// Commands for subscriptions to lifecycle notifications.
#[derive(Debug, Subcommand)]
pub enum Subscription {
    /// Subscribe a callback URL (it is probed immediately and must respond)
    Create(NewSubscription),
    /// List all subscriptions of your tenant
    List(ListOptions),
    /// Show one subscription, without its login
    Show {
        /// ID, as `subscription list` shows it
        subscription: String,
    },
    /// Delete a subscription; its callback receives nothing more
    Delete {
        /// ID, as `subscription list` shows it
        subscription: String,
    },
}

/// A callback and its filter; without a filter it receives every notification.
#[derive(Debug, Args)]
pub struct NewSubscription {
    /// URL that receives the notifications
    pub callback: String,
    /// Only notifications of this type, such as `VnfIdentifierCreationNotification`; repeatable
    #[arg(long = "type", value_name = "TYPE")]
    pub types: Vec<String>,
    /// Only this operation, such as `HEAL`; repeatable
    #[arg(long = "operation", value_name = "OPERATION")]
    pub operations: Vec<String>,
    /// Only operations entering this state, such as `COMPLETED`; repeatable
    #[arg(long = "state", value_name = "STATE")]
    pub states: Vec<String>,
    /// Only this VNF, by ID or name; repeatable
    #[arg(long = "vnf", value_name = "VNF")]
    pub vnfs: Vec<String>,
    /// Only VNFs of this VNFD; repeatable
    #[arg(long = "vnfd", value_name = "ID")]
    pub vnfds: Vec<String>,
    /// Send short notifications, without the changes
    #[arg(long)]
    pub short: bool,
    /// User for HTTP Basic at the callback; the password is read from standard input
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

/// Filter and columns of a list.
#[derive(Debug, Args)]
pub struct ListOptions {
    /// Only entries that match this SOL013 filter on their attributes, such as `(eq,id,ID)` or
    /// `(eq,instantiationState,INSTANTIATED);(cont,vnfInstanceName,web)` for VNFs
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Attributes to request and show, comma-separated, such as `id,metadata/site`
    #[arg(long, value_name = "LIST")]
    pub fields: Option<String>,
}

/// Commands for operations, running or finished.
#[derive(Debug, Subcommand)]
pub enum Op {
    /// List all operations, the newest first
    List(ListOptions),
    /// Show one operation: state, changes and error
    Show {
        /// ID, as `op list` shows it
        op: String,
    },
    /// Watch until the operation finishes
    Watch {
        /// ID, as `op list` shows it
        op: String,
    },
    /// Explain what an operation is doing or waiting for, and what retry, rollback, fail and cancel would do
    Explain {
        /// ID, as `op list` shows it
        op: String,
    },
    /// Show the operation's log: output of hooks, hosts and VIMs
    Log {
        /// ID, as `op list` shows it
        op: String,
        /// Keep printing until the operation finishes
        #[arg(long)]
        follow: bool,
    },
    /// Resume at the failed step
    Retry(Restart),
    /// Undo every step that was started
    Rollback(Restart),
    /// Mark the operation FAILED: it can no longer be retried or rolled back
    Fail {
        /// ID, as `op list` shows it
        op: String,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Cancel the operation, after the current step by default
    Cancel {
        /// ID, as `op list` shows it
        op: String,
        /// Cancel immediately instead of after the current step
        #[arg(long)]
        forceful: bool,
        /// Reason, recorded in the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// An operation to resume or roll back.
#[derive(Debug, Args)]
pub struct Restart {
    /// ID, as `op list` shows it
    pub op: String,
    /// Watch until the operation finishes
    #[arg(long)]
    pub watch: bool,
}

/// Commands to run after a restore.
#[derive(Debug, Subcommand)]
pub enum Recovery {
    /// Compare every instance with its VIMs
    Show,
    /// Accept operations again and resume unfinished ones
    Confirm {
        /// Confirm even if a VIM could not be queried
        #[arg(long)]
        force: bool,
    },
}
