//! A queue, as a scheduler describes it.

use std::collections::HashMap;

/// Stands for a channel or host that the scheduler has not named.
const UNNAMED: &[u8] = b"?";

/// The recipients of one message that share a channel and a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vertex {
    /// The control file, below `transport/`.
    pub file: Vec<u8>,
    /// Number of recipients.
    pub recipients: u64,
    /// Offsets of their lines in the control file, in bytes.
    pub offsets: Vec<u32>,
    /// Last text of an agent, with notes; `None` if missing.
    pub text: Option<Vec<u8>>,
    channel: Option<usize>,
    host: Option<usize>,
}

/// All vertices of one channel and host.
#[derive(Clone, Debug)]
pub struct QueuedThread<'a> {
    /// The channel.
    pub channel: &'a [u8],
    /// The host.
    pub host: &'a [u8],
    /// The vertices, the one received last first.
    pub vertices: Vec<&'a Vertex>,
}

/// Kind of name that a list of vertices belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A channel.
    Channel,
    /// A host.
    Host,
}

/// All vertices, with their channels and hosts.
#[derive(Debug, Default)]
pub struct Queue {
    vertices: Vec<Vertex>,
    /// Names of channels, each with its vertices in the scheduler's order.
    channels: Vec<(Vec<u8>, Vec<usize>)>,
    hosts: Vec<Vec<u8>>,
    /// Index of each vertex, by its key in this answer.
    keys: HashMap<u64, usize>,
}

impl Vertex {
    /// Creates a vertex without channel and host.
    pub fn new(file: Vec<u8>, recipients: u64, offsets: Vec<u32>, text: Option<Vec<u8>>) -> Vertex {
        Vertex { file, recipients, offsets, text, channel: None, host: None }
    }
}

impl Queue {
    /// Adds a vertex. Does nothing and returns false if the key exists.
    pub fn add(&mut self, key: u64, vertex: Vertex) -> bool {
        let is_new = !self.keys.contains_key(&key);
        if is_new {
            self.keys.insert(key, self.vertices.len());
            self.vertices.push(vertex);
        }
        is_new
    }

    /// Adds a channel or host with its vertices.
    ///
    /// Returns the number of keys that are unknown or linked already, and the first of them.
    pub fn link(&mut self, part: NameKind, name: &[u8], keys: &[u64]) -> Option<(u64, u64)> {
        let place = match part {
            NameKind::Channel => self.channels.len(),
            NameKind::Host => self.hosts.len(),
        };
        let (mut members, mut wrong) = (Vec::new(), None);
        for key in keys {
            let index = self.keys.get(key).copied();
            let link = index.map(|index| match part {
                NameKind::Channel => &mut self.vertices[index].channel,
                NameKind::Host => &mut self.vertices[index].host,
            });
            match (index, link) {
                (Some(index), Some(link @ None)) => {
                    *link = Some(place);
                    members.push(index);
                }
                _ => wrong.get_or_insert((0, *key)).0 += 1,
            }
        }
        match part {
            _ if members.is_empty() => {}
            NameKind::Channel => self.channels.push((name.to_vec(), members)),
            NameKind::Host => self.hosts.push(name.to_vec()),
        }
        wrong
    }

    /// Number of vertices.
    pub fn count(&self) -> usize {
        self.vertices.len()
    }

    /// Number of vertices without a channel or a host.
    pub fn count_unlinked(&self) -> usize {
        let is_unlinked = |vertex: &&Vertex| vertex.channel.is_none() || vertex.host.is_none();
        self.vertices.iter().filter(is_unlinked).count()
    }

    /// The vertices by channel and host.
    ///
    /// Channels are in the order of the scheduler. Their vertices are in the reverse order, as
    /// ZMailer lists them.
    pub fn threads(&self) -> Vec<QueuedThread<'_>> {
        let unlinked =
            |(index, vertex): (usize, &Vertex)| vertex.channel.is_none().then_some(index);
        let unlinked: Vec<usize> = self.vertices.iter().enumerate().filter_map(unlinked).collect();
        let named = self.channels.iter().map(|(name, members)| (name.as_slice(), members));
        let mut threads: Vec<QueuedThread<'_>> = Vec::new();
        for (channel, members) in named.chain([(UNNAMED, &unlinked)]) {
            let mut places = HashMap::new();
            for &index in members.iter().rev() {
                let vertex = &self.vertices[index];
                let place = *places.entry(vertex.host).or_insert_with(|| {
                    let host = vertex.host.map_or(UNNAMED, |host| &self.hosts[host]);
                    threads.push(QueuedThread { channel, host, vertices: Vec::new() });
                    threads.len() - 1
                });
                threads[place].vertices.push(vertex);
            }
        }
        threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(queue: &Queue) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let thread = |thread: &QueuedThread<'_>| {
            let files: Vec<String> = thread.vertices.iter().map(|v| text(&v.file)).collect();
            format!("{}/{}: {}", text(thread.channel), text(thread.host), files.join(" "))
        };
        queue.threads().iter().map(thread).collect()
    }

    fn queue(files: &[&str]) -> Queue {
        let mut queue = Queue::default();
        for (key, file) in (1..).zip(files) {
            assert!(queue.add(key, Vertex::new(file.as_bytes().to_vec(), 1, vec![7], None)));
        }
        queue
    }

    #[test]
    fn threads_list_last_vertex_first() {
        let mut queue = queue(&["a", "b", "c", "d"]);
        assert_eq!(queue.link(NameKind::Channel, b"smtp", &[2, 1, 4]), None);
        assert_eq!(queue.link(NameKind::Channel, b"hold", &[3]), None);
        assert_eq!(queue.link(NameKind::Host, b"x", &[2, 3, 4]), None);
        assert_eq!(queue.link(NameKind::Host, b"y", &[1]), None);
        assert_eq!(shown(&queue), ["smtp/x: d b", "smtp/y: a", "hold/x: c"]);
        assert_eq!(queue.count_unlinked(), 0);
    }

    #[test]
    fn link_with_wrong_keys_loses_no_vertex() {
        let mut queue = queue(&["a", "b", "c"]);
        assert!(!queue.add(3, Vertex::new(b"d".to_vec(), 1, vec![7], None)));
        assert_eq!(queue.link(NameKind::Channel, b"smtp", &[1, 1, 99]), Some((2, 1)));
        assert_eq!(queue.link(NameKind::Channel, b"hold", &[1, 2]), Some((1, 1)));
        assert_eq!(queue.link(NameKind::Host, b"x", &[1, 3]), None);
        assert_eq!(shown(&queue), ["smtp/x: a", "hold/?: b", "?/x: c"]);
        assert_eq!(queue.count_unlinked(), 2);
    }
}
