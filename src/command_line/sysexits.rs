//! Exit statuses of `sysexits.h`.

/// The command line cannot be used.
pub const EX_USAGE: i32 = 64;
/// The input cannot be used.
pub const EX_DATAERR: i32 = 65;
/// A program or service that is needed cannot be reached.
pub const EX_UNAVAILABLE: i32 = 69;
/// A fault of the program itself.
pub const EX_SOFTWARE: i32 = 70;
/// A fault of the operating system, such as an unknown user.
pub const EX_OSERR: i32 = 71;
/// A file of the installation is missing or cannot be read.
pub const EX_OSFILE: i32 = 72;
/// A file cannot be made.
pub const EX_CANTCREAT: i32 = 73;
/// Input or output fails.
pub const EX_IOERR: i32 = 74;
/// It may work later.
pub const EX_TEMPFAIL: i32 = 75;
/// The other side violates the protocol.
pub const EX_PROTOCOL: i32 = 76;
/// The caller lacks a permission.
pub const EX_NOPERM: i32 = 77;
/// The configuration cannot be used.
pub const EX_CONFIG: i32 = 78;
