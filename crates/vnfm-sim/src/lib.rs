//! The simulated world: OpenStack, Kubernetes API and SSH hosts over their real protocols.
