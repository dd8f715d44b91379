//! `submit`: with any addresses and text, the written file is one message with exactly these
//! recipients.

use super::byte_source::ByteSource;
use clap::Parser;
use zsched_format::control_file::compose::ControlFileDraft;
use zsched_format::control_file::{ControlFile, parse};
use zsched_submit::{ComposedMessage, SubmitOptions};

/// The input has sender, channel, host, wishes and recipients, each with a NUL behind it.
///
/// Two are behind the last one, and then comes the message.
pub fn run(bytes: &[u8]) {
    let mut draw = ByteSource::new(bytes);
    let mut word = || String::from_utf8_lossy(draw.until(0)).into_owned();
    let mut arguments = vec!["submit".to_string()];
    for option in ["from", "channel", "next-host", "notify"] {
        let value = word();
        if !value.is_empty() {
            arguments.push(format!("--{option}={value}"));
        }
    }
    arguments.push("--".to_string());
    loop {
        match word() {
            recipient if recipient.is_empty() => break,
            recipient => arguments.push(recipient),
        }
    }
    // Without recipients, or with an empty channel, the command line is refused.
    let Some(options) =
        SubmitOptions::try_parse_from(&arguments).ok().filter(|all| all.check().is_ok())
    else {
        return;
    };
    if let Ok(submission) = ComposedMessage::compose(draw.rest(), &options) {
        check(submission);
    }
}

fn check(submission: ComposedMessage) {
    let recipients: Vec<String> =
        submission.group.recipients.iter().map(|one| one.address.user.clone()).collect();
    let has_wishes = submission.group.recipients.iter().any(|one| !one.notify.is_empty());
    let headers = submission.group.headers.clone();
    assert!(submission.text.starts_with(&headers));
    let draft = ControlFileDraft {
        name: "4711".to_string(),
        log_id: submission.id,
        groups: vec![submission.group],
        ..ControlFileDraft::default()
    };
    let bytes = draft.to_text().expect("what is checked can be written");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let file = parse(bytes).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    assert!(file.undeliverable_lines.is_empty(), "{:?} in\n{text}", file.undeliverable_lines);
    assert_eq!((file.senders.len(), file.headers.len()), (1, 1), "{text}");
    assert_eq!(file.recipients.len(), recipients.len(), "{text}");
    assert_eq!(file.get(file.headers[0].text), headers);
    for (recipient, address) in file.recipients.iter().zip(&recipients) {
        assert_eq!(file.get(recipient.quad.privilege), b"65534", "{text}");
        assert_eq!(recipient.notify.is_some(), has_wishes, "{text}");
        check_address(&file, recipient.quad.user, address);
    }
}

/// Checks an address in the file: it is unchanged, or in quotes with only line ends replaced.
fn check_address(file: &ControlFile, word: zsched_format::control_file::Span, address: &str) {
    let word = String::from_utf8(file.get(word).to_vec()).expect("the draft is text");
    let address = address.replace('\n', " ");
    if word == address {
        return;
    }
    let quoted = word.strip_prefix('"').and_then(|word| word.strip_suffix('"'));
    let mut unquoted = String::new();
    let mut characters = quoted.unwrap_or_else(|| panic!("{address:?} became {word}")).chars();
    while let Some(character) = characters.next() {
        unquoted.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    assert_eq!(unquoted, address);
}
