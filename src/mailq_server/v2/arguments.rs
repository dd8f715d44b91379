//! Splits requests into words, separated by blanks, and options.
//!
//! ```text
//! smtp/*.test "a word with \"quotes\"" older=2h reason="two words"
//! ```
//!
//! A word that begins with a quote ends with one; inside, a backslash precedes a quote or another
//! backslash. An option is a name in lower case, `=`, and a value with the same syntax as a word.
//! Options may stand anywhere. Everything is UTF-8 without control characters. Errors name their
//! offset.

/// A syntax error in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Offset in bytes.
    pub at: usize,
    /// Description of the error.
    pub what: String,
}

impl SyntaxError {
    /// Creates an error at this offset.
    pub fn new(at: usize, what: impl Into<String>) -> SyntaxError {
        SyntaxError { at, what: what.into() }
    }
}

/// A word, or the value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Offset of its first byte.
    pub at: usize,
    /// The text without quotes.
    pub text: String,
}

impl Word {
    /// Creates an error at this word.
    pub fn error(&self, what: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.at, what)
    }
}

/// All words of a request.
///
/// Each part of the parser takes the words that it understands; a word left over is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    words: std::collections::VecDeque<Word>,
    options: Vec<(String, Word)>,
    length: usize,
}

impl Arguments {
    /// Splits the rest of a request, after its verb.
    pub fn parse(text: &[u8]) -> Result<Arguments, SyntaxError> {
        let text = std::str::from_utf8(text)
            .map_err(|error| SyntaxError::new(error.valid_up_to(), "this is not UTF-8"))?;
        let is_wrong = |(_, c): &(usize, char)| c.is_control() && *c != '\t';
        if let Some((at, _)) = text.char_indices().find(is_wrong) {
            return Err(SyntaxError::new(at, "a control character"));
        }
        let mut words = Arguments { words: [].into(), options: Vec::new(), length: text.len() };
        let mut reader = Reader { whole: text, at: 0 };
        while reader.skip_blanks() {
            words.add(&mut reader)?;
        }
        Ok(words)
    }

    fn add(&mut self, reader: &mut Reader<'_>) -> Result<(), SyntaxError> {
        let start = reader.at;
        let Some(name) = reader.option_name() else {
            self.words.push_back(reader.word()?);
            return Ok(());
        };
        if self.options.iter().any(|(known, _)| *known == name) {
            return Err(SyntaxError::new(start, format!("{name}= is given twice")));
        }
        let value = reader.word()?;
        self.options.push((name, value));
        Ok(())
    }

    /// Takes the next word that is not an option.
    pub fn next_word(&mut self) -> Option<Word> {
        self.words.pop_front()
    }

    /// Takes the next word if it is this one.
    ///
    /// Returns true if it was.
    pub fn take_if(&mut self, text: &str) -> bool {
        let is_next = self.words.front().is_some_and(|word| word.text == text);
        is_next && self.words.pop_front().is_some()
    }

    /// Takes the next word; an error says that `what` is missing.
    pub fn expect(&mut self, what: &str) -> Result<Word, SyntaxError> {
        let end = self.length;
        self.next_word().ok_or_else(|| SyntaxError::new(end, format!("{what} is missing")))
    }

    /// Takes the value of an option, if it is given.
    pub fn option(&mut self, name: &str) -> Option<Word> {
        let index = self.options.iter().position(|(known, _)| known == name)?;
        Some(self.options.remove(index).1)
    }

    /// Returns true if an option is given as `yes`; `no` is permitted, too.
    pub fn flag(&mut self, name: &str) -> Result<bool, SyntaxError> {
        match self.option(name) {
            None => Ok(false),
            Some(value) => match value.text.as_str() {
                "yes" => Ok(true),
                "no" => Ok(false),
                _ => Err(value.error(format!("{name}= is yes or no"))),
            },
        }
    }

    /// Returns an error if a word or an option was not taken.
    pub fn end(self) -> Result<(), SyntaxError> {
        if let Some(word) = self.words.front() {
            return Err(word.error("unexpected word"));
        }
        match self.options.first() {
            Some((name, value)) => Err(value.error(format!("unknown option {name}="))),
            None => Ok(()),
        }
    }
}

/// The part of a request that is not split yet.
struct Reader<'t> {
    whole: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.whole[self.at..]
    }

    /// Advances to the next word. Returns true if there is one.
    fn skip_blanks(&mut self) -> bool {
        self.at = self.whole.len() - self.rest().trim_start_matches(is_blank).len();
        !self.rest().is_empty()
    }

    /// Takes the name of an option and its `=`.
    fn option_name(&mut self) -> Option<String> {
        let (name, _) = self.rest().split_once('=')?;
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.bytes().all(is_letter) {
            return None;
        }
        self.at += name.len() + 1;
        Some(name.to_string())
    }

    /// Takes a word, quoted or not; it may be empty.
    fn word(&mut self) -> Result<Word, SyntaxError> {
        let start = self.at;
        if self.rest().starts_with('"') {
            return Ok(Word { at: start, text: self.quoted()? });
        }
        let end = self.rest().find(is_blank).unwrap_or(self.rest().len());
        let text = &self.rest()[..end];
        if let Some(at) = text.find('"') {
            return Err(SyntaxError::new(start + at, "a quote in the middle of a word"));
        }
        self.at += end;
        Ok(Word { at: start, text: text.to_string() })
    }

    fn quoted(&mut self) -> Result<String, SyntaxError> {
        let (start, mut text) = (self.at, String::new());
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, next)) = chars.next() {
            let after = start + at + 1;
            match next {
                '"' => {
                    self.at = after;
                    return match self.rest().is_empty() || self.rest().starts_with(is_blank) {
                        true => Ok(text),
                        false => Err(SyntaxError::new(after, "expected a blank after the quote")),
                    };
                }
                '\\' => {
                    let what = "a backslash must be followed by a quote or a backslash";
                    let escaped = chars.next().map(|(_, c)| c).filter(|c| matches!(c, '"' | '\\'));
                    text.push(escaped.ok_or_else(|| SyntaxError::new(after, what))?);
                }
                other => text.push(other),
            }
        }
        Err(SyntaxError::new(start, "unclosed quote"))
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Quotes a word for a request, if needed.
    fn quote(text: &str) -> String {
        let is_plain = !text.is_empty() && !text.contains([' ', '\t', '"', '\\', '=']);
        if is_plain {
            return text.to_string();
        }
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    }

    fn parse(text: &str) -> Result<Arguments, SyntaxError> {
        Arguments::parse(text.as_bytes())
    }

    #[test]
    fn words_keep_their_order_and_options_have_none() {
        let mut words =
            parse("smtp/* \"a \\\"b\\\\\" \t older=2h reason=\"x y\" empty= ").expect("fine");
        assert_eq!(
            words.option("reason").map(|word| (word.at, word.text)),
            Some((35, "x y".into()))
        );
        assert_eq!(words.next_word().map(|word| (word.at, word.text)), Some((0, "smtp/*".into())));
        assert_eq!(words.expect("it").map(|word| word.text), Ok("a \"b\\".to_string()));
        assert_eq!(words.option("empty").map(|word| word.text), Some(String::new()));
        assert_eq!(words.option("foo"), None);
        assert_eq!(words.clone().end(), Err(SyntaxError::new(25, "unknown option older=")));
        assert_eq!(words.expect("it"), Err(SyntaxError::new(48, "it is missing")));
        assert!(words.option("older").is_some() && words.end().is_ok());
    }

    #[test]
    fn option_requires_a_lower_case_name() {
        for text in ["local/a=b", "=x", "\"older=1\"", "A=b", "-=x", "a.b=c"] {
            let mut words = parse(text).expect("a word");
            assert!(words.next_word().is_some() && words.end().is_ok(), "{text}");
        }
        assert_eq!(parse("dry-run=yes").expect("an option").flag("dry-run"), Ok(true));
        let error = parse("dry-run=maybe").expect("an option").flag("dry-run");
        assert_eq!(error, Err(SyntaxError::new(8, "dry-run= is yes or no")));
    }

    #[test]
    fn syntax_error_has_its_offset() {
        for (text, at) in [
            ("a \"b", 2),
            ("a b\"c", 3),
            ("\"a\"b", 3),
            ("a\u{7f}", 1),
            ("x=1 x=2", 4),
            ("a\u{85}", 1),
        ] {
            assert_eq!(parse(text).map_err(|error| error.at), Err(at), "{text:?}");
        }
        assert_eq!(Arguments::parse(b"ab \xff").map_err(|error| error.at), Err(3));
        assert_eq!(Arguments::parse(b"a\0").map_err(|error| error.at), Err(1));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_within_the_text(
            bytes in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            if let Err(error) = Arguments::parse(&bytes) {
                prop_assert!(error.at <= bytes.len());
            }
        }

        #[test]
        fn malformed_line_fails_at_a_char_boundary(text in "[ab=\"\\\\ \t/é-]{0,30}") {
            if let Err(error) = parse(&text) {
                prop_assert!(error.at <= text.len() && text.is_char_boundary(error.at));
            }
        }

        #[test]
        fn quoted_words_parse_to_the_same_text(
            texts in prop::collection::vec("[ -~é]{0,12}", 0..6),
            value in "[ -~é]{0,12}",
        ) {
            let mut line: String = texts.iter().map(|text| quote(text) + "  ").collect();
            line += &format!("value={}", quote(&value));
            let mut words = parse(&line).expect("it was quoted");
            for text in texts {
                prop_assert_eq!(words.next_word().map(|word| word.text), Some(text));
            }
            prop_assert_eq!(words.option("value").map(|word| word.text), Some(value));
            prop_assert_eq!(words.end(), Ok(()));
        }
    }
}
