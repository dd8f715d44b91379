//! Reads `sm.conf`, the list of mailers of ZMailer's agent `sm`.
//!
//! ```text
//! # mailer  flags  program        arguments, the program's name first
//! uucp      U      /usr/bin/uux   uux - -r -a$g -gC $h!rmail ($u)
//! usenet    m      ta/usenet      usenet $u
//! ```
//!
//! Fields are separated by blanks. There are no quotes. Lines that begin with a blank or with `#`
//! are comments. A relative program is one below MAILBIN.

use crate::flags::Flags;
use crate::mailer::Mailer;
use crate::word::Word;
use std::path::{Path, PathBuf};
use zsched_config::{Diagnostic, DiagnosticSink, Zenv};

/// Variable of the ZENV file: the folder of programs.
const MAILBIN: &str = "MAILBIN";

/// The mailers of a file.
pub struct SmConf {
    /// The mailers with errors are left out.
    pub mailers: Vec<Mailer>,
    /// Errors and warnings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl SmConf {
    /// Reads all mailers of a file, or only those of one name.
    ///
    /// So errors in other lines do not matter to an agent. `path` is for the diagnostics.
    pub fn parse(text: &[u8], path: &Path, only: Option<&str>, zenv: &Zenv) -> SmConf {
        let mut sink = DiagnosticSink::new(path.into(), text);
        let mut mailers: Vec<Mailer> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for (start, line) in lines(text) {
            let name = String::from_utf8_lossy(first_word(line)).into_owned();
            let is_wanted = only.is_none_or(|only| only == name);
            if names.contains(&name) {
                if is_wanted {
                    sink.warning(start, "this mailer is defined above; this line has no effect");
                }
                continue;
            }
            if is_wanted {
                mailers.extend(mailer(&name, start, line, zenv, &mut sink));
            }
            names.push(name);
        }
        if let Some(name) = only.filter(|only| !names.iter().any(|name| name == only)) {
            sink.file_error(format!("there is no mailer {name}; there are: {}", names.join(", ")));
        }
        SmConf { mailers, diagnostics: sink.finish() }
    }
}

/// Parses the line of a mailer, which begins at `start`.
fn mailer(
    name: &str,
    start: usize,
    line: &[u8],
    zenv: &Zenv,
    sink: &mut DiagnosticSink<'_>,
) -> Option<Mailer> {
    let line = std::str::from_utf8(line);
    let line = line.map_err(|e| sink.error(start + e.valid_up_to(), "this is not UTF-8")).ok()?;
    let line = &mut Line { rest: &line[name.len()..], at: start + name.len() };
    let Some((at, flags)) = line.word() else {
        sink.error(line.at, "the flags are missing; `-` stands for none");
        return None;
    };
    let (flags, unknown) = Flags::parse(flags);
    for offset in unknown {
        sink.warning(at + offset, "this flag has no meaning");
    }
    let Some((program_at, program)) = line.word() else {
        sink.error(line.at, "the program is missing");
        return None;
    };
    let mut words = Vec::new();
    let mut is_good = true;
    while let Some((at, text)) = line.word() {
        match Word::parse(text, zenv) {
            Ok(parsed) => {
                for (offset, name) in parsed.unknown_variables {
                    sink.warning(at + offset, format!("the ZENV file has no {name}"));
                }
                words.push(parsed.word);
            }
            Err(error) => {
                sink.error(at + error.at, error.message);
                is_good = false;
            }
        }
    }
    if words.is_empty() && is_good {
        sink.error(line.at, "the arguments are missing; the first one is the program's name");
        return None;
    }
    let program = program_path(program, zenv).map_err(|why| sink.error(program_at, why)).ok()?;
    is_good.then(|| Mailer { name: name.to_string(), flags, program, words })
}

/// The path of a program: absolute, or below MAILBIN.
pub fn program_path(program: &str, zenv: &Zenv) -> Result<PathBuf, String> {
    let program = zenv.expand(program);
    if program.starts_with('/') {
        return Ok(PathBuf::from(program));
    }
    match zenv.get(MAILBIN) {
        Some(folder) => Ok(Path::new(folder).join(program)),
        None => Err(format!("{program} is below {MAILBIN}, which the ZENV file does not have")),
    }
}

/// The lines of a file that are not comments, with their offsets.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    let lines = text.split(|byte| *byte == b'\n').map(move |line| {
        let start = at;
        at += line.len() + 1;
        (start, line)
    });
    lines.filter(|(_, line)| !matches!(line.first(), None | Some(b'#' | b' ' | b'\t' | b'\r')))
}

fn first_word(line: &[u8]) -> &[u8] {
    line.split(u8::is_ascii_whitespace).next().unwrap_or_default()
}

/// The rest of a line, and its offset in the file.
struct Line<'a> {
    rest: &'a str,
    at: usize,
}

impl<'a> Line<'a> {
    /// Takes the next word, with its offset in the file.
    fn word(&mut self) -> Option<(usize, &'a str)> {
        let text = self.rest.trim_ascii_start();
        let start = self.at + self.rest.len() - text.len();
        let length = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
        let (word, rest) = text.split_at(length);
        if word.is_empty() {
            return None;
        }
        (self.rest, self.at) = (rest, start + length);
        Some((start, word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    /// The sample file of ZMailer, in its form, with other programs.
    const SAMPLE: &str = "\
#\n# M\t\tF =\tP =\t\t\t\tA =\n\
uucp\t\tU\t/usr/bin/uux\t\t\tuux - -r -a$g -gC $h!rmail ($u)\n\
usenet\t\tm\tta/usenet\tusenet $u\n\n\
  # not a mailer\n\
bsmtp3\t\tsnmSX\t/usr/local/bin/bmail\tbmail -b $h $g $u\n\
procm\tsSPfn\t${PROCMAIL}\tprocmail -a $h -d $u\n";

    fn zenv() -> Zenv {
        Zenv::from_pairs([("MAILBIN", "/opt/zm"), ("PROCMAIL", "/usr/bin/procmail")])
    }

    fn check(text: impl AsRef<[u8]>, only: Option<&str>, expected: &Expect) {
        let conf = SmConf::parse(text.as_ref(), Path::new("sm.conf"), only, &zenv());
        let mut shown = String::new();
        for Mailer { name, program, words, .. } in &conf.mailers {
            shown += &format!("{name}: {} with {} words\n", program.display(), words.len());
        }
        for diagnostic in &conf.diagnostics {
            let severity = if diagnostic.is_error() { "error" } else { "warning" };
            shown += &format!("{severity}: {}\n", diagnostic.in_one_line());
        }
        expected.assert_eq(&shown);
    }

    #[test]
    fn sample_file_has_no_errors() {
        check(
            SAMPLE,
            None,
            &expect![[r#"
                uucp: /usr/bin/uux with 7 words
                usenet: /opt/zm/ta/usenet with 2 words
                bsmtp3: /usr/local/bin/bmail with 5 words
                procm: /usr/bin/procmail with 5 words
            "#]],
        );
        check(
            SAMPLE,
            Some("usenet"),
            &expect![[r#"
            usenet: /opt/zm/ta/usenet with 2 words
        "#]],
        );
    }

    const BAD: &[u8] = b"\
a\n\
b m\n\
c m /bin/c\n\
d mZ /bin/d d $x ${y ok$\n\
e - /bin/e e ${NONE}\n\
e - /bin/f f\n\
f m /bin/\xe4 f\n\
good - /bin/good good $u\r\n";

    #[test]
    fn errors_have_line_and_column() {
        check(
            BAD,
            None,
            &expect![[r#"
                e: /bin/e with 2 words
                good: /bin/good with 2 words
                error: sm.conf:1:2: the flags are missing; `-` stands for none
                error: sm.conf:2:4: the program is missing
                error: sm.conf:3:11: the arguments are missing; the first one is the program's name
                warning: sm.conf:4:4: this flag has no meaning
                error: sm.conf:4:15: there is no macro `$x`; there are $u, $U, $h, $g and ${NAME}
                error: sm.conf:4:18: `${` without `}`
                error: sm.conf:4:24: a `$` without a letter; there are $u, $U, $h, $g and ${NAME}
                warning: sm.conf:5:14: the ZENV file has no NONE
                warning: sm.conf:6:1: this mailer is defined above; this line has no effect
                error: sm.conf:7:10: this is not UTF-8
            "#]],
        );
    }

    #[test]
    fn errors_of_other_mailers_do_not_matter() {
        check(
            BAD,
            Some("good"),
            &expect![[r#"
            good: /bin/good with 2 words
        "#]],
        );
        check(
            BAD,
            Some("f"),
            &expect![[r#"
            error: sm.conf:7:10: this is not UTF-8
        "#]],
        );
        check(
            "a - b c\n",
            Some("no"),
            &expect![[r#"
            error: sm.conf: there is no mailer no; there are: a
        "#]],
        );
    }

    #[test]
    fn relative_program_requires_mailbin() {
        let conf = SmConf::parse(b"a - ta/b b\n", Path::new("sm.conf"), None, &Zenv::default());
        let expected = "sm.conf:1:5: ta/b is below MAILBIN, which the ZENV file does not have";
        assert_eq!(conf.diagnostics[0].in_one_line(), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(text: Vec<u8>) {
            SmConf::parse(&text, Path::new("sm.conf"), None, &zenv());
        }

        #[test]
        fn any_fields_are_read(text in "([a-c$#{}]| |\t|\n|\r|é){0,60}") {
            SmConf::parse(text.as_bytes(), Path::new("sm.conf"), Some("a"), &zenv());
        }
    }
}
