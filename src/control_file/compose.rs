//! Writing a control file, the way a router does.

use super::Span;
use std::fmt::Write as _;

/// A message as a router hands it over.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Name of both files of the message: by custom the inode number of the message file.
    pub name: String,
    /// Offset of the body in the message file, in bytes.
    pub body_offset: u64,
    /// Text that names the message in logs.
    pub log_id: String,
    /// The groups of recipients.
    pub groups: Vec<Group>,
}

/// A sender, recipients, and the headers that these recipients get.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Who the message is from.
    pub sender: Address,
    /// Who it is for.
    pub recipients: Vec<Recipient>,
    /// The message headers, each line ended by LF, no empty line among them.
    pub headers: String,
}

/// A recipient and its DSN wishes.
#[derive(Clone, Debug, Default)]
pub struct Recipient {
    /// Where the message goes.
    pub address: Address,
    /// Value of the `N` line (`NOTIFY=... ORCPT=...`), empty for none.
    pub notify: String,
}

/// The four words of an address, unquoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The delivery channel.
    pub channel: String,
    /// The next host; empty is written `-`.
    pub host: String,
    /// The address at that host; empty is written `-`.
    pub user: String,
    /// The numeric user id whose rights the delivery has.
    pub privilege: i64,
}

impl Address {
    /// An address of the given channel, host and user.
    pub fn new(channel: &str, host: &str, user: &str, privilege: i64) -> Address {
        Address { channel: channel.into(), host: host.into(), user: user.into(), privilege }
    }

    fn write_to(&self, out: &mut String) {
        for word in [&self.channel, &self.host, &self.user] {
            push_word(out, word);
            out.push(' ');
        }
        // Writing to a String cannot fail.
        write!(out, "{}", self.privilege).expect("a String takes everything");
    }
}

impl Draft {
    /// The text of the control file: format line first, then the groups.
    pub fn to_text(&self) -> String {
        let mut out = String::from("@ 0x00000007\n");
        push_line(&mut out, "i ", &self.name);
        push_line(&mut out, "o ", &self.body_offset.to_string());
        push_line(&mut out, "l ", &self.log_id);
        for group in &self.groups {
            group.write_to(&mut out);
        }
        out
    }
}

impl Group {
    fn write_to(&self, out: &mut String) {
        out.push_str("s ");
        self.sender.write_to(out);
        out.push('\n');
        for recipient in &self.recipients {
            out.push_str("r           ");
            recipient.address.write_to(out);
            out.push('\n');
            if !recipient.notify.is_empty() {
                push_line(out, "N ", &recipient.notify);
            }
        }
        out.push_str("m\n");
        out.push_str(&self.headers);
        out.push('\n');
    }
}

fn push_line(out: &mut String, start: &str, value: &str) {
    out.push_str(start);
    out.extend(value.chars().map(|c| if c == '\n' { ' ' } else { c }));
    out.push('\n');
}

/// A word that would not read back as one is put in quotes.
fn push_word(out: &mut String, word: &str) {
    if word.is_empty() {
        out.push('-');
    } else if word.contains([' ', '\t', '\n', '"', '\\']) && !reads_back_as_one(word) {
        out.push('"');
        for c in word.chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push(' '),
                other => out.push(other),
            }
        }
        out.push('"');
    } else {
        out.push_str(word);
    }
}

fn reads_back_as_one(word: &str) -> bool {
    if word.contains('\n') {
        return false;
    }
    // The word must end where it ends even with something behind it.
    let line = format!("{word} h u 0");
    super::Quad::parse(line.as_bytes(), 0, line.len())
        .is_ok_and(|quad| quad.channel == Span::new(0, word.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_file::parse;
    use proptest::prelude::*;

    fn draft(users: &[String]) -> Draft {
        let recipient = |user: &String| Recipient {
            address: Address::new("smtp", "mx.example", user, 65534),
            notify: String::from("NOTIFY=NEVER"),
        };
        Draft {
            name: "4711".into(),
            body_offset: 212,
            log_id: "<1@x>".into(),
            groups: vec![Group {
                sender: Address::new("local", "", "alice@x", 0),
                recipients: users.iter().map(recipient).collect(),
                headers: "From: alice@x\n".into(),
            }],
        }
    }

    #[test]
    fn a_draft_reads_as_a_router_writes_it() {
        expect_test::expect![[r#"
            @ 0x00000007
            i 4711
            o 212
            l <1@x>
            s local - alice@x 0
            r           smtp mx.example bob@y 65534
            N NOTIFY=NEVER
            m
            From: alice@x

        "#]]
        .assert_eq(&draft(&["bob@y".into()]).to_text());
    }

    proptest! {
        #[test]
        fn every_user_comes_back_as_one_word(users in prop::collection::vec(".*", 1..4)) {
            let text = draft(&users).to_text();
            let file = parse(text.clone().into_bytes()).expect(&text);
            prop_assert_eq!(file.recipients.len(), users.len());
            for recipient in &file.recipients {
                prop_assert_eq!(file.get(recipient.quad.privilege), b"65534");
            }
        }
    }
}
