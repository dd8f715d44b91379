//! The text of a policy (RFC 8461 3.2).

use std::time::Duration;

/// Maximum value of `max_age`, in seconds: a year.
const MAX_AGE: u64 = 31_557_600;
/// Maximum number of patterns that are read.
const MAX_PATTERNS: usize = 100;

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StsPolicy {
    pub(crate) mode: StsMode,
    /// Patterns of exchangers, in lower case.
    pub(crate) mx: Vec<String>,
    pub(crate) max_age: Duration,
    /// Its lines, for reports and for the disk.
    pub(crate) lines: Vec<String>,
}

/// What a policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StsMode {
    /// Mail goes only to exchangers with valid certificates.
    Enforce,
    /// Failures are only reported.
    Testing,
    /// Nothing.
    None,
}

/// Why a policy cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StsPolicyError {
    #[error("it is not text")]
    NotText,
    #[error("it does not begin with `version: STSv1`")]
    Version,
    #[error("its mode is none of enforce, testing and none")]
    Mode,
    #[error("max_age is not a number of seconds")]
    MaxAge,
    #[error("it names no exchangers")]
    NoExchangers,
}

impl StsPolicy {
    pub(crate) fn parse(text: &[u8]) -> Result<StsPolicy, StsPolicyError> {
        let text = std::str::from_utf8(text).map_err(|_| StsPolicyError::NotText)?;
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.trim_end().to_string())
            .filter(|l| !l.is_empty())
            .collect();
        let fields: Vec<(&str, &str)> = lines
            .iter()
            .filter_map(|line| line.split_once(':'))
            .map(|(key, value)| (key.trim(), value.trim()))
            .collect();
        if fields.first() != Some(&("version", "STSv1")) {
            return Err(StsPolicyError::Version);
        }
        let field = |key| fields.iter().find(|(other, _)| *other == key).map(|(_, value)| *value);
        let mode = match field("mode") {
            Some("enforce") => StsMode::Enforce,
            Some("testing") => StsMode::Testing,
            Some("none") => StsMode::None,
            _ => return Err(StsPolicyError::Mode),
        };
        let max_age = field("max_age").and_then(|value| value.parse::<u64>().ok());
        let max_age = max_age.ok_or(StsPolicyError::MaxAge)?.min(MAX_AGE);
        let mx = fields.iter().filter(|(key, _)| *key == "mx");
        let mx = mx.map(|(_, value)| value.to_ascii_lowercase()).take(MAX_PATTERNS);
        let mx: Vec<String> = mx.collect();
        if mx.is_empty() && mode != StsMode::None {
            return Err(StsPolicyError::NoExchangers);
        }
        Ok(StsPolicy { mode, mx, max_age: Duration::from_secs(max_age), lines })
    }

    /// Returns true if the policy lists an exchanger (RFC 8461 4.1).
    ///
    /// A `*` stands for one label.
    pub(crate) fn lists(&self, exchanger: &str) -> bool {
        self.mx.iter().any(|pattern| match pattern.strip_prefix("*.") {
            Some(parent) => exchanger.split_once('.').is_some_and(|(_, rest)| rest == parent),
            None => pattern == exchanger,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POLICY: &str = "version: STSv1\r\nmode: enforce\r\nmx: Mail.example.com\r\nmx: *.example.net\r\n\
         x-new: 1\r\nmax_age: 604800\r\n";

    #[test]
    fn a_policy_lists_exchangers_by_name_and_by_one_label() {
        let policy = StsPolicy::parse(POLICY.as_bytes()).unwrap();
        assert_eq!((policy.mode, policy.max_age.as_secs()), (StsMode::Enforce, 604_800));
        let listed = [
            "mail.example.com",
            "a.example.net",
            "a.b.example.net",
            "example.net",
            "x.mail.example.com",
        ];
        assert_eq!(listed.map(|name| policy.lists(name)), [true, true, false, false, false]);
    }

    #[test]
    fn a_policy_that_cannot_be_used_is_refused() {
        let check = |from: &str, to: &str, expected| {
            let text = POLICY.replace(from, to);
            assert_ne!(text, POLICY);
            assert_eq!(StsPolicy::parse(text.as_bytes()), Err(expected));
        };
        check("STSv1", "STSv2", StsPolicyError::Version);
        check("enforce", "maybe", StsPolicyError::Mode);
        check("604800", "a week", StsPolicyError::MaxAge);
        check("mx:", "my:", StsPolicyError::NoExchangers);
        assert_eq!(StsPolicy::parse(b"\xff"), Err(StsPolicyError::NotText));
        assert_eq!(StsPolicy::parse(b""), Err(StsPolicyError::Version));
        let none = StsPolicy::parse(b"version: STSv1\nmode: none\nmax_age: 99999999999\n");
        assert_eq!(none.map(|policy| policy.max_age.as_secs()), Ok(MAX_AGE));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,20}(version: STSv1\n)?(\\PC{0,20}\n){0,3}") {
            if let Ok(policy) = StsPolicy::parse(text.as_bytes()) {
                let again = StsPolicy::parse(policy.lines.join("\n").as_bytes());
                prop_assert_eq!(again, Ok(policy));
            }
        }
    }
}
