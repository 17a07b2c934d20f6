//! The client against real servers: OpenSSH where the machine has it, and a small one of our own for what needs accounts.

mod logins;
mod openssh;
mod sshd;
