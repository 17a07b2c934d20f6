//! Tests across crates: scenarios, contracts, live neighbours.
