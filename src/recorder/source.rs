//! A configuration with everything that its meaning depends on.
//!
//! That is its text, the ZENV file, the scheduler's user and group, and the ids of the accounts
//! that it names.

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use zsched_config::{Config, ConfigContext, Diagnostic, FindId, Zenv};
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

/// The users and the groups that were looked up, with their ids.
type Accounts = [BTreeMap<String, Option<u32>>; 2];

impl ConfigSource {
    /// Creates the source of a configuration that was read in this context.
    pub fn of(config: &Config, context: &ConfigContext) -> ConfigSource {
        let (file, text) = (config.file(), config.text());
        // It is parsed again to find the accounts that it looks up.
        let fallback = [context.user_id, context.group_id];
        let (_, accounts) = AccountLookups::during(Accounts::default(), Some(fallback), || {
            drop(Config::parse(file, text, &AccountLookups::context(context)));
        });
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
        let fallback: [FindId; 2] = [
            |name| Ok(users::user_id(name)?.or(Some(UNKNOWN_ACCOUNT_ID))),
            |name| Ok(users::group_id(name)?.or(Some(UNKNOWN_ACCOUNT_ID))),
        ];
        self.parse(file, &text, Some(fallback))
    }

    fn parse(
        &self,
        file: &Path,
        text: &[u8],
        fallback: Option<[FindId; 2]>,
    ) -> Result<Rc<Config>, Vec<Diagnostic>> {
        let context = ConfigContext {
            zenv: Zenv::from_pairs(self.zenv.clone()),
            is_root: self.is_root,
            effective_user: self.effective_user,
            effective_group: self.effective_group,
            user_id: AccountLookups::user,
            group_id: AccountLookups::group,
        };
        let read = || Config::parse(file, text, &context);
        let (loaded, _) = AccountLookups::during(self.accounts.clone(), fallback, read);
        loaded.map(|loaded| Rc::new(loaded.config))
    }
}

/// The id of unknown accounts in a simulation: that of `nobody`.
const UNKNOWN_ACCOUNT_ID: u32 = 65534;

/// The accounts looked up while a configuration is parsed.
///
/// A [`ConfigContext`] has plain function pointers, which cannot carry data, so this is stored per
/// worker.
#[derive(Default)]
struct AccountLookups {
    accounts: Accounts,
    /// Functions that look up users and groups that are not among the accounts.
    fallback: Option<[FindId; 2]>,
}

thread_local! {
    static ASKED: RefCell<AccountLookups> = RefCell::default();
}

impl AccountLookups {
    /// Runs `read` with these accounts, and with the functions in `fallback`.
    ///
    /// Returns its result, and all accounts known afterwards.
    fn during<T>(
        accounts: Accounts,
        fallback: Option<[FindId; 2]>,
        read: impl FnOnce() -> T,
    ) -> (T, Accounts) {
        ASKED.set(AccountLookups { accounts, fallback });
        let result = read();
        (result, ASKED.take().accounts)
    }

    /// The same context, with functions that record the accounts looked up.
    fn context(context: &ConfigContext) -> ConfigContext {
        ConfigContext {
            user_id: AccountLookups::user,
            group_id: AccountLookups::group,
            ..context.clone()
        }
    }

    fn user(name: &str) -> io::Result<Option<u32>> {
        AccountLookups::find(0, name)
    }

    fn group(name: &str) -> io::Result<Option<u32>> {
        AccountLookups::find(1, name)
    }

    fn find(kind: usize, name: &str) -> io::Result<Option<u32>> {
        ASKED.with_borrow_mut(|asked| {
            if let Some(id) = asked.accounts[kind].get(name) {
                return Ok(*id);
            }
            let id = asked.fallback.map_or(Ok(None), |fallback| fallback[kind](name))?;
            asked.accounts[kind].insert(name.to_string(), id);
            Ok(id)
        })
    }
}
