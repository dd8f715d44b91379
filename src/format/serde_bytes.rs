//! Byte strings in a recording, written as a whole.

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// Writes a byte string.
pub fn serialize<S: Serializer>(
    bytes: &(impl AsRef<[u8]> + ?Sized),
    out: S,
) -> Result<S::Ok, S::Error> {
    out.serialize_bytes(bytes.as_ref())
}

/// Reads a byte string. Borrows it if the target type does.
pub fn deserialize<'de, D: Deserializer<'de>, T: From<&'de [u8]>>(input: D) -> Result<T, D::Error> {
    input.deserialize_bytes(Whole(PhantomData))
}

struct Whole<T>(PhantomData<T>);

impl<'de, T: From<&'de [u8]>> Visitor<'de> for Whole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a byte string")
    }

    fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<T, E> {
        Ok(T::from(bytes))
    }
}

/// Paths, which need not be UTF-8.
pub mod path {
    use serde::{Deserializer, Serializer};
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::rc::Rc;

    /// Writes a path.
    pub fn serialize<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_bytes(path.as_os_str().as_bytes())
    }

    /// Reads a path.
    pub fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Rc<Path>, D::Error> {
        let bytes: &[u8] = super::deserialize(input)?;
        Ok(Path::new(OsStr::from_bytes(bytes)).into())
    }
}
