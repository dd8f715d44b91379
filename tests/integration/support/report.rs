//! Reports to senders, as mail programs read them.

use mail_parser::{MessageParser, MimeHeaders};
use std::io::Write;
use std::process::{Command, Stdio};

/// Prints the fields for programs of a report, as Python's `email` package reads them.
const SCRIPT: &str = "import email, email.policy, sys\n\
    data = sys.stdin.buffer.read().split(b'env-end\\n', 1)[1]\n\
    message = email.message_from_bytes(data, policy=email.policy.default)\n\
    text, status, original = message.iter_parts()\n\
    assert not message.defects, message.defects\n\
    for block in status.get_payload():\n\
    \x20   for name, value in block.items(): print(f'{name}: {value}')\n";

/// A report.
#[derive(Debug)]
pub struct ReadReport {
    /// The addresses that get it.
    pub to: Vec<String>,
    /// The fields for programs, in blocks: that of the message, then one for each recipient.
    pub blocks: Vec<Vec<(String, String)>>,
    /// The type of the last part.
    pub original_type: String,
    /// The last part.
    pub original: String,
    /// The text for people.
    pub text: String,
}

impl ReadReport {
    /// Reads a submission. Panics unless it is a report that is well formed.
    pub fn of(submission: &str) -> ReadReport {
        let (envelope, raw) = submission.split_once("env-end\n").expect("an envelope");
        assert!(envelope.contains("\nchannel error\nerrormsg\n"), "{envelope}");
        let to = envelope.lines().filter_map(|line| line.strip_prefix("to <")?.strip_suffix('>'));
        let message = MessageParser::default().parse(raw).expect("a message");
        let kind = message.content_type().expect("a type");
        assert_eq!((kind.ctype(), kind.subtype()), ("multipart", Some("report")), "{raw}");
        let parts = message.parts[0].sub_parts().expect("parts").to_vec();
        let [text, status, original] = parts[..] else { panic!("{} parts", parts.len()) };
        let body = |part: u32| {
            let part = &message.parts[part as usize];
            raw[part.offset_body as usize..part.offset_end as usize].to_string()
        };
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a field");
            (name.to_string(), value.to_string())
        };
        let blocks = body(status);
        let original_type = message.parts[original as usize].content_type().expect("a type");
        ReadReport {
            to: to.map(str::to_string).collect(),
            blocks: blocks
                .trim_end()
                .split("\n\n")
                .map(|b| b.lines().map(field).collect())
                .collect(),
            original_type: original_type.subtype().unwrap_or_default().to_string(),
            original: body(original),
            text: message.parts[text as usize].text_contents().expect("text").to_string(),
        }
    }

    /// The same, after a comparison with what Python reads.
    ///
    /// Python reads only the first block of `message/global-delivery-status`.
    pub fn checked(submission: &str) -> ReadReport {
        let report = ReadReport::of(submission);
        let is_global = submission.contains("report-type=\"global-delivery-status\"");
        let count = if is_global { 1 } else { report.blocks.len() };
        let fields = report.blocks[..count].iter().flatten();
        let ours: String = fields.map(|(name, value)| format!("{name}: {value}\n")).collect();
        assert_eq!(as_python_reads(submission), ours, "{submission}");
        report
    }

    /// The values of a field, in all blocks.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let fields = self.blocks.iter().flatten().filter(|(found, _)| found == name);
        fields.map(|(_, value)| value.as_str()).collect()
    }

    /// The addresses of its recipients, without their types.
    pub fn recipients(&self) -> Vec<&str> {
        let values = self.values("Final-Recipient").into_iter();
        values.map(|value| value.split_once("; ").expect("a type").1).collect()
    }
}

fn as_python_reads(submission: &str) -> String {
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .env("PYTHONIOENCODING", "utf-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut input = python.stdin.take().expect("a pipe");
    input.write_all(submission.as_bytes()).expect("written");
    drop(input);
    let output = python.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{submission}");
    String::from_utf8(output.stdout).expect("UTF-8")
}
