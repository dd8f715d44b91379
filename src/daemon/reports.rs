//! Texts of reports to senders: the facts of a control file, and the form of the operator.
//!
//! The form is `forms/delivery` below MAILSHARE, as in ZMailer, or `forms/<language>/delivery` for
//! the language of the message (`Accept-Language`, `Content-Language`). Without one, the text of
//! the crate `zsched_report` is used.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zsched_config::Zenv;
use zsched_format::control_file::diagnostic::{last_attempt, retry_until};
use zsched_format::control_file::notify::Notify;
use zsched_format::time::Timestamp;
use zsched_report::{Form, RecipientStatus, Report, ReportKind, TimeZone, read_form_file};
use zsched_spool::report::{ReportContents, ReportOptions, ReportText, ReportedRecipient};
use zsched_sys as sys;

/// The folder of forms below MAILSHARE.
const FORMS: &str = "forms";
/// The form for reports about deliveries.
const DELIVERY: &str = "delivery";

/// Parameters of the configuration for reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportPolicy {
    /// Do not wait for the disk (`PARAMmsgwriteasync`).
    pub(crate) is_async: bool,
    /// Store reports without a recipient (`PARAMstore-error-on-error`).
    pub(crate) stores_unaddressed: bool,
}

/// What all reports of this installation have in common.
pub(crate) struct ReportComposer {
    forms: PathBuf,
    reporting_mta: String,
    submitter: String,
    zone: TimeZone,
    /// Return only headers unless the sender requests the whole message (`-n`).
    headers_only: bool,
}

/// Composes reports with the present forms, each of which is read once.
pub(crate) struct FormComposer<'c> {
    common: &'c ReportComposer,
    /// Forms by language; that of all others has none.
    forms: Mutex<HashMap<Option<String>, Option<Arc<Form>>>>,
}

impl ReportComposer {
    /// Creates a composer. `mail_share` has the forms.
    pub(crate) fn new(zenv: &Zenv, mail_share: &Path, headers_only: bool) -> ReportComposer {
        let host = sys::host_name();
        let submitter = format!("{}@{host}", sys::users::effective_user_name());
        let reporting_mta = zenv.get("ORGDOMAIN").map_or(host, str::to_string);
        let forms = mail_share.join(FORMS);
        ReportComposer { forms, reporting_mta, submitter, zone: TimeZone::system(), headers_only }
    }

    /// How reports are sent.
    pub(crate) fn options(&self, policy: ReportPolicy) -> ReportOptions {
        ReportOptions { headers_only: self.headers_only, is_async: policy.is_async }
    }

    /// A composer that reads each form at most once.
    pub(crate) fn with_forms(&self) -> FormComposer<'_> {
        FormComposer { common: self, forms: Mutex::new(HashMap::new()) }
    }
}

impl FormComposer<'_> {
    /// Composes a report.
    pub(crate) fn compose(
        &self,
        contents: &ReportContents<'_>,
        policy: ReportPolicy,
    ) -> ReportText {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let spool_id = contents.spool_id.to_string();
        let now = Timestamp::now();
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let id = format!("{spool_id}.{}.{count}", now.seconds());
        let report = Report {
            kind: ReportKind::Delivery,
            reporting_mta: &self.common.reporting_mta,
            submitter: &self.common.submitter,
            id: &id,
            sender: contents.sender,
            spool_id: &spool_id,
            envelope_id: contents.envelope_id,
            arrival: contents.spool_id.modified,
            now,
            zone: self.common.zone.clone(),
            recipients: contents.recipients.iter().map(status).collect(),
            headers: contents.headers,
            body: contents.body,
        };
        let form = self.form(&zsched_report::languages(contents.headers));
        match zsched_report::compose(&report, &form) {
            Some(text) => ReportText::Submission(text),
            None if policy.stores_unaddressed => zsched_report::compose_unaddressed(&report, &form)
                .map_or(ReportText::None, ReportText::Stored),
            None => ReportText::None,
        }
    }

    /// The form for the first language that has one.
    fn form(&self, languages: &[String]) -> Arc<Form> {
        let mut forms = self.forms.lock().unwrap_or_else(PoisonError::into_inner);
        let languages = languages.iter().cloned().map(Some).chain([None]);
        let mut of_language = |language: Option<String>| {
            let path = match &language {
                Some(language) => self.common.forms.join(language).join(DELIVERY),
                None => self.common.forms.join(DELIVERY),
            };
            forms.entry(language).or_insert_with(|| read_form(&path)).clone()
        };
        languages.into_iter().find_map(&mut of_language).unwrap_or_default()
    }
}

/// Reads a form. One that cannot be used is logged, and counts as missing.
fn read_form(path: &Path) -> Option<Arc<Form>> {
    let text = match read_form_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            log::error!("{}: {error}; the form is not used", path.display());
            return None;
        }
        Ok(text) => text,
    };
    match Form::parse(&text) {
        Ok(form) => Some(Arc::new(form)),
        Err(error) => {
            log::error!("{}:{error}; the form is not used", path.display());
            None
        }
    }
}

fn status(recipient: &ReportedRecipient) -> RecipientStatus<'_> {
    let notify = Notify::parse(&recipient.notify);
    RecipientStatus {
        address: &recipient.address,
        channel: &recipient.channel,
        host: &recipient.host,
        original_recipient: notify.original_recipient,
        arrived_as: notify.incoming_recipient,
        notary: &recipient.notary,
        text: &recipient.text,
        time: last_attempt(&recipient.notary, recipient.time),
        retry_until: retry_until(&recipient.notary),
    }
}

/// Checks all forms below MAILSHARE, also those of `errormail` and of languages.
///
/// Returns the mistakes, with the path of the form.
pub(crate) fn check_forms(mail_share: &Path) -> Vec<String> {
    let (folders, mut forms): (Vec<PathBuf>, Vec<PathBuf>) =
        visible_entries(&mail_share.join(FORMS)).into_iter().partition(|path| path.is_dir());
    forms.extend(folders.iter().flat_map(|folder| visible_entries(folder)));
    let mistake = |path: PathBuf| match read_form_file(&path) {
        Err(error) => Some(format!("{}: {error}", path.display())),
        Ok(text) => Some(format!("{}:{}", path.display(), Form::parse(&text).err()?)),
    };
    forms.into_iter().filter_map(mistake).collect()
}

/// The paths in a folder, sorted, without hidden ones.
fn visible_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let visible = entries.filter(|entry| !entry.file_name().as_bytes().starts_with(b"."));
    let mut paths: Vec<PathBuf> = visible.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
