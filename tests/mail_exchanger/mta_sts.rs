//! MTA-STS from the TXT record and the web server to the policy.

use crate::certificates::{Authority, HostCertificate};
use crate::dns_server::{RunningDns, Zones};
use crate::tls_server::{TlsServer, config};
use crate::{dns_settings, mail_exchangers, soon};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use zsched_mail_exchanger::{
    MailExchangers, NextHop, PolicyError, TlsLevel, TlsPolicy, TlsPolicyType, TlsRecord,
    TlsResultType, TlsSettings, Verification,
};

/// A web server that answers each request with this status and text.
fn web_server(
    certificate: &HostCertificate,
    status: &'static str,
    text: &'static str,
) -> TlsServer {
    TlsServer::start(config(certificate, None), move |stream| {
        let mut request = String::new();
        let mut reader = BufReader::new(&mut *stream);
        while reader.read_line(&mut request)? > 2 {}
        let is_ours = request.starts_with("GET /.well-known/mta-sts.txt HTTP/1.1\r\n")
            && request.to_ascii_lowercase().contains("host: mta-sts.d.example");
        let status = if is_ours { status } else { "400 Bad Request" };
        let length = text.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{text}"
        )?;
        stream.flush()
    })
}

struct World {
    authority: Authority,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        authority.write(&folder.path().join("ca.pem"));
        std::fs::create_dir(folder.path().join("cache")).unwrap();
        World { authority, folder }
    }

    fn cache(&self) -> std::path::PathBuf {
        self.folder.path().join("cache")
    }

    fn web_server(&self, status: &'static str, text: &'static str) -> TlsServer {
        web_server(&self.authority.certify(&["mta-sts.d.example"]), status, text)
    }

    /// An agent, which asks these servers.
    fn agent(&self, dns: &RunningDns, web: &TlsServer) -> MailExchangers {
        let tls = TlsSettings {
            level: TlsLevel::May,
            mta_sts: true,
            mta_sts_cache: Some(self.cache()),
            mta_sts_port: web.address.port(),
            ca_file: Some(self.folder.path().join("ca.pem")),
            ..TlsSettings::default()
        };
        mail_exchangers(dns_settings(dns), &tls)
    }
}

/// The domain `d.example` with two exchangers, and this id.
fn dns(id: &str) -> RunningDns {
    let example = format!(
        "d MX 1 mx1.d\nd MX 2 other\nmx1.d A 127.0.0.1\nother A 127.0.0.1\n\
         _mta-sts.d TXT \"v=STSv1; id={id};\"\nmta-sts.d A 127.0.0.1\n\
         e MX 1 mx1.d\n"
    );
    RunningDns::start(&Zones { example, unsigned: String::new() })
}

/// The policies of both exchangers. The port keeps loops out of the way.
fn policies(agent: &mut MailExchangers) -> [Result<TlsPolicy, PolicyError>; 2] {
    let destination = NextHop::parse("d.example:2525").unwrap();
    let route = agent.route(&destination, soon()).unwrap();
    assert_eq!(route.exchangers.len(), 2);
    [0, 1].map(|at| agent.tls_policy(&route, &route.exchangers[at], false, soon()))
}

const ENFORCE: &str = "version: STSv1\r\nmode: enforce\r\nmx: *.d.example\r\nmax_age: 86400\r\n";

#[test]
fn an_enforced_policy_allows_listed_exchangers_with_certificates() {
    let world = World::new();
    let (dns, web) = (dns("1"), world.web_server("200 OK", ENFORCE));
    let mut agent = world.agent(&dns, &web);
    let [listed, other] = policies(&mut agent);
    let listed = listed.unwrap();
    assert_eq!(listed.reason, "MTA-STS policy of d.example, mode enforce");
    assert!(listed.is_required && !listed.only_tests);
    assert_eq!(listed.verification, Verification::Names(vec!["mx1.d.example".into()]));
    let record = TlsRecord::of_session(&listed, None, None, None);
    assert_eq!((record.policy_type, record.result_type), (TlsPolicyType::Sts, None));
    assert_eq!(record.policy_string, ENFORCE.lines().collect::<Vec<_>>());
    assert_eq!(record.mx_host, ["*.d.example"]);
    let other = other.unwrap_err();
    assert_eq!(
        format!("{} {other}", other.enhanced_code()),
        "4.7.5 the MTA-STS policy of d.example does not list other.example"
    );
    // Neither this agent nor the next one fetches it again.
    assert!(policies(&mut agent)[0].is_ok());
    assert!(policies(&mut world.agent(&dns, &web))[1].is_err());
    assert_eq!(web.connections(), 1);
}

/// A message with REQUIRETLS needs no setting, only a policy that lists the exchanger.
#[test]
fn a_policy_of_any_mode_authenticates_exchangers_for_require_tls() {
    let testing = "version: STSv1\nmode: testing\nmx: mx1.d.example\nmax_age: 86400\n";
    let none = "version: STSv1\nmode: none\nmx: mx1.d.example\nmax_age: 86400\n";
    for (status, text, expected) in [
        ("200 OK", ENFORCE, Ok("mode enforce")),
        ("200 OK", testing, Ok("mode testing")),
        ("200 OK", none, Err((false, "nor is there an MTA-STS policy"))),
        ("503 Service Unavailable", "", Err((true, "status 503"))),
    ] {
        let world = World::new();
        let (dns, web) = (dns("1"), world.web_server(status, text));
        let tls = TlsSettings {
            level: TlsLevel::None,
            mta_sts_port: web.address.port(),
            ca_file: Some(world.folder.path().join("ca.pem")),
            ..TlsSettings::default()
        };
        let mut agent = mail_exchangers(dns_settings(&dns), &tls);
        let destination = NextHop::parse("d.example:2525").unwrap();
        let route = agent.route(&destination, soon()).unwrap();
        let [listed, other] =
            [0, 1].map(|at| agent.tls_policy(&route, &route.exchangers[at], true, soon()));
        assert!(other.is_err());
        match (listed, expected) {
            (Ok(policy), Ok(mode)) => {
                assert!(policy.uses_tls && policy.is_required && !policy.only_tests);
                let name = "mx1.d.example".to_string();
                assert_eq!(policy.verification, Verification::Names(vec![name]));
                assert!(policy.reason.ends_with(mode), "{}", policy.reason);
            }
            (Err(error), Err((is_temporary, text))) => {
                assert!(error.to_string().contains(text), "{error}");
                assert_eq!(error.is_temporary(), is_temporary, "{error}");
            }
            (found, _) => panic!("{text}: {found:?}"),
        }
    }
}

#[test]
fn a_policy_in_testing_requires_nothing() {
    let world = World::new();
    let text = "version: STSv1\nmode: testing\nmx: mx1.d.example\nmax_age: 86400\n";
    let (dns, web) = (dns("1"), world.web_server("200 OK", text));
    let [listed, other] = policies(&mut world.agent(&dns, &web)).map(Result::unwrap);
    assert!(listed.only_tests && !listed.is_required);
    assert_eq!(other.verification, Verification::None);
    let record = TlsRecord::of_session(&other, None, None, None);
    assert_eq!(record.result_type, Some(TlsResultType::ValidationFailure));
}

#[test]
fn a_policy_of_mode_none_is_none() {
    let world = World::new();
    let (dns, web) =
        (dns("1"), world.web_server("200 OK", "version: STSv1\nmode: none\nmax_age: 86400\n"));
    for policy in policies(&mut world.agent(&dns, &web)) {
        assert_eq!(policy.unwrap().reason, "level may");
    }
}

#[test]
fn a_new_id_fetches_the_policy_again() {
    let world = World::new();
    let text = "version: STSv1\nmode: enforce\nmx: other.example\nmax_age: 86400\n";
    let old = (dns("1"), world.web_server("200 OK", ENFORCE));
    assert!(policies(&mut world.agent(&old.0, &old.1))[1].is_err());
    let new = (dns("2"), world.web_server("200 OK", text));
    let [first, other] = policies(&mut world.agent(&new.0, &new.1));
    assert!(first.is_err() && other.is_ok());
}

#[test]
fn a_policy_that_is_kept_outlives_its_servers() {
    let world = World::new();
    let old = (dns("1"), world.web_server("200 OK", ENFORCE));
    assert!(policies(&mut world.agent(&old.0, &old.1))[0].is_ok());
    // The new one cannot be fetched.
    let broken = (dns("2"), world.web_server("503 Service Unavailable", ""));
    let mut agent = world.agent(&broken.0, &broken.1);
    assert!(policies(&mut agent)[0].as_ref().unwrap().is_required);
    assert!(policies(&mut agent)[1].is_err());
    assert_eq!(broken.1.connections(), 1, "the fetch is not repeated at once");
    // The TXT record is gone.
    let gone = RunningDns::start(&Zones {
        example: "d MX 1 mx1.d\nd MX 2 other\nmx1.d A 127.0.0.1\nother A 127.0.0.1\n".into(),
        unsigned: String::new(),
    });
    assert!(policies(&mut world.agent(&gone, &broken.1))[0].as_ref().unwrap().is_required);
}

/// The reason and result of a first fetch that fails.
fn failure(
    certificate_name: &str,
    status: &'static str,
    text: &'static str,
) -> (String, TlsRecord) {
    let world = World::new();
    let web = web_server(&world.authority.certify(&[certificate_name]), status, text);
    let [policy, _] = policies(&mut world.agent(&dns("1"), &web));
    let policy = policy.unwrap();
    assert!(!policy.is_required && policy.verification == Verification::None);
    assert!(is_empty(&world.cache()));
    let port = web.address.port().to_string();
    (policy.reason.replace(&port, "PORT"), TlsRecord::of_session(&policy, None, None, None))
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_policy_that_cannot_be_had_is_reported_and_mail_goes_out() {
    let name = "mta-sts.d.example";
    let url = "https://mta-sts.d.example:PORT/.well-known/mta-sts.txt";
    let check = |found: (String, TlsRecord), reason: &str, result_type| {
        let expected = format!("level may, MTA-STS policy of d.example: {reason}");
        assert!(found.0.starts_with(&expected), "{}", found.0);
        assert_eq!(found.1.result_type, Some(result_type));
        assert_eq!(found.1.policy_type, TlsPolicyType::Sts);
    };
    check(
        failure(name, "404 Not Found", ""),
        &format!("{url}: status 404"),
        TlsResultType::StsPolicyFetchError,
    );
    check(
        failure(name, "302 Found\r\nLocation: https://localhost/", ""),
        &format!("{url}: status 302"),
        TlsResultType::StsPolicyFetchError,
    );
    check(
        failure(name, "200 OK", "<html>"),
        "it does not begin with `version: STSv1`",
        TlsResultType::StsPolicyInvalid,
    );
    check(failure("other.example", "200 OK", ENFORCE), url, TlsResultType::StsWebpkiInvalid);
}
