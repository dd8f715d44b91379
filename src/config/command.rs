//! The command line of an agent: `MALLOC_=1 smtp -c $channel -l ${LOGDIR}/smtp`.
//!
//! It is split at blanks; there is no shell and no quoting.
//! Leading `NAME=value` words set the agent's environment.
//! A word that is exactly `$host` or `$channel` is replaced by the destination's host or channel.
//! In any word, `${host}` and `${channel}` are replaced too, and so are `${NAME}` and `$NAME` by a
//! variable of the ZENV file.

use super::diagnostic::{ValueError, quote};
use super::units::words;
use super::variables::{CHANNEL_WORD, HOST_WORD, Piece, Zenv, pieces, unknown_variable};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;

/// Variables of the ZENV file that every agent gets in its environment.
const PASSED_VARIABLES: [&str; 4] = ["PATH", "ZCONFIG", "SYSLOGFLG", "SYSLOGSOCKET"];

/// The command line of an agent before expansion (`command=`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCommand {
    /// The leading `NAME=value` words.
    assignments: Vec<(String, String)>,
    /// The program and its arguments.
    words: Vec<String>,
}

/// The command line of an agent, expanded for one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// The environment of the agent.
    ///
    /// It has the assignments of the command, then PATH, ZCONFIG, SYSLOGFLG and SYSLOGSOCKET of the
    /// ZENV file unless the command sets them.
    /// The original adds TZ from its own environment, and nothing else. Its agents read SYSLOGFLG
    /// from the ZENV file.
    pub environment: Vec<(OsString, OsString)>,
    /// The program and its arguments. A relative program is in `$MAILBIN/ta/`.
    pub words: Vec<OsString>,
}

impl AgentCommand {
    /// Parses a command line. Variables that will not be expanded produce a warning.
    pub(crate) fn parse(
        text: &str,
        zenv: &Zenv,
        warnings: &mut Vec<ValueError>,
    ) -> Result<AgentCommand, ValueError> {
        let mut command = AgentCommand { assignments: Vec::new(), words: Vec::new() };
        for (at, word) in words(text) {
            warnings.extend(variable_warnings(word, zenv).map(|warning| warning.offset_by(at)));
            match word.split_once('=') {
                Some((name, value)) if command.words.is_empty() && is_variable_name(name) => {
                    command.assignments.push((name.to_string(), value.to_string()));
                }
                _ => command.words.push(word.to_string()),
            }
        }
        if command.words.is_empty() {
            return Err(ValueError::new(0, "this command has no program"));
        }
        Ok(command)
    }

    /// Returns true if agents of this command serve only the host they were started for.
    ///
    /// That is so if one of the words is `$host`. Job lines then carry no host.
    pub fn serves_one_host(&self) -> bool {
        self.words.iter().any(|word| word == HOST_WORD)
    }

    /// The program, if it is the same for all destinations.
    pub fn program(&self, zenv: &Zenv) -> Option<OsString> {
        let word = self.words.first()?;
        let depends = matches!(word.as_str(), HOST_WORD | CHANNEL_WORD)
            || ["${host}", "${channel}"].iter().any(|variable| word.contains(variable));
        (!depends).then(|| expand_variables(word, b"", b"", zenv))
    }

    /// Expands the command for one destination.
    pub fn expand(&self, channel: &[u8], host: &[u8], zenv: &Zenv) -> Expanded {
        let put_in = |text: &str| expand_variables(text, channel, host, zenv);
        let set = self.assignments.iter().map(|(name, value)| (name.into(), put_in(value)));
        let is_set = |name: &str| self.assignments.iter().any(|(set, _)| set == name);
        let passed_on = PASSED_VARIABLES
            .into_iter()
            .filter(|name| !is_set(name))
            .filter_map(|name| Some((name.into(), zenv.get(name)?.into())));
        let word = |word: &String| match word.as_str() {
            HOST_WORD => OsString::from_vec(host.to_vec()),
            CHANNEL_WORD => OsString::from_vec(channel.to_vec()),
            word => put_in(word),
        };
        Expanded {
            environment: set.chain(passed_on).collect(),
            words: self.words.iter().map(word).collect(),
        }
    }
}

impl fmt::Display for AgentCommand {
    /// Formats the command line unexpanded, with single blanks between its words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.assignments.iter().map(|(name, value)| format!("{name}={value}"));
        let words: Vec<String> = set.chain(self.words.iter().cloned()).collect();
        f.write_str(&words.join(" "))
    }
}

/// Expands the variables in `text`.
fn expand_variables(text: &str, channel: &[u8], host: &[u8], zenv: &Zenv) -> OsString {
    let bytes = pieces(text).into_iter().flat_map(|(_, piece)| match piece {
        Piece::Plain(text) => text.as_bytes(),
        Piece::Variable("host") => host,
        Piece::Variable("channel") => channel,
        Piece::Variable(name) => zenv.get(name).unwrap_or_default().as_bytes(),
        Piece::Bare(text) => zenv.get_bare(text).unwrap_or(text).as_bytes(),
    });
    OsString::from_vec(bytes.copied().collect())
}

/// Warnings about variables of a word that are not expanded, or expand to nothing.
fn variable_warnings(word: &str, zenv: &Zenv) -> impl Iterator<Item = ValueError> {
    let is_whole = matches!(word, HOST_WORD | CHANNEL_WORD);
    let pieces = if is_whole { Vec::new() } else { pieces(word) };
    let stays = |at: usize, text: &str| {
        let braced = quote(&format!("${{{}}}", &text[1..]));
        let message = match text {
            HOST_WORD | CHANNEL_WORD => format!("write {braced}"),
            _ => format!("the ZENV file has no {braced}"),
        };
        ValueError::new(at, format!("{} is not expanded here; {message}", quote(text)))
    };
    pieces.into_iter().filter_map(move |(at, piece)| match piece {
        Piece::Plain("$") if word[at..].starts_with("${") => {
            Some(ValueError::new(at, "this `${` has no `}`"))
        }
        Piece::Plain(_) | Piece::Variable("host" | "channel") => None,
        Piece::Variable(name) if zenv.get(name).is_some() => None,
        Piece::Variable(name) => Some(unknown_variable(at, name)),
        Piece::Bare(text) => zenv.get_bare(text).is_none().then(|| stays(at, text)),
    })
}

fn is_variable_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zenv() -> Zenv {
        Zenv::from_pairs([("LOGDIR", "/var/log/my mail"), ("PATH", "/bin"), ("ZCONFIG", "/z")])
    }

    fn command(text: &str) -> AgentCommand {
        AgentCommand::parse(text, &zenv(), &mut Vec::new()).expect(text)
    }

    /// Environment and words in one line; words are separated by `|`.
    fn expanded(text: &str) -> String {
        let expanded = command(text).expand(b"smtp", b"mx.test", &zenv());
        let text = |text: OsString| text.into_string().expect("text");
        let set = expanded
            .environment
            .into_iter()
            .map(|(name, value)| format!("{}={}", text(name), text(value)));
        let words: Vec<String> = expanded.words.into_iter().map(text).collect();
        format!("{} {}", set.collect::<Vec<_>>().join(" "), words.join("|"))
    }

    #[test]
    fn expand_splits_words_before_variables() {
        for (text, expected) in [
            ("hold", "PATH=/bin ZCONFIG=/z hold"),
            (
                "smtp -l ${LOGDIR}/smtp  -c $channel $host",
                "PATH=/bin ZCONFIG=/z smtp|-l|/var/log/my mail/smtp|-c|smtp|mx.test",
            ),
            ("sm x${host}y$host ${NO}", "PATH=/bin ZCONFIG=/z sm|xmx.testy$host|"),
            (
                "A_1=${channel}:${LOGDIR} PATH=/x B= a b=c",
                "A_1=smtp:/var/log/my mail PATH=/x B= ZCONFIG=/z a|b=c",
            ),
            ("1=2 a", "PATH=/bin ZCONFIG=/z 1=2|a"),
            // `$host` is replaced only as a whole word, which it is not here.
            ("C=$host a", "C=$host PATH=/bin ZCONFIG=/z a"),
            // The form in ZMailer's manual.
            (
                "A=$PATH smtp -srl $LOGDIR/smtp",
                "A=/bin PATH=/bin ZCONFIG=/z smtp|-srl|/var/log/my mail/smtp",
            ),
            ("a $LOGDIRS $1", "PATH=/bin ZCONFIG=/z a|$LOGDIRS|$1"),
            ("${LOGDIR}${PATH}", "PATH=/bin ZCONFIG=/z /var/log/my mail/bin"),
        ] {
            assert_eq!(expanded(text), expected, "{text}");
        }
    }

    #[test]
    fn expand_keeps_bytes_of_names() {
        let expanded = command("a $host").expand(b"c", b"\xff\xfe", &Zenv::default());
        assert_eq!(expanded.words[1].clone().into_vec(), b"\xff\xfe");
        assert_eq!(expanded.environment, []);
    }

    #[test]
    fn serves_one_host_requires_whole_word() {
        for (text, expected) in [
            ("smtp $host", true),
            ("smtp -x $host -y", true),
            ("smtp ${host}", false),
            ("smtp x$host", false),
            ("H=$host smtp", false),
            ("smtp $channel", false),
        ] {
            assert_eq!(command(text).serves_one_host(), expected, "{text}");
        }
    }

    #[test]
    fn command_without_program_is_refused() {
        for text in ["", "  ", "A=b", "A=b C=d"] {
            assert!(AgentCommand::parse(text, &zenv(), &mut Vec::new()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn unknown_variables_produce_warnings() {
        for (text, expected) in [
            ("a $host $channel ${host} ${channel} ${LOGDIR} $ 1$", vec![]),
            ("a $LOGDIR/x A=$LOGDIR", vec![]),
            (
                "a x$LOGDIRS",
                vec![(3, "`$LOGDIRS` is not expanded here; the ZENV file has no `${LOGDIRS}`")],
            ),
            ("a  x$host", vec![(4, "`$host` is not expanded here; write `${host}`")]),
            ("a ${NO}", vec![(2, "the ZENV file has no `${NO}`; it expands to nothing")]),
            (
                "A=${NO} a ${LOG",
                vec![
                    (2, "the ZENV file has no `${NO}`; it expands to nothing"),
                    (10, "this `${` has no `}`"),
                ],
            ),
        ] {
            let mut warnings = Vec::new();
            AgentCommand::parse(text, &zenv(), &mut warnings).expect(text);
            let warnings: Vec<(usize, &str)> =
                warnings.iter().map(|warning| (warning.at, warning.message.as_str())).collect();
            assert_eq!(warnings, expected, "{text}");
        }
    }
}
