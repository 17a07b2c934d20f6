//! Pushing to a registry: the real one of Debian, and hostile ones.

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod image;
#[cfg(test)]
mod measured;
#[cfg(test)]
mod real;
#[cfg(test)]
mod running;
#[cfg(test)]
mod uses;
