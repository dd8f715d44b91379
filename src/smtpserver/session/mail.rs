//! MAIL, RCPT, DATA and BDAT, and what becomes of a message.

use super::body::{BodyDecoder, BodyFault, Framing};
use super::command::Hold;
use super::transaction::{Body, Chunk, RecipientQuestion, Trace, Transaction};
use super::{
    Awaited, HelloVerb, LogLine, MAX_DEFERRED_RECIPIENTS, MailEvent, MailParameters, Phase,
    RcptParameters, Reply, Request, Service, Session,
};
use zsched_spool::SpoolId;

/// Maximum length of the headers that are put before those of a message, in bytes.
const MAX_PREPENDED_LEN: usize = 64 << 10;
/// Number of bytes of a message that are written together.
pub(super) const WRITE_SIZE: usize = 64 << 10;
/// Number of bytes that are decoded together.
pub(super) const DECODE_SIZE: usize = 16 << 10;

impl Session {
    pub(super) fn mail(&mut self, sender: Option<String>, mut parameters: MailParameters) {
        let requires_login = self.settings.service == Service::Submission && !self.may_relay();
        if self.hello.is_none() {
            return self.refuse(Reply::out_of_order("Say hello first"));
        }
        if self.transaction.is_some() {
            return self.refuse(Reply::out_of_order(
                "Nested MAIL command: a message is being sent already",
            ));
        }
        if requires_login {
            return self.refuse(Reply::new(530, "5.7.0", "Log in first"));
        }
        if let Err(reply) = self.check_hold(&parameters) {
            return self.refuse(reply);
        }
        if parameters.priority.is_some() && !self.settings.has_priorities {
            return self.refuse(Reply::new(555, "5.5.4", "MT-PRIORITY is not offered here"));
        }
        self.count_idle_command();
        if self.is_closing {
            return;
        }
        let is_priority_lowered = self.lower_priority(&mut parameters);
        let refusal = match parameters.size {
            Some(size) if size > self.settings.max_size => {
                Some(BodyFault::TooLarge(self.settings.max_size).reply())
            }
            size => self.check_room(size.unwrap_or(0)).err(),
        };
        self.messages += 1;
        let transaction = Transaction::new(sender, parameters, is_priority_lowered);
        self.transaction = Some(Box::new(transaction));
        if let Some(reply) = refusal {
            self.reject(None, &reply);
            self.transaction = None;
            return if reply.is_permanent() { self.refuse(reply) } else { self.reply(reply) };
        }
        self.awaited = Some(Awaited::Message);
        self.requests.push_back(Request::AdmitMessage);
    }

    /// Takes the decision about another message of the client.
    pub(super) fn message_admitted(&mut self, reply: Reply) {
        if reply.is_error() {
            self.reject(None, &reply);
            self.transaction = None;
            return self.reply(reply);
        }
        let is_lowered = self.transaction.as_ref().is_some_and(|one| one.is_priority_lowered);
        self.reply(match is_lowered {
            // RFC 6710, 4.1.
            true => Reply::new(250, "2.3.6", "The priority is lowered to 0"),
            false => reply,
        });
    }

    /// Checks the time at which a message may be delivered (RFC 4865, 4.1).
    fn check_hold(&self, parameters: &MailParameters) -> Result<(), Reply> {
        let Some(hold) = parameters.hold else { return Ok(()) };
        if !self.offers_hold() {
            return Err(Reply::new(555, "5.5.4", "FUTURERELEASE is not offered here"));
        }
        let now = (self.settings.now)();
        let seconds = match hold {
            Hold::For(seconds) => i64::from(seconds),
            Hold::Until(second) => second - now.seconds(),
        };
        if seconds < 0 {
            return Err(Reply::bad_argument("The time of HOLDUNTIL is over"));
        }
        let max = self.settings.max_hold.as_secs();
        if seconds.unsigned_abs() > max {
            return Err(Reply::bad_argument(format!(
                "The message may be held for {max} s at most"
            )));
        }
        let by = parameters.deliver_by.as_deref().and_then(|by| by.split(';').next());
        match by.and_then(|by| by.parse::<i64>().ok()) {
            Some(by) if by <= seconds => {
                Err(Reply::bad_argument("The time of BY is over before the message is released"))
            }
            _ => Ok(()),
        }
    }

    /// Gives a message the usual priority if the client may not have a higher one.
    ///
    /// Returns true if that changes it.
    fn lower_priority(&self, parameters: &mut MailParameters) -> bool {
        let is_high = parameters.priority.is_some_and(|priority| priority > 0);
        let may_raise = self.client.may_raise_priority
            || self.login.is_some() && self.settings.logins_raise_priority;
        if is_high && !may_raise {
            parameters.priority = Some(0);
        }
        is_high && !may_raise
    }

    pub(super) fn rcpt(&mut self, recipient: String, parameters: RcptParameters) {
        let Some(transaction) = &self.transaction else {
            return self.refuse(Reply::out_of_order("MAIL comes first"));
        };
        if transaction.body.is_some() {
            return self.refuse(Reply::out_of_order("The text has begun already"));
        }
        if !recipient.is_ascii() && !transaction.parameters.is_utf8 {
            return self.refuse(Reply::new(553, "5.6.7", "An address in UTF-8 needs SMTPUTF8"));
        }
        if transaction.recipients.len() >= self.settings.max_recipients {
            return self
                .defer_recipient(recipient, Reply::new(452, "4.5.3", "Too many recipients"));
        }
        if let Err(reply) = self.check_room(0) {
            return self.defer_recipient(recipient, reply);
        }
        let question = Box::new(self.question(transaction, &recipient));
        self.awaited = Some(Awaited::Recipient(recipient, parameters));
        self.requests.push_back(Request::CheckRecipient(question));
    }

    fn question(&self, transaction: &Transaction, recipient: &str) -> RecipientQuestion {
        let (verb, name) = self.hello.clone().unwrap_or((HelloVerb::Helo, String::new()));
        RecipientQuestion {
            sender: transaction.sender.clone(),
            recipient: recipient.into(),
            accepted: transaction.recipients.len(),
            size: transaction.parameters.size,
            may_relay: self.may_relay(),
            ip: self.client.ip,
            port: self.client.port,
            server: self.client.server,
            client_name: name,
            login: self.login.clone(),
            login_method: self.login_method.filter(|_| self.login.is_some()),
            tls: self.tls.clone(),
            instance: (self.client.number, self.messages),
            protocol: match (self.settings.service, verb) {
                (Service::Lmtp, _) => "LMTP",
                (_, HelloVerb::Helo) => "SMTP",
                _ => "ESMTP",
            },
        }
    }

    /// Puts a header line before the headers of the message.
    pub(super) fn prepend(&mut self, header: &str) {
        let Some(transaction) = &mut self.transaction else { return };
        // The same service says it for each recipient.
        if transaction.headers.len() + header.len() <= MAX_PREPENDED_LEN
            && !transaction.headers.split_inclusive('\n').any(|known| known == header)
        {
            transaction.headers.push_str(header);
        }
    }

    pub(super) fn recipient_checked(
        &mut self,
        address: String,
        parameters: RcptParameters,
        reply: Reply,
    ) {
        if matches!(reply.code, 421 | 521) {
            self.reject(Some(address), &reply);
            return self.close(reply);
        }
        if reply.is_permanent() {
            self.reject(Some(address), &reply);
            // Recipients that do not exist are how addresses are guessed.
            return self.refuse(reply);
        }
        if reply.is_error() {
            return self.defer_recipient(address, reply);
        }
        let Some(transaction) = &mut self.transaction else { return };
        transaction.add_recipient(address, parameters);
        self.reply(reply);
    }

    fn defer_recipient(&mut self, address: String, reply: Reply) {
        self.reject(Some(address), &reply);
        self.reply(reply);
        self.deferred_recipients += 1;
        if self.deferred_recipients > MAX_DEFERRED_RECIPIENTS {
            self.count_error();
        }
    }

    pub(super) fn data(&mut self) {
        if let Err(reply) = self.check_text(false) {
            return if reply.is_permanent() {
                self.refuse(reply)
            } else {
                self.idle_command(reply)
            };
        }
        let framing = if self.settings.allows_bare_lf { Framing::DotOrLf } else { Framing::Dot };
        self.begin_text(framing);
        self.phase = Phase::Body;
        self.reply(Reply::new(354, "", "End the message with CR LF . CR LF"));
    }

    pub(super) fn bdat(&mut self, size: u64, is_last: bool) {
        let checked = self.check_text(true);
        let max_size = self.settings.max_size;
        if size > max_size.saturating_mul(4) {
            return self.close(BodyFault::TooLarge(max_size).reply());
        }
        if let Err(reply) = checked {
            // The client sends the chunk in any case (RFC 3030, 2).
            self.phase = Phase::Swallow(size, Box::new(reply));
            return;
        }
        if self.transaction.as_ref().is_some_and(|transaction| transaction.body.is_none()) {
            self.begin_text(Framing::Size);
        }
        if let Some(body) = self.body() {
            body.chunk = Some(Chunk { size, left: size, is_last });
        }
        self.phase = Phase::Body;
    }

    /// Checks that the text of a message may begin, or go on.
    fn check_text(&self, is_chunk: bool) -> Result<(), Reply> {
        let Some(transaction) = &self.transaction else {
            return Err(Reply::out_of_order("MAIL comes first"));
        };
        if transaction.body.is_some() && !is_chunk {
            return Err(Reply::out_of_order("The text has begun with BDAT"));
        }
        match transaction.recipients.is_empty() {
            // RFC 2033, 4.2.
            true if self.settings.service == Service::Lmtp => {
                Err(Reply::out_of_order("No valid recipients"))
            }
            true => Err(Reply::new(554, "5.5.1", "No valid recipients")),
            false if transaction.body.is_none() => self.check_room(0),
            false => Ok(()),
        }
    }

    fn begin_text(&mut self, framing: Framing) {
        let hello = self.hello.clone().unwrap_or((HelloVerb::Helo, String::new()));
        let trace = Trace {
            settings: &self.settings,
            client: &self.client,
            hello: &hello,
            login: self.login.as_deref(),
            tls: self.tls.as_ref(),
        };
        if let Some(transaction) = &mut self.transaction {
            let text = transaction.envelope(&trace);
            let decoder = BodyDecoder::new(framing, self.settings.max_size);
            transaction.body = Some(Body { decoder, text, chunk: None });
        }
    }

    fn body(&mut self) -> Option<&mut Body> {
        self.transaction.as_mut()?.body.as_mut()
    }

    /// Takes text of the message. Returns false if there is none.
    pub(super) fn take_text(&mut self) -> bool {
        let Some(transaction) = self.transaction.as_mut() else {
            self.phase = Phase::Command;
            return true;
        };
        let Some(body) = transaction.body.as_mut() else { return false };
        // Also what earlier chunks have left.
        if body.text.len() >= WRITE_SIZE {
            transaction.has_file = true;
            self.awaited = Some(Awaited::Append);
            self.requests.push_back(Request::Append(std::mem::take(&mut body.text)));
            return true;
        }
        let rest = &self.input[self.input_at..];
        let left = body.chunk.map_or(u64::MAX, |chunk| chunk.left);
        let count = rest.len().min(DECODE_SIZE).min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 && left > 0 {
            return false;
        }
        let (used, mut has_ended) = body.decoder.decode(&rest[..count], &mut body.text);
        self.input_at += used;
        self.body_bytes += used as u64;
        if let Some(chunk) = &mut body.chunk {
            chunk.left -= used as u64;
            has_ended = chunk.left == 0;
        }
        if body.decoder.fault.is_some() {
            body.text = Vec::new();
            if std::mem::take(&mut transaction.has_file) {
                self.requests.push_back(Request::Discard);
            }
        }
        if has_ended {
            self.end_text();
        }
        true
    }

    /// Ends DATA or a chunk.
    fn end_text(&mut self) {
        self.phase = Phase::Command;
        let Some(transaction) = self.transaction.as_mut() else { return };
        let Some(body) = transaction.body.as_mut() else { return };
        let chunk = body.chunk.take();
        let is_last = chunk.is_none_or(|chunk| chunk.is_last);
        if is_last && chunk.is_some() {
            body.decoder.finish(&mut body.text);
        }
        match body.decoder.fault.clone() {
            Some(fault) if is_last => self.end_message(Err(fault.reply())),
            Some(fault) => {
                let reply = fault.reply();
                self.reject(None, &reply);
                self.drop_transaction();
                self.refuse(reply);
            }
            None if is_last => {
                transaction.has_file = true;
                self.awaited = Some(Awaited::Commit);
                self.requests.push_back(Request::Commit(std::mem::take(&mut body.text)));
            }
            None => {
                let size = chunk.map_or(0, |chunk| chunk.size);
                if size == 0 {
                    self.count_idle_command();
                }
                self.reply(Reply::new(250, "2.0.0", format!("{size} bytes received")));
            }
        }
    }

    pub(super) fn appended(&mut self, result: Result<(), Reply>) {
        if let (Err(reply), Some(body)) = (result, self.body()) {
            body.decoder.fail(BodyFault::NotStored(reply));
        }
    }

    pub(super) fn stored(&mut self, result: Result<SpoolId, Reply>) {
        self.end_message(result);
    }

    /// Sends the reply to a message: one, or one for each recipient with LMTP.
    fn end_message(&mut self, result: Result<SpoolId, Reply>) {
        let Some(transaction) = &self.transaction else { return };
        let recipients = transaction.recipients.len();
        let reply = match result {
            Ok(id) => {
                let size = transaction.body.as_ref().map_or(0, |body| body.decoder.size());
                let sender = transaction.sender.clone();
                let (protocol, login) = (self.protocol_facts(), self.login_facts());
                self.log.push(LogLine::OfMail(format!(
                    "{id}: accepted, client={}{protocol}{login} from=<{}> size={size} nrcpt={recipients}",
                    self.client_name(),
                    sender.as_deref().unwrap_or_default(),
                )));
                let reply = Reply::new(250, "2.0.0", format!("Ok: queued as {id}"));
                let outcome = Ok(id);
                (self.idle_commands, self.deferred_recipients) = (0, 0);
                self.events.push(MailEvent { outcome, sender, recipient: None, recipients, size });
                reply
            }
            Err(reply) => {
                self.reject(None, &reply);
                reply
            }
        };
        self.transaction = None;
        let is_fault = reply.is_permanent();
        let count = if self.settings.service == Service::Lmtp { recipients } else { 1 };
        for _ in 0..count {
            self.reply(reply.clone());
        }
        if is_fault {
            self.count_error();
        }
    }

    fn protocol_facts(&self) -> String {
        let tls = self.tls.as_ref();
        tls.map_or(String::new(), |tls| format!(" tls={} cipher={}", tls.version, tls.cipher))
    }

    fn login_facts(&self) -> String {
        self.login.as_ref().map_or(String::new(), |login| format!(" login={login}"))
    }

    /// Reads over bytes that have no use. Returns false if there are none.
    pub(super) fn swallow(&mut self) -> bool {
        let available = self.input.len() - self.input_at;
        let Phase::Swallow(left, _) = &mut self.phase else { return false };
        let count = usize::try_from(*left).unwrap_or(usize::MAX).min(available);
        if count == 0 && *left > 0 {
            return false;
        }
        *left -= count as u64;
        let is_over = *left == 0;
        self.input_at += count;
        self.body_bytes += count as u64;
        if is_over
            && let Phase::Swallow(_, reply) = std::mem::replace(&mut self.phase, Phase::Command)
        {
            // The chunks that follow are of no use without this one.
            self.drop_transaction();
            match reply.is_permanent() {
                true => self.refuse(*reply),
                false => self.idle_command(*reply),
            }
        }
        true
    }

    /// Ends a message without storing it.
    pub(super) fn drop_transaction(&mut self) {
        if self.transaction.take().is_some_and(|transaction| transaction.has_file) {
            self.requests.push_back(Request::Discard);
        }
    }
}
