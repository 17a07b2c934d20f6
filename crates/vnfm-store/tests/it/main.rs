//! Tests of the store: the port's conformance rules in memory and on a file, then what needs a file (crashes, kills, power
//! loss, two processes, secrets at rest), then package files.

#[cfg(test)]
mod backup_files;
#[cfg(test)]
mod backups;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod files;
#[cfg(test)]
mod group;
#[cfg(test)]
mod instance_files;
#[cfg(test)]
mod kept_addresses;
#[cfg(test)]
mod key_provider;
#[cfg(test)]
mod log;
#[cfg(test)]
mod packages;
#[cfg(test)]
mod power;
#[cfg(test)]
mod records;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod sealed;
#[cfg(test)]
mod stored_file_quota;
