//! Whole reports as expected text.

use super::{composed, recipient, report};
use crate::{RecipientStatus, Report};
use expect_test::expect;
use zsched_format::time::Timestamp;

#[test]
fn refused_recipient_is_reported_with_message() {
    let refused = recipient(
        "bob@b.test",
        b"bob@b.test\x01failed\x015.1.1 (no such user)\x01smtp; 550 (no such user)\x01dns; mx.b.test (192.0.2.1)\x01smtp[71]",
        "\r<<- RCPT To:<bob@b.test>\r->> 550 5.1.1 no such user",
    );
    let original_recipient = Some(&b"rfc822;list+2Bx@b.test"[..]);
    let recipients = vec![RecipientStatus { original_recipient, ..refused }];
    expect![[r#"
        rcvdfrom STDIN (root@relay.test)
        channel error
        errormsg
        todsn ORCPT=rfc822;alice@a.test
        to <alice@a.test>
        env-end
        To: <alice@a.test>
        From: "Mail Delivery System" <postmaster@relay.test>
        Sender: <MAILER-DAEMON@relay.test>
        Subject: Not delivered: your mail to bob@b.test
        Date: Sat, 21 Nov 2026 10:04:20 +0000
        Message-ID: <S77AbmKUKEJuveqC@relay.test>
        In-Reply-To: <m1@a.test>
        References: <m1@a.test>
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type="delivery-status";
         boundary="S77AbmKUKEJuveqC.0=_"
        Content-Transfer-Encoding: 7bit

        --S77AbmKUKEJuveqC.0=_
        Content-Type: text/plain; charset="utf-8"
        Content-Description: Report for people
        Content-Transfer-Encoding: 7bit

        This is the mail system at relay.test.

        Your message could not be delivered to 1 recipient, and is not tried
        again:

          list+x@b.test
            resolved to bob@b.test
            The mail server mx.b.test (192.0.2.1) said:
              <<- RCPT To:<bob@b.test>
              ->> 550 5.1.1 no such user
            Check the spelling of the address, or ask the recipient for the
            right one.

        If you need help, send this whole report to postmaster@relay.test.

        The message is attached:

          Subject: the minutes of Monday
          Arrived: Sat, 21 Nov 2026 10:04:09 +0000
          Logged as: S1AbmKUKEJuveqC

        --S77AbmKUKEJuveqC.0=_
        Content-Type: message/delivery-status
        Content-Description: Report for programs
        Content-Transfer-Encoding: 7bit

        Reporting-MTA: dns; relay.test
        Arrival-Date: Sat, 21 Nov 2026 10:04:09 +0000

        Original-Recipient: rfc822; list+x@b.test
        Final-Recipient: rfc822; bob@b.test
        Action: failed
        Status: 5.1.1 (no such user)
        Remote-MTA: dns; mx.b.test (192.0.2.1)
        Diagnostic-Code: smtp; 550 (no such user)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        X-ZTAID: smtp[71]
        X-Destination: smtp/b.test

        --S77AbmKUKEJuveqC.0=_
        Content-Type: message/rfc822
        Content-Description: Original message
        Content-Transfer-Encoding: 7bit

        Received: by relay.test id S1; Sat, 21 Nov 2026 10:00:00 +0000
        From: alice@a.test
        Subject: the minutes
         of Monday
        Message-ID: <m1@a.test>

        body

        --S77AbmKUKEJuveqC.0=_--
    "#]]
    .assert_eq(&composed(&Report { recipients, ..report() }, ""));
}

#[test]
fn recipients_in_several_conditions_are_in_one_report() {
    let recipients = vec![
        recipient(
            "ok@b.test",
            b"ok@b.test\x01delivered\x012.0.0 (ok)\x01x-local; 250 (ok)\x01",
            "",
        ),
        recipient(
            "no@b.test",
            b"no@b.test\x01failed\x015.2.2 (full)\x01x-local; 552 (full)\x01",
            "",
        ),
        RecipientStatus {
            retry_until: Some(Timestamp::from_seconds(1_795_600_000)),
            ..recipient(
                "late@b.test",
                b"\x03\x01delayed\x014.4.1 (timed out)\x01smtp; 466 (timed out)\x01mx.b.test",
                "connect: timed out",
            )
        },
        recipient(
            "old@b.test",
            b"\x03\x01failed\x014.4.1 (timed out)\x01smtp; 466 (timed out)\x01mx.b.test",
            "\rexpired after 3 days, problem was:\rconnect: timed out",
        ),
        recipient(
            "list@b.test",
            b"list@b.test\x01expanded\x012.1.5\x01x-local; 250 (4 members)\x01",
            "",
        ),
        recipient(
            "far@b.test",
            b"far@b.test\x01relayed\x012.0.0\x01smtp; 250 (queued)\x01dns; mx.b.test",
            "",
        ),
        recipient("ignored@b.test", b"", ""),
    ];
    let (envelope_id, body) = (Some(&b"QQ3+2B1"[..]), None);
    expect![[r#"
        rcvdfrom STDIN (root@relay.test)
        channel error
        errormsg
        todsn ORCPT=rfc822;alice@a.test
        to <alice@a.test>
        env-end
        To: <alice@a.test>
        From: "Mail Delivery System" <postmaster@relay.test>
        Sender: <MAILER-DAEMON@relay.test>
        Subject: Not delivered: your mail to 2 recipients
        Date: Sat, 21 Nov 2026 10:04:20 +0000
        Message-ID: <S77AbmKUKEJuveqC@relay.test>
        In-Reply-To: <m1@a.test>
        References: <m1@a.test>
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type="delivery-status";
         boundary="S77AbmKUKEJuveqC.0=_"
        Content-Transfer-Encoding: 7bit

        --S77AbmKUKEJuveqC.0=_
        Content-Type: text/plain; charset="utf-8"
        Content-Description: Report for people
        Content-Transfer-Encoding: 7bit

        This is the mail system at relay.test.

        Your message could not be delivered to 2 recipients, and is not tried
        again:

          no@b.test
            The reason:
              full
            The mailbox is full. Tell the recipient, or send the message again
            later.

          old@b.test
            Last attempt, at the mail server mx.b.test:
              expired after 3 days, problem was:
              connect: timed out
            The mail system of the recipient could not be reached for too long.
            Send the message again later, or contact the recipient in another
            way.

        Your message has not reached 1 recipient yet. It is tried again: you
        need not do anything, and need not send it again.

          late@b.test
            Last attempt, at the mail server mx.b.test:
              connect: timed out
            Tried again until Wed, 25 Nov 2026 09:46:40 +0000.

        Your message was passed on for 1 recipient to a mail system that may
        send no notice of the delivery:

          far@b.test
            on Sat, 21 Nov 2026 10:04:15 +0000
            The mail server mx.b.test said:
              250 queued

        Your message was delivered to 1 recipient:

          ok@b.test
            on Sat, 21 Nov 2026 10:04:15 +0000

        Your message was delivered to 1 recipient, and passed on to the members
        of a list:

          list@b.test
            on Sat, 21 Nov 2026 10:04:15 +0000

        If you need help, send this whole report to postmaster@relay.test.

        The headers of the message are attached:

          Subject: the minutes of Monday
          Arrived: Sat, 21 Nov 2026 10:04:09 +0000
          Logged as: S1AbmKUKEJuveqC

        --S77AbmKUKEJuveqC.0=_
        Content-Type: message/delivery-status
        Content-Description: Report for programs
        Content-Transfer-Encoding: 7bit

        Original-Envelope-Id: QQ3+1
        Reporting-MTA: dns; relay.test
        Arrival-Date: Sat, 21 Nov 2026 10:04:09 +0000

        Final-Recipient: rfc822; no@b.test
        Action: failed
        Status: 5.2.2 (full)
        Diagnostic-Code: x-local; 552 (full)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        X-Destination: smtp/b.test

        Final-Recipient: rfc822; old@b.test
        Action: failed
        Status: 4.4.1 (timed out)
        Remote-MTA: dns; mx.b.test
        Diagnostic-Code: smtp; 466 (timed out)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        X-Destination: smtp/b.test

        Final-Recipient: rfc822; late@b.test
        Action: delayed
        Status: 4.4.1 (timed out)
        Remote-MTA: dns; mx.b.test
        Diagnostic-Code: smtp; 466 (timed out)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        Will-Retry-Until: Wed, 25 Nov 2026 09:46:40 +0000
        X-Destination: smtp/b.test

        Final-Recipient: rfc822; far@b.test
        Action: relayed
        Status: 2.0.0
        Remote-MTA: dns; mx.b.test
        Diagnostic-Code: smtp; 250 (queued)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        X-Destination: smtp/b.test

        Final-Recipient: rfc822; ok@b.test
        Action: delivered
        Status: 2.0.0 (ok)
        Diagnostic-Code: x-local; 250 (ok)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        X-Destination: smtp/b.test

        Final-Recipient: rfc822; list@b.test
        Action: expanded
        Status: 2.1.5
        Diagnostic-Code: x-local; 250 (4 members)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        X-Destination: smtp/b.test

        --S77AbmKUKEJuveqC.0=_
        Content-Type: text/rfc822-headers
        Content-Description: Original message
        Content-Transfer-Encoding: 7bit

        Received: by relay.test id S1; Sat, 21 Nov 2026 10:00:00 +0000
        From: alice@a.test
        Subject: the minutes
         of Monday
        Message-ID: <m1@a.test>

        --S77AbmKUKEJuveqC.0=_--
    "#]]
    .assert_eq(&composed(&Report { recipients, envelope_id, body, ..report() }, ""));
}

#[test]
fn form_gives_sender_subject_and_text() {
    let form = "HDR From: The Post Office <postmaster>\nSUB Subject: Returned mail\n\
        ADR Cc: <helpdesk@a.test>\nADR Bcc: <archive@a.test>\n\nGuten Tag, gr\u{fc}\u{df}e aus M\u{fc}nchen!\n";
    let recipients = vec![
        recipient(
            "bob@b.test",
            b"\x03\x01failed\x015.1.1\x01smtp; 550 (unknown)\x01dns; mx.b.test",
            "",
        ),
        recipient("late@b.test", b"\x03\x01delayed\x014.4.1\x01smtp; 466 (timed out)\x01", ""),
    ];
    let body = None;
    let headers = b"Subject: x\n";
    expect![[r#"
        rcvdfrom STDIN (root@relay.test)
        channel error
        errormsg
        todsn ORCPT=rfc822;alice@a.test
        to <alice@a.test>
        todsn ORCPT=rfc822;helpdesk@a.test
        to <helpdesk@a.test>
        todsn ORCPT=rfc822;archive@a.test
        to <archive@a.test>
        env-end
        To: <alice@a.test>
        From: The Post Office <postmaster>
        Cc: <helpdesk@a.test>
        Subject: Returned mail [FAILED(1),DELAYED(1)]
        Date: Sat, 21 Nov 2026 10:04:20 +0000
        Message-ID: <S77AbmKUKEJuveqC@relay.test>
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type="delivery-status";
         boundary="S77AbmKUKEJuveqC.0=_"
        Content-Transfer-Encoding: 7bit

        --S77AbmKUKEJuveqC.0=_
        Content-Type: text/plain; charset="utf-8"
        Content-Description: Report for people
        Content-Transfer-Encoding: quoted-printable


        Guten Tag, gr=C3=BC=C3=9Fe aus M=C3=BCnchen!

        Your message could not be delivered to 1 recipient, and is not tried
        again:

          bob@b.test
            The mail server mx.b.test said:
              550 unknown
            Check the spelling of the address, or ask the recipient for the
            right one.

        Your message has not reached 1 recipient yet. It is tried again: you
        need not do anything, and need not send it again.

          late@b.test
            The reason:
              timed out

        If you need help, send this whole report to postmaster@relay.test.

        The headers of the message are attached:

          Subject: x
          Arrived: Sat, 21 Nov 2026 10:04:09 +0000
          Logged as: S1AbmKUKEJuveqC

        --S77AbmKUKEJuveqC.0=_
        Content-Type: message/delivery-status
        Content-Description: Report for programs
        Content-Transfer-Encoding: 7bit

        Reporting-MTA: dns; relay.test
        Arrival-Date: Sat, 21 Nov 2026 10:04:09 +0000

        Final-Recipient: rfc822; bob@b.test
        Action: failed
        Status: 5.1.1
        Remote-MTA: dns; mx.b.test
        Diagnostic-Code: smtp; 550 (unknown)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        X-Destination: smtp/b.test

        Final-Recipient: rfc822; late@b.test
        Action: delayed
        Status: 4.4.1
        Diagnostic-Code: smtp; 466 (timed out)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        X-Destination: smtp/b.test

        --S77AbmKUKEJuveqC.0=_
        Content-Type: text/rfc822-headers
        Content-Description: Original message
        Content-Transfer-Encoding: 7bit

        Subject: x

        --S77AbmKUKEJuveqC.0=_--
    "#]]
    .assert_eq(&composed(&Report { recipients, headers, body, ..report() }, form));
}

#[test]
fn double_fault_goes_to_addresses_of_the_form() {
    let recipients =
        vec![recipient("/var/mail/bob", b"\x03\x01failed\x015.2.2\x01x-local; 552 (full)", "")];
    let report = Report { recipients, sender: Some(b""), body: None, ..report() };
    let file = composed(&report, "ADR Cc: <postmaster@a.test>\n");
    let (head, _) =
        file.split_once("--S77AbmKUKEJuveqC.0=_\nContent-Type: message").expect("a part");
    expect![[r#"
        rcvdfrom STDIN (root@relay.test)
        channel error
        errormsg
        todsn ORCPT=rfc822;postmaster@a.test
        to <postmaster@a.test>
        env-end
        To: dummy:; (error trapped source)
        From: "Mail Delivery System" <postmaster@relay.test>
        Sender: <MAILER-DAEMON@relay.test>
        Cc: <postmaster@a.test>
        Subject: Double-fault: Not delivered: a report to /var/mail/bob
        Date: Sat, 21 Nov 2026 10:04:20 +0000
        Message-ID: <S77AbmKUKEJuveqC@relay.test>
        In-Reply-To: <m1@a.test>
        References: <m1@a.test>
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type="delivery-status";
         boundary="S77AbmKUKEJuveqC.0=_"
        Content-Transfer-Encoding: 7bit

        --S77AbmKUKEJuveqC.0=_
        Content-Type: text/plain; charset="utf-8"
        Content-Description: Report for people
        Content-Transfer-Encoding: 7bit

        This is the mail system at relay.test.

        This is about a report to the sender of a message, which could not be
        delivered. Only you are told.

        The report could not be delivered to 1 recipient, and is not tried
        again:

          /var/mail/bob
            The reason:
              full

        The headers of the message are attached:

          Subject: the minutes of Monday
          Arrived: Sat, 21 Nov 2026 10:04:09 +0000
          Logged as: S1AbmKUKEJuveqC

    "#]]
    .assert_eq(head);
}

#[test]
fn international_addresses_make_the_report_global() {
    let bob = recipient(
        "b\u{f6}b@b.test",
        b"\x03\x01failed\x015.1.1\x01smtp; 550 (ung\xc3\xbcltig)\x01",
        "",
    );
    let original_recipient = Some(&b"utf-8;b\\x{F6}b@b.test"[..]);
    let recipients = vec![RecipientStatus { original_recipient, ..bob }];
    let sender = Some("\u{e4}lice@a.test".as_bytes());
    let headers = "From: \u{e4}lice@a.test\n".as_bytes();
    expect![[r#"
        rcvdfrom STDIN (root@relay.test)
        channel error
        errormsg
        todsn ORCPT=utf-8;\x{E4}lice@a.test
        to <älice@a.test>
        env-end
        To: <älice@a.test>
        From: "Mail Delivery System" <postmaster@relay.test>
        Sender: <MAILER-DAEMON@relay.test>
        Subject: =?utf-8?Q?Not_delivered:_your_mail_to_b=C3=B6b@b.test?=
        Date: Sat, 21 Nov 2026 10:04:20 +0000
        Message-ID: <S77AbmKUKEJuveqC@relay.test>
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type="global-delivery-status";
         boundary="S77AbmKUKEJuveqC.0=_"
        Content-Transfer-Encoding: 8bit

        --S77AbmKUKEJuveqC.0=_
        Content-Type: text/plain; charset="utf-8"
        Content-Description: Report for people
        Content-Transfer-Encoding: quoted-printable

        This is the mail system at relay.test.

        Your message could not be delivered to 1 recipient, and is not tried
        again:

          b=C3=B6b@b.test
            The reason:
              550 ung=C3=BCltig
            Check the spelling of the address, or ask the recipient for the
            right one.

        If you need help, send this whole report to postmaster@relay.test.

        The message is attached:

          Arrived: Sat, 21 Nov 2026 10:04:09 +0000
          Logged as: S1AbmKUKEJuveqC

        --S77AbmKUKEJuveqC.0=_
        Content-Type: message/global-delivery-status
        Content-Description: Report for programs
        Content-Transfer-Encoding: 8bit

        Reporting-MTA: dns; relay.test
        Arrival-Date: Sat, 21 Nov 2026 10:04:09 +0000

        Original-Recipient: utf-8; böb@b.test
        Final-Recipient: utf-8; böb@b.test
        Action: failed
        Status: 5.1.1
        Diagnostic-Code: smtp; 550 (ungültig)
        Last-Attempt-Date: Sat, 21 Nov 2026 10:04:15 +0000
        Final-Log-ID: S1AbmKUKEJuveqC
        X-Destination: smtp/b.test

        --S77AbmKUKEJuveqC.0=_
        Content-Type: message/global
        Content-Description: Original message
        Content-Transfer-Encoding: 8bit

        From: älice@a.test

        body

        --S77AbmKUKEJuveqC.0=_--
    "#]]
    .assert_eq(&composed(&Report { recipients, sender, headers, ..report() }, ""));
}
