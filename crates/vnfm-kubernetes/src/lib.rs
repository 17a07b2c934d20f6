//! `InfraDriver` for Kubernetes: manifests by server-side apply, waits by watch.
//!
//! ```text
//! VimConnectionInfo ── connection  read once: address, trust, login, proxy
//!                      client      in memory only, reads the connection at each call; over http: checked addresses, bounded responses
//! package + request ── sources     which manifests and charts, in stages; requested: those that the request names
//!                      manifests   variables, namespace ──> objects; kind_order: the order in which they are applied
//!                      translate   without either: containers, storages and connection points of the descriptor ──> objects
//!                      charts      Mciops, values ──> helm releases; named_charts: the request's; asd_items: an ASD's
//!                      values      the keys of their values; size_values: those that are numbers of VDUs
//!                      helm_releases  install, upgrade, recover; rendering: their objects; helm_account: under which login
//!                      package_images  images of the package: pushed to the VIM's image_registry; image_references: named by digest
//!                      catalog     any kind, by discovery
//!                      capabilities  what the cluster offers, and whether an ASD can be deployed there
//!                      object_policy  what VIM and role allow, checked before anything is created
//!                      render      the objects for `vnfmctl package render`, without a cluster
//!                      attach      networks of pods, as Multus reads them; attachments: from the request, asd_networks: of an ASD
//!                      virtual_machines  machines of KubeVirt: which run; machine_addresses: what they report
//!                      cluster_api  clusters of Cluster API: when they are ready; cluster_machines: their VNFCs;
//!                                  cluster_kubeconfigs: the outputs of the VNF
//!                      replicas    another number of a VDU's pods; autoscaled: unless an autoscaler decides it
//!                      object      looks at one object, merges a change into it
//!                      apply       creates or adopts objects with our labels, refuses others
//!                      rollout     waits for a stage: watch ── ready (is it ready?), diagnostics (why not?)
//!                      inventory   pods as VNFCs, services as external CPs, claims as virtual storages
//!                      connectivity  interfaces of pods as CPs, with their addresses and links
//!                      converge    the one path of every change: heal (pods to replace), surplus (pods to lose), apply, prune
//!                      stopped     the objects of a VNF that is stopped; power: starts and stops it
//!                      delete      in reverse order, waits for each stage
//!                      snapshots   stores claims as VolumeSnapshots (creation, storable), and returns to them (restore)
//!                      pod_events  which instances change outside of operations
//!                      links       networks that outlive instances
//!                      volumes     PersistentVolumes that outlive instances, and are bound by others
//!                      owned       objects that carry our labels; kept_namespace: what snapshots lie in
//! ```
//! [`KubernetesDriver`] puts them together, one short function per method of the port.

mod amount;
mod apply;
mod asd_items;
mod asd_networks;
mod attach;
mod attachments;
mod autoscaled;
mod capabilities;
mod catalog;
mod chart_tests;
mod charts;
mod claims;
mod client;
mod clients;
mod cluster_api;
mod cluster_kubeconfigs;
mod cluster_machines;
mod connection;
mod connectivity;
mod converge;
mod creation;
mod delete;
mod deletion;
mod deletion_blockers;
mod diagnostics;
mod difference;
mod driver;
mod empty_volumes;
pub mod errors;
mod expiry;
mod file_modes;
mod heal;
mod helm_account;
mod helm_errors;
mod helm_releases;
mod http;
mod identifiers;
mod image_references;
mod image_registry;
mod impersonation;
mod inventory;
mod item;
mod kept_namespace;
mod kind_order;
mod kinds;
mod kubeconfig;
mod labels;
mod links;
mod machine_addresses;
mod manifests;
mod member;
mod named_charts;
mod names;
mod network_annotations;
mod network_policy;
mod object;
mod object_policy;
mod owned;
mod package_images;
mod pem;
mod plan;
mod planned;
mod pod_events;
mod pod_security;
mod power;
mod ready;
mod render;
mod rendering;
mod replicas;
mod requested;
mod reserved;
mod resolved;
mod restore;
mod rollout;
mod services;
mod size_values;
mod snapshots;
mod sources;
mod stage;
mod status;
mod stopped;
mod storable;
mod storages;
mod stored_claims;
mod surplus;
mod template;
mod translate;
mod translate_network;
mod translate_workload;
mod values;
mod virtual_machines;
mod volume_reservation;
mod volumes;
mod watch;

pub use driver::KubernetesDriver;
pub use render::{Rendered, render};
pub use vnfm_helm::Helm;
