//! The LCM engine of vnfm. Start reading at `lcm::instantiate`, then `lcm::runner`, then [`ports`].

pub mod ports;
