//! The driver against whole clouds: the same stories on a simulated and on a real one.

#[cfg(test)]
mod credential;
#[cfg(test)]
mod live;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod stories;
#[cfg(test)]
mod support;
