//! What lines about mail need of control files: addresses, Message-ID and notes.
//!
//! The reader adds what it has just parsed, so a message that is delivered soon is read once. What
//! is no longer here is read again: a message with many recipients has many lines.

use foldhash::fast::RandomState;
use hashlink::LinkedHashMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zsched_format::control_file::diagnostic::DiagnosticRecord;
use zsched_format::control_file::{self, ControlFile, Span, Tag, mark};
use zsched_format::time::Timestamp;
use zsched_spool::{OpenSpool, SpoolName};

/// Maximum size of all facts, in bytes. Those of the last message are always kept.
const MAX_SIZE: usize = 4 << 20;
/// Size up to which the reader adds facts without dropping others, in bytes.
const MAX_FILLED_SIZE: usize = MAX_SIZE - MAX_SIZE / 16;
/// Size of the entry of a message in the map, in bytes.
///
/// It includes what two blocks of memory cost besides.
const ENTRY_SIZE: usize = 80;
/// Age below which facts are not dropped for those that the reader adds.
///
/// Most facts of new mail are used within this time. If the reader dropped them, none of those of a
/// full spool would be used: it reads faster than the scheduler delivers.
const MIN_AGE: Duration = Duration::from_secs(5);
/// Maximum number of recipients of a message that the reader adds.
const MAX_ADDED_RECIPIENTS: usize = 16;
/// Maximum number of appended bytes read at a time.
const MAX_APPENDED_READ: u64 = 1 << 20;

/// The facts about recent messages, shared by the reader and the writer.
#[derive(Clone, Default)]
pub(crate) struct SharedFacts(Arc<Mutex<FactsCache>>);

impl SharedFacts {
    /// A panic leaves nothing half done here.
    pub(super) fn lock(&self) -> MutexGuard<'_, FactsCache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was read of a new message.
    ///
    /// Messages with many recipients are left out, and all of them while there is no room.
    pub(super) fn add(&self, name: &SpoolName, modified: Timestamp, file: &ControlFile) {
        if file.recipients.len() <= MAX_ADDED_RECIPIENTS && self.lock().has_room() {
            let facts = MessageFacts::new(name.clone(), modified, file);
            self.lock().insert(facts);
        }
    }

    /// Passes on what is known about a message that came in at `modified`.
    ///
    /// That is `None` if its control file, or the spool, cannot be used. The facts are read unless
    /// they are known, and have the recipients at these offsets, unless these were appended to a
    /// file that is gone.
    pub(super) fn with<R>(
        &self,
        spool: Option<&OpenSpool>,
        message: (&SpoolName, Timestamp),
        offsets: &[u32],
        use_facts: impl FnOnce(Option<&mut MessageFacts>) -> R,
    ) -> R {
        let Some(spool) = spool else {
            return use_facts(None);
        };
        let last = offsets.iter().copied().max().unwrap_or_default();
        if let Some(known) = self.lock().find(message)
            && known.has_reached(last)
        {
            return use_facts(Some(known));
        }
        // The lock is not held meanwhile, since the reader may wait for it.
        if let Ok(file) = read(spool, message.0) {
            let mut facts = MessageFacts::new(message.0.clone(), message.1, &file);
            if facts.recipients.len() <= offsets.len() {
                // There will hardly be another line that needs them.
                return use_facts(Some(&mut facts));
            }
            self.lock().insert(facts);
        }
        use_facts(self.lock().find(message))
    }
}

/// Facts about messages. The oldest are dropped when there are too many.
#[derive(Default)]
pub(super) struct FactsCache {
    /// By the number of the message, in the order in which they were added.
    messages: LinkedHashMap<u64, MessageFacts, RandomState>,
    /// Size of all facts, in bytes.
    size: usize,
}

/// Facts about a message.
pub(super) struct MessageFacts {
    name: SpoolName,
    modified: Timestamp,
    added: Instant,
    /// Message-ID and addresses.
    text: Box<[u8]>,
    message_id: Option<Span>,
    /// In the order of their offsets.
    recipients: SmallVec<[RecipientFacts; 1]>,
    /// Number of bytes of the control file searched for `d` lines.
    seen: u64,
    /// Notary data of the last `d` line of each recipient.
    notes: BTreeMap<u32, Box<[u8]>>,
}

/// Addresses of a recipient, in the text of its message.
struct RecipientFacts {
    /// Offset of its line in the control file.
    offset: u32,
    sender: Option<Span>,
    address: Span,
}

impl FactsCache {
    /// Returns true if there is room for facts that may not be used soon.
    fn has_room(&self) -> bool {
        let oldest = self.messages.front();
        self.size < MAX_FILLED_SIZE
            || oldest.is_none_or(|(_, facts)| facts.added.elapsed() >= MIN_AGE)
    }

    /// The facts about a message that came in at `modified`.
    fn find(&mut self, (name, modified): (&SpoolName, Timestamp)) -> Option<&mut MessageFacts> {
        let known = self.messages.get_mut(&name.number());
        known.filter(|known| known.name == *name && known.modified == modified)
    }

    fn insert(&mut self, facts: MessageFacts) {
        let number = facts.name.number();
        self.remove(number);
        self.size += facts.size();
        self.messages.insert(number, facts);
        while self.size > MAX_SIZE
            && self.messages.len() > 1
            && let Some((oldest, _)) = self.messages.front()
        {
            self.remove(*oldest);
        }
    }

    /// Removes and returns the facts about a message.
    pub(super) fn remove(&mut self, number: u64) -> Option<MessageFacts> {
        let facts = self.messages.remove(&number)?;
        self.size -= facts.size();
        if self.messages.is_empty() {
            self.messages.shrink_to_fit();
        }
        Some(facts)
    }
}

impl MessageFacts {
    fn new(name: SpoolName, modified: Timestamp, file: &ControlFile) -> MessageFacts {
        let mut text = TextBuffer::new();
        let message_id = control_file::message_id(file);
        let message_id = message_id.map(|id| append(&mut text, id.as_bytes()));
        // Recipients of one sender follow each other.
        let mut last_sender = None;
        let mut of_recipient = |recipient: &control_file::Recipient| {
            let sender = match (recipient.sender, last_sender) {
                (None, _) => None,
                (Some(index), Some((last, span))) if index == last => Some(span),
                (Some(index), _) => file.sender_of(recipient).map(|sender| {
                    let span = append(&mut text, file.get(sender.quad.user));
                    last_sender = Some((index, span));
                    span
                }),
            };
            let address = append(&mut text, file.get(recipient.quad.user));
            RecipientFacts { offset: recipient.offset, sender, address }
        };
        let recipients = file.recipients.iter().map(&mut of_recipient).collect();
        let seen = file.diagnostics.first().map_or(file.text.len() as u64, |d| d.offset.into());
        let text = Box::from(&text[..]);
        let (added, notes) = (Instant::now(), BTreeMap::new());
        MessageFacts { name, modified, added, text, message_id, recipients, seen, notes }
    }

    /// Memory that they take, in bytes, with their entries in the cache.
    fn size(&self) -> usize {
        let recipients = match self.recipients.spilled() {
            true => self.recipients.capacity() * size_of::<RecipientFacts>(),
            false => 0,
        };
        ENTRY_SIZE + size_of::<MessageFacts>() + self.text.len() + recipients
    }

    fn has_reached(&self, recipient: u32) -> bool {
        self.recipients.last().is_none_or(|last| last.offset >= recipient)
    }

    fn get(&self, span: Span) -> &[u8] {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The Message-ID, with its brackets.
    pub(super) fn message_id(&self) -> Option<&str> {
        std::str::from_utf8(self.get(self.message_id?)).ok()
    }

    /// Addresses of the sender and of a recipient.
    pub(super) fn addresses(&self, offset: u32) -> (Option<&[u8]>, Option<&[u8]>) {
        match self.recipients.binary_search_by_key(&offset, |recipient| recipient.offset) {
            Ok(index) => {
                let RecipientFacts { sender, address, .. } = &self.recipients[index];
                (sender.map(|sender| self.get(sender)), Some(self.get(*address)))
            }
            Err(_) => (None, None),
        }
    }

    /// Notary data of the last `d` line about a recipient.
    pub(super) fn note(&mut self, spool: &OpenSpool, offset: u32) -> Option<&[u8]> {
        if !self.notes.contains_key(&offset) {
            // If the file cannot be read, the line in the log lacks a field.
            drop(self.read_appended(spool));
        }
        self.notes.get(&offset).map(|notary| &notary[..])
    }

    /// Reads what was appended since the last call. Control files only grow at their end.
    fn read_appended(&mut self, spool: &OpenSpool) -> io::Result<()> {
        let file = spool.open_control_file(&self.name)?;
        let size = file.metadata()?.len();
        while self.seen < size {
            let mut text = vec![0; (size - self.seen).min(MAX_APPENDED_READ) as usize];
            file.read_exact_at(&mut text, self.seen)?;
            // An incomplete line is read again next time.
            let Some(end) = memchr::memrchr(b'\n', &text) else {
                return Ok(());
            };
            for line in text[..end].split(|byte| *byte == b'\n') {
                let value = line.strip_prefix(b"d").and_then(|rest| rest.get(1..));
                if let Some(diagnostic) = value.and_then(DiagnosticRecord::parse) {
                    self.notes.insert(diagnostic.recipient, diagnostic.notary.into());
                }
            }
            self.seen += end as u64 + 1;
        }
        Ok(())
    }

    /// Present tag of a recipient.
    pub(super) fn tag(&self, spool: &OpenSpool, offset: u32) -> io::Result<Tag> {
        Ok(mark::read_tag(&spool.open_control_file(&self.name)?, offset)?.0)
    }
}

/// Buffer for Message-ID and addresses. Those of most messages fit into it.
type TextBuffer = SmallVec<[u8; 256]>;

/// Appends a value. Returns where it is.
fn append(text: &mut TextBuffer, value: &[u8]) -> Span {
    let start = text.len() as u32;
    text.extend_from_slice(value);
    Span { start, end: text.len() as u32 }
}

fn read(spool: &OpenSpool, name: &SpoolName) -> io::Result<ControlFile> {
    let file: File = spool.open_control_file(name)?;
    let text = control_file::read_all(&file, control_file::USUAL_CONTROL_FILE_SIZE)?;
    Ok(control_file::parse(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use zsched_spool::{HashFolder, Spool};

    struct Place {
        _folder: tempfile::TempDir,
        spool: OpenSpool,
        facts: SharedFacts,
    }

    impl Place {
        fn new() -> Place {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let spool = Spool::new(folder.path());
            spool.create().expect("a spool");
            let spool = OpenSpool::new(spool).expect("opened");
            Place { _folder: folder, spool, facts: SharedFacts::default() }
        }

        fn path(&self, number: u64) -> std::path::PathBuf {
            self._folder.path().join("transport").join(number.to_string())
        }

        fn write(&self, number: u64, text: &str) {
            fs::write(self.path(number), text).expect("written");
        }

        /// Calls `with` for one recipient of a message that can be used.
        fn with<R>(
            &self,
            number: u64,
            recipient: u32,
            use_facts: impl FnOnce(&mut MessageFacts) -> R,
        ) -> R {
            let message = (&name(number), Timestamp::EPOCH);
            self.facts.with(Some(&self.spool), message, &[recipient], |facts| {
                use_facts(facts.expect("its file can be used"))
            })
        }

        fn note(&self, number: u64, offset: u32) -> Option<Vec<u8>> {
            self.with(number, 0, |facts| facts.note(&self.spool, offset).map(<[u8]>::to_vec))
        }
    }

    fn name(number: u64) -> SpoolName {
        SpoolName::plain(HashFolder::TOP, number)
    }

    fn control_file(number: u64) -> String {
        format!("@ 7\ni {number}\nl <1@x>\ns l - a 0\nr           c h u 0\nm\n\n")
    }

    #[test]
    fn facts_are_limited_in_size_and_dropped_with_their_message() {
        let place = Place::new();
        place.write(1, &control_file(1));
        let one = place.with(1, 0, |facts| facts.size());
        let count = (MAX_SIZE / one) as u64;
        let file = control_file::parse(control_file(2).into_bytes()).expect("a control file");
        for number in 2..count + 10 {
            place.facts.lock().insert(MessageFacts::new(name(number), Timestamp::EPOCH, &file));
        }
        let cache = place.facts.lock();
        assert_eq!(cache.messages.len() as u64, count);
        assert!(cache.size <= MAX_SIZE && !cache.messages.contains_key(&2));
        drop(cache);
        // What is known is used although the file does not exist, but not for another message.
        let last = count + 9;
        place.with(last, 0, |facts| assert_eq!(facts.message_id(), Some("<1@x>")));
        let later = (&name(last), Timestamp::from_seconds(1));
        let is_none = place.facts.with(Some(&place.spool), later, &[0], |facts| facts.is_none());
        assert!(is_none, "another one");
        (1..count + 10).for_each(|number| drop(place.facts.lock().remove(number)));
        let FactsCache { messages, size } = &*place.facts.lock();
        assert!(messages.is_empty() && *size == 0);
    }

    #[test]
    fn reader_does_not_push_out_new_facts() {
        let shared = SharedFacts::default();
        let file = control_file::parse(control_file(1).into_bytes()).expect("a control file");
        let add = |number| shared.add(&name(number), Timestamp::EPOCH, &file);
        let has = |number| shared.lock().messages.contains_key(&number);
        (0..100_000).for_each(add);
        assert!(has(0) && !has(99_999));
        for facts in shared.lock().messages.values_mut() {
            facts.added -= MIN_AGE;
        }
        add(99_999);
        assert!(has(99_999) && shared.lock().size <= MAX_SIZE);
    }

    #[test]
    fn facts_of_single_recipient_are_not_kept() {
        let place = Place::new();
        place.write(1, &control_file(1));
        place.with(1, 0, |facts| assert_eq!(facts.message_id(), Some("<1@x>")));
        assert!(place.facts.lock().messages.is_empty());
    }

    #[test]
    fn recipients_have_the_addresses_of_their_lines() {
        let place = Place::new();
        let text = control_file(1).replace("m\n", "s l - b 0\nr           c h v 0\nm\n");
        place.write(1, &text);
        let offset = |user: &str| text.find(&format!("r           c h {user}")).map(|at| at as u32);
        for (user, sender) in [("u", "a"), ("v", "b")] {
            let offset = offset(user).expect("a recipient");
            let expected = (Some(sender.as_bytes()), Some(user.as_bytes()));
            place.with(1, offset, |facts| assert_eq!(facts.addresses(offset), expected));
        }
        place.with(1, 1, |facts| assert_eq!(facts.addresses(1), (None, None)));
    }

    #[test]
    fn recipients_appended_later_are_found() {
        let place = Place::new();
        let text = control_file(1);
        place.write(1, &text);
        let appended = text.len() as u32;
        let has = |offset| place.with(1, offset, |facts| facts.addresses(offset).1.is_some());
        assert!(has(text.find("r  ").expect("a recipient") as u32));
        place.write(1, &(text + "r           c h v 0\nm\n\n"));
        assert!(has(appended));
        fs::remove_file(place.path(1)).expect("removed");
        assert!(!has(appended + 100), "the file is gone, what was read stays");
        assert!(has(appended));
    }

    #[test]
    fn notes_appended_later_are_found() {
        let place = Place::new();
        let text = control_file(1).replace("m\n", "r           c h v 0\nm\n");
        place.write(1, &(text + "d 10:2:3::4\told\tx\n"));
        let path = place.path(1);
        let append = |text: &str| {
            let mut file = File::options().append(true).open(&path).expect("it is there");
            file.write_all(text.as_bytes()).expect("appended");
        };
        assert_eq!(place.note(1, 10), Some(b"old".to_vec()));
        assert_eq!(place.note(1, 20), None);
        append("d+20:2:3::4\tnew\tx\nd 30:2:3::4\tcut");
        assert_eq!((place.note(1, 20), place.note(1, 30)), (Some(b"new".to_vec()), None));
        append(" short\tx\n");
        assert_eq!(place.note(1, 30), Some(b"cut short".to_vec()));
    }
}
