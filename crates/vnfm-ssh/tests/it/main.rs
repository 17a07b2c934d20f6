//! The client against real servers: OpenSSH where the machine has it, and a small one of our own for what needs accounts.

#[cfg(test)]
mod broken;
#[cfg(test)]
mod logins;
#[cfg(test)]
mod openssh;
#[cfg(test)]
mod sshd;
