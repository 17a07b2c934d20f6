//! MgmtDriver that installs a Kubernetes cluster over SSH.
