//! What the router could not route comes back to it as a report.

use crate::support::{Site, until};
use std::fs;

#[test]
fn refused_recipients_come_back_as_one_submission() {
    let site =
        Site::new("error/*\n\tcommand=\"errormail\"\nlocal/*\n\tcommand=\"discard -c local\"\n");
    let _daemon = site.start();
    site.put(&[
        "error unresolvable one@nowhere.test",
        "local - alice",
        "error unresolvable two@nowhere.test",
    ]);
    site.until_empty();
    let router = fs::read_dir(site.path("postoffice/router")).expect("the folder of the router");
    let paths: Vec<_> = router.map(|entry| entry.expect("a report").path()).collect();
    let [path] = &paths[..] else { panic!("{paths:?}") };
    let report = fs::read_to_string(path).expect("text");
    for address in ["one@nowhere.test", "two@nowhere.test"] {
        assert!(report.contains(&format!("\nFinal-Recipient: rfc822; {address}\n")), "{report}");
    }
    assert!(!report.contains("alice"), "{report}");
    let number = path.file_name().expect("a name").to_string_lossy();
    let delivered = format!("status=delivered (S{number}");
    until("the log says so", || site.logged(&delivered) == 2);
    assert!(
        fs::read_dir(site.path("postoffice/postman")).is_ok_and(|mut all| all.next().is_none())
    );
}
