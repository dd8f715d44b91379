//! One message to some recipients: MAIL, RCPT, DATA or BDAT.

use super::{Capabilities, ContentForm, Dialogue, Envelope, Phase, Protocol, Reply, Step};
use std::collections::VecDeque;

/// Maximum length of the commands that are sent without waiting for replies, in bytes.
///
/// It fits into the socket buffers of both ends, so that neither waits for the other (RFC 2920, 3).
const MAX_BATCH_LEN: usize = 8 * 1024;

/// How a transaction is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionOptions {
    /// SMTP or LMTP.
    pub protocol: Protocol,
    /// Begins with RSET, because the transaction before was not completed.
    pub resets: bool,
    /// Sends 8-bit text whatever the server offers.
    pub sends_8bit: bool,
}

/// A command and the reply to it.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The command, without CRLF.
    pub command: String,
    /// The reply, unless it has not come.
    pub reply: Option<Reply>,
}

/// What the server has said about a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipientState<'a> {
    /// The message is accepted.
    Accepted(&'a Reply),
    /// The recipient itself is refused.
    Refused(&'a Reply),
    /// The message is refused, for all recipients or, with LMTP, for this one.
    MessageRefused(&'a Reply),
    /// The server has ended the session with 421 before it answered about the recipient.
    Closed(&'a Reply),
    /// There is no answer.
    Unanswered,
}

/// A command whose reply is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Rset,
    Mail,
    Rcpt(usize),
    Data,
    /// The end of the message, for one recipient with LMTP.
    End(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Not yet requested.
    Before,
    /// To be sent.
    Due(ContentForm),
    /// Sent, or not to be sent.
    Over,
}

/// A transaction.
pub struct Transaction {
    options: TransactionOptions,
    pipelining: bool,
    uses_chunks: bool,
    size: u64,
    to_send: VecDeque<(Sent, Vec<u8>)>,
    awaited: VecDeque<Sent>,
    mail: Exchange,
    recipients: Vec<Exchange>,
    data: Exchange,
    ends: Vec<Option<Reply>>,
    content: Content,
    /// The reply 421 that has ended the session.
    closed_by: Option<Reply>,
    must_close: bool,
}

impl Transaction {
    /// Creates the transaction for a server.
    pub fn new(
        envelope: &Envelope,
        server: &Capabilities,
        options: TransactionOptions,
    ) -> Transaction {
        let mail = envelope.mail(server, options.sends_8bit);
        let recipients: Vec<Vec<u8>> =
            envelope.recipients.iter().map(|recipient| envelope.rcpt(recipient, server)).collect();
        let uses_chunks = server.offers.chunking;
        let data = if uses_chunks { format!("BDAT {} LAST", envelope.size) } else { "DATA".into() };
        let mut transaction = Transaction {
            options,
            pipelining: server.offers.pipelining,
            uses_chunks,
            size: envelope.size,
            to_send: VecDeque::new(),
            awaited: VecDeque::new(),
            mail: Exchange::new(&mail),
            recipients: recipients.iter().map(|command| Exchange::new(command)).collect(),
            data: Exchange { command: data, reply: None },
            ends: vec![None; recipients.len()],
            content: Content::Before,
            closed_by: None,
            must_close: false,
        };
        if options.resets {
            transaction.to_send.push_back((Sent::Rset, b"RSET\r\n".to_vec()));
        }
        transaction.to_send.push_back((Sent::Mail, mail));
        for (index, command) in recipients.into_iter().enumerate() {
            transaction.to_send.push_back((Sent::Rcpt(index), command));
        }
        if !uses_chunks {
            transaction.to_send.push_back((Sent::Data, b"DATA\r\n".to_vec()));
        }
        transaction
    }

    /// What the server has said about a recipient so far.
    pub fn state(&self, index: usize) -> RecipientState<'_> {
        let refused =
            |exchange: &Exchange| exchange.reply.as_ref().is_some_and(|r| !r.is_success());
        if refused(&self.mail)
            && let Some(reply) = &self.mail.reply
        {
            return self.refusal(reply, RecipientState::MessageRefused(reply));
        }
        match (&self.recipients[index].reply, &self.data.reply, &self.ends[index]) {
            (Some(reply), _, _) if !reply.is_success() => {
                self.refusal(reply, RecipientState::Refused(reply))
            }
            (Some(_), _, Some(end)) if end.is_success() => RecipientState::Accepted(end),
            (Some(_), _, Some(end)) => self.refusal(end, RecipientState::MessageRefused(end)),
            (Some(_), Some(data), None) if data.code() != 354 => {
                self.refusal(data, RecipientState::MessageRefused(data))
            }
            _ => self.closed_by.as_ref().map_or(RecipientState::Unanswered, RecipientState::Closed),
        }
    }

    fn refusal<'a>(&self, reply: &'a Reply, refused: RecipientState<'a>) -> RecipientState<'a> {
        if reply.code() == 421 { RecipientState::Closed(reply) } else { refused }
    }

    /// The commands and replies that concern a recipient, as ZMailer's `smtp` reports them.
    pub fn transcript(&self, index: usize) -> String {
        let mut text = String::new();
        let add = |text: &mut String, command: &str, reply: &Option<Reply>| {
            let Some(reply) = reply else { return };
            text.push_str("\r<<- ");
            text.push_str(command);
            for line in reply.text().lines() {
                text.push_str("\r->> ");
                text.push_str(line);
            }
        };
        add(&mut text, &self.mail.command, &self.mail.reply);
        let recipient = &self.recipients[index];
        add(&mut text, &recipient.command, &recipient.reply);
        if recipient.reply.as_ref().is_some_and(Reply::is_success) {
            if self.data.reply.is_some() {
                add(&mut text, &self.data.command, &self.data.reply);
            }
            let end = if self.uses_chunks { &self.data.command } else { "." };
            add(&mut text, end, &self.ends[index]);
        }
        text
    }

    /// Returns true if the server has accepted a recipient.
    pub fn has_accepted_recipient(&self) -> bool {
        self.accepted().next().is_some()
    }

    /// Returns true if a recipient waits for the answer to the message.
    ///
    /// The whole message was sent.
    pub fn may_be_delivered(&self, index: usize) -> bool {
        self.content == Content::Over
            && self.ends[index].is_none()
            && self.recipients[index].reply.as_ref().is_some_and(Reply::is_success)
            && self.awaited.iter().any(|sent| matches!(sent, Sent::End(_)))
    }

    /// Returns true if some recipients have an answer to the message.
    ///
    /// Its end is answered for each recipient.
    pub fn has_reply_each(&self) -> bool {
        self.options.protocol == Protocol::Lmtp && self.ends.iter().any(Option::is_some)
    }

    /// Returns true if the server has said nothing, or nothing but that it ends the session.
    pub fn is_unanswered(&self) -> bool {
        self.mail.reply.as_ref().is_none_or(|reply| reply.code() == 421)
    }

    /// The reply 421 with which the server has ended the session.
    pub fn closed_by(&self) -> Option<&Reply> {
        self.closed_by.as_ref()
    }

    /// Returns true if the session can be used for no other transaction.
    pub fn must_close(&self) -> bool {
        self.must_close || self.closed_by.is_some()
    }

    /// Returns true if the next transaction has to begin with RSET.
    pub fn needs_reset(&self) -> bool {
        !self.ends.iter().any(Option::is_some)
    }

    fn accepted(&self) -> impl Iterator<Item = usize> {
        let is_accepted =
            |exchange: &Exchange| exchange.reply.as_ref().is_some_and(Reply::is_success);
        let mail = is_accepted(&self.mail);
        (0..self.recipients.len()).filter(move |&at| mail && is_accepted(&self.recipients[at]))
    }

    /// Collects the next commands: one, or a batch.
    fn batch(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some((sent, command)) = self.to_send.front() {
            let fits = bytes.is_empty()
                || (self.pipelining && bytes.len() + command.len() <= MAX_BATCH_LEN);
            if !fits {
                break;
            }
            self.awaited.push_back(*sent);
            bytes.extend_from_slice(command);
            self.to_send.pop_front();
        }
        bytes
    }

    /// Drops the commands that make no sense after the replies so far.
    fn prune(&mut self) {
        let mail_refused = self.mail.reply.as_ref().is_some_and(|reply| !reply.is_success());
        let all_answered = self.recipients.iter().all(|exchange| exchange.reply.is_some());
        if mail_refused || (all_answered && !self.has_accepted_recipient()) {
            self.to_send.clear();
        }
    }

    /// Called when all commands are answered: the message comes now, or the transaction ends.
    fn begin_content(&mut self) {
        let has_recipients = self.has_accepted_recipient();
        match &self.data.reply {
            Some(reply) if reply.code() == 354 => {
                self.content = Content::Due(ContentForm::Dotted);
                // The server waits for a message that has no recipient (RFC 2920, 3.1).
                self.must_close |= !has_recipients;
            }
            Some(reply) => {
                self.content = Content::Over;
                // A positive reply to DATA is nothing that the protocol has.
                self.must_close |= reply.code() / 100 < 4;
            }
            None if self.uses_chunks && has_recipients => {
                self.content = Content::Due(ContentForm::Counted);
            }
            None => self.content = Content::Over,
        }
        if !has_recipients {
            self.content = Content::Over;
        }
    }

    /// The replies to the end of the message that the server will send.
    fn await_end(&mut self) {
        let accepted: Vec<usize> = self.accepted().collect();
        self.awaited = match self.options.protocol {
            Protocol::Lmtp => accepted.into_iter().map(Sent::End).collect(),
            Protocol::Smtp => accepted.into_iter().take(1).map(Sent::End).collect(),
        };
    }

    fn phase(&self, sent: Sent) -> Phase {
        match sent {
            Sent::Rset | Sent::Mail | Sent::Rcpt(_) => Phase::Command,
            Sent::Data => Phase::Data,
            Sent::End(_) => Phase::End,
        }
    }
}

impl Exchange {
    fn new(command: &[u8]) -> Exchange {
        let command = String::from_utf8_lossy(command.trim_ascii_end()).into_owned();
        Exchange { command, reply: None }
    }
}

impl Dialogue for Transaction {
    fn step(&mut self) -> Step {
        if self.closed_by.is_some() {
            return Step::Finished;
        }
        if let Some(&sent) = self.awaited.front() {
            return Step::Receive(self.phase(sent));
        }
        self.prune();
        if !self.to_send.is_empty() {
            return Step::Send(self.batch());
        }
        if self.content == Content::Before {
            self.begin_content();
            if self.content == Content::Due(ContentForm::Counted) {
                return Step::Send(format!("BDAT {} LAST\r\n", self.size).into_bytes());
            }
        }
        match self.content {
            Content::Due(form) => Step::SendContent(form),
            _ => Step::Finished,
        }
    }

    fn on_content_sent(&mut self) {
        self.content = Content::Over;
        self.await_end();
    }

    fn on_reply(&mut self, reply: Reply) {
        let Some(sent) = self.awaited.pop_front() else { return };
        if reply.code() == 421 {
            self.closed_by = Some(reply.clone());
        }
        match sent {
            // What RSET ends is over in any case.
            Sent::Rset => {}
            Sent::Mail => self.mail.reply = Some(reply),
            Sent::Rcpt(index) => self.recipients[index].reply = Some(reply),
            Sent::Data => self.data.reply = Some(reply),
            Sent::End(index) => match self.options.protocol {
                Protocol::Lmtp => self.ends[index] = Some(reply),
                Protocol::Smtp => {
                    for index in self.accepted().collect::<Vec<_>>() {
                        self.ends[index] = Some(reply.clone());
                    }
                }
            },
        }
    }
}
