//! A word of a program's command line, with macros.
//!
//! A macro is replaced inside its word: no address makes several words of one, and no shell reads
//! the result.

use zsched_config::{ValueError, Zenv};

/// A word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word(Vec<Piece>);

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Macro(Macro),
}

/// What a part of a word stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Macro {
    /// `$u`: the recipient's address.
    User,
    /// `$U`: the same in lower case.
    LowerCaseUser,
    /// `$h`: the next host.
    Host,
    /// `$g`: the envelope sender, `<>` for the null sender.
    Sender,
}

/// A word that was read, and its unknown variables.
///
/// The ZENV file does not have these.
pub struct ParsedWord<'a> {
    pub word: Word,
    /// Offset in the text, and name.
    pub unknown_variables: Vec<(usize, &'a str)>,
}

impl Word {
    /// A word without macros.
    pub fn literal(text: &str) -> Word {
        Word(vec![Piece::Text(text.to_string())])
    }

    /// A word that is one macro.
    pub fn of_macro(name: Macro) -> Word {
        Word(vec![Piece::Macro(name)])
    }

    /// Parses a word. `${NAME}` is replaced by the variable of the ZENV file.
    pub fn parse<'a>(text: &'a str, zenv: &Zenv) -> Result<ParsedWord<'a>, ValueError> {
        let (mut pieces, mut unknown_variables) = (Vec::new(), Vec::new());
        let mut rest = text;
        while let Some(dollar) = memchr::memchr(b'$', rest.as_bytes()) {
            push_text(&mut pieces, &rest[..dollar]);
            let at = text.len() - rest.len() + dollar;
            let behind = &rest[dollar + 1..];
            if let Some(variable) = behind.strip_prefix('{') {
                let unclosed = || ValueError::new(at, "`${` without `}`");
                let (name, after) = variable.split_once('}').ok_or_else(unclosed)?;
                match zenv.get(name) {
                    Some(value) => push_text(&mut pieces, value),
                    None => unknown_variables.push((at, name)),
                }
                rest = after;
            } else {
                let name = behind.chars().next();
                let found =
                    name.and_then(Macro::of_letter).ok_or_else(|| unknown_macro(at, name))?;
                pieces.push(Piece::Macro(found));
                rest = &behind[1..];
            }
        }
        push_text(&mut pieces, rest);
        Ok(ParsedWord { word: Word(pieces), unknown_variables })
    }

    /// Returns true if the word has a macro that stands for a recipient.
    pub fn has_user(&self) -> bool {
        let is_user =
            |piece: &Piece| matches!(piece, Piece::Macro(Macro::User | Macro::LowerCaseUser));
        self.0.iter().any(is_user)
    }

    /// The macro that the word begins with.
    pub fn first_macro(&self) -> Option<Macro> {
        match self.0.first() {
            Some(Piece::Macro(name)) => Some(*name),
            _ => None,
        }
    }

    /// The word with the values of its macros.
    pub fn expand<'v>(&self, value: impl Fn(Macro) -> std::borrow::Cow<'v, [u8]>) -> Vec<u8> {
        let mut expanded = Vec::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => expanded.extend_from_slice(text.as_bytes()),
                Piece::Macro(name) => expanded.extend_from_slice(&value(*name)),
            }
        }
        expanded
    }
}

impl Macro {
    fn of_letter(letter: char) -> Option<Macro> {
        match letter {
            'u' => Some(Macro::User),
            'U' => Some(Macro::LowerCaseUser),
            'h' => Some(Macro::Host),
            'g' => Some(Macro::Sender),
            _ => None,
        }
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(last)) => last.push_str(text),
        _ => pieces.push(Piece::Text(text.to_string())),
    }
}

fn unknown_macro(at: usize, name: Option<char>) -> ValueError {
    let what = match name {
        Some(name) => format!("there is no macro `${}`", name.escape_debug()),
        None => "a `$` without a letter".to_string(),
    };
    ValueError::new(at, format!("{what}; there are $u, $U, $h, $g and ${{NAME}}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::borrow::Cow;

    fn zenv() -> Zenv {
        Zenv::from_pairs([("MAILBIN", "/opt/bin"), ("EMPTY", "")])
    }

    fn expanded(text: &str) -> Result<String, String> {
        let parsed = Word::parse(text, &zenv()).map_err(|e| format!("{}: {e}", e.at))?;
        let value = |name| match name {
            Macro::User => Cow::Borrowed(&b"A $g"[..]),
            Macro::LowerCaseUser => Cow::Borrowed(&b"a"[..]),
            Macro::Host => Cow::Borrowed(&b"host"[..]),
            Macro::Sender => Cow::Borrowed(&b"<>"[..]),
        };
        Ok(String::from_utf8(parsed.word.expand(value)).expect("text"))
    }

    #[test]
    fn macros_are_replaced_inside_their_word() {
        for (text, expected) in [
            ("$u", "A $g"),
            ("($U)", "(a)"),
            ("$h!rmail", "host!rmail"),
            ("-a$g", "-a<>"),
            ("$h$g", "host<>"),
            ("${MAILBIN}/x-$h", "/opt/bin/x-host"),
            ("${EMPTY}", ""),
            ("", ""),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn errors_have_offsets() {
        for (text, at) in [("$", 0), ("ab$", 2), ("a$x", 1), ("é$(id)", 2), ("a${b", 1), ("$$", 0)]
        {
            let error = expanded(text).expect_err(text);
            assert!(error.starts_with(&format!("{at}: ")), "{text}: {error}");
        }
        let parsed = Word::parse("a${NONE}b", &zenv()).expect("a word");
        assert_eq!(parsed.unknown_variables, [(1, "NONE")]);
    }

    proptest! {
        #[test]
        fn any_text_is_a_word_or_an_error(text in "(\\$|\\{|\\}|[a-zé]){0,20}") {
            drop(expanded(&text));
        }
    }
}
