//! Password hashes, and logins that do not reveal a password.

use super::fake_scheduler::json;
use super::fake_server::{FakeServer, text};
use super::support::Site;
use zsched_mailq_protocol::scram::StoredPassword;

#[test]
fn passwords_are_stored_as_hashes() {
    let site = Site::new();
    let run = site.mailq_with_input("passwd fred --permissions TT --addresses [::1]", "secret\n");
    let line = run.good();
    let parts: Vec<&str> = line.trim_end().splitn(2, ':').collect();
    assert_eq!(parts[0], "fred");
    let stored = parts[1].strip_suffix(":TT:[::1]").expect("what was asked for");
    let (start, _) = stored.split_once('$').expect("a name of the algorithm");
    assert_eq!(start, "SCRAM-SHA-256");
    let salt = stored.split(['$', ':']).nth(2).expect("a salt");
    let salt = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, salt);
    let again = StoredPassword::with_salt("secret", salt.expect("base64"), 40_000).to_string();
    assert_eq!(stored, again);
    site.mailq_with_input("passwd fred", "\n").failed(64, "the password is empty");
    site.mailq_with_input("passwd a:b", "x\n").failed(64, "not have colons");
}

#[test]
fn scram_login_succeeds() {
    let site = Site::new();
    let fake_server = FakeServer::with_scram(
        "fred",
        "secret",
        &[("SHOW JSON RINGS", text(json("rings").as_bytes()))],
    );
    let options = format!("-p {} --server 127.0.0.1", fake_server.port);
    let run = site.mailq(&format!("{options} -U fred/secret rings --json"));
    assert_eq!(run.good(), json("rings"));
    assert!(fake_server.end().iter().all(|line| !line.starts_with("AUTH ")));
    let fake_server = FakeServer::with_scram("fred", "secret", &[]);
    let options = format!("-p {} --server 127.0.0.1", fake_server.port);
    site.mailq(&format!("{options} -U fred/wrong rings"))
        .failed(77, "does not accept the password of user fred");
    fake_server.end();
}
