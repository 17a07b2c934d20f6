//! The driver against simulated hosts, over real SSH and through the plugin boundary.

#[cfg(test)]
mod actions;
#[cfg(test)]
mod addons;
#[cfg(test)]
mod authority;
#[cfg(test)]
mod backups;
#[cfg(test)]
mod ca_script;
#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod clocks;
#[cfg(test)]
mod control_plane_scaling;
#[cfg(test)]
mod control_planes;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod engine_side;
#[cfg(test)]
mod etcd_script;
#[cfg(test)]
mod external_etcd;
#[cfg(test)]
mod heal;
#[cfg(test)]
mod host_script;
#[cfg(test)]
mod install;
#[cfg(test)]
mod kube_vip;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod large;
#[cfg(test)]
mod node_groups;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod registry;
#[cfg(test)]
mod restores;
#[cfg(test)]
mod root;
#[cfg(test)]
mod runner;
#[cfg(test)]
mod scale;
#[cfg(test)]
mod script;
#[cfg(test)]
mod shared_lab;
#[cfg(test)]
mod smoke_test;
#[cfg(test)]
mod software;
#[cfg(test)]
mod software_script;
#[cfg(test)]
mod taken_back;
#[cfg(test)]
mod trial;
#[cfg(test)]
mod upgrade;
#[cfg(test)]
mod upgrade_three;
#[cfg(test)]
mod wipe_script;
#[cfg(test)]
mod workload;
