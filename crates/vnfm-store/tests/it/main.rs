//! Tests of the store: every rule of the port on every kind of database, then what only a file can show (crashes,
//! kills, power loss, two processes, secrets at rest), then the packages' files.

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
mod kept;
#[cfg(test)]
mod kept_addresses;
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
