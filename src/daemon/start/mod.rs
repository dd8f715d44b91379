//! From the command line to a running loop.

pub(crate) mod options;
pub(crate) mod quick_start;
pub(crate) mod companion;
pub(crate) mod config_warnings;
pub(crate) mod id_cache;
pub(crate) mod recovery;

use crate::agents::{AgentProcesses, AgentSettings, process_priority};
use crate::drop_worker::DropWorker;
use crate::event_loop::clock::Clock;
use crate::event_loop::event_source::EventSource;
use crate::event_loop::observed_core::ObservedCore;
use crate::event_loop::reload::ReloadState;
use crate::event_loop::{Daemon, log_checks, signals};
use crate::logging::mail_log::{self, MailLog, MailLogs};
use crate::logging::{self, StatisticsLog, syslog};
use crate::net::accounts::{self, Accounts};
use crate::net::clients::{ClientSettings, Clients};
use crate::net::lookup_worker::LookupWorker;
use crate::net::rendezvous_dump::Rendezvous;
use crate::reports::ReportComposer;
use crate::service_manager;
use crate::spool_io::ScanLimits;
use crate::spool_io::SpoolIo;
use crate::spool_io::arrival_watch::ArrivalWatch;
use crate::start::companion::Companion;
use crate::start::options::{SchedulerOptions, ShownSettings};
use crate::state::learned_file::LearnedFile;
use crate::state::overrides::{OverridesFile, OverridesJournal};
use crate::state::spool_lock::{LockTimeouts, SpoolLock};
use crate::timeouts::Timeouts;
use foldhash::HashMap;
use mio::{Interest, Poll, Waker};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use zsched_config::{Config, ConfigContext, Diagnostic, LoadedConfig, Zenv};
use zsched_core::Settings;
use zsched_core::intake::Intake;
use zsched_format::log_limiter::LogLimiter;
use zsched_format::printable::{self, print_to_stderr as say};
use zsched_format::status_log::LostLines;
use zsched_format::time::Timestamp;
use zsched_mailq_server::v2::events::Subscribers;
use zsched_recorder::{RecordedCore, Recorder, RotationLimits};
use zsched_service::{AppendedFile, BackgroundLog, default_log, log_file};
use zsched_spool::processes;
use zsched_spool::{HashLevel, Spool, describe_folder_error};
use zsched_sys::{self as sys, Signals};

/// Maximum number of descriptors the scheduler requests, including those for agents.
const MAX_DESCRIPTORS: u64 = 65_536;
/// Number of descriptors not for agents: logs, sockets, files, MAILQ clients.
const OWN_DESCRIPTORS: u64 = 300;
/// Minimum number of agents at a time, whatever the descriptor limit.
const MIN_AGENTS: u64 = 10;
/// Minimum number of descriptors: the scheduler's own files and sockets, and ten agents.
const MIN_DESCRIPTORS: u64 = 64;

/// Reason not to start, in one or more lines.
struct StartError(String);

impl StartError {
    fn because(what: impl std::fmt::Display, error: impl std::fmt::Display) -> StartError {
        StartError(format!("{what}: {error}"))
    }
}

/// Runs the scheduler described by the options and returns its exit status.
pub fn main(options: SchedulerOptions) -> i32 {
    if options.version {
        // Standard output may be closed.
        drop(writeln!(io::stdout(), "zsched scheduler {}", env!("CARGO_PKG_VERSION")));
        return 0;
    }
    match run(options) {
        Ok(()) => 0,
        Err(StartError(reason)) => {
            say(format_args!("scheduler: {reason}"));
            1
        }
    }
}

fn run(mut options: SchedulerOptions) -> Result<(), StartError> {
    if let Some(folder) = &options.init {
        return init_spool(folder);
    }
    if let Some(folder) = options.quick_start.clone() {
        let places = quick_start::prepare(&folder)
            .map_err(|error| StartError::because(folder.display(), error))?;
        options.installation.zenv.get_or_insert(places.zenv);
        options.config.get_or_insert(places.config);
    }
    let (zenv, note) = read_zenv(options.installation.zenv.as_deref())?;
    let config_path = absolute(&config_path(&options, &zenv))?;
    let context = id_cache::cached_context(zenv);
    let LoadedConfig { config, warnings } = load_config(&config_path, &context, &note)?;
    let programs = program_folders(&context.zenv);
    let of_files = config_warnings::warnings(&config, &context.zenv, &programs);
    of_files.iter().for_each(say);
    if options.check {
        print_check(&config, options.show, warnings.len() + of_files.len());
        return Ok(());
    }
    let plan = StartPlan::new(options, config_path, context, config)?;
    plan.run()
}

/// Prints a configuration that can be used, and the verdict on standard error.
fn print_check(config: &Config, shown: ShownSettings, warnings: usize) {
    let text = match shown {
        ShownSettings::All => config.show(),
        ShownSettings::Set => config.show_set(),
        ShownSettings::None => String::new(),
    };
    print!("{}", printable::lines(&text));
    let warnings = match warnings {
        0 => "no warnings".to_string(),
        1 => "1 warning".to_string(),
        count => format!("{count} warnings"),
    };
    say(format_args!("{}: can be used, {warnings}", config.file().display()));
}

/// Makes the folders of a spool that are missing, and prints its path.
fn init_spool(folder: &Path) -> Result<(), StartError> {
    let folder = absolute(folder)?;
    let failed = |error| StartError::because(format_args!("{}", folder.display()), error);
    Spool::new(&folder).create().map_err(failed)?;
    say(format_args!("the spool is {}", folder.display()));
    Ok(())
}

/// Variables of the ZENV file, and a hint for missing variables.
fn read_zenv(named: Option<&Path>) -> Result<(Zenv, String), StartError> {
    let path = Zenv::path(named);
    let path = path.display();
    // The error names the file.
    match Zenv::find(named).map_err(|error| StartError(error.to_string()))? {
        Some(zenv) => Ok((zenv, format!("the ZENV file is {path}"))),
        None => Ok((Zenv::default(), format!("there is no {path}; -Z names another ZENV file"))),
    }
}

/// Path of the configuration file.
///
/// The manual names `scheduler.cf`; ZMailer's program reads `scheduler.conf`.
fn config_path(options: &SchedulerOptions, zenv: &Zenv) -> PathBuf {
    if let Some(path) = &options.config {
        return path.clone();
    }
    let folder = zenv.mail_share();
    let (documented, original) = (folder.join("scheduler.cf"), folder.join("scheduler.conf"));
    // A file that cannot be examined counts as present: reading it reports the error.
    let is_missing = documented.try_exists().is_ok_and(|there| !there);
    if is_missing && original.exists() { original } else { documented }
}

/// Reads the configuration, and prints what is wrong with it.
fn load_config(
    path: &Path,
    context: &ConfigContext,
    note: &str,
) -> Result<LoadedConfig, StartError> {
    let loaded = Config::load(path, context);
    let (Ok(LoadedConfig { warnings: diagnostics, .. }) | Err(diagnostics)) = &loaded;
    if diagnostics.iter().any(Diagnostic::is_unknown_variable) {
        say(note);
    }
    match loaded {
        Ok(loaded) => {
            loaded.warnings.iter().for_each(say);
            Ok(loaded)
        }
        Err(errors) => {
            errors.iter().for_each(say);
            Err(StartError(format!("{} cannot be used", path.display())))
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf, StartError> {
    std::path::absolute(path).map_err(|error| StartError::because(path.display(), error))
}

/// Settings and paths that must be known before anything is started.
struct StartPlan {
    options: SchedulerOptions,
    config_path: PathBuf,
    zenv_path: PathBuf,
    context: ConfigContext,
    config: Config,
    spool: Spool,
    log: Option<PathBuf>,
    statistics: Option<PathBuf>,
    status_log: Option<PathBuf>,
    rendezvous: PathBuf,
    notify: PathBuf,
    recording: Option<PathBuf>,
    level: HashLevel,
}

impl StartPlan {
    /// Determines all paths and checks that the spool folders can be read.
    fn new(
        options: SchedulerOptions,
        config_path: PathBuf,
        context: ConfigContext,
        config: Config,
    ) -> Result<StartPlan, StartError> {
        let zenv = &context.zenv;
        let or_zenv = |option: &Option<PathBuf>, name, default: &str| {
            let from_zenv = || PathBuf::from(zenv.get(name).unwrap_or(default));
            absolute(&option.clone().unwrap_or_else(from_zenv))
        };
        let spool = options
            .installation
            .spool(zenv)
            .map_err(|error| StartError::because("the spool", error))?;
        for folder in [spool.transport(), spool.queue()] {
            std::fs::read_dir(folder)
                .map_err(|error| StartError(describe_folder_error(folder, &error)))?;
        }
        let default_log = || options.is_daemon().then(|| default_log(zenv, "scheduler"));
        let log = options.log.clone().or_else(default_log);
        let status_log = zenv.get("STATUSLOG").map(str::trim).filter(|path| !path.is_empty());
        let status_log = options.status_log.clone().or_else(|| status_log.map(PathBuf::from));
        let temporary = if Path::new("/usr/tmp").is_dir() { "/usr/tmp" } else { "/var/tmp" };
        let rendezvous = format!("{temporary}/.mailq.text");
        let notify = || spool.notify_socket(zenv.get("SCHEDULERNOTIFY"));
        Ok(StartPlan {
            log: log.map(|path| absolute(&path)).transpose()?,
            statistics: options.statistics.as_deref().map(absolute).transpose()?,
            status_log: status_log.as_deref().map(absolute).transpose()?,
            rendezvous: or_zenv(&options.rendezvous, "RENDEZVOUS", &rendezvous)?,
            notify: config.parameters.notify_socket.clone().unwrap_or_else(notify),
            recording: options.record.as_deref().map(absolute).transpose()?,
            zenv_path: absolute(&Zenv::path(options.installation.zenv.as_deref()))?,
            level: options.installation.level(zenv),
            spool,
            options,
            config_path,
            context,
            config,
        })
    }

    fn run(self) -> Result<(), StartError> {
        let failed = |what: &'static str| move |error: io::Error| StartError::because(what, error);
        sys::close_inherited_on_exec().map_err(failed("inherited descriptors"))?;
        if self.context.is_root {
            sys::drop_groups().map_err(failed("supplementary groups"))?;
        }
        if let Some(niceness) = self.config.scheduler_niceness {
            sys::set_priority(process_priority(niceness)).map_err(failed("sysnice"))?;
        }
        let limits = ProcessLimits::lift()?;
        let ready_pipe = match self.options.is_daemon() {
            true => Some(sys::daemonize().map_err(failed("cannot become a daemon"))?),
            false => None,
        };
        recovery::set_former_scheduler(&self.spool);
        let began = Instant::now();
        let (lock_file, pid_file) = (self.spool.lock_file(), self.spool.pid_file());
        let mut waited_for = None;
        let mut spool_lock =
            SpoolLock::take(&lock_file, &pid_file, LockTimeouts::default(), |line| {
                say(format_args!("scheduler: {line}"));
                waited_for = Some(line.to_string());
            })
            .map_err(|error| StartError(error.to_string()))?;
        let statistics = open(self.statistics.as_deref(), logging::open_statistics)?;
        let status_log = open(self.status_log.as_deref(), mail_log::open_status_log)?;
        let log = log_file::open(self.log.as_deref());
        let log = log.map_err(|error| StartError(error.to_string()))?;
        let transport = self.spool.transport().to_path_buf();
        std::env::set_current_dir(&transport).map_err(failed("transport"))?;
        processes::remember_boot_time();
        let (log, _guard) = logging::start(log, self.options.verbose).map_err(failed("the log"))?;
        if self.options.verbose_after_load {
            log::set_max_level(logging::level(0));
        }
        let version = env!("CARGO_PKG_VERSION");
        log::info!("scheduler {version} started on {}", self.spool.postoffice().display());
        if let Some(line) = waited_for {
            log::info!("{line}: it took {:.1} s", began.elapsed().as_secs_f64());
        }
        limits.warnings.iter().for_each(|warning| log::warn!("{warning}"));
        recovery::finish_removals(&self.spool);
        recovery::remove_abandoned(&self.spool);
        recovery::finish_outbox(&self.spool, self.level)
            .map_err(|error| StartError::because(self.spool.outbox().display(), error))?;
        if self.options.quick_start.is_some() {
            self.start_companion("router", "the router").map_err(failed("router"))?;
            self.start_companion("smtpserver", "the SMTP server").map_err(failed("smtpserver"))?;
        }
        let clock = Clock::new(spool_lock.clock);
        spool_lock.store_clock(clock.started);
        let now = clock.estimate();
        let journal = OverridesJournal::open(self.spool.orders_file(), now);
        let orders = journal.orders();
        let logs = Logs { log, statistics, status_log };
        let timeouts = Timeouts::new(self.options.timeouts_scale);
        let drop_worker = DropWorker::new(&self.spool, self.level, &self.notify);
        let mut daemon = self
            .build(spool_lock, clock, limits.descriptors, logs, journal)
            .map_err(failed("cannot start"))?;
        daemon.apply_parameters();
        daemon.restore_state(now, orders);
        daemon.open_sockets();
        let interrupted = daemon.spool_io.interrupted_submissions();
        drop_worker.start(timeouts, interrupted).map_err(failed("drop folder"))?;
        if let Some(ready_pipe) = ready_pipe {
            ready_pipe.report_ready().map_err(failed("cannot report"))?;
        }
        service_manager::notify_ready();
        daemon.run().map_err(failed("event loop"))
    }

    /// Starts another program of a trial installation. Its configuration is in MAILSHARE.
    fn start_companion(&self, name: &'static str, title: &'static str) -> io::Result<()> {
        let log = default_log(&self.context.zenv, name);
        let paths = [("-Z", &*self.zenv_path), ("-P", self.spool.postoffice()), ("-L", &*log)];
        let paths = paths.into_iter().flat_map(|(option, path)| [option.into(), path.into()]);
        let hash = (0..self.options.installation.hash).map(|_| "-H".into());
        let arguments = ["-i".into()].into_iter().chain(paths).chain(hash).collect();
        let pause = Timeouts::new(self.options.timeouts_scale).companion_restart;
        Companion::new(name, title, arguments, pause)?.keep_running()
    }

    /// Last sign of life of a former scheduler on the spool.
    fn former_end(&self, spool_lock: &SpoolLock) -> Option<Timestamp> {
        let learned = std::fs::metadata(self.spool.learned_file()).ok();
        let learned = learned.map(|file| Timestamp::modified(&file));
        spool_lock.former_end.into_iter().chain(learned).max()
    }

    fn build(
        self,
        spool_lock: SpoolLock,
        clock: Clock,
        descriptors: u64,
        logs: Logs,
        journal: OverridesJournal,
    ) -> io::Result<Daemon> {
        let Logs { log, statistics, status_log } = logs;
        let started = clock.estimate();
        let poll = Poll::new()?;
        let mut signals = Signals::catch(&signals::CAUGHT_SIGNALS)?;
        poll.registry().register(&mut signals, EventSource::Signals.token(), Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), EventSource::Workers.token())?);
        let timeouts = Timeouts::new(self.options.timeouts_scale);
        let statistics = statistics.map(StatisticsLog::start).transpose()?;
        let start_log = |file| BackgroundLog::start(file, LostLines::line);
        let status_log = status_log.map(start_log).transpose()?;
        let of_statistics = statistics.as_ref().map(|statistics| statistics.log.clone());
        let system_log = syslog::start(&self.context.zenv)?;
        let other_logs =
            status_log.iter().cloned().chain(of_statistics).chain([system_log]).collect();
        let mail_logs = MailLogs::new(status_log, &log, self.options.mail_lines);
        let has_mail_lines = mail_logs.are_needed();
        let mail_log = MailLog::new(mail_logs);
        let arrivals = mail_log.arrival_lines(self.former_end(&spool_lock));
        let waker_of_io = waker.clone();
        let zenv = &self.context.zenv;
        let headers_only = self.options.headers_only > 0;
        let composer = ReportComposer::new(zenv, zenv.mail_share(), headers_only);
        let reports = (composer, self.spool.router_socket(zenv.get("ROUTERNOTIFY")));
        let spool_io = SpoolIo::start(
            &self.spool,
            self.level,
            waker_of_io,
            mail_log,
            arrivals,
            journal,
            reports,
        )?;
        let record_limits =
            RotationLimits { size: self.options.record_size, keep_files: self.options.record_keep };
        let record = |path: &PathBuf| Recorder::create(path, record_limits, self.context.clone());
        let recorder = self.recording.as_ref().map(record).transpose()?;
        let config = Rc::new(self.config);
        let agent_settings = AgentSettings {
            programs: program_folders(&self.context.zenv),
            folder: self.spool.transport().to_path_buf(),
            zenv: self.context.zenv.clone(),
            file_limit: self.options.agent_file_limit(),
            ignore_hangup: self.log.is_none(),
            timeouts,
        };
        let agents = AgentProcesses::new(agent_settings, waker.clone())?;
        let settings = Settings {
            frozen: self.options.freeze,
            wait_for_initial_scan: self.options.synchronous,
            selection: self.options.selection.clone(),
            fork_rate: self.options.fork_rate,
            max_agents: max_agents(descriptors) as usize,
            log_finished_messages: self.options.verbose > 0,
            record_attempts: has_mail_lines,
            failed_write: timeouts.failed_write,
            // The choice among the entries of `retries` must differ from start to start.
            seed: u64::from(Timestamp::now().subsec_nanoseconds()) ^ u64::from(std::process::id()),
            ..Settings::default()
        };
        let core = RecordedCore::new(settings, config.clone(), started, recorder);
        let watch = Rc::new(Subscribers::default());
        let with_vertices = !self.options.short_mailq;
        let uses_version_2 = accounts::needs_version_2(
            config.parameters.auth_file.as_deref(),
            self.options.mailq_version,
        );
        let accounts = Accounts::new(&config.parameters);
        let user_name = sys::users::effective_user_name();
        let client_settings =
            ClientSettings { started, user_name, with_vertices, uses_version_2, timeouts };
        let lookups = LookupWorker::start(self.spool.clone(), self.log.clone(), waker.clone())?;
        let arrivals = EventSource::Arrivals.token();
        let arrival_watch = ArrivalWatch::new(&self.spool, poll.registry(), arrivals)
            .inspect_err(|error| {
                log::warn!("transport/ is not watched; scans find mail without a notice: {error}");
            })
            .ok();
        let scan_limits =
            if self.options.synchronous { ScanLimits::NONE } else { self.options.scan_limits() };
        Ok(Daemon {
            poll,
            waker: waker.clone(),
            reloads: ReloadState::default(),
            clock,
            core: ObservedCore::new(core, watch.clone()),
            signals,
            spool_io,
            intake: Intake::new(timeouts.intake),
            agents,
            clients: Clients::new(client_settings, accounts, watch),
            lookups,
            listeners: Vec::new(),
            unbound_mailq: None,
            notify: None,
            notify_path: self.notify,
            arrival_watch,
            control_path: self.spool.control_socket(),
            mailq_file: self.spool.mailq_file(),
            next_open_attempt: Some(Instant::now()),
            unread_sources: Vec::new(),
            had_many_messages: false,
            held_agents: BTreeSet::new(),
            has_held_children: false,
            unread_obsoleted: HashMap::default(),
            unopened_jobs: None,
            scan_limits,
            timeouts,
            is_loading: true,
            level_after_load: logging::level(self.options.verbose),
            started_level: logging::level(self.options.verbose),
            config_path: self.config_path,
            zenv_path: self.zenv_path,
            context: self.context,
            started_config: config.clone(),
            config,
            log,
            other_logs,
            statistics,
            next_log_check: Instant::now() + log_checks::LOG_CHECK_INTERVAL,
            rendezvous: Rendezvous::new(self.rendezvous, started, with_vertices, waker.clone()),
            overrides: OverridesFile::default(),
            learned: LearnedFile::new(self.spool.learned_file(), timeouts.learned_interval, waker),
            rejected_clients_log: LogLimiter::default(),
            is_foreground: !self.options.is_daemon(),
            is_ending: false,
            is_draining: false,
            spool_lock,
        })
    }
}

/// Open log files.
struct Logs {
    log: BackgroundLog,
    statistics: Option<AppendedFile>,
    status_log: Option<AppendedFile>,
}

/// Opens a file, if it is wanted.
fn open<T>(
    path: Option<&Path>,
    open: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<Option<T>, StartError> {
    let at = |path: &Path| open(path).map_err(|error| StartError::because(path.display(), error));
    path.map(at).transpose()
}

/// Resource limits of the process, raised as far as possible.
struct ProcessLimits {
    descriptors: u64,
    /// Warnings about limits that remain too low.
    warnings: Vec<String>,
}

impl ProcessLimits {
    fn lift() -> Result<ProcessLimits, StartError> {
        let failed = |what: &'static str| move |error: io::Error| StartError::because(what, error);
        let size = sys::lift_file_size_limit().map_err(failed("RLIMIT_FSIZE"))?;
        let seconds = sys::lift_processor_limit().map_err(failed("RLIMIT_CPU"))?;
        let descriptors =
            sys::raise_file_limit(MAX_DESCRIPTORS).map_err(failed("RLIMIT_NOFILE"))?;
        if descriptors < MIN_DESCRIPTORS {
            return Err(StartError(format!(
                "only {descriptors} files can be open at a time (RLIMIT_NOFILE, ulimit -n): at least \
                 {MIN_DESCRIPTORS} are needed, 1024 or more are recommended"
            )));
        }
        let agents = max_agents(descriptors);
        let few = (agents <= MIN_AGENTS).then(|| {
            format!(
                "only {descriptors} files can be open at a time (RLIMIT_NOFILE, ulimit -n): at most {agents} \
                 agents run at a time, and MAILQ clients may be turned away"
            )
        });
        let size = size.map(|size| {
            format!(
                "no file can be larger than {size} bytes (RLIMIT_FSIZE, ulimit -f): logs end there, and messages \
                 whose control files reach it stay in the queue"
            )
        });
        let seconds = seconds.map(|seconds| {
            format!(
                "the system ends the scheduler after {seconds} s of processor time (RLIMIT_CPU)"
            )
        });
        let warnings = [few, size, seconds].into_iter().flatten().collect();
        Ok(ProcessLimits { descriptors, warnings })
    }
}

fn max_agents(descriptors: u64) -> u64 {
    descriptors.saturating_sub(OWN_DESCRIPTORS).max(MIN_AGENTS)
}

/// Folders with programs of agents: `$MAILBIN/ta`, or the folder of the scheduler's own program.
fn program_folders(zenv: &Zenv) -> Vec<PathBuf> {
    if let Some(folder) = zenv.get("MAILBIN") {
        return vec![Path::new(folder).join("ta")];
    }
    let own = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.to_path_buf()));
    own.map_or(Vec::new(), |own| vec![own.join("ta"), own])
}
