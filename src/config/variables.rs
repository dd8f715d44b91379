//! The ZENV file, and the expansion of its variables.
//!
//! ```text
//! MAILBIN=/opt/mail/bin        one definition a line; the first of the same name counts
//! LOGDIR= /var/log/mail        blanks after the equals sign are ignored; there are no quotes
//! ```
//!
//! `${LOGDIR}` in a value is replaced by the variable's value.
//! So is `$LOGDIR`, but only if the file defines that name.
//! A name without braces extends as far as it can: letters, digits and `_`, not beginning with a
//! digit.
//! `$host` and `$channel` are never variables of the file, even if it defines them.

use super::diagnostic::{UNKNOWN_VARIABLE_PREFIX, ValueError, quote};
use super::syntax::MappedText;
use nom::branch::alt;
use nom::bytes::complete::{is_not, tag, take_while};
use nom::character::complete::satisfy;
use nom::combinator::{map, recognize};
use nom::sequence::delimited;
use nom::{IResult, Offset, Parser};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// The word of a command that restricts an agent to one host.
pub(crate) const HOST_WORD: &str = "$host";
/// The word of a command that is replaced by the channel.
pub(crate) const CHANNEL_WORD: &str = "$channel";

/// The variables of a ZMailer installation, from its ZENV file (`zmailer.conf`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zenv {
    variables: HashMap<String, String>,
}

/// The ZENV file that the caller or `ZCONFIG` in the environment names.
fn chosen_path(named: Option<&Path>) -> Option<PathBuf> {
    let of_environment = || std::env::var_os("ZCONFIG").filter(|path| !path.is_empty());
    named.map(Path::to_path_buf).or_else(|| of_environment().map(PathBuf::from))
}

impl Zenv {
    /// Default path of the ZENV file.
    const DEFAULT_PATH: &str = "/etc/zmailer.conf";
    /// Default `MAILSHARE`.
    const DEFAULT_MAILSHARE: &str = "/usr/share/zmailer";

    /// Path of the ZENV file of the installation.
    ///
    /// It is the named one, else that of `ZCONFIG` in the environment, else `/etc/zmailer.conf`.
    pub fn path(named: Option<&Path>) -> PathBuf {
        chosen_path(named).unwrap_or_else(|| PathBuf::from(Zenv::DEFAULT_PATH))
    }

    /// Reads the ZENV file of the installation, see [`Zenv::path`].
    ///
    /// `None` if neither the caller nor `ZCONFIG` names one, and the default one does not exist.
    pub fn find(named: Option<&Path>) -> io::Result<Option<Zenv>> {
        match Zenv::read(&Zenv::path(named)) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && chosen_path(named).is_none() =>
            {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// The folder of configurations and forms: `MAILSHARE`, or its default.
    pub fn mail_share(&self) -> &Path {
        Path::new(self.get("MAILSHARE").unwrap_or(Zenv::DEFAULT_MAILSHARE))
    }

    /// Reads a ZENV file.
    ///
    /// An error names the file, and the line if a definition is not text.
    pub fn read(path: &Path) -> io::Result<Zenv> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        Zenv::parse(&std::fs::read(path).map_err(named)?).map_err(named)
    }

    /// Creates variables from names and values. The first of the same name counts.
    pub fn from_pairs<N: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Zenv {
        let mut zenv = Zenv::default();
        for (name, value) in pairs {
            zenv.variables.entry(name.into()).or_insert(value.into());
        }
        zenv
    }

    /// All variables, sorted by name.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let pairs = self.variables.iter().map(|(name, value)| (name.clone(), value.clone()));
        let mut pairs: Vec<(String, String)> = pairs.collect();
        pairs.sort();
        pairs
    }

    /// Parses the text of a ZENV file.
    ///
    /// An error names the line if a definition is not text.
    pub fn parse(text: &[u8]) -> io::Result<Zenv> {
        let mut zenv = Zenv::default();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.starts_with(b"#") || !line.contains(&b'=') {
                continue;
            }
            let definition = std::str::from_utf8(line).ok().filter(|line| !line.contains('\0'));
            let Some((name, value)) = definition.and_then(|line| line.split_once('=')) else {
                let message = format!("line {} is not UTF-8 text", index + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            };
            let (name, value) = (name.trim_end().to_string(), value.trim_start().to_string());
            zenv.variables.entry(name).or_insert(value);
        }
        Ok(zenv)
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Expands the variables in `text`. An unknown `${NAME}` is replaced by nothing.
    pub fn expand(&self, text: &str) -> String {
        let value = |(_, piece)| match piece {
            Piece::Plain(text) => text,
            Piece::Variable(name) => self.get(name).unwrap_or_default(),
            Piece::Bare(text) => self.get_bare(text).unwrap_or(text),
        };
        pieces(text).into_iter().map(value).collect()
    }

    /// The value of a [`Piece::Bare`].
    pub(crate) fn get_bare(&self, text: &str) -> Option<&str> {
        match text {
            HOST_WORD | CHANNEL_WORD => None,
            _ => self.get(&text[1..]),
        }
    }
}

/// A part of a value that may contain variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Literal text.
    Plain(&'a str),
    /// `${NAME}`; holds the name.
    Variable(&'a str),
    /// `$NAME`; holds the text with the `$`. It is literal unless the ZENV file defines the name.
    Bare(&'a str),
}

/// Splits a value into parts, each with its byte offset.
pub(crate) fn pieces(text: &str) -> Vec<(usize, Piece<'_>)> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Ok((after, piece)) = piece(rest) {
        pieces.push((text.offset(rest), piece));
        rest = after;
    }
    pieces
}

fn piece(input: &str) -> IResult<&str, Piece<'_>> {
    let name = take_while(|c: char| !"${}".contains(c) && !c.is_whitespace());
    let variable = delimited(tag("${"), name, tag("}"));
    let first = satisfy(|c| c.is_ascii_alphabetic() || c == '_');
    let others = take_while(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let bare = recognize((tag("$"), first, others));
    let plain = alt((is_not("$"), tag("$")));
    alt((map(variable, Piece::Variable), map(bare, Piece::Bare), map(plain, Piece::Plain)))
        .parse(input)
}

/// Expands the variables of a value in the configuration file. Unknown ones produce a warning.
pub(crate) fn expand_value(
    value: &MappedText,
    zenv: &Zenv,
    warnings: &mut Vec<ValueError>,
) -> Result<MappedText, ValueError> {
    let mut expanded = MappedText::new(value.start());
    let mut has_variables = false;
    for (at, piece) in pieces(value.as_str()) {
        let substitute = match piece {
            Piece::Plain(_) => None,
            Piece::Bare(text) => zenv.get_bare(text),
            Piece::Variable(name) => {
                let known = zenv.get(name);
                if known.is_none() {
                    warnings.push(unknown_variable(at, name));
                }
                Some(known.unwrap_or_default())
            }
        };
        match (piece, substitute) {
            (_, Some(substitute)) => {
                has_variables = true;
                expanded.push_substitute(substitute, value.offset_of(at));
            }
            (Piece::Plain(text) | Piece::Bare(text) | Piece::Variable(text), None) => {
                expanded.push_part(value, at..at + text.len());
            }
        }
    }
    // The effective configuration is printed with expanded values, and a quote cannot be escaped.
    if has_variables && !can_be_shown(expanded.as_str(), zenv) {
        let message = format!("neither \" nor a variable may be in {}", quote(expanded.as_str()));
        return Err(ValueError::new(0, message));
    }
    Ok(expanded)
}

/// Returns true if an expanded value, when printed, is read back unchanged.
fn can_be_shown(value: &str, zenv: &Zenv) -> bool {
    let is_plain = |piece: Piece<'_>| match piece {
        Piece::Plain(_) => true,
        Piece::Variable(_) => false,
        Piece::Bare(text) => zenv.get_bare(text).is_none(),
    };
    !value.contains('"') && pieces(value).into_iter().all(|(_, piece)| is_plain(piece))
}

/// The warning about a variable without a value.
pub(crate) fn unknown_variable(at: usize, name: &str) -> ValueError {
    let variable = quote(&format!("${{{name}}}"));
    ValueError::new(at, format!("{UNKNOWN_VARIABLE_PREFIX}{variable}; it expands to nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zenv_file_is_parsed_line_by_line() {
        let text = b"# \xe4\n\nPOSTOFFICE=/var/spool/postoffice\r\nLOGDIR=  /var/log/my mail \n\
            LOGDIR=/second\nQUOTED=\"x\"\n no definition\n  A = b=c\nEMPTY=\n";
        let zenv = Zenv::parse(text).expect("a well-formed file");
        for (name, value) in [
            ("POSTOFFICE", Some("/var/spool/postoffice")),
            ("LOGDIR", Some("/var/log/my mail")),
            ("QUOTED", Some("\"x\"")),
            ("A", Some("b=c")),
            ("EMPTY", Some("")),
            ("no definition", None),
            ("postoffice", None),
        ] {
            assert_eq!(zenv.get(name), value, "{name}");
        }
    }

    #[test]
    fn zenv_definition_that_is_not_utf8_is_refused() {
        for text in [&b"A=b\nC=\xff\n"[..], b"A=b\nC=d\0\n"] {
            let error = Zenv::parse(text).expect_err("not text");
            assert_eq!(error.to_string(), "line 2 is not UTF-8 text");
        }
        let error = Zenv::read(Path::new("/no/such/file")).expect_err("no such file");
        assert!(error.to_string().starts_with("/no/such/file: "), "{error}");
    }

    #[test]
    fn variables_in_values_are_expanded() {
        let zenv = Zenv::from_pairs([
            ("A", "1"),
            ("B", "2"),
            ("A", "3"),
            ("LOOP", "${A}"),
            ("A_1", "4"),
            ("host", "h"),
        ]);
        for (text, expected) in [
            ("$A/x", "1/x"),
            ("$A$B", "12"),
            ("x$A-$A_1.$A_2", "x1-4.$A_2"),
            ("$1 $$A $", "$1 $1 $"),
            ("$host $channel ${host}", "$host $channel h"),
            ("", ""),
            ("x", "x"),
            ("${A}${B}", "12"),
            ("a${A}b$Ac${UNKNOWN}d", "a1b$Acd"),
            ("$${A}$", "$1$"),
            ("${A", "${A"),
            ("${${A}}", "${1}"),
            ("${}${LOOP}", "${A}"),
            ("é${A}é", "é1é"),
        ] {
            assert_eq!(zenv.expand(text), expected, "{text}");
        }
    }

    #[test]
    fn expanded_value_keeps_positions() {
        let zenv = Zenv::from_pairs([("LONG", "0123456789")]);
        let mut value = MappedText::new(100);
        value.push("ab${LONG}cd${X}", 100);
        value.push("ef", 200);
        let mut warnings = Vec::new();
        let expanded = expand_value(&value, &zenv, &mut warnings).expect("nothing is wrong");
        assert_eq!(expanded.as_str(), "ab0123456789cdef");
        let places: Vec<usize> =
            [0, 2, 5, 12, 13, 14, 15].map(|index| expanded.offset_of(index)).to_vec();
        assert_eq!(places, [100, 102, 102, 109, 110, 200, 201]);
        assert_eq!(warnings.iter().map(|warning| warning.at).collect::<Vec<_>>(), [11]);
    }

    #[test]
    fn expanded_value_that_cannot_be_printed_is_refused() {
        let zenv = Zenv::from_pairs([("Q", "a\"b"), ("V", "${Q}"), ("W", "$Q")]);
        for text in ["${Q}", "${V}", "$Q", "$V", "$W"] {
            let mut value = MappedText::new(0);
            value.push(text, 0);
            assert!(expand_value(&value, &zenv, &mut Vec::new()).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn pieces_of_any_text_join_to_the_text(text in "([${}a é]){0,30}") {
            let whole: String = pieces(&text)
                .into_iter()
                .map(|(_, piece)| match piece {
                    Piece::Plain(text) | Piece::Bare(text) => text.to_string(),
                    Piece::Variable(name) => format!("${{{name}}}"),
                })
                .collect();
            proptest::prop_assert_eq!(whole, text);
        }
    }
}
