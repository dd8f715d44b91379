//! The command line.

use crate::error::EnqueueError;
use std::ffi::OsString;
use std::path::PathBuf;

/// Maximum length of a name in the host, in bytes.
const MAX_NAME_LEN: usize = 255;
/// Maximum length of a sender, in bytes.
pub const MAX_SENDER_LEN: usize = 1000;

#[derive(Debug)]
pub struct Options {
    /// `domain/list/function`.
    pub host: String,
    /// The sender of the envelope, `<>` for none. Without it the `From_` line has it.
    pub sender: Option<String>,
    pub zenv: Option<PathBuf>,
}

impl Options {
    /// Parses the arguments. Returns `None` if only the version is asked for.
    pub fn parse(
        mut arguments: impl Iterator<Item = OsString>,
    ) -> Result<Option<Options>, EnqueueError> {
        let usage = |why: &str| EnqueueError::Usage(why.to_string());
        let (mut host, mut sender, mut zenv) = (None, None, None);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| usage("an option needs a value"));
            match argument.to_str() {
                Some("-V" | "--version") => return Ok(None),
                Some("-Z") => zenv = Some(PathBuf::from(value()?)),
                Some("-f") => {
                    let value = value()?;
                    let text = value.to_str().ok_or_else(|| usage("the sender is not text"))?;
                    sender = Some(sender_of(text).map_err(&usage)?);
                }
                Some(option) if option.starts_with('-') => return Err(usage("unknown option")),
                Some(text) if host.is_none() => {
                    host = Some(host_of(text).map_err(&usage)?);
                }
                Some(_) => return Err(usage("more than one list is named")),
                None => return Err(usage("an argument is not text")),
            }
        }
        let host = host.ok_or_else(|| usage("no list is named"))?;
        Ok(Some(Options { host, sender, zenv }))
    }
}

/// The host for an argument: three names that can be names of files.
fn host_of(text: &str) -> Result<String, &'static str> {
    let names: Vec<&str> = text.split('/').collect();
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.len() <= MAX_NAME_LEN
            && !name.starts_with('.')
            && !name.contains(|c: char| c.is_control() || c.is_whitespace())
    };
    match names.len() == 3 && names.iter().all(is_name) {
        true => Ok(text.to_lowercase()),
        false => Err("the list is not of the form domain/list/function"),
    }
}

/// A sender for the envelope: one word, in or without angle brackets; empty is the null sender.
pub fn sender_of(text: &str) -> Result<String, &'static str> {
    let bare = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    if bare.len() > MAX_SENDER_LEN {
        return Err("the sender is too long");
    }
    if bare.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err("the sender has a blank or a control character");
    }
    Ok(if bare.is_empty() { "<>".to_string() } else { bare.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Option<Options>, String> {
        Options::parse(words.iter().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn list_is_named_once_and_safely() {
        let options = parse(&["-f", "<a@b>", "X.test/talk/list"]).expect("right").expect("options");
        assert_eq!(
            (options.host.as_str(), options.sender.as_deref()),
            ("x.test/talk/list", Some("a@b"))
        );
        for (words, why) in [
            (&[][..], "no list is named"),
            (&["a/b/c", "a/b/d"], "more than one list is named"),
            (&["a/../c"], "the list is not of the form domain/list/function"),
            (&["a/b"], "the list is not of the form domain/list/function"),
            (&["a/b/c\nfrom x"], "the list is not of the form domain/list/function"),
            (&["-f"], "an option needs a value"),
            (&["-f", "a b", "a/b/c"], "the sender has a blank or a control character"),
            (&["-x", "a/b/c"], "unknown option"),
        ] {
            let error = parse(words).expect_err("wrong");
            assert_eq!(error.lines().next(), Some(why), "{words:?}");
        }
    }

    #[test]
    fn null_sender_has_one_form() {
        for text in ["", "<>"] {
            assert_eq!(sender_of(text).as_deref(), Ok("<>"));
        }
    }
}
