//! The lives of messages, put together from lines of the log and from what is in the spool.

use super::super::screen::complain;
use super::subject::Subject;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use zsched_format::status_log::Entry;

/// So much is kept of the log, in bytes as it stands there.
const MOST_BYTES: usize = 16 << 20;
/// It is found out why messages waited without an attempt, if so many match at the most.
const MOST_EXPLAINED: usize = 1000;
/// So many messages are kept that are in the spool.
const MOST_QUEUED: usize = 1000;

/// The life of a message, as far as it is asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Story {
    /// The message.
    pub spool_id: String,
    /// Its Message-ID, if it has one.
    pub message_id: Option<String>,
    /// Who sent it.
    pub sender: Option<String>,
    /// When it came in, in milliseconds since the epoch.
    #[serde(skip)]
    pub came: Option<i64>,
    /// Its recipients as they are in the spool; none if it is not there.
    pub queued: Vec<Queued>,
    /// What was tried.
    pub attempts: Vec<Entry<'static>>,
    /// Attempts at other messages that made this one wait, since they were about the host as a whole.
    pub put_off: Vec<Entry<'static>>,
    /// What happens next.
    pub next: Next,
}

/// A recipient in the spool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// Its address.
    pub recipient: String,
    /// Where it goes: the channel...
    pub channel: String,
    /// ...and the host.
    pub host: String,
    /// What is marked about it.
    pub state: String,
}

/// What the scheduler says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Nothing: it could not be asked.
    Unknown,
    /// The message is not in its queue, or not any more.
    NotQueued,
    /// What the message waits for, a sentence for each destination.
    Waits(Vec<String>),
}

impl Story {
    /// One of which nothing is known yet.
    pub fn new(spool_id: String, message_id: Option<String>, sender: Option<String>) -> Story {
        Story {
            spool_id,
            message_id,
            sender,
            came: None,
            queued: Vec::new(),
            attempts: Vec::new(),
            put_off: Vec::new(),
            next: Next::Unknown,
        }
    }

    /// Whether nobody knows anything about it.
    pub fn is_empty(&self) -> bool {
        let is_queued = matches!(self.next, Next::Waits(_));
        self.attempts.is_empty() && self.queued.is_empty() && !is_queued
    }

    /// Those of the scheduler's sentences that are about our recipients. Where none is known, all are.
    pub fn next_of(&self, mut sentences: Vec<String>) -> Next {
        let ours = self.destinations();
        let is_ours = |sentence: &String| {
            let destination = sentence.split(' ').next().and_then(|word| word.split_once('/'));
            destination.is_some_and(|(channel, host)| {
                ours.contains(&(channel.to_string(), host.to_string()))
            })
        };
        if !ours.is_empty() {
            sentences.retain(is_ours);
        }
        Next::Waits(sentences)
    }

    /// Where its recipients go, or went.
    fn destinations(&self) -> HashSet<(String, String)> {
        let tried = self.attempts.iter().map(|e| (e.channel.to_string(), e.host.to_string()));
        let queued = self.queued.iter().map(|q| (q.channel.clone(), q.host.clone()));
        tried.chain(queued).collect()
    }

    /// When it was last heard of, as the log writes times; `None` while it is in the spool.
    fn end(&self) -> Option<&str> {
        if !self.queued.is_empty() {
            return None;
        }
        self.attempts.iter().map(|entry| &*entry.time).max()
    }
}

/// Lines that match, some of which may have gone to make room.
#[derive(Default)]
struct Kept {
    entries: VecDeque<(usize, Entry<'static>)>,
    bytes: usize,
    left_out: u64,
}

impl Kept {
    fn push(&mut self, entry: Entry<'_>) {
        let texts = [&entry.text, &entry.channel, &entry.host, &entry.spool_id, &entry.time];
        let optional = [&entry.message_id, &entry.sender, &entry.recipient, &entry.reply];
        let texts: usize = texts.iter().map(|text| text.len()).sum();
        let optional: usize = optional.iter().flat_map(|text| text.iter()).map(|t| t.len()).sum();
        let size = size_of::<Entry<'_>>() + texts + optional;
        self.bytes += size;
        self.entries.push_back((size, entry.into_owned()));
        while self.bytes > MOST_BYTES
            && let Some((size, _)) = self.entries.pop_front()
        {
            self.bytes -= size;
            self.left_out += 1;
        }
    }
}

/// What is found, while it is being looked for.
pub struct Stories {
    subject: Subject,
    queued: Vec<Story>,
    queued_left_out: u64,
    kept: Kept,
    /// Lines about whole hosts.
    others: Kept,
    /// When something of ours was queued for a destination; filled when it is known what matches.
    stays: HashMap<(String, String), HashMap<String, Stay>>,
}

/// When a message was in the queue.
struct Stay {
    came: Option<i64>,
    /// As the log writes times; `None` if it is still there.
    end: Option<String>,
}

impl Stay {
    /// Whether something was said meanwhile.
    fn has(&self, entry: &Entry<'_>) -> bool {
        let is_after = || {
            let time: Option<jiff::Timestamp> = entry.time.parse().ok();
            time.zip(self.came).is_some_and(|(time, came)| time.as_millisecond() >= came)
        };
        self.end.as_ref().is_none_or(|end| *entry.time <= **end) && is_after()
    }
}

impl Stories {
    /// Nothing is known yet of this.
    pub fn about(subject: Subject) -> Stories {
        Stories {
            subject,
            queued: Vec::new(),
            queued_left_out: 0,
            kept: Kept::default(),
            others: Kept::default(),
            stays: HashMap::new(),
        }
    }

    /// What they are about.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The spool id they are about, if it is one.
    pub fn spool_id(&self) -> Option<&str> {
        match &self.subject {
            Subject::SpoolId(id) => Some(id),
            Subject::Name(_) => None,
        }
    }

    /// Takes what is in the spool.
    pub fn take_queued(&mut self, story: Story) {
        match self.queued.len() < MOST_QUEUED {
            true => self.queued.push(story),
            false => self.queued_left_out += 1,
        }
    }

    /// Takes a line of the log, if it matches.
    pub fn take(&mut self, entry: Entry<'_>) {
        if self.subject.has_entry(&entry) {
            self.kept.push(entry);
        }
    }

    /// Finds out when messages that match were queued, and for what. Tells whether there is more to be found
    /// in a second look at the log, unless very much matches, for [`take_others`](Stories::take_others).
    pub fn expects_more(&mut self) -> bool {
        let in_log = self.kept.entries.iter().map(|(_, entry)| {
            let destination = (entry.channel.to_string(), entry.host.to_string());
            let stay = Stay { came: entry.came(), end: Some(entry.time.to_string()) };
            (destination, entry.spool_id.to_string(), stay)
        });
        let in_spool = self.queued.iter().flat_map(|story| {
            story.destinations().into_iter().map(|destination| {
                (destination, story.spool_id.clone(), Stay { came: story.came, end: None })
            })
        });
        let mut count = 0;
        for (destination, spool_id, stay) in in_log.chain(in_spool) {
            let stays = self.stays.entry(destination).or_default();
            // The last one knows the end.
            count += usize::from(stays.insert(spool_id, stay).is_none());
        }
        (1..=MOST_EXPLAINED).contains(&count)
    }

    /// Takes a line about another message that made one of ours wait.
    pub fn take_others(&mut self, entry: Entry<'_>) {
        if entry.others == 0 {
            return;
        }
        let destination = (entry.channel.to_string(), entry.host.to_string());
        let mut stays = self.stays.get(&destination).into_iter().flatten();
        if stays.any(|(spool_id, stay)| **spool_id != *entry.spool_id && stay.has(&entry)) {
            self.others.push(entry);
        }
    }

    /// All that was found, message by message.
    pub fn tell(&mut self) -> Vec<Story> {
        let entries = std::mem::take(&mut self.kept.entries);
        let mut stories = join(std::mem::take(&mut self.queued), entries);
        for story in &mut stories {
            let destinations = story.destinations();
            let end = story.end().map(str::to_string);
            let stay = Stay { came: story.came, end };
            let others = self.others.entries.iter().map(|(_, entry)| entry);
            let ours = others.filter(|entry| {
                let destination = (entry.channel.to_string(), entry.host.to_string());
                let is_other = *entry.spool_id != *story.spool_id;
                is_other && destinations.contains(&destination) && stay.has(entry)
            });
            story.put_off = ours.cloned().collect();
        }
        stories
    }

    /// Says what was left out.
    pub fn complain(&self) {
        let lines = self.kept.left_out + self.others.left_out;
        if lines > 0 {
            complain(format_args!("the {lines} oldest lines that match are left out"));
        }
        if self.queued_left_out > 0 {
            let count = self.queued_left_out;
            complain(format_args!("{count} more messages in the spool match, and are left out"));
        }
    }
}

/// Messages in the order in which the log comes to them, then those that it does not know.
fn join(queued: Vec<Story>, entries: VecDeque<(usize, Entry<'static>)>) -> Vec<Story> {
    let mut stories: Vec<Story> = Vec::new();
    let mut by_id: HashMap<String, usize> = HashMap::new();
    for (_, entry) in entries {
        let index = *by_id.entry(entry.spool_id.to_string()).or_insert_with(|| {
            stories.push(Story::new(entry.spool_id.to_string(), None, None));
            stories.len() - 1
        });
        let story = &mut stories[index];
        // A line may have been written when the control file could not be read.
        let text = |value: &Option<Cow<'_, str>>| value.as_ref().map(Cow::to_string);
        story.message_id = story.message_id.take().or_else(|| text(&entry.message_id));
        story.sender = story.sender.take().or_else(|| text(&entry.sender));
        story.came = story.came.or_else(|| entry.came());
        story.attempts.push(entry);
    }
    for found in queued {
        match by_id.get(&found.spool_id) {
            Some(index) => {
                let attempts = std::mem::take(&mut stories[*index].attempts);
                stories[*index] = Story { attempts, ..found };
            }
            None => stories.push(found),
        }
    }
    stories
}
