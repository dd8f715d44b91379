//! Ids of the users and groups named in the configuration, cached.
//!
//! A lookup may ask a server that does not answer, so the loop makes none. Names are looked up by
//! the first reading of the configuration at the start and by the worker of a reload. Later
//! readings of the same text find the answers here.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use zsched_config::{ConfigContext, FindId, Zenv};
use zsched_sys::users;

/// Ids by name; `None` for a name that is unknown.
type Ids = HashMap<String, Option<u32>>;

static USERS: Mutex<Option<Ids>> = Mutex::new(None);
static GROUPS: Mutex<Option<Ids>> = Mutex::new(None);

/// Context for the loop, which looks up no name twice.
pub(crate) fn cached_context(zenv: Zenv) -> ConfigContext {
    ConfigContext {
        zenv,
        is_root: users::is_root(),
        effective_user: users::effective_user(),
        effective_group: users::effective_group(),
        user_id: |name| find(&USERS, name, users::user_id, false),
        group_id: |name| find(&GROUPS, name, users::group_id, false),
    }
}

/// Context for a worker, which may wait: looks up each name.
pub(crate) fn refreshing_context(context: &ConfigContext) -> ConfigContext {
    let user_id = |name: &str| find(&USERS, name, users::user_id, true);
    let group_id = |name: &str| find(&GROUPS, name, users::group_id, true);
    ConfigContext { user_id, group_id, ..context.clone() }
}

fn find(
    known: &Mutex<Option<Ids>>,
    name: &str,
    look_up: FindId,
    refresh: bool,
) -> io::Result<Option<u32>> {
    // No lock is held during a lookup. A poisoned map is still valid: each insertion is complete or
    // absent.
    let lock = || known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let answer = lock().as_ref().and_then(|ids| ids.get(name).copied());
    if let Some(id) = answer.filter(|_| !refresh) {
        return Ok(id);
    }
    let id = look_up(name)?;
    lock().get_or_insert_default().insert(name.to_string(), id);
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn name_is_looked_up_once_until_requested_anew() {
        static NAMES: Mutex<Option<Ids>> = Mutex::new(None);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let look_up = |_: &str| Ok(Some(COUNT.fetch_add(1, Ordering::Relaxed)));
        let find =
            |look_up, refresh| find(&NAMES, "mail", look_up, refresh).map_err(|error| error.kind());
        let ids = [false, false, true, false].map(|refresh| find(look_up, refresh));
        assert_eq!(ids, [Ok(Some(0)), Ok(Some(0)), Ok(Some(1)), Ok(Some(1))]);
        let is_away = |_: &str| Err(io::ErrorKind::TimedOut.into());
        assert_eq!(find(is_away, true), Err(io::ErrorKind::TimedOut));
        assert_eq!(find(is_away, false), Ok(Some(1)), "the last answer");
        let unknown = |_: &str| Ok(None);
        assert_eq!(find(unknown, true), Ok(None), "it has been removed");
        assert_eq!(find(look_up, false), Ok(None));
    }
}
