//! A configuration with everything that its meaning depends on.
//!
//! That is its text, the ZENV file, the scheduler's user and group, and the ids of the accounts
//! that it names.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use zsched_config::{AccountKind, Config, ConfigContext, Diagnostic, FindId, Zenv};
use zsched_sys::users;

/// A configuration that can be read again on any system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigSource {
    /// Path of the file.
    file: Vec<u8>,
    /// Text of the file.
    text: Vec<u8>,
    zenv: Vec<(String, String)>,
    is_root: bool,
    effective_user: u32,
    effective_group: u32,
    accounts: Accounts,
}

/// The accounts of each kind that were looked up, with their ids.
type Accounts = [BTreeMap<String, Option<u32>>; 2];

impl ConfigSource {
    /// Creates the source of a configuration that was read in this context.
    pub fn of(config: &Config, context: &ConfigContext) -> ConfigSource {
        let (file, text) = (config.file(), config.text());
        // It is parsed again to find the accounts that it looks up.
        let (known, find_id) = lookups(Accounts::default(), Some(context.find_id.clone()));
        drop(Config::parse(file, text, &ConfigContext { find_id, ..context.clone() }));
        let accounts = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ConfigSource {
            file: file.as_os_str().as_bytes().to_vec(),
            text: text.to_vec(),
            zenv: context.zenv.pairs(),
            is_root: context.is_root,
            effective_user: context.effective_user,
            effective_group: context.effective_group,
            accounts,
        }
    }

    /// Path of the file.
    pub fn file(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.file))
    }

    /// Parses the configuration with its original context.
    pub fn read(&self) -> Result<Rc<Config>, Vec<Diagnostic>> {
        self.parse(self.file(), &self.text, None)
    }

    /// Reads another configuration in the same context.
    ///
    /// Accounts that were not looked up for this source are those of the present system. Unknown
    /// ones are accepted.
    pub fn read_with_context(&self, file: &Path) -> Result<Rc<Config>, Vec<Diagnostic>> {
        let text = std::fs::read(file).map_err(|error| {
            vec![Diagnostic::of_file(file, format!("the file cannot be read: {error}"))]
        })?;
        let fallback = |kind, name: &str| {
            let id = match kind {
                AccountKind::User => users::user_id(name)?,
                AccountKind::Group => users::group_id(name)?,
            };
            Ok(id.or(Some(UNKNOWN_ACCOUNT_ID)))
        };
        self.parse(file, &text, Some(Arc::new(fallback)))
    }

    fn parse(
        &self,
        file: &Path,
        text: &[u8],
        fallback: Option<FindId>,
    ) -> Result<Rc<Config>, Vec<Diagnostic>> {
        let context = ConfigContext {
            zenv: Zenv::from_pairs(self.zenv.clone()),
            is_root: self.is_root,
            effective_user: self.effective_user,
            effective_group: self.effective_group,
            find_id: lookups(self.accounts.clone(), fallback).1,
        };
        Config::parse(file, text, &context).map(|loaded| Rc::new(loaded.config))
    }
}

/// The id of unknown accounts in a simulation: that of `nobody`.
const UNKNOWN_ACCOUNT_ID: u32 = 65534;

/// Known accounts, and a function that finds them.
///
/// The function adds others that `fallback` finds.
fn lookups(accounts: Accounts, fallback: Option<FindId>) -> (Arc<Mutex<Accounts>>, FindId) {
    let known = Arc::new(Mutex::new(accounts));
    let accounts = known.clone();
    let find = move |kind, name: &str| {
        // A poisoned map is still valid: each insertion is complete or absent.
        let known = &mut accounts.lock().unwrap_or_else(PoisonError::into_inner)[kind as usize];
        if let Some(id) = known.get(name) {
            return Ok(*id);
        }
        let id = fallback.as_ref().map_or(Ok(None), |fallback| fallback(kind, name))?;
        known.insert(name.to_string(), id);
        Ok(id)
    };
    (known, Arc::new(find))
}
