//! Levels of TLS, with servers whose certificates are right and wrong.

use crate::certificates::{Authority, HostCertificate};
use crate::tls_server::{TlsServer, config};
use crate::{mail_exchangers, soon};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use zsched_mail_exchanger::{
    Connection, DnsSettings, DomainName, Endpoint, Exchanger, HostPattern, NextHop, NextHopKind,
    Route, TlsConnector, TlsError, TlsErrorKind, TlsLevel, TlsPolicy, TlsPolicyType, TlsRecord,
    TlsResultType, TlsRule, TlsSession, TlsSettings, TlsaRecord, Verification, Verified,
};

/// The policy that settings make for the exchanger `mx.d.example` of `d.example`.
fn policy(tls: &TlsSettings) -> TlsPolicy {
    policy_for(tls, "mx.d.example")
}

fn policy_for(tls: &TlsSettings, exchanger: &str) -> TlsPolicy {
    let exchanger = Exchanger {
        name: exchanger.into(),
        preference: Some(1),
        endpoints: vec![Endpoint::Tcp(SocketAddr::from(([198, 51, 100, 1], 25)))],
        canonical: exchanger.into(),
        is_validated: false,
    };
    let route = Route {
        next_hop: NextHop { kind: NextHopKind::Domain("d.example".into()), port: None },
        is_smarthost: false,
        is_mx_validated: false,
        exchangers: vec![exchanger.clone()],
        unresolved: Vec::new(),
        max_sessions: 1,
    };
    mail_exchangers(DnsSettings::default(), tls)
        .tls_policy(&route, &exchanger, false, soon())
        .unwrap()
}

fn level(level: TlsLevel) -> TlsSettings {
    TlsSettings { level, ..TlsSettings::default() }
}

fn connect(address: SocketAddr, deadline: Instant) -> Connection {
    Connection::of_tcp(TcpStream::connect(address).unwrap(), deadline).unwrap()
}

/// Starts TLS, and sends a line and back.
fn talk(
    connector: &mut TlsConnector,
    address: SocketAddr,
    policy: &TlsPolicy,
) -> Result<TlsSession, TlsError> {
    let mut stream = connector.start(connect(address, soon()), policy)?;
    stream.write_all(b"EHLO us.example\r\n").unwrap();
    stream.flush().unwrap();
    let mut line = [0; 17];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"EHLO us.example\r\n");
    let session = stream.session().clone();
    stream.close();
    Ok(session)
}

/// What becomes of a session with a server that has this certificate.
fn outcome(tls: &TlsSettings, certificate: &HostCertificate) -> Result<TlsSession, TlsError> {
    let server = TlsServer::echo(certificate);
    talk(&mut TlsConnector::new(tls.clone()), server.address, &policy(tls))
}

fn with_authority(folder: &Path, settings: TlsSettings) -> (Authority, TlsSettings) {
    let authority = Authority::new();
    let file = folder.join("ca.pem");
    authority.write(&file);
    (authority, TlsSettings { ca_file: Some(file), ..settings })
}

#[test]
fn levels_that_check_no_certificate_take_any() {
    let expired = Authority::new().certify_until(&["other.example"], 2020);
    let may = outcome(&level(TlsLevel::May), &expired).unwrap();
    assert_eq!(
        may.to_string(),
        "TLSv1.3 with cipher TLS_AES_256_GCM_SHA384 (256 bits), not verified"
    );
    assert_eq!((may.verified, may.policy.as_str()), (Verified::NotAsked, "level may"));
    assert!(outcome(&level(TlsLevel::Encrypt), &expired).is_ok());
}

#[test]
fn policies_tell_what_may_be_sent_in_plain_text() {
    let facts = |of: TlsLevel| {
        let policy = policy(&level(of));
        (policy.uses_tls, !policy.is_required)
    };
    assert_eq!(facts(TlsLevel::None), (false, true));
    assert_eq!(facts(TlsLevel::May), (true, true));
    assert_eq!(facts(TlsLevel::Encrypt), (true, false));
    assert_eq!(facts(TlsLevel::Secure), (true, false));
    // Without DNSSEC there is no DANE.
    assert_eq!(facts(TlsLevel::Dane), (true, true));
    let error = policy(&level(TlsLevel::Encrypt)).not_offered(Some("454 4.7.0 no"));
    assert_eq!(
        format!("{} {error}", error.enhanced_code()),
        "4.7.4 TLS is required (level encrypt), but the host refused STARTTLS (454 4.7.0 no)"
    );
}

#[test]
fn certificates_are_verified_for_names() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, verify) = with_authority(folder.path(), level(TlsLevel::Verify));
    let secure = TlsSettings { level: TlsLevel::Secure, ..verify.clone() };
    let of_mx = authority.certify(&["mx.d.example"]);
    let of_domain = authority.certify(&["d.example"]);
    let session = outcome(&verify, &of_mx).unwrap();
    assert_eq!(session.verified, Verified::ByAuthority);
    assert!(session.to_string().ends_with(", verified by an authority"));
    assert!(outcome(&verify, &authority.certify(&["*.d.example"])).is_ok());
    // The name of an exchanger below the domain is as good as the domain's.
    assert!(outcome(&secure, &of_domain).is_ok());
    assert!(outcome(&secure, &of_mx).is_ok());
    assert_eq!(
        policy_for(&secure, "mx.provider.example").verification,
        Verification::Names(vec!["d.example".into()])
    );

    let kind = |settings: &TlsSettings, certificate: &HostCertificate| {
        let error = outcome(settings, certificate).unwrap_err();
        assert_eq!(error.enhanced_code(), "4.7.5");
        assert!(!policy(settings).allows_retry_without_tls(&error));
        (error.kind, error.result_type())
    };
    assert_eq!(
        kind(&verify, &of_domain),
        (TlsErrorKind::NameMismatch, TlsResultType::CertificateHostMismatch)
    );
    assert_eq!(
        kind(&verify, &authority.certify_until(&["mx.d.example"], 2020)),
        (TlsErrorKind::Expired, TlsResultType::CertificateExpired)
    );
    assert_eq!(
        kind(&verify, &Authority::new().certify(&["mx.d.example"])),
        (TlsErrorKind::NotTrusted, TlsResultType::CertificateNotTrusted)
    );
}

#[test]
fn a_rule_decides_for_its_destinations() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, settings) = with_authority(folder.path(), level(TlsLevel::None));
    let rule = TlsRule {
        destination: HostPattern::try_from("*.example".to_string()).unwrap(),
        level: TlsLevel::Secure,
        names: vec![DomainName::try_from("Other.example".to_string()).unwrap()],
        mta_sts: None,
    };
    let settings = TlsSettings { policy: vec![rule], ..settings };
    assert!(outcome(&settings, &authority.certify(&["other.example"])).is_ok());
    assert!(outcome(&settings, &authority.certify(&["mx.d.example"])).is_err());
}

#[test]
fn a_missing_file_of_authorities_is_an_error_of_this_host() {
    let settings =
        TlsSettings { ca_file: Some("/nonexistent/ca.pem".into()), ..level(TlsLevel::Verify) };
    let error = outcome(&settings, &Authority::new().certify(&["mx.d.example"])).unwrap_err();
    assert_eq!((error.kind, error.enhanced_code()), (TlsErrorKind::Settings, "4.3.5"));
    assert!(error.to_string().starts_with("/nonexistent/ca.pem: "), "{error}");
}

#[test]
fn a_policy_that_tests_reports_what_it_would_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, settings) = with_authority(folder.path(), level(TlsLevel::Verify));
    let policy = TlsPolicy { only_tests: true, is_required: false, ..policy(&settings) };
    let mut connector = TlsConnector::new(settings);
    let mut verified = |certificate: &HostCertificate| {
        let server = TlsServer::echo(certificate);
        talk(&mut connector, server.address, &policy).unwrap().verified
    };
    assert_eq!(verified(&authority.certify(&["mx.d.example"])), Verified::ByAuthority);
    let wrong = verified(&authority.certify(&["other.example"]));
    let Verified::Failed(error) = wrong else { panic!("{wrong:?}") };
    assert_eq!(error.kind, TlsErrorKind::NameMismatch);
    let record = TlsRecord::of_session(&policy, None, None, Some(&error));
    assert_eq!(record.result_type, Some(TlsResultType::CertificateHostMismatch));
}

#[test]
fn records_have_the_names_of_tls_rpt() {
    let error = policy(&level(TlsLevel::Encrypt)).not_offered(None);
    let address = Some([198, 51, 100, 1].into());
    let policy = policy(&level(TlsLevel::Encrypt));
    let record = TlsRecord::of_session(&policy, address, None, Some(&error));
    assert_eq!(record.policy_type, TlsPolicyType::NoPolicyFound);
    assert_eq!(
        serde_json::to_string(&record).unwrap(),
        "{\"policy-type\":\"no-policy-found\",\"policy-domain\":\"d.example\",\
         \"receiving-mx-hostname\":\"mx.d.example\",\"receiving-ip\":\"198.51.100.1\",\
         \"result-type\":\"starttls-not-supported\",\"failure-reason-code\":\
         \"TLS is required (level encrypt), but the host does not offer STARTTLS\"}"
    );
}

/// TLSA records of a certificate, with selector and matching type.
fn tlsa(usage: u8, selector: u8, matching: u8, bytes: &[u8]) -> TlsaRecord {
    use ring::digest::{SHA256, SHA512, digest};
    let data = match matching {
        1 => digest(&SHA256, bytes).as_ref().to_vec(),
        2 => digest(&SHA512, bytes).as_ref().to_vec(),
        _ => bytes.to_vec(),
    };
    TlsaRecord { usage, selector, matching, data }
}

#[test]
fn tlsa_records_of_each_kind_verify() {
    let authority = Authority::new();
    let name = "mx.d.example";
    let good = authority.certify(&[name]);
    // DANE-EE looks at neither names nor dates.
    let odd = authority.certify_until(&["other.example"], 2020);
    let other = authority.certify(&["other.example"]);
    let settings = level(TlsLevel::Dane);
    let verify = |records: Vec<TlsaRecord>, certificate: &HostCertificate| {
        let verification = Verification::Dane { records, names: vec![name.into()] };
        let policy = TlsPolicy { verification, is_required: true, ..policy(&settings) };
        let server = TlsServer::echo(certificate);
        let session = talk(&mut TlsConnector::new(settings.clone()), server.address, &policy);
        session.map(|session| session.verified).map_err(|error| error.kind)
    };
    for matching in [0, 1, 2] {
        let ok = Ok(Verified::ByDane);
        let of_key = tlsa(3, 1, matching, &odd.public_key);
        assert_eq!(verify(vec![of_key.clone()], &odd), ok, "3 1 {matching}");
        assert_eq!(verify(vec![tlsa(3, 0, matching, &odd.chain[0])], &odd), ok);
        assert_eq!(verify(vec![of_key.clone()], &good), Err(TlsErrorKind::NotTrusted));
        let of_authority = tlsa(2, 0, matching, &authority.certificate);
        assert_eq!(verify(vec![of_authority.clone()], &good), ok, "2 0 {matching}");
        // One that matches is enough.
        assert_eq!(verify(vec![of_key, of_authority.clone()], &good), ok);
        // Usage 2 looks at names and dates.
        assert_eq!(verify(vec![of_authority.clone()], &other), Err(TlsErrorKind::NameMismatch));
        assert_eq!(verify(vec![of_authority], &odd), Err(TlsErrorKind::Expired));
    }
    let wrong = tlsa(2, 0, 1, &Authority::new().certificate);
    assert_eq!(verify(vec![wrong], &good), Err(TlsErrorKind::NotTrusted));
    // The key of the host is no issuer.
    assert_eq!(verify(vec![tlsa(2, 1, 1, &good.public_key)], &good), Err(TlsErrorKind::NotTrusted));
}

#[test]
fn sessions_are_resumed_under_the_same_policy_only() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, verify) = with_authority(folder.path(), level(TlsLevel::Verify));
    let server = TlsServer::echo(&authority.certify(&["mx.d.example"]));
    let mut connector = TlsConnector::new(verify.clone());
    let mut session = |policy| talk(&mut connector, server.address, policy).unwrap();
    let (may, verify) = (policy(&level(TlsLevel::May)), policy(&verify));
    assert!(!session(&may).is_resumed);
    assert!(session(&may).is_resumed);
    assert!(!session(&verify).is_resumed);
    let resumed = session(&verify);
    assert!(resumed.is_resumed);
    assert_eq!(
        resumed.to_string(),
        "TLSv1.3 with cipher TLS_AES_256_GCM_SHA384 (256 bits), verified by an authority, resumed"
    );
}

#[test]
fn a_client_certificate_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ours = authority.certify(&["us.example"]);
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let server = TlsServer::echo_to_known(&authority.certify(&["mx.d.example"]), &authority);
    let client_certificate = zsched_mail_exchanger::ClientCertificate {
        certificate_file: file("cert.pem", &ours.pem),
        key_file: file("key.pem", &ours.key_pem),
    };
    let settings =
        TlsSettings { client_certificate: Some(client_certificate), ..level(TlsLevel::May) };
    let policy = policy(&settings);
    assert!(talk(&mut TlsConnector::new(settings), server.address, &policy).is_ok());
}

/// A server that sends some bytes and then does what `then` says.
fn raw_server(bytes: &'static [u8], closes: bool) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(bytes).unwrap();
        if closes {
            socket.shutdown(std::net::Shutdown::Write).unwrap();
        }
        // Until the client closes.
        std::io::copy(&mut socket, &mut std::io::sink()).ok();
    });
    address
}

#[test]
fn a_handshake_with_a_bad_peer_ends() {
    let may = level(TlsLevel::May);
    let policy = policy(&may);
    let start = |address, deadline| {
        let stream = TlsConnector::new(may.clone()).start(connect(address, deadline), &policy);
        stream.err().unwrap()
    };
    let garbage = start(raw_server(b"250 what? I speak SMTP\r\n", false), soon());
    assert_eq!(garbage.kind, TlsErrorKind::Handshake, "{garbage}");
    assert!(policy.allows_retry_without_tls(&garbage));
    let closed = start(raw_server(b"\x16\x03\x03", true), soon());
    assert_eq!((closed.kind, closed.enhanced_code()), (TlsErrorKind::Io, "4.4.2"), "{closed}");
    let deadline = Instant::now() + Duration::from_millis(200);
    let silent = start(raw_server(b"\x16\x03\x03", false), deadline);
    assert_eq!(silent.to_string(), "TLS handshake timed out");
    assert!(!policy.allows_retry_without_tls(&silent));
}

#[test]
fn a_deadline_holds_inside_tls() {
    let certificate = Authority::new().certify(&["mx.d.example"]);
    // Reads, and never answers.
    let server = TlsServer::start(config(&certificate, None), |stream| {
        std::io::copy(stream, &mut std::io::sink()).map(drop)
    });
    let may = level(TlsLevel::May);
    let connection = connect(server.address, soon());
    let mut stream = TlsConnector::new(may.clone()).start(connection, &policy(&may)).unwrap();
    stream.set_deadline(Instant::now() + Duration::from_millis(100));
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
}

/// `openssl s_server`, which ends with the test.
struct OpensslServer {
    child: Child,
    address: SocketAddr,
}

impl OpensslServer {
    fn start(folder: &Path, key: &str, arguments: &[&str]) -> OpensslServer {
        let openssl = |arguments: &[&str]| {
            let mut command = Command::new("openssl");
            command.args(arguments).current_dir(folder).stderr(Stdio::null());
            command.stdout(Stdio::piped()).stdin(Stdio::null());
            command
        };
        let make = format!(
            "req -x509 -nodes -newkey {key} -keyout key.pem -out cert.pem -days 9 -subj /CN=old"
        );
        let make: Vec<&str> = make.split(' ').collect();
        let made = openssl(&make).status().expect("these tests need openssl");
        assert!(made.success());
        for _ in 0..10 {
            let address = {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                listener.local_addr().unwrap()
            };
            let accept = address.to_string();
            let serve =
                ["s_server", "-quiet", "-accept", &accept, "-key", "key.pem", "-cert", "cert.pem"];
            let mut child = openssl(&[&serve, arguments].concat()).spawn().unwrap();
            let deadline = soon();
            while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
                if TcpStream::connect(address).is_ok() {
                    return OpensslServer { child, address };
                }
                thread::sleep(Duration::from_millis(10));
            }
            child.kill().ok();
            child.wait().unwrap();
        }
        panic!("openssl s_server does not start");
    }
}

impl Drop for OpensslServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Mail is not sent in plain text since a host has an old key, which proves nothing anyway.
#[test]
fn an_old_server_of_another_implementation_is_good_enough_for_may() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        OpensslServer::start(folder.path(), "rsa:1024", &["-tls1_2", "-cipher", "ALL:@SECLEVEL=0"]);
    let may = level(TlsLevel::May);
    let connection = connect(server.address, soon());
    let stream = TlsConnector::new(may.clone()).start(connection, &policy(&may)).unwrap();
    let session = stream.session();
    assert_eq!((session.version, &session.verified), ("TLSv1.2", &Verified::NotAsked));
    assert!(session.cipher.starts_with("TLS_ECDHE_RSA_WITH_"), "{}", session.cipher);
}
