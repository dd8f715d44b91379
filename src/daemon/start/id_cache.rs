//! Ids of the users and groups named in the configuration, cached.
//!
//! A lookup may ask a server that does not answer, so the loop makes none. Names are looked up by
//! the first reading of the configuration at the start and by the worker of a reload. Later
//! readings of the same text find the answers here.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use zsched_config::{AccountKind, ConfigContext, Zenv};
use zsched_sys::users;

/// Ids by name; `None` for a name that is unknown.
static IDS: Mutex<BTreeMap<(AccountKind, String), Option<u32>>> = Mutex::new(BTreeMap::new());

/// Context for the loop, which looks up no name twice.
pub(crate) fn cached_context(zenv: Zenv) -> ConfigContext {
    ConfigContext {
        zenv,
        is_root: users::is_root(),
        effective_user: users::effective_user(),
        effective_group: users::effective_group(),
        find_id: Arc::new(|kind, name| find(kind, name, look_up, false)),
    }
}

/// Context for a worker, which may wait: looks up each name.
pub(crate) fn refreshing_context(context: &ConfigContext) -> ConfigContext {
    ConfigContext {
        find_id: Arc::new(|kind, name| find(kind, name, look_up, true)),
        ..context.clone()
    }
}

fn look_up(kind: AccountKind, name: &str) -> io::Result<Option<u32>> {
    match kind {
        AccountKind::User => users::user_id(name),
        AccountKind::Group => users::group_id(name),
    }
}

fn find(
    kind: AccountKind,
    name: &str,
    look_up: fn(AccountKind, &str) -> io::Result<Option<u32>>,
    refresh: bool,
) -> io::Result<Option<u32>> {
    // No lock is held during a lookup. A poisoned map is still valid: each insertion is complete or
    // absent.
    let ids = || IDS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let key = (kind, name.to_string());
    let known = ids().get(&key).copied();
    if let Some(id) = known.filter(|_| !refresh) {
        return Ok(id);
    }
    let id = look_up(kind, name)?;
    ids().insert(key, id);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn name_is_looked_up_once_until_requested_anew() {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let look_up = |_, _: &str| Ok(Some(COUNT.fetch_add(1, Ordering::Relaxed)));
        let find = |look_up, refresh| {
            find(AccountKind::User, "of this test", look_up, refresh).map_err(|error| error.kind())
        };
        let ids = [false, false, true, false].map(|refresh| find(look_up, refresh));
        assert_eq!(ids, [Ok(Some(0)), Ok(Some(0)), Ok(Some(1)), Ok(Some(1))]);
        let is_away = |_, _: &str| Err(io::ErrorKind::TimedOut.into());
        assert_eq!(find(is_away, true), Err(io::ErrorKind::TimedOut));
        assert_eq!(find(is_away, false), Ok(Some(1)), "the last answer");
        let unknown = |_, _: &str| Ok(None);
        assert_eq!(find(unknown, true), Ok(None), "it has been removed");
        assert_eq!(find(look_up, false), Ok(None));
    }
}
