//! Keeps policies in memory, and in a folder that all agents share.
//!
//! A file has the name of its domain. Its first line has the id of the TXT record and the time at
//! which the policy expires, in seconds since 1970; the policy follows. Files are replaced as a
//! whole. A file that cannot be read counts as none.

use super::KeptPolicy;
use super::policy::StsPolicy;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zsched_sys as sys;

/// Maximum number of policies in memory.
const MAX_IN_MEMORY: usize = 256;
/// Maximum size of a file, in bytes.
const MAX_FILE_SIZE: u64 = 128 * 1024;
/// Mode of a file: agents of any user may read it.
const FILE_MODE: u32 = 0o644;
/// Age of a file at which its policy has expired in any case.
const MAX_FILE_AGE: Duration = Duration::from_secs(31_557_600);

/// Policies in memory and on disk.
pub(super) struct Store {
    policies: HashMap<String, KeptPolicy>,
    folder: Option<PathBuf>,
    /// True if old files have been removed.
    is_swept: bool,
}

impl Store {
    pub(super) fn new(folder: Option<PathBuf>) -> Store {
        Store { policies: HashMap::new(), folder, is_swept: false }
    }

    /// Returns the policy of a domain that has not expired.
    pub(super) fn get(&mut self, domain: &str, now: SystemTime) -> Option<KeptPolicy> {
        if !self.policies.contains_key(domain) {
            let kept = read(&self.folder.as_ref()?.join(domain))?;
            self.keep(domain, kept);
        }
        let kept = self.policies.get(domain)?;
        if now >= kept.expires {
            self.policies.remove(domain);
            return None;
        }
        Some(kept.clone())
    }

    pub(super) fn insert(&mut self, domain: &str, kept: KeptPolicy) {
        if let Some(folder) = &self.folder {
            // Without the file, the policy is fetched by each agent: mail is not held up for that.
            if let Err(error) = write(folder, domain, &kept) {
                log::warn!("cannot keep the MTA-STS policy of {domain}: {error}");
            }
            if !self.is_swept {
                self.is_swept = true;
                sweep(folder);
            }
        }
        self.keep(domain, kept);
    }

    fn keep(&mut self, domain: &str, kept: KeptPolicy) {
        if self.policies.len() >= MAX_IN_MEMORY {
            let first = self.policies.iter().min_by_key(|(_, kept)| kept.expires);
            if let Some(domain) = first.map(|(domain, _)| domain.clone()) {
                self.policies.remove(&domain);
            }
        }
        self.policies.insert(domain.to_string(), kept);
    }
}

fn read(path: &Path) -> Option<KeptPolicy> {
    let mut text = Vec::new();
    fs::File::open(path).ok()?.take(MAX_FILE_SIZE).read_to_end(&mut text).ok()?;
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let (id, expires) = std::str::from_utf8(&text[..end]).ok()?.split_once(' ')?;
    let expires = UNIX_EPOCH.checked_add(Duration::from_secs(expires.parse().ok()?))?;
    let policy = StsPolicy::parse(&text[end + 1..]).ok()?;
    // A clock that was wrong does not keep a policy for ever.
    let latest = SystemTime::now() + policy.max_age;
    Some(KeptPolicy { id: id.to_string(), expires: expires.min(latest), policy })
}

fn write(folder: &Path, domain: &str, kept: &KeptPolicy) -> io::Result<()> {
    let expires = kept.expires.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let temporary = folder.join(format!(".{domain}.{}", std::process::id()));
    sys::replace_file(&folder.join(domain), &temporary, FILE_MODE, |file| {
        write!(file, "{} {expires}\n{}\n", kept.id, kept.policy.lines.join("\n"))
    })
}

/// Removes files of domains that have had no mail for a year.
fn sweep(folder: &Path) {
    let Ok(files) = fs::read_dir(folder) else { return };
    for file in files.flatten() {
        let modified = file.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > MAX_FILE_AGE) {
            fs::remove_file(file.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(expires: SystemTime) -> KeptPolicy {
        let text = b"version: STSv1\nmode: testing\nmx: a.example\nmax_age: 1000\n";
        KeptPolicy { id: "7".into(), expires, policy: StsPolicy::parse(text).unwrap() }
    }

    #[test]
    fn another_agent_finds_a_policy_until_it_expires() {
        let folder = tempfile::tempdir().unwrap();
        let store = || Store::new(Some(folder.path().to_path_buf()));
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let now = UNIX_EPOCH + Duration::from_secs(seconds);
        let expires = now + Duration::from_secs(500);
        store().insert("d.example", kept(expires));
        assert_eq!(store().get("d.example", now), Some(kept(expires)));
        assert_eq!(store().get("d.example", expires), None);
        assert_eq!(store().get("e.example", now), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        fs::write(folder.path().join("d.example"), "7 99999999999999\nversion: STSv1\n").unwrap();
        assert_eq!(store().get("d.example", now), None);
    }

    #[test]
    fn memory_keeps_a_bounded_number_of_policies() {
        let mut store = Store::new(None);
        let now = SystemTime::now();
        for number in 1..=300 {
            store.insert(&format!("{number}.example"), kept(now + Duration::from_secs(number)));
        }
        assert_eq!(store.policies.len(), MAX_IN_MEMORY);
        assert!(store.get("300.example", now).is_some());
    }
}
