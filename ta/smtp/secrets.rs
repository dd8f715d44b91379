//! The file of secrets for AUTH of ZMailer's `smtp` (option `-A`).
//!
//! A line has four words: channel (`*` for all), name of the server, user and password; the last
//! two in base64. Empty lines, and those that begin with `#`, are skipped.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum size of the file, in bytes.
const MAX_FILE_LEN: u64 = 1024 * 1024;

/// Finds the user and the password for a server. `None` if no line is for it.
///
/// # Errors
///
/// The file cannot be read, or a line before the one that is looked for is wrong.
pub fn find(path: &Path, channel: &str, server: &str) -> Result<Option<(String, String)>, String> {
    let mut text = String::new();
    let file = File::open(path).and_then(|file| file.take(MAX_FILE_LEN).read_to_string(&mut text));
    file.map_err(|error| format!("{}: {}", path.display(), crate::connection::reason(&error)))?;
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.first().is_none_or(|word| word.starts_with('#')) {
            continue;
        }
        let wrong = |what: &str| format!("{}:{}: {what}", path.display(), number + 1);
        let [of_channel, of_server, user, password] = words[..] else {
            return Err(wrong("a line has channel, server, user and password"));
        };
        if !["*", channel].contains(&of_channel) || !of_server.eq_ignore_ascii_case(server) {
            continue;
        }
        let decoded = |word: &str| {
            let bytes = STANDARD.decode(word).ok();
            bytes.and_then(|bytes| String::from_utf8(bytes).ok())
        };
        return match (decoded(user), decoded(password)) {
            (Some(user), Some(password)) => Ok(Some((user, password))),
            _ => Err(wrong("user and password are not in base64")),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_channel_and_server_is_found() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let text = "# secrets\n\nlmtp mx.test YQ== Yg==\n* MX.test  YW5u\tc2VjcmV0\n\
                    smtp bad.test a b\nsmtp x\n";
        std::fs::write(file.path(), text).expect("it takes text");
        let found = |channel, server| {
            let path = file.path().display().to_string();
            find(file.path(), channel, server).map_err(|why| why.replace(&path, "FILE"))
        };
        let both = |user: &str, password: &str| Ok(Some((user.to_string(), password.to_string())));
        assert_eq!(found("lmtp", "mx.test"), both("a", "b"));
        assert_eq!(found("smtp", "mx.test"), both("ann", "secret"));
        let wrong = Err("FILE:5: user and password are not in base64".to_string());
        assert_eq!(found("smtp", "bad.test"), wrong);
        let wrong = Err("FILE:6: a line has channel, server, user and password".to_string());
        assert_eq!(found("smtp", "other.test"), wrong);
        std::fs::write(file.path(), "# none\n").expect("it takes text");
        assert_eq!(found("smtp", "mx.test"), Ok(None));
    }
}
