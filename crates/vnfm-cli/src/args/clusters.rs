//! `vnfmctl cluster …`

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use vnfm_types::Schedule;

/// Commands for the Kubernetes clusters that VNFs have installed.
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// List the clusters, with their VIMs, versions and tenants
    List,
    /// Show one cluster: versions and software by node, certificates, clocks, snapshots, add-ons, the VNFs on it
    Show {
        /// ID or name of the VNF that installed it, or of its VIM
        cluster: String,
    },
    /// Read versions, certificates, software and the health of add-ons from the cluster, and delete logins that were replaced
    Check(ClusterTask),
    /// Upgrade Kubernetes, node by node, and apply network plugin and add-ons again
    Upgrade(Upgrade),
    /// Patch the software of nodes that have other versions than the instance's parameters name, node by node
    Patch(RollingTask),
    /// Renew the certificates of the control plane, its CAs, or the login of the VIM
    Rotate {
        /// What to renew
        #[arg(value_enum)]
        what: Rotation,
        /// The cluster
        #[command(flatten)]
        task: ClusterTask,
    },
    /// Apply network plugin and add-ons again, and wait until they are healthy
    Addons(ClusterTask),
    /// Take a snapshot of etcd, encrypted with a passphrase from standard input: now, or at an interval
    Backup(ClusterBackup),
    /// List the snapshots of etcd that the server has stored, or save one to a file
    Backups {
        /// ID or name of the VNF that installed the cluster, or of its VIM
        cluster: String,
        /// Name of the snapshot to save
        #[arg(long, value_name = "NAME", requires = "out")]
        save: Option<String>,
        /// File or folder to save it to; the file's name must stay that of the snapshot to restore it
        #[arg(long, value_name = "PATH", requires = "save")]
        out: Option<PathBuf>,
    },
    /// Restore a snapshot of etcd with the passphrase from standard input; what was written since is lost
    Restore {
        /// The cluster
        #[command(flatten)]
        task: ClusterTask,
        /// Name of the snapshot, as `vnfmctl cluster backups` prints it, or a file that was saved from there
        #[arg(long, value_name = "NAME|FILE", alias = "snapshot")]
        from: String,
    },
    /// Print a kubeconfig with all rights on the cluster, which expires; the audit log names who requested it
    Kubeconfig {
        /// ID or name of the VNF that installed it, or of its VIM
        cluster: String,
        /// How long it is valid, in seconds, minutes or hours, such as `30m`; from 10 minutes to 24 hours
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = seconds)]
        expires: u32,
        /// Why, for the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// A number of seconds, from a number with `s`, `m` or `h`.
fn seconds(text: &str) -> Result<u32, String> {
    let units = [("h", 3600), ("m", 60), ("s", 1)];
    let mut found = units.iter().filter_map(|(unit, seconds)| {
        let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    let found = found
        .next()
        .filter(|seconds| (600..=86_400).contains(seconds));
    found.ok_or_else(|| "a number with `s`, `m` or `h`, from `10m` to `24h`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Interval, interval, seconds};

    #[test]
    fn an_interval_has_a_unit_and_a_range() {
        for (text, expected) in [("1m", 60), ("6h", 21_600), ("31d", 2_678_400)] {
            assert_eq!(interval(text), Ok(Interval::Seconds(expected)), "{text}");
        }
        assert_eq!(interval("off"), Ok(Interval::Off));
        for text in ["", "h", "60", "0m", "32d", "-1h", "1s", "4294967295d"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_has_a_unit_and_a_range() {
        for (text, expected) in [("10m", 600), ("600s", 600), ("1h", 3600), ("24h", 86_400)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "h",
            "3600",
            "9m",
            "25h",
            "-1h",
            "1.5h",
            "4294967295h",
            "1d",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}

/// An action on a cluster.
#[derive(Debug, Args)]
pub struct ClusterTask {
    /// ID or name of the VNF that installed it, or of its VIM
    pub cluster: String,
    /// Follow the operation until it ends
    #[arg(long)]
    pub watch: bool,
}

/// A snapshot of etcd.
#[derive(Debug, Args)]
pub struct ClusterBackup {
    /// The cluster
    #[command(flatten)]
    pub task: ClusterTask,
    /// How many snapshots each control-plane node and the server keep [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub keep: Option<u32>,
    /// Take one at this interval, for the first time at once, such as `6h`; `off` ends that
    #[arg(long, value_name = "DURATION|off", value_parser = interval)]
    pub every: Option<Interval>,
    /// Also save it to this file or folder
    #[arg(long, value_name = "PATH", conflicts_with = "every")]
    pub out: Option<PathBuf>,
}

/// When backups are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interval {
    /// Each time that this number of seconds has passed.
    Seconds(u32),
    /// Not on schedule: only when an operator requests one.
    Off,
}

/// An interval between two backups, from a number with `m`, `h` or `d`.
fn interval(text: &str) -> Result<Interval, String> {
    if text == "off" {
        return Ok(Interval::Off);
    }
    let units = [("d", 86_400), ("h", 3600), ("m", 60)];
    let mut found = units.iter().filter_map(|(unit, seconds)| {
        let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*seconds)
    });
    let range = Schedule::MIN_SECONDS..=Schedule::MAX_SECONDS;
    let found = found.next().filter(|seconds| range.contains(seconds));
    let found = found.map(Interval::Seconds);
    found.ok_or_else(|| "a number with `m`, `h` or `d`, from `1m` to `31d`, or `off`".to_owned())
}

/// An upgrade of Kubernetes.
#[derive(Debug, Args)]
pub struct Upgrade {
    /// The cluster, and how to go through its nodes
    #[command(flatten)]
    pub rolling: RollingTask,
    /// Version to upgrade to, such as `v1.36.2`; the hosts' repository or the package must have it
    #[arg(long = "to", value_name = "VERSION")]
    pub version: Option<String>,
}

/// An action on a cluster that goes through its nodes.
#[derive(Debug, Args)]
pub struct RollingTask {
    /// The cluster
    #[command(flatten)]
    pub task: ClusterTask,
    /// How many workers at a time [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub parallel: Option<u32>,
    /// How long the pods of a node may take to leave it [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(..=86400))]
    pub drain_timeout: Option<u32>,
}

/// What `vnfmctl cluster rotate` renews.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Rotation {
    /// The certificates of the control plane; the CA stays
    Certificates,
    /// The CAs of Kubernetes, etcd and front proxy, with all certificates by them; pods on the cluster keep running
    Ca,
    /// The login of the VIM; operations of VNFs on the cluster go on
    Login,
}
