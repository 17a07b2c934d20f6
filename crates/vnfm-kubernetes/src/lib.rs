//! InfraDriver for Kubernetes: manifests by server-side apply, waits by watch.
