//! Helper workers, which may block on the spool's disk.
//!
//! There are four, each with a queue of requests. The scanner lists folders ([`scanner`]). The
//! reader reads control files, with helpers if there are many ([`reader`]). The writer writes to
//! and removes from the spool ([`writer`]); it also composes lines about recipients
//! ([`crate::logging::mail_log`]), which need files that it removes. The reporter sends reports
//! ([`reporter`]). A fifth watches the agents of an earlier scheduler for a while after a start
//! ([`former_agents`]). A sixth cuts the packets of bulk jobs ([`bulk`]).
//!
//! Results go into one channel in portions, and mio's `Waker` wakes the loop. The workers make no
//! decisions.

pub(crate) mod arrival_watch;
mod scanner;
mod obsoleted;
mod file_reader;
mod reader;
mod write_queue;
mod writer;
mod verbose_messages;
mod note_writers;
mod reporter;
mod remover;
mod parallel;
mod former_agents;
mod bulk;

pub(crate) use bulk::BulkRequest;
pub(crate) use reporter::ReportRequest;
pub(crate) use scanner::ScanLimits;
pub(crate) use writer::WriteRequest;

use crate::logging::mail_log::{ArrivalLines, MailLog};
use crate::reports::ReportComposer;
use crate::start::recovery::{self, InterruptedSubmissions};
use crate::state::duplicates::DuplicatesFile;
use crate::state::overrides::OverridesJournal;
use zsched_service::worker;

use bulk::BulkWorker;
use file_reader::FileReader;
use mio::Waker;
use obsoleted::ObsoletesFinder;
use reader::{NewFile, ReadQueue, ReadRequest, Reader, UrgentRead};
use reporter::Reporter;
use scanner::scan_folders;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;
use std::vec;
use verbose_messages::VerboseMessages;
use write_queue::{WriteQueue, write_queue};
use writer::Writer;
use zsched_bulk::JobId;
use zsched_core::bulk::BulkEvent;
use zsched_core::overrides::OverrideChange;
use zsched_core::{NoteTicket, SenderReportTicket, StatusRecord};
use zsched_format::time::Timestamp;
use zsched_spool::load::LoadResult;
use zsched_spool::obsoletes::Obsoleted;
use zsched_spool::removals::RemovalList;
use zsched_spool::report::UnreportedRest;
use zsched_spool::scan::ScanEnd;
use zsched_spool::{HashLevel, Portion, Spool, SpoolName, SpoolOpener, processes};

/// Maximum number of portions that wait for the loop. Beyond it the workers wait.
const MAX_WAITING_PORTIONS: usize = 128;
/// Number of results in a portion. A worker without more requests sends a smaller one.
const PORTION_SIZE: usize = 32;

/// Reason why sending cannot fail: a panic in a worker ends the process ([`worker`]).
const WORKERS_RUN: &str = "workers run until the loop ends";

/// Result of a helper worker.
pub(crate) enum Completion {
    /// Names found by the scan. The scanner waits for the number of new ones among them.
    Names(Vec<SpoolName>),
    /// The scan has reached a limit. The scanner waits until the files found are read.
    ScanPaused,
    /// The scan has ended.
    ScanEnded(ScanEnd),
    /// A control file was read.
    Read(SpoolName, LoadResult, FileNews),
    /// The control file of a loaded message was read again.
    ReadAgain(SpoolName, LoadResult),
    /// More recipients of a control file were read.
    ChunkRead(SpoolName, LoadResult),
    /// Result of writing a note.
    NoteWritten(NoteTicket, io::Result<bool>),
    /// Result of sending the reports that a message owes.
    Reported(SenderReportTicket, io::Result<UnreportedRest>),
    /// Result of removing a message, with its new path if moved aside.
    Removed(SpoolName, io::Result<Option<PathBuf>>),
    /// Result of storing the overrides of operators.
    OverridesStored(io::Result<()>),
    /// Agents of an earlier scheduler changed control files, or one has ended.
    FormerAgentsChanged {
        /// Messages of the control files.
        names: Vec<SpoolName>,
        /// True if the agent has ended, so that its locks are dead.
        an_agent_ended: bool,
    },
    /// Locks could not be cleared.
    ClearLocksFailed(SpoolName, io::Error),
    /// Something has happened to a bulk job.
    Bulk(BulkEvent),
    /// Packets that are to be read.
    PacketNames(Vec<SpoolName>),
    /// All bulk jobs were reported.
    BulkJobsListed {
        /// Those that cannot be opened. It is tried again later.
        unopened: BTreeSet<JobId>,
    },
}

/// What the reader has found besides the recipients of a message.
#[derive(Default)]
pub(crate) struct FileNews {
    /// The line about its arrival for the log; may be empty.
    pub(crate) line: Vec<u8>,
    /// Messages that end: those that it takes the place of, or itself.
    pub(crate) obsoleted: Vec<Obsoleted>,
}

/// The loop's end of the helper workers.
pub(crate) struct SpoolIo {
    results: Receiver<Vec<Completion>>,
    /// Unhandled results of the current portion.
    portion: vec::IntoIter<Completion>,
    loop_waker: Arc<LoopWaker>,
    scan_requests: Sender<ScanLimits>,
    new_names: Sender<usize>,
    read_requests: Sender<ReadRequest>,
    /// Urgent requests to the reader, gathered.
    urgent_reads: Vec<UrgentRead>,
    to_write: WriteQueue,
    to_report: Sender<ReportRequest>,
    to_bulk: Sender<BulkRequest>,
    interrupted: Arc<InterruptedSubmissions>,
    /// Possible duplicate deliveries found by the workers.
    pub duplicates: Arc<DuplicatesFile>,
    writer: thread::JoinHandle<()>,
    reporter: thread::JoinHandle<()>,
    spool: Spool,
    mail_log: MailLog,
    /// Messages with a verbose file.
    verbose: VerboseMessages,
    /// True if the reader looks for messages that `x` lines name.
    obeys_obsoletes: Arc<AtomicBool>,
    /// Lines about arrivals in this turn.
    arrival_lines: Vec<u8>,
}

/// Wakes the loop once for all results not taken yet.
struct LoopWaker {
    waker: Arc<Waker>,
    is_awake: AtomicBool,
}

impl LoopWaker {
    fn wake(&self) {
        if !self.is_awake.swap(true, Ordering::SeqCst) {
            // Waking fails only if the loop is gone. Then the results are not needed.
            drop(self.waker.wake());
        }
    }
}

/// A helper worker's end of the channel of results.
#[derive(Clone)]
struct CompletionSender {
    sender: SyncSender<Vec<Completion>>,
    loop_waker: Arc<LoopWaker>,
}

impl CompletionSender {
    /// Sends a portion. Returns false if the loop has ended, and with it the use of the spool.
    fn send(&self, portion: Vec<Completion>) -> bool {
        let is_taken = self.sender.send(portion).is_ok();
        self.loop_waker.wake();
        is_taken
    }

    /// Adds a result to a portion, and sends the portion if it is full.
    fn add(&self, portion: &mut Vec<Completion>, done: Completion) -> bool {
        portion.push(done);
        portion.len() < PORTION_SIZE || self.flush(portion)
    }

    /// Sends a portion unless it is empty.
    fn flush(&self, portion: &mut Vec<Completion>) -> bool {
        portion.is_empty() || self.send(std::mem::take(portion))
    }
}

impl SpoolIo {
    /// Starts the workers.
    pub(crate) fn start(
        spool: &Spool,
        level: HashLevel,
        waker: Arc<Waker>,
        mail_log: MailLog,
        arrivals: ArrivalLines,
        orders: OverridesJournal,
        reports: (ReportComposer, PathBuf),
    ) -> io::Result<SpoolIo> {
        let (sender, results) = sync_channel(MAX_WAITING_PORTIONS);
        let loop_waker = Arc::new(LoopWaker { waker, is_awake: AtomicBool::new(false) });
        let completions = CompletionSender { sender, loop_waker: loop_waker.clone() };
        let (scan_requests, scans) = channel();
        let (new_names, counts) = channel();
        let (to_write, writes) = write_queue(loop_waker.clone());
        let (read_requests, reads) = channel();
        let duplicates = Arc::new(DuplicatesFile::new(spool.duplicates_file()));
        let scanner = (spool.clone(), completions.clone());
        worker::start("scanner", move || scan_folders(&scanner.0, &scans, &counts, &scanner.1))?;
        let verbose = VerboseMessages::default();
        let obeys_obsoletes = Arc::new(AtomicBool::new(false));
        let files = FileReader {
            spool: spool.clone(),
            opener: SpoolOpener::new(spool.clone()),
            level,
            duplicates: duplicates.clone(),
            arrivals,
            verbose: verbose.clone(),
            obsoletes: ObsoletesFinder::new(obeys_obsoletes.clone()),
        };
        let reader = Reader::new(files, ReadQueue::new(reads), completions.clone());
        // It is as urgent as the loop: new mail waits for it.
        worker::start("reader", move || reader.run())?;
        let agents = processes::foreign_processes_in_folder();
        if !agents.is_empty() {
            let (spool, completions) = (spool.clone(), completions.clone());
            worker::start("former agents", move || {
                former_agents::run(&spool, agents, &completions)
            })?;
        }
        let (to_report, report_requests) = channel();
        let (composer, router_socket) = reports;
        let reporter = Reporter {
            spool: spool.clone(),
            level,
            composer,
            router_socket,
            lines: mail_log.report_lines(),
            completions: completions.clone(),
        };
        let reporter = worker::start("reporter", move || reporter.run(&report_requests))?;
        let (to_bulk, bulk_requests) = channel();
        let bulk = BulkWorker::new(spool, level, completions.clone(), duplicates.clone());
        let interrupted = Arc::new(InterruptedSubmissions::default());
        let of_bulk = interrupted.clone();
        worker::start("bulk", move || bulk.run(&bulk_requests, &of_bulk))?;
        let writer = Writer {
            spool: spool.clone(),
            opener: SpoolOpener::new(spool.clone()),
            removals: RemovalList::new(spool.removals_file()),
            removals_listed: true,
            completions,
            duplicates: duplicates.clone(),
            verbose: verbose.clone(),
            composer: mail_log.composer(),
            orders,
            portion: Vec::new(),
        };
        let writer = worker::start_in_background("writer", move || writer.run(&writes))?;
        Ok(SpoolIo {
            results,
            portion: Vec::new().into_iter(),
            loop_waker,
            scan_requests,
            new_names,
            read_requests,
            to_write,
            to_report,
            to_bulk,
            interrupted,
            duplicates,
            writer,
            reporter,
            spool: spool.clone(),
            mail_log,
            verbose,
            obeys_obsoletes,
            arrival_lines: Vec::new(),
            urgent_reads: Vec::new(),
        })
    }

    /// Removes and returns the next result, if there is one.
    pub(crate) fn next_result(&mut self) -> Option<Completion> {
        loop {
            if let Some(done) = self.portion.next() {
                return Some(done);
            }
            self.portion = self.results.try_recv().ok()?.into_iter();
        }
    }

    /// Rearms the waker before results are taken: any later result wakes the loop again.
    pub(crate) fn rearm_waker(&self) {
        // A swap is needed: results put before the previous wake-up are visible from here on. A
        // plain store could take effect after the check for results, and a wake-up between the two
        // would be lost.
        self.loop_waker.is_awake.swap(false, Ordering::SeqCst);
    }

    /// Requests a scan.
    pub(crate) fn scan(&self, limits: ScanLimits) {
        self.bulk(BulkRequest::Find);
        self.scan_requests.send(limits).expect(WORKERS_RUN);
    }

    /// Lets a paused scan go on.
    pub(crate) fn resume_scan(&self) {
        self.new_names(0);
    }

    /// Submissions that a crash has interrupted, which a worker completes.
    pub(crate) fn interrupted_submissions(&self) -> Arc<InterruptedSubmissions> {
        self.interrupted.clone()
    }

    /// Reports to the scanner how many of the names it found are new.
    pub(crate) fn new_names(&self, count: usize) {
        self.new_names.send(count).expect(WORKERS_RUN);
    }

    /// Requests reading of control files, the oldest first.
    pub(crate) fn read(&self, names: Vec<NewFile>) {
        self.read_requests.send(ReadRequest::Batch(names)).expect(WORKERS_RUN);
    }

    /// Queues reading of a control file before all others, for the next
    /// [`send_reads`](SpoolIo::send_reads).
    pub(crate) fn read_soon(&mut self, name: SpoolName, at_most: Option<u32>) {
        self.urgent_reads.push(UrgentRead::New((name, at_most)));
    }

    /// Queues another reading of the control file of a loaded message.
    pub(crate) fn read_again(&mut self, name: SpoolName) {
        self.urgent_reads.push(UrgentRead::Again(name));
    }

    /// Queues reading of more recipients of a loaded message.
    pub(crate) fn read_more(&mut self, name: SpoolName, portion: Portion) {
        self.urgent_reads.push(UrgentRead::More(name, portion));
    }

    /// Passes queued readings to the reader, which is woken once for all of them.
    pub(crate) fn send_reads(&mut self) {
        if !self.urgent_reads.is_empty() {
            let reads = std::mem::take(&mut self.urgent_reads);
            self.read_requests.send(ReadRequest::Urgent(reads)).expect(WORKERS_RUN);
        }
    }

    /// Sets whether the reader looks for messages that `x` lines name.
    ///
    /// It finds those that are read from then on.
    pub(crate) fn obey_obsoletes(&self, is_on: bool) {
        self.obeys_obsoletes.store(is_on, Ordering::Relaxed);
    }

    /// Queues a write request, for the next [`send`](SpoolIo::send).
    pub(crate) fn write(&mut self, request: WriteRequest) {
        self.to_write.push(request);
    }

    /// Requests the reports that a message owes.
    pub(crate) fn report(&self, request: ReportRequest) {
        self.to_report.send(request).expect(WORKERS_RUN);
    }

    /// Requests something about bulk jobs.
    pub(crate) fn bulk(&self, request: BulkRequest) {
        self.to_bulk.send(request).expect(WORKERS_RUN);
    }

    /// Adds lines about holds and releases to the status log.
    pub(crate) fn log_holds(&self, now: Timestamp, changes: &[OverrideChange]) {
        self.mail_log.push_holds(now, changes);
    }

    /// Adds the result of a TLS session to the status log. Returns false if it is malformed.
    pub(crate) fn log_tls_result(&self, now: Timestamp, json: &[u8]) -> bool {
        self.mail_log.push_tls_result(now, json)
    }

    /// Queues lines about recipients, in order with other write requests.
    ///
    /// Without room for them they are dropped and counted.
    pub(crate) fn write_status(&mut self, record: StatusRecord) {
        if self.mail_log.admits(&record) {
            self.to_write.push(WriteRequest::Status(record));
        }
    }

    /// Queues a line for the verbose file of a job's message.
    ///
    /// Most messages have none.
    pub(crate) fn explain_job(&mut self, job: &[u8], text: impl FnOnce() -> String) {
        if let Some(name) = self.verbose.of_job(job) {
            self.to_write.push(WriteRequest::Verbose(name, text()));
        }
    }

    /// Queues a line for the verbose file of a message, if it has one.
    pub(crate) fn explain(&mut self, number: u64, text: &str) {
        if let Some(name) = self.verbose.find(number) {
            self.to_write.push(WriteRequest::Verbose(name, text.to_string()));
        }
    }

    /// Queues the line about an arrival, for the next [`send`](SpoolIo::send).
    pub(crate) fn log_arrival(&mut self, line: &[u8]) {
        self.arrival_lines.extend_from_slice(line);
    }

    /// Passes all queued requests to the reader and the writer, and lines to the log.
    pub(crate) fn send(&mut self) {
        self.send_reads();
        if !self.arrival_lines.is_empty() {
            self.mail_log.push_arrivals(&self.arrival_lines);
            self.arrival_lines.clear();
        }
        self.to_write.send().expect(WORKERS_RUN);
    }

    /// Returns true if no more may be decided for the writer.
    ///
    /// The loop is woken when that has changed.
    pub(crate) fn is_writer_behind(&self) -> bool {
        self.to_write.is_full()
    }

    /// Waits until everything requested is written. Discards results.
    pub(crate) fn finish(mut self) {
        self.send();
        drop(self.to_write);
        drop(self.to_report);
        while !(self.writer.is_finished() && self.reporter.is_finished()) {
            // A worker may be waiting for room in the channel of results.
            drop(self.results.recv_timeout(Duration::from_millis(10)));
        }
        recovery::report_leftovers(&self.spool);
    }
}
