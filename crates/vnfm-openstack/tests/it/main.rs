//! The driver against whole clouds: the same stories on a simulated and on a real one.

mod credential;
mod live;
mod proxy;
mod simulated;
mod stories;
mod support;
