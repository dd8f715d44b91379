//! How connections are protected: what is required, how it is verified, and what came of it.
//!
//! ```text
//! TlsSettings, TLSA, MTA-STS ──PolicyFinder──► TlsPolicy ──TlsConnector──► TlsStream, TlsSession
//!                                                    └────────────────────► TlsRecord (TLS-RPT)
//! ```

mod certificates;
mod connector;
mod dane;
mod error;
mod policy;
mod record;
mod required;
mod session;

pub use connector::TlsConnector;
pub use dane::TlsaRecord;
pub use error::{TlsError, TlsErrorKind};
pub use policy::{PolicyError, TlsPolicy, Verification};
pub use record::{TlsPolicyType, TlsRecord, TlsResultType};
pub use session::{TlsSession, TlsStream, Verified};

pub(crate) use connector::authorities;
pub(crate) use policy::PolicyFinder;
