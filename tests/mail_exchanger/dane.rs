//! DANE from zone to session: TLSA records of a signed zone, by the server's word and our own.

use crate::certificates::Authority;
use crate::dns_server::{RunningDns, Zones};
use crate::tls_server::TlsServer;
use crate::{dns_settings, mail_exchangers, soon};
use ring::digest::{SHA256, digest};
use zsched_mail_exchanger::{
    DnsSettings, Dnssec, MailExchangers, NextHop, PolicyError, TlsConnector, TlsErrorKind,
    TlsLevel, TlsPolicy, TlsPolicyType, TlsRecord, TlsResultType, TlsSettings, Verification,
    Verified,
};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The policy of the first exchanger of a destination.
fn policy(exchangers: &mut MailExchangers, destination: &str) -> Result<TlsPolicy, PolicyError> {
    let destination = NextHop::parse(destination).unwrap();
    let route = exchangers.route(&destination, soon()).unwrap();
    exchangers.tls_policy(&route, &route.exchangers[0], false, soon())
}

#[test]
fn tlsa_records_of_a_signed_zone_decide() {
    let authority = Authority::new();
    let certificate = authority.certify(&["whatever.example"]);
    let tls_server = TlsServer::echo(&certificate);
    let port = tls_server.address.port();
    let ee = hex(digest(&SHA256, &certificate.public_key).as_ref());
    let other = hex(digest(&SHA256, b"other").as_ref());
    let tlsa = |host: &str, data: &str| format!("_{port}._tcp.{host} TLSA {data}\n");
    let host = |host: &str| format!("{host} A 127.0.0.1\n");
    let zone = [
        "good MX 1 mx.good\n".to_string(),
        host("mx.good"),
        tlsa("mx.good", &format!("3 1 1 {ee}")),
        "alias MX 1 mx.alias\nmx.alias CNAME mx.good\n".to_string(),
        host("wrong") + &tlsa("wrong", &format!("3 1 1 {other}")),
        host("useless") + &tlsa("useless", &format!("1 1 1 {ee}")),
        host("without"),
        "elsewhere MX 1 mx.unsigned.\n".to_string(),
    ];
    let unsigned =
        format!("@ MX 1 mx.good.example.\nmx A 127.0.0.1\n_{port}._tcp.mx TLSA 3 1 1 {ee}\n");
    let dns = RunningDns::start(&Zones { example: zone.concat(), unsigned });
    for dnssec in [Dnssec::Trust, Dnssec::Validate] {
        let settings =
            DnsSettings { dnssec, trust_anchor: Some(dns.trust_anchor()), ..dns_settings(&dns) };
        let tls = TlsSettings { level: TlsLevel::Dane, ..TlsSettings::default() };
        let mut exchangers = mail_exchangers(settings.clone(), &tls);
        let mut find = |name: &str| policy(&mut exchangers, &format!("{name}:{port}")).unwrap();
        let mut connector = TlsConnector::new(tls.clone());
        let mut start = |policy: &TlsPolicy| {
            let socket = std::net::TcpStream::connect(tls_server.address).unwrap();
            let connection = zsched_mail_exchanger::Connection::of_tcp(socket, soon()).unwrap();
            let stream = connector.start(connection, policy);
            stream.map(|stream| stream.session().verified.clone()).map_err(|error| error.kind)
        };
        let good = find("good.example");
        assert_eq!(good.reason, "DANE, 1 TLSA record", "{dnssec:?}");
        assert!(good.is_required);
        assert_eq!(good.record.policy_type, TlsPolicyType::Tlsa);
        assert_eq!(good.record.policy_string, [format!("3 1 1 {ee}")]);
        assert_eq!(start(&good), Ok(Verified::ByDane));
        let alias = find("alias.example");
        assert_eq!(
            (alias.server_name.as_str(), start(&alias)),
            ("mx.good.example", Ok(Verified::ByDane))
        );
        let wrong = find("wrong.example");
        assert_eq!(start(&wrong), Err(TlsErrorKind::NotTrusted));
        // TLS is required, but nothing can be verified.
        let useless = find("useless.example");
        assert_eq!((useless.is_required, &useless.verification), (true, &Verification::None));
        assert_eq!(start(&useless), Ok(Verified::NotAsked));

        let absent = |policy: &TlsPolicy| {
            assert!(policy.uses_tls && !policy.is_required);
            policy.reason.clone()
        };
        assert_eq!(absent(&find("without.example")), "level dane, no signed TLSA records");
        assert_eq!(absent(&find("elsewhere.example")), "level dane, the addresses are not signed");
        assert_eq!(absent(&find("unsigned")), "level dane, the MX records are not signed");

        // Messages with REQUIRETLS need no setting: TLSA records, or the name of a signed record.
        let mut any = mail_exchangers(settings.clone(), &TlsSettings::default());
        let mut required = |name: &str| {
            let destination = NextHop::parse(&format!("{name}:{port}")).unwrap();
            let route = any.route(&destination, soon()).unwrap();
            any.tls_policy(&route, &route.exchangers[0], true, soon())
        };
        assert_eq!(start(&required("good.example").unwrap()), Ok(Verified::ByDane));
        for name in ["useless.example", "without.example", "elsewhere.example"] {
            let policy = required(name).unwrap();
            let names =
                matches!(&policy.verification, Verification::Names(names) if names.len() == 1);
            assert!(policy.is_required && names, "{name}: {policy:?}");
        }
        let error = required("unsigned").unwrap_err();
        assert!(!error.is_temporary() && error.to_string().starts_with("REQUIRETLS: "), "{error}");

        let only = TlsSettings { level: TlsLevel::DaneOnly, ..tls };
        let mut exchangers = mail_exchangers(settings, &only);
        let mut find = |name: &str| policy(&mut exchangers, &format!("{name}:{port}"));
        assert!(find("good.example").is_ok());
        let error = find("without.example").unwrap_err();
        assert_eq!(
            format!("{} {error}", error.enhanced_code()),
            "4.7.5 DANE is required for without.example, but no signed TLSA records"
        );
        assert_eq!(
            TlsRecord::of_policy_error(&error).result_type,
            Some(TlsResultType::DaneRequired)
        );
        assert_eq!(find("useless.example").unwrap_err().result_type, TlsResultType::TlsaInvalid);
    }
}
