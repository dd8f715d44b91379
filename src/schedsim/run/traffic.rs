//! The mail of a world, in order of time.

use super::world::{Mail, World};
use std::time::Duration;
use zsched_format::control_file::compose::{Address, ControlFileDraft, Group, Recipient};
use zsched_format::time::Timestamp;

/// The mail still to come.
pub(super) struct Traffic {
    streams: Vec<Stream>,
    next_number: u64,
}

/// Mail of one kind.
struct Stream {
    mail: Mail,
    random: fastrand::Rng,
    next: Option<Timestamp>,
    until: Option<Timestamp>,
    /// Maximum number of messages still to come.
    left: Option<u64>,
    /// The last message. The next one differs from it in little.
    draft: ControlFileDraft,
}

impl Traffic {
    /// Generates the mail of a world from `start` on.
    ///
    /// Each kind of mail has its own random numbers, so that one kind does not change the others.
    pub(super) fn new(world: &World, start: Timestamp, seed: u64) -> Traffic {
        let mut seeds = fastrand::Rng::with_seed(seed);
        let streams = world.mail.iter().map(|mail| {
            let until = mail.until.map(|until| start + until.0);
            let random = fastrand::Rng::with_seed(seeds.u64(..));
            let first = start + mail.from.0;
            let (mail, draft, left) = (mail.clone(), draft(mail), mail.messages);
            let mut stream = Stream { mail, random, next: None, until, left, draft };
            stream.next = stream.after(first);
            stream
        });
        Traffic { streams: streams.collect(), next_number: 1 }
    }

    /// Time of the next message.
    pub(super) fn next_time(&self) -> Option<Timestamp> {
        self.streams.iter().filter_map(|stream| stream.next).min()
    }

    /// Returns the number of the next message and its control file.
    ///
    /// # Panics
    /// If there is no next message.
    pub(super) fn take(&mut self) -> (u64, Vec<u8>) {
        let number = self.next_number;
        self.next_number += 1;
        let coming = self.streams.iter_mut().filter(|stream| stream.next.is_some());
        let stream = coming.min_by_key(|stream| stream.next).expect("next_time has said when");
        let text = stream.compose(number);
        stream.next = stream.next.and_then(|time| stream.after(time));
        (number, text)
    }
}

impl Stream {
    /// Returns the time of the message after one at `time` (a Poisson process).
    fn after(&mut self, time: Timestamp) -> Option<Timestamp> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let mean = 60.0 / self.mail.per_minute;
        let wait = -(1.0 - self.random.f64()).ln() * mean;
        let next = time + Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX);
        self.until.is_none_or(|until| next < until).then_some(next)
    }

    fn compose(&mut self, number: u64) -> Vec<u8> {
        let [min, max] = self.mail.recipients;
        let count = self.random.u32(min..=max);
        let first = self.random.u32(1..=self.mail.hosts) - 1;
        let mail = &self.mail;
        // Consecutive hosts, beginning with a random one.
        let nth_host = |index: u32| {
            let number = (first + index % mail.hosts) % mail.hosts + 1;
            mail.host.replace('*', &number.to_string())
        };
        let recipients = &mut self.draft.groups[0].recipients;
        recipients.truncate(count as usize);
        recipients.extend((recipients.len() as u32..count).map(|index| recipient(mail, index)));
        let mut host = nth_host(0);
        for (index, recipient) in (0..).zip(recipients) {
            if mail.scattered && index > 0 {
                host = nth_host(index);
            }
            recipient.address.host.clone_from(&host);
        }
        self.draft.name = number.to_string();
        self.draft.to_text().expect("names of a world have no line ends in them")
    }
}

/// A message without recipients.
fn draft(mail: &Mail) -> ControlFileDraft {
    let group = Group {
        sender: Address::new("local", "", "sender", 0),
        headers: b"Subject: simulated\n".to_vec(),
        ..Group::default()
    };
    ControlFileDraft {
        priority: mail.priority,
        log_id: String::from("<simulated>"),
        groups: vec![group],
        ..ControlFileDraft::default()
    }
}

/// A recipient without a host.
fn recipient(mail: &Mail, index: u32) -> Recipient {
    let notify = match &mail.notify[..] {
        "" => String::new(),
        when => format!("NOTIFY={when}"),
    };
    let address = Address::new(&mail.channel, "", &format!("user{index}"), 65534);
    Recipient { address, notify, end: None }
}
