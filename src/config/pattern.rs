//! Selection patterns: `channel/host`, each half in ZMailer's pattern language.
//!
//! ```text
//! *  any text      ?  any one character     [abc]  one of these: there are no ranges
//! \c c itself      {a,b}  one of these texts, at the end only     [^abc]  one character but these
//! ```
//!
//! A `/` in a name is an ordinary character.
//! Names are already in lower case, and may contain any bytes.

use super::diagnostic::{ValueError, quote};
use std::borrow::Cow;
use std::str::Chars;

/// Maximum length of a pattern, in bytes; a domain name has at most 255.
const MAX_PATTERN_LEN: usize = 1024;

/// Selects the destinations of a clause.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Matches the channel.
    pub channel: Glob,
    /// Matches the host.
    pub host: Glob,
}

impl Pattern {
    /// Parses a pattern. Probable mistakes are added to `warnings`.
    pub fn parse(text: &str, warnings: &mut Vec<ValueError>) -> Result<Pattern, ValueError> {
        if text.len() > MAX_PATTERN_LEN {
            let message = format!("a pattern of more than {MAX_PATTERN_LEN} bytes");
            return Err(ValueError::new(0, message));
        }
        let (channel, host) = text.split_once('/').unwrap_or((text, ""));
        if channel.is_empty() {
            return Err(ValueError::new(0, "no channel before the slash; * stands for any"));
        }
        let host_start = (channel.len() + 1).min(text.len());
        let host = if host.is_empty() { "*" } else { host };
        let channel = Glob::parse(channel, 0, warnings)?;
        Ok(Pattern { channel, host: Glob::parse(host, host_start, warnings)? })
    }

    /// Returns true if the pattern selects this destination.
    pub fn matches(&self, channel: &Name<'_>, host: &Name<'_>) -> bool {
        self.channel.matches(channel) && self.host.matches(host)
    }

    /// Returns true if the pattern selects every destination.
    pub fn matches_everything(&self) -> bool {
        self.channel.matches_everything() && self.host.matches_everything()
    }
}

/// The name of a channel or host, for patterns.
pub struct Name<'a>(Cow<'a, str>);

impl<'a> Name<'a> {
    /// Converts a name of any bytes. A name that is not UTF-8 is read as Latin-1.
    pub fn new(bytes: &'a [u8]) -> Name<'a> {
        Name(match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()),
        })
    }
}

/// The pattern of a channel or of a host.
#[derive(Clone, Debug)]
pub struct Glob {
    /// The pattern as written in the file.
    pub text: String,
    elements: Vec<Element>,
    /// Texts between braces, of which one ends the name.
    endings: Option<Vec<String>>,
}

/// One element of a pattern.
#[derive(Clone, Debug)]
enum Element {
    AnyText,
    AnyChar,
    Literal(char),
    Set { is_negated: bool, members: String },
}

impl Glob {
    /// Parses one half of a pattern.
    ///
    /// It begins at byte `start` of the whole.
    pub fn parse(
        text: &str,
        start: usize,
        warnings: &mut Vec<ValueError>,
    ) -> Result<Glob, ValueError> {
        let mut glob = Glob { text: text.to_string(), elements: Vec::new(), endings: None };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let at = start + text.len() - rest.len();
            let unfinished = |message: &str| ValueError::new(at, message);
            let mut warn = |at, message: String| warnings.push(ValueError::new(at, message));
            rest = &rest[first.len_utf8()..];
            let element = match first {
                '*' => {
                    rest = rest.trim_start_matches('*');
                    Element::AnyText
                }
                '?' => Element::AnyChar,
                '[' => {
                    let message = "this `[` has no `]`; a plain one is written `\\[`";
                    let (set, after) = rest.split_once(']').ok_or_else(|| unfinished(message))?;
                    rest = after;
                    let (is_negated, members) =
                        set.strip_prefix('^').map_or((false, set), |members| (true, members));
                    if members.is_empty() && !is_negated {
                        warn(at, "a set without members never matches".to_string());
                    } else if looks_like_address(members) {
                        let message = "this is any one of these characters; an address is written";
                        warn(at, format!("{message} `\\[{members}\\]`"));
                    }
                    Element::Set { is_negated, members: members.to_string() }
                }
                '{' => {
                    let message = "this `{` has no `}`; a plain one is written `\\{`";
                    let (endings, after) =
                        rest.split_once('}').ok_or_else(|| unfinished(message))?;
                    if !after.is_empty() {
                        let at = at + endings.len() + "{}".len();
                        warn(at, format!("{} after the braces is ignored", quote(after)));
                    } else if endings.chars().any(char::is_uppercase) {
                        let message = "names are compared in lower case, so capitals never match";
                        warn(at, message.to_string());
                    }
                    glob.endings = Some(endings.split(',').map(str::to_string).collect());
                    break;
                }
                _ => {
                    let mut literal = first;
                    if first == '\\' {
                        let message =
                            "a character is missing after this `\\`; a plain one is written `\\\\`";
                        literal = rest.chars().next().ok_or_else(|| unfinished(message))?;
                        rest = &rest[literal.len_utf8()..];
                    }
                    if literal.is_uppercase() {
                        let message = "names are compared in lower case, so a capital";
                        warn(at, format!("{message} `{literal}` never matches"));
                    }
                    Element::Literal(literal)
                }
            };
            glob.elements.push(element);
        }
        Ok(glob)
    }

    /// Returns true if the pattern matches this name.
    pub fn matches(&self, name: &Name<'_>) -> bool {
        let starts_match = |start: &str| matches(&self.elements, start.chars());
        match &self.endings {
            None => starts_match(&name.0),
            Some(endings) => {
                endings.iter().filter_map(|ending| name.0.strip_suffix(&**ending)).any(starts_match)
            }
        }
    }

    /// Returns true if the pattern matches every name.
    pub fn matches_everything(&self) -> bool {
        matches!(self.elements[..], [Element::AnyText]) && self.endings.is_none()
    }

    /// The only name that the pattern matches, if there is only one.
    pub(crate) fn literal(&self) -> Option<String> {
        let literal = |element: &Element| match element {
            Element::Literal(character) => Some(*character),
            _ => None,
        };
        let name = self.elements.iter().map(literal).collect();
        if self.endings.is_none() { name } else { None }
    }

    /// A name that the pattern matches, and other patterns match only if they are as wide.
    ///
    /// `None` if the pattern has a set.
    pub(crate) fn sample(&self) -> Option<String> {
        let part = |element: &Element| match element {
            // No configuration names such a host.
            Element::AnyText => Some("\u{1}\u{1}".to_string()),
            Element::AnyChar => Some("\u{1}".to_string()),
            Element::Literal(character) => Some(character.to_string()),
            Element::Set { .. } => None,
        };
        let name: String = self.elements.iter().map(part).collect::<Option<_>>()?;
        let ending = self.endings.iter().flatten().next();
        Some(name + ending.map_or("", String::as_str))
    }

    /// The text of the pattern; `*` for all patterns that match every name.
    pub fn key(&self) -> &str {
        if self.matches_everything() { "*" } else { &self.text }
    }
}

/// Returns true if the elements match all of a name.
fn matches(mut elements: &[Element], mut name: Chars<'_>) -> bool {
    // Where to try again: after the last `*`, which takes one more character.
    let mut again: Option<(&[Element], Chars<'_>)> = None;
    loop {
        match (elements.split_first(), name.clone().next()) {
            (None, None) => return true,
            // The pattern of most clauses.
            (Some((Element::AnyText, [])), _) => return true,
            (Some((Element::AnyText, rest)), _) => {
                again = Some((rest, name.clone()));
                elements = rest;
            }
            (Some((element, rest)), Some(c)) if element.matches(c) => {
                elements = rest;
                name.next();
            }
            _ => match &mut again {
                Some((rest, from)) => {
                    if from.next().is_none() {
                        return false;
                    }
                    (elements, name) = (*rest, from.clone());
                }
                None => return false,
            },
        }
    }
}

impl Element {
    /// Returns true if the element matches this character.
    fn matches(&self, c: char) -> bool {
        match self {
            Element::AnyText | Element::AnyChar => true,
            Element::Literal(literal) => *literal == c,
            Element::Set { is_negated, members } => members.contains(c) != *is_negated,
        }
    }
}

/// Returns true if a set looks like an address literal, such as `[127.0.0.1]`.
fn looks_like_address(members: &str) -> bool {
    let literal = members.strip_prefix("ipv6:").unwrap_or(members);
    literal.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn glob(text: &str) -> Glob {
        Glob::parse(text, 0, &mut Vec::new()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn matches(pattern: &str, name: impl AsRef<[u8]>) -> bool {
        glob(pattern).matches(&Name::new(name.as_ref()))
    }

    #[test]
    fn recorded_patterns_match_as_in_the_original() {
        // Not included: `[^ab]c` and `\[`, which the original never matches as intended, and `\*x`,
        // where the original skips more than the star.
        for (pattern, name, expected) in [
            ("*.b.test", "a.b.test", true),
            ("*.b.test", "b.test", false),
            ("*.b.test", "x.y.b.test", true),
            ("A.test", "a.test", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a?c", "abbc", false),
            ("[ab]c", "ac", true),
            ("[ab]c", "cc", false),
            ("[a-c]x", "bx", false),
            ("[a-c]x", "-x", true),
            ("{foo,bar}", "foo", true),
            ("{foo,bar}", "bar", true),
            ("{foo,bar}", "ba", false),
            ("x.{foo,bar}", "x.bar", true),
            ("{a,b}.test", "a.test", false),
            ("x.{foo,bar}y", "x.foo", true),
            ("*{foo,bar}", "xfoo", true),
            ("*.{foo,bar}", "x.bar", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abcd", false),
            ("*a*", "bab", true),
            ("*a*", "bbb", false),
            ("a*", "a", true),
            ("*", "anything", true),
            ("\\*x", "*x", true),
            ("\\*x", "ax", false),
            ("a\\?c", "a?c", true),
            ("a\\?c", "axc", false),
            ("a\\bc", "abc", true),
            ("[!ab]c", "cc", false),
            ("a**b", "axb", true),
            ("?", "a", true),
            ("?*", "abc", true),
            ("*.test", ".test", true),
            ("[]a]b", "ab", false),
            ("a.b", "axb", false),
            ("*x?", "axb", true),
            ("*[0-9]", "a5", false),
            ("[127.0.0.1]", "[127.0.0.1]", false),
            ("*127*", "[127.0.0.1]", true),
            ("{a*,b}", "a*", true),
            ("{a*,b}", "axx", false),
            ("x{,y}", "x", true),
            ("x{,y}", "xy", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_broken_in_original_match_as_documented() {
        for (pattern, name, expected) in [
            ("[^ab]c", "cc", true),
            ("[^ab]c", "ac", false),
            ("[^ab]c", "c]c", false),
            ("\\[127.0.0.1\\]", "[127.0.0.1]", true),
            ("\\[127.0.0.1\\]", "[127.0.0.2]", false),
            ("\\*x", "*zzx", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn sets_contain_no_ranges_and_no_bang_negation() {
        for (set, members) in [
            ("[!]", "!"),
            ("[-]", "-"),
            ("[!-]", "!-"),
            ("[-!]", "!-"),
            ("[a!-z]", "a!-z"),
            ("[--a]", "-a"),
            ("[!a]", "!a"),
            ("[a^]", "a^"),
            ("[[]", "["),
            ("[\\]", "\\"),
            ("[*?]", "*?"),
            ("[]", ""),
        ] {
            let negated = set.replacen('[', "[^", 1);
            for c in "!-az^[]\\*?bé/.".chars() {
                assert_eq!(matches(set, c.to_string()), members.contains(c), "{set} {c}");
                assert_eq!(matches(&negated, c.to_string()), !members.contains(c), "{negated} {c}");
            }
        }
    }

    #[test]
    fn names_of_any_bytes_are_matched() {
        assert!(matches("a*z", b"a\xff\xfez"));
        assert!(matches("a??z", b"a\xff\xfez"));
        assert!(matches("é", "é"));
        assert!(matches("é", b"\xe9"));
        assert!(matches("a*z", "a/b/../z"));
        assert!(matches("?b", "/b"));
        assert!(matches("*", ""));
        assert!(matches("*", ".hidden"));
    }

    #[test]
    fn pattern_splits_at_first_slash() {
        let mut warnings = Vec::new();
        for (text, channel, host) in [
            ("c", "c", "*"),
            ("c/", "c", "*"),
            ("c/a.test", "c", "a.test"),
            ("c/a/b", "c", "a/b"),
            ("*", "*", "*"),
        ] {
            let pattern = Pattern::parse(text, &mut warnings).expect(text);
            assert_eq!((&*pattern.channel.text, &*pattern.host.text), (channel, host), "{text}");
            assert_eq!(pattern.matches_everything(), text == "*", "{text}");
        }
        assert_eq!(warnings, []);
    }

    #[test]
    fn invalid_patterns_report_position_and_reason() {
        for (text, at, message) in [
            ("/a", 0, "no channel before the slash; * stands for any"),
            ("c/[ab", 2, "this `[` has no `]`; a plain one is written `\\[`"),
            ("c/x{a,b", 3, "this `{` has no `}`; a plain one is written `\\{`"),
            ("c/x\\", 3, "a character is missing after this `\\`; a plain one is written `\\\\`"),
        ] {
            let error = Pattern::parse(text, &mut Vec::new()).expect_err(text);
            assert_eq!(error, ValueError::new(at, message), "{text}");
        }
        assert!(Pattern::parse(&"*a".repeat(600), &mut Vec::new()).is_err());
    }

    #[test]
    fn suspicious_patterns_produce_warnings() {
        for (text, at, part) in [
            ("c/a.Test", 4, "capital `T`"),
            ("c/[127.0.0.1]", 2, "`\\[127.0.0.1\\]`"),
            ("c/[ipv6:::1]", 2, "address"),
            ("c/x.{a,b}y", 9, "`y` after the braces"),
            ("c/{A,b}", 2, "capitals"),
            ("c/[]x", 2, "without members"),
        ] {
            let mut warnings = Vec::new();
            Pattern::parse(text, &mut warnings).expect(text);
            assert_eq!(warnings.len(), 1, "{text}: {warnings:?}");
            assert_eq!(warnings[0].at, at, "{text}");
            assert!(warnings[0].message.contains(part), "{text}: {}", warnings[0].message);
        }
    }

    proptest! {
        #[test]
        fn any_pattern_and_name_do_not_panic(text in "([a!^*?{},./\\[\\]\\\\é-]){0,20}", name: Vec<u8>) {
            if let Ok(pattern) = Pattern::parse(&text, &mut Vec::new()) {
                pattern.matches(&Name::new(&name), &Name::new(&name));
            }
        }

        #[test]
        fn escaped_text_matches_itself(text in "[a!^*?{},./\\[\\]\\\\é-]{1,9}", other: String) {
            let escaped: String = text.chars().flat_map(|c| ['\\', c]).collect();
            prop_assert!(matches(&escaped, &text));
            prop_assert_eq!(matches(&escaped, &other), other == text);
            let (ending, longer) = (format!("*{escaped}"), format!("{other}{text}"));
            prop_assert!(matches(&ending, longer));
        }
    }
}
