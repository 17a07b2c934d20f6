//! InfraDriver for OpenStack: Keystone, Heat, Nova, Neutron, Glance.
