//! The command line.

mod packages;
mod plugins;
mod profiles;
mod secrets;

pub use packages::{Download, Kind, Lint, New, Onboard, Package, Part, Sign};
pub use plugins::{NewPlugin, Plugin, Run};
pub use profiles::{NewProfile, ProfileCommand};
pub use secrets::{HostKey, KeyPlace, Secrets};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// Client of vnfm-server, the VNF Manager.
#[derive(Debug, Parser)]
#[command(name = "vnfmctl", version, about, after_help = EXIT_CODES)]
pub struct Cli {
    /// Where the server is [default: the profile's, else `http://127.0.0.1:9890`]
    #[arg(long, global = true, env = "VNFM_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// Which of the servers that `vnfmctl profile set` has kept [default: the current one]
    #[arg(long, global = true, env = "VNFM_PROFILE", value_name = "NAME")]
    pub profile: Option<String>,
    /// Bearer token, where the server needs one; without it `VNFM_USER` and `VNFM_PASSWORD`
    #[arg(
        long,
        global = true,
        env = "VNFM_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub token: Option<String>,
    /// Certificate authority of the server, PEM
    #[arg(long, global = true, env = "VNFM_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// How results are printed
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Names and ids are accepted everywhere; a name that several have is refused with their ids.

Exit codes:
  0  done
  1  the operation did not end as COMPLETED, or something local failed
  2  the command line is wrong
  3  the server refused the request (4xx)
  4  the server cannot be reached, or failed (5xx)
  5  lint has warnings and no errors
  6  lint has errors: onboarding would refuse the package
  7  the hook of `plugin run` failed and may work when it is run again
  8  the plugin is wrong: a panic, a crash, an answer of the wrong shape";

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[value(alias = "text")]
    Table,
    /// As the server sent it
    Json,
    /// The same as YAML
    Yaml,
    /// SARIF 2.1.0, for code scanners; `lint` alone writes it
    Sarif,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say everything that is wrong or doubtful in packages; no server is asked
    Lint(Lint),
    /// Make what others begin with
    #[command(subcommand)]
    New(New),
    /// VNF packages
    #[command(subcommand)]
    Package(Package),
    /// VIMs: OpenStack clouds and Kubernetes clusters
    #[command(subcommand)]
    Vim(Vim),
    /// VNF instances
    #[command(subcommand)]
    Vnf(Vnf),
    /// Operation occurrences
    #[command(subcommand)]
    Op(Op),
    /// Who is told of lifecycle changes
    #[command(subcommand)]
    Subscription(Subscription),
    /// MgmtDriver plugins
    #[command(subcommand)]
    Plugin(Plugin),
    /// Servers by name, with their logins, in a file that only you can read
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Keys of the hosts that hooks log in to
    #[command(subcommand)]
    Hostkey(HostKey),
    /// Sealed secrets
    #[command(subcommand)]
    Secrets(Secrets),
    /// What carries our mark on a VIM and no instance explains
    Orphans {
        /// Nothing of this abandoned instance, by its id, is left anywhere
        #[arg(long, value_name = "ID", requires = "reason")]
        forget: Option<String>,
        /// Why
        #[arg(long, value_name = "TEXT", requires = "forget")]
        reason: Option<String>,
    },
    /// What was done on somebody's own authority: who, when, what, why
    Audit,
    /// What happened to VNFs: made, gone, an operation in another state
    Events {
        /// Only what has a higher number
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: u64,
        /// Go on with what happens from now on, until Ctrl-C
        #[arg(long)]
        follow: bool,
    },
    /// Write database and packages, as they are at one moment, to a file; keys are not in it
    Backup {
        /// Where to; it must not be there
        file: PathBuf,
    },
    /// Remove what is older than the server keeps it
    Prune {
        /// Only say how much that is
        #[arg(long)]
        dry_run: bool,
    },
    /// After `vnfm-server restore`: how the VIMs differ from the database
    #[command(subcommand)]
    Recovery(Recovery),
    /// Print the completion script of a shell
    Completion {
        /// Which shell
        shell: Shell,
    },
}

/// VIMs.
#[derive(Debug, Subcommand)]
pub enum Vim {
    /// Register a VIM; it logs in first
    Register {
        /// Name, unique
        #[arg(long)]
        name: String,
        /// Under this id, a UUID, where instances point to one that is gone
        #[arg(long, conflicts_with = "from_vnf")]
        id: Option<String>,
        /// Where the connection comes from
        #[command(flatten)]
        source: Source,
        /// The cluster that the hook of this instance made
        #[arg(long, value_name = "VNF", conflicts_with = "config_file")]
        from_vnf: Option<String>,
        /// For every tenant; takes whoever looks after the server
        #[arg(long, conflicts_with = "from_vnf")]
        shared: bool,
        /// What instances on it may be made of: a YAML file
        #[arg(long, value_name = "FILE", conflicts_with = "from_vnf")]
        policy: Option<PathBuf>,
    },
    /// Change a VIM; it logs in first, and operations in flight use it from their next call on
    Update {
        /// Id or name
        vim: String,
        /// Where the connection comes from
        #[command(flatten)]
        source: Source,
        /// Read a new password from standard input
        #[arg(long, conflicts_with = "config_file")]
        password_stdin: bool,
        /// New name
        #[arg(long)]
        name: Option<String>,
        /// Whether it is for every tenant
        #[arg(long)]
        shared: Option<bool>,
        /// What instances on it may be made of: a YAML file; an empty one takes the policy away
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
    },
    /// Log in and say what was found
    Check {
        /// Id or name
        vim: String,
    },
    /// All VIMs
    List,
    /// One VIM, without secrets
    Show {
        /// Id or name
        vim: String,
    },
    /// Take a VIM out of the registry
    Delete {
        /// Id or name
        vim: String,
        /// Although instances live on it; they go on pointing to its id
        #[arg(long, requires = "reason")]
        force: bool,
        /// Why
        #[arg(long, value_name = "TEXT", requires = "force")]
        reason: Option<String>,
    },
}

/// A file that says where a VIM is and who we are there.
#[derive(Debug, Args)]
pub struct Source {
    /// clouds.yaml, kubeconfig, or a VIM file with `type:`
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Entry of clouds.yaml, or context of the kubeconfig
    #[arg(long, value_name = "NAME", requires = "config_file")]
    pub cloud: Option<String>,
}

/// VNF instances.
#[derive(Debug, Subcommand)]
pub enum Vnf {
    /// Make an instance; nothing is deployed yet
    Create {
        /// The VNFD
        #[arg(long, required_unless_present = "package", conflicts_with = "package")]
        vnfd: Option<String>,
        /// The package, by id or name
        #[arg(long)]
        package: Option<String>,
        /// Name for people
        #[arg(long)]
        name: Option<String>,
        /// Description for people
        #[arg(long)]
        description: Option<String>,
    },
    /// All instances
    List(Listing),
    /// One instance
    Show {
        /// Id or name
        vnf: String,
    },
    /// Delete an instance that is not instantiated
    Delete {
        /// Id or name
        vnf: String,
    },
    /// Deploy it
    Instantiate {
        /// Id or name
        vnf: String,
        /// The body, an `InstantiateVnfRequest`, as JSON or YAML
        #[arg(long, value_name = "FILE")]
        request: PathBuf,
        /// Set a member of additionalParams; dots go deeper, JSON values are taken as such
        #[arg(long = "param", value_name = "KEY=VALUE")]
        params: Vec<String>,
        /// Use this VIM, by id or name
        #[arg(long)]
        vim: Option<String>,
        /// Follow until it has ended
        #[arg(long)]
        watch: bool,
    },
    /// Replace what is broken: the VNFCs that are named, else all of them
    Heal {
        /// Id or name
        vnf: String,
        /// A VNFC, by its id in `vnf show`; again for several
        #[arg(long = "vnfc", value_name = "ID")]
        vnfcs: Vec<String>,
        /// Why, for people and hooks
        #[arg(long)]
        cause: Option<String>,
        /// Replace volumes too
        #[arg(long)]
        all: bool,
        /// Set a member of additionalParams, over those of the instantiation
        #[arg(long = "param", value_name = "NAME=VALUE")]
        params: Vec<String>,
        /// Hooks to leave out
        #[command(flatten)]
        skip: Skip,
        /// Follow until it has ended
        #[arg(long)]
        watch: bool,
    },
    /// Change its name, description, metadata, extensions, properties; a value `null` takes one away
    Modify(Modification),
    /// Take its resources away
    Terminate {
        /// Id or name
        vnf: String,
        /// Let it end by itself, within SECONDS if given
        #[arg(long, value_name = "SECONDS", num_args = 0..=1)]
        graceful: Option<Option<u32>>,
        /// Hooks to leave out
        #[command(flatten)]
        skip: Skip,
        /// Follow until it has ended
        #[arg(long)]
        watch: bool,
    },
    /// Forget it, in whatever state, because its VIM is gone; nothing on a VIM is touched
    Abandon {
        /// Id or name
        vnf: String,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Although a process drives its operation, or others live on a VIM that it registered
        #[arg(long)]
        force: bool,
    },
}

/// What is to be changed of a VNF.
#[derive(Debug, Args)]
pub struct Modification {
    /// Id or name
    pub vnf: String,
    /// New name
    #[arg(long)]
    pub name: Option<String>,
    /// New description
    #[arg(long)]
    pub description: Option<String>,
    /// Set a member of the metadata; dots go deeper, JSON values are taken as such
    #[arg(long = "metadata", value_name = "KEY=VALUE")]
    pub metadata: Vec<String>,
    /// Set an extension that the VNFD declares
    #[arg(long = "extension", value_name = "KEY=VALUE")]
    pub extensions: Vec<String>,
    /// Set a configurable property that the VNFD declares
    #[arg(long = "property", value_name = "KEY=VALUE")]
    pub properties: Vec<String>,
    /// A whole `VnfInfoModificationRequest`, as JSON or YAML, for what has no flag
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
    /// Follow until it has ended
    #[arg(long)]
    pub watch: bool,
}

/// Who is told of lifecycle changes.
#[derive(Debug, Subcommand)]
pub enum Subscription {
    /// Have a callback told; it is asked at once, and has to answer
    Create(Telling),
    /// All subscriptions
    List(Listing),
    /// One subscription
    Show {
        /// Id
        subscription: String,
    },
    /// Tell it nothing any more
    Delete {
        /// Id
        subscription: String,
    },
}

/// Who is to be told, and of what; without any choice of everything.
#[derive(Debug, Args)]
pub struct Telling {
    /// Where notifications are sent
    pub callback: String,
    /// Only of this kind, such as `VnfIdentifierCreationNotification`; again for several
    #[arg(long = "type", value_name = "TYPE")]
    pub types: Vec<String>,
    /// Only of this operation, such as `HEAL`; again for several
    #[arg(long = "operation", value_name = "OPERATION")]
    pub operations: Vec<String>,
    /// Only of an operation that enters this state, such as `COMPLETED`; again for several
    #[arg(long = "state", value_name = "STATE")]
    pub states: Vec<String>,
    /// Only of this VNF, by id or name; again for several
    #[arg(long = "vnf", value_name = "VNF")]
    pub vnfs: Vec<String>,
    /// Only of VNFs of this VNFD; again for several
    #[arg(long = "vnfd", value_name = "ID")]
    pub vnfds: Vec<String>,
    /// Leave out what was changed
    #[arg(long)]
    pub short: bool,
    /// Log in at the callback by HTTP Basic; the password is read from standard input
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

/// Which entries of a list, and which attributes of them.
#[derive(Debug, Args)]
pub struct Listing {
    /// Only entries for which this holds, such as `(eq,instantiationState,INSTANTIATED);(cont,vnfInstanceName,web)`
    #[arg(long, value_name = "EXPR")]
    pub filter: Option<String>,
    /// Attributes to ask for and to show, with commas between them, such as `id,metadata/site`
    #[arg(long, value_name = "LIST")]
    pub fields: Option<String>,
}

/// Hooks that an operation is not to run.
#[derive(Debug, Args)]
pub struct Skip {
    /// Do not run this hook; again for several
    #[arg(long = "skip-hook", value_name = "NAME", requires = "reason")]
    pub hooks: Vec<String>,
    /// Why
    #[arg(long, value_name = "TEXT", requires = "hooks")]
    pub reason: Option<String>,
}

/// Operation occurrences.
#[derive(Debug, Subcommand)]
pub enum Op {
    /// All operations
    List(Listing),
    /// One operation
    Show {
        /// Id
        op: String,
    },
    /// Follow until it has ended
    Watch {
        /// Id
        op: String,
    },
    /// What it does, why it waits, what each way on would do
    Explain {
        /// Id
        op: String,
    },
    /// What hooks, hosts and VIMs said
    Log {
        /// Id
        op: String,
        /// Go on until the operation has ended
        #[arg(long)]
        follow: bool,
    },
    /// Go on at the step that failed
    Retry(WayOn),
    /// Undo everything that was begun
    Rollback(WayOn),
    /// Give it up
    Fail {
        /// Id
        op: String,
        /// Why, for the audit
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Stop it
    Cancel {
        /// Id
        op: String,
        /// At once, instead of after the running step
        #[arg(long)]
        forceful: bool,
        /// Why, for the audit
        #[arg(long, value_name = "TEXT", requires = "forceful")]
        reason: Option<String>,
    },
}

/// A way on that starts the operation again.
#[derive(Debug, Args)]
pub struct WayOn {
    /// Id
    pub op: String,
    /// Follow until it has ended
    #[arg(long)]
    pub watch: bool,
}

/// After a restore.
#[derive(Debug, Subcommand)]
pub enum Recovery {
    /// Compare every instance with its VIMs
    Show,
    /// Take operations again, and go on with those that were not ended
    Confirm {
        /// Although a VIM could not be asked
        #[arg(long)]
        force: bool,
    },
}
