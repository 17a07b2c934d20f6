//! The driver against whole clouds: the stories on a simulated one; `tests/live` plays them on a real one.

#[cfg(test)]
mod barbican;
#[cfg(test)]
#[expect(dead_code, reason = "the rest of it is for the real cloud")]
mod credential;
#[cfg(test)]
mod hands;
#[cfg(test)]
mod healing;
#[cfg(test)]
mod heals;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod images;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod stories;
#[cfg(test)]
#[expect(dead_code, reason = "the rest of it is for the real cloud")]
mod support;
