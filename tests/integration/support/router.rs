//! A running router.

use super::Site;
use std::fs::File;
use std::process::{Child, Command, Stdio};

/// A router in the foreground, with the site's `router.cf`. It is killed when this is dropped.
///
/// Its log is the site's file `router-log`.
pub struct Router {
    child: Child,
}

impl Router {
    #[track_caller]
    pub fn start(site: &Site) -> Router {
        let log = File::options().append(true).create(true).open(site.path("router-log"));
        let child = Command::new(zsched_tests::program("router"))
            .arg("-Z")
            .arg(site.path("zmailer.conf"))
            .arg("-f")
            .arg(site.path("router.cf"))
            .arg("-i")
            .current_dir(site.path(""))
            .stdin(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        Router { child: child.expect("the router starts") }
    }

    /// Sends SIGKILL and waits until the router exits.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
