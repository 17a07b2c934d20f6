//! Helm 3 and Helm 4 themselves.

#[cfg(test)]
mod charts;
